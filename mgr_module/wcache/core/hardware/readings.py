"""What a probe reads beside drives' caches: options, counters, wear, memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional, Tuple

from ..text import amount

NAME_CHARS_MAX = 64
VALUE_CHARS_MAX = 32
VALUES_MAX = 32


@dataclass(frozen=True)
class OptionValue:
    """An option of a drive, with its value as `Option.canonical` writes it."""

    name: str = field(metadata={"max_chars": NAME_CHARS_MAX})
    value: str = field(metadata={"max_chars": VALUE_CHARS_MAX})


@dataclass(frozen=True)
class FlushCounters:
    """Kernel flush counters of one disk (`/sys/block/*/stat`, fields 16 and 17).

    `at_ns` is the probe's monotonic clock when they were read.  `paths` are the disks in the
    kernel that they are the sum of: an NVMe namespace has one for each path.  0 where a probe
    did not say, and may have read the multipath head, which counts no flushes.
    """

    at_ns: int
    writes: int
    flushes: int
    flush_ms: int
    paths: int = 0


@dataclass(frozen=True)
class DmCacheState:
    """A dm-cache or dm-writecache above a drive, named and observed, never tuned.

    None is unknown.  dm-writecache has one mode and no policy.
    """

    name: str = field(metadata={"max_chars": 128})
    kind: str = field(metadata={"max_chars": 16})
    mode: str = field(metadata={"max_chars": 16})
    policy: str = field(default="", metadata={"max_chars": 16})
    dirty_bytes: Optional[int] = None


@dataclass(frozen=True)
class CgroupLimit:
    """What a control group lets these OSDs use together.

    `used_bytes` is what all of its processes use now, without page cache, which the kernel takes
    back before it kills.  It is 0 in a report, and in a reading where it is not known.
    """

    bytes_max: int
    osd_ids: Tuple[int, ...] = field(default=(), metadata={"max_items": 1024})
    used_bytes: int = 0


@dataclass(frozen=True)
class HostMemory:
    """A host's RAM (/proc/meminfo) and the limits of the OSDs' control groups.

    `available_bytes` of a report is rounded, so that a report changes only where it matters.
    """

    total_bytes: int
    available_bytes: int = 0
    limits: Tuple[CgroupLimit, ...] = field(default=(), metadata={"max_items": 1024})


@dataclass(frozen=True)
class Wear:
    """What was written to a drive over its life, as its SMART data tell; None is unknown.

    `host_bytes` came from the host, `nand_bytes` were programmed into the flash.
    """

    host_bytes: Optional[int] = None
    nand_bytes: Optional[int] = None
    read_at_s: float = 0.0  # wall clock


def since(before: Wear, now: Wear) -> str:
    """What was written between two readings, in words; '' where nothing can be said."""
    host = _grown(before.host_bytes, now.host_bytes)
    nand = _grown(before.nand_bytes, now.nand_bytes)
    if host is None and nand is None:
        return ""
    parts = [] if host is None else [f"{amount(host)} from the host"]
    if nand is None:
        parts.append("the drive does not report its NAND writes")
    else:
        parts.append(f"{amount(nand)} to its NAND")
    if host and nand is not None:
        factor = f"{nand / host:.2f} times as much"
        if before.host_bytes and before.nand_bytes is not None:
            factor += f", {before.nand_bytes / before.host_bytes:.2f} times over its life before"
        parts.append(factor)
    return ", ".join(parts)


def _grown(before: Optional[int], now: Optional[int]) -> Optional[int]:
    """None where one is not told, or a counter went back (another drive, or a reset)."""
    return None if before is None or now is None or now < before else now - before
