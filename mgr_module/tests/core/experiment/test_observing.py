"""`campaign start --observe`: the modes that are there, as tables; nothing is toggled."""

import errno
from dataclasses import replace

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from module_world import WB, WT, a_mgr, all_modes, fine, go_on, ok, said
from wcache.commands.campaigns import OF_WRITES, observed_text
from wcache.core import codec, events
from wcache.core.events import LoadSamples
from wcache.core.experiment.observed import of_histogram, rates
from wcache.core.experiment.observing_plan import (
    BESIDE_CALLS,
    BESIDE_ROUNDS_MAX,
    SAMPLES,
    observing,
)
from wcache.core.experiment.observing_run import CHANGED, NO_SAMPLE, NOT_KEPT_UP
from wcache.core.experiment.run_state import RunState, RunStatus
from wcache.core.hardware import BcacheState, FlushCounters
from wcache.core.loads import WRITE_BYTES
from wcache.core.model import DeviceCache, DriveState, KernelView, LoadPoint, Transport
from wcache.core.protocol import (
    CountersRequest,
    FailureOutcome,
    SamplesOutcome,
    StateOutcome,
    TimerRequest,
)
from wcache.core.record import LatencyHistogram
from wcache.engine.run_queue import machine_of
from wcache.engine.storing.archive import RECORD
from wcache.engine.under_way import busy

TOUCHING = ("SetModeRequest", "ReleaseRequest", "ApplyRequest", "RollbackRequest")


def observe(mgr, **arguments):
    return said(mgr, "campaign start", observe=True, **arguments)["campaign_id"]


def shown(mgr, campaign_id):
    return said(mgr, "campaign show", campaign_id=campaign_id)


def watched(mgr):
    """The kinds of all tasks that probes get from now on."""
    kinds = set()
    for probe in mgr.probes.values():
        def fails(task, before=probe.fails):
            kinds.add(type(task.request).__name__)
            return before(task)
        probe.fails = fails
    return kinds


@pytest.mark.slow
def test_every_load_ends_with_a_full_table_and_no_drive_is_touched():
    mgr = a_mgr()
    mgr.probes["h2"].switch("domain-sdc", WT)
    mgr.report_all()
    kinds = watched(mgr)
    campaign_id = observe(mgr, loads="traffic,timer,depth1", accept_cost=True)
    leases = set()
    while mgr.engine.is_active():
        mgr.step()
        leases |= mgr.engine.world().leased
    assert leases == set()
    assert not kinds & set(TOUCHING)
    found = shown(mgr, campaign_id)
    assert (found["status"], found["observes"], found["results"]) == ("done", True, [])
    assert (found["periods_done"], found["periods_max"]) == (9, 9)
    assert {one["mode"] for one in found["observed"]} == {"write back", "write through"}
    timer = [one for one in found["observed"] if one["load_point"] == "fdatasync_timer"]
    assert len(timer) == 3
    for one in timer:
        assert one["table"]["n"] == SAMPLES[LoadPoint.FDATASYNC_TIMER]
        assert None not in one["table"].values()
    depth1 = [one for one in found["observed"] if one["load_point"] == "osd_bench_depth1"]
    assert all(len(one["samples_ns"]) == one["table"]["n"] == 100 for one in depth1)
    plain = ok(mgr.command("campaign show", campaign_id=campaign_id))
    for word in ("MEAN", "P99", "not touched"):
        assert word in plain
    assert "WRITES/S" not in plain, "no drive told its writes"
    busy = [{**one, "writes_per_s": 12.0} for one in found["observed"]]
    assert OF_WRITES in observed_text(busy)
    fine(mgr)


def test_what_was_observed_is_no_evidence_for_any_verdict():
    mgr = a_mgr()
    observe(mgr, loads="traffic,timer,depth1", accept_cost=True)
    mgr.settle()
    assert mgr.analysis.asked == 0
    assert mgr.inside.analyses.results == {}
    assert said(mgr, "recommend")["recommendations"] == []
    assert mgr.inside.archive.names(RECORD) == []
    assert "nothing is measured yet" in ok(mgr.command("recommend"))


def test_by_default_nothing_is_written_and_no_consent_to_a_cost_is_needed():
    mgr = a_mgr()
    cost = said(mgr, "campaign start", dry_run=True, observe=True)["forecast"]
    assert (cost["bytes_written"], cost["bench_calls"], cost["osds_emptied"]) == (0, 0, [])
    campaign_id = observe(mgr)
    mgr.settle()
    found = shown(mgr, campaign_id)
    assert {one["load_point"] for one in found["observed"]} == {"osd_traffic", "fdatasync_timer"}
    assert found["bytes_written"] == 0
    assert mgr.command("campaign start", observe=True, loads="batch")[0] == -errno.EPERM


def test_a_refused_array_of_unknown_mode_is_observed_all_the_same():
    unknown = DriveState(DeviceCache.UNKNOWN, KernelView.WRITE_BACK)
    array = make.drive("sda", 0, state=unknown, transport=Transport.RAID,
                       refusals=make.refused("a RAID volume"))
    mgr = FakeMgr(("h1", (array,)))
    mgr.report_all()
    assert mgr.command("campaign start", loads="timer")[0] == -errno.ENOENT
    mgr.probes["h1"].do = answers_as_it_is(mgr.probes["h1"])
    campaign_id = observe(mgr, loads="timer")
    mgr.settle()
    (one,) = shown(mgr, campaign_id)["observed"]
    assert (one["mode"], one["kernel_view"], one["table"]["n"]) == (None, "write back", 320)
    plain = ok(mgr.command("campaign show", campaign_id=campaign_id))
    assert "unknown" in plain


def answers_as_it_is(probe):
    """A probe whose drives have no mode that the fake could switch to."""
    do = type(probe).do

    def answer(task):
        if isinstance(task.request, CountersRequest):
            drive = probe.drives[task.request.domain_id]
            return make_state(drive.state)
        return do(probe, task)

    return answer


def make_state(state, counters=()):
    return StateOutcome((state,), (state,), counters, False, ("wwn-sda",))


@pytest.mark.parametrize("what", [
    {"pairs": 8}, {"recheck": True}, {"consent_turn_on": True},
])
def test_what_belongs_to_experiments_is_refused_beside_observe(what):
    code, _, error = a_mgr().command("campaign start", observe=True, **what)
    assert code == -errno.EINVAL
    assert "--observe toggles nothing" in error


@pytest.mark.slow
@examples(10)
@given(st.lists(st.integers(0, 40), max_size=4), st.lists(st.integers(0, 40), max_size=2))
def test_a_mgr_lost_at_any_step_goes_on_with_the_first_load_that_is_missing(lost, crashes):
    mgr = a_mgr()
    kinds = watched(mgr)
    campaign_id = observe(mgr, loads="traffic,timer,depth1,batch", accept_cost=True)
    go_on(mgr, 300, lost, crashes)
    found = shown(mgr, campaign_id)
    assert found["status"] == "done", found
    seen = [(one["run_id"], one["load_point"], one["beside"]) for one in found["observed"]]
    assert len(seen) == len(set(seen)) == 15
    assert not kinds & set(TOUCHING)
    fine(mgr)


@pytest.mark.parametrize("how", ["campaign stop", "freeze"])
@pytest.mark.parametrize("steps", [0, 1, 2, 3, 5])
def test_stop_and_freeze_end_it_at_once_and_keep_what_was_seen(how, steps):
    mgr = a_mgr()
    campaign_id = observe(mgr)
    for _ in range(steps):
        mgr.step()
    before = len(shown(mgr, campaign_id)["observed"])
    ok(mgr.command(how, **({"campaign_id": campaign_id} if how == "campaign stop" else {})))
    mgr.settle(3)
    found = shown(mgr, campaign_id)
    assert {run["status"] for run in found["run_list"]} == {"aborted"}
    assert len(found["observed"]) == before
    assert all(run["restored"] for run in found["run_list"])
    assert mgr.loads.waiting == {}
    fine(mgr)


def test_while_observing_a_host_polls_fast_and_holds_no_lease():
    mgr = a_mgr(parallel_hosts_max=2)
    observe(mgr)
    mgr.step()
    assert [m.under_way for m in mgr.inside.runs.values()].count(True) == 2
    assert not any(m.holds_lease for m in mgr.inside.runs.values())
    world = mgr.engine.world()
    assert all(busy(hostname, world.runs, world.rollouts) for hostname in mgr.probes)


def test_a_silent_probe_ends_what_is_observed_there():
    mgr = a_mgr()
    campaign_id = observe(mgr)
    mgr.step()
    del mgr.probes["h2"]
    mgr.settle()
    by_host = {run["hostname"]: run for run in shown(mgr, campaign_id)["run_list"]}
    assert by_host["h2"]["status"] == "aborted"
    assert "has not responded" in by_host["h2"]["reason"]
    assert all_modes(mgr) == {WB}


# ---- the machine by itself


def machine(*loads, **changes):
    spec = observing(make.run_spec(*(make.setup(load) for load in loads), **changes))
    return machine_of(RunState(spec, RunStatus.WAITING), [{} for _ in spec.experiments], "1")


def only(actions, kind):
    (found,) = [action for action in actions if isinstance(action, kind)]
    return found


def looked(found, actions, state=None, counters=()):
    """Answer the look that `actions` asks for."""
    task = only(actions, events.GiveTask)
    assert isinstance(task.request, CountersRequest)
    outcome = make_state(state or make.state(WB), counters)
    return found.handle(events.Answered(task.task_id, outcome), 1.0)


def timed(found, task, count=3):
    outcome = SamplesOutcome((1_000_000,) * count, 0.1, 0)
    return found.handle(events.Answered(task.task_id, outcome), 2.0)


def test_flushes_are_timed_idle_and_beside_a_load_that_is_kept_up():
    found = machine(LoadPoint.FDATASYNC_TIMER, LoadPoint.OSD_BENCH_BATCH)
    assert [(s.load_point, s.beside) for s in found.spec.experiments] == [
        (LoadPoint.FDATASYNC_TIMER, None), (LoadPoint.OSD_BENCH_BATCH, None),
        (LoadPoint.FDATASYNC_TIMER, LoadPoint.OSD_BENCH_BATCH),
    ]
    actions = looked(found, found.handle(events.Begin(), 0.0))
    assert isinstance(only(actions, events.GiveTask).request, TimerRequest)
    actions = looked(found, timed(found, only(actions, events.GiveTask)))
    actions = looked(found, actions)  # before the batch
    load = only(actions, events.MeasureLoad)
    actions = found.handle(events.Answered(load.token, LoadSamples(1.0, (5, 5), (), 100)), 3.0)
    actions = looked(found, looked(found, actions))  # after it, and before the timer
    kinds = [type(action) for action in actions]
    assert kinds == [events.GiveTask, events.MeasureLoad], "a task ends what is measured elsewhere"
    timer, first = only(actions, events.GiveTask), only(actions, events.MeasureLoad)
    again = found.handle(events.Answered(first.token, LoadSamples(1.0, (5,), (), 10)), 4.0)
    second = only(again, events.MeasureLoad)
    assert timed(found, timer) == [], "the round under way ends by itself"
    actions = found.handle(events.Answered(second.token, LoadSamples(1.0, (5,), (), 10)), 5.0)
    looked(found, actions)
    assert found.state.status is RunStatus.DONE
    idle, batch, beside = found.state.observed
    assert (idle.bytes_written, batch.bytes_written, beside.bytes_written) == (0, 100, 20)
    assert (beside.table.n, beside.note) == (3, "")


def test_flushes_timed_after_the_load_beside_them_has_ended_are_not_shown():
    found = machine(LoadPoint.FDATASYNC_TIMER, LoadPoint.OSD_BENCH_BATCH)
    beside = make.run_spec(found.spec.experiments[2], observes=True)
    found = machine_of(RunState(beside, RunStatus.WAITING), [{}], "1")
    actions = looked(found, found.handle(events.Begin(), 0.0))
    timer, load = only(actions, events.GiveTask), only(actions, events.MeasureLoad)
    for _ in range(BESIDE_ROUNDS_MAX):
        given = found.handle(events.Answered(load.token, LoadSamples(1.0, (5,), (), 10)), 4.0)
        load = given[0] if given else None
    assert load is None, "no more rounds than were forecast"
    looked(found, timed(found, timer))
    (one,) = found.state.observed
    assert (one.table.n, one.note) == (0, NOT_KEPT_UP)
    most = BESIDE_ROUNDS_MAX * BESIDE_CALLS * WRITE_BYTES[LoadPoint.OSD_BENCH_BATCH]
    assert one.bytes_written <= most


def test_a_mode_that_changes_meanwhile_is_said_with_the_table():
    found = machine(LoadPoint.FDATASYNC_TIMER)
    actions = looked(found, found.handle(events.Begin(), 0.0))
    looked(found, timed(found, only(actions, events.GiveTask)), make.state(WT))
    (one,) = found.state.observed
    assert (one.note, one.mode) == (CHANGED, None)


def test_what_bcache_was_set_to_is_told_with_each_table_and_where_it_crossed_its_target():
    found = machine(LoadPoint.FDATASYNC_TIMER)

    def look(actions, dirty_bytes):
        task = only(actions, events.GiveTask)
        above = BcacheState("bcache0", True, "writeback", 4 * 2**20, dirty_bytes, 10 * 2**30, 4096)
        outcome = replace(make_state(make.state(WB)), bcache=(above,))
        return found.handle(events.Answered(task.task_id, outcome), 1.0)

    actions = look(found.handle(events.Begin(), 0.0), 9 * 2**30)
    look(timed(found, only(actions, events.GiveTask)), 11 * 2**30)
    (one,) = found.state.observed
    assert [reading.dirty_bytes for reading in one.bcache] == [9 * 2**30, 11 * 2**30]
    text = "\n".join(observed_text([{**codec.to_plain(one), "dev_names": ["nvme0n1"]}]))
    assert "cache of bcache0 (writeback, sequential cutoff 4.0 MiB, dirty 11.0 GiB of" in text
    assert "the dirty data of bcache0 crossed its target meanwhile" in text


def test_a_load_that_cannot_be_measured_is_told_and_the_next_one_is_measured():
    found = machine(LoadPoint.FDATASYNC_TIMER, LoadPoint.OSD_TRAFFIC)
    actions = looked(found, found.handle(events.Begin(), 0.0))
    task = only(actions, events.GiveTask)
    refused = FailureOutcome("the kernel sends no flush", refused=True)
    actions = looked(found, found.handle(events.Answered(task.task_id, refused), 1.0))
    load = only(actions, events.MeasureLoad)
    assert load.request.spread
    assert load.request.histogram
    looked(found, found.handle(events.Answered(load.token, LoadSamples(30.0)), 40.0))
    timer, traffic = found.state.observed
    assert (timer.note, timer.mode) == ("the kernel sends no flush", WB)
    assert (traffic.note, traffic.table.n) == (NO_SAMPLE, 0)
    assert found.state.status is RunStatus.DONE


def test_past_the_latency_limit_the_run_ends_and_says_so():
    found = machine(LoadPoint.OSD_TRAFFIC, LoadPoint.FDATASYNC_TIMER)
    actions = looked(found, found.handle(events.Begin(), 0.0))
    load = only(actions, events.MeasureLoad)
    slow = LoadSamples(1.0, (3_000_000_000,), aborted="osd.0 took 3000 ms, past the limit")
    looked(found, found.handle(events.Answered(load.token, slow), 2.0))
    assert found.state.status is RunStatus.ABORTED
    assert "past the limit" in found.state.reason
    assert [one.table.n for one in found.state.observed] == [1]


def test_answers_of_another_load_or_mgr_are_not_taken():
    found = machine(LoadPoint.FDATASYNC_TIMER)
    first = only(found.handle(events.Begin(), 0.0), events.GiveTask)
    looked(found, [first])
    assert found.handle(events.Answered(first.task_id, make_state(make.state(WB))), 1.0) == []
    assert found.handle(events.Answered("c1.0.9.9", LoadSamples(1.0)), 1.0) == []
    assert found.state.observed == ()


# ---- numbers


def test_writes_with_data_are_told_apart_from_flushes_over_all_drives():
    before = (FlushCounters(0, 100, 10, 0), FlushCounters(0, 0, 0, 0))
    after = (FlushCounters(2 * 10**9, 160, 30, 0), FlushCounters(2 * 10**9, 10, 10, 0))
    assert rates(before, after) == (20.0, 15.0)
    assert rates((), ()) == (None, None)
    assert rates(after, before) == (None, None)


@examples(50)
@given(st.lists(st.integers(1, 10**9), min_size=2, max_size=200))
def test_the_table_of_a_histogram_is_within_a_bucket_of_the_truth(samples_ns):
    upper = [100_000 * 2**i for i in range(16)]
    counts = [0] * len(upper)
    for one in samples_ns:
        counts[next(i for i, high in enumerate(upper) if one < high)] += 1
    table = of_histogram(LatencyHistogram(tuple(upper), tuple(counts)))
    assert table.n == len(samples_ns)
    assert table.p99 is None, "fewer than 299"
    ordered = [table.min, table.p25, table.p50, table.p75, table.p90, table.max]
    assert [round(us, 6) for us in ordered] == sorted(round(us, 6) for us in ordered)
    assert table.min <= min(samples_ns) / 1e3 <= max(samples_ns) / 1e3 <= table.max
    middle = sorted(samples_ns)[(len(samples_ns) - 1) // 2] / 1e3
    assert table.p50 >= middle / 2 - 100
    assert table.p50 <= 2 * max(middle, 100.0) or table.p50 <= table.max
