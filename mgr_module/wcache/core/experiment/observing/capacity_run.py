"""A run that benches one OSD for mClock's capacity, by the recipe of the OSD itself.

All drives under the OSD are looked at before and after the calls, so that a capacity is known
to belong to one setting of the caches.  A call is not called back: what is stopped meanwhile is
charged with it.  Calls that were made go under with the mgr, and are made again by the next one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Optional, Tuple

from ... import events
from ...figures.latency_table import of_samples
from ...loads import CAPACITY_CALL_BYTES, CapacityRecipe
from ...model import DriveReport, KernelView, LoadPoint
from ...protocol import DrivesOutcome, FailureOutcome, LookRequest, Outcome
from ..observed import Observed, ObservedCapacity
from ..period import Stage
from ..run import Actions
from ..run_state import RunSpec
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

    def _answered(self, outcome: Outcome, now_s: float) -> Actions:
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
            setup.osd_id, setup.load_point, setup.role, 1, 0.0, self.spec.latency_limit_ms,
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
