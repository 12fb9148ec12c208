"""A setting of one cache domain's drives: a probe reads it, sets it, brings it back."""

from __future__ import annotations

from abc import abstractmethod
from typing import AbstractSet, ClassVar, Iterable, Mapping, Optional, Sequence, Tuple, Union

from ..cluster import ClusterState
from ..config_database import ConfigEdit
from ..drive.prior import Prior, PriorDoubt, prior_from, states_by_id
from ..errors import RefusedError, StorageError
from ..host_report import HostReport, Lost
from ..model import DriveReport, DriveState
from ..protocol import (
    CountersRequest,
    DrivesOutcome,
    FailureOutcome,
    LookRequest,
    OptionsRequest,
    RollbackRequest,
    SetModeRequest,
    SetOptionRequest,
    StateOutcome,
)
from .setting import DriveWear, Looked, Made, Setting, Warrant, WayBack

UNEXPECTED = "the probe gave an unexpected answer"
UNDO = "  # undo it"  # the lines of a change by hand that take it back
# See Setting.SHOWN: what each kind begins with.
OF_DRIVES = "action_id hostname domain_id dev_names osd_id device_class transport"


class DriveSetting(Setting):
    """What a probe sets; its kinds are dataclasses with these fields and `domain` at least."""

    IS_READ: ClassVar[bool] = True
    LOOK_FIRST: ClassVar[str] = "look at the drive, then, with the probe there"
    # A drive is "in" a mode, and stands "with" an option.
    STANDS: ClassVar[str] = "with"
    WAS: ClassVar[str] = "was "

    before: str
    after: str
    manual: Tuple[str, ...]

    # ---- what drives have

    @property
    def reset_too(self) -> Tuple[str, ...]:
        """The options that are part of what was there before; RefusedError where unknown."""
        return ()

    @abstractmethod
    def is_there(self, states: Tuple[DriveState, ...]) -> bool:
        """Say whether each drive was read to have it; what was not read proves nothing."""

    @abstractmethod
    def unlike(self, drive: DriveReport, planned: bool = False) -> str:
        """Say how a drive differs from what was planned, or made; "" where it does not."""

    def differs(self, prior: Prior, read: Mapping[str, DriveState]) -> str:
        """Say how drives that were read, by id, differ from those before; "" where they do not."""
        return prior.differs(read)

    @abstractmethod
    def refusal(
        self, warrant: Warrant, report: HostReport, drives: Sequence[DriveReport],
        lost: Mapping[str, str],
    ) -> str:
        """Say why it must not be made, or not made to last, on drives as they are; "" where it may.

        `report` is that of its host.  `lost` is what power cuts have shown of drive models.  It
        asks what was asked when it was planned, and whether what was consented to is still that.
        """

    def unfit(self, warrant: Warrant, report: Optional[HostReport], lost: Lost, new: bool) -> str:
        there = report.drives if report is not None else ()
        drives = [drive for drive in there if drive.domain_id == self.domain.domain_id]
        others = self.domain.others(drives)
        if others or report is None:
            return others
        # made since the host was looked at, perhaps: it is read before it is to last
        unlike = (self.unlike(drive, planned=True) for drive in drives if new)
        told = (f"{why} now, and " + self.WAS + self.before for why in unlike if why)
        known = lost[self.domain.simulated]
        return next(told, "") or self.refusal(warrant, report, drives, known)

    def not_agreed(self, warrant: Warrant) -> str:
        """Say what nobody has agreed to; "" where all is."""
        return ""

    def not_kept(self, states: Sequence[DriveState]) -> str:
        """Say why it does not last; "" where it does."""
        return ""

    def left(self, value: str, outcome: StateOutcome) -> str:
        """Say what is still to happen by itself before its drives have a value; or ""."""
        return ""

    @property
    @abstractmethod
    def gone(self) -> str:
        """What it is to be no longer there: goes on from its name."""

    # ---- what an experiment asks for

    @abstractmethod
    def lease(self, warrant: Warrant) -> Union[SetModeRequest, SetOptionRequest]:
        """Say what sets it until a lease ends; it changes nothing where it is there."""

    @abstractmethod
    def read(self) -> Union[CountersRequest, OptionsRequest]:
        """Say what reads whether it is there, and the kernel's counters."""

    # ---- what a rollout asks for, and what the answers mean: see Setting

    def look(self, later: Iterable[ConfigEdit]) -> LookRequest:
        return LookRequest(self.domain.domain_id)

    def looked(self, outcome: object, warrant: Warrant) -> Looked:
        if isinstance(outcome, FailureOutcome):
            return Looked(outcome.message)
        if not isinstance(outcome, DrivesOutcome):
            return Looked(UNEXPECTED)
        drives, why = outcome.drives, self.not_agreed(warrant)
        others = self.domain.others(drives)
        if why or others:
            return Looked(why or f"{others}; make a new plan")
        if warrant.prior.known:
            # a request went out with it: what is there now may be ours
            return Looked()
        try:
            prior = prior_from(
                warrant.cluster_fsid, self.domain.domain_id, drives, self.reset_too
            )
        except (StorageError, RefusedError) as error:
            return Looked(error.message)
        wear = (DriveWear(one.drive_id, one.wear) for one in drives if one.wear is not None)
        return Looked("", prior, tuple(wear))

    def is_still(self, outcome: object) -> str:
        """Look at its drives, which a reset may have changed by itself."""
        if isinstance(outcome, FailureOutcome):
            return f"could not be read after it was judged: {outcome.message}"
        drives = outcome.drives if isinstance(outcome, DrivesOutcome) else ()
        mine = [one.state for one in drives if one.domain_id == self.domain.domain_id]
        return "" if self.is_there(tuple(mine)) else self.gone

    def has_left(self, outcome: object) -> bool:
        read = outcome.after if isinstance(outcome, (StateOutcome, FailureOutcome)) else ()
        return bool(read) and not self.is_there(read)

    def made(self, outcome: object, warrant: Warrant, again: bool) -> Tuple[Made, str]:
        if isinstance(outcome, FailureOutcome):
            said = outcome.said
            if outcome.doubt is PriorDoubt.OTHER_STATE:
                # somebody else's change, or ours and the journal is lost
                return Made.OTHERS, said
            if not (self._as_it_was(outcome, warrant.prior) and (outcome.after or not again)):
                return Made.UNSURE, said
            return (Made.REFUSED if outcome.by_drive else Made.NOT), said
        if not isinstance(outcome, StateOutcome):
            return Made.WRONG, f"{UNEXPECTED} to a change"
        if not self.is_there(outcome.after):
            return Made.WRONG, f"the drive did not read back {self.STANDS} {self.goal}"
        why = self.not_kept(outcome.after) if warrant.lasts else ""
        if why:
            return Made.WRONG, why
        left = self.left(self.after, outcome)
        if left:
            return Made.NOT_YET, left
        return (Made.YES if outcome.changed else Made.ALREADY), ""

    def _as_it_was(self, outcome: FailureOutcome, prior: Prior) -> bool:
        """Whether a change that failed has left the drive as it was, by what was read of it."""
        read = states_by_id(outcome.drive_ids, outcome.after)
        return outcome.restored and not (outcome.after and self.differs(prior, read))

    def back(self, warrant: Warrant) -> RollbackRequest:
        return RollbackRequest(
            self.domain.domain_id, warrant.action_id, warrant.throwaway, warrant.prior
        )

    def went_back(self, outcome: object, prior: Prior) -> WayBack:
        """Count it as undone only when the state read back equals the prior state."""
        if isinstance(outcome, FailureOutcome):
            return WayBack(outcome.message, outcome.doubt)
        if not isinstance(outcome, StateOutcome):
            return WayBack("an unexpected answer")
        differs = self.differs(prior, states_by_id(outcome.drive_ids, outcome.after))
        if differs:
            return WayBack(differs, PriorDoubt.NONE if prior.known else PriorDoubt.LOST)
        return WayBack(not_yet=self.left(self.before, outcome))

    # ---- whom it concerns, and for people

    @property
    def undo(self) -> str:
        """The commands that take it back by hand."""
        return " && ".join(line[:-len(UNDO)] for line in self.manual if line.endswith(UNDO))

    @property
    def osd_ids(self) -> Tuple[int, ...]:
        """The OSDs whose clients it may touch."""
        return self.domain.osd_ids

    def concerned_osds(self, cluster: ClusterState) -> AbstractSet[int]:
        """Return all OSDs that it may concern."""
        return set(self.domain.osd_ids)

    @property
    @abstractmethod
    def what(self) -> str:
        """What is changed."""

    @property
    def prefix(self) -> str:
        """What is written before a value, for people."""
        return ""

    @property
    def goal(self) -> str:
        """What it is changed to."""
        return self.prefix + self.after

    @property
    def sides(self) -> Tuple[str, str]:
        """What was there before, and what is there with it."""
        return self.prefix + self.before, self.goal

    def moved(self, back: bool) -> str:
        """Say from what to what; `back`: the other way round."""
        before, after = (self.after, self.before) if back else (self.before, self.after)
        return self.prefix + before + " to " + after

    @property
    def words(self) -> str:
        """From what to what."""
        return self.moved(back=False)

    def pooled_as(self, device_class: str) -> str:
        """Say which kind of effect it has: by device class, drive model and what is set."""
        return f"{device_class} {self.domain.drive_model or 'drives'} {self.STANDS} {self.goal}"
