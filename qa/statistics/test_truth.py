"""The truth that verdicts are scored by is what long runs give, and what experiments find."""

import math
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import fmean, median, stdev

import pytest
from bench_decision.loop import PLANS, Bench, experiment
from bench_decision.score import Score, score
from bench_decision.truth import truth
from wcache.core.model import CacheMode, LoadPoint, Verdict
from wcache_sim.drive_schema import load_drive_file

MODELS = Path(__file__).resolve().parents[1] / "drive_models"
DEPTH1, TRAFFIC, BATCH = (
    LoadPoint.OSD_BENCH_DEPTH1, LoadPoint.OSD_TRAFFIC, LoadPoint.OSD_BENCH_BATCH,
)
SAMPLES = 100_000
ONE_WAY = ("noisy", "stalls-one-way")
STEADY_NS = 3600 * 10**9  # whatever a toggle left behind is gone


def bench_of(file, name, seed):
    drives = load_drive_file(str(MODELS / f"{file}.toml"))
    return Bench(drives, drives.drive(name), seed)


def settled(file, name, mode):
    """A bench long after the toggle to `mode`; its seed is not one that the truth uses."""
    bench = bench_of(file, name, 987_654)
    bench.osd.set_mode(mode, 0, bench.role)
    return bench


def long_run_median(job):
    (file, name), load_point, mode = job
    bench = settled(file, name, mode)
    # many short periods, so that the random effects of periods average out
    found = [
        bench.osd.measure(load_point, STEADY_NS, 500, role=bench.role).latencies_ns
        for _ in range(SAMPLES // 500)
    ]
    return math.log(median(ns for period in found for ns in period))


def long_run_levels(job):
    """The log levels of periods as the load point's plan has them: SAMPLES writes in all."""
    (file, name), load_point, mode = job
    bench, plan = settled(file, name, mode), PLANS[load_point]
    batch = load_point is BATCH
    level, per_sample = (median, bench.osd_spec.batch_writes) if batch else (fmean, 1)
    levels, samples = [], 0
    while samples < SAMPLES * (10 if batch else 1):
        period = bench.osd.measure(
            load_point, STEADY_NS, plan.samples, plan.period_s, role=bench.role
        )
        levels.append(math.log(level(period.latencies_ns)))
        samples += per_sample * len(period.latencies_ns)
    return levels


def in_both_modes(work, drive, load_point):
    with ProcessPoolExecutor(2) as pool:
        return list(pool.map(work, [
            (drive, load_point, mode) for mode in (CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH)
        ]))


@pytest.mark.parametrize("load_point", [DEPTH1, LoadPoint.FDATASYNC_TIMER])
@pytest.mark.parametrize("drive", [ONE_WAY, ("hdd", "media-cache-hdd")])
def test_medians_of_a_hundred_thousand_samples_are_at_the_truth(drive, load_point):
    back, through = in_both_modes(long_run_median, drive, load_point)
    bench = bench_of(*drive, 1)
    expected = math.log(truth(bench.osd, load_point, bench.role, 0.002).ratio)
    assert back - through == pytest.approx(expected, abs=max(0.01, 0.01 * abs(expected)))


@pytest.mark.parametrize("load_point", [TRAFFIC, BATCH])
@pytest.mark.parametrize("drive", [ONE_WAY, ("hdd", "media-cache-hdd"), ("hdd", "plain-hdd")])
def test_mean_log_levels_of_a_hundred_thousand_writes_are_at_the_truth(drive, load_point):
    back, through = in_both_modes(long_run_levels, drive, load_point)
    bench = bench_of(*drive, 1)
    expected = math.log(bench.truth(load_point).ratio)
    error = math.hypot(*(stdev(levels) / math.sqrt(len(levels)) for levels in (back, through)))
    assert fmean(back) - fmean(through) == pytest.approx(
        expected, abs=4 * math.hypot(error, max(0.006, 0.005 * abs(expected)))
    )
    assert error < 0.05


def _outcomes(load_point):
    drives = load_drive_file(str(MODELS / "noisy.toml"))
    spec = drives.drive("stalls-one-way")
    return [experiment(drives, spec, load_point, 50_000 + i)[0] for i in range(40)]


def test_medians_and_means_that_disagree_are_both_found_and_both_right():
    with ProcessPoolExecutor(2) as pool:
        single, traffic = pool.map(_outcomes, [DEPTH1, TRAFFIC])
    assert math.isclose(single[0].truth.ratio, 1.0, abs_tol=0.05)
    assert traffic[0].truth.ratio > 1.5
    # conflicting is what the stalls make it where the 90th percentile is proven worse by then
    assert not any(item.verdict.arm for item in single)
    assert sum(item.verdict is Verdict.NO_DIFFERENCE for item in single) >= 28
    found = [item.verdict is Verdict.B for item in traffic]
    assert sum(found) >= 38
    scores = [score(item.verdict, item.truth) for item in (*single, *traffic)]
    assert Score.WRONG not in scores
