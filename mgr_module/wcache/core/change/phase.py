"""What a rollout waits for; not stored, a mgr that takes over begins with what is."""

from __future__ import annotations

from enum import Enum


class Phase(Enum):
    """Where the change or the step under way stands."""

    IDLE = "idle"
    BEFORE = "before"
    CHECKING = "checking"  # whether the preconditions hold
    HELD = "held"  # until they do
    BLOCKS_BEFORE = "blocks before"  # of clients' load, before a step
    LOOKING = "looking"
    CHANGING = "changing"
    FINISHING = "finishing"  # until a change that was asked for is done by itself
    WAITING = "waiting"
    AFTER = "after"
    BLOCKS_AFTER = "blocks after"
    LASTING = "lasting"  # a step that is judged is read once more, or made to last
    BACK = "back"
    PAUSED_BACK = "paused back"  # until the next may be taken back
