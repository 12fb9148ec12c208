"""One whole experiment against a simulated drive, in virtual time.

The rules are the product's own: its coin, its record, its analysis after each pair,
its budget.  Only the drive is simulated, and its truth is known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Dict, List, Optional, Tuple

from wcache.analysis import pairs as pairing
from wcache.analysis.decision import Decision, Materiality, decide
from wcache.analysis.experiment import analyse
from wcache.analysis.flushes import ONE_COMMIT_EACH
from wcache.core.experiment.budget import Experiment
from wcache.core.experiment.design import Periods, Slot
from wcache.core.experiment.run_state import (
    FIRST_LOOK,
    IN_PROGRESS,
    RunSpec,
    RunState,
    RunStatus,
    pairs_of,
)
from wcache.core.experiment.settling import check_size, due_check, rechecks_of, settled
from wcache.core.hardware import FlushCounters, OptionValue
from wcache.core.loads import CHECK_SAMPLES, SAMPLES
from wcache.core.model import (
    Arm,
    DeviceCache,
    DriveModel,
    DriveState,
    KernelView,
    LoadPoint,
    Transport,
    Verdict,
)
from wcache.core.options.entries import OptionTrial, arms_of, mode_of_arm
from wcache.core.record import CounterDelta, ExperimentSetup, Period, Record
from wcache.core.verdict import sequential
from wcache.options import Options as ModuleOptions
from wcache_sim.drive_schema import DriveFile, DriveModelSpec
from wcache_sim.osd import SimulatedOsd
from wcache_sim.physics import SimulatedDrive, ToggleOutcome
from wcache_sim.placement import osd_roles, place

from .minimum import pair_variance
from .truth import LoadTruth, truth

# What a switch costs before anything can be measured: flush, toggle, read back.
TOGGLE_NS = 50_000_000
# An experiment may cost what the module's own may.
DEFAULTS = ModuleOptions()


@dataclass(frozen=True)
class Plan:
    """How a load point is measured: frozen before an experiment begins."""

    samples: int  # of a period; 0 where it is measured by time
    period_s: float
    settle_s: float = 0.4
    pairs_max: int = DEFAULTS.pairs_max
    seconds_max: float = DEFAULTS.experiment_seconds_max


PLANS: Dict[LoadPoint, Plan] = {
    LoadPoint.OSD_TRAFFIC: Plan(0, 1.0),
    **{
        point: Plan(count, 0.0)
        for point, count in SAMPLES.items() if point is not LoadPoint.OSD_TRAFFIC
    },
}


@dataclass(frozen=True)
class Outcome:
    """What an experiment said and what it cost; `refused` says why there was none."""

    verdict: Verdict
    truth: LoadTruth
    ratio: Optional[float] = None
    ratio_low: Optional[float] = None
    ratio_high: Optional[float] = None
    pair_sd: float = 0.0
    least_variance: float = 0.0  # v of a pair at best; 0 where no samples show it
    pairs: int = 0
    samples: int = 0
    seconds: float = 0.0
    pair_seconds: float = 0.0  # of one pair, toggles and settling included
    bytes_written: int = 0
    findings: Tuple[str, ...] = ()
    refused: str = ""


class Bench:
    """The OSD that a drive model is placed under, with all its drives, made from a seed."""

    def __init__(
        self, drives: DriveFile, spec: DriveModelSpec, seed: int,
        option: Optional[OptionTrial] = None,
    ) -> None:
        """`option`: its two values are compared, not the two cache modes."""
        placed = next(drive for drive in place(drives) if drive.spec is spec)
        if placed.uses:
            osd_id, self.role = placed.uses[0]
            roles = osd_roles(place(drives))[osd_id]
            self.osd = SimulatedOsd(
                {r: SimulatedDrive(d.spec, seed, d.index) for r, d in roles.items()},
                drives.osd, seed,
            )
        else:
            raise ValueError(f"drive {spec.name} serves no OSD")
        self.option = option
        self.spec = spec
        self.osd_spec = drives.osd
        self.drive = self.osd.drive(self.role)
        self.now_ns = 0

    def truth(self, load_point: LoadPoint) -> LoadTruth:
        """The ratio and the verdict of toggling this drive alone."""
        return truth(self.osd, load_point, self.role)

    def refusal(self) -> str:
        """Why the drive cannot be measured in both modes, as read-back shows, or ''."""
        if self.option is not None:
            return ""
        if not self.spec.cache.present:
            return "no volatile cache"
        for mode in (self.drive.mode.other, self.drive.mode):
            outcome = self.drive.set_cache(mode, self.now_ns)
            if outcome is ToggleOutcome.REFUSED:
                return "the drive refuses to toggle"
            if self.drive.mode is not mode:
                return "the toggle does not take"
        return ""

    def watch(self, arm: Arm, setup: ExperimentSetup, slot: Slot) -> Period:
        """Toggle, even where the drive is in that arm already, and look at once."""
        started_ns = self.now_ns
        if self.option is not None or self.drive.mode is mode_of_arm(arm):
            self._set(arm.other)
            self.now_ns += TOGGLE_NS
        self._set(arm)
        self.now_ns += TOGGLE_NS
        count, seconds = check_size(setup, slot)
        seen = self.osd.measure(
            setup.load_point, self.now_ns, count=count, seconds=seconds, role=self.role, spread=True
        )
        self.now_ns += seen.elapsed_ns
        return Period(
            arm, started_ns / 1e9, 0.0, (self.now_ns - started_ns) / 1e9,
            tuple(seen.latencies_ns), (), seen.bytes_written, at_ns=seen.at_ns,
        )

    def period(self, arm: Arm, load_point: LoadPoint, plan: Plan) -> Period:
        """Toggle, settle, measure; virtual time goes on by what that takes."""
        started_ns = self.now_ns
        self._set(arm)
        self.now_ns += TOGGLE_NS + int(plan.settle_s * 1e9)
        values = tuple(OptionValue(*one) for one in self.drive.options.items())
        state = (DriveState(
            DeviceCache(self.drive.mode.value), KernelView.WRITE_BACK, True, options=values
        ),)
        before = self._flush_counters()
        measured = self.osd.measure(
            load_point, self.now_ns, count=plan.samples, seconds=plan.period_s, role=self.role
        )
        self.now_ns += measured.elapsed_ns
        counters: Tuple[CounterDelta, ...] = ()
        samples_ns: Tuple[int, ...] = ()
        if load_point is LoadPoint.OSD_TRAFFIC:
            total_s = measured.sum_s
            counters = (CounterDelta("txc_commit_lat", total_s, len(measured.latencies_ns)),)
        else:
            samples_ns = tuple(measured.latencies_ns)
        return Period(
            arm, started_ns / 1e9, plan.settle_s, (self.now_ns - started_ns) / 1e9, samples_ns,
            counters, measured.bytes_written, state, state, (before, self._flush_counters()),
        )

    def _set(self, arm: Arm) -> None:
        if self.option is None:
            self.drive.set_cache(mode_of_arm(arm), self.now_ns)
            return
        now = {self.option.name: self.option.value(arm)}
        self.drive.set_options({**self.drive.options, **now})

    def _flush_counters(self) -> FlushCounters:
        counted = self.drive.counters
        return FlushCounters(
            self.now_ns, counted.writes + counted.fua_writes, counted.flushes,
            int(counted.flush_ns / 1e6),
        )

    def setup(self, load_point: LoadPoint, plan: Plan, seed: int) -> ExperimentSetup:
        """What the record says of the experiment."""
        spec = self.spec
        return ExperimentSetup(
            "00000000-0000-0000-0000-000000000000",
            "16.2.15" if self.osd_spec.flushes_per_commit == 2 else "20.2.4",
            "sim1", 0, "hdd" if spec.rotational else "ssd", self.role, load_point, spec.name,
            spec.name, DriveModel(spec.vendor, spec.model, spec.firmware), Transport.SIMULATED,
            plan.samples, plan.period_s, plan.settle_s, seed, plan.pairs_max, spec.rotational,
            simulated=True, watch_samples=CHECK_SAMPLES[load_point], option=self.option,
        )


def experiment(
    drives: DriveFile, spec: DriveModelSpec, load_point: LoadPoint, seed: int,
    plan: Optional[Plan] = None, options: Optional[Materiality] = None,
    option: Optional[OptionTrial] = None,
) -> Tuple[Outcome, Optional[Record]]:
    """Measure until decided or until the budget is spent; the record is what was measured."""
    plan = plan or PLANS[load_point]
    options = options or Materiality()
    bench = Bench(drives, spec, seed, option)
    true = bench.truth(load_point)
    refused = bench.refusal()
    if refused:
        return Outcome(Verdict.INSUFFICIENT, true, refused=refused), None
    setup = bench.setup(load_point, plan, seed)
    periods: Periods = {}
    slot: Optional[Slot] = due_check(setup, periods)
    while slot is not None:
        periods[slot] = bench.watch(slot.arm(seed), setup, slot)
        slot = due_check(setup, periods)
    if setup.watch_samples:
        plan = replace(plan, settle_s=settled(setup, periods).settle_s)
    run = RunState(_spec(setup, plan), RunStatus.RUNNING)
    looks = _Looks(setup, options, Experiment(run, 0, periods).record(IN_PROGRESS, 0.0))
    for index in range(plan.pairs_max):
        slot = due_check(setup, periods)
        while slot is not None:
            periods[slot] = bench.watch(slot.arm(seed), setup, slot)
            slot = due_check(setup, periods)
        for second in (False, True):
            place = Slot(index, second)
            periods[place] = bench.period(place.arm(seed), load_point, plan)
        if looks.enough(periods, index):
            break
        if Experiment(run, 0, periods).spent(same=looks.seem_same):
            break
    record = Experiment(run, 0, periods).record("decided", bench.now_ns / 1e9)
    result = analyse(record, options)
    # a suspicion that nothing more would settle falls with the experiment's end
    waited = bool(record.late_watches) and looks.last.verdict is Verdict.INSUFFICIENT
    verdict = arms_of(setup.option).meant(result["verdict"])
    if verdict is not looks.last.verdict and not waited and len(record.pairs) >= 4:
        raise AssertionError("the record says something else than the looks on the way")
    measured = [period for slot, period in periods.items() if not slot.checks]
    outcome = Outcome(
        verdict, true, result["ratio"], result["ratio_low"],
        result["ratio_high"], result["pair_sd"],
        _least_variance(spec, load_point, measured), result["pairs"],
        sum(_samples(p) for p in periods.values()), record.seconds,
        2 * fmean(p.seconds for p in measured), record.bytes_written,
        tuple(item["code"] for item in result["findings"]),
    )
    return outcome, record


def _samples(period: Period) -> int:
    """Latencies measured: one each, or summed by a counter."""
    return len(period.samples_ns) or sum(item.count for item in period.counters)


def _spec(setup: ExperimentSetup, plan: Plan) -> RunSpec:
    """The run that the experiment would be, for its budgets."""
    return RunSpec(
        "sim", "sim", setup.hostname, setup.domain_id, "", (setup,), DEFAULTS.latency_limit_ms,
        plan.seconds_max, DEFAULTS.experiment_bytes_max, True,
        client_wait_max_s=DEFAULTS.experiment_client_wait_max_s,
        same_share=DEFAULTS.no_difference_share,
    )


def _least_variance(
    spec: DriveModelSpec, load_point: LoadPoint, periods: List[Period]
) -> float:
    """v by the formula of `score.pair_variance`, sigma from the samples within periods.

    Only single commits follow one another as the drive model's AR(1) says; the calls of
    a batch hold many and are taken as independent.
    """
    sizes = [len(period.samples_ns) for period in periods]
    if min(sizes) < 2:
        return 0.0
    squares = 0.0
    for period in periods:
        logs = [math.log(max(ns, 1)) for ns in period.samples_ns]
        mean = sum(logs) / len(logs)
        squares += sum((value - mean) ** 2 for value in logs)
    sample_sd = math.sqrt(squares / (sum(sizes) - len(sizes)))
    phi = spec.noise.autocorrelation if load_point in ONE_COMMIT_EACH else 0.0
    # within a period AR(1) shows only a part of its variance
    k = min(sizes)
    mean_correlation = sum(
        2 * (k - lag) * phi**lag for lag in range(1, k)
    ) / (k * (k - 1))
    sample_sd /= math.sqrt(1 - mean_correlation)
    return pair_variance(spec.noise.between_period_spread, sample_sd, phi, k)


class _Looks:
    """The analysis after each pair, without going over the old pairs again."""

    def __init__(
        self, setup: ExperimentSetup, options: Materiality, record: Record
    ) -> None:
        self._setup = setup
        self._record = record  # made once: that goes over the watches to choose the settling
        self._options = options
        self._seen = pairing.Differences((), (), (), ())
        self.last = Decision(Verdict.INSUFFICIENT, "")
        self.seem_same = False

    def enough(self, periods: Dict[Slot, Period], index: int) -> bool:
        """Whether the rule says stop after pair `index`."""
        pairs = pairs_of(self._setup, periods)
        late = rechecks_of(periods)
        if len(late) != len(self._record.late_watches):
            self._record = replace(self._record, late_watches=late)
        counter = "txc_commit_lat" if pairs[-1].a.counters else ""
        new = pairing.differences(pairs[-2:], counter, late)
        old = self._seen
        self._seen = pairing.Differences(
            (*old.indexes, index), old.whole + new.whole[-1:], old.later + new.later[-1:],
            old.tail + new.tail[-1:], old.stays + new.stays, old.orders + new.orders[-1:],
        )
        measured = sequential.spread(self._seen.whole)
        if measured.n < FIRST_LOOK:
            return False
        self.seem_same = abs(measured.mean) < self._options.margin
        warnings: List[str] = []
        self.last = decide(
            self._record, pairs, self._seen, measured, self._options, warnings,
            self._setup.option is not None,
        )
        return self.last.verdict is not Verdict.INSUFFICIENT or self.last.hopeless
