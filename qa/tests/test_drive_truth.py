"""The truth of a simulated drive is what the statistic of each load point is after."""

import math
from dataclasses import replace
from statistics import NormalDist, fmean, median

import pytest
from bench_decision.truth import PERIODS, truth
from wcache.core.loads import SAMPLES
from wcache.core.model import CacheMode, LoadPoint, Role, Verdict
from wcache_sim.drive_schema import (
    CarryoverSpec,
    DriveModelSpec,
    LatencySpec,
    NoiseSpec,
    OpLatency,
    OsdSpec,
)
from wcache_sim.osd import SimulatedOsd
from wcache_sim.physics import SimulatedDrive

BACK, THROUGH = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH
DEPTH1, TIMER, TRAFFIC = (
    LoadPoint.OSD_BENCH_DEPTH1, LoadPoint.FDATASYNC_TIMER, LoadPoint.OSD_TRAFFIC,
)
BARE = OsdSpec(overhead_us=0.0)


def drive(dirty=None, clean=None, noise=None, **changes):
    """A disk of 4 ms either way, or as the arguments say."""
    return DriveModelSpec(
        name="d",
        model="D",
        rotational=True,
        latency=LatencySpec(
            read=OpLatency(4000),
            write=OpLatency(100, 0.2),
            fua_write=OpLatency(3900, 0.2),
            dirty_flush=dirty or OpLatency(3900, 0.2),
            clean_flush=clean or OpLatency(100, 0.2),
        ),
        noise=noise or NoiseSpec(),
        **changes,
    )


def osd_on(spec, seed=1, osd=BARE):
    return SimulatedOsd({Role.BLOCK: SimulatedDrive(spec, seed)}, osd, seed)


def test_the_median_of_a_commit_without_stalls_is_the_sum_of_its_commands_medians():
    spec = drive(dirty=OpLatency(11_900, 0.9), noise=NoiseSpec(autocorrelation=0.5))
    bytes_ms = 8192 / (200 * 2**20) * 1e3
    ratio = (12 + bytes_ms) / (4 + bytes_ms)
    assert truth(osd_on(spec), DEPTH1).ratio == pytest.approx(ratio, rel=1e-5)


def test_the_median_of_a_flush_that_mostly_stalls_is_that_of_the_mixture():
    stalling = OpLatency(1000, 0.0, 0.6, 50_000, 0.3)
    spec = drive(dirty=stalling, clean=OpLatency(1000, 0.0))
    # 40% do not stall, so the median is at a sixth of those that do
    expected = 1 + 50 * math.exp(0.3 * NormalDist().inv_cdf(1 / 6))
    assert truth(osd_on(spec), TIMER).ratio == pytest.approx(expected, rel=0.01)


STALLING = drive(
    dirty=OpLatency(3900, 0.2, 0.05, 400_000, 0.3),
    noise=NoiseSpec(between_period_spread=0.05, autocorrelation=0.3),
    carryover=CarryoverSpec(3.0, 0.1),
)


def sampled_ratio(load_point, periods, count=0):
    """As many periods in each mode as told, long after the toggle, with all the noise."""
    osd, logs = osd_on(STALLING, seed=77), {BACK: [], THROUGH: []}
    at_ns = 0
    for mode in (BACK, THROUGH):
        osd.set_mode(mode, at_ns)
        at_ns += 10**12
        for _ in range(periods):
            seconds = 0.0 if count else PERIODS[load_point].seconds
            found = osd.measure(load_point, at_ns, count, seconds)
            at_ns += found.elapsed_ns
            level = fmean if load_point is TRAFFIC else median
            logs[mode].append(math.log(level(found.latencies_ns)))
    return math.exp(fmean(logs[BACK]) - fmean(logs[THROUGH]))


@pytest.mark.slow
def test_a_disk_that_stalls_in_one_mode_differs_in_the_mean_and_not_in_the_median():
    osd = osd_on(STALLING)
    single, traffic = truth(osd, DEPTH1), truth(osd, TRAFFIC, ln_ratio_error=0.01)
    assert (single.verdict, traffic.verdict) == (Verdict.NO_DIFFERENCE, Verdict.B)
    assert single.ratio == pytest.approx(sampled_ratio(DEPTH1, 60, 200), rel=0.02)
    assert traffic.ratio == pytest.approx(sampled_ratio(TRAFFIC, 200), rel=0.15)
    assert traffic.ratio > 2


@pytest.mark.slow
def test_what_averages_out_over_pairs_does_not_change_the_truth():
    bare = replace(
        STALLING, noise=NoiseSpec(autocorrelation=0.3), carryover=CarryoverSpec()
    )
    drifting = replace(
        STALLING, noise=replace(STALLING.noise, drift_per_hour=5.0, between_period_spread=0.3)
    )
    for point in SAMPLES:
        found = [truth(osd_on(spec), point, ln_ratio_error=0.1) for spec in (bare, drifting)]
        assert found[0] == found[1]


def test_each_drive_of_a_drive_model_has_a_truth_of_its_own():
    spread = drive(dirty=OpLatency(9000), noise=NoiseSpec(between_drive_spread=0.1))
    ratios = [truth(osd_on(spread, seed), DEPTH1).ratio for seed in range(4)]
    assert len(set(ratios)) == 4
    assert all(1.5 < ratio < 3.5 for ratio in ratios)
    alike = {truth(osd_on(STALLING, seed), TIMER).ratio for seed in range(4)}
    assert len(alike) == 1
