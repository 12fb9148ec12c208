"""`wcache-probe time`: what a flush of a device takes now, with nothing changed or written."""

from __future__ import annotations

import argparse
import json

from wcache.core.codec import to_plain
from wcache.core.errors import RefusedError
from wcache.core.experiment.observed import IDLE_WRITES_PER_S
from wcache.core.figures.latency_table import HEADINGS, LatencyTable, of_samples, row
from wcache.core.model import KernelView, LayerKind, Transport
from wcache.core.text import table

from ..linux.block.host_files import HostFiles
from ..linux.block.stack import paths_down
from ..linux.block.sysfs import BlockDevice, by_path
from ..linux.host import refuse_false_flush
from ..linux.timing import time_flushes

LATENCY_LIMIT_MS = 10_000.0


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
    outcome = time_flushes(device, options.count, options.seconds, LATENCY_LIMIT_MS)
    found = of_samples(outcome.samples_ns)
    written = _written(before, _writes(bottoms), outcome.seconds)
    if options.format == "json":
        print(json.dumps({
            "format_version": 1, "device": device.name, "kernel_view": device.kernel_view.value,
            "seconds": outcome.seconds, "other_writes_per_s": written, "us": to_plain(found),
            "aborted": outcome.aborted,
        }))
    else:
        _print(device, found, written)
        if outcome.aborted:
            print(f"ended early: {outcome.aborted}; look at the kernel's log for this drive")
    return 0 if outcome.samples_ns else 1


def _print(device: BlockDevice, found: LatencyTable, written: float | None) -> None:
    print(table(HEADINGS, [row(found)]))
    if written is None:
        print("whether others wrote meanwhile is unknown: the kernel counts no flushes")
    else:
        load = "under load" if written > IDLE_WRITES_PER_S else "idle"
        print(f"{device.name} was {load}: {written:.1f} writes a second by others")


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
