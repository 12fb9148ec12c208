"""An OSD whose own load asks for another answer than that of its drive model is named."""

from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from wcache.core.model import LoadPoint, Verdict
from wcache.core.verdict.load_profile import (
    HOUR_WRITES_MIN,
    HOURS_MIN,
    HourLoad,
    LoadProfile,
    evened,
    shares,
)
from wcache.core.verdict.recommend import OSDS_NAMED_MAX, recommend
from wcache.core.verdict.result import Result

D1, BATCH, TRAFFIC = (
    LoadPoint.OSD_BENCH_DEPTH1, LoadPoint.OSD_BENCH_BATCH, LoadPoint.OSD_TRAFFIC,
)
KEY = ("hdd", str(make.MODEL))


def result(load, verdict, low, high):
    return Result(
        f"r-{load.value}", "c1", "h1", 0, "hdd", "d0", "w0", make.MODEL, load, verdict, 8, 1.0, 0,
        "decided", (low * high) ** 0.5, low, high,
    )


# off wins one write at a time and loses in batches, as on a plain disk
DISK = [
    result(D1, Verdict.B, 1.6, 2.0), result(BATCH, Verdict.A, 0.6, 0.75),
]


def osd(together, writes=100_000):
    """The known load of an OSD with so many transactions in a commit."""
    hour = HourLoad(0, writes, int(writes / together), writes, writes * 4096)
    return LoadProfile(tuple(replace(hour, hour=n) for n in range(HOURS_MIN)))


def advice(profiles, results=DISK):
    (found,) = recommend(results, {KEY: profiles})
    return found


def dissent(found):
    return [text for text in found.warnings if "on their own workload" in text]


def test_a_busy_osd_decides_for_its_drive_model_and_the_quiet_ones_are_named():
    quiet = {n: osd(10.0, writes=1000) for n in range(1, 6)}
    found = advice({0: osd(1.0), **quiet})
    assert found.verdict is Verdict.B
    (said,) = dissent(found)
    assert said.startswith("on their own workload, 5 of 6 OSDs would not be recommended write ")
    assert "osd.1 write back" in said
    assert "osd.0" not in said


def test_of_many_only_some_are_named_and_the_rest_counted():
    found = advice({0: osd(1.0), **{n: osd(10.0, writes=1000) for n in range(1, 21)}})
    (said,) = dissent(found)
    assert said.count("osd.") == OSDS_NAMED_MAX
    assert f"and {20 - OSDS_NAMED_MAX} more" in said


@pytest.mark.parametrize("other", [
    osd(1.0, writes=1000),
    LoadProfile(osd(10.0, writes=1000).hours[1:]),  # its load is not known yet
], ids=["alike", "unknown"])
def test_where_no_known_load_says_otherwise_nothing_is_said(other):
    found = advice({0: osd(1.0), 1: other})
    assert found.verdict is Verdict.B
    assert dissent(found) == []


def test_what_traffic_decided_no_osds_sum_of_benches_contradicts():
    traffic = result(TRAFFIC, Verdict.B, 1.3, 1.5)
    found = advice({0: osd(1.0), 1: osd(10.0, writes=1000)}, [*DISK, traffic])
    assert found.verdict is Verdict.B
    assert dissent(found) == []


def test_a_load_that_loses_twice_is_named_though_the_sum_has_under_5_percent_of_it():
    contradictory = [
        DISK[0], result(BATCH, Verdict.A, 0.2, 0.3),
        result(TRAFFIC, Verdict.B, 1.3, 1.5),
    ]
    found = advice({0: osd(1.0), 1: osd(10.0, writes=1000)}, contradictory)
    assert found.verdict is Verdict.B
    assert "osd.1 conflicting" in dissent(found)[0]


def test_evened_a_load_stays_known_and_has_the_same_shares():
    least = HourLoad(0, 3 * HOUR_WRITES_MIN, HOUR_WRITES_MIN, HOUR_WRITES_MIN, 10**7)
    profile = LoadProfile(tuple(replace(least, hour=n, commits=40 + n) for n in range(HOURS_MIN)))
    assert evened(profile).known
    assert shares(evened(profile).total) == pytest.approx(shares(profile.total), rel=0.02)


def test_recommend_shows_it():
    mgr = FakeMgr(("h1", (make.drive("sda", 0), make.drive("sdb", 1))))
    mgr.report_all()
    mgr.command("campaign start", loads="depth1", accept_cost=True)
    mgr.settle()
    mgr.profiles = {KEY: {0: osd(1.0)}}
    before = mgr.command("recommend")[1]
    assert "write through" in before
    mgr.profiles = {KEY: {0: osd(1.0), 1: osd(10.0, writes=100)}}
    assert "1 of 2 OSDs" in mgr.command("recommend")[1]
    assert "osd.1 insufficient data" in mgr.command("recommend")[1]
