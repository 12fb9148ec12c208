"""How much memory a host can give to its OSDs.

What other daemons need is assumed as cephadm's autotuner does: it takes a share of the RAM, takes
that off, and divides the rest equally (src/pybind/mgr/cephadm/autotune.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping, Optional

from .knob import MemoryOptions

MIB, GIB = 2**20, 2**30
# What other daemons are given, by type (autotune.py, min_size_by_type); every other type 1 GiB.
DAEMON_BYTES = {
    "mds": 4 * GIB, "mgr": 4 * GIB, "mon": GIB, "crash": 128 * MIB, "keepalived": 128 * MIB,
    "haproxy": 128 * MIB, "nvmeof": 4 * GIB,
}
DAEMON_BYTES_DEFAULT = GIB


@dataclass(frozen=True)
class Room:
    """A host's memory: all of it, what others are given, what OSDs may have together."""

    total_bytes: int
    limit_bytes: Optional[int]  # the tightest cgroup limit over all of its OSDs, together
    others_bytes: int
    osds_bytes: int


def others_bytes(daemons: Mapping[str, int], used_bytes: int = 0) -> int:
    """What is not for OSDs: assumed of the daemons by type, or what is used where that is more."""
    assumed = sum(
        DAEMON_BYTES.get(kind, DAEMON_BYTES_DEFAULT) * count
        for kind, count in daemons.items() if kind != "osd"
    )
    return max(assumed, used_bytes)


def room_of(
    total_bytes: int, others: int, limits: MemoryOptions, limit_bytes: Optional[int] = None
) -> Room:
    """What is left for OSDs: RAM less headroom and others, within limit and budget."""
    left = max(0, int(total_bytes * (1.0 - limits.memory_headroom)) - others)
    if limit_bytes is not None:
        left = min(left, int(limit_bytes * (1.0 - limits.memory_headroom)))
    if limits.memory_budget:
        left = min(left, limits.memory_budget)
    return Room(total_bytes, limit_bytes, others, left)


def equal_split(room: Room, osds: int, limits: MemoryOptions) -> int:
    """The rule where nothing is measured: the same for each OSD, within floor and ceiling."""
    each = room.osds_bytes // max(1, osds)
    return max(limits.least_target_bytes, min(limits.memory_ceiling, each))
