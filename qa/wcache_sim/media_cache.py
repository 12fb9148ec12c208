"""A cache on the medium: it takes writes at once until it is full.

Disks with a media cache put writes without a volatile cache into zones of their own, and move
them to where they belong later.  Flash with an SLC cache is alike.  A short measurement sees
only the first part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from .toml_table import Table

MIB = 2**20
NS_PER_S = 1e9


@dataclass(frozen=True)
class MediaCacheSpec:
    """What writes that bypass the volatile cache go into first; no room is no such cache.

    What a flush writes goes past it.  Full, such a write takes `full_factor` times as long.
    """

    room_bytes: int = 0
    drains_mib_s: float = 0.0  # moved on, all the time
    full_factor: float = 10.0


NO_MEDIA_CACHE = MediaCacheSpec()


class MediaCache:
    """How full it is."""

    def __init__(self, spec: MediaCacheSpec) -> None:
        self._spec = spec
        self._used_bytes = 0.0
        self._at_ns: Optional[int] = None  # a caller's clock may count from its boot

    def pass_time(self, now_ns: int) -> None:
        """Empty it by what was moved on since the last call."""
        if self._at_ns is not None:
            moved = self._spec.drains_mib_s * MIB * max(0, now_ns - self._at_ns) / NS_PER_S
            self._used_bytes = max(0.0, self._used_bytes - moved)
        self._at_ns = now_ns

    def take(self, size: int) -> float:
        """The factor on the latency of writes of `size` bytes in all."""
        if not self._spec.room_bytes:
            return 1.0
        if self._used_bytes + size > self._spec.room_bytes:
            return self._spec.full_factor
        self._used_bytes += size
        return 1.0


def read_media_cache(table: Table) -> MediaCacheSpec:
    """The table `media_cache` of a drive file; raises DriveFileError."""
    spec = MediaCacheSpec(
        table.integer("room_bytes", 0, 0, 2**40),
        table.number("drains_mib_s", 0.0, 0.0, 10_000.0),
        table.number("full_factor", MediaCacheSpec.full_factor, 1.0, 1000.0),
    )
    table.done()
    return spec
