"""mClock's idea of an OSD's capacity, and what a toggle makes of it.

An OSD measures itself when it first starts and stores the result under its own name
(`osd.N`), where it outranks any value set for a class: after the cache mode changed it is
a number about the past.  What counts is the OSD's own recipe, a bench of 12,288,000 bytes
in 4 KiB writes over 100 objects of 4 MiB (src/osd/OSD.cc,
`maybe_override_max_osd_capacity_for_qos`), in the mode that the drive is in now.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Optional, Sequence, Tuple

from .model import CacheMode, Finding, FindingCode, Severity

# `ceph tell osd.N bench` with these is what the OSD does by itself.
RECIPE = (12_288_000, 4096, 4_194_304, 100)  # count, size, object size, objects
# With fewer calls the lowest and highest do not hold the median with 95%.
CALLS_MIN = 6
CONFIDENCE = 0.95
# osd_mclock_iops_capacity_threshold_{hdd,ssd}: results above these the OSD itself discards.
IMPLAUSIBLE_HDD, IMPLAUSIBLE_SSD = 500.0, 80_000.0


@dataclass(frozen=True)
class Capacity:
    """Median IOPS at 4 KiB over bench calls, with its 95% interval, in one cache mode."""

    mode: CacheMode
    iops: float
    low: float
    high: float
    calls: int


@dataclass(frozen=True)
class StoredCapacity:
    """A value in the config database; `mode` is the cache mode it was measured in."""

    section: str  # "osd.3", "osd/class:hdd", "osd"
    iops: float
    mode: Optional[CacheMode] = None


@dataclass(frozen=True)
class CapacityAdvice:
    """What to set for a device class, which keys would shadow it, and the commands."""

    option: str
    iops: int
    low: int
    high: int
    shadowing: Tuple[str, ...]
    commands: Tuple[str, ...]
    warnings: Tuple[str, ...]
    findings: Tuple[Finding, ...]


def capacity(mode: CacheMode, ns_per_write: Sequence[int]) -> Optional[Capacity]:
    """The capacity that bench calls show; None for fewer than CALLS_MIN.

    The interval of the median is that of order statistics, which holds for any
    distribution: the r-th lowest and highest of n with
    1 - 2 P(Binomial(n, 1/2) < r) >= 95% (David and Nagaraja, Order Statistics, 7.1).
    """
    iops = sorted(1e9 / value for value in ns_per_write if value > 0)
    n = len(iops)
    if n < CALLS_MIN:
        return None
    rank, outside = 0, 0.0
    while True:
        outside += 2 * math.comb(n, rank) * 0.5**n
        if 1 - outside < CONFIDENCE:
            break
        rank += 1
    middle = (iops[(n - 1) // 2] + iops[n // 2]) / 2
    return Capacity(mode, middle, iops[rank - 1], iops[n - rank], n)


def option(rotational: bool) -> str:
    """The option that an OSD on such a drive reads (by its drive, not by its class)."""
    return f"osd_mclock_max_capacity_iops_{'hdd' if rotational else 'ssd'}"


def advise(
    measured: Capacity, *, device_class: str, rotational: bool,
    stored: Sequence[StoredCapacity],
) -> CapacityAdvice:
    """What to make of a measured capacity where `stored` is what the database holds now."""
    name = option(rotational)
    shadowing = tuple(item.section for item in stored if _is_one_osd(item.section))
    value = round(measured.iops)
    commands = [f"ceph config rm {section} {name}" for section in shadowing]
    commands.append(f"ceph config set osd/class:{device_class} {name} {value}")
    warnings = []
    limit = IMPLAUSIBLE_HDD if rotational else IMPLAUSIBLE_SSD
    if measured.iops > limit:
        warnings.append(
            f"{value} IOPS is above {limit:.0f}, which an OSD takes for a bench that met only "
            "caches; check it with a longer fio run before you set it"
        )
    if shadowing:
        warnings.append(
            f"{', '.join(shadowing[:8])}{' and others' if len(shadowing) > 8 else ''} hold a "
            "value of their own, which outranks the class: remove it"
        )
    found = tuple(
        finding for finding in (_stale(item, measured, name) for item in stored) if finding
    )
    return CapacityAdvice(
        name, value, round(measured.low), round(measured.high), shadowing, tuple(commands),
        tuple(warnings), found,
    )


def _is_one_osd(section: str) -> bool:
    return section.startswith("osd.") and section[4:].isdecimal()


def _stale(item: StoredCapacity, measured: Capacity, name: str) -> Optional[Finding]:
    if item.mode is not None and item.mode is not measured.mode:
        why = f"was measured in {item.mode.value}, the drive is in {measured.mode.value} now"
    elif not measured.low <= item.iops <= measured.high:
        why = (
            f"is outside of what was measured in {measured.mode.value}: "
            f"{measured.low:.0f} to {measured.high:.0f}"
        )
    else:
        return None
    return Finding(
        FindingCode.MCLOCK_STALE, Severity.WARNING, item.section, f"{name} {item.iops:.0f} {why}"
    )
