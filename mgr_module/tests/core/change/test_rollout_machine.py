"""A rollout proves each change, takes back what got worse, and survives any loss of the mgr."""

from dataclasses import replace

import pytest
from examples import examples
from gated_plan import GatedMgr
from hypothesis import given
from hypothesis import strategies as st
from mgr_fakes import builders as make
from rollout_world import WB, WT, begun, change
from wcache.core import codec, events
from wcache.core.change.asking import PROBE_AWAITED_S
from wcache.core.change.change import ChangeStatus
from wcache.core.change.rollout_state import Rollout, RolloutStatus
from wcache.core.drive.prior import PriorDoubt
from wcache.core.protocol import (
    ApplyRequest,
    FailureOutcome,
    ReportOutcome,
    RollbackRequest,
    StateOutcome,
)
from wcache.core.record import Precondition


def test_changes_that_help_are_applied_and_proven_in_order_and_a_rollback_goes_backwards():
    mgr = begun(change(0), change(1), change(2))
    mgr.finish()
    assert mgr.machine.rollout.status is RolloutStatus.DONE
    assert mgr.log == [("ApplyRequest", f"domain-{i}") for i in (0, 1, 2)]
    assert [c.before_us / c.after_us for c in mgr.machine.rollout.changes] == [5.0] * 3
    assert all(c.bytes_written == 8192 for c in mgr.machine.rollout.changes)
    before = mgr.machine.rollout
    assert mgr.machine.handle(events.Begin(), mgr.now_s) == [], "it is not begun again"
    assert mgr.machine.rollout == before
    mgr.log.clear()
    mgr.run(mgr.machine.start_rollback())
    mgr.finish()
    assert mgr.log == [("RollbackRequest", f"domain-{i}") for i in (2, 1, 0)]


def test_the_canary_is_watched_for_its_time_and_the_next_one_only_settles():
    mgr = begun(change(0), change(1))
    mgr.until(ApplyRequest)
    mgr.answer()
    assert mgr.machine.wake_at_s == mgr.now_s + 60.0
    mgr.give(events.Tick())
    assert mgr.load is None
    mgr.answer()
    mgr.until(ApplyRequest)
    mgr.answer()
    assert mgr.machine.wake_at_s == mgr.now_s + 1.0


def test_a_change_that_made_it_worse_goes_back_and_the_next_is_not_begun():
    mgr = begun(change(0), change(1), gain=0.5)
    mgr.finish()
    assert mgr.modes == {"domain-0": WB, "domain-1": WB}
    assert mgr.statuses == [ChangeStatus.ROLLED_BACK, ChangeStatus.PLANNED]
    assert mgr.machine.rollout.status is RolloutStatus.ROLLED_BACK
    assert "20.00 ms -> 40.00 ms (+100%)" in mgr.machine.rollout.reason


def test_a_second_change_that_is_worse_leaves_the_first_applied():
    mgr = begun(change(0), change(1))
    while mgr.statuses[0] is not ChangeStatus.APPLIED:
        mgr.answer()
    mgr.gain = 0.5
    mgr.finish()
    assert mgr.statuses == [ChangeStatus.APPLIED, ChangeStatus.ROLLED_BACK]
    assert mgr.machine.rollout.status is RolloutStatus.STOPPED
    assert mgr.modes == {"domain-0": WT, "domain-1": WB}


def test_a_refused_change_stops_the_rollout_and_is_no_reason_to_roll_back():
    mgr = begun(change(0), change(1))
    mgr.until(ApplyRequest)
    refused = FailureOutcome("x" * 1024, "y" * 1024, refused=True)
    mgr.give(events.Answered(mgr.task.task_id, refused))
    assert mgr.statuses == [ChangeStatus.FAILED, ChangeStatus.PLANNED]
    assert mgr.machine.rollout.status is RolloutStatus.STOPPED
    codec.loads(Rollout, mgr.stored, bytes_max=10**6, what="rollout")


REFUSES = FailureOutcome("sd0 does not let its cache be set", refused=True, by_drive=True)


def refuse(mgr):
    """The drive under way refuses, and is as it was."""
    mgr.until(ApplyRequest)
    mgr.give(events.Answered(mgr.task.task_id, REFUSES))


def test_a_drive_that_refuses_is_told_as_that_and_the_next_one_is_the_canary():
    mgr = begun(change(0), change(1), change(2))
    refuse(mgr)
    assert mgr.statuses == [ChangeStatus.REFUSED, ChangeStatus.PLANNED, ChangeStatus.PLANNED]
    assert "does not let" in mgr.machine.rollout.changes[0].detail
    mgr.until(ApplyRequest)
    mgr.answer()
    assert mgr.machine.wake_at_s == mgr.now_s + 60.0
    mgr.finish()
    assert mgr.statuses == [ChangeStatus.REFUSED, ChangeStatus.APPLIED, ChangeStatus.APPLIED]
    assert mgr.machine.rollout.status is RolloutStatus.DONE
    assert mgr.machine.rollout.reason == "1 refused by the drive"
    assert mgr.modes["domain-0"] is WB
    assert mgr.machine.rollout.changes[0] not in mgr.machine.rollout.touched


@pytest.mark.parametrize("fails", [
    replace(REFUSES, restored=False), FailureOutcome("the drive is gone", restored=False),
])
def test_a_drive_that_refuses_and_is_not_as_it_was_goes_back_and_ends_the_rollout(fails):
    mgr = begun(change(0), change(1))
    mgr.until(ApplyRequest)
    mgr.modes["domain-0"], mgr.prior["p1.0"] = WT, WB
    mgr.give(events.Answered(mgr.task.task_id, fails))
    errors = [note.text for note in mgr.notes if note.severity == "error"]
    assert any("prior cache mode NOT restored" in text for text in errors)
    assert isinstance(mgr.task.request, RollbackRequest)
    mgr.finish()
    assert mgr.modes == {"domain-0": WB, "domain-1": WB}
    assert mgr.statuses[1] is ChangeStatus.PLANNED


def test_three_drives_of_a_model_that_refuse_in_a_row_are_enough():
    mgr = GatedMgr()
    mgr.give(events.Begin())
    for _ in range(3):
        assert not mgr.machine.paused
        while not (mgr.task and isinstance(mgr.task.request, ApplyRequest)):
            assert mgr.step()
        task, mgr.task = mgr.task, None
        mgr.give(events.Answered(task.task_id, REFUSES))
    assert mgr.machine.paused
    assert "3 drives of one model in a row refused it" in mgr.machine.rollout.reason
    assert "does not let" in mgr.machine.rollout.reason
    mgr.run(mgr.machine.resume(mgr.now_s))
    assert mgr.to_the_end()
    assert mgr.machine.rollout.status is RolloutStatus.DONE
    assert [mode for mode in mgr.modes.values()] == [WB, WB, WB, WT]


def test_a_drive_that_takes_it_in_between_begins_the_count_anew():
    mgr = begun(*(change(i) for i in range(6)))
    for _ in range(2):
        refuse(mgr)
    mgr.until(ApplyRequest)
    mgr.answer()
    while mgr.statuses[2] is not ChangeStatus.APPLIED:
        mgr.answer()
    for _ in range(2):
        refuse(mgr)
    assert mgr.machine.rollout.status is RolloutStatus.RUNNING
    refuse(mgr)
    assert mgr.machine.rollout.status is RolloutStatus.PAUSED
    assert mgr.modes["domain-2"] is WT


def test_unchanged_is_said_where_the_drive_was_so_already():
    mgr = begun(change(0), change(1))
    mgr.modes["domain-0"] = WT
    mgr.gain = 1.0
    mgr.finish()
    assert mgr.statuses == [ChangeStatus.UNCHANGED, ChangeStatus.APPLIED]


def test_a_mgr_lost_after_the_drive_was_changed_still_knows_that_it_can_go_back():
    mgr = begun()
    mgr.until(ApplyRequest)
    mgr.answer(lose_answer=True)
    assert mgr.modes == {"domain-0": WT}
    mgr.finish()
    assert mgr.statuses == [ChangeStatus.APPLIED]
    mgr.run(mgr.machine.start_rollback())
    mgr.finish()
    assert mgr.modes == {"domain-0": WB}


@pytest.mark.slow
@examples(120)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=12),
    st.sampled_from([5.0, 1.0, 0.5]),
    st.sampled_from(["nothing", "halt", "silent"]),
    st.integers(0, 12),
)
def test_losing_the_mgr_anywhere_never_loses_a_prior_state(losses, gain, event, at):
    mgr = begun(change(0), change(1), change(2), gain=gain)
    lost = dict(enumerate(losses))
    for step in range(60):
        if mgr.machine.over:
            break
        if step == at and event != "nothing":
            mgr.give(events.Halt("frozen") if event == "halt" else events.AgentSilent("not heard"))
            continue
        after, answer_lost = lost.get(step, (None, False))
        mgr.answer(lost_after=after, lose_answer=answer_lost)
    mgr.finish()
    touched = {c.domain_id for c in mgr.machine.rollout.touched}
    for domain_id, mode in mgr.modes.items():
        assert mode is WB or domain_id in touched, "a changed drive that nobody knows of"
    if gain < 1 and event == "nothing":
        assert all(mode is WB for mode in mgr.modes.values())
    mgr.run(mgr.machine.start_rollback())
    mgr.finish()
    assert all(mode is WB for mode in mgr.modes.values())
    assert mgr.machine.rollout.status is RolloutStatus.ROLLED_BACK


def test_a_rollback_that_fails_is_kept_and_can_be_tried_again():
    mgr = begun(change(0), change(1))
    mgr.finish()
    mgr.run(mgr.machine.start_rollback())
    mgr.give(events.Answered(mgr.task.task_id, FailureOutcome("no such drive")))
    mgr.finish()
    assert mgr.statuses == [ChangeStatus.ROLLED_BACK, ChangeStatus.ROLLBACK_FAILED]
    assert mgr.machine.rollout.status is RolloutStatus.STOPPED
    mgr.run(mgr.machine.start_rollback())
    mgr.finish()
    assert mgr.modes == {"domain-0": WB, "domain-1": WB}


KEEPS_OFF = make.state(WB, page=replace(make.state(WB).page, saved=WT))


@pytest.mark.parametrize(("ids", "after"), [
    (("d",), (make.state(WT),)), (("d",), (KEEPS_OFF,)), ((), ()),
    (("another",), (make.state(WB),)), ((), (make.state(WB),)), (("d", "e"), (make.state(WB),)),
], ids=["changed", "keeps another", "nothing read", "another drive", "no names", "too many names"])
def test_rolled_back_is_said_of_a_drive_that_was_read_as_it_was_and_of_no_other(ids, after):
    mgr = begun(change(0), change(1))
    mgr.finish()
    mgr.run(mgr.machine.start_rollback())
    assert isinstance(mgr.task.request, RollbackRequest)
    said = StateOutcome(after, after, (), True, ids)
    mgr.give(events.Answered(mgr.task.task_id, said))
    mgr.finish()
    assert mgr.statuses == [ChangeStatus.ROLLED_BACK, ChangeStatus.ROLLBACK_FAILED]
    assert mgr.machine.rollout.status is RolloutStatus.STOPPED
    assert [item.domain_id for item in mgr.machine.rollout.touched] == ["domain-1"]
    mgr.run(mgr.machine.start_rollback())
    mgr.finish()
    assert mgr.machine.rollout.status is RolloutStatus.ROLLED_BACK
    assert mgr.modes == {"domain-0": WB, "domain-1": WB}


def fall_silent(mgr, where):
    """Its probe is not heard before the change, while it is made, or after it."""
    if where != "before":
        mgr.until(ApplyRequest)
    if where == "after":
        mgr.answer()
    mgr.give(events.AgentSilent("the probe on h0 is silent"))


@pytest.mark.parametrize("where", ["before", "changing", "after"])
def test_a_silent_probe_is_waited_for_and_the_rollout_goes_on_where_it_stood(where):
    mgr = begun()
    fall_silent(mgr, where)
    assert mgr.machine.rollout.missed == (Precondition.PROBES_HEARD,)
    mgr.finish()
    assert mgr.machine.rollout.status is RolloutStatus.DONE
    assert mgr.modes == {"domain-0": WT}
    assert mgr.log.count(("ApplyRequest", "domain-0")) == (1 if where == "before" else 2)


def test_a_way_back_asks_a_silent_probe_for_an_hour_and_then_says_that_it_is_not_back():
    mgr = begun()
    mgr.until(ApplyRequest)
    mgr.answer()
    mgr.give(events.Halt("frozen"))
    mgr.give(events.AgentSilent("the probe on h0 is silent"))
    assert mgr.machine.rollout.status is RolloutStatus.ROLLING_BACK
    mgr.now_s += PROBE_AWAITED_S
    mgr.give(events.AgentSilent("the probe on h0 is silent"))
    assert mgr.statuses == [ChangeStatus.ROLLBACK_FAILED]
    assert mgr.machine.rollout.status is RolloutStatus.STOPPED
    assert "silent" in mgr.machine.rollout.changes[0].detail
    assert mgr.machine.rollout.touched


@pytest.mark.parametrize("where", ["before", "changing", "after"])
def test_a_silent_probe_ends_a_trial_and_it_says_why(where):
    mgr = begun(trial=True)
    fall_silent(mgr, where)
    assert mgr.machine.over
    assert mgr.machine.rollout.status is RolloutStatus.STOPPED
    assert "silent" in mgr.machine.rollout.changes[0].detail
    assert bool(mgr.machine.rollout.touched) is (where != "before")


def test_a_halt_takes_back_the_change_under_way_and_goes_on_with_a_rollback():
    mgr = begun(change(0), change(1))
    mgr.until(ApplyRequest)
    mgr.answer()
    mgr.give(events.Halt("frozen by an admin"))
    assert isinstance(mgr.task.request, RollbackRequest)
    mgr.give(events.Halt("frozen by an admin"))
    mgr.finish()
    assert mgr.modes == {"domain-0": WB, "domain-1": WB}


def test_a_sample_past_the_latency_limit_is_no_proof():
    mgr = begun()
    samples = events.LoadSamples(0.1, (1,), (), 4096, aborted="osd.0 took 3000 ms")
    mgr.give(events.Answered(mgr.load.token, samples))
    assert mgr.statuses == [ChangeStatus.FAILED]
    mgr = begun()
    mgr.until(ApplyRequest)
    mgr.answer()
    mgr.answer()
    mgr.give(events.Answered(mgr.load.token, samples))
    mgr.finish()
    assert mgr.statuses == [ChangeStatus.ROLLED_BACK]


def test_an_answer_that_shows_another_mode_is_taken_back():
    for states in ((), (make.state(WB),)):
        mgr = begun()
        mgr.until(ApplyRequest)
        outcome = StateOutcome(states, states, (), True, ("d",) * len(states))
        mgr.give(events.Answered(mgr.task.task_id, outcome))
        mgr.finish()
        assert mgr.statuses == [ChangeStatus.ROLLED_BACK]


@pytest.mark.parametrize("simulated", [False, True])
def test_odd_answers_end_a_rollout_instead_of_leaving_it_waiting(simulated):
    odd = ReportOutcome(make.report("h0"))
    mgr = begun(change(0, simulated=simulated))
    for _ in range(40):
        if mgr.machine.over:
            break
        if mgr.task:
            mgr.give(events.Answered(mgr.task.task_id, odd))
        else:
            mgr.answer()
    assert mgr.machine.over


def test_stale_answers_change_nothing():
    mgr = begun()
    mgr.until(ApplyRequest)
    old = events.Answered(mgr.task.task_id, FailureOutcome("late"))
    mgr.answer()
    before = mgr.machine.rollout
    assert mgr.machine.handle(old, mgr.now_s) == []
    assert mgr.machine.handle(events.Answered("p1.0.1", events.LoadFailed("late")), mgr.now_s) == []
    assert mgr.machine.rollout == before


def test_a_change_that_looks_worse_once_is_measured_again_and_stays():
    mgr = begun(change(0), gain=0.5)
    mgr.until(ApplyRequest)
    mgr.answer()
    mgr.now_s += 60.0
    mgr.give(events.Tick())
    mgr.answer()
    assert mgr.statuses == [ChangeStatus.APPLYING]
    mgr.gain = 2.0
    mgr.finish()
    assert mgr.statuses == [ChangeStatus.APPLIED]


@pytest.mark.parametrize("mgr_lost", [False, True])
def test_a_stored_prior_state_is_never_replaced_by_what_our_own_request_may_have_made(mgr_lost):
    mgr = begun()
    mgr.until(ApplyRequest)
    (kept,) = (c.prior for c in mgr.machine.rollout.changes)
    mgr.modes["domain-0"] = WT  # it was made, and the journal is lost before the answer
    if mgr_lost:
        mgr.restart()
        mgr.until(ApplyRequest)
    other = FailureOutcome("not as the mgr knows it", refused=True, doubt=PriorDoubt.OTHER_STATE)
    mgr.give(events.Answered(mgr.task.task_id, other))
    assert mgr.machine.over
    (left,) = mgr.machine.rollout.touched
    assert left.prior == kept
    assert any(n.severity == "error" and "was not checked" in n.text for n in mgr.notes)
    mgr.run(mgr.machine.start_rollback())
    mgr.finish()
    assert mgr.modes == {"domain-0": WB}


def test_a_change_that_an_older_version_planned_anew_keeps_its_first_prior_state():
    mgr = begun()
    mgr.until(ApplyRequest)
    (found,) = mgr.machine.rollout.changes
    kept, mgr.modes["domain-0"] = found.prior, WT
    again = replace(found, status=ChangeStatus.PLANNED)
    mgr.stored = codec.dumps(replace(mgr.machine.rollout, changes=(again,)))
    mgr.restart()
    mgr.until(ApplyRequest)
    assert mgr.task.request.prior == kept
