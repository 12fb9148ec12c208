"""What a change sets, whatever it is: what each step asks for, what an answer means.

A setting is a frozen dataclass with what it has before and what it gets, and a line in
`change.ChangedSetting`.  Who carries a change out knows no more of it than stands here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar, Iterable, NamedTuple, Optional, Sequence, Tuple, TypeVar, Union

from ..config_database import ConfigEdit, ConfigRequest
from ..drive.prior import UNKNOWN, Prior, PriorDoubt
from ..hardware import Wear
from ..host_report import HostReport, Lost
from ..model import CacheMode, DriveModel, DriveReport, Transport
from ..protocol import Request

# To a probe, or to the config database.
Ask = Union[Request, ConfigRequest]
Own = TypeVar("Own", bound="Setting")
# See Setting.SHOWN: how far a change has come.
HOW_FAR = "status detail before_us before_error after_us seconds bytes_written"


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


@dataclass(frozen=True)
class CacheDomain:
    """The drives that share a switch, and the OSDs on them, as a plan names them."""

    hostname: str
    domain_id: str
    dev_names: Tuple[str, ...]
    transport: Transport
    osd_ids: Tuple[int, ...] = field(metadata={"min_items": 1})  # all that are on the domain
    drive_ids: Tuple[str, ...] = field(metadata={"min_items": 1})
    simulated: bool = False
    drive_model: Optional[DriveModel] = None

    @property
    def name(self) -> str:
        """What it is, for people."""
        return f"{self.hostname} {', '.join(self.dev_names)}"

    def others(self, drives: Sequence[DriveReport]) -> str:
        """Say which drives and OSDs there are instead of those that are named; "" where none.

        A consent to a plan is one to change these.
        """
        if sorted(drive.drive_id for drive in drives) != sorted(self.drive_ids):
            return "the drive is gone or was replaced"
        osd_ids = sorted({use.osd_id for drive in drives for use in drive.uses})
        if osd_ids != sorted(self.osd_ids):
            return f"its OSDs are {osd_ids} now, and were {sorted(self.osd_ids)}"
        return ""


# Of what no probe sets.
NOWHERE = CacheDomain("", "", (), Transport.UNKNOWN, (), ())


class Setting(ABC):
    """Something that has a value, is given another one, and gets the first one back.

    Each says too whom it concerns (`touches`, `osd_ids`, `concerned_osds`), and for people `what`
    is changed, its `goal`, what there is on both `sides`, and from what to what it is `moved`; its
    `knob`, which effects are `pooled_as` one, and how to make and `undo` it by hand (`manual`).
    """

    # Its drives; NOWHERE where no probe has a part in it.
    domain: CacheDomain = NOWHERE
    # The values of the config database that it sets.
    edits: Tuple[ConfigEdit, ...] = ()
    # The fields that are printed of a change of it, in order.
    SHOWN: ClassVar[str]
    # Read once more before it counts: a drive can change by itself.
    IS_READ: ClassVar[bool] = False
    # There is more to one that is to last than making it.
    CAN_LAST: ClassVar[bool] = False
    # It may change what reads take: then clients' reads judge it beside their writes.
    READS_TOO: ClassVar[bool] = False
    # Changes of it keep the order in which their knob wants them, on the way back too.
    IN_ORDER: ClassVar[bool] = False
    # Several changes of one thing in a row may be one step, each alone too small to be seen.
    MAY_RAMP: ClassVar[bool] = False
    # What an admin does before a rollback where nobody knows whether it was made.
    LOOK_FIRST: ClassVar[str] = ""

    # ---- what a rollout asks for, and what the answers mean

    @abstractmethod
    def look(self, later: Iterable[ConfigEdit]) -> Ask:
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

    def has_left(self, outcome: object) -> bool:
        """Say whether the reading that came with an answer shows that it is not there any more."""
        return False

    # ---- what its drives have, and what it takes

    def unlike(self, drive: DriveReport, planned: bool = False) -> str:
        """Say what a drive has instead of its value, or of what it was `planned` from; else ""."""
        return ""

    def unfit(self, warrant: Warrant, report: Optional[HostReport], lost: Lost, new: bool) -> str:
        """Say why it does not fit what its host reports any more; "" where it does.

        `lost`: what power cuts have shown of drive models.  `new`: it is not made yet.
        """
        return ""

    def over_others(self, drives: Sequence[DriveReport]) -> str:
        """Say what its way back undoes that others have set; "" where nothing."""
        return ""

    @property
    def mode_wanted(self) -> Optional[CacheMode]:
        """The cache mode that it sets, which must be recommended for it to be made; or None."""
        return None

    @property
    def assigned(self) -> str:
        """The option and its value, where an admin has named them: nothing recommends one."""
        return ""

    @property
    def needs_consent(self) -> str:
        """The cache device that alone may have what is acknowledged with it; "" for none."""
        return ""

    @property
    def kept_by(self) -> str:
        """What keeps it over a reboot by itself; "" where nothing does."""
        return ""

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
