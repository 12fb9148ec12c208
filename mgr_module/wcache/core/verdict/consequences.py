"""What `write through` costs beside what was measured: the pin's flushes, and flash that wears.

The pin's flushes are said whatever the verdict is: without them it could be another one.
"""

from __future__ import annotations

import math
from collections import defaultdict
from statistics import median
from typing import Dict, Iterable, List, Sequence, Tuple

from ..drive.manual import pin
from ..drive.saved_off import saves_by_itself, saves_off
from ..loads import MATERIAL_RATIO
from ..model import DriveReport, LoadPoint, Transport
from ..shell import chained, command, commented
from ..text import many
from .result import Result

NAND = (
    "endurance: in write through flash may program its cells for each small write separately, "
    "which wears it faster; `ceph wcache plan show` gives the drive's host and NAND writes since "
    "a change, where it reports them"
)


def of_write_through(drive: DriveReport, prices_us: Sequence[float]) -> Tuple[str, ...]:
    """Lines to print beside the advice, for a drive of the drive model."""
    lines = list(_price(drive, prices_us))
    if drive.rotational is False:
        lines.append(NAND)
    return tuple(lines)


def noop_flushes(results: Iterable[Result]) -> Tuple[str, ...]:
    """What part of a commit with the cache off is flushes with nothing to write.

    A line for each load point at which that part is material, by the median of its drives.
    """
    found: Dict[LoadPoint, List[Tuple[float, float]]] = defaultdict(list)
    for result in results:
        flush_us, commit_us = result.pin_price_us, result.write_through_commit_us
        if flush_us is not None and commit_us is not None and flush_us >= 0 and commit_us > 0:
            found[result.load_point].append((min(flush_us, commit_us), commit_us))
    lines = []
    for point, drives in sorted(found.items(), key=lambda item: item[0].value):
        of_flush_us, of_all_us = (median(values) for values in zip(*drives))
        if of_all_us >= MATERIAL_RATIO * (of_all_us - of_flush_us):
            lines.append(
                f"with the cache off {_ms(of_flush_us)} of {_ms(of_all_us)} ms of a commit are "
                f"flushes with nothing to write ({point.short}, {many(len(drives), 'drive')}); the "
                "kernel sends them since its view stays at write back"
            )
    return tuple(lines)


def _ms(value_us: float) -> str:
    """Milliseconds, of which two digits count."""
    return f"{value_us / 1e3:.1f}" if value_us >= 1000 else f"{value_us / 1e3:.2g}"


def _price(drive: DriveReport, prices_us: Sequence[float]) -> List[str]:
    if drive.transport is Transport.LOOP:
        return []
    found = sorted(us for us in prices_us if math.isfinite(us) and us >= 0)
    if not found:
        cost = "what that costs was not counted: the kernel counts flushes from Linux 5.5 on"
    else:
        cost_ms = found[len(found) // 2] / 1e3
        cost = f"these no-op flushes cost {cost_ms:.2g} ms per commit (measured)"
    lines = [f"with the pin the kernel still flushes; {cost}"]
    return [*lines, *_without(drive)]


def _without(drive: DriveReport) -> Tuple[str, ...]:
    """How to be rid of the pin, or why that is not safe.

    A power-on or a reset brings back the saved page, and the kernel does not look again
    (drivers/scsi/sd.c): without the pin the drive itself has to keep write through.
    """
    dev = drive.dev_name
    if drive.transport is Transport.NVME:
        return (
            "it cannot be avoided: for NVMe the kernel goes by what the controller has, not by "
            "how it is set",
        )
    if not saves_by_itself(drive):
        return ("the pin has to stay: this drive saves no mode that it would keep after a reset",)
    if not saves_off(drive):
        return (
            "to be rid of it, save write through in the drive first (`ceph wcache plan "
            "--persist`, and `apply --persist`); `ceph wcache recommend` then prints how",
        )
    return (
        "the drive saves write through itself, so it can do without the pin, and its commits "
        "without these flushes. The boot rule pins it at each boot, and the probe at each start "
        "as long as its journal has a change of it. On its host, in this order:",
        "  " + commented(
            command("wcache-probe accept {} --yes", drive.domain_id),
            "where a plan has changed it; with the probe stopped",
        ),
        "  " + commented(
            command("wcache-probe unprepare --drive={}", dev),
            "the next boot pins it no more; says what that risks, and refuses where it must",
        ),
        # cache_type_store() ends the override, and then refuses the word: the drive is not asked
        "  " + commented(
            command("for f in /sys/block/{}/device/scsi_disk/*/cache_type; do "
                    'echo no-pin > "$f"; done', dev),
            "says 'Invalid argument'; ends the pin now, and changes nothing else",
        ),
        "  " + commented(
            command("echo 1 > /sys/block/{}/device/rescan; cat /sys/block/{}/queue/write_cache",
                    dev, dev), "write through",
        ),
        "  " + commented(
            chained([command("wcache-probe prepare --drive={}", dev), pin(dev)]),
            "undo it; always before the cache is turned on by hand",
        ),
    )
