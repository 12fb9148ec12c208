"""What age bins predict of smaller caches, against the same trace in them."""

import pytest
from bench_memory.__main__ import rows_of

# Counts swing, and ages are taken at one moment.
SWING = 1.15
MISSES_MIN = 5.0


@pytest.mark.parametrize("load", ["uniform", "zipf", "two sets", "scan"])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_misses_with_a_smaller_cache_are_within_what_its_bins_predict(load, seed):
    rows = rows_of(load, seed, objects=10_000, seconds=240.0)
    assert len(rows) >= 4
    for row in rows:
        assert row.low_per_s / SWING - MISSES_MIN <= row.measured_per_s, row
        assert row.measured_per_s <= SWING * row.high_per_s + MISSES_MIN, row
