"""A run that benches one OSD for mClock's capacity, by the recipe of the OSD itself.

All drives under the OSD are looked at before and after the calls, so that a capacity is known
to belong to one setting of the caches.  A call is not called back: what is stopped meanwhile is
charged with it.  Calls that were made go under with the mgr, and are made again by the next one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import List, Optional, Tuple

from ... import events
from ...codec import one_line
from ...figures.latency_table import of_samples
from ...loads import CAPACITY_CALL_BYTES, CapacityCall, CapacityRecipe
from ...model import DriveReport, KernelView, LoadPoint
from ...protocol import DrivesOutcome, FailureOutcome, LookRequest
from ..observed import Observed, ObservedCapacity
from ..period import Stage
from ..run_state import RunSpec, RunStatus
from .osd_drives import setting_and_stack
from .run import ObservingRun


def benches_capacity(spec: RunSpec) -> bool:
    """Whether a run measures mClock's capacity of an OSD."""
    return spec.observes and any(
        setup.load_point is LoadPoint.OSD_BENCH_CAPACITY for setup in spec.experiments
    )


@dataclass
class _Bench:
    """The calls on one OSD."""

    phase: Stage = Stage.IDLE
    started_at_s: float = 0.0
    seen: Tuple[DriveReport, ...] = ()
    looked: int = 0  # domains of this look
    setting: str = ""  # before the calls
    stack: str = ""
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

    def _next(self, now_s: float) -> List[events.Action]:
        if self._all_over:
            return self._end(RunStatus.DONE, "", restored=True)
        self._bench = _Bench(started_at_s=now_s)
        return self._look_at_drives(Stage.LOOKING)

    def _look_at_drives(self, phase: Stage) -> List[events.Action]:
        self._bench.phase, self._bench.seen, self._bench.looked = phase, (), 0
        return [self._task(LookRequest(self.spec.domain_id))]

    def _task_answered(self, event: events.TaskAnswered, now_s: float) -> List[events.Action]:
        outcome, bench = event.outcome, self._bench
        if isinstance(outcome, FailureOutcome):
            return self._stop(outcome.message)
        looks = bench.phase in (Stage.LOOKING, Stage.CLOSING)
        if not looks or not isinstance(outcome, DrivesOutcome):
            return self._stop(f"the probe gave an unexpected answer to a {bench.phase.value} task")
        bench.seen += outcome.drives
        others = self.spec.looks_at[bench.looked:]
        if others:
            bench.looked += 1
            return [self._task(LookRequest(others[0]))]
        return self._looked_at_all(now_s)

    def _looked_at_all(self, now_s: float) -> List[events.Action]:
        bench, osd_id = self._bench, self._setup.osd_id
        setting, stack = setting_and_stack(osd_id, bench.seen)
        if not setting:
            return self._stop(f"the cache mode of osd.{osd_id} is not known")
        if bench.phase is Stage.LOOKING:
            bench.setting, bench.stack, bench.phase = setting, stack, Stage.MEASURING
            calls = self._setup.samples_per_period
            return [events.Note(f"osd.{osd_id}: {calls} bench calls"), self._call()]
        if (setting, stack) != (bench.setting, bench.stack):
            before, after = (bench.setting, setting) if setting != bench.setting else (
                bench.stack, stack)
            return self._stop(f"osd.{osd_id} went from {before} to {after} meanwhile")
        made = [one.capacity for one in bench.made if one.capacity is not None]
        self._keep_calls(self._capacity(made, now_s), "")
        return [events.SaveRun(), *self._next(now_s)]

    def _capacity(self, made: List[CapacityCall], now_s: float) -> ObservedCapacity:
        last = made[-1]
        return ObservedCapacity(
            self._bench.setting, self._bench.stack, tuple(one.iops for one in made),
            last.scheduler, last.iops_min, last.iops_max, now_s,
        )

    def _call(self) -> events.MeasureLoad:
        """One call at a time: a run that is stopped has one under way at most."""
        setup = self._setup
        self._bench.calling = True
        return events.MeasureLoad(self._new_token(), events.LoadRequest(
            setup.osd_id, setup.load_point, setup.role, 1, 0.0, self.spec.latency_limit_ms,
            recipe=CapacityRecipe(bool(setup.rotational), self.spec.forced),
        ))

    def _load_ended(
        self, token: str, samples: Optional[events.LoadSamples], failed: str, now_s: float
    ) -> List[events.Action]:
        bench = self._bench
        if bench.phase is not Stage.MEASURING or token != self._now.token:
            return []
        bench.calling = False
        if samples is None or samples.capacity is None:
            return self._stop(failed or "the bench gave nothing")
        bench.made += (samples,)
        if len(bench.made) < self._setup.samples_per_period:
            return [self._call()]
        return self._look_at_drives(Stage.CLOSING)

    def _keep_calls(self, capacity: Optional[ObservedCapacity], note: str) -> None:
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
            started_at_s=bench.started_at_s, seconds=sum(one.seconds for one in bench.made),
            bytes_written=written + (CAPACITY_CALL_BYTES if bench.calling else 0), note=note,
            samples_ns=samples_ns, capacity=capacity,
        )
        self.state = replace(self.state, observed=(*self.state.observed, found))
        self._bench = _Bench()

    def _stop(self, reason: str) -> List[events.Action]:
        reason = one_line(reason)
        if self._bench.phase is not Stage.IDLE:
            self._keep_calls(None, reason)
        return super()._stop(reason)
