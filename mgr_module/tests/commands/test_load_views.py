"""The load of OSDs is shown in the units that recommendations are weighted by."""

from dataclasses import replace

from wcache.ceph.view import CephView
from wcache.commands.drives import load_ls, load_text
from wcache.core.cluster import OsdLatency
from wcache.core.model import DriveModel, LoadPoint, Verdict
from wcache.core.verdict.load_profile import HOURS_MIN, HourLoad, LoadProfile
from wcache.core.verdict.result import Result
from wcache.engine.world import World

RESULT = Result(
    "r1", "c1", "h1", 3, "hdd", "d0", "w0", DriveModel("V", "M", "1"),
    LoadPoint.OSD_BENCH_DEPTH1, Verdict.B, 8, 1.0, 0, "decided",
)
# per hour: 4 transactions a commit, 8 KiB a write, half of the writes deferred, 1 in 5 recovery
HOUR = HourLoad(0, 4000, 1000, 2000, 2000 * 8192, 1000, 500)


def profile(hours):
    return LoadProfile(tuple(replace(HOUR, hour=hour) for hour in range(hours)))


def test_an_osds_load_is_told_per_commit_per_write_and_as_shares():
    data = load_ls({3: profile(2)}, [RESULT], {})
    (row,) = data["osds"]
    assert (row["osd_id"], row["device_class"], row["hours"], row["known"]) == (3, "hdd", 2, False)
    assert (row["transactions_per_commit"], row["bytes_per_write"]) == (4.0, 8192.0)
    assert (row["deferred_per_write"], row["recovery_share"]) == (0.5, 0.2)
    assert abs(sum(row["load_shares"].values()) - 1.0) < 0.001


def test_a_class_is_the_sum_of_its_osds_and_simulated_ones_are_no_part():
    other = replace(RESULT, record_id="r4", osd_id=4)
    simulated = replace(RESULT, record_id="r5", osd_id=5, simulated=True)
    profiles = {3: profile(HOURS_MIN), 4: profile(HOURS_MIN), 5: profile(1)}
    measured = {one.record_id: one for one in (RESULT, other, simulated)}
    found = World(0.0, lambda: None, all_results=measured).real_results
    data = load_ls(profiles, found, {})
    (row,) = data["classes"]
    assert (row["osds"], row["client_writes"]) == (2, 2 * HOURS_MIN * 2000)
    assert row["known"]


def test_the_class_is_that_of_the_newest_result():
    newer = replace(RESULT, record_id="r2", device_class="ssd", ended_at_s=5.0)
    (row,) = load_ls({3: profile(1)}, [newer, RESULT], {})["osds"]
    assert row["device_class"] == "ssd"


def test_an_idle_osd_has_no_shares_and_the_table_says_so():
    idle = LoadProfile((HourLoad(0),))
    text = load_text(load_ls({3: idle}, [RESULT], {}))
    assert text.splitlines()[1].split() == ["osd.3", "hdd", "1", "0"]


def test_where_nothing_was_measured_it_says_when_it_will_be():
    assert "read every 10 minutes" in load_text(load_ls({}, [], {}))


class Mgr:
    """A mgr whose OSDs say `stats` of themselves."""

    version = "ceph version 20.2.4"

    def __init__(self, stats):
        self.stats = stats

    def get(self, data_name):
        assert data_name == "osd_stats"
        return {"osd_stats": self.stats}


def test_what_ceph_osd_perf_shows_stands_beside_it_in_whole_milliseconds():
    stats = [
        {"osd": 3, "perf_stat": {"commit_latency_ms": 12, "apply_latency_ms": 11}},
        {"osd": 4},
    ]
    said = CephView(Mgr(stats), bench_empties_caches=True).latencies()
    assert said == {3: OsdLatency(12, 11)}
    other = replace(RESULT, osd_id=4)
    data = load_ls({3: profile(2), 4: profile(2)}, [RESULT, other], said)
    assert [(r["commit_ms"], r["apply_ms"]) for r in data["osds"]] == [(12, 11), (None, None)]
    lines = [line.split() for line in load_text(data).splitlines()[-4:-1]]
    assert [line[-2:] for line in lines] == [["12", "11"], ["-", "-"], ["-", "-"]]
