"""What a change sets, whatever it is: what each step asks for, what an answer means.

A setting is a frozen dataclass with what it has before and what it gets, and a line in
`change.ChangedSetting`.  Who carries a change out knows no more of it than stands here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, NamedTuple, Optional, Sequence, Tuple, TypeVar, Union

from ..config_database import ConfigEdit, ConfigRequest
from ..drive.prior import UNKNOWN, Prior, PriorDoubt
from ..hardware import Wear
from ..model import CacheMode
from ..protocol import Request

# To a probe, or to the config database.
Ask = Union[Request, ConfigRequest]
Own = TypeVar("Own", bound="Setting")


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


@dataclass(frozen=True)
class DriveWear:
    """What a drive had written before a change."""

    drive_id: str
    wear: Wear


@dataclass(frozen=True)
class Warrant:
    """On whose behalf a setting is changed: the action, what was there, and what was agreed to.

    `lasts`: what is made now is made to last, as it is judged.  `persist`: that is agreed to.
    """

    action_id: str
    prior: Prior = UNKNOWN
    cluster_fsid: str = ""
    turn_on: bool = False
    lasts: bool = False
    persist: bool = False
    writeback: bool = False
    throwaway: bool = False


class Looked(NamedTuple):
    """What a look has found: why it must not be changed, or what is to be stored before it is."""

    why: str = ""
    prior: Prior = UNKNOWN
    wear: Tuple[DriveWear, ...] = ()


class WayBack(NamedTuple):
    """Result of undoing a change: the error, or what was left alone, as others have changed it.

    `not_yet`: what it waits for, where it is on its way back and is to be asked for again.
    """

    not_back: str = ""
    doubt: PriorDoubt = PriorDoubt.NONE
    left_alone: str = ""
    not_yet: str = ""


class Setting(ABC):
    """Something that has a value, is given another one, and gets the first one back.

    Each says too whom it concerns (`touches`, `osd_ids`, `concerned_osds`), and for people `what`
    is changed, its `goal`, what there is on both `sides`, and from what to what it is `moved`.
    """

    # Read once more before it counts: a drive can change by itself.
    IS_READ: ClassVar[bool] = False
    # There is more to one that is to last than making it.
    CAN_LAST: ClassVar[bool] = False
    # It may change what reads take: then clients' reads judge it beside their writes.
    READS_TOO: ClassVar[bool] = False
    # Several changes of one thing in a row may be one step, each alone too small to be seen.
    MAY_RAMP: ClassVar[bool] = False
    # What an admin does before a rollback where nobody knows whether it was made.
    LOOK_FIRST: ClassVar[str] = ""

    # ---- what a rollout asks for, and what the answers mean

    @abstractmethod
    def look(self, later: Sequence[ConfigEdit]) -> Ask:
        """Say what reads what is there before the change; `later`: edits that come after it."""

    @abstractmethod
    def looked(self, outcome: object, warrant: Warrant) -> Looked:
        """Return what the look has found, or why it must not be changed."""

    def as_found(self: Own, outcome: object) -> Own:
        """Return it with what such a look has found, where that is a part of it."""
        return self

    @abstractmethod
    def apply(self, warrant: Warrant) -> Ask:
        """Say what makes the change; asked twice, it does no more than once."""

    @abstractmethod
    def made(self, outcome: object, warrant: Warrant, again: bool) -> Tuple[Made, str]:
        """Return what the answer to `apply` means, and why.

        `again`: it may have been asked for before.
        """

    @abstractmethod
    def back(self, warrant: Warrant) -> Ask:
        """Say what takes the change back."""

    @abstractmethod
    def went_back(self, outcome: object, prior: Prior) -> WayBack:
        """Say what came of its way back."""

    def is_still(self, outcome: object) -> str:
        """Say why a change that was judged is not there any more; "" where it is."""
        return ""

    @property
    def mode_wanted(self) -> Optional[CacheMode]:
        """The cache mode that must be recommended for it to be made, if one must."""
        return None

    @property
    def unjudged(self) -> bool:
        """Whether it slows clients, as it should: then nothing measures what it does to them."""
        return False

    @property
    def not_tried(self) -> str:
        """Why it cannot be made, measured and taken back as a trial; "" where it can."""
        return ""

    @property
    def only_lasts(self) -> bool:
        """Whether nothing is toggled: what is there is only to last."""
        return False
