"""One planned change of a setting, as a plan keeps it with its progress."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Optional, Protocol, Sequence, Tuple, Union

from .. import codec
from ..config_database import EDITS_MAX, ConfigEdit
from ..drive.prior import UNKNOWN, Prior, PriorDoubt
from ..errors import StorageError
from ..host_report import OfDriveKind
from ..model import DriveModel, LoadPoint
from ..options.entries import CACHE_MODES
from ..scope import Scope
from ..setting.config_setting import JUDGED_MAX, ConfigSetting
from ..setting.domain_settings import CacheModeSetting, OptionSetting
from ..setting.setting import NOWHERE, CacheDomain, DriveWear, Made, Warrant, WayBack
from ..verdict.option_choice import Ground, OptionVerdict, fallen
from ..verdict.recommend import Recommendation

# 250 are stored in one value (RECORD_BYTES_MAX); details of failures come on top.
CHANGE_BYTES_MAX = 30_000
# This is how stored plans are read; what a setting is to the rest, `Setting` says.
ChangedSetting = Union[CacheModeSetting, OptionSetting, ConfigSetting]


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
# The same, or at the end of that way, whatever came of it.
BACK = (
    *GOING_BACK, ChangeStatus.ROLLED_BACK, ChangeStatus.ROLLBACK_FAILED, ChangeStatus.ACCEPTED,
)


class Verdicts(Protocol):
    """What verdicts say now; each is worked out where a change asks for it."""

    @property
    def recommendations(self) -> Sequence[Recommendation]:
        """Which cache mode drives should be in."""

    @property
    def option_verdicts(self) -> Sequence[OptionVerdict]:
        """What is known of options' values."""

    def objection(self, rollout: Any, back: bool = False) -> str:
        """Why a knob is against what is left of a plan, or against its way back; else ""."""


@dataclass(frozen=True)
class Change(OfDriveKind):
    """A setting to be changed, proven, and taken back.

    `failure_domain` names the CRUSH buckets that the plan goes by, the widest first, or what it
    concerns at most.  With a `load_point` it is proven by measuring `osd_id` before and after, if
    clients do not judge it; without one what was read back proves it.  Nothing else is done for
    `wait_s` after it was made, and for `back_wait_s` after it was taken back.
    """

    action_id: str
    setting: ChangedSetting
    device_class: str
    why: str
    failure_domain: str = ""
    osd_id: int = 0
    load_point: Optional[LoadPoint] = None
    wait_s: float = 0.0
    back_wait_s: float = 0.0
    # OSDs that take another value by it, a sample, where its own clients do not judge it
    judged_on: Tuple[int, ...] = field(default=(), metadata={"max_items": JUDGED_MAX})
    # the verdicts that it was planned by, where it was by such
    grounds: Tuple[Ground, ...] = field(default=(), metadata={"max_items": EDITS_MAX})
    status: ChangeStatus = ChangeStatus.PLANNED
    detail: str = ""
    before_us: Optional[float] = None
    before_error: float = 0.0  # standard error of its logarithm
    after_us: Optional[float] = None
    seconds: float = 0.0
    bytes_written: int = 0
    at_s: float = 0.0  # when it came to its end
    # what was there, stored before the request goes out; unknown until then
    prior: Prior = UNKNOWN
    doubt: PriorDoubt = PriorDoubt.NONE  # why it cannot be gone back to
    # SMART's figures of its drives before the change, by drive id
    wear: Tuple[DriveWear, ...] = ()
    lasts: bool = False  # its drives keep it over a power cycle, as read

    def __post_init__(self) -> None:
        if self.domain is not NOWHERE and not (self.hostname and self.load_point):
            raise ValueError("a change of drives needs their host, and a load to judge it by")

    # ---- what it changes, and whom that concerns

    @property
    def domain(self) -> CacheDomain:
        """Its drives; NOWHERE where no probe has a part in it."""
        return self.setting.domain

    @property
    def hostname(self) -> str:
        """The host of its drives, or ""."""
        return self.domain.hostname

    @property
    def domain_id(self) -> str:
        """Their cache domain, or ""."""
        return self.domain.domain_id

    @property
    def simulated(self) -> bool:
        """Whether they are; a config database is always the real one."""
        return self.domain.simulated

    @property
    def drive_model(self) -> Optional[DriveModel]:
        """Their model."""
        return self.domain.drive_model

    @property
    def edits(self) -> Tuple[ConfigEdit, ...]:
        """The values of the config database that it sets."""
        return self.setting.edits

    @property
    def name(self) -> str:
        """What is changed, for people."""
        of_values = f"{self.setting.knob} of {self.failure_domain}"
        return self.domain.name if self.hostname else of_values

    @property
    def pooled_as(self) -> str:
        """The kind of effect it has: a rollout proves changes of one kind together."""
        return self.setting.pooled_as(self.device_class)

    @property
    def measured(self) -> bool:
        """Whether an OSD is measured before and after, by clients' load or a bench."""
        return self.load_point is not None and not self.setting.unjudged

    @property
    def treated(self) -> Tuple[int, ...]:
        """The OSDs whose clients the change may touch, where it names them one by one."""
        return self.setting.osd_ids or ((self.osd_id,) if self.measured else ())

    @property
    def judging_osds(self) -> Tuple[int, ...]:
        """The OSDs whose clients' load judges it; none where nobody knows whom it concerns."""
        return self.judged_on or (self.treated if self.measured else ())

    @property
    def alone_touched(self) -> bool:
        """Whether it reaches no other OSDs than those that it is judged on."""
        sections = {f"osd.{osd_id}" for osd_id in self.judging_osds}
        return all(edit.who in sections for edit in self.edits)

    def is_within(self, scope: Scope) -> bool:
        """Say whether a scope asks for it; all that the scope names must fit.

        Values of the config database go with one only where they concern nothing else.
        """
        if self.hostname:
            return (
                scope.has_osd(*self.treated) and scope.has_host(self.hostname)
                and scope.has_model(self.drive_model)
            )
        at_home = self.failure_domain.rpartition(", ")[2] == f"host {scope.hostname}"
        return (
            (scope.osd_id is None or self.treated == (scope.osd_id,))
            and (not scope.hostname or at_home) and not scope.drive_model
        )

    # ---- how far it has come

    @property
    def can_last(self) -> bool:
        """Whether there is more to it than making it, and that is not done yet."""
        return self.setting.CAN_LAST and self.real and not self.lasts

    def verdict_moved(self, verdicts: Verdicts) -> str:
        """Say why it is no longer what is recommended; "" where it is, or no verdict wants it."""
        told = (fallen(ground, verdicts.option_verdicts) for ground in self.grounds)
        moved = next(filter(None, told), "")
        mode = self.setting.mode_wanted
        if moved or mode is None:
            return moved
        for item in verdicts.recommendations:
            if item.kind == self.kind:
                said = f"the verdict of its drive model is {CACHE_MODES.said(item.verdict)} now"
                return "" if item.mode is mode else said
        return "its drive model no longer has a verdict"

    def looked(self, outcome: object, warrant: Warrant) -> Tuple[Change, str]:
        """Return it with what is there before it, or why it must not be made."""
        why, prior, wear = self.setting.looked(outcome, warrant)
        if why or self.prior.known:
            return self, why
        setting = self.setting.as_found(outcome)
        found: Change = replace(self, setting=setting, prior=prior, wear=wear)
        try:
            if prior.known:
                require_room(found)
        except StorageError as error:
            return self, error.message
        return found, ""

    def made(self, outcome: object, warrant: Warrant, again: bool) -> Tuple[Change, Made, str]:
        """Return it with what was read of it, what the answer to `apply` means, and why."""
        made, why = self.setting.made(outcome, warrant, again)
        there = made in (Made.YES, Made.ALREADY)
        waits = why if made is Made.NOT_YET else "" if there else self.detail
        return replace(self, detail=waits, lasts=self.lasts or (there and warrant.lasts)), made, why

    def went_back(self, outcome: object) -> Tuple[Change, WayBack]:
        """Return it with what came of its way back."""
        found = self.setting.went_back(outcome, self.prior)
        lasts = self.lasts and bool(found.not_back)
        detail = codec.one_line("; ".join(filter(None, (self.detail, found.left_alone))))
        return replace(self, doubt=found.doubt, lasts=lasts, detail=detail), found


def require_room(change: Change) -> None:
    """Raise StorageError where a change is too large to be stored, with what was there before."""
    if len(codec.dumps(change)) > CHANGE_BYTES_MAX:
        raise StorageError(
            f"a change would have more than {CHANGE_BYTES_MAX} bytes, with what was there before",
            "see which host reports many drives or long names in `ceph wcache drive ls`",
        )
