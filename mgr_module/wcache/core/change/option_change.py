"""An option of one cache domain's drives to be given another value: what a plan keeps, its steps.

What the kernel resets along with the option is part of what was there before, and goes back with
it.  A value in sysfs is gone after a reboot of the host: a change of this kind never lasts.

bcache's mode is otherwise.  Its backing drive keeps it.  Towards writeback it has a consent of its
own, with what shares the cache device named; away from it, it is made when no dirty data is left,
and its effect on clients, who wait for the backing drive from then on, does not take it back.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import (
    TYPE_CHECKING,
    ClassVar,
    FrozenSet,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    Union,
)

from ..drive.prior import UNKNOWN, Prior, PriorDoubt, prior_from, states_by_id
from ..drive.safety import writeback_refusal
from ..errors import RefusedError, StorageError
from ..events import LoadRequest
from ..hardware.readings import NAME_CHARS_MAX, VALUE_CHARS_MAX
from ..host_report import HostReport
from ..model import DriveModel, DriveReport, DriveState, LoadPoint, Transport
from ..options.entries import BY_NAME, kept_from, left_dirty, left_words, names_of
from ..options.option import Follow
from ..options.shared_cache import SharedCache
from ..protocol import (
    ApplyOptionRequest,
    DrivesOutcome,
    FailureOutcome,
    LookRequest,
    MeasureRequest,
    RollbackRequest,
    StateOutcome,
)
from ..verdict.option_choice import Ground, fallen
from .cache_mode_change import require_room
from .change import DriveWear, Verdicts, WentBack
from .change_status import ChangeStatus, Made
from .drive_change import UNEXPECTED, DriveChange, failure_words, wear_of

if TYPE_CHECKING:
    from .rollout_state import Rollout


@dataclass(frozen=True)
class OptionChange(DriveChange):
    """An option of one cache domain's drives, from `expected` to `value`.

    Nothing else is done for `wait_s` after it was made: it settles.
    """

    KIND: ClassVar[str] = "option"
    IS_READ: ClassVar[bool] = True
    READS_TOO: ClassVar[bool] = True

    action_id: str
    hostname: str
    domain_id: str
    dev_names: Tuple[str, ...]
    osd_id: int
    device_class: str
    transport: Transport
    option: str = field(metadata={"max_chars": NAME_CHARS_MAX})
    expected: str = field(metadata={"max_chars": VALUE_CHARS_MAX})
    value: str = field(metadata={"max_chars": VALUE_CHARS_MAX})
    why: str
    manual: Tuple[str, ...]
    load_point: LoadPoint
    osd_ids: Tuple[int, ...] = field(metadata={"min_items": 1})  # all that are on the domain
    drive_ids: Tuple[str, ...] = field(metadata={"min_items": 1})
    wait_s: float = 0.0
    simulated: bool = False
    status: ChangeStatus = ChangeStatus.PLANNED
    detail: str = ""
    before_us: Optional[float] = None
    before_error: float = 0.0  # standard error of its logarithm
    after_us: Optional[float] = None
    seconds: float = 0.0
    bytes_written: int = 0
    failure_domain: str = ""
    prior: Prior = UNKNOWN  # what was there, stored before the request goes out
    doubt: PriorDoubt = PriorDoubt.NONE  # why it cannot be gone back to
    wear: Tuple[DriveWear, ...] = ()
    at_s: float = 0.0  # when it came to its end
    drive_model: Optional[DriveModel] = None
    shared: SharedCache = SharedCache()  # noqa: RUF009  frozen

    @property
    def _dirty_in(self) -> str:
        entry = BY_NAME.get(self.option)
        return entry.dirty_in if entry is not None else ""

    @property
    def needs_consent(self) -> bool:
        """Whether what is acknowledged may be on a cache device alone with it."""
        return bool(self._dirty_in) and self.value == self._dirty_in

    @property
    def leaves_dirty(self) -> bool:
        """Whether it ends that: from then on clients wait for the backing drive."""
        return bool(self._dirty_in) and self.expected == self._dirty_in

    @property
    def lasts_by_itself(self) -> bool:
        """Whether it survives a reboot."""
        entry = BY_NAME.get(self.option)
        return entry is not None and entry.outlives_boot

    @property
    def not_tried(self) -> str:
        """See ChangeSteps."""
        if not self._by_admin:
            return ""
        return f"{self.option} is not tried: its way back may take as long as writing back does"

    @property
    def _by_admin(self) -> bool:
        entry = BY_NAME.get(self.option)
        return entry is not None and entry.follow is Follow.ADMIN

    @property
    def knob(self) -> str:
        """The name of the knob that plans such changes."""
        return "options"

    @property
    def words(self) -> str:
        """From what to what, for people."""
        return f"{self.option} {self.expected} to {self.value}"

    @property
    def what(self) -> str:
        """What is changed."""
        return self.option

    @property
    def goal(self) -> str:
        """What it is changed to."""
        return f"{self.option} {self.value}"

    @property
    def pooled_as(self) -> str:
        """See ChangeSteps: by device class, drive model and new value."""
        return f"{self.device_class} {self.drive_model or 'drives'} with {self.goal}"

    @property
    def touches(self) -> FrozenSet[Tuple[str, str]]:
        """What it changes: two plans that share one must be rolled back in order.

        That is also what the kernel resets with it; the cache mode of the drives is something else.
        """
        try:
            names = names_of(self.option)
        except RefusedError:  # this version has no entry of it
            names = (self.option,)
        return frozenset((self.hostname, f"{self.domain_id} {name}") for name in names)

    # ---- what a rollout asks for, and what the answers mean: see ChangeSteps

    def measure(self, rollout: Rollout) -> Union[MeasureRequest, LoadRequest, None]:
        """See ChangeSteps."""
        return None if self.leaves_dirty else super().measure(rollout)

    @property
    def judging_osds(self) -> Tuple[int, ...]:
        """See ChangeSteps."""
        return () if self.leaves_dirty else super().judging_osds

    def look(self, rollout: Rollout) -> LookRequest:
        """See ChangeSteps."""
        return LookRequest(self.domain_id)

    def looked(self, rollout: Rollout, outcome: object) -> Tuple[OptionChange, str]:
        """See ChangeSteps."""
        if isinstance(outcome, FailureOutcome):
            return self, outcome.message
        if not isinstance(outcome, DrivesOutcome):
            return self, UNEXPECTED
        if self.needs_consent and not rollout.consent_writeback:
            return self, f"nobody has agreed to {self.goal}"
        if self.prior.known:
            # a request went out with it: what is there now may be ours
            return self, ""
        others = self.others(outcome.drives)
        if others:
            return self, f"{others}; make a new plan"
        moved = [why for why in (self.unlike(one, planned=True) for one in outcome.drives) if why]
        if moved:
            return self, f"{moved[0]} and {self.was}; make a new plan"
        try:
            prior = prior_from(
                rollout.cluster_fsid, self.domain_id, outcome.drives, names_of(self.option)
            )
            require_room(self, prior)
        except (StorageError, RefusedError) as error:
            return self, error.message
        return replace(self, prior=prior, wear=wear_of(outcome.drives)), ""

    def is_still(self, outcome: object) -> str:
        """See ChangeSteps; by a look at its drives, which a reboot brings back as they boot."""
        if isinstance(outcome, FailureOutcome):
            return f"could not be read after it was judged: {outcome.message}"
        drives = outcome.drives if isinstance(outcome, DrivesOutcome) else ()
        if drives and not any(self.unlike(one) for one in drives):
            return ""
        reboot = "" if self.lasts_by_itself else "a reboot of the host or "
        return (
            f"no longer has {self.goal}, which was judged: {reboot}another program has changed it"
        )

    def apply(self, rollout: Rollout) -> ApplyOptionRequest:
        """See ChangeSteps; with what was there before it."""
        return ApplyOptionRequest(
            self.domain_id, self.action_id, self.option, self.expected, self.value, self.prior,
            self.shared if self.needs_consent and rollout.consent_writeback else None,
        )

    def made(
        self, rollout: Rollout, outcome: object, again: bool
    ) -> Tuple[OptionChange, Made, str]:
        """See ChangeSteps."""
        if isinstance(outcome, FailureOutcome):
            said = failure_words(outcome)
            if outcome.doubt is PriorDoubt.OTHER_STATE:
                # somebody else's change, or ours and the journal is lost
                return self, Made.OTHERS, said
            read = states_by_id(outcome.drive_ids, outcome.after)
            as_it_was = outcome.restored and not (outcome.after and self._differs(read))
            return self, (Made.UNSURE if again or not as_it_was else Made.NOT), said
        if not isinstance(outcome, StateOutcome):
            return self, Made.WRONG, "the probe gave an unexpected answer to a change"
        states = outcome.after
        if not states or any(state.option(self.option) != self.value for state in states):
            return self, Made.WRONG, f"the drive did not read back with {self.goal}"
        left = self._left(self.value, outcome)
        if left:
            return replace(self, detail=left), Made.NOT_YET, left
        return replace(self, detail=""), (Made.YES if outcome.changed else Made.ALREADY), ""

    def back(self, rollout: Rollout) -> RollbackRequest:
        """See ChangeSteps."""
        return RollbackRequest(self.domain_id, self.action_id, prior=self.prior)

    def went_back(self, rollout: Rollout, outcome: object) -> WentBack:
        """See ChangeSteps; back is what was read and equals what was there before."""
        if isinstance(outcome, FailureOutcome):
            return WentBack(replace(self, doubt=outcome.doubt), outcome.message)
        if not isinstance(outcome, StateOutcome):
            return WentBack(replace(self, doubt=PriorDoubt.NONE), "an unexpected answer")
        differs = self._differs(states_by_id(outcome.drive_ids, outcome.after))
        back = replace(self, doubt=PriorDoubt.NONE)
        not_yet = "" if differs else self._left(self.expected, outcome)
        return WentBack(back, differs, not_yet=not_yet)

    def _left(self, value: str, outcome: StateOutcome) -> str:
        """What is still to be written back before its drives count as having a value; or ""."""
        left = [left_dirty(self.option, value, state) for state in outcome.after]
        rates = [one.rate_bytes_s or 0 for one in outcome.bcache if not one.is_cache]
        known = [count for count in left if count is not None]
        total = None if len(known) < len(left) else sum(known)
        return left_words(self.name, total, max(rates, default=0))

    def pause_s(self, rollout: Rollout) -> float:
        """See ChangeSteps."""
        return 0.0 if rollout.rolling_back else self.wait_s

    def _differs(self, read: Mapping[str, DriveState]) -> str:
        """How options that were read differ from those before; the cache mode is not its own."""
        if not self.prior.known:
            return "the prior state is not known"
        for drive in self.prior.drives:
            state = read.get(drive.drive_id)
            if state is None:
                return f"{drive.dev_name} was not read"
            for one in drive.options:
                now = state.option(one.name)
                if now != one.value:
                    return f"{one.name} of {drive.dev_name} is {now or 'unknown'} and was " \
                           f"{one.value}"
        return ""

    def verdict_moved(self, verdicts: Verdicts) -> str:
        """See ChangeSteps; none speaks for what an admin asked for."""
        if self._by_admin:
            return ""
        ground = Ground(
            self.device_class, str(self.drive_model), self.simulated, self.option, self.expected,
            self.value,
        )
        return fallen(ground, verdicts.option_verdicts)

    def unlike(self, drive: DriveReport, planned: bool = False) -> str:
        """See DriveChange."""
        now = drive.state.option(self.option)
        if now == (self.expected if planned else self.value):
            return ""
        return f"{self.option} of {drive.dev_name} is {now or 'unknown'}"

    def refusal(
        self, rollout: Rollout, report: HostReport, drives: Sequence[DriveReport],
        lost: Mapping[str, str],
    ) -> str:
        """See DriveChange."""
        try:
            kept = [(one, kept_from(one, self.option)) for one in drives]
        except RefusedError as error:  # this version has no entry of it
            return error.message
        why = [f"{one.dev_name}: {reason}" for one, reason in kept if reason]
        if self.needs_consent:
            why.append(writeback_refusal(report, drives, lost, self.shared))
        return "; ".join(filter(None, why))

    @property
    def was(self) -> str:
        """See DriveChange."""
        return f"was {self.expected}"

    # ---- the history: see ChangeSteps

    @property
    def sides(self) -> Tuple[str, str]:
        """See ChangeSteps."""
        return f"{self.option} {self.expected}", self.goal

    def moved(self, back: bool) -> str:
        """See ChangeSteps."""
        before, after = (self.value, self.expected) if back else (self.expected, self.value)
        return f"{self.option} {before} to {after}"
