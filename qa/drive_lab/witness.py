"""What everybody says of a drive's cache at one moment, side by side."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Callable

from .lab import DriveHandle

# One write that is acknowledged when it is committed: long enough not to be deferred, or a
# disk with its DB on another drive would not see it (bluestore_prefer_deferred_size_hdd).
BENCH_BYTES = 128 << 10


@dataclass(frozen=True)
class Witness:
    """One drive as seen from four sides.

    ``by_counters`` is what reached the drive while an OSD on it committed one write; None
    where no OSD could be asked.
    """

    by_drive_on: bool
    by_qmp_on: bool
    by_kernel: dict[str, str]  # every layer from the disk to the OSD
    by_counters: dict[str, int] | None

    @property
    def unsafe(self) -> bool:
        """Whether writes were cached and none of the flushes came."""
        seen = self.by_counters
        return seen is not None and seen["write"] > 0 and seen["flush"] == 0

    def plain(self) -> dict[str, Any]:
        return {**asdict(self), "unsafe": self.unsafe}


def look(handle: DriveHandle, commit: Callable[[], None] | None) -> Witness:
    """Ask all sides; ``commit`` makes an OSD on the drive commit one write."""
    disk = handle.disk()
    seen: dict[str, int] | None = None
    if commit is not None:
        before = handle.counters()
        commit()
        delta = handle.counters().since(before)
        seen = {name: getattr(delta, name) for name in ("write", "fua", "flush", "flush_dirty")}
    return Witness(
        by_drive_on=disk.device_cache_on(),
        by_qmp_on=handle.qmp_writeback(),
        by_kernel=disk.layers(),
        by_counters=seen,
    )
