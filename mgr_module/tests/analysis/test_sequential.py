"""The sequential rule: its boundaries are exact and its promises hold under simulation."""

import math

import numpy as np
import pytest
from bench_decision.boundaries import boundaries
from wcache.core.verdict import sequential


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.01, 0.05])
def test_the_table_is_what_the_exact_recursion_gives(alpha):
    exact = boundaries(alpha, sequential.HORIZON)
    assert np.allclose(exact, sequential.C_N[alpha], atol=6e-6, rtol=0)


@pytest.mark.parametrize(
    ("pairs", "known"),
    [(4, 9.84), (6, 8.18), (8, 6.36), (12, 5.00), (20, 4.19), (40, 3.70), (80, 3.44)],
)
def test_boundaries_agree_with_an_independent_simulation(pairs, known):
    # found by simulation of a million experiments, to about half a percent
    assert sequential.C_N[0.01][pairs - 4] == pytest.approx(known, rel=0.006)


def test_nothing_is_decided_before_the_first_look():
    early = sequential.spread([5.0, 5.0, 5.0])
    assert sequential.interval(early, sequential.DECIDE_ALPHA).low == -math.inf


def test_equal_readings_do_not_pass_for_certainty():
    equal = sequential.spread([math.log(1.1)] * 4)
    found = sequential.interval(equal, sequential.DECIDE_ALPHA)
    assert found.high - found.low > 0.01


def test_needed_pairs_would_decide_if_the_spread_stayed():
    seen = sequential.Spread(8, math.log(1.3), 0.2)
    needed = sequential.pairs_needed(seen, math.log(1.1), 80)
    assert needed is not None
    gap = math.log(1.3 / 1.1)
    assert sequential.half_width(needed, 0.2, 0.01) < gap
    assert sequential.half_width(needed - 1, 0.2, 0.01) >= gap
    assert sequential.pairs_needed(seen, math.log(1.1), needed - 1) is None
