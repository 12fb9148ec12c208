"""What a long run of correlated samples is worth, and what it takes to find that out."""

import tracemalloc
from array import array

import numpy as np
import pytest
from wcache.analysis.decision import Materiality
from wcache.core.model import CacheMode
from wcache_cli.compare import longrun
from wcache_cli.compare.comparison import compare
from wcache_cli.compare.latency_file import LatencyFile


def correlated(seed, n, phi):
    rng, level, found = np.random.RandomState(seed), 0.0, np.empty(n)
    for i, step in enumerate(rng.normal(size=n)):
        level = phi * level + step
        found[i] = level
    return found


@pytest.mark.slow
def test_a_run_of_several_stretches_has_the_time_that_its_lags_say():
    values = correlated(1, 3 * longrun.STRETCH // 2, 0.8)
    x = (values > 0) - np.mean(values > 0)
    rho = [float(x[: len(x) - k] @ x[k:]) / float(x @ x) for k in range(200)]
    total, least = -1.0, np.inf
    for k in range(0, 200, 2):
        if rho[k] + rho[k + 1] <= 0:
            break
        least = min(least, rho[k] + rho[k + 1])
        total += 2 * least
    expected = total * (1 + 2 * total / len(x))
    assert longrun.autocorrelation_time(values, 0.0) == pytest.approx(expected, rel=1e-9)


def lognormal(n):
    rng = np.random.RandomState(n)
    return {
        mode: [LatencyFile(mode.value, array("d", rng.lognormal(5, 0.3, n).tobytes()))]
        for mode in CacheMode
    }


@pytest.mark.slow
def test_a_comparison_takes_little_more_memory_than_its_latencies():
    compare(lognormal(100), Materiality())  # what is imported is counted nowhere
    n = 240_000
    runs = lognormal(n)
    tracemalloc.start()
    compare(runs, Materiality())
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 50 * 2 * n  # bytes; as lists of floats it was 63, and 8 of each are given
