"""A run that holds cache domains under a lease, from the look before it to the way back.

Where its OSDs fall ill its drives go back at once, and the pair under way is thrown away.  Nothing
is held until they are well, so each drive is looked at before it is touched again.  What it waits
for is stored, and a mgr that takes over waits on.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Set, Tuple, Union

from .. import events
from ..codec import one_line
from ..drive.prior import Prior, PriorDoubt, prior_from, states_by_id
from ..errors import StorageError
from ..options.entries import leased_names
from ..protocol import DrivesOutcome, FailureOutcome, LookRequest, StateOutcome
from ..record import Record
from . import budget
from .budget import Experiment
from .design import Periods
from .period import PeriodUnderWay, Stage
from .run import Actions, RunMachine
from .run_state import RunStatus, whole

# A period that is interrupted (probe restart, OSD restart) is measured again this often.
ATTEMPTS_MAX = 3
BACK = "read back: the prior state is restored"


@dataclass
class LeasedRun(RunMachine):
    """What a run that toggles does for its lease; what it measures meanwhile is not told here."""

    # domains that no task of this machine can have touched since they were looked at
    _untouched: Set[str] = field(default_factory=set)
    _looks: int = 0
    _releases: int = 0
    _ends_for_another: bool = False  # the last mgr stopped while it gave back
    _watch_of: Tuple[int, str] = (-1, "")  # the experiment whose OSDs are watched, and the token

    def __post_init__(self) -> None:
        super().__post_init__()
        self._keep_whole()

    def _keep_whole(self) -> Periods:
        """Leave out what was thrown away, and return it; what is stored of it is written over."""
        if self.over or self._all_over or not self.state.voided_at_s:
            return {}
        before = self.periods[self.state.index]
        kept = whole(self._setup, before, self.state.voided_at_s)
        self._put_periods(kept)
        return {slot: period for slot, period in before.items() if slot not in kept}

    def _put_periods(self, periods: Periods) -> None:
        """Replace those of the experiment under way, as a copy of this run has the same list."""
        index = self.state.index
        self.periods = [*self.periods[:index], periods, *self.periods[index + 1:]]

    @property
    def _experiment(self) -> Experiment:
        index = self.state.index
        return Experiment(self.state, index, self.periods[index])

    @property
    def _prior(self) -> Prior:
        return self.state.prior_of(self.spec.domain_id)

    def _not_back(self, domain_id: str, outcome: Union[StateOutcome, FailureOutcome]) -> str:
        """Why a domain is not known to be as it was, by what was read of it; "" where it is."""
        read = states_by_id(outcome.drive_ids, outcome.after)
        differs = self.state.prior_of(domain_id).differs(read)
        if isinstance(outcome, FailureOutcome) and (differs or not outcome.restored):
            return outcome.said
        return differs

    # ---- before the first touch

    def _begin(self, _: events.Begin, now_s: float) -> Actions:
        if self.state.status is RunStatus.RELEASING:
            self._ends_for_another = True
            return self._release()
        if self.state.status is RunStatus.RUNNING and self.state.ill_since_s:
            return self._give_back()
        if self.state.status is RunStatus.RUNNING:
            self.state = budget.with_cut_off(self.state, self.periods, now_s)
            domain_id = self.spec.domain_id
            if self.spec.option_osd is not None and self.state.touched(domain_id):
                # it may go by what the last mgr gave it: no probe has put that back
                self._now = PeriodUnderWay(phase=Stage.RESUMING)
                return [events.SaveRun(), self._task(self.state.release(domain_id))]
        self.state = replace(self.state, status=RunStatus.RUNNING, began_at_s=now_s, reason="")
        return self._look_or_go_on(now_s)

    def _resumed(self, outcome: StateOutcome, now_s: float) -> Actions:
        problem = self._not_back(self.spec.domain_id, outcome)
        if problem:
            return self._halt(problem, now_s)
        return [*self._put_back_late(outcome), *self._look_or_go_on(now_s)]

    def _put_back_late(self, outcome: StateOutcome) -> Actions:
        """For as long as no mgr ran the module, the OSD went by what it was measured with."""
        if not outcome.changed or self.spec.option_osd is None or self.spec.option is None:
            return []
        return [events.Note(
            f"osd.{self.spec.option_osd} still had the {self.spec.option.name} that it was "
            "measured with, since no mgr ran the module: it was given back what it had before",
            "warning", loud=True,
        )]

    def _look_or_go_on(self, now_s: float) -> Actions:
        """Nothing is touched before what was there is stored."""
        for domain_id in self.spec.domain_ids:
            if not self.state.touched(domain_id):
                self._now = PeriodUnderWay(phase=Stage.LOOKING, looked_at=domain_id)
                return [events.SaveRun(), self._task(LookRequest(domain_id))]
        return [events.SaveRun(), *self._go_on(now_s)]

    @abstractmethod
    def _go_on(self, now_s: float) -> Actions:
        """Measure what is missing; everything that is touched has been looked at."""

    def _looked(self, outcome: DrivesOutcome, now_s: float) -> Actions:
        """What is there before the first touch; stored before anything else is done."""
        domain_id, option = self._now.looked_at, self.spec.option
        names = () if option is None else leased_names(option.name)
        try:
            prior = prior_from(self._setup.fsid, domain_id, outcome.drives, names)
        except StorageError as error:
            return self._halt(error.message, now_s)
        self.state = replace(self.state, priors=(*self.state.priors, prior))
        self._untouched.add(domain_id)
        self._now = PeriodUnderWay()
        return [events.SaveRun(), *self._look_or_go_on(now_s)]

    # ---- what it has cost

    def _void(self, now_s: float) -> None:
        """Count what the period under way has cost; its samples are not used."""
        if self._now.under_way:
            self.state = budget.with_voided(self.state, self._now, now_s)
            self._now.phase = Stage.IDLE

    def _recorded(self, record: Record) -> events.SaveRecord:
        """What it cost is kept, since its periods will be dropped."""
        seen, state = self.periods[self.state.index].values(), self.state
        self.state = replace(
            state, finished=(*state.finished, record.record_id), starting_bytes=0, starting_open=0,
            finished_seconds=state.finished_seconds + sum(p.seconds for p in seen),
            finished_bytes=state.finished_bytes + sum(p.bytes_written for p in seen),
        )
        return events.SaveRecord(record)

    def _stop_measuring(self, reason: str, now_s: float) -> Actions:
        """Void the period under way and keep the complete pairs before it as a record."""
        self._void(now_s)
        if self._all_over:
            return []
        record = self._experiment.record(reason, now_s)
        return [self._recorded(record)] if record.pairs else []

    # ---- giving back

    def _release(self) -> Actions:
        self.state = replace(self.state, status=RunStatus.RELEASING)
        return self._give_back()

    def _give_back(self) -> Actions:
        self._releases += 1
        self._now = PeriodUnderWay(phase=Stage.RELEASING)
        return self._release_next()

    @property
    def _releasing(self) -> str:
        """The cache domain whose release was asked for."""
        return self.spec.domain_ids[len(self._now.released)]

    def _release_next(self) -> Actions:
        """Ask for the next domain that was touched, or end."""
        domain_ids = self.spec.domain_ids
        while len(self._now.released) < len(domain_ids):
            domain_id = self._releasing
            if self.state.touched(domain_id):
                return [events.SaveRun(), self._task(self.state.release(domain_id))]
            self._now.released += (True,)
        owed = tuple(name for name, back in zip(domain_ids, self._now.released) if not back)
        if self.state.status is RunStatus.RUNNING:
            return self._given_back_while_ill(owed)
        final = RunStatus.ABORTED if self.state.reason else RunStatus.DONE
        return self._end(final, self.state.reason, owed)

    def _gave_back(self, outcome: StateOutcome, _: float) -> Actions:
        problem = self._not_back(self._releasing, outcome)
        late = self._ends_for_another and not problem
        return [*(self._put_back_late(outcome) if late else []), *self._released(problem)]

    def _released(
        self, problem: str, doubt: PriorDoubt = PriorDoubt.NONE
    ) -> Actions:
        """The probe has answered for one cache domain; no problem: it was read as it was."""
        self._now.released += (not problem,)
        if doubt is PriorDoubt.DISPUTED:
            self.state = replace(self.state, dispute=one_line(problem))
        if problem:
            self.state = replace(self.state, reason=one_line(problem))
        return self._release_next()

    def _silent(self, detail: str, now_s: float) -> Actions:
        """Nobody is there to release: the probe restores by itself when its lease runs out."""
        before = self.state.reason
        return self._end_owing(one_line(f"{before}; {detail}" if before else detail), now_s)

    def _end_owing(self, reason: str, now_s: float) -> Actions:
        """Nobody answers for the domains: what was touched is owed until it is read."""
        running = self.state.status is RunStatus.RUNNING
        saved = self._stop_measuring(reason, now_s) if running else []
        owed = tuple(name for name in self.spec.domain_ids if self.state.touched(name))
        return [*saved, *self._end(RunStatus.ABORTED, reason, owed)]

    def _given_back_late(self, event: events.Event) -> Actions:
        """An OSD that did not answer when the run ended has its own value back now."""
        if not isinstance(event, events.Answered) or self.spec.option_osd is None:
            return []
        outcome, domain_id = event.answer, self.spec.domain_id
        if self.state.settled or not isinstance(outcome, StateOutcome):
            return []
        if self._not_back(domain_id, outcome):
            return []
        self.confirm(domain_id)
        return [events.SaveRun(), events.Note(BACK)]

    # ---- OSDs that fall ill

    def _fails(self, why: str, now_s: float) -> Actions:
        """A load failed; an OSD that has stopped does not answer long before the maps show it."""
        if not self.spec.heeds_cluster:
            return self._halt(why, now_s)
        return self._wait_for_osds(why, now_s, load_failed=one_line(why))

    def _interrupted(self, why: str, now_s: float) -> Actions:
        """Nothing is held until they are well, and the pair under way does not count."""
        self._void(now_s)
        self.state = replace(self.state, voided_at_s=now_s)
        for lost in self._keep_whole().values():  # they have cost as much
            self.state = budget.with_discarded(self.state, lost.seconds, lost.bytes_written)
        self._releases, self._watch_of = 0, (-1, "")  # what the watch says of them is known
        note = f"the pair under way is thrown away, and what it toggles goes back: {why}"
        return [events.Note(one_line(note), "warning"), *self._give_back()]

    def _taken_up(self, now_s: float) -> Actions:
        self._looks = self._releases = 0
        return self._look_or_go_on(now_s)

    def _given_back_while_ill(self, owed: Tuple[str, ...]) -> Actions:
        if owed:  # the reason says why
            return self._halt(self.state.reason, self.state.ill_since_s, unfit=True)
        for domain_id in self.spec.domain_ids:
            self.state = self.state.without(domain_id)
        self._now = PeriodUnderWay()
        return [events.SaveRun()]
