"""What would change a verdict, and what would settle an open one: never the same again."""

from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from wcache.core.model import FindingCode, LoadPoint, Verdict
from wcache.core.options.entries import better_mode
from wcache.core.verdict.explaining import expected, settling, would_change
from wcache.core.verdict.pooling import LoadVerdict
from wcache.core.verdict.recommend import Recommendation
from wcache.core.verdict.result import ArmSummary, Result

DEPTH1, TRAFFIC = LoadPoint.OSD_BENCH_DEPTH1, LoadPoint.OSD_TRAFFIC
OPEN = Verdict.INSUFFICIENT


def load(verdict=OPEN, low=0.9, high=1.4, point=DEPTH1, drives=3, **changes):
    return LoadVerdict(point, verdict, drives, (low * high) ** 0.5, low, high, **changes)


def advice(verdict, *loads, **changes):
    return Recommendation(
        "hdd", make.MODEL, verdict, better_mode(verdict), "", loads, (),
        changes.pop("record_ids", ()), **changes
    )


def result(ended, point=DEPTH1, pairs=40):
    return Result(
        "c1.0.0", "c1", "h1", 0, "hdd", "d", "d", make.MODEL, point, OPEN, pairs, 1.0, 0, ended
    )


def test_what_is_expected_is_the_mean_of_the_measured_drives_with_the_ratio_of_the_verdict():
    found = advice(
        Verdict.A, load(Verdict.NO_DIFFERENCE, point=TRAFFIC),
        load(Verdict.A, 0.5, 0.5), record_ids=("r1", "r2", "r3", "gone"),
    )
    results = {
        name: replace(
            result("decided", point), record_id=name, drive_id=name, ratio=0.5, ratio_low=0.4,
            ratio_high=0.6, a=ArmSummary(9, level_us=level_us),
        ) for name, point, level_us in (
            ("r1", DEPTH1, 1000.0), ("r2", DEPTH1, 4000.0), ("r3", TRAFFIC, 9.0),
        )
    }
    assert expected(found, results) == (pytest.approx(2000.0), pytest.approx(4000.0))
    assert expected(found, {}) is None
    assert expected(advice(OPEN), results) is None


def test_a_decided_verdict_names_the_figure_it_would_take_and_what_was_not_measured():
    steps = would_change(advice(Verdict.B, load(Verdict.B, 4.9, 5.1)), [])
    assert steps[0] == ("depth1: an interval that reaches -9.1%; it is -80% to -80%", "")
    assert steps[1][1] == "ceph wcache campaign start --scope=class:hdd --loads=traffic"
    assert not any("other drives" in words for words, _ in steps)
    same = would_change(advice(Verdict.NO_DIFFERENCE, load(
        Verdict.NO_DIFFERENCE, 0.97, 1.03, TRAFFIC, drives=1
    )), [])
    assert "traffic: an interval beyond -9.1% or +10%" in same[0][0]
    assert "1 of them is measured" in same[1][0]


def test_where_clients_write_too_little_a_bench_is_named_and_not_the_same_again():
    few = result("too little client traffic: 3 commits in 2.0 s, 20 are needed", TRAFFIC)
    ((words, command),) = settling(advice(OPEN, load(point=TRAFFIC)), [few])
    assert "3 commits in 2.0 s" in words
    assert command.endswith("--loads=depth1")
    # with a bench there already only more writes help, or longer periods
    both = advice(OPEN, load(point=TRAFFIC), load(Verdict.NO_DIFFERENCE, 0.97, 1.03))
    ((words, command),) = settling(both, [few])
    assert "mgr/wcache/period_s" in words
    assert command.endswith("--loads=traffic")


SET = "ceph config set mgr mgr/wcache/"
MEASURE = "ceph wcache campaign start --scope=class:hdd --loads=depth1"


@pytest.mark.parametrize(("ended", "pairs", "options", "command"), [
    ("budget of 300 s is spent", 40, {}, f"{SET}experiment_seconds_max 600"),
    ("budget of 4096 bytes is spent", 40, {}, f"{SET}experiment_bytes_max 8192"),
    ("budget of 600 s of client waiting is spent", 40, {},
     f"{SET}experiment_client_wait_max_s 1200"),
    ("budget of 150 s for showing that there is no difference is spent", 40, {},
     f"{SET}no_difference_share 1"),
    # one that no option sets is left for a campaign, and none is made smaller
    ("budget of 60 s is spent", 40, {"experiment_seconds_max": 900.0}, MEASURE),
    ("budget of 60 s is spent", 40, {"experiment_seconds_max": 60.0},
     f"{SET}experiment_seconds_max 120"),
    # more pairs are asked for first, and then more drives
    ("budget of 40 pairs is spent", 40, {}, f"{MEASURE} --pairs=80"),
    ("budget of 80 pairs is spent", 80, {}, f"{MEASURE} --pairs=80 --drives-per-model=6"),
])
def test_a_spent_budget_is_named_with_what_gives_more_of_it(ended, pairs, options, command):
    ((words, said),) = settling(advice(OPEN, load()), [result(ended, pairs=pairs)], options)
    assert said == command
    assert ended in words or "pairs" in ended


def test_findings_conflicts_and_a_missing_host_come_first():
    flagged = advice(OPEN, load(doubts=(FindingCode.FLUSH_TOO_FAST,)))
    assert settling(flagged, [])[0][1] == "ceph wcache status"
    assert settling(advice(Verdict.CONFLICTING, load()), [])[0][1].endswith("--loads=traffic")
    assert settling(advice(OPEN, measure_on="h 2"), [])[0][1].endswith("--scope=host:'h 2'")
    timed = advice(OPEN, load(point=LoadPoint.FDATASYNC_TIMER))  # a load was not measured yet
    assert settling(timed, [])[0][1].endswith("--loads=depth1")
