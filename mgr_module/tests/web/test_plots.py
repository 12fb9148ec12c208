"""Whatever was measured, a plot stays in its frame and says in words what it shows."""

import math
import re
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from module_world import measured
from wcache.core.model import CacheMode
from wcache.engine.storing.archive import RECORD
from wcache.web import plots

LEVELS = st.lists(
    st.tuples(st.integers(1, 60_000_000_000), st.integers(1, 60_000_000_000)), max_size=90
)


@cache
def measured_record():
    return measured().inside.archive.get(RECORD, "c1.0.0")


def of(levels):
    """A record with a pair of periods for each pair of levels, in ns."""
    made = measured_record()
    pair = made.pairs[0]
    pairs = tuple(
        replace(
            pair, index=number,
            write_back=replace(pair.write_back, mode=CacheMode.WRITE_BACK, samples_ns=(back,),
                               started_at_s=1e9 + 2 * number),
            write_through=replace(pair.write_through, mode=CacheMode.WRITE_THROUGH,
                                  samples_ns=(through,), started_at_s=1e9 + 2 * number + 1),
        ) for number, (back, through) in enumerate(levels)
    )
    return replace(made, pairs=pairs)


def corners(path):
    """The points that a path goes to by absolute commands."""
    return [(float(x), float(y)) for x, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", path)]


@pytest.mark.slow
@given(LEVELS)
def test_a_plot_stays_in_its_frame(levels):
    made = of(levels)
    for plot in (plots.closing(made), plots.levels(made)):
        for path in (plot.band, *(line.path for line in plot.lines)):
            assert "nan" not in path
            assert "inf" not in path
            for x, y in corners(path):
                # a cross reaches four pixels around its point
                assert plot.left - 7 <= x <= plot.right + 7
                assert plot.top - 5 <= y <= plot.bottom + 5
        assert bool(plot.lines) == bool(plot.said)
        if plot.lines:
            assert 1 <= len(plot.y_ticks) <= 8


def test_levels_reach_both_ends_of_their_frame():
    plot = plots.levels(of([(20_000_000, 10_000_000)] * 3))
    at = [x for line in plot.lines for x, _ in corners(line.path.replace("L", " L"))]
    assert (min(at), max(at)) == (plot.left, plot.right)


@given(LEVELS)
def test_looks_begin_with_the_fourth_pair_and_hold_their_mean(levels):
    seen = plots.looks(of(levels))
    assert all(look.pairs >= 4 for look in seen)
    assert all(look.low <= look.ratio <= look.high for look in seen)


def test_the_interval_closes_in_where_pairs_agree():
    levels = [(20_000_000 + 10_000 * (n % 7), 10_000_000 + 10_000 * (n % 5)) for n in range(40)]
    seen = plots.looks(of(levels))
    widths = [math.log(look.high / look.low) for look in seen]
    assert widths[-1] < widths[0] / 3
    assert abs(seen[-1].ratio - 2.0) < 0.02
    assert "after 40 pairs the ratio is 2.00" in plots.closing(of(levels)).said
