"""A run: all experiments of one cache domain under one lease, as a sans-I/O machine.

It takes an event and the time and returns actions.  Finished periods are saved before
anything else happens, and where the machine stands follows from the saved periods, so
a mgr that takes over goes on with the first period that is missing and repeats none.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import List, Set, Union

from .. import events
from ..codec import one_line
from ..drive.prior import PriorDoubt
from ..errors import StorageError
from ..protocol import (
    DrivesOutcome,
    FailureOutcome,
    LookRequest,
    SamplesOutcome,
    StateOutcome,
)
from ..record import Record
from . import accounting, run_priors
from . import period as period_run
from .pairs import IN_PROGRESS, is_look
from .period import (
    PeriodUnderWay,
    Stage,
    closing_request,
    in_place,
    load_of,
    period_of,
    read_at,
    said,
    samples_of,
    set_request,
    watch_of,
)
from .run_ill import IllRun
from .run_state import RunStatus
from .slots import CheckSlot, Slot

# A period that is interrupted (probe restart, OSD restart) is measured again this often.
ATTEMPTS_MAX = 3


@dataclass
class RunMachine(IllRun):
    """The machine of one run."""

    # domains that no task of this machine can have touched since they were looked at
    _untouched: Set[str] = field(default_factory=set)
    _ends_for_another: bool = False  # the last mgr stopped while it gave back

    def handle(self, event: events.Event, now_s: float) -> List[events.Action]:
        """Take one event at wall-clock time `now_s`; return what is to be done, in order."""
        if self.over:
            return self._given_back_late(event)
        if isinstance(event, events.Begin):
            return self._begin(now_s)
        if isinstance(event, events.Tick):
            return self._tick(now_s)
        if isinstance(event, events.TaskAnswered):
            return self._answered(event, now_s)
        if isinstance(event, events.LoadMeasured):
            return self._measured(event, now_s)
        if isinstance(event, events.LoadFailed):
            return self._load_failed(event, now_s)
        if isinstance(event, events.Decided):
            return self._decided(event, now_s)
        if isinstance(event, events.LeaseLost):
            return self._lease_lost(event, now_s)
        if isinstance(event, events.AgentSilent):
            return self._silent(event.detail, now_s)
        if isinstance(event, (events.Halt, events.BlocksEnded)):
            return self._stopped(event, now_s)
        return self._told_of_cluster(event, now_s)

    def _told_of_cluster(self, event: events.Event, now_s: float) -> List[events.Action]:
        if isinstance(event, events.Unmet):
            return self._unmet(event)
        if isinstance(event, events.Ill):
            return self._ill(event.why, now_s)
        return self._waits(event.reason) if isinstance(event, events.Waits) else []

    def _begin(self, now_s: float) -> List[events.Action]:
        if self.state.status is RunStatus.RELEASING:
            self._ends_for_another = True
            return self._release()
        if self.state.status is RunStatus.RUNNING and self.state.ill_since_s:
            return self._give_back()
        if self.state.status is RunStatus.RUNNING:
            self.state = accounting.with_cut_off(self.state, self.periods, now_s)
            if self._may_have_left_a_value:
                self._now = PeriodUnderWay(Slot(0, False), phase=Stage.RESUMING)
                request = run_priors.release_request(self.state, self.spec.domain_id)
                return [events.SaveRun(), self._task(request)]
        self.state = replace(self.state, status=RunStatus.RUNNING, began_at_s=now_s, reason="")
        return self._look_or_go_on(now_s)

    @property
    def _may_have_left_a_value(self) -> bool:
        """Whether an OSD may go by what the last mgr gave it: no probe has put that back."""
        domain_id = self.spec.domain_id
        return self.spec.option_osd is not None and run_priors.touched(self.state, domain_id)

    def _resumed(self, outcome: StateOutcome, now_s: float) -> List[events.Action]:
        problem = run_priors.words_of_release(self.state, self.spec.domain_id, outcome)
        if problem:
            return self._halt(problem, now_s)
        return [*self._put_back_late(outcome), *self._look_or_go_on(now_s)]

    def _put_back_late(self, outcome: StateOutcome) -> List[events.Action]:
        """For as long as no mgr ran the module, the OSD went by what it was measured with."""
        if not outcome.changed or self.spec.option_osd is None or self.spec.option is None:
            return []
        return [events.Note(
            f"osd.{self.spec.option_osd} still had the {self.spec.option.name} that it was "
            "measured with, since no mgr ran the module: it was given back what it had before",
            "warning", loud=True,
        )]

    def _look_or_go_on(self, now_s: float) -> List[events.Action]:
        """Nothing is touched before what was there is stored."""
        unknown = run_priors.next_unknown(self.state)
        if unknown is not None:
            self._now = PeriodUnderWay(Slot(0, False), phase=Stage.LOOKING, looked_at=unknown)
            return [events.SaveRun(), self._task(LookRequest(unknown))]
        # the last mgr may have stopped while the analysis looked
        if not self._all_over and self._experiment.look_is_due:
            return [events.SaveRun(), *self._look(now_s)]
        return [events.SaveRun(), *self._next_period(now_s)]

    def _tick(self, now_s: float) -> List[events.Action]:
        if not self._now.under_way:
            return []
        if now_s >= self._now.cut_off_at_s:
            return self._cut_off(now_s)
        if self._now.phase is Stage.SETTLING and now_s >= self._now.settled_at_s:
            return self._start(now_s)
        return []

    def _cut_off(self, now_s: float) -> List[events.Action]:
        """The budget ends within a period: what was seen of that is not used."""
        self._void(now_s)
        return self._finish_experiment("the budget ran out during a period", now_s)

    def _answered(self, event: events.TaskAnswered, now_s: float) -> List[events.Action]:
        if event.task_id != self._now.token:
            return []
        outcome, phase = event.outcome, self._now.phase
        if isinstance(outcome, FailureOutcome):
            return self._task_failed(outcome, now_s)
        if phase is Stage.LOOKING and isinstance(outcome, DrivesOutcome):
            return self._looked(outcome, now_s)
        if phase is Stage.RESUMING and isinstance(outcome, StateOutcome):
            return self._resumed(outcome, now_s)
        if phase is Stage.SETTING and isinstance(outcome, StateOutcome):
            return self._set(outcome, now_s)
        started = self._answered_at_start(outcome, now_s)
        if started is not None:
            return started
        if phase is Stage.MEASURING and isinstance(outcome, SamplesOutcome):
            return self._measured(events.LoadMeasured(event.task_id, samples_of(outcome)), now_s)
        if phase is Stage.CLOSING and isinstance(outcome, StateOutcome):
            return self._close(outcome, now_s)
        if phase is Stage.RELEASING and isinstance(outcome, StateOutcome):
            domain_id = self._releasing
            self.state = run_priors.with_told(self.state, domain_id, outcome.prior)
            problem = run_priors.words_of_release(self.state, domain_id, outcome)
            late = self._ends_for_another and not problem
            told = self._put_back_late(outcome) if late else []
            return [*told, *self._released(problem)]
        odd = f"the probe gave an unexpected answer to a {phase.value} task"
        if phase is Stage.RELEASING:
            return self._released(odd)
        return self._halt(odd, now_s)

    def _looked(self, outcome: DrivesOutcome, now_s: float) -> List[events.Action]:
        """What is there before the first touch; stored before anything else is done."""
        domain_id = self._now.looked_at
        try:
            self.state = run_priors.with_look(self.state, domain_id, outcome.drives)
        except StorageError as error:
            return self._halt(error.message, now_s)
        self._untouched.add(domain_id)
        self._now = PeriodUnderWay(Slot(0, False))
        return [events.SaveRun(), *self._look_or_go_on(now_s)]

    def _task_failed(self, outcome: FailureOutcome, now_s: float) -> List[events.Action]:
        said = outcome.message + (f": {outcome.advice}" if outcome.advice else "")
        if self._now.phase is Stage.RELEASING:
            problem = run_priors.words_of_failure(self.state, self._releasing, outcome)
            return self._released(problem, outcome.doubt)
        setting = self._now.phase is Stage.SETTING
        if setting and outcome.doubt is PriorDoubt.OTHER_STATE:
            return self._other_state(said, now_s)
        return self._halt(said, now_s)

    def _other_state(self, said: str, now_s: float) -> List[events.Action]:
        """Somebody changed a domain between our look and the first touch: look again."""
        domain_id = self._step.domain_id
        if domain_id not in self._untouched:
            return self._halt(said, now_s)  # it may well be our own change that was found
        self.state = run_priors.without(self.state, domain_id)
        self._looks += 1
        if self._looks >= ATTEMPTS_MAX:
            return self._halt(said, now_s)
        self._void(now_s)
        return self._look_or_go_on(now_s)

    # ---- one experiment, and one period of it

    def _next_period(self, now_s: float) -> List[events.Action]:
        if self._all_over:
            return self._release()
        experiment = self._experiment
        spent = experiment.spent()
        if spent:
            return self._finish_experiment(spent, now_s)
        if experiment.all_measured:
            return self._look(now_s)
        slot = experiment.next_slot
        attempt = self._now.attempt if self._now.slot == slot else 0
        self._now = PeriodUnderWay(slot, attempt, Stage.SETTING, started_at_s=now_s)
        self._now.cut_off_at_s = self._experiment.cut_off_at_s(self._now)
        return self._set_next()

    @property
    def _step(self) -> period_run.Toggle:
        """What is set next, or is being set."""
        steps = period_run.steps(self.spec, self._setup, self._now.slot)
        return steps[len(self._now.before)]

    def _set_next(self) -> List[events.Action]:
        step = self._step
        prior = run_priors.prior_of(self.state, step.domain_id)
        return [self._task(set_request(self.spec, step, prior))]

    def _set(self, outcome: StateOutcome, now_s: float) -> List[events.Action]:
        steps = period_run.steps(self.spec, self._setup, self._now.slot)
        step = self._step
        self._untouched.discard(step.domain_id)
        if not in_place(self.spec, step, outcome.after):
            which = "the drive" if len(steps) == 1 else step.domain_id
            words = said(self.spec, step.mode)
            return self._halt(f"{which} is not in {words} after the probe set it", now_s)
        let_go = self._let_go_before(outcome)
        if let_go:
            return let_go
        self._now.before += (outcome,)
        if len(self._now.before) > len(steps) - len(self._sides):
            self._now.bcache += read_at(outcome, now_s)
        if len(self._now.before) < len(steps):
            return self._set_next()
        self._now.phase = Stage.SETTLING
        self._now.settled_at_s = now_s + self._experiment.settle_s(self._now.slot)
        self._now.cut_off_at_s = self._experiment.cut_off_at_s(self._now)
        return [*self._watch(), *self._tick(now_s)]

    def _watch(self) -> List[events.Action]:
        """From its first toggle on an experiment watches every OSD on the domain.

        One watch for all its periods: each may be shorter than the limit, and what stalls over
        several of them must be seen.  One OSD alone is watched by what measures it, but where
        bcache's controller is waited for: that takes minutes.
        """
        watched = self.spec.beside or self.spec.waits_for_controller
        if not watched or self._watch_of[0] == self.experiment_index:
            return []
        request = watch_of(self.spec, self._setup)
        self._watch_of = self.experiment_index, self._new_token() if request.treated else ""
        return [events.WatchOsds(self._watch_of[1], request)] if request.treated else []

    def _measure(self, now_s: float) -> List[events.Action]:
        self._now.phase = Stage.MEASURING
        self._now.cut_off_at_s = self._experiment.cut_off_at_s(self._now)
        left_s = self._now.cut_off_at_s - now_s
        load = load_of(self.spec, self._setup, self._now.slot, left_s)
        if isinstance(load, events.LoadRequest):
            return [events.MeasureLoad(self._new_token(), load)]
        return [self._task(load)]

    def _measured(self, event: events.LoadMeasured, now_s: float) -> List[events.Action]:
        if event.token == self._now.token and self._now.phase is Stage.WRITING:
            return self._written(event.samples, now_s)
        if event.token != self._now.token or self._now.phase is not Stage.MEASURING:
            return []
        self._now.samples = event.samples
        if event.samples.aborted:
            return self._halt(event.samples.aborted, now_s)
        if event.samples.unusable:
            self._void(now_s)
            return self._finish_experiment(event.samples.unusable, now_s)
        # a settling check that saw nothing chooses nothing
        empty = not event.samples.samples_ns and not event.samples.counters
        if empty and not isinstance(self._now.slot, CheckSlot):
            return self._again("no sample was taken", now_s)
        self._now.phase = Stage.CLOSING
        return [self._task(closing_request(self.spec, self.spec.domain_id))]

    @property
    def _sides(self) -> List[period_run.Toggle]:
        return period_run.sides(self.spec, self._setup, self._now.slot)

    def _close(self, outcome: StateOutcome, now_s: float) -> List[events.Action]:
        sides = self._sides
        side = sides[len(self._now.after)]
        if not in_place(self.spec, side, outcome.after):
            what = "the cache mode" if self.spec.option is None else self.spec.option.name
            return self._again(f"somebody else changed {what}", now_s)
        if now_s >= self._now.cut_off_at_s:
            return self._cut_off(now_s)  # the answer was late
        self._now.after += (outcome,)
        self._now.bcache += read_at(outcome, now_s)
        if len(self._now.after) < len(sides):
            domain_id = sides[len(self._now.after)].domain_id
            return [self._task(closing_request(self.spec, domain_id))]
        return self._keep_period(now_s)

    def _keep_period(self, now_s: float) -> List[events.Action]:
        slot = self._now.slot
        settle_s = self._experiment.settle_s(slot)
        period = period_of(self.spec, self._setup, self._now, settle_s, now_s)
        index = self.experiment_index
        self._put_periods(index, {**self.periods[index], slot: period})
        saved: List[events.Action] = [
            events.SavePeriod(self.experiment_index, slot.stored_index, slot.second, period)
        ]
        self._now.attempt = 0
        if self.state.starting_open:  # the period has it
            self.state = replace(self.state, starting_open=0)
            saved.append(events.SaveRun())
        if isinstance(slot, Slot) and is_look(self._setup, slot.following):
            return [*saved, *self._look(now_s)]
        return [*saved, *self._next_period(now_s)]

    def _again(self, why: str, now_s: float) -> List[events.Action]:
        """Void the period under way and measure it anew, a bounded number of times."""
        self._void(now_s)
        self._now.attempt += 1
        if self._now.attempt >= ATTEMPTS_MAX:
            return self._halt(f"{why}, {ATTEMPTS_MAX} times in one period", now_s)
        # saved first: a mgr that takes over must know what the voided period has cost
        return [
            events.SaveRun(), events.Note(f"repeating the period: {why}"),
            *self._next_period(now_s),
        ]

    def _void(self, now_s: float) -> None:
        """Count what the period under way has cost; its samples are not used."""
        if self._now.under_way:
            self.state = accounting.with_voided(self.state, self._now, now_s)
            self._now.phase = Stage.IDLE

    def _load_failed(self, event: events.LoadFailed, now_s: float) -> List[events.Action]:
        loaded = self._now.phase in (Stage.MEASURING, Stage.WRITING)
        if event.token != self._now.token or not loaded:
            return []
        return self._fails(event.message, now_s)

    def _lease_lost(self, event: events.LeaseLost, now_s: float) -> List[events.Action]:
        if self._now.phase is Stage.RELEASING:
            # a probe that restarted restores by itself; only its answer proves that it could
            if self._releases < ATTEMPTS_MAX:
                return self._give_back()
            said = f"{event.detail}, {ATTEMPTS_MAX} times while restoring"
            running = self.state.status is RunStatus.RUNNING
            saved = self._stop_measuring(said, now_s) if running else []
            return [*saved, *self._end_owing(said)]
        if self._now.phase in (Stage.DECIDING, Stage.IDLE):
            return []
        if self._now.phase is Stage.LOOKING:
            return self._look_or_go_on(now_s)
        self._untouched.clear()  # a task may have been done, and its answer lost
        return self._again(event.detail, now_s)

    # ---- looking and ending

    def _look(self, now_s: float) -> List[events.Action]:
        self._now.phase = Stage.DECIDING
        return [events.AskAnalysis(self._new_token(), self._experiment.record(IN_PROGRESS, now_s))]

    def _decided(self, event: events.Decided, now_s: float) -> List[events.Action]:
        if event.token != self._now.token or self._now.phase is not Stage.DECIDING:
            return []
        ended = self._experiment.ends_after(event)
        if ended:
            return self._finish_experiment(ended, now_s)
        self._now.phase = Stage.IDLE
        return self._next_period(now_s)

    def _finish_experiment(self, ended: str, now_s: float) -> List[events.Action]:
        saved = self._close_accounting(self._experiment.record(one_line(ended), now_s))
        self._now = PeriodUnderWay(Slot(0, False))
        return [saved, events.SaveRun(), *self._next_period(now_s)]

    def _close_accounting(self, record: Record) -> events.SaveRecord:
        periods = self.periods[self.experiment_index]
        self.state = accounting.with_recorded(self.state, periods, record.record_id)
        return events.SaveRecord(record)

    def _stop_measuring(self, reason: str, now_s: float) -> List[events.Action]:
        """Void the period under way and keep the complete pairs before it as a record."""
        self._void(now_s)
        if self._all_over:
            return []
        record = self._experiment.record(reason, now_s)
        return [self._close_accounting(record)] if record.pairs else []

    def _stopped(
        self, event: Union[events.Halt, events.BlocksEnded], now_s: float
    ) -> List[events.Action]:
        if isinstance(event, events.Halt):
            return self._halt(event.reason, now_s, event.unfit, event.by_will)
        if event.token != self._watch_of[1]:
            return []
        return self._fails(event.why, now_s) if event.silent else self._halt(event.why, now_s)

    def _halt(
        self, reason: str, now_s: float, unfit: bool = False, by_will: bool = False
    ) -> List[events.Action]:
        reason = one_line(reason)
        if self.state.status is RunStatus.RELEASING:
            return []
        self.state = replace(self.state, unfit=unfit, by_will=by_will)
        if self.state.status is RunStatus.WAITING:
            return self._end(RunStatus.ABORTED, reason, restored=True)
        saved = self._stop_measuring(reason, now_s)
        self.state = replace(self.state, reason=reason)
        return [*saved, events.Note(f"stopping: {reason}", "warning"), *self._release()]

    def _silent(self, detail: str, now_s: float) -> List[events.Action]:
        """Nobody is there to release: the probe restores by itself when its lease runs out."""
        before = self.state.reason
        detail = one_line(f"{before}; {detail}" if before else detail)
        saved: List[events.Action] = []
        if self.state.status is RunStatus.RUNNING:
            saved = self._stop_measuring(detail, now_s)
        return [*saved, *self._end_owing(detail)]
