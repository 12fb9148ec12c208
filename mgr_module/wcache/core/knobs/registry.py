"""All knobs there are: a new one is a folder beside this file, and a line or two here."""

from __future__ import annotations

from dataclasses import dataclass

from .cache_mode.knob import CACHE_MODE
from .mclock.knob import MCLOCK
from .memory_target.knob import MEMORY
from .memory_target.options import MemoryOptions

KNOBS = (CACHE_MODE, MCLOCK, MEMORY)
DEFAULT = CACHE_MODE
# Those that `plan --knob=all` puts into one plan, one after the other.  mClock's capacities are
# measured anew after a change of the cache mode, so they have a plan of their own.
TOGETHER = (CACHE_MODE, MEMORY)
ALL = "all"


@dataclass(frozen=True)
class KnobOptions(MemoryOptions):
    """The module's options that are about one knob; its folder has them."""
