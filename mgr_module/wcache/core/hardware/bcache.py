"""What bcache above a drive is set to: it decides which drive a write goes to, and when.

Below its target of dirty data the writes of an OSD end in the cache device, above it more and
more of them wait for the backing drive.  Periods on both sides of that line are not alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Dict, Iterable, List, Optional, Sequence

# bcache devices that are told of one drive: where there are as many, there may be more.
DEVICES_MAX = 16
# The controller works out the rate anew this often (writeback_rate_update_seconds, by default).
CONTROLLER_S = 5.0
# In parts of the target: dirty data is at it within the first, none that counts below the second,
# and it stands where it moves by less than the third from one look of the controller to the next.
AT_TARGET, CLEAN, STANDS = 0.1, 0.05, 0.05


class Dirty(str, Enum):
    """Where dirty data is to its target."""

    ANY = ""
    CLEAN = "clean"
    BELOW = "below"
    TARGET = "target"
    BEYOND = "beyond"


# Where dirty data comes by writes alone, and what an experiment may write for it at most, in parts
# of the target: not every write gets dirty.
WRITTEN_FOR, WRITTEN_MAX = (Dirty.TARGET, Dirty.BEYOND), 4


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
    busy_ms: Optional[int] = None  # for how long the backing disk was busy so far
    at_s: float = 0.0  # when the mgr was told of it, with a period
    # "no cache", "clean", "dirty" or "inconsistent" (drivers/md/bcache/sysfs.c); "" is unknown
    state: str = field(default="", metadata={"max_chars": 16})

    @property
    def without_cache(self) -> str:
        """Why its mode is not in force, or its data not sound; empty where neither is told."""
        return {
            "no cache": "no cache is attached: its mode is not in force",
            "inconsistent": "it runs without its cache, by force: what was dirty there is lost, or "
            "old",
        }.get(self.state, "")

    @property
    def above_target(self) -> Optional[bool]:
        """Whether more is dirty than bcache wants to keep; None where that is unknown."""
        if self.mode != "writeback" or self.dirty_bytes is None or self.target_bytes is None:
            return None
        return self.dirty_bytes > self.target_bytes

    @property
    def dirty(self) -> Dirty:
        """Where its dirty data is to the target; ANY where that is unknown."""
        if self.above_target is None:
            return Dirty.ANY
        if not self.target_bytes:  # as where all is to be written back, or before its first look
            return Dirty.BEYOND if self.dirty_bytes else Dirty.CLEAN
        share = (self.dirty_bytes or 0) / self.target_bytes
        if share <= CLEAN:
            return Dirty.CLEAN
        if share > 1 + AT_TARGET:
            return Dirty.BEYOND
        return Dirty.BELOW if share < 1 - AT_TARGET else Dirty.TARGET


def begins_nowhere(states: Sequence[BcacheState], wanted: Dirty) -> str:
    """Why dirty data of a backing drive cannot be brought anywhere; empty where it can."""
    modes = sorted({one.mode for one in states if not one.is_cache})
    if wanted is Dirty.ANY or modes == ["writeback"]:
        return ""
    return f"bcache is in mode {', '.join(modes) or 'unknown'}, and keeps dirty data in writeback"


def moves(readings: Sequence[BcacheState], wanted: Dirty = Dirty.ANY) -> str:
    """Why a controller has not settled where it should, by readings of its looks; empty if it has.

    A device that does not tell its dirty data is not waited for, unless it is to be somewhere.
    """
    by_name: Dict[str, List[BcacheState]] = {}
    for one in readings:
        if not one.is_cache:
            by_name.setdefault(one.name, []).append(one)
    if wanted is not Dirty.ANY and not by_name:
        return "no bcache device tells its dirty data"
    for name, seen in sorted(by_name.items()):
        last = seen[-1]
        if wanted not in (Dirty.ANY, last.dirty):
            return f"its dirty data is {_where(last)} and not {wanted.value}: {name}"
        if wanted is Dirty.BEYOND and not last.target_bytes:  # before its first look, for one
            return f"bcache has no target for its dirty data: {name}"
        if last.dirty is Dirty.ANY or wanted is Dirty.BEYOND:  # beyond its target it never stands
            continue
        if len(seen) == 1:
            return f"{name} was looked at once"
        gone = abs((last.dirty_bytes or 0) - (seen[-2].dirty_bytes or 0))
        if gone > STANDS * (last.target_bytes or 0):
            return f"its dirty data still moves, and is {_where(last)}: {name}"
    return ""


def _where(one: BcacheState) -> str:
    if one.dirty is Dirty.ANY:
        return "unknown"
    if not one.target_bytes:
        return f"{one.dirty.value} (the target is 0)"
    return f"{one.dirty.value} ({(one.dirty_bytes or 0) / one.target_bytes:.0%} of the target)"


def crossed_target(readings: Iterable[BcacheState]) -> List[str]:
    """Names of the devices whose dirty data was on both sides of the target."""
    seen: Dict[str, set[bool]] = {}
    for one in readings:
        if one.above_target is not None:
            seen.setdefault(one.name, set()).add(one.above_target)
    return sorted(name for name, sides in seen.items() if len(sides) == 2)
