"""An OSD's own traffic is measured by its counters, from the edges of a period and between."""

import json
import queue
import threading
from types import SimpleNamespace

import pytest
from mgr_fakes.histogram import dump
from wcache.ceph import loads as loads_file
from wcache.ceph.command import Osds
from wcache.ceph.compat import bench_seconds, move_counters
from wcache.ceph.loads import CephLoads
from wcache.core.events import LoadRequest
from wcache.core.model import LoadPoint
from wcache.core.record import LatencyHistogram

# Dumps of a period: at its start, in its middle, and at its end.
DUMPS = [(10.0, 1000), (13.0, 1100), (14.0, 1300)]


@pytest.fixture(autouse=True)
def unhurried(monkeypatch):
    """Time goes on by what a measurement waits alone: no busy machine sleeps through a look."""
    now = SimpleNamespace(s=0.0)

    class Event(threading.Event):
        def wait(self, timeout=None):
            now.s += timeout
            return self.is_set()

    monkeypatch.setattr(loads_file, "time", SimpleNamespace(monotonic=lambda: now.s))
    monkeypatch.setattr(
        loads_file, "threading", SimpleNamespace(Event=Event, Thread=threading.Thread))


def perf_dump(sum_s, count, writes_s=None):
    """`perf dump` of an OSD that has committed so much, for clients whose writes took so long."""
    told = {"bluestore": {"txc_commit_lat": {"sum": sum_s, "avgcount": count}}}
    if writes_s is not None:
        told["osd"] = {"op_w_process_latency": {"sum": writes_s, "avgcount": count}}
    return json.dumps(told)


class ScriptedOsd:
    """A mgr with one OSD: `perf dump` says one of `dumps` after the other, then the last.

    `perf histogram dump` says one of `histograms` after the other, then fails.
    """

    def __init__(self, dumps, histograms=()):
        self.dumps, self.histograms = list(dumps), list(histograms)
        self.asked = []

    def send_command(self, result, svc_type, svc_id, command, tag):
        prefix = json.loads(command)["prefix"]
        self.asked.append(prefix)
        if prefix == "perf histogram dump":
            text = self.histograms.pop(0) if self.histograms else ""
            result.complete(0 if text else -22, text, "")
            return
        assert prefix == "perf dump"
        dump = self.dumps.pop(0) if len(self.dumps) > 1 else self.dumps[0]
        result.complete(0, perf_dump(*dump), "")


def answer_of(loads, request):
    """What a load measures, or why not."""
    done = queue.Queue()
    loads.start("t", request, lambda *answer: done.put(answer))
    return done.get(timeout=60)


def samples_of(mgr, request, up=lambda osd_id: True, **options):
    loads = CephLoads(Osds(mgr, up), commits_min=lambda: 20, **options)
    samples, error = answer_of(loads, request)
    assert error == ""
    return samples


def measured(mgr, seconds=0.2, limit_ms=1000.0):
    return samples_of(mgr, LoadRequest(0, LoadPoint.OSD_TRAFFIC, 0, seconds, limit_ms))


@pytest.mark.parametrize(("after", "moved"), [
    ((7, 3, 0), False), ((8, 3, 0), True), ((7, 4, 0), True), ((0, 0, 0), False),
    ((7, None, 0), False), ((7, 3, 1), True),
])
@pytest.mark.parametrize("point", [LoadPoint.OSD_BENCH_DEPTH1, LoadPoint.OSD_TRAFFIC])
def test_a_load_tells_whether_an_osd_on_its_drives_has_moved_data_meanwhile(point, after, moved):
    """Sent as a primary, or got as the target of a backfill, which no map shows."""

    class Moving(ScriptedOsd):
        def send_command(self, result, svc_type, svc_id, command, tag):
            plain = json.loads(command)
            if plain["prefix"] == "bench":
                text = json.dumps({"elapsed_sec": 0.001, "bytes_written": 4096})
                result.complete(0, text, "")
            elif plain["prefix"] == "perf dump" and "logger" not in plain:
                sent, got, beside = after if svc_id in self.asked else (7, 3, 0)
                self.asked.append(svc_id)
                told = json.loads(perf_dump(float(len(self.asked)), 100 * len(self.asked), 1.0))
                told["osd"]["recovery_ops"] = sent if svc_id == "0" else beside
                if got is not None:
                    told["osd"]["l_osd_recovery_push_queue_latency"] = {"avgcount": got, "sum": 0}
                result.complete(0, json.dumps(told), "")
            else:
                result.complete(-22, "", "")

    request = LoadRequest(0, point, 2, 0.1, 1000.0, beside=(5,))
    samples = samples_of(Moving(DUMPS), request, move_counters=move_counters)
    assert samples.moved is moved


def gains(counters):
    return [(item.name, item.sum_s, item.count) for item in counters]


def test_the_second_half_of_a_period_is_kept_beside_the_whole():
    samples = measured(ScriptedOsd(DUMPS), seconds=1.0)
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


@pytest.mark.parametrize("middle", [4.0, 2.0**32 + 4.0])
def test_a_latency_off_a_wall_clock_that_was_set_back_is_left_out(middle):
    # utime_t's seconds are unsigned: one operation of -1 s is one of 2^32 - 1 s
    dumps = [(10.0, 1000, 3.0), (13.0, 1200, middle), (14.0, 1300, 2.0**32 + 5.0)]
    samples = measured(ScriptedOsd(dumps), seconds=0.9)
    assert gains(samples.counters) == [("txc_commit_lat", 4.0, 300)]
    assert gains(samples.later_counters) == [("txc_commit_lat", 1.0, 100)]


def test_a_period_that_a_busy_machine_slept_through_has_a_look_at_its_end():
    samples = measured(ScriptedOsd([DUMPS[0], DUMPS[-1]]), seconds=0.0)
    assert gains(samples.counters) == [("txc_commit_lat", 4.0, 300)]


HISTOGRAM = "perf histogram dump"


def test_what_the_histogram_of_client_writes_gained_in_the_period_is_kept():
    mgr = ScriptedOsd(DUMPS, [dump({1: 5, 3: 7}), dump({1: 15, 3: 10})])
    assert measured(mgr).histogram == LatencyHistogram(
        (100_000, 200_000, 400_000), (10, 0, 3)
    )
    # outside of what is measured: before the first dump of the counters, and after the last
    assert mgr.asked[0] == mgr.asked[-1] == HISTOGRAM
    assert len(mgr.asked) >= 4
    assert set(mgr.asked[1:-1]) == {"perf dump"}


@pytest.mark.parametrize(
    ("histograms", "asked"),
    [
        ([], 1),  # an OSD that refuses is not asked again
        ([json.dumps({"osd": {}})], 1),
        ([dump({1: 5})], 2),
        ([dump({1: 5}), "{"], 2),
        ([dump({1: 5}), dump({1: 4})], 2),  # it was started anew
        ([dump({1: 5}), dump({1: 5})], 2),
    ],
)
def test_without_a_histogram_the_period_still_counts(histograms, asked):
    # however often a busy machine comes to dump in between
    mgr = ScriptedOsd([DUMPS[0], DUMPS[-1]], histograms)
    samples = measured(mgr)
    assert samples.histogram is None
    assert gains(samples.counters) == [("txc_commit_lat", 4.0, 300)]
    assert mgr.asked.count(HISTOGRAM) == asked


def test_a_period_cut_short_by_the_latency_limit_says_so_and_asks_nothing_more_of_the_osd():
    mgr = ScriptedOsd(DUMPS, [dump({1: 5}), dump({1: 15})])
    samples = measured(mgr, limit_ms=20.0)
    assert "past the limit" in samples.aborted
    assert samples.later_counters == ()
    assert mgr.asked[-1] == "perf dump"


class SeveralOsds:
    """A mgr with OSDs on one drive: each says its dumps one after the other, then the last."""

    def __init__(self, dumps):
        self.dumps = {osd_id: list(found) for osd_id, found in dumps.items()}
        self.asked = []

    def send_command(self, result, svc_type, svc_id, command, tag):
        plain = json.loads(command)
        self.asked.append((int(svc_id), plain["prefix"], plain.get("logger")))
        if plain["prefix"] == "bench":
            result.complete(0, json.dumps({"elapsed_sec": 0.001, "bytes_written": 4096}), "")
            return
        dumps = self.dumps[int(svc_id)]
        found = dumps.pop(0) if len(dumps) > 1 else dumps[0]
        if found is not None:  # else it does not answer
            result.complete(0, perf_dump(*found), "")


def together(mgr, load, seconds, beside, up=lambda osd_id: True):
    request = LoadRequest(0, load, 1, seconds, 1000.0, beside=beside)
    return samples_of(mgr, request, up)


def test_traffic_is_that_of_all_osds_on_the_drive():
    """The OSD with the smallest id may be idle while others share the drive that is toggled."""
    idle = [(10.0, 1000)]
    mgr = SeveralOsds({0: idle, 4: DUMPS, 7: [(1.0, 10), (1.5, 20), (2.0, 30)]})
    samples = together(mgr, LoadPoint.OSD_TRAFFIC, 1.0, (4, 7))
    assert samples.unusable == ""
    assert gains(samples.counters) == [("txc_commit_lat", 5.0, 320)]
    assert gains(samples.later_counters) == [("txc_commit_lat", 1.5, 210)]
    assert samples.histogram is None, "one OSD's tail is not that of all"
    # a tenth of all counters is asked of those beside
    assert {logger for osd_id, _, logger in mgr.asked if osd_id != 0} == {"bluestore"}


@pytest.mark.slow
@pytest.mark.parametrize("dumps", [
    [(10.0, 1000), (1.0, 5), (1.0, 6)], [(10.0, 1000), (14.0, 1300), (1.0, 6)],
    [(10.0, 1000), None, (14.0, 1300)], [None],
])
def test_an_osd_beside_that_is_silent_or_restarted_is_left_out_of_the_period(dumps):
    own = [(10.0, 1000), (11.0, 1100)]
    mgr = SeveralOsds({0: own, 4: dumps})
    samples = together(mgr, LoadPoint.OSD_TRAFFIC, 1.0, (4, 9), up=lambda osd_id: osd_id != 9)
    assert gains(samples.counters) == [("txc_commit_lat", 1.0, 100)]
    assert samples.later_counters == ()


def test_a_bench_tells_what_the_others_on_the_drive_committed_meanwhile():
    mgr = SeveralOsds({4: [(10.0, 1000), (14.0, 1300)], 7: [(1.0, 10), (2.0, 30)]})
    samples = together(mgr, LoadPoint.OSD_BENCH_DEPTH1, 0.0, (4, 7))
    assert (samples.beside.sum_s, samples.beside.count) == (5.0, 320)
    assert together(mgr, LoadPoint.OSD_BENCH_DEPTH1, 0.0, ()).beside is None


@pytest.mark.slow
def test_a_bench_goes_on_where_the_only_other_osd_on_the_drive_falls_silent():
    mgr = SeveralOsds({4: [(10.0, 1000), None]})
    samples = together(mgr, LoadPoint.OSD_BENCH_DEPTH1, 0.0, (4,))
    assert len(samples.samples_ns) == 1
    assert samples.beside is None


@pytest.mark.parametrize("text", [
    "", "no error code comes back", "null", "[]", "[" * 100_000, '{"a":' * 100_000,
    '{"elapsed_sec": 1%s, "bytes_written": 4096}' % ("0" * 400),
    '{"elapsed_sec": NaN, "bytes_written": 4096}', '{"elapsed_sec": 0, "bytes_written": 4096}',
    '{"elapsed_sec": 0.1, "bytes_written": "4096"}',
])
def test_an_answer_that_makes_no_sense_is_no_bench(text):
    assert bench_seconds(text) is None


def test_a_view_that_fails_before_the_load_begins_is_told_as_its_error():
    def broken(osd_id):
        raise KeyError("by_osd")

    loads = CephLoads(Osds(None, broken), commits_min=lambda: 20, move_counters=lambda dump: {})
    request = LoadRequest(0, LoadPoint.OSD_BENCH_DEPTH1, 1, 0.0, 100.0)
    assert "by_osd" in answer_of(loads, request)[1]
