"""What the verdicts promise, by simulation with fixed seeds: thousands of experiments.

`make bench-decision` prints the same figures over every drive and load; here they hold.
"""

import math
import random
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from bench_decision import synthetic
from bench_decision.loop import PLANS, Bench, experiment
from bench_decision.score import Score, count
from wcache.analysis import longrun, sequential, summary
from wcache.analysis.decision import Options
from wcache.analysis.experiment import analyse
from wcache.analysis.pairs import differences
from wcache.core.experiment import Slot, pairs_of
from wcache.core.model import LoadPoint
from wcache_probe.sim.drive_schema import load_drive_file

MODELS = Path(__file__).resolve().parents[1] / "drive_models"
DEPTH1 = LoadPoint.OSD_BENCH_DEPTH1
PROCESSES = 2

NO_DIFFERENCE = [
    ("noisy", "heavy-stalls"), ("noisy", "drifting"), ("noisy", "correlated"),
    ("noisy", "half-correlated"), ("noisy", "carryover"), ("noisy", "three-percent"),
    ("plp", "plp-nvme"), ("plp", "plp-sata"),
]
CLEAR = [
    ("flash", "sata-ssd"), ("flash", "consumer-nvme"), ("flash", "two-faced-nvme"),
    ("demo", "disk"), ("demo", "flash"), ("hybrid", "hybrid-db"),
]


def _experiments(job):
    (file, name), start, trials = job
    drives = load_drive_file(str(MODELS / f"{file}.toml"))
    return [experiment(drives, drives.drive(name), DEPTH1, start + i)[0] for i in range(trials)]


def run(cells, trials, start):
    with ProcessPoolExecutor(PROCESSES) as pool:
        found = pool.map(_experiments, [(cell, start, trials) for cell in cells])
        return [outcome for outcomes in found for outcome in outcomes]


def test_at_most_12_of_2000_experiments_see_a_difference_where_there_is_none():
    outcomes = run(NO_DIFFERENCE, 250, 10_000)
    assert len(outcomes) == 2000
    wrong = [item for item in outcomes if item.verdict.mode is not None]
    assert len(wrong) <= 12


def test_clear_cases_are_right_in_99_of_100_within_15_seconds_and_256_samples():
    outcomes = run(CLEAR, 100, 20_000)
    good = [item for item in outcomes if item.seconds <= 15 and item.samples <= 256]
    assert count(good, Score.RIGHT) >= 0.99 * len(outcomes)


def test_a_ratio_of_1_25_is_found_in_95_of_100_where_the_pair_sd_is_a_fifth():
    found, trials = 0, 300
    for seed in range(trials):
        draw = synthetic.lognormal(
            random.Random(seed), ratio=1.25, sample_sd=0.3, period_sd=0.07
        )
        setup = replace(synthetic.SETUP, seed=seed, samples_per_period=10)
        found += _by_looks(synthetic.record(draw, 80, setup=setup)) == "write through"
    assert found >= 0.95 * trials


def _by_looks(record):
    """The verdict of an experiment that stops where the rule says so."""
    margin = Options().margin
    whole = differences(record.pairs, "").whole
    for n in range(sequential.FIRST_LOOK, len(whole) + 1):
        seen = sequential.spread(whole[:n])
        decided = sequential.differs(sequential.interval(seen, 0.01), margin)
        if decided or sequential.same(sequential.interval(seen, 0.05), margin):
            result = analyse(replace(record, pairs=record.pairs[:n]), Options())
            if result["stop"]:
                return result["verdict"]
    return "insufficient data"


def _misses(job):
    (file, name), seeds = job
    drives = load_drive_file(str(MODELS / f"{file}.toml"))
    spec = drives.drive(name)
    plan = PLANS[DEPTH1]
    missed = 0
    for seed in seeds:
        bench = Bench(drives, spec, seed)
        truth = math.log(bench.truth(DEPTH1).ratio)
        setup = bench.setup(DEPTH1, plan, seed)
        periods = {}
        for index in range(40):
            for second in (False, True):
                slot = Slot(index, second)
                periods[slot] = bench.period(slot.mode(seed), DEPTH1, plan)
        whole = differences(pairs_of(setup, periods), "").whole
        for n in range(sequential.FIRST_LOOK, len(whole) + 1):
            found = sequential.interval(sequential.spread(whole[:n]), 0.05)
            if not found.low <= truth <= found.high:
                missed += 1
                break
    return missed


def test_sequential_intervals_of_simulated_drives_miss_at_any_look_in_at_most_5_percent():
    # correlated noise, drift and stalls; no two of these are normal or independent
    cells = [
        ("noisy", "heavy-stalls"), ("noisy", "drifting"), ("noisy", "correlated"),
        ("noisy", "half-correlated"), ("flash", "consumer-nvme"),
    ]
    with ProcessPoolExecutor(PROCESSES) as pool:
        missed = sum(pool.map(_misses, [(cell, range(30_000, 30_100)) for cell in cells]))
    assert missed <= 0.05 * 100 * len(cells)


@pytest.mark.parametrize("pairs", [5, 10, 20, 40])
def test_fixed_n_intervals_of_pairs_cover_93_to_97_percent(pairs):
    rng, trials = random.Random(pairs), 4000
    covered = 0
    for _ in range(trials):
        low, high = summary.fixed_interval([rng.gauss(0.3, 0.2) for _ in range(pairs)], 0.05)
        covered += low <= 0.3 <= high
    assert 0.93 <= covered / trials <= 0.97


@pytest.mark.parametrize(("phi", "n"), [(0.0, 100), (0.0, 500), (0.5, 200), (0.9, 1000)])
def test_intervals_of_unpaired_runs_cover_93_to_97_percent(phi, n):
    rng, trials = random.Random(int(100 * phi) + n), 1000
    covered = 0
    for _ in range(trials):
        sides = []
        for _ in range(2):
            z = rng.gauss(0, 1)
            values = []
            for _ in range(n):
                z = phi * z + math.sqrt(1 - phi * phi) * rng.gauss(0, 1)
                values.append(math.exp(0.4 * z))
            worth = longrun.effective_n([values], summary.median(values), True)
            sides.append(longrun.log_quantile(longrun.pooled([values]), 0.5, worth, 0.05))
        half = math.hypot(sides[0][1], sides[1][1])
        covered += abs(sides[0][0] - sides[1][0]) <= half
    assert 0.93 <= covered / trials <= 0.97
