"""What a run may cost holds, whatever ends a period, and its accounting has all that it cost."""

from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from run_world import OTHER_DRIVE, WB, WT, begun
from wcache.core import events
from wcache.core.experiment.budget import client_wait_s
from wcache.core.experiment.factorial import measured_in
from wcache.core.experiment.run_state import RunStatus
from wcache.core.loads import SAMPLES
from wcache.core.model import LoadPoint
from wcache.core.protocol import (
    CountersRequest,
    ReleaseRequest,
    SamplesOutcome,
    SetModeRequest,
    TimerRequest,
)
from wcache.core.record import CounterDelta


def test_a_halt_during_a_bench_counts_what_the_bench_may_still_write():
    mgr = begun(make.setup(LoadPoint.OSD_BENCH_BATCH))
    while not mgr.load:
        mgr.answer()
    mgr.give(events.Halt("stopped by an admin"))
    assert isinstance(mgr.task.request, ReleaseRequest)
    assert mgr.machine.bytes_spent == sum(mgr.bytes_begun.values())
    mgr.finish()
    assert mgr.machine.state.status is RunStatus.ABORTED
    assert mgr.machine.state.reason == "stopped by an admin"


def test_budgets_outlive_a_restart_after_an_experiment_was_recorded():
    first, second = make.setup(pairs_max=4), make.setup(pairs_max=4, seed=8)
    mgr = begun(first, second)
    while not mgr.records:
        mgr.answer()
    spent_s, spent_bytes = mgr.machine.seconds_spent, mgr.machine.bytes_spent
    assert spent_bytes == 4 * 2 * SAMPLES[LoadPoint.OSD_BENCH_DEPTH1] * 4096
    mgr.restart()
    assert mgr.machine.seconds_spent >= spent_s
    assert mgr.machine.bytes_spent >= spent_bytes


def test_a_hostile_duration_neither_ends_a_budget_nor_escapes_it():
    timer = make.setup(LoadPoint.FDATASYNC_TIMER)
    mgr = begun(timer, seconds_max=30.0)
    while not mgr.machine.over:
        if mgr.task and isinstance(mgr.task.request, TimerRequest):
            outcome = SamplesOutcome((1,) * 32, -1e12, 0)
            mgr.give(events.Answered(mgr.task.task_id, outcome))
        else:
            mgr.answer()
    assert mgr.machine.seconds_spent > 0


HALF = (CounterDelta("txc_commit_lat", 0.4, 50),)


def traffic_until_over(mgr, wait_s, *, same=False):
    """Feed 100 commits a period, `wait_s` of write back and of write through; say `same`."""
    while not mgr.machine.over:
        if mgr.load:
            mode = mgr.modes["domain-sda"]
            delta = (CounterDelta("txc_commit_lat", 100 * wait_s[mode], 100),)
            samples = events.LoadSamples(2.0, (), delta, later_counters=HALF)
            mgr.give(events.Answered(mgr.load.token, samples))
        elif mgr.look:
            mgr.give(events.Decided(mgr.look.token, False, same=same))
        else:
            mgr.answer()
    (record,) = mgr.records.values()
    return record


def test_what_clients_may_wait_is_a_budget_of_its_own():
    setup = make.setup(LoadPoint.OSD_TRAFFIC, pairs_max=40)
    record = traffic_until_over(begun(setup, client_wait_max_s=50.0), {WB: 0.08, WT: 0.01})
    assert "50 s of client waiting is spent" in record.ended
    # 7 s longer in each period in write back
    assert len(record.pairs) == 7
    assert record.pairs[0].a.later_counters == HALF
    assert record.bytes_written == 0
    periods = [p for pair in record.pairs for p in (pair.a, pair.b)]
    assert client_wait_s(setup, periods) == pytest.approx(49.0)


def test_showing_that_nothing_differs_has_a_smaller_budget_than_finding_a_difference():
    setup = make.setup(LoadPoint.OSD_TRAFFIC, pairs_max=40)
    ended = {
        same: traffic_until_over(
            begun(setup, seconds_max=60.0, same_share=0.5), {WB: 0.01, WT: 0.01}, same=same
        )
        for same in (False, True)
    }
    assert "budget of 60 s is spent" in ended[False].ended
    assert "budget of 30 s for showing that there is no difference is spent" in ended[True].ended
    assert 50 < ended[False].seconds <= 60
    assert 20 < ended[True].seconds <= 30


def test_where_both_have_the_same_budget_its_end_names_that_budget_alone():
    setup = make.setup(LoadPoint.OSD_TRAFFIC, pairs_max=40)
    run = begun(setup, seconds_max=60.0, same_share=1.0)
    ended = traffic_until_over(run, {WB: 0.01, WT: 0.01}, same=True).ended
    assert ended == "budget of 60 s is spent"


def test_a_budget_is_not_exceeded_by_the_pair_that_would_be_next():
    each = SAMPLES[LoadPoint.OSD_BENCH_DEPTH1] * 4096
    mgr = begun(make.setup(pairs_max=20), bytes_max=9 * each)
    mgr.finish()
    (record,) = mgr.records.values()
    assert len(record.pairs) == 4, "a fifth would have taken ten periods' bytes"
    assert record.bytes_written == 8 * each


def hangs(mgr, period):
    """Answer all but the measurement of one period, and let time pass until the next wake."""
    seen = 0
    while mgr.machine.state.index == 0:
        if mgr.measures():
            seen += 1
            if seen > period:
                assert mgr.now_s < mgr.machine.wake_at_s
                mgr.now_s = mgr.machine.wake_at_s
                mgr.give(events.Tick())
                return
        mgr.answer()


@pytest.mark.parametrize("period", [0, 3, 9])
@pytest.mark.parametrize("point", [LoadPoint.OSD_BENCH_4M, LoadPoint.OSD_TRAFFIC])
def test_a_period_that_does_not_end_is_cut_off_where_the_budget_ends(point, period):
    mgr = begun(make.setup(point, pairs_max=40), make.setup(seed=8), seconds_max=60.0)
    began_s = mgr.now_s
    hangs(mgr, period)
    assert mgr.machine.seconds_spent == pytest.approx(60.0)
    assert mgr.now_s - began_s >= 60.0
    (record,) = mgr.records.values()
    assert record.ended == "the budget ran out during a period"
    assert record.interrupted_periods == 1 + period % 2
    assert len(record.pairs) == period // 2
    assert isinstance(mgr.task.request, SetModeRequest)
    mgr.finish()
    assert mgr.machine.state.status is RunStatus.DONE


def test_a_bench_is_cut_off_where_clients_have_waited_enough():
    setup = make.setup(LoadPoint.OSD_BENCH_4M, pairs_max=40)
    mgr = begun(setup, make.setup(seed=8), client_wait_max_s=20.0)
    hangs(mgr, 5)
    (record,) = mgr.records.values()
    periods = [p for pair in record.pairs for p in (pair.a, pair.b)]
    waited_s = client_wait_s(setup, periods)
    assert waited_s < 20.0
    assert record.interrupted_seconds + waited_s < 25.0


def late(mgr, request, period):
    """Let the answer to a task of one period come 100 s late, with a tick before it or not."""
    while len(mgr.measured) < period or not isinstance(mgr.task and mgr.task.request, request):
        mgr.answer()
    mgr.now_s += 100.0


@pytest.mark.parametrize("ticks", [True, False])
@pytest.mark.parametrize("request_of", [SetModeRequest, CountersRequest])
def test_a_probe_that_answers_late_does_not_stretch_the_budget(request_of, ticks):
    mgr = begun(make.setup(pairs_max=40), make.setup(seed=8), seconds_max=60.0)
    late(mgr, request_of, 6)
    measured = set(mgr.measured)
    if ticks:
        mgr.give(events.Tick())
    else:
        mgr.answer()
    assert mgr.machine.state.index == 1
    assert mgr.measured == measured
    (record,) = mgr.records.values()
    assert record.ended == "the budget ran out during a period"
    mgr.finish()
    assert mgr.machine.state.status is RunStatus.DONE


def test_restarts_of_the_mgr_do_not_stretch_the_budget():
    mgr = begun(make.setup(LoadPoint.OSD_BENCH_4M, pairs_max=40), seconds_max=60.0)
    began_s = mgr.now_s
    while mgr.machine.state.index == 0 and not mgr.machine.over:
        assert mgr.now_s - began_s < 200.0
        if mgr.measures():
            mgr.now_s += 25.0
            mgr.restart()
        else:
            mgr.answer()
    assert mgr.now_s - began_s <= 60.0 + 25.0
    assert mgr.machine.seconds_spent <= 60.0


@pytest.mark.parametrize("crossed", [None, OTHER_DRIVE])
def test_a_record_that_ends_in_the_middle_of_a_pair_tells_of_all_it_cost(crossed):
    setup = replace(make.setup(LoadPoint.OSD_BENCH_4M, pairs_max=40), crossed=crossed)
    mgr = begun(setup, make.setup(seed=8), seconds_max=60.0)
    hangs(mgr, 7)
    record = next(r for r in mgr.records.values() if not measured_in(r.record_id))
    assert record.seconds == pytest.approx(mgr.machine.seconds_spent)
    assert record.bytes_written == mgr.machine.bytes_spent
    assert record.interrupted_periods == (2 if crossed is None else 4)


def test_a_timer_is_given_no_more_time_than_the_budget_has_left():
    mgr = begun(make.setup(LoadPoint.FDATASYNC_TIMER, pairs_max=40), seconds_max=8.0)
    while not isinstance(mgr.task.request, TimerRequest):
        mgr.answer()
    asked = mgr.task.request.seconds_max
    assert asked == pytest.approx(mgr.machine.wake_at_s - mgr.now_s)
    assert 0 < asked < 8.0
