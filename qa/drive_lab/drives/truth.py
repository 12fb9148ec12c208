"""The true state of a drive and of the path to it, by doing and counting.

One O_DIRECT write and one fdatasync through a path of the guest, and what the drive saw of
them.  Asks nobody: neither the drive's mode page nor the kernel's opinion takes part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

from ..agent import GuestAgent
from ..processes import LabError
from .counters import Counters

# beyond the labels of LVM, md and BlueStore, which are in the first few KiB
DEFAULT_OFFSET_BYTES = 1 << 20
BLOCK_BYTES = 4096


@dataclass(frozen=True)
class TrueState:
    """What one write and one fdatasync showed."""

    cached: bool  # the write was taken by the volatile cache
    flushed: bool  # fdatasync reached the drive
    dirty_after: int  # blocks still volatile after fdatasync was acknowledged

    @property
    def unsafe(self) -> bool:
        """Acknowledged data would be lost by a power cut now."""
        return self.dirty_after > 0


def observe(
    agent: GuestAgent,
    path: str,
    counters: Callable[[], Counters],
    *,
    offset_bytes: int = DEFAULT_OFFSET_BYTES,
) -> TrueState:
    """Write one block through ``path`` and sync it; destroys 4 KiB at ``offset_bytes``.

    Both are done by one process: closing a disk that was open for writing makes udev have
    the kernel read the cache mode again, and would cure what is to be seen.  The drive must
    be quiet: commands of others would be taken for ours, which raises LabError.
    """
    before = counters()
    agent.run(
        [
            "dd", "if=/dev/urandom", f"of={path}", f"bs={BLOCK_BYTES}", "count=1",
            f"seek={offset_bytes // BLOCK_BYTES}", "oflag=direct", "conv=notrunc,fdatasync",
            "status=none",
        ]
    ).checked()  # fmt: skip
    seen = counters().since(before)
    # or the next close after a write falls into this one's udev event and goes unnoticed
    agent.settle()
    if seen.write + seen.fua != 1:
        raise LabError(f"{path} was not quiet or is not the drive: one write became {seen}")
    return TrueState(cached=seen.write == 1, flushed=seen.flush > 0, dirty_after=seen.dirty)
