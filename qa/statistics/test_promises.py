"""What the verdicts promise, by simulation with fixed seeds: thousands of experiments.

`make bench-decision` prints the same figures over every drive and load; here they hold.
"""

import math
import random
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from statistics import variance

import pytest
from bench_decision import synthetic
from bench_decision.cells import Cell
from bench_decision.figures import COSTED, figures
from bench_decision.loop import PLANS, Bench, experiment
from bench_decision.score import SAME_RATIO, Score, count
from bench_decision.truth import truth
from wcache.analysis import summary
from wcache.analysis.decision import Materiality
from wcache.analysis.experiment import analyse
from wcache.analysis.pairs import differences
from wcache.core.experiment.design import Slot
from wcache.core.experiment.run_state import FIRST_LOOK, pairs_of
from wcache.core.loads import SAMPLES
from wcache.core.model import LoadPoint
from wcache.core.verdict import sequential
from wcache_cli.compare import longrun
from wcache_sim.drive_schema import load_drive_file

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
    ("hdd", "media-cache-hdd"), ("hdd", "hgst-7k6000"), ("demo", "disk"), ("demo", "flash"),
    ("hybrid", "hybrid-db"), ("lab", "lab-off-wins"), ("lab", "lab-on-wins"),
]
OTHER_LOADS = [point for point in SAMPLES if point is not DEPTH1]


def _experiments(job):
    (file, name), load_point, start, trials = job
    drives = load_drive_file(str(MODELS / f"{file}.toml"))
    spec = drives.drive(name)
    outcomes = tuple(
        experiment(drives, spec, load_point, start + i)[0] for i in range(trials)
    )
    return Cell(name, load_point, outcomes, "")


def run(drives, trials, start, loads=(DEPTH1,)):
    """A cell for each drive and load."""
    with ProcessPoolExecutor(PROCESSES) as pool:
        return list(pool.map(
            _experiments, [(drive, load, start, trials) for load in loads for drive in drives]
        ))


@pytest.mark.parametrize(
    ("loads", "trials"),
    [
        pytest.param((DEPTH1,), 130, id="depth 1"),
        pytest.param((DEPTH1,), 250, id="depth 1, more", marks=pytest.mark.long),
        pytest.param(OTHER_LOADS, 32, id="other loads", marks=pytest.mark.long),
    ],
)
def test_at_most_12_of_2000_experiments_see_a_difference_where_there_is_none(loads, trials):
    cells = run(NO_DIFFERENCE, trials, 10_000, loads)
    outcomes = [item for cell in cells for item in cell.outcomes]
    assert len(outcomes) >= 1000
    assert all(cell.size <= SAME_RATIO for cell in cells)
    wrong = [item for item in outcomes if item.verdict.arm is not None]
    assert len(wrong) * 2000 <= 12 * len(outcomes)


@pytest.mark.parametrize("trials", [30, pytest.param(60, marks=pytest.mark.long)])
def test_clear_cases_are_right_in_99_of_100_within_15_seconds_and_256_samples(trials):
    cells = run(CLEAR, trials, 20_000)
    assert [cell.drive for cell in cells if not cell.is_clear] == []
    outcomes = [item for cell in cells for item in cell.outcomes]
    good = [item for item in outcomes if item.seconds <= 15 and item.samples <= 256]
    assert count(good, Score.RIGHT) >= 0.99 * len(outcomes)


@pytest.mark.parametrize(
    ("ratio", "right"), [(1.25, "write through"), (1 / 1.25, "write back")]
)
def test_a_ratio_of_1_25_is_found_in_95_of_100_where_the_pair_sd_is_a_fifth(ratio, right):
    found, trials, squares = 0, 200, 0.0
    for seed in range(trials):
        draw = synthetic.lognormal(
            random.Random(seed), ratio=ratio, sample_sd=0.3, period_sd=0.086
        )
        setup = replace(synthetic.SETUP, seed=seed, samples_per_period=10)
        record = synthetic.record(draw, 80, setup=setup)
        squares += variance(differences(record.pairs, "").whole) / trials
        found += _by_looks(record) == right
    assert math.sqrt(squares) == pytest.approx(0.2, abs=0.005)
    assert found >= 0.95 * trials


def test_a_quarter_is_found_on_simulated_drives_in_95_of_100_where_the_pair_sd_is_a_fifth():
    cells = run([("noisy", "quarter-off"), ("noisy", "quarter-on")], 100, 40_000)
    for cell in cells:
        assert 1.25 <= cell.size <= 1.35
        assert 0.17 <= cell.pair_sd <= 0.2
        assert cell.share(Score.RIGHT).share >= 0.95


@pytest.mark.long  # what it costs, and not whether it is right
def test_no_more_than_3_times_the_least_samples_and_4_times_the_least_seconds_are_used():
    files = {path.stem: load_drive_file(str(path)) for path in sorted(MODELS.glob("*.toml"))}
    drives = [(stem, spec.name) for stem, file in files.items() for spec in file.drives]
    found = {item.name: item for item in figures(run(drives, 6, 50_000, tuple(SAMPLES)))}
    samples = found[f"samples over the minimum W, {COSTED}"]
    seconds = found[f"seconds over those of the minimum W, {COSTED}"]
    assert (samples.limit, seconds.limit) == (3, 4)
    assert samples.held
    assert seconds.held
    assert samples.experiments >= 450  # cells of which at least 95% are right


def _by_looks(record):
    """The verdict of an experiment that stops where the rule says so."""
    margin = Materiality().margin
    whole = differences(record.pairs, "").whole
    for n in range(FIRST_LOOK, len(whole) + 1):
        seen = sequential.spread(whole[:n])
        decided = sequential.differs(sequential.interval(seen, 0.01), margin)
        if decided or sequential.same(sequential.interval(seen, 0.05), margin):
            result = analyse(replace(record, pairs=record.pairs[:n]), Materiality())
            if result["stop"]:
                return result["verdict"]
    return "insufficient data"


def _misses(job):
    (file, name), load_point, seeds = job
    drives = load_drive_file(str(MODELS / f"{file}.toml"))
    spec = drives.drive(name)
    plan = PLANS[load_point]
    counter = "txc_commit_lat" if load_point is LoadPoint.OSD_TRAFFIC else ""
    missed = 0
    for seed in seeds:
        bench = Bench(drives, spec, seed)
        true = math.log(truth(bench.osd, load_point, bench.role, 0.001).ratio)
        setup = bench.setup(load_point, plan, seed)
        periods = {}
        for index in range(40):
            for second in (False, True):
                slot = Slot(index, second)
                periods[slot] = bench.period(slot.arm(seed), load_point, plan)
        whole = differences(pairs_of(setup, periods), counter).whole
        for n in range(FIRST_LOOK, len(whole) + 1):
            found = sequential.interval(sequential.spread(whole[:n]), 0.05)
            if not found.low <= true <= found.high:
                missed += 1
                break
    return missed


@pytest.mark.parametrize(
    ("load_point", "trials"),
    [
        (DEPTH1, 100), (LoadPoint.OSD_TRAFFIC, 20),
        pytest.param(LoadPoint.OSD_TRAFFIC, 60, marks=pytest.mark.long),
    ],
)
def test_sequential_intervals_of_simulated_drives_miss_at_any_look_in_at_most_5_percent(
    load_point, trials,
):
    # correlated noise, drift and stalls; no two of these are normal or independent
    cells = [
        ("noisy", "heavy-stalls"), ("noisy", "drifting"), ("noisy", "correlated"),
        ("noisy", "half-correlated"), ("flash", "consumer-nvme"),
    ]
    with ProcessPoolExecutor(PROCESSES) as pool:
        missed = sum(pool.map(
            _misses, [(cell, load_point, range(30_000, 30_000 + trials)) for cell in cells]
        ))
    assert missed <= 0.05 * trials * len(cells)


@pytest.mark.parametrize(("pairs", "widest"), [(5, 2.2), (10, 1.9), (20, 1.65), (40, 1.5)])
def test_sequential_intervals_are_no_wider_than_told_against_one_planned_look(pairs, widest):
    rng = random.Random(pairs)
    for _ in range(50):
        values = [rng.gauss(0.3, 0.2) for _ in range(pairs)]
        found = sequential.interval(sequential.spread(values), 0.05)
        low, high = summary.fixed_interval(values, 0.05)
        assert (found.high - found.low) / (high - low) <= widest


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
            worth = longrun.effective_n([values], summary.median(values))
            sides.append(longrun.log_quantile(longrun.logs(values), 0.5, worth, 0.05))
        (one, one_below, one_above), (two, two_below, two_above) = sides
        down, up = math.hypot(one_below, two_above), math.hypot(one_above, two_below)
        covered += one - two - down <= 0 <= one - two + up
    assert 0.93 <= covered / trials <= 0.97
