"""An OSD's own traffic is measured by its counters, from the edges of a period and between."""

import json
import queue

import pytest
from wcache.ceph_loads import CephLoads
from wcache.core.actions import LoadRequest
from wcache.core.model import LoadPoint, Role

# Dumps of a period of 0.2 s: at its start, in its middle, and at its end.
DUMPS = [(10.0, 1000), (13.0, 1100), (14.0, 1300)]


class ScriptedOsd:
    """A mgr with one OSD: `perf dump` says one of `dumps` after the other, then the last."""

    def __init__(self, dumps):
        self.dumps = list(dumps)
        self.asked = []

    def send_command(self, result, svc_type, svc_id, command, tag):
        prefix = json.loads(command)["prefix"]
        self.asked.append(prefix)
        assert prefix == "perf dump"
        dump = self.dumps.pop(0) if len(self.dumps) > 1 else self.dumps[0]
        result.complete(0, json.dumps({"lat": dump}), "")


def measured(mgr, seconds=0.2, limit_ms=1000.0):
    loads = CephLoads(
        mgr, bench_seconds=lambda text: None,
        commit_counters=lambda dump: {"txc_commit_lat": tuple(dump["lat"])},
        commits_min=lambda: 20, is_up=lambda osd_id: True,
    )
    done = queue.Queue()
    request = LoadRequest(0, LoadPoint.OSD_TRAFFIC, Role.BLOCK, 0, seconds, limit_ms)
    loads.start("t", request, lambda *answer: done.put(answer))
    samples, error = done.get(timeout=20)
    assert error == ""
    return samples


def gains(counters):
    return [(item.name, item.sum_s, item.count) for item in counters]


def test_the_second_half_of_a_period_is_kept_beside_the_whole():
    samples = measured(ScriptedOsd(DUMPS))
    assert gains(samples.counters) == [("txc_commit_lat", 4.0, 300)]
    assert gains(samples.later_counters) == [("txc_commit_lat", 1.0, 200)]


@pytest.mark.parametrize(
    ("dumps", "why"),
    [
        ([(10.0, 1000), (14.0, 1300), (14.0, 1300)], "nothing was committed in the second half"),
        ([(10.0, 1000), (13.0, 2000), (14.0, 1300)], "a counter that goes back is no half"),
    ],
)
def test_a_half_that_tells_nothing_is_not_kept(dumps, why):
    samples = measured(ScriptedOsd(dumps))
    assert gains(samples.counters) == [("txc_commit_lat", 4.0, 300)]
    assert samples.later_counters == (), why


def test_a_period_cut_short_by_the_latency_limit_says_so():
    samples = measured(ScriptedOsd(DUMPS), limit_ms=20.0)
    assert "past the limit" in samples.aborted
    assert samples.later_counters == ()
