"""Several experiments of one drive and load are weighed: the last one is not simply believed."""

import math
import random
from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from test_recommendations import BACK, BATCH, CONFLICTS, FEW, SAME, THROUGH, result
from wcache.core.model import Finding, FindingCode, Role, Severity, Transport
from wcache.core.options.entries import OptionTrial
from wcache.core.verdict.recommend import recommend
from wcache.core.verdict.repeated import standing
from wcache.core.verdict.result import ArmSummary, PoolTerm, turned_off
from wcache.core.verdict.sequential import half_width

MARGIN = math.log(1.1)


def measured(name, at_s, ratio, pairs=8, sd=0.05, **changes):
    """An experiment as its own pairs decide it; under four pairs it has no interval."""
    mean, unit = math.log(ratio), changes.pop("unit", 1)
    term = PoolTerm(mean, sd * math.sqrt(unit), Transport.SCSI, Role.BLOCK, "20", unit, True)
    far, near = (half_width(pairs // unit, sd, alpha) for alpha in (0.01, 0.05))
    verdict, low, high = FEW, None, None
    if math.isfinite(far):
        low, high = math.exp(mean - far), math.exp(mean + far)
        if abs(mean) - far > MARGIN:
            verdict = THROUGH if mean > 0 else BACK
        elif abs(mean) + near < MARGIN:
            verdict = SAME
    found = result(
        record_id=name, ended_at_s=float(at_s), ratio=ratio, ratio_low=low, ratio_high=high,
        pairs=pairs, verdict=verdict, pool_term=term,
    )
    return replace(found, **changes)


def one(*found):
    (item,) = standing(found)
    return item


def test_what_was_compared_on_a_drive_is_weighed_with_its_like_alone():
    trial = OptionTrial("nr_requests", "64", "256")
    modes = [measured("m1", 1, 3.6), measured("m2", 3, 3.7)]
    values = [measured("v1", 2, 0.3, option=trial), measured("v2", 4, 0.31, option=trial)]
    other = measured("o1", 5, 1.0, option=replace(trial, b="128"))
    assert {(item.option, item.verdict, item.record_ids) for item in standing(
        [*modes, *values, other]
    )} == {
        (None, THROUGH, ("m2", "m1")), (trial, BACK, ("v2", "v1")),
        (other.option, SAME, ("o1",)),
    }


STOPPED = "stopped by an admin"


@pytest.mark.parametrize(("verdict", "tail", "words"), [
    ("write through", "write through", "p90 too"),
    ("write through", "no material difference",
     "p90 by less than a tenth: the gain is in the middle"),
    ("write through", "insufficient data", "p90 undecided"), ("write through", None, ""),
    ("no material difference", "write through", ""),
])
def test_one_figure_has_one_percentage_one_interval_and_one_word_on_the_tail(verdict, tail, words):
    told = turned_off({
        "verdict": verdict, "tail": tail, "ratio": 1.25, "ratio_low": 1.2, "ratio_high": 1.3,
        "write_back": {"level_us": 50_000.0}, "write_through": {"level_us": 40_000.0},
    })
    figure, _, last = told.partition("; ")
    assert figure == "50.00 ms -> 40.00 ms (-20%, 99%: -23 to -17)"
    assert last == words


@pytest.mark.parametrize("pairs", [1, 3])
def test_a_stopped_campaign_does_not_erase_what_was_decided_and_is_shown_beside_it(pairs):
    decided = measured("c1.0.0", 1, 3.63)
    stopped = measured("c2.0.0", 2, 4.93, pairs=pairs, sd=1.0, ended=STOPPED)
    assert stopped.verdict is FEW
    item = one(decided, stopped)
    assert (item.verdict, item.ratio, item.record_ids) == (THROUGH, 3.63, ("c1.0.0",))
    (advice,) = recommend([decided, stopped])
    assert advice.verdict is THROUGH
    assert advice.record_ids == ("c1.0.0",)
    assert (
        "osd.0 depth1: a later experiment (c2.0.0) is not counted: insufficient data (-80%) "
        f"of {pairs} pair{'s' * (pairs > 1)}, {STOPPED}"
    ) in advice.warnings
    enough = measured("c2.0.0", 2, 4.93, pairs=4, sd=1.0, ended=STOPPED)
    item = one(decided, enough)
    assert (item.verdict, item.record_ids) == (THROUGH, ("c2.0.0", "c1.0.0"))


@pytest.mark.parametrize("kind", [SAME, THROUGH, BACK, CONFLICTS])
def test_whatever_was_decided_an_undecided_one_does_not_replace_it(kind):
    ratio = {SAME: 1.0, THROUGH: 2.0, BACK: 0.5, CONFLICTS: 1.5}[kind]
    sd = 0.01
    decided = measured("r1", 1, ratio, sd=sd)
    if kind is CONFLICTS:
        decided = replace(decided, verdict=CONFLICTS)
    assert decided.verdict is kind
    assert one(decided, measured("r2", 2, ratio * 1.3, pairs=5, sd=0.5)).verdict is kind


def test_two_that_decide_nothing_alone_decide_together():
    found = [measured(f"r{i}", i, 1.4, pairs=6, sd=0.1) for i in range(2)]
    assert {item.verdict for item in found} == {FEW}
    item = one(*found)
    assert item.verdict is THROUGH
    assert item.record_ids == ("r1", "r0")
    assert item.pairs == 12
    half = half_width(12, 0.1, 0.01)
    assert item.ratio_low == pytest.approx(1.4 * math.exp(-half), rel=0.05)
    assert "2 experiments of this drive weighed together" in item.why


def test_the_latencies_of_a_drive_have_the_ratio_of_all_its_experiments():
    def levels(on_us, off_us):
        return {"a": ArmSummary(9, level_us=on_us),
                "b": ArmSummary(9, level_us=off_us)}

    first = measured("r1", 1, 2.0, pairs=30, sd=0.1, tail=THROUGH, **levels(8000.0, 4000.0))
    second = measured("r2", 2, 1.9, pairs=10, sd=0.1, tail=SAME, **levels(3800.0, 2000.0))
    item = one(first, second)
    on_us, off_us = item.a.level_us, item.b.level_us
    assert on_us / off_us == pytest.approx(item.ratio)
    assert on_us == pytest.approx(math.exp((3 * math.log(8000.0) + math.log(3800.0)) / 4))
    assert item.tail is None
    assert one(first, replace(second, tail=THROUGH)).tail is THROUGH
    old = one(first, replace(second, a=ArmSummary(9)))
    assert old.a.level_us is None


def test_experiments_that_scatter_more_than_their_pairs_widen_the_interval():
    alike = one(*(measured(f"r{i}", i, 2.0, pairs=20, sd=0.1) for i in range(2)))
    apart = one(measured("r0", 0, 1.9, pairs=20, sd=0.1), measured("r1", 1, 2.1, pairs=20, sd=0.1))
    assert apart.verdict is alike.verdict is THROUGH
    assert apart.ratio_high / apart.ratio_low > 1.2 * alike.ratio_high / alike.ratio_low


def test_results_that_exclude_each_other_are_conflicting_until_two_in_a_row_agree():
    before, now = measured("r1", 1, 3.0), measured("r2", 2, 1.5)
    assert before.verdict is now.verdict is THROUGH
    item = one(before, now)
    assert item.verdict is CONFLICTS
    assert "r1 (-70% to -63%), r2 (-40% to -25%) prove different gains" in item.why
    (advice,) = recommend([before, now])
    assert (advice.verdict, advice.mode) == (CONFLICTS, None)
    again = measured("r3", 3, 1.55)
    assert one(before, now, again).verdict is THROUGH
    assert one(before, now, again).record_ids == ("r3", "r2")
    assert any("r1" in line for line in one(before, now, again).beside)
    assert one(measured("r1", 1, 3.0), measured("r2", 2, 0.3)).verdict is CONFLICTS
    # the older ratio found again settles nothing
    assert one(before, now, measured("r3", 3, 3.0)).verdict is CONFLICTS


def test_an_undecided_one_that_rules_out_what_was_decided_makes_it_conflicting():
    decided = measured("r1", 1, 1.3, pairs=8, sd=0.05)
    open_ = measured("r2", 2, 1.09, pairs=80, sd=0.1)
    assert (decided.verdict, open_.verdict) == (THROUGH, FEW)
    assert one(decided, open_).verdict is CONFLICTS


def test_what_was_flagged_or_measured_otherwise_is_not_weighed():
    decided = measured("r1", 1, 3.0)
    shaky = Finding(FindingCode.CARRYOVER, Severity.INFO, "h1 w0", "fades")
    flagged = measured("r2", 2, 1.0, verdict=FEW, findings=(shaky,))
    assert one(decided, flagged).record_ids == ("r1",)
    other = measured("r2", 2, 1.02)
    other = replace(other, pool_term=replace(other.pool_term, ceph_release="18"))
    assert other.verdict is FEW
    assert one(decided, other).record_ids == ("r1",)
    newer = measured("r3", 3, 2.0)
    newer = replace(newer, pool_term=replace(newer.pool_term, ceph_release="21"))
    assert one(decided, newer).record_ids == ("r3",)


def test_a_later_clean_result_answers_an_earlier_transient_and_no_flush_too_fast():
    shaky = Finding(FindingCode.CARRYOVER, Severity.INFO, "h1 w0", "fades")
    flagged = measured("r1", 1, 3.0, verdict=FEW, findings=(shaky,))
    assert recommend([flagged])[0].verdict is FEW
    assert recommend([flagged, measured("r2", 2, 3.0)])[0].verdict is THROUGH
    fast = Finding(FindingCode.FLUSH_TOO_FAST, Severity.WARNING, "h1 w0", "0.1 ms")
    flagged = measured("r1", 1, 0.3, verdict=FEW, findings=(fast,))
    (advice,) = recommend([flagged, measured("r2", 2, 0.3)])
    assert (advice.verdict, advice.mode) == (FEW, None)
    assert "WCACHE_FLUSH_TOO_FAST" in advice.why


def test_other_drives_and_loads_are_by_themselves_and_another_firmware_begins_anew():
    old = measured("r1", 1, 3.0)
    new = measured("r2", 2, 1.2, pairs=1, drive_model=replace(make.MODEL, firmware="2.0"))
    assert [(item.record_ids, item.verdict) for item in standing([old, new])] == [(("r2",), FEW)]
    found = [measured("r1", 1, 3.0), measured("r2", 2, 0.3, drive_id="w1"),
             measured("r3", 3, 0.3, load_point=BATCH), measured("r4", 4, 0.3, hostname="h2")]
    assert {item.record_ids for item in standing(found)} == {("r1",), ("r2",), ("r3",), ("r4",)}


def test_a_result_without_a_pool_term_is_not_weighed():
    old = replace(measured("r1", 1, 3.0), pool_term=None)
    assert one(old, measured("r2", 2, 2.0, pairs=1)).verdict is THROUGH


def test_replicates_of_a_factorial_have_the_interval_of_replicates():
    found = [measured(f"r{i}", i, 2.0, pairs=16, sd=0.1, unit=2) for i in range(2)]
    item = one(*found)
    assert item.ratio_high / item.ratio_low == pytest.approx(
        math.exp(2 * half_width(16, 0.1, 0.01)), rel=0.05)


def test_weighing_knows_no_side():
    """Swapped modes swap the verdict, whatever there is."""
    swapped = {THROUGH: BACK, BACK: THROUGH, SAME: SAME, FEW: FEW, CONFLICTS: CONFLICTS}
    source = random.Random(5)
    seen = set()
    for _ in range(300):
        drawn = [
            (source.choice([0.5, 0.7, 1.0, 1.3, 2.0]) * source.uniform(0.9, 1.1),
             source.choice([1, 4, 8, 20]), source.choice([0.02, 0.1, 0.3]))
            for _ in range(source.choice([2, 3, 4]))
        ]
        here = one(*(measured(f"r{i}", i, *each) for i, each in enumerate(drawn)))
        there = one(*(measured(f"r{i}", i, 1 / ratio, n, sd)
                      for i, (ratio, n, sd) in enumerate(drawn)))
        assert there.verdict is swapped[here.verdict]
        seen.add(here.verdict)
    assert seen == set(swapped)
