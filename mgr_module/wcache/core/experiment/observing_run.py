"""A run that toggles nothing, so holds no lease; it ends with a table for each load.

Before and after each load the drives are looked at: what they were set to is told with the
table, and a mode that changed meanwhile makes it useless.  What was observed is stored before
the next load; a mgr that takes over goes on with the first load that is missing.

One such run benches an OSD for mClock's capacity, by the recipe of the OSD itself.  All drives
under the OSD are looked at before and after the calls, so that a capacity is known
to belong to one setting of the caches.  A call is not called back: what is stopped meanwhile is
charged with it.  Calls that were made go under with the mgr, and are made again by the next one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import List, Optional, Tuple

from .. import events
from ..codec import one_line
from ..drive.safety import Safety, judge, not_flushing
from ..figures.latency_table import LatencyTable, of_samples
from ..loads import CAPACITY_CALL_BYTES, WRITE_BYTES, CapacityRecipe
from ..model import CacheMode, DriveReport, KernelView, LoadPoint, mode_of
from ..protocol import (
    CountersRequest,
    DrivesOutcome,
    FailureOutcome,
    LookRequest,
    MeasureRequest,
    SamplesOutcome,
    StateOutcome,
    TimerRequest,
)
from . import budget
from .observed import BCACHES_MAX, SAMPLES_KEPT_MAX, Observed, ObservedCapacity, of_histogram, rates
from .observing_plan import BESIDE_CALLS, BESIDE_ROUNDS_MAX, TIMER_S, cost_of, setting_and_stack
from .period import PeriodUnderWay, Stage, samples_of
from .run import Actions, RunMachine
from .run_state import RunSpec, RunStatus

NO_SAMPLE = "nothing was committed meanwhile"
NOT_FLUSHED = (
    "no flush of the OSD reaches the drive: the volume, or the kernel's view, drops them, so there "
    "are no times of the drive"
)
NOT_SENT = "the kernel sends no flush to a drive that is off, so these are not times of the drive"
CHANGED = "the cache mode changed meanwhile"
NOT_KEPT_UP = "the load beside it ended before the flushes were timed"


@dataclass
class _Beside:
    """The load that is kept up beside the timer, one round after the other."""

    token: str = ""  # of the round under way
    rounds: int = 0
    bytes_written: int = 0
    note: str = ""  # why there is no other round


@dataclass
class ObservingRun(RunMachine):
    """The machine of one run that toggles nothing."""

    _beside: _Beside = field(default_factory=_Beside)

    @property
    def open_periods(self) -> Tuple[int, int]:
        """(loads observed, loads in all)."""
        return len(self.state.observed), len(self.spec.experiments)

    def handle(self, event: events.Event, now_s: float) -> Actions:
        """Take one event; return what is to be done, in order."""
        if self.over:
            return []
        if isinstance(event, events.Begin):
            return self._begin(now_s)
        if isinstance(event, events.Answered):
            return self._heard(event.token, event.answer, now_s)
        if isinstance(event, events.AgentSilent):
            return self._halt(event.detail, now_s)
        if isinstance(event, events.Halt):
            return self._halt(event.reason, now_s, by_will=event.by_will)
        if isinstance(event, events.Ill):
            return self._ill(event, now_s)
        return self._told(event)

    def _heard(self, token: str, answer: object, now_s: float) -> Actions:
        if isinstance(answer, events.LoadSamples):
            return self._load_ended(token, answer, "", now_s)
        if isinstance(answer, events.LoadFailed):
            return self._load_ended(token, None, answer.message, now_s)
        return self._answered(answer, now_s) if token == self._now.token else []

    def _interrupted(self, why: str, now_s: float) -> Actions:
        """It holds nothing, and what it would tell of an OSD that is ill is of no use.

        The load is observed anew, but where that would write more than was consented to.
        """
        if self._now.phase is not Stage.LOOKING and cost_of(self._setup).bytes_written:
            return self._halt(f"stopped: {why}", now_s, unfit=True)
        self._now = PeriodUnderWay()
        note = f"the load under way is thrown away: {why}"
        return [events.SaveRun(), events.Note(one_line(note), "warning")]

    def _taken_up(self, now_s: float) -> Actions:
        return [events.SaveRun(), *self._next(now_s)]

    def _begin(self, now_s: float) -> Actions:
        if self.state.status is RunStatus.RUNNING and self.state.ill_since_s:
            return []
        if self.state.status is RunStatus.RUNNING and not self._all_over:
            # nobody knows how far the last mgr came with it
            lost = cost_of(self._setup).bytes_written
            self.state = budget.with_discarded(self.state, 0.0, lost)
        self.state = replace(self.state, status=RunStatus.RUNNING, began_at_s=now_s, reason="")
        return [events.SaveRun(), *self._next(now_s)]

    def _next(self, now_s: float) -> Actions:
        if self._all_over:
            return self._release()
        self._now, self._beside = PeriodUnderWay(started_at_s=now_s), _Beside()
        return self._look(Stage.LOOKING)

    def _look(self, phase: Stage) -> Actions:
        """Have the drives looked at, before or after a load."""
        self._now.phase = phase
        return [self._task(CountersRequest(self.spec.domain_id))]

    def _answered(self, outcome: object, now_s: float) -> Actions:
        now = self._now
        if isinstance(outcome, FailureOutcome):
            return self._keep(None, one_line(outcome.message), now_s)
        if now.phase is Stage.LOOKING and isinstance(outcome, StateOutcome):
            now.before, now.phase = (outcome,), Stage.MEASURING
            return self._measure_load()
        if now.phase is Stage.MEASURING and isinstance(outcome, SamplesOutcome):
            return self._have(samples_of(outcome))
        if now.phase is Stage.CLOSING and isinstance(outcome, StateOutcome):
            return self._keep(outcome, self._beside.note, now_s)
        return self._unexpected(now_s)

    # ---- one load

    def _measure_load(self) -> Actions:
        spec, setup = self.spec, self._setup
        if setup.load_point is LoadPoint.FDATASYNC_TIMER:
            # the task comes first: to give one ends what is measured elsewhere
            timer = self._task(TimerRequest(
                spec.domain_id, setup.osd_id, setup.role, setup.samples_per_period, TIMER_S,
                spec.latency_limit_ms,
            ))
            return [timer] if setup.beside is None else [timer, self._round(setup.beside)]
        count, seconds = setup.samples_per_period, setup.period_s
        if spec.measured_by_probe:
            return [self._task(MeasureRequest(
                spec.domain_id, setup.osd_id, setup.load_point, count, seconds
            ))]
        return [self._load(self._request(setup.load_point, count, seconds))]

    def _request(self, load_point: LoadPoint, count: int, seconds: float) -> events.LoadRequest:
        traffic = load_point is LoadPoint.OSD_TRAFFIC
        return events.LoadRequest(
            self._setup.osd_id, load_point, count, seconds,
            self.spec.latency_limit_ms, spread=traffic, histogram=traffic,
        )

    def _round(self, load_point: LoadPoint) -> events.MeasureLoad:
        """One more round of the load that is kept up beside the timer."""
        self._beside.rounds += 1
        self._beside.token = f"{self._now.token}.{self._beside.rounds}"
        return events.MeasureLoad(
            self._beside.token, self._request(load_point, BESIDE_CALLS, 0.0)
        )

    def _load_ended(
        self, token: str, samples: Optional[events.LoadSamples], failed: str, now_s: float
    ) -> Actions:
        beside, load_point = self._beside, self._setup.beside
        if self._now.phase is not Stage.MEASURING:
            return []
        if token == self._now.token:
            return self._keep(None, failed, now_s) if samples is None else self._have(samples)
        if token != beside.token or load_point is None:
            return []
        beside.token = ""
        if samples is None:
            beside.note = beside.note or failed
        else:
            beside.bytes_written += samples.bytes_written
            beside.note = samples.aborted or beside.note
        if self._now.samples is not None:
            return self._look(Stage.CLOSING)
        if beside.note or beside.rounds >= BESIDE_ROUNDS_MAX:
            beside.note = beside.note or NOT_KEPT_UP
            return []
        return [self._round(load_point)]

    def _have(self, samples: events.LoadSamples) -> Actions:
        self._now.samples = samples
        # the last round ends by itself: a bench that was begun is not called back
        return [] if self._beside.token else self._look(Stage.CLOSING)

    def _keep(self, after: Optional[StateOutcome], note: str, now_s: float) -> Actions:
        now, setup, beside = self._now, self._setup, self._beside
        samples = now.samples or events.LoadSamples(0.0)
        bytes_written = samples.bytes_written + beside.bytes_written
        if beside.token and setup.beside is not None:
            # it goes on: what it may still write is counted in full
            bytes_written += BESIDE_CALLS * WRITE_BYTES[setup.beside]
        kept_up = beside.note != NOT_KEPT_UP
        few = len(samples.samples_ns) <= SAMPLES_KEPT_MAX and WRITE_BYTES[setup.load_point]
        histogram = samples.histogram
        found = Observed(
            setup.load_point, setup.osd_id, setup.role,
            of_samples(samples.samples_ns) if kept_up else LatencyTable(0),
            beside=setup.beside, started_at_s=now.started_at_s,
            seconds=samples.seconds, bytes_written=bytes_written, note=note or samples.aborted,
            client_writes=None if histogram is None else of_histogram(histogram),
            samples_ns=samples.samples_ns if few else (), unmet=self.state.unmet,
        )
        for before in now.before:
            found = self._with_state(found, before, after or before)
        if not found.note and not found.table.n:
            found = replace(found, note=NO_SAMPLE)
        self.state = replace(self.state, observed=(*self.state.observed, found))
        if samples.aborted:
            return [events.SaveRun(), *self._halt(samples.aborted, now_s)]
        return [events.SaveRun(), *self._next(now_s)]

    def _unexpected(self, now_s: float) -> Actions:
        asked = self._now.phase.value
        return self._halt(f"the probe gave an unexpected answer to a {asked} task", now_s)

    def _with_state(
        self, found: Observed, before: StateOutcome, after: StateOutcome
    ) -> Observed:
        modes = self._modes(before) + self._modes(after)
        views = {state.kernel_view for state in (*before.after, *after.after)}
        same = len(set(modes)) == 1
        writes_per_s, flushes_per_s = rates(before.counters, after.counters)
        changed = self._modes(before) != self._modes(after)
        timer = found.load_point is LoadPoint.FDATASYNC_TIMER
        states = (*before.after, *after.after)
        sent = not timer or not any(map(not_flushing, states))
        lost = timer and not {Safety.UNSAFE, Safety.AFTER_RESET}.isdisjoint(map(judge, states))
        return replace(
            found, mode=modes[0] if same else None,
            kernel_view=views.pop() if len(views) == 1 else KernelView.UNKNOWN,
            writes_per_s=writes_per_s, flushes_per_s=flushes_per_s,
            note=CHANGED if changed else NOT_FLUSHED if lost else
            found.note or ("" if sent else NOT_SENT),
            bcache=(
                *before.bcache[: BCACHES_MAX // 2], *after.bcache[: BCACHES_MAX // 2]
            ),
        )

    def _modes(self, outcome: StateOutcome) -> List[Optional[CacheMode]]:
        return [mode_of(self._setup.transport, state) for state in outcome.after]


def benches_capacity(spec: RunSpec) -> bool:
    """Whether a run measures mClock's capacity of an OSD."""
    return spec.observes and any(
        setup.load_point is LoadPoint.OSD_BENCH_CAPACITY for setup in spec.experiments
    )


@dataclass
class _Bench:
    """The calls on one OSD."""

    seen: Tuple[DriveReport, ...] = ()  # in this look
    due: Tuple[str, ...] = ()  # domains that are yet to be looked at
    before: Tuple[str, str] = ("", "")  # setting and stack before the calls
    made: Tuple[events.LoadSamples, ...] = ()
    calling: bool = False


@dataclass
class CapacityRun(ObservingRun):
    """The machine of one such run."""

    _bench: _Bench = field(default_factory=_Bench)

    @property
    def open_periods(self) -> Tuple[int, int]:
        """(calls made, calls in all)."""
        made = sum(one.table.n for one in self.state.observed) + len(self._bench.made)
        return made, sum(setup.samples_per_period for setup in self.spec.experiments)

    def _look(self, phase: Stage) -> Actions:
        self._now.phase = phase
        self._bench.seen, self._bench.due = (), self.spec.looks_at
        return [self._task(LookRequest(self.spec.domain_id))]

    def _answered(self, outcome: object, now_s: float) -> Actions:
        bench = self._bench
        if isinstance(outcome, FailureOutcome):
            return self._halt(outcome.message, now_s)
        if self._now.phase is Stage.MEASURING or not isinstance(outcome, DrivesOutcome):
            return self._unexpected(now_s)
        bench.seen += outcome.drives
        if bench.due:
            domain_id, bench.due = bench.due[0], bench.due[1:]
            return [self._task(LookRequest(domain_id))]
        return self._looked_at_all(now_s)

    def _looked_at_all(self, now_s: float) -> Actions:
        bench, osd_id = self._bench, self._setup.osd_id
        found = setting_and_stack(osd_id, bench.seen)
        if not found[0]:
            return self._halt(f"the cache mode of osd.{osd_id} is not known", now_s)
        if self._now.phase is Stage.LOOKING:
            bench.before, self._now.phase = found, Stage.MEASURING
            calls = self._setup.samples_per_period
            return [events.Note(f"osd.{osd_id}: {calls} bench calls"), self._call()]
        for before, after in zip(bench.before, found):
            if before != after:
                return self._halt(f"osd.{osd_id} went from {before} to {after} meanwhile", now_s)
        made = [one.capacity for one in bench.made if one.capacity is not None]
        last = made[-1]
        self._keep_calls("", ObservedCapacity(
            *found, tuple(one.iops for one in made), last.scheduler, last.iops_min, last.iops_max,
            now_s,
        ))
        return [events.SaveRun(), *self._next(now_s)]

    def _call(self) -> events.Action:
        """One call at a time: a run that is stopped has one under way at most."""
        setup = self._setup
        self._bench.calling = True
        return self._load(events.LoadRequest(
            setup.osd_id, setup.load_point, 1, 0.0, self.spec.latency_limit_ms,
            recipe=CapacityRecipe(bool(setup.rotational), self.spec.forced),
        ))

    def _load_ended(
        self, token: str, samples: Optional[events.LoadSamples], failed: str, now_s: float
    ) -> Actions:
        bench = self._bench
        if self._now.phase is not Stage.MEASURING or token != self._now.token:
            return []
        bench.calling = False
        if samples is None or samples.capacity is None:
            return self._halt(failed or "the bench gave nothing", now_s)
        bench.made += (samples,)
        if len(bench.made) < self._setup.samples_per_period:
            return [self._call()]
        return self._look(Stage.CLOSING)

    def _keep_calls(self, note: str, capacity: Optional[ObservedCapacity] = None) -> None:
        """What the calls gave and cost; a call that goes on is counted in full."""
        bench, setup = self._bench, self._setup
        samples_ns = tuple(ns for one in bench.made for ns in one.samples_ns)
        written = sum(one.bytes_written for one in bench.made)
        mine = [drive for drive in bench.seen if drive.domain_id == self.spec.domain_id]
        modes = {drive.mode for drive in mine}
        views = {drive.state.kernel_view for drive in mine}
        found = Observed(
            setup.load_point, setup.osd_id, setup.role, of_samples(samples_ns),
            modes.pop() if len(modes) == 1 else None,
            views.pop() if len(views) == 1 else KernelView.UNKNOWN,
            started_at_s=self._now.started_at_s, seconds=sum(one.seconds for one in bench.made),
            bytes_written=written + (CAPACITY_CALL_BYTES if bench.calling else 0), note=note,
            samples_ns=samples_ns, capacity=capacity,
        )
        self.state = replace(self.state, observed=(*self.state.observed, found))
        self._bench = _Bench()

    def _stop_measuring(self, reason: str, now_s: float) -> Actions:
        if self._now.phase is not Stage.IDLE:
            self._keep_calls(reason)
        return []
