"""An OSD past the latency limit is found by its counters, also one that commits nothing."""

import json
import queue

import pytest
from test_ceph_loads import samples_of
from wcache.ceph.blocks import CephBlocks, CommitLimit, in_flight
from wcache.ceph.command import Osds
from wcache.ceph.compat import commit_counters
from wcache.core.events import LoadRequest
from wcache.core.loads import BlocksRequest
from wcache.core.model import LoadPoint

LIMIT_MS = 2000.0


def counters(commits, begun, seconds=0.0):
    return {"txc_commit_lat": (seconds, commits), "txc_submit_lat": (0.0, begun)}


class Looks:
    """Looks at one OSD, at the seconds that a test says."""

    def __init__(self):
        self.now_s = 0.0
        self.limit = CommitLimit(LIMIT_MS, clock=lambda: self.now_s)

    def at(self, now_s, *found):
        self.now_s = now_s
        return self.limit.look(7, counters(*found), now_s)


def test_an_osd_with_writes_in_flight_that_commits_nothing_for_the_limit_is_past_it():
    looks = Looks()
    assert looks.at(0.0, 100, 104) == ""
    assert looks.at(1.0, 100, 104) == ""
    assert looks.at(2.0, 100, 104) == ""
    assert looks.at(3.0, 100, 106) == (
        "osd.7 committed nothing for 3000 ms with 6 writes in flight, past the limit of 2000 ms"
    )


@pytest.mark.parametrize(("found", "why"), [
    ([(100, 104), (101, 104), (101, 105), (102, 106)], "it commits, one a look"),
    ([(100, 100)] * 6, "nothing is in flight: no client writes"),
    ([(100, 99)] * 6, "its counters were reset while a write was in flight"),
    ([(100, 104), (100, 104), (0, 3), (0, 3), (0, 3)], "it was started anew"),
    ([(100, 104), (100, 104), (104, 104), (104, 106), (104, 106)], "what stalled is over"),
])
def test_an_osd_that_is_idle_or_goes_on_is_not_past_the_limit(found, why):
    looks = Looks()
    assert [looks.at(float(second), *each) for second, each in enumerate(found)] == (
        [""] * len(found)), why


@pytest.mark.parametrize("seconds", [0.5, 1.0 + 2.0**32])
def test_latencies_off_a_clock_that_was_set_say_nothing(seconds):
    looks = Looks()
    assert looks.at(0.0, 100, 104, 1.0) == ""
    assert looks.at(1.0, 102, 104, seconds) == ""


def test_what_was_committed_too_slowly_is_past_the_limit_by_its_mean():
    looks = Looks()
    assert looks.at(0.0, 100, 104, 1.0) == ""
    assert looks.at(1.0, 102, 104, 6.0) == "osd.7 took 2500 ms, past the limit of 2000 ms"


def test_an_osd_that_does_not_tell_what_it_began_is_judged_by_what_it_commits():
    limit = CommitLimit(LIMIT_MS, clock=lambda: 0.0)
    assert [limit.look(7, {"txc_commit_lat": (1.0, 100)}, float(s)) for s in range(6)] == [""] * 6


@pytest.mark.parametrize(
    "names", [("commit_lat", "submit_lat"), ("txc_commit_lat", "txc_submit_lat")])
def test_writes_in_flight_are_told_by_the_counters_of_every_release(names):
    commit, submit = names
    dump = {"bluestore": {commit: {"avgcount": 5, "sum": 1.0}, submit: {"avgcount": 8, "sum": 0.1}}}
    assert in_flight(commit_counters(dump)) == 3


class HungOsd:
    """A mgr whose OSDs tell their counters; osd.1 has taken writes that it never commits.

    The others commit 10 writes between two looks.  `stopped` gives no answer.
    """

    def __init__(self, stopped=""):
        self.looks = 0
        self.stopped = stopped

    def send_command(self, result, svc_type, svc_id, command, tag):
        if svc_id == self.stopped:
            return
        if json.loads(command)["prefix"] != "perf dump":
            result.complete(-22, "", "")
            return
        self.looks += 1
        done = 100 if svc_id == "1" else 100 + 10 * self.looks
        told = {"txc_commit_lat": {"avgcount": done, "sum": 0.001 * done},
                "txc_submit_lat": {"avgcount": done + 4, "sum": 0.0}}
        result.complete(0, json.dumps({"bluestore": told}), "")


def watched(treated, controls, limit_ms, blocks, stopped=""):
    """(blocks, why it ended, whether past the limit) of a watch."""
    heard = queue.Queue()
    seen = []
    CephBlocks(Osds(HungOsd(stopped)), lambda: 1).watch(
        "t", BlocksRequest(treated, controls, 0.01, blocks, limit_ms),
        lambda block: (seen.append(block), len(seen) == blocks and heard.put(("", False, False))),
        lambda *end: heard.put(end),
    )
    why, past_limit, silent = heard.get(timeout=60)
    assert silent is (past_limit and "not answered" in why)
    return seen, why, past_limit


def test_a_treated_osd_that_hangs_ends_the_watch_as_past_the_limit():
    _, why, past_limit = watched((0, 1), (2, 3, 4), limit_ms=50.0, blocks=100_000)
    assert past_limit
    assert why.startswith("osd.1 committed nothing for ")
    assert why.endswith("with 4 writes in flight, past the limit of 50 ms")


@pytest.mark.slow
@pytest.mark.parametrize("spread", [False, True])
def test_a_measurement_of_traffic_ends_when_its_osd_hangs(spread):
    request = LoadRequest(
        1, LoadPoint.OSD_TRAFFIC, 10_000, 3600.0, 50.0, spread=spread)
    assert "committed nothing for" in samples_of(HungOsd(), request).aborted


class Grows:
    """A mgr with an OSD whose counters are those of `counted` by the number of the look."""

    def __init__(self, counted):
        self.counted, self.looks = counted, 0

    def send_command(self, result, svc_type, svc_id, command, tag):
        self.looks += 1
        asked = json.loads(command).get("logger")  # an OSD answers with this section alone
        counted = self.counted(self.looks)
        told = {name: one for name, one in counted.items() if asked in (None, name)}
        result.complete(0, json.dumps(told), "")


def a_block(counted):
    heard = queue.Queue()
    CephBlocks(Osds(Grows(counted)), lambda: 1).watch(
        "t", BlocksRequest((0,), (), 0.01, 1, 1000.0), heard.put, lambda *end: heard.put(end)
    )
    return heard.get(timeout=60)


def test_a_block_tells_of_reads_too_and_of_an_osd_that_only_reads():
    (osd,) = a_block(lambda look: {
        "bluestore": {"txc_commit_lat": {"avgcount": 7, "sum": 0.1}},
        "osd": {"op_r_latency": {"avgcount": 10 * look, "sum": 0.004 * look}},
    }).osds
    assert (osd.latency_us, osd.commits, osd.read_us) == (0.0, 0, 400.0)
    assert osd.reads >= 10


@pytest.mark.parametrize(("counters", "moved"), [
    ({}, False), ({"recovery_ops": 3}, True),
    ({"l_osd_recovery_push_queue_latency": {"avgcount": 2, "sum": 1.8e19}}, True),
    ({"recovery_ops": None, "l_osd_recovery_push_queue_latency": {"sum": 1.0}}, False),
])
def test_a_block_tells_whether_an_osd_has_sent_or_got_data_of_pgs(counters, moved):
    block = a_block(lambda look: {
        "bluestore": {"txc_commit_lat": {"avgcount": 10 * look, "sum": 0.004 * look}},
        "osd": json.loads(json.dumps(counters), parse_int=lambda number: int(number) * look),
    })
    assert block.osds[0].moved is moved
    assert block.movers == ({0} if moved else set())
    assert block.of_reads.movers == block.movers
