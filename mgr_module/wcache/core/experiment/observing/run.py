"""A run that toggles nothing: it holds no lease, and ends with a table for each load.

Before and after each load the drives are looked at: what they were set to is told with the
table, and a mode that changed meanwhile makes it useless.  What was observed is stored before
the next load; a mgr that takes over goes on with the first load that is missing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import List, Optional, Tuple

from ... import events
from ...codec import one_line
from ...drive.safety import Safety, judge, not_flushing
from ...figures.latency_table import LatencyTable, of_samples
from ...loads import WRITE_BYTES
from ...model import CacheMode, KernelView, LoadPoint, mode_of
from ...protocol import (
    CountersRequest,
    FailureOutcome,
    MeasureRequest,
    SamplesOutcome,
    StateOutcome,
    TimerRequest,
)
from ..observed import BCACHES_MAX, SAMPLES_KEPT_MAX, Observed, of_histogram, rates
from ..pairs import Discarded
from ..period import Stage, samples_of
from ..run import RunMachine
from ..run_state import RunStatus
from .plan import BESIDE_CALLS, BESIDE_ROUNDS_MAX, TIMER_S, cost_of

NO_SAMPLE = "nothing was committed meanwhile"
NOT_FLUSHED = (
    "no flush of the OSD reaches the drive: the volume, or the kernel's view, drops them, so there "
    "are no times of the drive"
)
NOT_SENT = "the kernel sends no flush to a drive that is off, so these are not times of the drive"
CHANGED = "the cache mode changed meanwhile"
NOT_KEPT_UP = "the load beside it ended before the flushes were timed"


@dataclass
class _Look:
    """One load under way; lost with the mgr, and measured again then."""

    phase: Stage = Stage.IDLE
    before: Optional[StateOutcome] = None
    samples: Optional[events.LoadSamples] = None
    started_at_s: float = 0.0
    beside_token: str = ""  # of the calls under way beside it
    rounds: int = 0
    beside_bytes: int = 0
    kept_up: bool = True  # the load beside it lasted until the end
    note: str = ""


@dataclass
class ObservingRun(RunMachine):
    """The machine of one run that toggles nothing."""

    _look_at: _Look = field(default_factory=_Look)

    @property
    def experiment_index(self) -> int:
        """Index of the load under way."""
        return len(self.state.observed)

    @property
    def open_periods(self) -> Tuple[int, int]:
        """(loads observed, loads in all)."""
        return len(self.state.observed), len(self.spec.experiments)

    @property
    def bytes_spent(self) -> int:
        """Bytes written so far, those of interrupted loads included."""
        lost = sum(one.bytes_written for one in self.state.waste)
        return lost + sum(one.bytes_written for one in self.state.observed)

    def handle(self, event: events.Event, now_s: float) -> List[events.Action]:
        """Take one event; return what is to be done, in order."""
        if self.over:
            return []
        if isinstance(event, events.Begin):
            return self._begin(now_s)
        if isinstance(event, events.TaskAnswered) and event.task_id == self._now.token:
            return self._task_answered(event, now_s)
        if isinstance(event, events.LoadMeasured):
            return self._load_ended(event.token, event.samples, "", now_s)
        if isinstance(event, events.LoadFailed):
            return self._load_ended(event.token, None, event.message, now_s)
        if isinstance(event, events.AgentSilent):
            return self._stop(event.detail)
        if isinstance(event, events.Unmet):
            return self._unmet(event)
        if isinstance(event, events.Ill):
            return self._ill(event.why, now_s)
        if isinstance(event, events.Waits):
            return self._waits(event.reason)
        return self._halted(event) if isinstance(event, events.Halt) else []

    def _begin(self, now_s: float) -> List[events.Action]:
        if self.state.status is RunStatus.RUNNING and not self._all_over:
            # nobody knows how far the last mgr came with it
            at, lost = self.experiment_index, cost_of(self._setup)
            discarded = list(self.state.waste)
            discarded[at] = Discarded(
                discarded[at].periods + 1, discarded[at].seconds,
                discarded[at].bytes_written + lost.bytes_written,
            )
            self.state = replace(self.state, waste=tuple(discarded))
        self.state = replace(self.state, status=RunStatus.RUNNING, began_at_s=now_s, reason="")
        return [events.SaveRun(), *self._next(now_s)]

    def _next(self, now_s: float) -> List[events.Action]:
        if self._all_over:
            return self._end(RunStatus.DONE, "", restored=True)
        self._look_at = _Look(Stage.LOOKING, started_at_s=now_s)
        return [self._task(CountersRequest(self.spec.domain_id))]

    def _task_answered(self, event: events.TaskAnswered, now_s: float) -> List[events.Action]:
        outcome, look = event.outcome, self._look_at
        if isinstance(outcome, FailureOutcome):
            return self._keep(None, one_line(outcome.message), now_s)
        if look.phase is Stage.LOOKING and isinstance(outcome, StateOutcome):
            look.before = outcome
            return self._measure_load()
        if look.phase is Stage.MEASURING and isinstance(outcome, SamplesOutcome):
            return self._have(samples_of(outcome))
        if look.phase is Stage.CLOSING and isinstance(outcome, StateOutcome):
            return self._keep(outcome, look.note, now_s)
        return self._stop(f"the probe gave an unexpected answer to a {look.phase.value} task")

    # ---- one load

    def _measure_load(self) -> List[events.Action]:
        spec, setup = self.spec, self._setup
        self._look_at.phase = Stage.MEASURING
        if setup.load_point is LoadPoint.FDATASYNC_TIMER:
            # the task comes first: to give one ends what is measured elsewhere
            timer = self._task(TimerRequest(
                spec.domain_id, setup.osd_id, setup.role, setup.samples_per_period, TIMER_S,
                spec.latency_limit_ms,
            ))
            return [timer] if setup.beside is None else [timer, self._beside(setup.beside)]
        if spec.measured_by_probe:
            return [self._task(MeasureRequest(
                spec.domain_id, setup.osd_id, setup.load_point, setup.samples_per_period,
                setup.period_s,
            ))]
        return [events.MeasureLoad(self._new_token(), self._load(
            setup.load_point, setup.samples_per_period, setup.period_s
        ))]

    def _load(self, load_point: LoadPoint, count: int, seconds: float) -> events.LoadRequest:
        traffic = load_point is LoadPoint.OSD_TRAFFIC
        return events.LoadRequest(
            self._setup.osd_id, load_point, self._setup.role, count, seconds,
            self.spec.latency_limit_ms, spread=traffic, histogram=traffic,
        )

    def _beside(self, load_point: LoadPoint) -> events.MeasureLoad:
        """One more round of the load that is kept up beside the timer."""
        look = self._look_at
        look.rounds += 1
        look.beside_token = f"{self._now.token}.{look.rounds}"
        return events.MeasureLoad(look.beside_token, self._load(load_point, BESIDE_CALLS, 0.0))

    def _load_ended(
        self, token: str, samples: Optional[events.LoadSamples], failed: str, now_s: float
    ) -> List[events.Action]:
        look = self._look_at
        if look.phase is not Stage.MEASURING:
            return []
        if token == self._now.token:
            return self._keep(None, failed, now_s) if samples is None else self._have(samples)
        if token != look.beside_token:
            return []
        look.beside_token = ""
        beside = self._setup.beside
        if samples is None or beside is None:
            look.note = look.note or failed
        else:
            look.beside_bytes += samples.bytes_written
            if samples.aborted:
                look.note = samples.aborted
        if look.samples is not None:
            return self._close_load()
        if look.note or look.rounds >= BESIDE_ROUNDS_MAX or beside is None:
            if not look.note:
                look.kept_up, look.note = False, NOT_KEPT_UP
            return []
        return [self._beside(beside)]

    def _have(self, samples: events.LoadSamples) -> List[events.Action]:
        self._look_at.samples = samples
        # the last round ends by itself: a bench that was begun is not called back
        return [] if self._look_at.beside_token else self._close_load()

    def _close_load(self) -> List[events.Action]:
        self._look_at.phase = Stage.CLOSING
        return [self._task(CountersRequest(self.spec.domain_id))]

    def _keep(
        self, after: Optional[StateOutcome], note: str, now_s: float
    ) -> List[events.Action]:
        look, setup = self._look_at, self._setup
        samples = look.samples or events.LoadSamples(0.0)
        bytes_written = samples.bytes_written + look.beside_bytes
        if look.beside_token and setup.beside is not None:
            # it goes on: what it may still write is counted in full
            bytes_written += BESIDE_CALLS * WRITE_BYTES[setup.beside]
        found = Observed(
            setup.load_point, setup.osd_id, setup.role,
            of_samples(samples.samples_ns) if look.kept_up else LatencyTable(0),
            beside=setup.beside, started_at_s=look.started_at_s,
            seconds=samples.seconds, bytes_written=bytes_written, note=note or samples.aborted,
            unmet=self.state.unmet,
        )
        if 0 < len(samples.samples_ns) <= SAMPLES_KEPT_MAX and WRITE_BYTES[setup.load_point]:
            found = replace(found, samples_ns=samples.samples_ns)
        if samples.histogram is not None:
            found = replace(found, client_writes=of_histogram(samples.histogram))
        if look.before is not None:
            found = self._with_state(found, look.before, after or look.before)
        if not found.note and not found.table.n:
            found = replace(found, note=NO_SAMPLE)
        self.state = replace(self.state, observed=(*self.state.observed, found))
        if samples.aborted:
            return [events.SaveRun(), *self._stop(samples.aborted)]
        return [events.SaveRun(), *self._next(now_s)]

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

    def _halted(self, event: events.Halt) -> List[events.Action]:
        self.state = replace(self.state, by_will=event.by_will)
        return self._stop(event.reason)

    def _ill(self, why: str, now_s: float) -> List[events.Action]:
        """It holds nothing, and what it would tell of an OSD that is ill is of no use."""
        if not why:
            return []
        self.state = replace(self.state, unfit=True)
        return self._stop(f"stopped: {why}")

    def _stop(self, reason: str) -> List[events.Action]:
        reason = one_line(reason)
        if self.state.status is RunStatus.WAITING:
            return self._end(RunStatus.ABORTED, reason, restored=True)
        return [
            events.Note(f"stopping: {reason}", "warning"),
            *self._end(RunStatus.ABORTED, reason, restored=True),
        ]
