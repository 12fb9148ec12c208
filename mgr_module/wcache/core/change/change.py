"""What every kind of change has: what a rollout asks for at each step, and what answers mean.

A kind is a frozen dataclass that adds its fields, and a line in `rollout_state.Change`.  Nobody
else asks which kind a change is of.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    AbstractSet,
    ClassVar,
    NamedTuple,
    Protocol,
    Sequence,
    Tuple,
    Union,
)

from ..cluster import ClusterState
from ..config_database import ConfigRequest
from ..events import LoadRequest
from ..hardware.readings import Wear
from ..protocol import Request
from ..scope import Scope
from ..verdict.option_choice import OptionVerdict
from ..verdict.recommend import Recommendation
from .change_status import Made

if TYPE_CHECKING:
    from .rollout_state import Change, Rollout

# To a probe, or to the config database.
Ask = Union[Request, ConfigRequest]


@dataclass(frozen=True)
class DriveWear:
    """What a drive had written before a change."""

    drive_id: str
    wear: Wear


class WentBack(NamedTuple):
    """A change after it was to go back: why it is not, and what of it is others' since, or "".

    `not_yet`: what it waits for, where it is on its way back and is to be asked for again.
    """

    change: Change
    not_back: str = ""
    left_alone: str = ""
    not_yet: str = ""


class Verdicts(Protocol):
    """What verdicts say now; each is worked out where a change asks for it."""

    @property
    def recommendations(self) -> Sequence[Recommendation]:
        """Which cache mode drives should be in."""

    @property
    def option_verdicts(self) -> Sequence[OptionVerdict]:
        """What is known of options' values."""


class ChangeSteps(ABC):
    """The steps of one change; the machine in `rollout.py` knows no more of a kind."""

    # Read once more before it counts: a drive can change by itself.
    IS_READ: ClassVar[bool] = False
    # There is more to one that is to last than making it.
    CAN_LAST: ClassVar[bool] = False
    # It may change what reads take: then clients' reads judge it beside their writes.
    READS_TOO: ClassVar[bool] = False
    # Several changes of one thing in a row may be one step, each alone too small to be seen.
    MAY_RAMP: ClassVar[bool] = False

    # ---- what a rollout asks for, and what the answers mean

    @abstractmethod
    def measure(self, rollout: Rollout) -> Union[Request, LoadRequest, None]:
        """Say what measures an OSD before and after; None where it is read back and no more."""

    @abstractmethod
    def look(self, rollout: Rollout) -> Ask:
        """Say what reads what is there before the change."""

    @abstractmethod
    def looked(self, rollout: Rollout, outcome: object) -> Tuple[Change, str]:
        """Return the change with what is there before it, or why it must not be made."""

    @abstractmethod
    def apply(self, rollout: Rollout) -> Ask:
        """Say what makes the change; asked twice, it does no more than once."""

    @abstractmethod
    def made(self, rollout: Rollout, outcome: object, again: bool) -> Tuple[Change, Made, str]:
        """Return the change with what was read of it, what the answer to `apply` means, and why.

        `again`: it may have been asked for before.
        """

    @abstractmethod
    def back(self, rollout: Rollout) -> Ask:
        """Say what takes the change back."""

    @abstractmethod
    def went_back(self, rollout: Rollout, outcome: object) -> WentBack:
        """Say what came of its way back."""

    def is_still(self, outcome: object) -> str:
        """Say why a change that was judged is not there any more; "" where it is."""
        return ""

    def pause_s(self, rollout: Rollout) -> float:
        """Return how long nothing else is done after it was made, or taken back."""
        return 0.0

    @property
    def not_tried(self) -> str:
        """Why it cannot be made, measured and taken back as a trial; "" where it can."""
        return ""

    def verdict_moved(self, verdicts: Verdicts) -> str:
        """Say why it is no longer what is recommended; "" where it is, or no verdict wants it."""
        return ""

    # ---- whom it concerns

    @property
    @abstractmethod
    def judging_osds(self) -> Tuple[int, ...]:
        """The OSDs whose clients' load judges it; none where nobody knows whom it concerns."""

    @property
    @abstractmethod
    def pooled_as(self) -> str:
        """The kind of effect it has: a rollout proves changes of one kind together."""

    @property
    @abstractmethod
    def alone_touched(self) -> bool:
        """Whether it reaches no other OSDs than those that it is judged on."""

    @abstractmethod
    def concerned_osds(self, cluster: ClusterState) -> AbstractSet[int]:
        """Return all OSDs that it may concern: more than those that it is judged on."""

    @abstractmethod
    def is_within(self, scope: Scope) -> bool:
        """Say whether a scope asks for it; all that the scope names must fit."""

    # ---- how long it lasts

    @property
    def lasts_already(self) -> bool:
        """Whether what it made is kept over a power cycle."""
        return False

    @property
    def only_lasts(self) -> bool:
        """Whether nothing is toggled: what is there is only to last."""
        return False

    # ---- for the history

    @property
    @abstractmethod
    def sides(self) -> Tuple[str, str]:
        """What was there before, and what is there with it, for people."""

    @abstractmethod
    def moved(self, back: bool) -> str:
        """Say from what to what, each thing named once; `back`: the other way round."""
