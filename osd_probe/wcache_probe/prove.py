"""`wcache-probe prove`: does the toggle of a drive behind a translation take, both ways?

One blank drive stands for its model behind its adapter.  Journal, pin, read back, both ways and
directions, and the prior state again: the order of any change.  After a crash the probe's next
start, or `restore --all`, brings the prior state back.

With --in-place a drive is tried as it is used: beside the traffic of its OSD, with nothing written.
Its cache must be on.  Off is safe whatever an adapter does with flushes, and on again is what
it was; only a cache that was off could become a danger by flushes that are swallowed.
"""

from __future__ import annotations

import argparse
import mmap
import os
import random
import secrets
import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from statistics import median
from typing import Callable, ContextManager, Dict, List, Optional, Tuple, Union

from wcache.core.drive.journal import JOURNAL_VERSION, EntryKind, JournalEntry, prior_of
from wcache.core.drive.safety import why_not_tried
from wcache.core.errors import RefusedError, WcacheError
from wcache.core.host_report import DISAGREED_MAX, ToggleProof
from wcache.core.loads import flush_floor_us
from wcache.core.model import CacheMode, DriveReport, KernelView, Transport
from wcache.core.text import latency, table

from .evidence import EvidenceFolder
from .linux.block import sysfs
from .linux.block.host_files import HostFiles, write_attribute
from .linux.block.sysfs import BlockDevice
from .linux.host import LinuxDriveHost
from .linux.transports.sata import SataHbaSwitch
from .matrix.scratch import Scratch, find, on_one_drive
from .switcher import Switcher
from .switching import toggle
from .switching.steps import Program, Switched, WriteJournal

LIES = "says"
ROUNDS = 25
BLOCK_BYTES = 4096


@dataclass(frozen=True)
class FlushTimes:
    """Medians, in microseconds: a write of 4 KiB, the flush after it, a flush after that."""

    write_us: float
    dirty_flush_us: float
    clean_flush_us: float


@dataclass(frozen=True)
class Found:
    """What a trial has shown; `disagreed` is empty where the combination is proven.

    `by_page`: MODE SELECT is the way that holds, and pass-through is not.
    """

    by_page: bool
    disagreed: Tuple[str, ...]
    times: Dict[CacheMode, FlushTimes]


Measure = Callable[[], FlushTimes]


def rescan(device: BlockDevice) -> None:
    """Have the kernel read anew what the disk says (drivers/scsi/scsi_sysfs.c, rescan)."""
    write_attribute(os.path.join(device.folder, "device", "rescan"), "1")


@dataclass
class Prover:
    """One drive, held open; `measure` writes to it and times flushes in the mode it is in.

    Without that nothing is written, so whether a flush is swallowed is not found.
    """

    device: BlockDevice
    switch: SataHbaSwitch
    measure: Optional[Measure]
    rescan: Callable[[BlockDevice], None] = rescan
    _times: Dict[CacheMode, FlushTimes] = field(default_factory=dict)

    def run(self, before: CacheMode) -> Found:
        """Toggle there and back by each way; whatever fails is part of what is found."""
        ways: List[Tuple[str, Callable[[BlockDevice, CacheMode], None]]] = [
            ("ATA PASS-THROUGH", self.switch.by_ata.set_cache),
            ("the mode page", self.switch.by_page.set_cache),
        ]
        wrong: List[List[str]] = []
        for name, way in ways:
            said: List[str] = []
            for mode in (before.other, before):
                said += self._toggle(name, way, mode)
                if said:
                    break
            wrong.append(said)
        by_ata, by_page = wrong
        disagreed = [*by_ata, *by_page] if by_ata and by_page else []
        # a way that is refused may be left; one that takes and lies makes the other doubtful
        disagreed += [line for line in (*by_ata, *by_page) if LIES in line]
        disagreed += self._swallowed()
        lines = tuple(dict.fromkeys(disagreed))[:DISAGREED_MAX]
        return Found(bool(by_ata) and not by_page, lines, dict(self._times))

    def _toggle(
        self, name: str, way: Callable[[BlockDevice, CacheMode], None], mode: CacheMode
    ) -> List[str]:
        try:
            self.switch.flush(self.device)
            way(self.device, mode)
        except WcacheError as error:
            return [f"to {mode.value} by {name}: {error.message}"]
        wrong = self._compare(f"to {mode.value} by {name}", mode)
        if wrong:
            return wrong
        if mode not in self._times and self.measure is not None:
            self._times[mode] = self.measure()
        try:
            self.rescan(self.device)
        except WcacheError as error:
            return [f"rescan: {error.message}"]
        return self._compare(f"to {mode.value} by {name}, after a rescan", mode)

    def _compare(self, what: str, mode: CacheMode) -> List[str]:
        """What does not say `mode`, and where the kernel would not flush."""
        try:
            own: Optional[CacheMode] = self.switch.by_ata.read(self.device).device_cache.mode
        except WcacheError as error:
            return [f"{what}: {error.message}"]
        wrong = []
        if own is not mode:
            wrong.append(f"{what}: IDENTIFY DEVICE {LIES} {own.value if own else 'nothing'}")
        page = self.switch.page_mode(self.device)
        if page is not None and page is not mode:
            wrong.append(f"{what}: the mode page {LIES} {page.value}")
        if self.device.kernel_view is not KernelView.WRITE_BACK:
            wrong.append(f"{what}: the pin {LIES} no longer write back")
        return wrong

    def _swallowed(self) -> List[str]:
        """Whether flushes are answered by somebody who does not carry them out.

        With capacitors both are fast; a drive that is slow without its cache cannot have
        made a dirty block safe in less.
        """
        back = self._times.get(CacheMode.WRITE_BACK)
        through = self._times.get(CacheMode.WRITE_THROUGH)
        if back is None or through is None:
            return []
        floor_us = flush_floor_us(self.device.rotational)
        if back.dirty_flush_us >= floor_us or through.write_us < floor_us:
            return []
        return [
            f"a flush of written data takes {back.dirty_flush_us:.0f} us, while a write without "
            f"the cache takes {through.write_us:.0f} us: the flush is swallowed"
        ]


def measure(scratch: Scratch, seed: int) -> FlushTimes:
    """Single writes at random places, each with a flush, and one more flush after it."""
    draw = random.Random(seed)
    blocks = scratch.span // BLOCK_BYTES
    times: List[Tuple[int, int, int]] = []
    scratch.check()
    with scratch.opened() as fd, mmap.mmap(-1, BLOCK_BYTES) as block:
        block[:] = os.urandom(BLOCK_BYTES)
        for _ in range(ROUNDS):
            at = scratch.offset_of(draw.randrange(blocks))
            with scratch.writing():
                begin = time.perf_counter_ns()
                os.pwritev(fd, [block], at)
                written = time.perf_counter_ns()
                os.fdatasync(fd)
                flushed = time.perf_counter_ns()
                os.fdatasync(fd)
                ended = time.perf_counter_ns()
            times.append((written - begin, flushed - written, ended - flushed))
    write, dirty, clean = (median(each) / 1e3 for each in zip(*times))
    return FlushTimes(write, dirty, clean)


@dataclass(frozen=True)
class InPlace:
    """What stands for scratch space: of the drive's content nothing is claimed or touched."""

    drive: DriveReport
    harm: str = "its OSD waits for a moment at each toggle"

    def held(self) -> ContextManager[None]:
        """Nobody is kept away: its OSD goes on."""
        return nullcontext()

    def claim(self) -> None:
        """Nothing is marked."""


def in_place(files: HostFiles, host: LinuxDriveHost, path: str) -> InPlace:
    """The drive at a path such as /dev/sdx; RefusedError where that is no drive itself."""
    device, drive = on_one_drive(files, host, path)
    if drive.dev_name != device.name:
        raise RefusedError(
            f"{device.name} is no drive", "name the drive itself; `lsblk -s` shows what is below"
        )
    return InPlace(drive)


PROVE = "prove"
IN_PLACE = "what needs no blank drive is compared with --in-place, beside its OSD"
Say = Callable[[str], None]
Place = Union[Scratch, InPlace]


def prove(
    options: argparse.Namespace, host: LinuxDriveHost, switcher: Switcher, say: Say
) -> int:
    """0 where the combination is proven, 1 where it is not."""
    switcher.refuse_owed()
    files = HostFiles()
    scratch: Place = (
        in_place(files, host, options.device) if options.in_place
        else find(files, host, options.device, instead=f"; {IN_PLACE}")
    )
    drive = scratch.drive
    mode = refuse(drive, scratch, options.consent)
    say(f"{drive.dev_name} ({drive.drive_model}) behind {drive.host_driver}: pinned, toggled both "
        f"ways by two ways, and put back to {mode.value}")
    with host.held_to_prove(drive):
        pass  # what speaks against it is said before anything is written
    found = run(host, switcher, scratch, mode)
    proof = proof_of(found, drive, options.hostname, timed=not options.in_place)
    print("\n".join(lines(proof, found)))
    path = EvidenceFolder(options.state_dir).put_proof(proof)
    print(f"kept in {path}; the probe of this host reports it to the mgr, which passes it on to "
          "the other hosts")
    return 1 if proof.disagreed else 0


def refuse(drive: DriveReport, scratch: Place, consent: bool) -> CacheMode:
    """The mode the drive is in; RefusedError where it may not be tried."""
    if drive.transport is not Transport.SATA_HBA:
        raise RefusedError(
            f"{drive.dev_name} is {drive.transport.value}, which needs no proof or takes none",
            "prove a SATA drive behind a SAS adapter",
        )
    if drive.uses and not isinstance(scratch, InPlace):
        raise RefusedError(
            f"{drive.dev_name} serves osd.{drive.uses[0].osd_id}",
            f"give a drive that is unused; {IN_PLACE}",
        )
    if drive.mode is None:
        raise RefusedError(
            f"{drive.dev_name}: not proven, since the drive itself cannot be read "
            f"({drive.toggle_refusal or 'its cache state is unknown'})",
            "this combination stays refused; `hdparm -I` and `sg_sat_identify` show what the "
            "adapter lets through, a newer firmware may let more",
        )
    why = why_not_tried(drive)
    if why:
        raise RefusedError(
            f"{drive.dev_name} is left alone: {why}",
            "end that, or give another drive of this model, which nothing else uses",
        )
    # it would be left worse than it is
    if isinstance(scratch, InPlace) and drive.mode is not CacheMode.WRITE_BACK:
        raise RefusedError(
            f"the cache of {drive.dev_name} is off, and is not turned on under an OSD while "
            "flushes may be swallowed", "give a blank drive of its model, without --in-place",
        )
    if not consent:
        raise RefusedError(
            f"this toggles the cache of {drive.dev_name} behind a translation that nobody has "
            f"proven, and {scratch.harm}", "consent with --consent",
        )
    return drive.mode


def trial_on(
    device: sysfs.BlockDevice, switch: SataHbaSwitch, scratch: Place, mode: CacheMode
) -> Found:
    """The trial itself, on a drive that is pinned."""
    if isinstance(scratch, InPlace):
        return Prover(device, switch, None).run(mode)
    return Prover(device, switch, lambda: measure(scratch, secrets.randbits(32))).run(mode)


def entry_of(drive: DriveReport) -> JournalEntry:
    """What the journal keeps while a drive is tried."""
    return JournalEntry(
        JOURNAL_VERSION, EntryKind.LEASE, f"{PROVE}.{secrets.token_hex(4)}", drive.domain_id,
        prior_of((drive,)), time.time(),
    )


def run(
    host: LinuxDriveHost, switcher: Switcher, scratch: Place, mode: CacheMode,
    trial: Callable[..., Found] = trial_on,
) -> Found:
    """The trial, between a journal entry and the prior state."""
    domain_id = scratch.drive.domain_id
    with scratch.held(), switcher.alone(domain_id):
        drive = host.again(scratch.drive)
        if refuse(drive, scratch, consent=True) is not mode:
            raise RefusedError(f"{drive.dev_name} is no longer in {mode.value}", "start again")
        with host.held_to_prove(drive):
            pass  # the boot rule may have gone before the lock was ours
        scratch.claim()
        entry = entry_of(drive)
        try:
            switcher.run(domain_id, begin(entry, drive))
            with host.held_to_prove(drive) as (device, switch):
                return trial(device, switch, scratch, mode)
        finally:
            switcher.put_back(domain_id, entry.owner_id)


def begin(entry: JournalEntry, drive: DriveReport) -> Program:
    """Journal, pin, and prove the pin: nothing of the drive is touched before."""
    yield WriteJournal(entry)
    state = yield from toggle.pin(drive)
    return Switched((drive.state,), (state,), changed=False)


def proof_of(
    found: Found, drive: DriveReport, hostname: str, *, timed: bool = True
) -> ToggleProof:
    """What others are told of a trial."""
    def times(mode: CacheMode) -> tuple[float, ...]:
        of = found.times.get(mode)
        return (of.write_us, of.dirty_flush_us, of.clean_flush_us) if of else ()

    disagreed = found.disagreed
    if timed and not disagreed and len(found.times) < len(CacheMode):
        disagreed = ("flushes could not be timed in both modes",)
    return ToggleProof(
        drive.host_driver, drive.drive_model, found.by_page, disagreed,
        times(CacheMode.WRITE_BACK), times(CacheMode.WRITE_THROUGH), hostname, drive.drive_id,
        time.time(),
    )


def lines(proof: ToggleProof, found: Found) -> list[str]:
    """The answer in words, and what flushes took."""
    combination = f"{proof.host_driver} with {proof.drive_model}"
    if proof.disagreed:
        said = [f"NOT PROVEN: {combination}", *(f"  {line}" for line in proof.disagreed)]
    else:
        way = "the mode page" if proof.by_page else "ATA PASS-THROUGH"
        said = [f"proven: {combination}; it is toggled by {way}"]
    if proof.in_place:
        said.append(
            "no flush was timed: drives of it are toggled on this host if their cache is found on, "
            "and never turned on if it is found off; a blank drive shows the rest"
        )
    rows = [
        (mode.value, *map(latency, (of.write_us, of.dirty_flush_us, of.clean_flush_us)))
        for mode, of in found.times.items()
    ]
    heads = ("MODE", "WRITE", "DIRTY FLUSH", "CLEAN FLUSH")
    return [*said, table(heads, rows)] if rows else said
