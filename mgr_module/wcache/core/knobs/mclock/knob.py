"""mClock's capacity as a knob."""

from __future__ import annotations

from ..knob import Knob
from .config import NAMES

MCLOCK = Knob("mclock", "the capacity that mClock shares out", NAMES)
