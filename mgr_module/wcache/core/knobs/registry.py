"""All knobs there are: a new one is a folder beside this file, and a line here."""

from __future__ import annotations

from .cache_mode.knob import CACHE_MODE
from .mclock.knob import MCLOCK
from .memory_target.knob import MEMORY

KNOBS = (CACHE_MODE, MCLOCK, MEMORY)
