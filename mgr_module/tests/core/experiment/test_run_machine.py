"""A run measures each period once and always ends with a release."""

from dataclasses import replace

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from mgr_fakes import builders as make
from run_world import OTHER_DRIVE, WB, WT, Mgr, begun, counters
from wcache.core import codec, events
from wcache.core.drive.prior import PriorDoubt
from wcache.core.experiment.run_state import RunState, RunStatus
from wcache.core.loads import SAMPLES
from wcache.core.model import Arm, DeviceCache, LoadPoint
from wcache.core.protocol import (
    CountersRequest,
    FailureOutcome,
    ReleaseRequest,
    ReportOutcome,
    SetModeRequest,
    StateOutcome,
)

EVENTS = st.sampled_from(
    ["answer"] * 12
    + ["lost mgr"] * 3
    + ["lease", "fail", "load fails", "slow", "unusable", "decided", "no numpy", "silent", "halt",
       "odd", "other state", "wrong mode", "stale", "tick", "empty"]
)


@pytest.mark.slow
@examples(150)
@given(st.data())
def test_whatever_happens_no_period_is_measured_twice_and_the_run_ends_with_a_release(data):
    setups = [
        make.setup(
            point, seed=index, pairs_max=data.draw(st.integers(4, 8)),
            watch_samples=data.draw(st.sampled_from([0, 6])),
        )
        for index, point in enumerate(
            data.draw(st.lists(st.sampled_from(list(SAMPLES)), min_size=1, max_size=3))
        )
    ]
    if data.draw(st.booleans()):
        setups = [replace(setup, crossed=OTHER_DRIVE) for setup in setups]
    mgr = begun(
        *setups,
        seconds_max=data.draw(st.sampled_from([3.0, 12.0, 1e6])),
        bytes_max=data.draw(st.sampled_from([10**5, 10**7, 2**40])),
    )
    for _ in range(data.draw(st.integers(0, 80))):
        if mgr.machine.over:
            break
        happens(mgr, data.draw(EVENTS), data)
    mgr.finish()
    mgr.check_records()
    assert mgr.machine.state.status in (RunStatus.DONE, RunStatus.ABORTED)
    assert mgr.ended_by or not mgr.touched
    if "release" in mgr.ended_by and "lasted" not in mgr.ended_by:
        assert mgr.released >= mgr.touched
    if mgr.machine.state.restored:
        assert set(mgr.modes.values()) == {WB}
    else:
        assert mgr.machine.state.owed
    assert codec.loads(RunState, mgr.stored, bytes_max=10**6, what="run") == mgr.machine.state
    others = (events.Tick(), events.Begin(), events.Halt("again"), events.LeaseLost("x"))
    for event in (*others, *mgr.stale):
        assert mgr.machine.handle(event, mgr.now_s + 1) == []


def happens(mgr, what, data):  # noqa: C901
    mgr.now_s += 0.1
    if what == "answer":
        mgr.answer()
    elif what == "lost mgr":
        mgr.answer(lost_after=data.draw(st.integers(0, 4)))
    elif what == "lease":
        releasing = isinstance(mgr.task and mgr.task.request, ReleaseRequest)
        mgr.give(events.LeaseLost("the probe was restarted"))
        if releasing and mgr.machine.over:
            mgr.ended_by = "no release that lasted"
            assert not mgr.machine.state.restored
    elif what == "fail" and mgr.task:
        if isinstance(mgr.task.request, ReleaseRequest):
            mgr.ended_by = "failed release"
        outcome = FailureOutcome("x" * 1024, "y" * 1024, restored=False)
        mgr.give(events.Answered(mgr.task.task_id, outcome))
    elif what == "other state" and mgr.task and isinstance(mgr.task.request, SetModeRequest):
        differs = FailureOutcome("sda is in write through", doubt=PriorDoubt.OTHER_STATE)
        task, mgr.task = mgr.task, None  # it was refused: there is no other answer to come
        mgr.give(events.Answered(task.task_id, differs))
        if task.request.prior not in mgr.machine.state.priors:
            mgr.touched.discard(task.request.domain_id)  # looked at anew, since untouched
    elif what == "load fails" and mgr.load:
        failed = events.LoadFailed("osd.0 said\n\x1b[31mno" + "!" * 3000)
        mgr.give(events.Answered(mgr.load.token, failed))
    elif what in ("slow", "unusable", "empty") and mgr.load:
        words = {"slow": {"aborted": "too slow"}, "unusable": {"unusable": "no traffic"}}
        found = mgr.good_samples()
        if what == "empty":
            found = replace(found, samples_ns=())
        mgr.give(events.Answered(mgr.load.token, replace(found, **words.get(what, {}))))
    elif what in ("decided", "no numpy") and mgr.look:
        failed = "" if what == "decided" else "numpy is missing\n"
        mgr.give(events.Decided(mgr.look.token, what == "decided", failed))
    elif what == "silent":
        mgr.ended_by = "silence"
        mgr.give(events.AgentSilent("not heard"))
    elif what == "halt":
        mgr.give(events.Halt("frozen"))
    elif what == "odd" and mgr.task:
        if isinstance(mgr.task.request, ReleaseRequest):
            mgr.ended_by = "failed release"
        mgr.give(events.Answered(mgr.task.task_id, ReportOutcome(make.report("h1"))))
    elif what == "wrong mode" and mgr.task and isinstance(mgr.task.request, CountersRequest):
        now = (make.state(mgr.modes[mgr.task.request.domain_id].other),)
        mgr.give(events.Answered(mgr.task.task_id, StateOutcome(now, now, counters(), False)))
    elif what == "stale" and mgr.stale:
        before = mgr.machine.state
        assert mgr.machine.handle(data.draw(st.sampled_from(mgr.stale)), mgr.now_s) == []
        assert mgr.machine.state == before
    elif what == "tick":
        mgr.give(events.Tick())


def test_each_pair_is_in_the_record_once_and_in_the_order_of_the_coin():
    mgr = begun(make.setup(pairs_max=8, seed=3))
    mgr.finish()
    (record,) = mgr.records.values()
    assert len(record.pairs) == 8
    mgr.check_records()
    assert {pair.first for pair in record.pairs} == set(Arm)
    assert mgr.machine.state.status is RunStatus.DONE
    assert record.bytes_written == 8 * 2 * SAMPLES[LoadPoint.OSD_BENCH_DEPTH1] * 4096


def test_no_numpy_means_a_fixed_number_of_pairs_and_a_record_that_says_so():
    mgr = begun(make.setup(pairs_max=40))
    while not mgr.machine.over:
        if mgr.look:
            mgr.give(events.Decided(mgr.look.token, False, "numpy is missing"))
        mgr.answer()
    (record,) = mgr.records.values()
    assert len(record.pairs) == 8
    assert "numpy is missing" in record.ended


def test_a_probe_that_restarts_while_it_releases_is_asked_to_prove_the_restore():
    mgr = begun()
    mgr.answer()
    mgr.give(events.Halt("stop"))
    old = mgr.task
    mgr.give(events.LeaseLost("the probe was restarted"))
    assert not mgr.machine.over
    assert mgr.task.task_id != old.task_id
    mgr.give(events.Answered(mgr.task.task_id, FailureOutcome("no such drive", restored=False)))
    assert mgr.machine.over
    assert not mgr.machine.state.restored


def test_a_probe_that_keeps_restarting_while_it_releases_ends_the_run_unrestored():
    mgr = begun()
    mgr.answer()
    mgr.give(events.Halt("stop"))
    for _ in range(10):
        mgr.give(events.LeaseLost("the probe was restarted"))
    assert mgr.machine.over
    assert not mgr.machine.state.restored


ON, OFF = make.state(WB), make.state(WT)


@pytest.mark.parametrize(("ids", "after", "restored"), [
    (("wwn-domain-sda",), (ON,), True), (("wwn-domain-sda",), (OFF,), False), ((), (), False),
    (("another",), (ON,), False), ((), (ON,), False),
], ids=["as it was", "in the other mode", "nothing read", "another drive", "no names"])
@pytest.mark.parametrize("fails", [False, True])
def test_restored_is_said_of_a_drive_that_was_read_as_it_was_and_of_no_other(
    ids, after, restored, fails
):
    mgr = begun()
    while not isinstance(mgr.task and mgr.task.request, SetModeRequest):
        mgr.answer()
    mgr.answer()
    mgr.give(events.Halt("stop"))
    assert isinstance(mgr.task.request, ReleaseRequest)
    answer = StateOutcome(after, after, counters(), True, ids)
    if fails:  # what it says of itself is not enough
        answer = FailureOutcome("broken off", restored=True, drive_ids=ids, after=after)
    mgr.give(events.Answered(mgr.task.task_id, answer))
    assert mgr.machine.over
    assert mgr.machine.state.restored is restored


@pytest.mark.parametrize("phase", [SetModeRequest, CountersRequest])
def test_a_probe_that_shows_no_drive_or_the_wrong_mode_proves_nothing(phase):
    for states in ((), (make.state(WB, device_cache=DeviceCache.UNKNOWN),)):
        mgr = begun()
        while not (mgr.task and isinstance(mgr.task.request, phase)):
            mgr.answer()
        saved = set(mgr.measured)
        answer = StateOutcome(states, states, counters(), True)
        mgr.give(events.Answered(mgr.task.task_id, answer))
        assert mgr.measured == saved


def test_a_drive_changed_behind_our_back_is_measured_again_a_bounded_number_of_times():
    mgr = begun()
    wrong = 0
    while not isinstance(mgr.task and mgr.task.request, ReleaseRequest):
        if mgr.task and isinstance(mgr.task.request, CountersRequest):
            now = (make.state(mgr.modes[mgr.task.request.domain_id].other),)
            outcome = StateOutcome(now, now, counters(), False)
            mgr.give(events.Answered(mgr.task.task_id, outcome))
            wrong += 1
        else:
            mgr.answer()
    assert wrong == 3
    assert mgr.measured == set()
    assert "3 times in one period" in mgr.machine.state.reason


def test_a_run_that_never_began_ends_without_touching_anything():
    mgr = Mgr(make.run_spec(make.setup()))
    todo = mgr.machine.handle(events.Halt("frozen"), 1.0)
    assert not [a for a in todo if isinstance(a, events.GiveTask)]
    assert mgr.machine.state.restored
