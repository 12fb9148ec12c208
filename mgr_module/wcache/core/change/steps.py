"""What a rollout asks for at each step of a change, and what the answers mean, for every kind.

A kind of change has these functions; `rollout.py` knows no more of it.
"""

from __future__ import annotations

from typing import Tuple, Union

from ..config_database import ConfigRequest
from ..events import LoadRequest
from ..protocol import Request
from . import cache_mode_steps, config_steps
from .cache_mode_change import CacheModeChange
from .change_status import Made
from .rollout_state import Change, Rollout, RolloutStatus

# To a probe, or to the config database.
Ask = Union[Request, ConfigRequest]


def measure(rollout: Rollout, change: Change) -> Union[Request, LoadRequest, None]:
    """What measures an OSD before and after; None where it is read back and no more."""
    if isinstance(change, CacheModeChange):
        return cache_mode_steps.measure(rollout, change)
    return config_steps.measure(rollout, change)


def look(rollout: Rollout, change: Change) -> Ask:
    """What reads what is there before the change."""
    if isinstance(change, CacheModeChange):
        return cache_mode_steps.look(change)
    return config_steps.look(rollout, change)


def looked(rollout: Rollout, change: Change, outcome: object) -> Tuple[Change, str]:
    """The change with what is there before it, or why it must not be made."""
    if isinstance(change, CacheModeChange):
        return cache_mode_steps.looked(rollout, change, outcome)
    return config_steps.looked(rollout, change, outcome)


def judged_on(change: Change) -> Tuple[int, ...]:
    """The OSDs whose clients' load judges a change; none where nobody knows whom it concerns."""
    if isinstance(change, CacheModeChange):
        return change.treated
    return change.judged_on or (change.treated if change.load_point is not None else ())


def is_read(change: Change) -> bool:
    """Whether a change is read once more before it counts: a drive can change by itself."""
    return isinstance(change, CacheModeChange)


def is_still(change: Change, outcome: object) -> str:
    """Why a change that was judged is not there any more; "" where it is."""
    if isinstance(change, CacheModeChange):
        return cache_mode_steps.is_still(change, outcome)
    return ""


def apply(rollout: Rollout, change: Change) -> Ask:
    """What makes the change; asked twice, it does no more than once."""
    if isinstance(change, CacheModeChange):
        return cache_mode_steps.apply(rollout, change)
    return config_steps.apply(change)


def made(
    rollout: Rollout, change: Change, outcome: object, again: bool
) -> Tuple[Change, Made, str]:
    """The change with what was read of it, what the answer to `apply` means, and why.

    `again`: it may have been asked for before.
    """
    if isinstance(change, CacheModeChange):
        return cache_mode_steps.made(rollout, change, outcome, again)
    return (change, *config_steps.made(change, outcome))


def back(rollout: Rollout, change: Change) -> Ask:
    """What takes the change back."""
    if isinstance(change, CacheModeChange):
        return cache_mode_steps.back(rollout, change)
    return config_steps.back(change)


def wait_s(rollout: Rollout, change: Change) -> float:
    """How long nothing else is done after the change was made, or taken back."""
    if isinstance(change, CacheModeChange):
        return 0.0
    back = rollout.status is RolloutStatus.ROLLING_BACK
    return change.back_wait_s if back else change.wait_s


def went_back(rollout: Rollout, change: Change, outcome: object) -> Tuple[Change, str]:
    """The change with what its way back has told, and why it is not back ("" where it is)."""
    if isinstance(change, CacheModeChange):
        return cache_mode_steps.went_back(rollout, change, outcome)
    return config_steps.went_back(change, outcome)


def can_last(change: Change) -> bool:
    """Whether there is more to a change that is to last than making it."""
    return isinstance(change, CacheModeChange)


def lasts_already(change: Change) -> bool:
    """Whether what it made is kept over a power cycle."""
    return isinstance(change, CacheModeChange) and change.kept is change.mode


def only_lasts(change: Change) -> bool:
    """Whether nothing is toggled: what is there is only to last."""
    return isinstance(change, CacheModeChange) and change.expected is change.mode
