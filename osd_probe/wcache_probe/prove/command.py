"""`wcache-probe prove`: one blank drive stands for its model behind its adapter.

Journal, pin, read back, both ways and directions, and the prior state again: the order of any
change.  After a crash the probe's next start, or `restore --all`, brings the prior state back.

With --in-place a drive is tried as it is used: beside the traffic of its OSD, with nothing written.
Its cache must be on.  Off is safe whatever an adapter does with flushes, and on again is what
it was; only a cache that was off could become a danger by flushes that are swallowed.
"""

from __future__ import annotations

import argparse
import secrets
import time
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Callable, ContextManager, Union

from wcache.core.drive.journal import JOURNAL_VERSION, EntryKind, JournalEntry, prior_of
from wcache.core.drive.safety import why_not_tried
from wcache.core.errors import NotReadyError, RefusedError, WcacheError
from wcache.core.host_report import ToggleProof
from wcache.core.model import CacheMode, DriveReport, KernelView, Transport
from wcache.core.text import latency, table

from ..evidence.folder import EvidenceFolder
from ..linux.block import sysfs
from ..linux.block.host_files import HostFiles
from ..linux.host import LinuxDriveHost
from ..linux.transports.sata import SataHbaSwitch
from ..matrix.scratch import Scratch, find, on_one_drive
from ..switcher import Switcher
from ..switching.steps import Pin, Program, ReadState, Switched, WriteJournal
from .trial import Found, Trial, measure


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
            "see doc/hardware.md",
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
        return Trial(device, switch, None).run(mode)
    return Trial(device, switch, lambda: measure(scratch, secrets.randbits(32))).run(mode)


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
            put_back(switcher, entry)


def begin(entry: JournalEntry, drive: DriveReport) -> Program:
    """Journal, pin, and prove the pin: nothing of the drive is touched before."""
    yield WriteJournal(entry)
    yield Pin(drive)
    state = yield ReadState(drive)
    if state is None or not state.pinned or state.kernel_view is not KernelView.WRITE_BACK:
        raise RefusedError(
            f"the kernel view of {drive.dev_name} could not be pinned",
            "nothing was toggled; look at the kernel's log, and at "
            f"/sys/block/{drive.dev_name}/queue/write_cache",
        )
    return Switched((drive.state,), (state,), changed=False)


def put_back(switcher: Switcher, entry: JournalEntry) -> None:
    """Bring back what was there before; NotReadyError where that fails."""
    if switcher.entry_at(entry.key) is None:
        return
    try:
        switcher.restore(entry)
    except WcacheError as error:
        raise NotReadyError(
            f"the prior cache state is not back: {error.line()}",
            "run `wcache-probe restore --all`; the drive is pinned, so nothing is lost meanwhile",
        ) from None


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
