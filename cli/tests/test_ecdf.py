"""A plotted distribution starts at 0, ends at 100%, never goes back, and stays in its frame."""

from __future__ import annotations

import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from module_answers import record
from wcache.core.figures import geometry

CHAR_PX = 7.5  # of a label, at most
SAMPLES = st.lists(st.integers(1, 60_000_000_000), min_size=1, max_size=900)


def with_samples(back, through):
    made = record()
    pair = made.pairs[0]
    pair = replace(
        pair,
        write_back=replace(pair.write_back, samples_ns=tuple(back)),
        write_through=replace(pair.write_through, samples_ns=tuple(through)),
    )
    return replace(made, pairs=(pair,))


@given(SAMPLES, SAMPLES)
def test_a_curve_is_a_distribution_within_the_frame(back, through):
    plot = geometry.plot(with_samples(back, through))
    for curve in plot.curves:
        xs = [float(x) for x in re.findall(r"H([\d.]+)", curve.path)]
        ys = [float(y) for y in re.findall(r"V([\d.]+)", curve.path)]
        assert xs == sorted(xs)
        assert ys == sorted(ys, reverse=True)
        assert plot.left <= xs[0]
        assert xs[-1] == plot.right
        assert ys[-1] == plot.top
        assert ys[0] <= plot.bottom
        assert len(ys) <= geometry.STEPS_MAX + 1
        assert plot.left <= curve.median_x <= plot.right


@given(SAMPLES, SAMPLES)
def test_ticks_lie_on_their_axis_and_are_few(back, through):
    plot = geometry.plot(with_samples(back, through))
    places = [x for x, _ in plot.x_ticks]
    assert 1 <= len(places) <= 12
    assert places == sorted(places)
    assert all(plot.left <= x <= plot.right for x in places)


@given(SAMPLES, SAMPLES)
def test_labels_of_ticks_are_whole_and_apart(back, through):
    plot = geometry.plot(with_samples(back, through))
    labels = [(x - CHAR_PX * len(text) / 2, x + CHAR_PX * len(text) / 2)
              for x, text in plot.x_ticks]
    assert labels[0][0] >= 0
    assert labels[-1][1] <= plot.width
    assert all(left[1] < right[0] for left, right in zip(labels, labels[1:]))


def test_a_record_without_latencies_has_no_curve():
    assert geometry.plot(with_samples((), ())).curves == ()


def test_a_mode_without_latencies_leaves_the_other_one_drawn():
    (curve,) = geometry.plot(with_samples((1000, 2000), ())).curves
    assert (curve.mode, curve.count) == ("write back", 2)
