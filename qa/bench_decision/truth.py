"""What is true of a simulated drive: the ratio that each load point's statistic is after.

Which ratio that is depends on how a load point is measured (`wcache.analysis.pairs`):

- `osd_bench_depth1` and `fdatasync_timer` compare medians, so their truth is the ratio of
  the medians of a whole commit, or flush.  The commands of a commit share its noise, so
  that without stalls its median is the sum of their medians, exactly; the median of a sum
  with stalls in it is not, and is simulated.
- `osd_traffic` compares logs of means, since an OSD's counters keep sums only: its truth
  is exp(E[ln mean in write back] - E[ln mean in write through]), the mean being that of
  one period, as each pair gives it.  Not ln E: a stall that comes once in many periods
  moves the mean of all time, and is not in the mean of a typical period.
- `osd_bench_batch` and `osd_bench_4m` compare the median of a period's few bench calls,
  each of them a mean over its writes: their truth is exp of the difference of the
  expected logs of that, for periods of `PERIODS`.

So a drive that stalls in one mode only can show no difference in the median of single
commits and a large one under traffic; both are right, and each is the truth of its load.

What averages out over pairs in random order is left out: the random effects of periods,
drift, what a toggle leaves behind.  Deterministic: fixed seeds, virtual time.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from statistics import fmean, median, stdev
from typing import Dict, List, Mapping, Optional, Tuple

from wcache.core.loads import MATERIAL_RATIO
from wcache.core.model import CacheMode, LoadPoint, Role, Verdict
from wcache_sim.drive_schema import DriveModelSpec
from wcache_sim.osd import Measured, SimulatedOsd
from wcache_sim.osd_spec import OsdSpec
from wcache_sim.physics import SimulatedDrive

# Standard error of the log ratio at which a simulated truth is good enough: in itself, or
# as a part of the log ratio, since a large one is far from every border.
LN_RATIO_ERROR = 0.006
RELATIVE_ERROR = 0.005
PERIODS_MIN = 6
MEASURED_MAX = 300_000  # commits, flushes or bench calls of one mode; then it is what it is


@dataclass(frozen=True)
class PeriodShape:
    """What one period of a load point holds: `count` samples, or `seconds` of them."""

    count: int = 0
    seconds: float = 0.0


# Where medians of single commits are after the median itself, a long period has it.
PERIODS: Mapping[LoadPoint, PeriodShape] = {
    LoadPoint.OSD_TRAFFIC: PeriodShape(seconds=1.0),
    LoadPoint.OSD_BENCH_DEPTH1: PeriodShape(count=2000),
    LoadPoint.OSD_BENCH_BATCH: PeriodShape(count=3),
    LoadPoint.OSD_BENCH_4M: PeriodShape(count=3),
    LoadPoint.FDATASYNC_TIMER: PeriodShape(count=2000),
}
OF_MEDIANS = (LoadPoint.OSD_BENCH_DEPTH1, LoadPoint.FDATASYNC_TIMER)


@dataclass(frozen=True)
class LoadTruth:
    """What an ideal tool would find: write back over write through, and the verdict."""

    ratio: float
    verdict: Verdict


@dataclass(frozen=True)
class _Placed:
    """A drive as an OSD has it, as far as the truth goes."""

    spec: DriveModelSpec
    seed: int
    index: int
    mode: CacheMode

    def steady(self, spec: DriveModelSpec) -> SimulatedDrive:
        drive = SimulatedDrive(spec, self.seed, self.index)
        drive.set_cache(self.mode, 0)
        return drive


def truth(
    osd: SimulatedOsd, load_point: LoadPoint, role: Optional[Role] = None,
    ln_ratio_error: Optional[float] = None,
) -> LoadTruth:
    """The ratio and the verdict of a load point, see above; nothing of `osd` changes.

    `role` None toggles all drives together and times the block drive; else only the
    drive of that role, the others staying as they are now.  `ln_ratio_error` is the
    standard error of the log ratio to simulate for; None is good enough to score by.
    """
    names: Dict[int, _Placed] = {}
    for drive in osd.drives.values():
        own = drive.spec.noise.between_drive_spread > 0
        names[id(drive)] = _Placed(
            drive.spec, drive.seed if own else 0, drive.index if own else 0, drive.mode
        )
    order = list(names)
    roles = tuple((each, order.index(id(drive))) for each, drive in osd.drives.items())
    ratio = _ratio(tuple(names.values()), roles, osd.spec, load_point, role, ln_ratio_error)
    lying = any(
        drive.spec.cache.ignores_flushes and not drive.spec.cache.power_loss_protection
        for drive in osd.drives.values()
    )
    if ratio >= MATERIAL_RATIO:
        return LoadTruth(ratio, Verdict.B)
    if ratio > 1 / MATERIAL_RATIO:
        return LoadTruth(ratio, Verdict.NO_DIFFERENCE)
    # Flushes that do nothing make write back fast, and are no reason for it.
    return LoadTruth(ratio, Verdict.INSUFFICIENT if lying else Verdict.A)


@functools.lru_cache(maxsize=1024)
def _ratio(
    drives: Tuple[_Placed, ...], roles: Tuple[Tuple[Role, int], ...], osd_spec: OsdSpec,
    load_point: LoadPoint, role: Optional[Role], ln_ratio_error: Optional[float],
) -> float:
    """The same drives are asked for in every trial of a benchmark; they are simulated once."""

    def twin(specs: List[DriveModelSpec], mode: CacheMode) -> SimulatedOsd:
        made = [drive.steady(spec) for drive, spec in zip(drives, specs)]
        osd = SimulatedOsd({each: made[index] for each, index in roles}, osd_spec)
        osd.set_mode(mode, 0, role)
        return osd

    timed = role or Role.BLOCK
    if load_point in OF_MEDIANS and _has_exact_median(drives, osd_spec, load_point):
        quiet = [drive.spec.noiseless() for drive in drives]
        levels = {
            mode: _level(load_point, twin(quiet, mode).measure(load_point, 0, 1, role=timed))
            for mode in CacheMode
        }
        return math.exp(levels[CacheMode.WRITE_BACK] - levels[CacheMode.WRITE_THROUGH])
    # Single samples are taken apart from one another: correlation is nothing to a median.
    alone = load_point in OF_MEDIANS
    steady = [_steady(drive.spec, alone) for drive in drives]
    back, through = (
        twin(steady, mode) for mode in (CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH)
    )
    shape = PERIODS[load_point]
    found: List[float] = []
    at_ns = measured = 0
    while True:
        levels_of = []
        for osd in (back, through):
            # Both modes get the same noise, most of which then cancels.
            osd.renew_noise(len(found))
            period = osd.measure(load_point, at_ns, shape.count, shape.seconds, role=timed)
            levels_of.append(_level(load_point, period))
            measured += len(period.latencies_ns)
        at_ns += 3_600_000_000_000
        found.append(levels_of[0] - levels_of[1])
        wanted = ln_ratio_error or max(LN_RATIO_ERROR, RELATIVE_ERROR * abs(fmean(found)))
        enough = len(found) >= PERIODS_MIN and (
            stdev(found) <= wanted * math.sqrt(len(found))
        )
        if enough or measured >= 2 * MEASURED_MAX:
            return math.exp(fmean(found))


def _has_exact_median(
    drives: Tuple[_Placed, ...], osd_spec: OsdSpec, load_point: LoadPoint
) -> bool:
    """Whether a sample is one increasing function of one noise, so that its median is at
    the median of that; with several drives each has its own."""
    mixed = load_point is LoadPoint.FDATASYNC_TIMER and 0 < osd_spec.timer_dirty_share < 1
    stalls = any(op.stall_probability > 0 for drive in drives for op in drive.spec.latency.all)
    several = len(drives) > 1 and load_point is not LoadPoint.FDATASYNC_TIMER
    return not (mixed or stalls or several)


def _steady(spec: DriveModelSpec, alone: bool) -> DriveModelSpec:
    """The drive with the noise that is within periods, and no other."""
    quiet = spec.noiseless()
    correlated = 0.0 if alone else spec.noise.autocorrelation
    return replace(
        quiet, latency=spec.latency, noise=replace(quiet.noise, autocorrelation=correlated)
    )


def _level(load_point: LoadPoint, period: Measured) -> float:
    """The one log latency that stands for a period, as the analysis forms it."""
    if load_point is LoadPoint.OSD_TRAFFIC:
        return math.log(fmean(period.latencies_ns))
    return median(math.log(max(ns, 1)) for ns in period.latencies_ns)
