"""Verdicts to one recommendation, and that to a plan."""

from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from wcache.core.fleet.findings import of_drive
from wcache.core.model import CacheMode, Finding, FindingCode, LoadPoint, Severity, Verdict
from wcache.core.verdict.across_loads import over_loads
from wcache.core.verdict.pooling import LoadVerdict
from wcache.core.verdict.recommend import recommend
from wcache.core.verdict.result import Result
from wcache.knobs.cache_mode.plan import make_changes
from wcache.knobs.knob import Asked

WT = CacheMode.WRITE_THROUGH
D1, BATCH, TRAFFIC, TIMER = (
    LoadPoint.OSD_BENCH_DEPTH1, LoadPoint.OSD_BENCH_BATCH, LoadPoint.OSD_TRAFFIC,
    LoadPoint.FDATASYNC_TIMER,
)


# ---- policy


def result(load=D1, verdict=Verdict.B, **changes):
    found = Result(
        "r1", "c1", "h1", 0, "hdd", "d0", "w0", make.MODEL, load, verdict, 8, 1.0, 0, "decided",
        5.0, 4.5, 5.5,
    )
    return replace(found, **changes)


def loads(*items):
    """LoadVerdicts from (load, verdict, low, high)."""
    return [LoadVerdict(load, verdict, 3, None, low, high) for load, verdict, low, high in items]


THROUGH, BACK, SAME, FEW, CONFLICTS = (
    Verdict.B, Verdict.A, Verdict.NO_DIFFERENCE, Verdict.INSUFFICIENT,
    Verdict.CONFLICTING,
)


@pytest.mark.parametrize(
    ("items", "verdict"),
    [
        ([(D1, THROUGH, 4.0, 5.0)], THROUGH),
        ([(D1, THROUGH, 4.0, 5.0), (BATCH, BACK, 0.1, 0.2)], CONFLICTS),
        ([(D1, THROUGH, 4.0, 5.0), (BATCH, FEW, None, None)], FEW),
        ([(D1, THROUGH, 4.0, 5.0), (BATCH, FEW, 0.2, 1.5)], FEW),
        ([(D1, THROUGH, 4.0, 5.0), (BATCH, FEW, 0.95, 1.5)], THROUGH),
        ([(D1, THROUGH, 4.0, 5.0), (BATCH, FEW, 4.0, 5.0)], FEW),  # flagged: a carryover
        ([(D1, BACK, 0.2, 0.3), (BATCH, FEW, 0.8, 1.05)], BACK),
        ([(D1, BACK, 0.2, 0.3), (BATCH, FEW, 0.8, 1.2)], FEW),
        ([(D1, THROUGH, 4.0, 5.0), (BATCH, SAME, 0.95, 1.05)], THROUGH),
        ([(D1, THROUGH, 4.0, 5.0), (TIMER, FEW, 0.2, 1.5)], THROUGH),
        ([(TRAFFIC, SAME, 0.95, 1.05), (D1, THROUGH, 4.0, 5.0)], SAME),
        ([(TRAFFIC, SAME, 0.95, 1.05), (D1, THROUGH, 4.0, 5.0), (BATCH, BACK, 0.1, 0.2)], SAME),
        ([(TRAFFIC, FEW, 0.5, 1.02), (D1, THROUGH, 4.0, 5.0)], FEW),
        ([(TRAFFIC, FEW, 0.8, 1.5), (D1, THROUGH, 4.0, 5.0)], FEW),
        ([(TRAFFIC, FEW, 0.95, 1.5), (D1, THROUGH, 4.0, 5.0)], THROUGH),
        ([(TRAFFIC, FEW, 0.95, 1.5), (D1, SAME, 0.95, 1.05)], FEW),
        ([(TRAFFIC, FEW, 0.5, 1.02)], FEW),
        ([(D1, SAME, 0.99, 1.01), (BATCH, SAME, 0.99, 1.01)], SAME),
        ([(D1, SAME, 0.99, 1.01), (BATCH, FEW, None, None)], FEW),
        ([(TIMER, THROUGH, 9.0, 9.0)], FEW),
        ([(TRAFFIC, THROUGH, 4.0, 5.0), (BATCH, BACK, 0.6, 0.8)], THROUGH),
        ([(TRAFFIC, THROUGH, 4.0, 5.0), (BATCH, BACK, 0.1, 0.5)], CONFLICTS),
        ([(TRAFFIC, BACK, 0.1, 0.2), (D1, THROUGH, 2.0, 2.5)], CONFLICTS),
        ([(TRAFFIC, BACK, 0.1, 0.2), (D1, THROUGH, 1.9, 2.5)], BACK),
        ([(TRAFFIC, THROUGH, 4.0, 5.0), (BATCH, BACK, 0.0, 0.0)], THROUGH),
        ([(TRAFFIC, CONFLICTS, None, None), (D1, THROUGH, 4.0, 5.0)], CONFLICTS),
        ([(TRAFFIC, SAME, 0.99, 1.01), (D1, CONFLICTS, 1.2, 1.6)], SAME),
        ([(TRAFFIC, THROUGH, 3.0, 4.0), (BATCH, CONFLICTS, 0.95, 1.05)], THROUGH),
        ([(TRAFFIC, FEW, 0.95, 1.5), (D1, CONFLICTS, 1.2, 1.6)], CONFLICTS),
        ([(D1, THROUGH, 3.0, 4.0), (BATCH, CONFLICTS, 0.95, 1.05)], CONFLICTS),
    ],
)
def test_the_verdict_over_loads(items, verdict):
    found, why = over_loads(loads(*items))
    assert found is verdict
    assert why


@pytest.mark.parametrize(("items", "said"), [
    ([(TRAFFIC, SAME, 0.95, 1.05), (BATCH, BACK, 0.1, 0.2)],
     "batch has at least 400% more latency in write through"),
    ([(TRAFFIC, THROUGH, 3.0, 4.0), (BATCH, CONFLICTS, 0.95, 1.05)],
     "batch gave contradictory results, see the notes"),
    ([(D1, THROUGH, 4.0, 5.0), (BATCH, FEW, 0.2, 1.5)], "batch (-33% to +400%) is undecided"),
    ([(TRAFFIC, FEW, 0.5, 1.02), (D1, THROUGH, 4.0, 5.0)], "measure traffic for longer"),
    ([(D1, SAME, 0.99, 1.01)], "depth1: no material difference; leave the mode as it is"),
])
def test_what_a_load_says_beside_the_one_that_decides_or_would_settle_it_is_named(items, said):
    assert said in over_loads(loads(*items))[1]


def test_a_doubt_that_keeps_a_load_from_deciding_is_named():
    (flagged,) = loads((D1, FEW, 0.3, 0.4))
    flagged = replace(flagged, doubts=(FindingCode.FLUSH_TOO_FAST,))
    for others in ([], loads((BATCH, BACK, 0.3, 0.4))):
        found, why = over_loads([flagged, *others])
        assert found is FEW
        assert "depth1 (flagged: WCACHE_FLUSH_TOO_FAST)" in why
        assert "longer" not in why


def test_the_newest_result_of_a_drive_counts_and_forced_or_empty_ones_never():
    old = result(verdict=BACK, ended_at_s=1.0)
    new = result(ended_at_s=2.0, record_id="r2")
    forced = result(verdict=BACK, ended_at_s=3.0, record_id="r3", forced=True)
    empty = result(verdict=FEW, ended_at_s=4.0, record_id="r4", pairs=0)
    (advice,) = recommend([forced, new, empty, old])
    assert advice.record_ids == ("r2",)
    assert advice.mode is WT


@pytest.mark.parametrize("load", [D1, BATCH, TIMER])
def test_a_drive_model_that_flushes_too_fast_at_any_load_never_gets_write_back(load):
    better = result(TRAFFIC, BACK, record_id="r0", ratio=0.6, ratio_low=0.5, ratio_high=0.7)
    finding = Finding(FindingCode.FLUSH_TOO_FAST, Severity.WARNING, "h1 w0", "too good")
    fast = result(
        load, FEW, device_class="other", findings=(finding,), ratio=0.2,
        ratio_low=0.1, ratio_high=0.3,
    )
    assert recommend([better])[0].mode is CacheMode.WRITE_BACK
    for class_of_fast in ("hdd", "other"):
        advice = recommend([better, replace(fast, device_class=class_of_fast)])[0]
        assert (advice.verdict, advice.mode) == (FEW, None)
        assert f"h1 w0 raised WCACHE_FLUSH_TOO_FAST at {load.short}" in advice.why
    through = replace(better, verdict=THROUGH, ratio=2.0, ratio_low=1.8, ratio_high=2.2)
    assert recommend([through, fast])[0].mode is WT


def test_simulated_and_real_drives_are_never_joined_and_that_these_are_few_is_said():
    found = recommend([result(), result(simulated=True, record_id="r2")])
    assert [any("3 or more" in line for line in one.warnings) for one in found] == [True] * 2


# ---- plan


def test_a_plan_leaves_alone_what_is_so_already_what_is_down_and_what_is_in_error():
    reports, cluster = make.fleet(1, 4)
    wrong = replace(
        reports[0].drives[2],
        findings=(replace(of_drive(make.unsafe_drive(), throwaway=False, leased=False)[0]),),
    )
    drives = (make.drive("sd0", 0, mode=WT), reports[0].drives[1], wrong, reports[0].drives[3])
    down = replace(cluster.osds[1], up=False)
    osds = make.cluster([o if o.osd_id != 1 else down for o in cluster.osds.values()])
    wanted = make_changes(
        Asked("p1", "n"), recommend([result()]), [replace(reports[0], drives=drives)], osds,
        throwaway=False,
    )
    changes, left = wanted.changes, wanted.left_alone
    assert [c.domain.dev_names for c in changes] == [("sd3",)]
    assert any("osd.1 is not up" in line for line in left)
    assert any("WCACHE_UNSAFE" in line for line in left)
