"""Every run, whatever it measures: what others ask of it, how it is told to stop, its end.

A run is a sans-I/O machine: it takes an event and the time and returns actions.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import AbstractSet, Iterator, List, Optional, Tuple, TypeVar, Union

from .. import events
from ..codec import one_line
from ..host_report import DriveKind
from ..protocol import Request
from ..record import CHECKS_MAX, ExperimentSetup, Period
from .design import Periods
from .period import PeriodUnderWay, Stage
from .run_state import OVER, Discarded, RunSpec, RunState, RunStatus, may_turn_on
from .settling import pairs_limit

# How long OSDs have to get well before a run ends: a daemon that restarts is back by then.
ILL_WAIT_S = 120.0
# A drive that makes its OSDs ill again and again is not measured any more.
ILL_TIMES_MAX = 3
Machine = TypeVar("Machine", bound="RunMachine")
Actions = List[events.Action]


@dataclass
class RunMachine:
    """The machine of a run.  `periods` are the saved ones of each experiment."""

    state: RunState
    periods: List[Periods]
    epoch: str = "0"  # differs after each restart of the mgr, so that answers cannot mix
    _now: PeriodUnderWay = field(default_factory=PeriodUnderWay)
    _serial: int = 0

    def __post_init__(self) -> None:
        missing = len(self.state.spec.experiments) - len(self.state.waste)
        discarded = (*self.state.waste, *(Discarded() for _ in range(missing)))
        self.state = replace(self.state, waste=discarded)

    @abstractmethod
    def handle(self, event: events.Event, now_s: float) -> Actions:
        """Take one event at wall-clock time `now_s`; return what is to be done, in order."""

    # ---- what others ask

    @property
    def spec(self) -> RunSpec:
        """The run's fixed part."""
        return self.state.spec

    @property
    def over(self) -> bool:
        """Whether the run has come to its end."""
        return self.state.status in OVER

    @property
    def holds_lease(self) -> bool:
        """Whether the probe may hold the domain in a mode of ours."""
        return self.under_way and self.spec.toggles

    @property
    def under_way(self) -> bool:
        """Whether it has begun and is not over."""
        return self.state.status in (RunStatus.RUNNING, RunStatus.RELEASING)

    @property
    def wake_at_s(self) -> Optional[float]:
        """When the machine wants its next Tick, or None."""
        return self._now.wake_at_s

    @property
    def waits_long(self) -> bool:
        """Say no: its budget ends it."""
        return False

    @property
    def waited_for(self) -> str:
        """The host of its probe; "" for an OSD's option, of which no probe knows."""
        return self.spec.hostname if self.spec.option_osd is None else ""

    @property
    def hostnames(self) -> AbstractSet[str]:
        return {self.spec.hostname}

    @property
    def may_turn_on(self) -> AbstractSet[DriveKind]:
        """The models it may yet turn on; none while it releases, which turns them off."""
        goes_on = self.state.status in (RunStatus.WAITING, RunStatus.RUNNING)
        return may_turn_on(self.spec) if goes_on else set()

    def stalled(self, said: str) -> events.Event:
        """Halt it; while it releases already, take its probe as silent: no release is for ever."""
        releasing = self.state.status is RunStatus.RELEASING
        return events.AgentSilent(said) if releasing else events.Halt(said)

    def abandoned(self: Machine, reason: str) -> Machine:
        """Return it as aborted: whether its domains are as before, only the probe can say."""
        never_held = self.state.status is RunStatus.WAITING or self.spec.observes
        state = replace(
            self.state, status=RunStatus.ABORTED, reason=one_line(reason), restored=never_held,
            owed=() if never_held else self.spec.domain_ids,
        )
        return type(self)(state, [{} for _ in self.spec.experiments], self.epoch)

    @property
    def seconds_spent(self) -> float:
        """Drive time spent so far, interrupted periods included."""
        return self.state.finished_seconds + sum(one.seconds for one in self._spent)

    @property
    def bytes_spent(self) -> int:
        """Bytes written so far by measuring, interrupted periods included."""
        observed = sum(load.bytes_written for load in self.state.observed)
        spent = sum(one.bytes_written for one in self._spent)
        return self.state.finished_bytes + observed + spent

    @property
    def _spent(self) -> Iterator[Union[Period, Discarded]]:
        """What is measured and not recorded yet, and what was interrupted."""
        for periods in self.periods[self.state.index:]:
            yield from periods.values()
        yield from self.state.waste

    @property
    def open_experiments(self) -> Tuple[Tuple[ExperimentSetup, int], ...]:
        """Each experiment that has not ended, with its periods done."""
        first = len(self.spec.experiments) if self.over else self.state.index
        return tuple(
            (setup, sum(not slot.checks for slot in periods))
            for setup, periods in zip(self.spec.experiments[first:], self.periods[first:])
        )

    @property
    def open_periods(self) -> Tuple[int, int]:
        """(periods done, periods at most) of the experiments that have not ended."""
        open_ = self.open_experiments
        return sum(done for _, done in open_), sum(2 * pairs_limit(setup) for setup, _ in open_)

    @property
    def _all_over(self) -> bool:
        """Whether every experiment has ended."""
        return self.state.index >= len(self.spec.experiments)

    @property
    def _setup(self) -> ExperimentSetup:
        return self.spec.experiments[self.state.index]

    # ---- stopping

    def _stop_measuring(self, reason: str, now_s: float) -> Actions:
        """Keep what was measured so far, and count what the rest has cost."""
        return []

    def _halt(
        self, reason: str, now_s: float, unfit: bool = False, by_will: bool = False
    ) -> Actions:
        """Stop measuring and release."""
        reason = one_line(reason)
        if self.state.status is RunStatus.RELEASING:
            return []
        self.state = replace(self.state, unfit=unfit, by_will=by_will)
        if self.state.status is RunStatus.WAITING:
            return self._end(RunStatus.ABORTED, reason, ())
        saved = self._stop_measuring(reason, now_s)
        self.state = replace(self.state, reason=reason)
        return [*saved, events.Note(f"stopping: {reason}", "warning"), *self._release()]

    def _release(self) -> Actions:
        """Nothing of a drive is held, so it is over."""
        final = RunStatus.ABORTED if self.state.reason else RunStatus.DONE
        return self._end(final, self.state.reason, ())

    def _end(
        self, status: RunStatus, reason: str, owed: Tuple[str, ...]
    ) -> Actions:
        self.state = replace(
            self.state, status=status, reason=reason, restored=not owed, owed=owed
        )
        self._now = PeriodUnderWay()
        word = "the prior state is not confirmed yet" if owed else "the prior state is back"
        word = "nothing was toggled" if self.spec.observes else word
        text = f"{status.value}: {reason}; {word}" if reason else f"{status.value}; {word}"
        return [events.SaveRun(), events.Note(text, "error" if owed else None)]

    # ---- OSDs that fall ill

    def _ill(self, event: events.Ill, now_s: float) -> Actions:
        """A look at its OSDs; `why` is empty where all are well."""
        if self.state.status is not RunStatus.RUNNING:
            return []
        if self.state.ill_since_s:
            return self._still_ill(event.why, now_s)
        return self._wait_for_osds(event.why, now_s) if event.why else []

    def _wait_for_osds(self, why: str, now_s: float, load_failed: str = "") -> Actions:
        if self.state.ill_times >= ILL_TIMES_MAX:
            said = f"stopped: {why}, after it was ill {ILL_TIMES_MAX} times"
            return self._halt(said, now_s, unfit=True)
        self.state = replace(
            self.state, ill_since_s=now_s, ill_times=self.state.ill_times + 1,
            reason=one_line(f"waiting: {why}"), load_failed=load_failed,
        )
        return self._interrupted(why, now_s)

    @abstractmethod
    def _interrupted(self, why: str, now_s: float) -> Actions:
        """Throw away what is under way, and give back what is held."""

    def _still_ill(self, why: str, now_s: float) -> Actions:
        """Go on after a while where all are well; else end with what is complete.

        Where a load failed and nobody was ill meanwhile, it ends for that.
        """
        shown: Actions = []
        if why:  # that it is another reason by now is told, and not stored at each look
            shown = [events.SaveRun()] if self.state.load_failed else []
            self.state = replace(self.state, load_failed="", reason=one_line(f"waiting: {why}"))
        going_back = self._now.phase is Stage.RELEASING
        if going_back or now_s < self.state.ill_since_s + ILL_WAIT_S:
            return shown
        if why:
            return self._halt(f"stopped: {why}", now_s, unfit=True)
        if self.state.load_failed:
            return self._halt(self.state.load_failed, now_s)
        self.state = replace(self.state, ill_since_s=0.0, reason="", began_at_s=now_s)
        return [events.Note("goes on: its OSDs are well again"), *self._taken_up(now_s)]

    @abstractmethod
    def _taken_up(self, now_s: float) -> Actions:
        """Measure on after the wait."""

    def confirm(self, domain_id: str) -> None:
        """A cache domain was read, and is as it was before the run."""
        owed = self.state.owed or self.spec.domain_ids
        owed = tuple(
            name for name in owed
            if name != domain_id and self.state.touched(name)
        )
        self.state = replace(self.state, restored=not owed, owed=owed)

    # ---- what it is told beside

    def _told(self, event: events.Event) -> Actions:
        """Keep what its records are to say, or for what it waits until it begins."""
        if isinstance(event, events.Unmet) and not self.over:
            unmet = tuple(dict.fromkeys((*self.state.unmet, *event.items)))
            checks = tuple(dict.fromkeys((*self.state.checks, *event.checks)))[:CHECKS_MAX]
            if (unmet, checks) != (self.state.unmet, self.state.checks):
                self.state = replace(self.state, unmet=unmet, checks=checks)
                return [events.SaveRun()]
        if isinstance(event, events.Waits) and self.state.status is RunStatus.WAITING:
            self.state = replace(self.state, reason=event.reason)
            said = event.reason or "waits for its turn again"
            return [events.SaveRun(), events.Note(said, "warning" if event.reason else None)]
        return []

    # ---- small things

    def _new_token(self) -> str:
        self._serial += 1
        self._now.token = f"{self.spec.run_id}.{self.epoch}.{self._serial}"
        return self._now.token

    def _load(self, load: Union[events.LoadRequest, Request]) -> events.Action:
        """Measure on the OSD, or have the probe do it."""
        if isinstance(load, events.LoadRequest):
            return events.MeasureLoad(self._new_token(), load)
        return self._task(load)

    def _task(self, request: Request) -> events.GiveTask:
        return events.GiveTask(self._new_token(), request)
