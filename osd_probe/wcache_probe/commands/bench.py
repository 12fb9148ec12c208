"""`wcache-probe bench`, `time`: score one device by what commits take on it, or time flushes.

It needs no mgr and no right in a cluster.  By itself it only reads and flushes, so any device
will do, also an OSD's.  With --consent it writes to a blank one that nothing uses, and in both
cache modes where its drive may be toggled; it refuses what `matrix` and `witness` refuse.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from wcache.core.codec import to_plain
from wcache.core.drive.safety import Safety, judge, not_named
from wcache.core.errors import RefusedError
from wcache.core.experiment.matrix import Cell, Pattern, Sync
from wcache.core.experiment.observed import IDLE_WRITES_PER_S
from wcache.core.figures.latency_table import HEADINGS, LatencyTable, of_samples, row
from wcache.core.loads import MATERIAL_RATIO
from wcache.core.model import CacheMode, DeviceCache, DriveReport, KernelView, LayerKind, Transport
from wcache.core.text import before_after, command, latency, table, typed

from ..linux.block.host_files import HostFiles
from ..linux.block.sysfs import BlockDevice, by_path, paths_down
from ..linux.host import LinuxDriveHost
from ..linux.timing import time_flushes
from ..linux.transports.loop import refuse_false_flush
from ..matrix.cells import measure
from ..matrix.command import medians, plan_of, why_not_toggled
from ..matrix.measurement import MatrixMeasurement
from ..matrix.scratch import MIB, Scratch, find, on_one_drive
from ..stop_signal import StopSignal
from ..switcher import Switcher
from ..witness.disk import refuse_shared
from .inspect import Inspected, Reason, inspected, next_step

FORMAT_VERSION = 1
FLUSHES, FLUSHES_S, FLUSH_LIMIT_MS = 300, 5.0, 10_000.0
COMMIT = Cell(Pattern.RANDOM, Sync.FDATASYNC, 1)  # as BlueStore's log: a write, then a flush
PAIRS = 8  # that all of them agree by chance has a probability of 2 / 2**8, below 1%
PERIOD_S = 0.5
SLOW_FLUSH_US = 1000.0
STALL_US, STALL_RATIO = 100_000.0, 10.0  # both: a slow drive stalls later than a fast one
FLUSH, WRITE = "flush with nothing to write", "write of 4 KiB with its flush"


@dataclass(frozen=True)
class Timed:
    """What was timed, in which cache mode (None: not known), in us."""

    what: str
    mode: Optional[CacheMode]
    us: LatencyTable


@dataclass(frozen=True)
class Benched:
    """A device with all that was found of it."""

    device: str
    scored: Inspected
    timed: Tuple[Timed, ...]
    following: str
    pairs: int = 0
    one_mode: str = ""  # why only the mode that was there has been measured


def bench(options: argparse.Namespace, host: LinuxDriveHost) -> int:
    """Time flushes of any device, with nothing toggled or written; 1 where it is unsafe."""
    files = HostFiles()
    device, drive = on_one_drive(files, host, options.device)
    timed: Tuple[Timed, ...] = ()
    # to a loop device a file system answers, whatever the kernel believes of it
    if device.kernel_view is not KernelView.WRITE_THROUGH or drive.transport is Transport.LOOP:
        found_us = of_samples(time_flushes(device, FLUSHES, FLUSHES_S, FLUSH_LIMIT_MS).samples_ns)
        timed = (Timed(FLUSH, drive.mode, found_us),)
    found = inspected(drive)
    reasons = [reason for one in timed for reason in of_flushes(one.us)]
    scored = Inspected(drive, (*found.reasons, *reasons))
    _print(options, Benched(device.name, scored, timed, after_reading(scored, device.name)))
    return int(judge(drive.state) is Safety.UNSAFE)


def bench_blank(
    options: argparse.Namespace, host: LinuxDriveHost, switcher: Switcher,
    say: Callable[[str], None],
) -> int:
    """Measure commits on a blank device, in both modes where that may be; 1 where it is unsafe."""
    switcher.refuse_owed()
    scratch = find(HostFiles(), host, options.device)
    drives = host.domain(scratch.drive.domain_id)
    osds = sorted({use.osd_id for drive in drives for use in drive.uses})
    if osds:
        raise RefusedError(
            f"{scratch.drive.dev_name} also serves osd.{osds[0]}, which would wait for it",
            "leave --consent away, or name an unused drive; "
            + typed("wcache-probe matrix --scratch {} --beside-osds", scratch.path)
            + " would do it",
        )
    refuse_shared(scratch.drive)
    why = why_not_toggled(drives, scratch, host.lost_writes())
    say(f"overwrites {scratch.span // MIB} MiB of {scratch.path}, for about "
        f"{PAIRS * (1 if why else 3) * PERIOD_S:.0f} s")
    stop = StopSignal().install()
    timed, of_pairs = _as_it_is(scratch) if why else _both(
        options, host, switcher, scratch, stop, say
    )
    found = inspected(scratch.drive)
    cost = [] if scratch.is_loop else of_modes(scratch.drive.mode, of_pairs)
    # why it cannot be toggled is said once
    scored = Inspected(scratch.drive, (
        *found.reasons, *(reason for one in timed for reason in of_stalls(one.us)), *cost,
    ))
    _print(options, Benched(
        scratch.device.name, scored, timed,
        after_writing(scored, scratch.device.name, why, len(of_pairs), bool(cost)),
        len(of_pairs), why,
    ))
    return int(judge(scratch.drive.state) is Safety.UNSAFE)


def _as_it_is(scratch: Scratch) -> Tuple[Tuple[Timed, ...], List[Tuple[float, float]]]:
    samples: List[int] = []
    with scratch.held():
        scratch.claim()
        for seed in range(PAIRS):
            scratch.check()
            samples += measure(scratch, COMMIT, PERIOD_S, seed).samples_ns
    return (Timed(WRITE, scratch.drive.mode, of_samples(samples)),), []


def _both(
    options: argparse.Namespace, host: LinuxDriveHost, switcher: Switcher, scratch: Scratch,
    stop: StopSignal, say: Callable[[str], None],
) -> Tuple[Tuple[Timed, ...], List[Tuple[float, float]]]:
    plan = replace(plan_of(options.hostname, PAIRS, PERIOD_S, False), only=(COMMIT,))
    found = MatrixMeasurement(
        host=host, switcher=switcher, scratch=scratch, plan=plan, stop=stop, say=say,
        fio_path=None,
    ).run()
    if found.ended != "done":
        say(f"ended after {len(found.pairs)} of {PAIRS} pairs: {found.ended}")
    timed = tuple(
        Timed(WRITE, mode, of_samples([
            sample for pair in found.pairs for period in (pair.write_back, pair.write_through)
            if period.mode is mode for cell in period.cells for sample in cell.samples_ns
        ]))
        for mode in CacheMode
    )
    return timed, medians(found, COMMIT)


# ---- reasons


def of_flushes(us: LatencyTable) -> List[Reason]:
    """What flushes with nothing to write take from the score."""
    reasons = []
    if us.p50 is not None and us.p50 >= SLOW_FLUSH_US:
        reasons.append(Reason(
            20, f"a flush takes {latency(us.p50)} with nothing to write, and each commit waits "
            "for one",
        ))
    return [*reasons, *of_stalls(us)]


def of_stalls(us: LatencyTable) -> List[Reason]:
    """What single slow ones take from it."""
    if us.max is None or us.p50 is None or us.max < max(STALL_US, STALL_RATIO * us.p50):
        return []
    return [Reason(10, f"of {us.n}, one took {latency(us.max)}; half took up to "
                       f"{latency(us.p50)}")]


def of_modes(
    mode: Optional[CacheMode], of_pairs: Sequence[Tuple[float, float]]
) -> List[Reason]:
    """What the mode that is there takes from it: ns in write back and in write through, in pairs.

    Nothing where not all pairs agree: it is evidence about a drive, and no verdict.
    """
    if mode is None or len(of_pairs) < PAIRS:
        return []
    here = 0 if mode is CacheMode.WRITE_BACK else 1
    if not all(pair[here] > pair[1 - here] for pair in of_pairs):
        return []
    now, other = (median(pair[i] for pair in of_pairs) for i in (here, 1 - here))
    ratio = median(pair[here] / pair[1 - here] for pair in of_pairs)
    if ratio < MATERIAL_RATIO:
        return []
    return [Reason(
        40 if ratio >= 2 else 20,
        f"the other mode is faster in all {len(of_pairs)} pairs: "
        f"{before_after(now / 1e3, other / 1e3)} in {mode.other.value}",
    )]


# ---- the next step


def after_reading(scored: Inspected, name: str) -> str:
    """The one thing to do after a device was only read."""
    drive, path = scored.drive, f"/dev/{name}"
    first = _data_first(scored)
    if first:
        return first
    if drive.uses:
        return command("ceph wcache try osd.{}", drive.uses[0].osd_id)
    if drive.state.device_cache is DeviceCache.NONE:
        return "nothing; this drive has no volatile cache"
    if drive.foreign_uses:
        return "with a blank drive of this model: wcache-probe bench DEVICE --consent"
    return command("wcache-probe bench {} --consent", path) + ", if all data on it may go"


def after_writing(
    scored: Inspected, name: str, one_mode: str, pairs: int, costs: bool
) -> str:
    """The one thing to do after commits were measured on it."""
    first = _data_first(scored)
    if first:
        return first
    if scored.drive.transport is Transport.LOOP:
        return "nothing; the cache of a loop device is only whether flushes reach its file"
    path = f"/dev/{name}"
    matrix = command("wcache-probe matrix --scratch {}", path)
    if scored.drive.state.device_cache is DeviceCache.NONE:
        return "nothing; this drive has no volatile cache"
    if not_named(scored.drive):
        return command("wcache-probe prepare --scratch {} --dry-run", path)
    found_off = scored.drive.mode is CacheMode.WRITE_THROUGH
    if one_mode and found_off and not scored.drive.toggle_refusal:
        return f"{matrix} --consent-turn-on"
    if one_mode:
        return f"nothing on this host; {one_mode}"
    if costs:
        return f"{matrix}; then `wcache analyze` its file"
    return f"nothing; {pairs} pairs show no difference that would pay"


def _data_first(scored: Inspected) -> str:
    """What the state of the drive asks for, where it is unsafe."""
    return next_step([scored], ()) if judge(scored.drive.state) is Safety.UNSAFE else ""


# ---- the answer


def _print(options: argparse.Namespace, found: Benched) -> None:
    if options.format == "json":
        print(json.dumps(_plain(options.hostname, found), indent=2))
        return
    drive: DriveReport = found.scored.drive
    print(f"{found.device} on {drive.dev_name} ({drive.drive_model}), device cache "
          f"{drive.state.device_cache.value}: score {found.scored.score}")
    for reason in found.scored.reasons:
        print(f"-{reason.points}: {reason.text}")
    if found.one_mode:
        print(f"measured in the mode it is in: {found.one_mode}")
    if found.timed:
        print(table(("TIMED", "MODE", *HEADINGS), [
            (one.what, one.mode.value if one.mode else None, *row(one.us))
            for one in found.timed
        ]))
    else:
        print("no flush was timed: the kernel sends none to it")
    print(f"next: {found.following}")


def _plain(hostname: str, found: Benched) -> Dict[str, Any]:
    drive = found.scored.drive
    return {
        "format_version": FORMAT_VERSION, "hostname": hostname, "device": found.device,
        "drive": drive.dev_name, "drive_model": str(drive.drive_model),
        "device_cache": drive.state.device_cache.value,
        "kernel_view": drive.state.kernel_view.value, "score": found.scored.score,
        "reasons": to_plain(found.scored.reasons), "timed": to_plain(found.timed),
        "pairs": found.pairs, "measured_as_it_is": found.one_mode, "next": found.following,
    }


# ---- flushes of a device as it is


def time_device(options: argparse.Namespace, files: HostFiles) -> int:
    """Time bare fdatasync() calls on any block device; 0 where there were any."""
    device = by_path(files, options.device)
    bottoms = [path.drive for path in paths_down(device)]
    for bottom in bottoms:
        kind = Transport.LOOP if bottom.kind is LayerKind.LOOP else Transport.UNKNOWN
        refuse_false_flush(bottom, kind, files)
    if device.kernel_view is KernelView.WRITE_THROUGH and device.kind is not LayerKind.LOOP:
        raise RefusedError(
            f"the kernel sends no flush to {device.name} (its view is write through), so there "
            "is none to time",
            "`wcache-probe look` says whether that is safe; time the drive below it instead",
        )
    before = _writes(bottoms)
    outcome = time_flushes(device, options.count, options.seconds, FLUSH_LIMIT_MS)
    found = of_samples(outcome.samples_ns)
    written = _written(before, _writes(bottoms), outcome.seconds)
    if options.format == "json":
        print(json.dumps({
            "format_version": 1, "device": device.name, "kernel_view": device.kernel_view.value,
            "seconds": outcome.seconds, "other_writes_per_s": written, "us": to_plain(found),
            "aborted": outcome.aborted,
        }))
    else:
        print(table(HEADINGS, [row(found)]))
        if written is None:
            print("whether others wrote meanwhile is unknown: the kernel counts no flushes")
        else:
            load = "under load" if written > IDLE_WRITES_PER_S else "idle"
            print(f"{device.name} was {load}: {written:.1f} writes a second by others")
        if outcome.aborted:
            print(f"ended early: {outcome.aborted}; look at the kernel's log for this drive")
    return 0 if outcome.samples_ns else 1


def _writes(drives: list[BlockDevice]) -> list[tuple[int, int]] | None:
    """Writes and flushes of each drive so far; None where the kernel does not count both."""
    counted = [drive.counters(0) for drive in drives]
    known = [(one.writes, one.flushes) for one in counted if one is not None]
    return known if len(known) == len(drives) else None


def _written(
    before: list[tuple[int, int]] | None, after: list[tuple[int, int]] | None, seconds: float
) -> float | None:
    """Writes by others, per second: a flush with no data is counted as a write too."""
    if before is None or after is None or seconds <= 0:
        return None
    writes = sum(b[0] - a[0] for a, b in zip(before, after))
    flushes = sum(b[1] - a[1] for a, b in zip(before, after))
    return max(0.0, (writes - flushes) / seconds)
