"""What the report draws stays in its frame; what it tells of values, of bcache, of what follows."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Dict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from module_answers import HOSTILE, everything, record
from test_report import Page, page_of
from wcache.core import codec
from wcache.core.experiment.observed import Observed
from wcache.core.figures import geometry
from wcache.core.figures.geometry import Gain, gain_plot
from wcache.core.figures.latency_table import of_samples
from wcache.core.hardware import BcacheState
from wcache.core.model import CacheMode, LoadPoint, Role
from wcache.core.options.entries import OptionTrial
from wcache.core.record import Period
from wcache.services.outlook import STATES
from wcache_cli.report_story import UNDER_WAY, next_words

GIB = 2**30
CHAR_PX = 7.5  # of a label, at most
SAMPLES = st.lists(st.integers(1, 60_000_000_000), min_size=1, max_size=900)


def with_samples(back, through):
    made = record()
    pair = made.pairs[0]
    pair = replace(
        pair,
        a=replace(pair.a, samples_ns=tuple(back)),
        b=replace(pair.b, samples_ns=tuple(through)),
    )
    return replace(made, pairs=(pair,))


@given(SAMPLES, SAMPLES)
def test_a_curve_is_a_distribution_within_the_frame(back, through):
    plot = geometry.distribution(with_samples(back, through))
    for curve in plot.lines:
        xs = [float(x) for x in re.findall(r"H([\d.]+)", curve.path)]
        ys = [float(y) for y in re.findall(r"V([\d.]+)", curve.path)]
        assert xs == sorted(xs)
        assert ys == sorted(ys, reverse=True)
        assert plot.left <= xs[0]
        assert xs[-1] == plot.right
        assert ys[-1] == plot.top
        assert ys[0] <= plot.bottom
        assert len(ys) <= geometry.STEPS_MAX + 1


@given(SAMPLES, SAMPLES)
def test_ticks_lie_on_their_axis_and_are_few_with_labels_whole_and_apart(back, through):
    plot = geometry.distribution(with_samples(back, through))
    places = [x for x, _ in plot.x_ticks]
    assert 1 <= len(places) <= 12
    assert places == sorted(places)
    assert all(plot.left <= x <= plot.right for x in places)
    labels = [(x - CHAR_PX * len(text) / 2, x + CHAR_PX * len(text) / 2)
              for x, text in plot.x_ticks]
    assert labels[0][0] >= 0
    assert labels[-1][1] <= plot.width
    assert all(left[1] < right[0] for left, right in zip(labels, labels[1:]))


def test_a_record_without_latencies_has_no_curve():
    assert geometry.distribution(with_samples((), ())).lines == ()


def test_a_mode_without_latencies_leaves_the_other_one_drawn():
    (curve,) = geometry.distribution(with_samples((1000, 2000), ())).lines
    assert (curve.name, curve.look) == ("write back, median 2 us, n 2", "back")


def test_traffic_is_drawn_by_the_means_of_its_periods():
    drawn = geometry.distribution(record(load_point=LoadPoint.OSD_TRAFFIC))
    assert [line.name.rpartition(", ")[2] for line in drawn.lines] == ["n 4", "n 4"]
    assert drawn.x_name == "share of periods' mean commit latencies up to a latency"


def on_bcache(record_id: str = "c9.0.0") -> Dict[str, Any]:
    """A campaign that compared an option of bcache, with what bcache was at in each period."""
    answers = everything()
    one = record(record_id)

    def period(of: Period, at_s: float) -> Period:
        state = BcacheState(
            "bcache0", False, "writeback", 10, int(at_s * GIB), 10 * GIB, 4096 * int(at_s), True,
            int(at_s * 800), at_s,
        )
        return replace(of, bcache=(state,))

    pairs = tuple(
        replace(pair, a=period(pair.a, 10.0 + 2 * pair.index),
                b=period(pair.b, 11.0 + 2 * pair.index))
        for pair in one.pairs
    )
    trial = OptionTrial("writeback_percent", "10", "20")
    one = replace(one, pairs=pairs, setup=replace(one.setup, option=trial))
    answers[f"campaign record {record_id}"] = codec.to_plain(one)
    answers["campaign show c9"] = {
        **answers["campaign show c1"], "campaign_id": "c9", "results": [],
        "compares": str(trial), "options": {"dirty": "target"},
        "option_results": [{
            "record_id": record_id, "hostname": "h1", "osd_id": 3, "dev_names": [HOSTILE],
            "load_point": "osd_bench_depth1", "verdict": "writeback_percent 20", "decided": True,
            "ratio": 1.5, "ratio_low": 1.4, "ratio_high": 1.6, "a_us": 3000.0, "b_us": 2000.0,
            "pairs": 4, "seconds": 17.6, "bytes_written": 0, "why": "", "ended": "decided",
            "warnings": ["dirty data crossed its target"],
        }],
    }
    answers["campaign ls"]["campaigns"].append({"campaign_id": "c9"})
    return answers


def test_an_option_of_bcache_is_shown_with_dirty_data_rate_and_backing_disk_over_time():
    text = page_of(on_bcache())
    assert Page(text).open == []
    assert HOSTILE not in text
    assert "Compared writeback_percent=10,20: 1 result in campaign c9, 1 of them decided." in text
    assert "3.00 ms -&gt; 2.00 ms (-33%, 99%: -38 to -29)" in text
    assert "dirty data crossed its target" in text
    assert "ceph wcache ab writeback_percent=10,20 --scope=cluster --dirty-data=target" in text
    assert text.count("<svg viewBox=\"0 0 640 300\"") == 2
    for words in (
        "dirty data, in percent of its target: 100% first, 170% last",
        "how busy the backing disk was: 80% first, 80% last", "40.0 KiB/s first, 68.0 KiB/s last",
        "osd.3 depth1, c9.0.0",
    ):
        assert words in text
    style = text.partition("<style>")[2].partition("</style>")[0]
    for look in re.findall(r'class="curve ([a-z]+)"', text):
        assert f".{look} {{" in style
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))


LATENCY_US = st.floats(1.0, 1e8)


@given(st.lists(st.tuples(LATENCY_US, LATENCY_US), min_size=1, max_size=50))
def test_gains_lie_within_their_width_in_the_order_of_their_latencies(ends):
    plot = gain_plot([Gain("d", "t", *pair, *sorted(pair)) for pair in ends], most=40)
    assert len(plot.rows) + plot.left_out == len(ends)
    assert len(plot.rows) == min(40, len(ends))
    for row, (before_us, after_us) in zip(plot.rows, ends):
        assert 0 <= row.low <= row.high <= 100
        assert {row.before, row.after} == {row.low, row.high}
        assert row.better == (row.after <= row.before)
        assert row.better or after_us > before_us
    assert all(0 <= at <= 100 for at, _ in plot.ticks)


def test_a_gain_of_which_nothing_is_known_has_its_words_alone():
    plot = gain_plot([Gain("a", "undecided"), Gain("b", "right", after=500.0)], most=9)
    assert [(row.before, row.after, row.told) for row in plot.rows] == [
        (None, None, "undecided"), (None, 50.0, "right")]
    assert gain_plot([Gain("a", "undecided")], most=9).rows == ()


def observed() -> Dict[str, Any]:
    """A campaign that toggled nothing: one load was seen, of the other it is said why not."""
    answers = everything()
    seen = Observed(
        LoadPoint.OSD_TRAFFIC, 3, Role.BLOCK, of_samples((4_000_000, 5_000_000, 9_000_000)),
        CacheMode.WRITE_BACK, client_writes=of_samples((700_000,)), writes_per_s=12.34,
    )
    missed = replace(
        seen, load_point=LoadPoint.FDATASYNC_TIMER, beside=LoadPoint.OSD_TRAFFIC,
        table=of_samples(()), client_writes=None, writes_per_s=None, note=f"why {HOSTILE}",
    )
    about = {"run_id": "c5.0", "hostname": "h1", "domain_id": "d1", "dev_names": ["sda"],
             "drive_model": "ACME"}
    answers["campaign show c5"] = {
        **answers["campaign show c1"], "campaign_id": "c5", "results": [], "observes": True,
        "observed": [{**codec.to_plain(one), **about} for one in (seen, missed)],
    }
    answers["campaign ls"]["campaigns"] = [{"campaign_id": "c5"}]
    answers["recommend"]["recommendations"] = []
    return answers


def test_what_was_observed_has_its_table():
    text = page_of(observed())
    assert HOSTILE not in text
    page = Page(text)
    assert page.open == []
    words = " ".join(page.words.split())
    assert "osd.3/block h1 sda traffic write back 3 6.00 ms" in words
    assert "12.3 osd.3/block h1 sda client writes write back 1 700 us" in words
    assert "osd.3/block h1 sda timer, beside traffic write back 0 - -" in words
    assert f"osd.3 timer: why {HOSTILE}" in words
    assert "Measured: 1 drive in 1 campaign, 2 results." in words


@pytest.mark.parametrize("line", [line for _, _, line in STATES if line])
def test_what_follows_is_told_in_words_in_each_state(line):
    assert next_words(line) != UNDER_WAY


def test_what_follows_is_told_in_words_where_nothing_or_something_is_under_way():
    assert next_words("") == "nothing is to be done"
    for line in ("ceph wcache rollout show p1", "ceph wcache campaign show c1"):
        assert next_words(line) == UNDER_WAY
    assert next_words("ceph wcache rollout resume p1").startswith("a rollout is paused")
    assert next_words("ceph wcache apply p1").startswith("a plan is made")
