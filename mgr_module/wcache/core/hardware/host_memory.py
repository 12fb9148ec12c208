"""The memory of a host, as its probe finds it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Tuple


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
    """RAM (/proc/meminfo) and the limits of the OSDs' control groups.

    `available_bytes` of a report is rounded, so that a report changes only where it matters.
    """

    total_bytes: int
    available_bytes: int = 0
    limits: Tuple[CgroupLimit, ...] = field(default=(), metadata={"max_items": 1024})
