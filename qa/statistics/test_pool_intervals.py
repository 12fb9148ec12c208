"""The intervals of pools miss no more often than they say, however unlike the errors are."""

import math
import random
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import product

import pytest
from test_repeated import measured
from wcache.analysis.decision import Materiality
from wcache.analysis.pooling import pool
from wcache.core.model import Verdict
from wcache.core.options.entries import CACHE_MODES
from wcache.core.verdict.pooling import Member, pool_of

PROCESSES = 2
PAIRS = 8
TRIALS = 400
BASE = replace(measured("r", 1, 1.0, pairs=PAIRS), verdict=Verdict.INSUFFICIENT)
RATIO_LOG = 0.0  # any other is a shift of all figures
# The error of the best measured drive, of the worst one, and how many are as bad as that.
ERRORS = {
    "equal": lambda k: [0.1] * k,
    "one good": lambda k: [0.005] + [0.15] * (k - 1),
    "one very good": lambda k: [0.005] + [0.3] * (k - 1),
    "one bad": lambda k: [0.01] * (k - 1) + [0.3],
    "graded": lambda k: [0.02 * 16 ** (i / (k - 1)) for i in range(k)],
}


def drive(name, log_ratio, error):
    sd = error * math.sqrt(PAIRS)
    term = replace(
        BASE.pool_term, log_ratio=log_ratio, pair_sd=sd, tail_log_ratio=log_ratio, tail_pair_sd=sd
    )
    return replace(BASE, record_id=name, drive_id=name, pool_term=term)


def misses(job):
    """How often the mean, the tails' mean, and the next drive lie outside; and modes named."""
    drives, tau, shape = job
    rng = random.Random(f"{job}")
    errors = ERRORS[shape](drives)
    mean = tail = coming = named = 0
    for _ in range(TRIALS):
        pooled = pool([
            drive(f"d{i}", rng.gauss(rng.gauss(RATIO_LOG, tau), error), error)
            for i, error in enumerate(errors)
        ], {}, Materiality())
        true, another = math.exp(RATIO_LOG), math.exp(rng.gauss(RATIO_LOG, tau))
        mean += not pooled["ratio_low"] <= true <= pooled["ratio_high"]
        tail += not pooled["tail_ratio_low"] <= true <= pooled["tail_ratio_high"]
        coming += not pooled["next_low"] <= another <= pooled["next_high"]
        named += pooled["verdict"] in ("write through", "write back")
    return mean, tail, coming, named


@pytest.mark.parametrize("drives", [3, 4, 6, 10])
def test_a_pool_misses_once_in_a_hundred_and_the_next_drive_5_times(drives):
    jobs = [(drives, *rest) for rest in product([0.0, 0.05, 0.15, 0.3], ERRORS)]
    with ProcessPoolExecutor(PROCESSES) as workers:
        found = dict(zip(jobs, workers.map(misses, jobs)))
    for tau in (0.0, 0.05, 0.15, 0.3):
        cells = [counts for job, counts in found.items() if job[1] == tau]
        mean, tail, coming, named = (sum(counts) for counts in zip(*cells))
        trials = TRIALS * len(cells)
        # three standard errors of the simulation beyond 1% and 5%
        assert max(mean, tail) <= 0.01 * trials + 3 * math.sqrt(0.01 * trials)
        assert coming <= 0.05 * trials + 3 * math.sqrt(0.05 * trials)
        assert named <= 12 * trials / 2000
    # and none of the shapes by itself
    assert all(max(mean, tail) <= 0.03 * TRIALS for mean, tail, _, _ in found.values())


def test_a_sample_looked_at_after_each_drive_errs_little_more_often():
    source, log_ratio, missed, named, trials = random.Random(3), math.log(1.1), 0, 0, 2000
    for _ in range(trials):
        drives = [
            Member(f"d{i}", source.gauss(source.gauss(log_ratio, 0.15), 0.05), 0.05**2,
                   Verdict.INSUFFICIENT)
            for i in range(6)
        ]
        looks = [pool_of(drives[:count], [], 0.0, CACHE_MODES) for count in (3, 4, 5, 6)]
        missed += any(not look.far.low <= log_ratio <= look.far.high for look in looks)
        named += any(look.verdict.arm is not None for look in looks)
    assert missed <= 0.02 * trials
    assert named <= 0.01 * trials
