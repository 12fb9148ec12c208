"""Where one planned change stands, of whatever knob."""

from __future__ import annotations

from enum import Enum


class ChangeStatus(str, Enum):
    """Where one planned change stands."""

    PLANNED = "planned"
    APPLYING = "applying"  # from here on the drive or the setting may have been touched
    MADE = "made, not judged yet"  # in place; what it did to clients is not known yet
    APPLIED = "applied"
    UNCHANGED = "unchanged"
    FAILED = "failed"
    REFUSED = "refused by the drive"  # which is as it was
    ROLLING_BACK = "rolling back"
    ENDING_BACK = "rolled back in a while"  # what is left of its way back happens by itself
    ROLLED_BACK = "rolled back"
    ACCEPTED = "accepted as it is"  # an admin gave up what was there before it
    ROLLBACK_FAILED = "rollback failed"  # it is not known to be as it was before


# Not over yet, and on its way there.
UNFINISHED = (ChangeStatus.PLANNED, ChangeStatus.APPLYING, ChangeStatus.MADE)
# Forwards, what is under way or next.
OPEN = (ChangeStatus.PLANNED, ChangeStatus.APPLYING)
# It may be otherwise than before the plan: what a rollback is for.
TOUCHED = (
    ChangeStatus.APPLYING, ChangeStatus.MADE, ChangeStatus.APPLIED, ChangeStatus.ROLLING_BACK,
    ChangeStatus.ENDING_BACK, ChangeStatus.ROLLBACK_FAILED,
)
# On its way back.
GOING_BACK = (ChangeStatus.ROLLING_BACK, ChangeStatus.ENDING_BACK)


class Made(Enum):
    """What is known of a change after it was asked for."""

    YES = "made"
    ALREADY = "there before"
    NOT_YET = "not yet"  # it was asked for, and is done by itself in a while
    NOT = "not made"  # what was there before was read back
    REFUSED = "refused by the drive"  # the same, and the next drive may take it
    UNSURE = "unsure"  # it may have been made
    WRONG = "wrong"  # something was made, and not what was asked for
    OTHERS = "of others"  # it is not as it was known: an admin decides
