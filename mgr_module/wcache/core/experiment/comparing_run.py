"""A run that compares: all experiments of one cache domain, one after the other.

Finished periods are saved before anything else happens, and where the machine stands follows from
the saved periods, so a mgr that takes over goes on with the first period that is missing and
repeats none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, List, Tuple, Union

from .. import events
from ..codec import one_line
from ..drive.prior import PriorDoubt
from ..hardware import CONTROLLER_S
from ..loads import WRITE_BYTES
from ..options.entries import DRAINS
from ..protocol import (
    DrivesOutcome,
    FailureOutcome,
    SamplesOutcome,
    StateOutcome,
)
from ..setting.domain_settings import OptionSetting
from ..setting.drive_setting import DriveSetting
from ..setting.setting import Warrant
from . import budget, period
from .leased_run import ATTEMPTS_MAX, LeasedRun
from .period import PeriodUnderWay, Stage, read_at, samples_of
from .run import Actions
from .run_state import IN_PROGRESS, is_look


@dataclass
class ComparingRun(LeasedRun):
    """The machine of one such run."""

    def handle(self, event: events.Event, now_s: float) -> Actions:
        """Take one event at wall-clock time `now_s`; return what is to be done, in order."""
        if self.over:
            return self._given_back_late(event)
        take = _TAKES.get(type(event))
        return self._told(event) if take is None else take(self, event, now_s)

    def _tick(self, _: events.Tick, now_s: float) -> Actions:
        if not self._now.under_way:
            return []
        if now_s >= self._now.cut_off_at_s:
            return self._cut_off(now_s)
        if self._now.phase is Stage.SETTLING and now_s >= self._now.settled_at_s:
            return self._start(now_s)
        return []

    def _cut_off(self, now_s: float) -> Actions:
        """The budget ends within a period: what was seen of that is not used."""
        self._void(now_s)
        return self._finish_experiment("the budget ran out during a period", now_s)

    def _answered(self, event: events.Answered, now_s: float) -> Actions:
        if event.token != self._now.token:
            return []
        outcome, phase = event.answer, self._now.phase
        if isinstance(outcome, FailureOutcome):
            return self._task_failed(outcome, now_s)
        take = _ANSWERS.get((phase, type(outcome)))
        if take is not None:
            return take(self, outcome, now_s)
        if isinstance(outcome, (events.LoadSamples, events.LoadFailed)):
            return []
        odd = f"the probe gave an unexpected answer to a {phase.value} task"
        return self._released(odd) if phase is Stage.RELEASING else self._halt(odd, now_s)

    def _task_failed(self, outcome: FailureOutcome, now_s: float) -> Actions:
        if self._now.phase is Stage.RELEASING:
            return self._released(self._not_back(self._releasing, outcome), outcome.doubt)
        # of what was touched since it was looked at, it may well be our own change that was found
        if self._now.phase is Stage.SETTING and outcome.doubt is PriorDoubt.OTHER_STATE:
            domain_id = self._step.domain.domain_id
            if domain_id not in self._untouched:
                return self._halt(outcome.said, now_s)
            self.state = self.state.without(domain_id)
            self._looks += 1
            if self._looks < ATTEMPTS_MAX:
                self._void(now_s)
                return self._look_or_go_on(now_s)
        return self._halt(outcome.said, now_s)

    # ---- one period

    def _go_on(self, now_s: float) -> Actions:
        # the last mgr may have stopped while the analysis looked
        if not self._all_over and self._experiment.look_is_due:
            return self._look(now_s)
        return self._next_period(now_s)

    def _next_period(self, now_s: float) -> Actions:
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
        self._now.cut_off_at_s = experiment.cut_off_at_s(self._now)
        return [self._lease(self._step)]

    @property
    def _sides(self) -> List[DriveSetting]:
        return period.sides(self.spec, self._setup, self._now.slot)

    @property
    def _steps(self) -> List[DriveSetting]:
        """What is set before measuring; a settling check begins with a toggle: there and back."""
        slot = self._now.slot
        first = period.sides(self.spec, self._setup, slot, other=True) if slot.checks else []
        return [*first, *self._sides]

    @property
    def _step(self) -> DriveSetting:
        """What is set next, or is being set."""
        return self._steps[len(self._now.before)]

    def _lease(self, setting: DriveSetting) -> events.Action:
        spec, domain_id = self.spec, setting.domain.domain_id
        return self._task(setting.lease(Warrant(
            spec.lease_id, self.state.prior_of(domain_id), turn_on=spec.consent_turn_on,
            throwaway=spec.throwaway,
        )))

    def _set(self, outcome: StateOutcome, now_s: float) -> Actions:
        now, steps, step = self._now, self._steps, self._step
        self._untouched.discard(step.domain.domain_id)
        if not step.is_there(outcome.after):
            which = "the drive" if len(steps) == 1 else step.domain.domain_id
            return self._halt(f"{which} is not in {step.goal} after the probe set it", now_s)
        left_high = period.left_high(self.spec, self._setup, now, self._prior, outcome)
        if left_high:
            now.before = ()
            return self._set_rate(left_high, drained=True)
        now.before += (outcome,)
        if len(now.before) > len(steps) - len(self._sides):
            now.bcache += read_at(outcome, now_s)
        if len(now.before) < len(steps):
            return [self._lease(self._step)]
        now.phase = Stage.SETTLING
        now.settled_at_s = now_s + self._experiment.settle_s(now.slot)
        now.cut_off_at_s = self._experiment.cut_off_at_s(now)
        return [*self._watch(), *self._tick(events.Tick(), now_s)]

    def _watch(self) -> Actions:
        """From its first toggle on an experiment watches every OSD on the domain.

        One watch for all its periods: each may be shorter than the limit, and what stalls over
        several of them must be seen.  One OSD alone is watched by what measures it, but where
        bcache's controller is waited for: that takes minutes.
        """
        watched = self.spec.beside or self.spec.waits_for_controller
        if not watched or self._watch_of[0] == self.state.index:
            return []
        request = period.watch_of(self.spec, self._setup)
        self._watch_of = self.state.index, self._new_token() if request.treated else ""
        return [events.WatchOsds(self._watch_of[1], request)] if request.treated else []

    def _measure(self, now_s: float) -> Actions:
        self._now.phase = Stage.MEASURING
        self._now.cut_off_at_s = self._experiment.cut_off_at_s(self._now)
        left_s = self._now.cut_off_at_s - now_s
        return [self._load(period.load_of(self.spec, self._setup, self._now.slot, left_s))]

    def _sampled(
        self, answer: Union[events.LoadSamples, SamplesOutcome], now_s: float
    ) -> Actions:
        now, samples = self._now, samples_of(answer)
        if now.phase is Stage.WRITING:
            now.written_s += max(0.0, now_s - now.written_at_s)
            now.looks_from = len(now.bcache)
            return self._halt(samples.aborted, now_s) if samples.aborted else self._start(now_s)
        now.samples = samples
        if samples.aborted:
            return self._halt(samples.aborted, now_s)
        if samples.unusable:
            self._void(now_s)
            return self._finish_experiment(samples.unusable, now_s)
        # a settling check that saw nothing chooses nothing
        empty = not samples.samples_ns and not samples.counters
        if empty and not now.slot.checks:
            return self._again("no sample was taken", now_s)
        now.phase = Stage.CLOSING
        return [self._task(self._sides[0].read())]

    def _close(self, outcome: StateOutcome, now_s: float) -> Actions:
        sides = self._sides
        side = sides[len(self._now.after)]
        if not side.is_there(outcome.after):
            return self._again(f"somebody else changed its {side.what}", now_s)
        if now_s >= self._now.cut_off_at_s:
            return self._cut_off(now_s)  # the answer was late
        self._now.after += (outcome,)
        self._now.bcache += read_at(outcome, now_s)
        if len(self._now.after) < len(sides):
            return [self._task(sides[len(self._now.after)].read())]
        return self._keep_period(now_s)

    def _keep_period(self, now_s: float) -> Actions:
        slot, experiment = self._now.slot, self._experiment
        settle_s = experiment.settle_s(slot)
        found = period.period_of(self.spec, self._setup, self._now, settle_s, now_s)
        self._put_periods({**experiment.periods, slot: found})
        saved: Actions = [
            events.SavePeriod(self.state.index, slot.index, slot.second, found)
        ]
        self._now.attempt = 0
        if self.state.starting_open:  # the period has it
            self.state = replace(self.state, starting_open=0)
            saved.append(events.SaveRun())
        if not slot.checks and is_look(self._setup, slot.following):
            return [*saved, *self._look(now_s)]
        return [*saved, *self._next_period(now_s)]

    def _again(self, why: str, now_s: float) -> Actions:
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

    # ---- where a period of bcache begins

    def _start(self, now_s: float) -> Actions:
        """Measure; of bcache once its controller has settled, by what is read of it first."""
        if not self.spec.waits_for_controller or self._now.slot.checks:
            return self._measure(now_s)
        self._now.phase = Stage.READING
        if not self._now.waited_from_s:
            self._now.waited_from_s, self._now.looks_from = now_s, len(self._now.bcache)
        return [self._task(self._sides[0].read())]

    def _read(self, outcome: StateOutcome, now_s: float) -> Actions:
        now = self._now
        now.bcache += read_at(outcome, now_s)
        next_ = period.next_of(
            self.spec, self._setup, now, self._prior, outcome, self._experiment.starting_left, now_s
        )
        if next_.gives_up:
            self._void(now_s)
            return self._finish_experiment(f"bcache did not settle {next_.gives_up}", now_s)
        if next_.measures:
            now.waited_s = max(0.0, now_s - now.waited_from_s - now.written_s)
            now.settled_at_s = now_s
            return self._measure(now_s)
        if next_.load is not None:
            now.phase, now.written_at_s = Stage.WRITING, now_s
            written = next_.load.count * WRITE_BYTES[next_.load.load_point]
            now.written_bytes += written
            # saved first: a mgr that takes over must know what was written
            self.state = budget.with_written(self.state, written)
            return [events.SaveRun(), self._load(next_.load)]
        if next_.rate:
            return self._set_rate(next_.rate, drained=not next_.drains)
        return self._look_again_later(now_s)

    def _set_rate(self, rate: str, *, drained: bool) -> Actions:
        """Set bcache's least rate of writeback: the period's own, or one that drains it."""
        setting = OptionSetting(self._sides[0].domain, DRAINS, "", rate)
        self._now.phase, self._now.rate, self._now.drained = Stage.DRAINING, setting, drained
        return [self._lease(setting)]

    def _rate_set(self, outcome: StateOutcome, now_s: float) -> Actions:
        rate = self._now.rate
        if rate is None or not rate.is_there(outcome.after):
            return self._halt(f"{DRAINS} is not {rate and rate.after} after it was set", now_s)
        if self._now.slot.checks:  # it begins with a toggle, so anew
            self._now.phase = Stage.SETTING
            return [self._lease(self._step)]
        return self._look_again_later(now_s)

    def _look_again_later(self, now_s: float) -> Actions:
        self._now.phase = Stage.SETTLING
        self._now.settled_at_s = now_s + CONTROLLER_S
        return []

    # ---- looks of the analysis, the end of an experiment

    def _look(self, now_s: float) -> Actions:
        self._now.phase = Stage.DECIDING
        return [events.AskAnalysis(self._new_token(), self._experiment.record(IN_PROGRESS, now_s))]

    def _decided(self, event: events.Decided, now_s: float) -> Actions:
        if event.token != self._now.token or self._now.phase is not Stage.DECIDING:
            return []
        ended = self._experiment.ends_after(event)
        if ended:
            return self._finish_experiment(ended, now_s)
        self._now.phase = Stage.IDLE
        return self._next_period(now_s)

    def _finish_experiment(self, ended: str, now_s: float) -> Actions:
        """Keep the experiment as it is, and begin the next."""
        saved = self._recorded(self._experiment.record(one_line(ended), now_s))
        self._now = PeriodUnderWay()
        return [saved, events.SaveRun(), *self._next_period(now_s)]

    def _lease_lost(self, event: events.LeaseLost, now_s: float) -> Actions:
        if self._now.phase is Stage.RELEASING:
            # a probe that restarted restores by itself; only its answer proves that it could
            if self._releases < ATTEMPTS_MAX:
                return self._give_back()
            return self._end_owing(f"{event.detail}, {ATTEMPTS_MAX} times while restoring", now_s)
        if self._now.phase in (Stage.DECIDING, Stage.IDLE):
            return []
        if self._now.phase is Stage.LOOKING:
            return self._look_or_go_on(now_s)
        self._untouched.clear()  # a task may have been done, and its answer lost
        return self._again(event.detail, now_s)

    def _watch_ended(self, event: events.BlocksEnded, now_s: float) -> Actions:
        if event.token != self._watch_of[1]:
            return []
        return self._fails(event.why, now_s) if event.silent else self._halt(event.why, now_s)


_Take = Callable[[ComparingRun, Any, float], Actions]
_TAKES: Dict[type, _Take] = {
    events.Begin: ComparingRun._begin,
    events.Tick: ComparingRun._tick,
    events.Answered: ComparingRun._answered,
    events.Decided: ComparingRun._decided,
    events.LeaseLost: ComparingRun._lease_lost,
    events.AgentSilent: lambda run, event, now_s: run._silent(event.detail, now_s),
    events.Halt: lambda run, event, now_s: run._halt(
        event.reason, now_s, event.unfit, event.by_will
    ),
    events.BlocksEnded: ComparingRun._watch_ended,
    events.Ill: ComparingRun._ill,
}
# What goes on with an answer, by what it was waited for in.
_ANSWERS: Dict[Tuple[Stage, type], _Take] = {
    (Stage.LOOKING, DrivesOutcome): ComparingRun._looked,
    (Stage.RESUMING, StateOutcome): ComparingRun._resumed,
    (Stage.SETTING, StateOutcome): ComparingRun._set,
    (Stage.READING, StateOutcome): ComparingRun._read,
    (Stage.DRAINING, StateOutcome): ComparingRun._rate_set,
    **{
        (phase, kind): take for phase in (Stage.WRITING, Stage.MEASURING) for kind, take in (
            (SamplesOutcome, ComparingRun._sampled), (events.LoadSamples, ComparingRun._sampled),
            (events.LoadFailed, lambda run, answer, now_s: run._fails(answer.message, now_s)),
        )
    },
    (Stage.CLOSING, StateOutcome): ComparingRun._close,
    (Stage.RELEASING, StateOutcome): ComparingRun._gave_back,
}
