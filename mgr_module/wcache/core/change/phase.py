"""What a rollout waits for; not stored, a mgr that takes over begins with what is."""

from __future__ import annotations

from enum import Enum


class Phase(Enum):
    """Where the change under way stands."""

    IDLE = "idle"
    BEFORE = "before"
    CHECKING = "checking"  # whether the preconditions hold
    HELD = "held"  # until they do
    LOOKING = "looking"
    CHANGING = "changing"
    WAITING = "waiting"
    AFTER = "after"
    BACK = "back"
    PAUSED_BACK = "paused back"  # until the next may be taken back
