"""Whatever was measured, a plot stays in its frame and says in words what it shows."""

import math
import re
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mgr_fakes import builders as make
from module_world import measured
from wcache.core.model import Arm, CacheMode, Role, Transport
from wcache.core.record import CrossedDrive
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
            a=replace(pair.a, arm=Arm.A, samples_ns=(back,), started_at_s=1e9 + 2 * number),
            b=replace(pair.b, arm=Arm.B, samples_ns=(through,), started_at_s=1e9 + 2 * number + 1),
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
    assert all(look.low <= look.times <= look.high for look in seen)


def test_the_interval_closes_in_where_pairs_agree():
    levels = [(20_000_000 + 10_000 * (n % 7), 10_000_000 + 10_000 * (n % 5)) for n in range(40)]
    seen = plots.looks(of(levels))
    widths = [math.log(look.high / look.low) for look in seen]
    assert widths[-1] < widths[0] / 3
    assert abs(seen[-1].times - 0.5) < 0.005
    said = plots.closing(of(levels)).said
    assert "after 40 pairs write back -> write through is -50% of latency" in said


def test_of_two_drives_a_look_is_after_each_replicate_of_two_pairs():
    levels = [(20_000_000, 10_000_000), (30_000_000, 10_000_000)] * 6
    made = of(levels)
    other = CrossedDrive("d1", "w1", make.MODEL, Transport.NVME, Role.DB, False)
    crossed = replace(made, setup=replace(made.setup, crossed=other))
    looks = plots.looks(crossed)
    assert [look.pairs for look in looks] == [8, 10, 12]
    # replicates agree, though the drive is otherwise in either mode of the other one
    assert math.log(looks[-1].high / looks[-1].low) < 0.02
    assert math.log(plots.looks(made)[-1].high / plots.looks(made)[-1].low) > 0.3
    assert "after 12 pairs" in plots.closing(crossed).said


def a_row(verdict, on_us, off_us, *, to_change=0, model="HD1", low=0.9, high=1.1):
    """A row of `recommend`; low and high are of its ratio, in parts of it."""
    modes = {mode.value for mode in CacheMode}
    ratio = on_us / off_us if on_us else 2.0
    load = {"load_point": "osd_bench_depth1", "verdict": verdict, "interval": "99% of 3 drives",
            "ratio": ratio, "ratio_low": ratio * low, "ratio_high": ratio * high}
    return {
        "device_class": "hdd", "drive_model": {"vendor": "", "model": model, "firmware": "1"},
        "simulated": False, "verdict": verdict, "mode": verdict if verdict in modes else None,
        "expected_on_us": on_us, "expected_off_us": off_us, "to_change": to_change,
        "loads": [load],
    }


def drawn(*rows, now="write back"):
    counted = [{"drive_model": "HD1 1", "device_cache": mode, "drives": drives}
               for mode, drives in ((now, 5), ("write through", 2), ("unknown", 9))]
    return plots.drive_models(rows, counted).rows


@pytest.mark.parametrize(
    ("verdict", "on_us", "off_us", "told"),
    [
        ("write through", 20_000.0, 4_000.0,
         "depth1, cache off: 20.00 ms -> 4.00 ms (-80%, 99%: -82 to -78)"),
        ("write back", 100.0, 400.0, "depth1, cache on: 400 us -> 100 us (-75%, 99%: -78 to -72)"),
    ],
)
def test_a_drive_model_is_drawn_now_and_in_the_better_mode_with_its_interval(
    verdict, on_us, off_us, told
):
    (row,) = drawn(a_row(verdict, on_us, off_us, to_change=3))
    assert (row.label, row.told, row.better) == ("hdd HD1 1", told, True)
    assert row.low < row.after < row.high < row.before
    (worse,) = drawn(a_row(verdict, off_us, on_us, to_change=3))  # it says so where it is slower
    assert not worse.better


def test_a_drive_model_that_stays_is_drawn_where_it_is():
    def both(verdict, **now):
        (row,) = drawn(a_row(verdict, 20_000.0, 4_000.0), **now)
        return row.told, row.before is not None, row.after is not None, row.low

    right = "right as it is: 4.00 ms with the cache off"
    assert both("write through") == (right, False, True, None)
    same, open_ = "no material difference", "insufficient data"
    assert both(same) == (f"{same}: 20.00 ms with the cache on", False, True, None)
    assert both(open_, now="write through") == (
        f"{open_}: 4.00 ms with the cache off", True, False, None)


def test_a_drive_model_whose_latencies_are_not_known_has_its_percentage_alone():
    known = a_row("write through", 20_000.0, 4_000.0, to_change=1)
    row = drawn(known, a_row("write through", None, None, to_change=1))[1]
    assert (row.told, row.before, row.after) == (
        "depth1, cache off: (-50%, 99%: -55 to -44)", None, None)
    assert drawn(a_row("insufficient data", None, None)) == ()


def test_of_many_drive_models_the_first_are_drawn_and_the_others_counted():
    rows = [a_row("write through", 20_000.0, 4_000.0, model=f"m{n}") for n in range(1000)]
    plot = plots.drive_models(rows, [])
    assert (len(plot.rows), plot.left_out) == (plots.MODELS_DRAWN, 1000 - plots.MODELS_DRAWN)
