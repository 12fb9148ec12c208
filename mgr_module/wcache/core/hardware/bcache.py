"""What bcache above a drive is set to: it decides which drive a write goes to, and when.

Below its target of dirty data the writes of an OSD end in the cache device, above it more and
more of them wait for the backing drive.  Periods on both sides of that line are not alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, Iterable, List, Optional


@dataclass(frozen=True)
class BcacheState:
    """One bcache device, as seen from one of its drives; None is unknown.

    `is_cache`: the drive is the cache, and not the backing drive.  Each is a cache domain of its
    own, so flushes are counted apart.
    """

    name: str = field(metadata={"max_chars": 64})
    is_cache: bool
    mode: str = field(metadata={"max_chars": 16})
    sequential_cutoff_bytes: Optional[int] = None
    dirty_bytes: Optional[int] = None
    target_bytes: Optional[int] = None
    rate_bytes_s: Optional[int] = None
    # whether the rate also goes by fragmentation (`writeback_consider_fragment`, Linux 5.12)
    considers_fragments: Optional[bool] = None

    @property
    def above_target(self) -> Optional[bool]:
        """Whether more is dirty than bcache wants to keep; None where that is unknown."""
        if self.mode != "writeback" or self.dirty_bytes is None or self.target_bytes is None:
            return None
        return self.dirty_bytes > self.target_bytes


def crossed_target(readings: Iterable[BcacheState]) -> List[str]:
    """Names of the devices whose dirty data was on both sides of the target."""
    seen: Dict[str, set[bool]] = {}
    for one in readings:
        if one.above_target is not None:
            seen.setdefault(one.name, set()).add(one.above_target)
    return sorted(name for name, sides in seen.items() if len(sides) == 2)
