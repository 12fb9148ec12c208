"""The memory of a host, as its probe finds it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Tuple


@dataclass(frozen=True)
class CgroupLimit:
    """What a control group lets these OSDs use together."""

    bytes_max: int
    osd_ids: Tuple[int, ...] = field(default=(), metadata={"max_items": 1024})


@dataclass(frozen=True)
class HostMemory:
    """RAM (/proc/meminfo) and the limits of the OSDs' control groups.

    `available_bytes` is rounded, so that a report changes only where it matters.
    """

    total_bytes: int
    available_bytes: int = 0
    limits: Tuple[CgroupLimit, ...] = field(default=(), metadata={"max_items": 1024})
