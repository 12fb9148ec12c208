"""One cache domain to be put into another mode: what a plan keeps of it, and its steps.

At each step the probe is asked something; here is what, and what its answers mean.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, FrozenSet, Mapping, Optional, Sequence, Tuple

from .. import codec
from ..drive.prior import UNKNOWN, Prior, PriorDoubt, prior_from, states_by_id
from ..drive.safety import may_toggle
from ..errors import StorageError
from ..experiment.period import all_in
from ..experiment.run_priors import differs_from_prior
from ..host_report import HostReport
from ..model import CacheMode, DriveModel, DriveReport, LoadPoint, Transport
from ..protocol import (
    ApplyRequest,
    DrivesOutcome,
    FailureOutcome,
    LookRequest,
    RollbackRequest,
    StateOutcome,
)
from ..simulation import DriveKind
from .change import ChangeSteps, DriveWear, Verdicts, WentBack
from .change_status import ChangeStatus, Made
from .drive_change import UNEXPECTED, DriveChange, failure_words, wear_of

if TYPE_CHECKING:
    from .rollout_state import Rollout

# 250 are stored in one value (RECORD_BYTES_MAX); details of failures come on top.
CHANGE_BYTES_MAX = 30_000


@dataclass(frozen=True)
class CacheModeChange(DriveChange):
    """One cache domain to be put into another mode.

    `failure_domain` names the CRUSH buckets that the plan goes by, the widest first.
    """

    IS_READ: ClassVar[bool] = True
    CAN_LAST: ClassVar[bool] = True

    action_id: str
    hostname: str
    domain_id: str
    dev_names: Tuple[str, ...]
    osd_id: int
    device_class: str
    transport: Transport
    expected: CacheMode
    mode: CacheMode
    why: str
    manual: Tuple[str, ...]
    load_point: LoadPoint
    osd_ids: Tuple[int, ...] = field(metadata={"min_items": 1})  # all that are on the domain
    drive_ids: Tuple[str, ...] = field(metadata={"min_items": 1})
    simulated: bool = False
    status: ChangeStatus = ChangeStatus.PLANNED
    detail: str = ""
    before_us: Optional[float] = None
    before_error: float = 0.0  # standard error of its logarithm
    after_us: Optional[float] = None
    seconds: float = 0.0
    bytes_written: int = 0
    failure_domain: str = ""
    # what was there, stored before the request goes out; unknown until then
    prior: Prior = UNKNOWN
    doubt: PriorDoubt = PriorDoubt.NONE  # why it cannot be gone back to
    # what its drives keep over a power cycle, as read after a change that was to last
    kept: Optional[CacheMode] = None
    # SMART's figures of its drives before the change, by drive id
    wear: Tuple[DriveWear, ...] = ()
    at_s: float = 0.0  # when it came to its end
    drive_model: Optional[DriveModel] = None

    @property
    def knob(self) -> str:
        """The name of the knob that plans such changes."""
        return "cache_mode"

    @property
    def words(self) -> str:
        """From what to what, for people."""
        return f"{self.expected.value} to {self.mode.value}"

    @property
    def what(self) -> str:
        """What is changed."""
        return "cache mode"

    @property
    def goal(self) -> str:
        """What it is changed to."""
        return self.mode.value

    @property
    def pooled_as(self) -> str:
        """See ChangeSteps: by device class, drive model and new mode."""
        return f"{self.device_class} {self.drive_model or 'drives'} in {self.mode.value}"

    @property
    def touches(self) -> FrozenSet[Tuple[str, str]]:
        """What it changes: two plans that share one must be rolled back in order."""
        return frozenset({(self.hostname, self.domain_id)})

    # ---- what a rollout asks for, and what the answers mean: see ChangeSteps

    def look(self, rollout: Rollout) -> LookRequest:
        """See ChangeSteps."""
        return LookRequest(self.domain_id)

    def looked(self, rollout: Rollout, outcome: object) -> Tuple[CacheModeChange, str]:
        """See ChangeSteps."""
        prior, why = self._seen(rollout, outcome)
        if why or self.prior.known:
            # a request went out with it: what is there now may be ours
            return self, why
        drives = outcome.drives if isinstance(outcome, DrivesOutcome) else ()
        return replace(self, prior=prior, wear=wear_of(drives)), ""

    def _seen(self, rollout: Rollout, outcome: object) -> Tuple[Prior, str]:
        if isinstance(outcome, DrivesOutcome):
            others = self.others(outcome.drives)
            if others:
                return UNKNOWN, f"{others}; make a new plan"
            try:
                prior = prior_from(rollout.cluster_fsid, self.domain_id, outcome.drives)
                require_room(self, prior)
                return prior, ""
            except StorageError as error:
                return UNKNOWN, error.message
        if isinstance(outcome, FailureOutcome):
            return UNKNOWN, outcome.message
        return UNKNOWN, UNEXPECTED

    def is_still(self, outcome: object) -> str:
        """See ChangeSteps; by a look at its drives.

        A host that was reset brings a drive back as its firmware has it, and nobody is told.
        """
        if isinstance(outcome, FailureOutcome):
            return f"could not be read after it was judged: {outcome.message}"
        drives = outcome.drives if isinstance(outcome, DrivesOutcome) else ()
        mine = tuple(drive.state for drive in drives if drive.domain_id == self.domain_id)
        if all_in(self.mode.value, mine, self.transport):
            return ""
        return (
            f"is no longer in {self.mode.value}, the mode that was judged: a reset of the host or "
            "another program has changed it"
        )

    def apply(self, rollout: Rollout) -> ApplyRequest:
        """See ChangeSteps; with what was there before it."""
        return ApplyRequest(
            self.domain_id, self.action_id, self.expected, self.mode,
            rollout.consent_turn_on, self._lasts(rollout), rollout.throwaway, self.prior,
        )

    def _lasts(self, rollout: Rollout) -> bool:
        """Whether what is made now is made to last: not before it is judged.

        There is nothing to judge where a drive is in its mode and is only to keep it.
        """
        return rollout.consent_persist and (rollout.step.last or self.only_lasts)

    def made(
        self, rollout: Rollout, outcome: object, again: bool
    ) -> Tuple[CacheModeChange, Made, str]:
        """See ChangeSteps."""
        verdict, why = self._made(rollout, outcome, again)
        kept = self._lasts(rollout) and verdict in (Made.YES, Made.ALREADY)
        return replace(self, kept=self.mode) if kept else self, verdict, why

    def _made(self, rollout: Rollout, outcome: object, again: bool) -> Tuple[Made, str]:
        if isinstance(outcome, FailureOutcome):
            said = failure_words(outcome)
            if outcome.doubt is PriorDoubt.OTHER_STATE:
                # somebody else's change, or ours and the journal is lost
                return Made.OTHERS, said
            if outcome.by_drive and self._as_it_was(outcome) and (outcome.after or not again):
                return Made.REFUSED, said
            return (Made.UNSURE if again or not self._as_it_was(outcome) else Made.NOT), said
        if not isinstance(outcome, StateOutcome):
            return Made.WRONG, "the probe gave an unexpected answer to a change"
        if not all_in(self.mode.value, outcome.after, self.transport):
            return Made.WRONG, f"the drive did not read back as {self.mode.value}"
        kept = [state.page.saved for state in outcome.after]
        if self._lasts(rollout) and any(mode is not self.mode for mode in kept):
            return Made.WRONG, (
                f"{self.mode.value} did not read back as what the drive keeps over a power cycle"
            )
        return (Made.YES if outcome.changed else Made.ALREADY), ""

    def _as_it_was(self, outcome: FailureOutcome) -> bool:
        """Whether a change that failed has left the drive as it was, by what was read of it."""
        read = states_by_id(outcome.drive_ids, outcome.after)
        equal = not outcome.after or not differs_from_prior(self.prior, read)
        return outcome.restored and equal

    def back(self, rollout: Rollout) -> RollbackRequest:
        """See ChangeSteps."""
        return RollbackRequest(self.domain_id, self.action_id, rollout.throwaway, self.prior)

    def went_back(self, rollout: Rollout, outcome: object) -> WentBack:
        """See ChangeSteps; back is what was read and equals the prior state."""
        if isinstance(outcome, FailureOutcome):
            return WentBack(replace(self, doubt=outcome.doubt), outcome.message)
        if not isinstance(outcome, StateOutcome):
            return WentBack(replace(self, doubt=PriorDoubt.NONE), "an unexpected answer")
        differs = differs_from_prior(self.prior, states_by_id(outcome.drive_ids, outcome.after))
        if differs:
            lost = PriorDoubt.NONE if self.prior.known else PriorDoubt.LOST
            return WentBack(replace(self, doubt=lost), differs)
        return WentBack(replace(self, doubt=PriorDoubt.NONE, kept=None))

    def verdict_moved(self, verdicts: Verdicts) -> str:
        """See ChangeSteps."""
        for item in verdicts.recommendations:
            if DriveKind.of(item) == DriveKind.of(self):
                if item.mode is self.mode:
                    return ""
                return f"the verdict of its drive model is {item.verdict.value} now"
        return "its drive model no longer has a verdict"

    def refusal(
        self, rollout: Rollout, report: HostReport, drives: Sequence[DriveReport],
        lost: Mapping[str, str],
    ) -> str:
        """See DriveChange."""
        return may_toggle(
            drives, self.mode, throwaway=rollout.throwaway,
            consent_turn_on=rollout.consent_turn_on, experiment=False,
            lasts=rollout.consent_persist, lost=lost,
        ) or ""

    def unlike(self, drive: DriveReport, planned: bool = False) -> str:
        """See DriveChange."""
        if drive.mode is (self.expected if planned else self.mode):
            return ""
        now = drive.mode.value if drive.mode else "an unknown mode"
        return f"{drive.dev_name} is in {now}"

    @property
    def was(self) -> str:
        """See DriveChange."""
        return f"was in {self.expected.value}"

    # ---- how long it lasts, and the history: see ChangeSteps

    @property
    def lasts_already(self) -> bool:
        """See ChangeSteps."""
        return self.kept is self.mode

    @property
    def only_lasts(self) -> bool:
        """See ChangeSteps."""
        return self.expected is self.mode

    @property
    def sides(self) -> Tuple[str, str]:
        """See ChangeSteps."""
        return self.expected.value, self.mode.value


def require_room(change: ChangeSteps, prior: Prior = UNKNOWN) -> None:
    """Raise StorageError where a change would become too large to be stored with `prior`."""
    if len(codec.dumps(change)) + len(codec.dumps(prior)) > CHANGE_BYTES_MAX:
        raise StorageError(
            f"a change would have more than {CHANGE_BYTES_MAX} bytes, with what was there before",
            "see which host reports many drives or long names in `ceph wcache drive ls`",
        )
