"""Campaign, advice, plan, rollback over the whole module, and the mgr lost at any step."""

import errno

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from module_world import (
    WB,
    WT,
    a_mgr,
    all_modes,
    apply_plan,
    fine,
    first_look,
    go_on,
    measured,
    ok,
    refused,
    said,
    settled,
    start,
)
from wcache.core.change.change import ChangeStatus


@pytest.mark.slow
@examples(10)
@given(st.lists(st.integers(0, 60), max_size=4), st.lists(st.integers(0, 60), max_size=2))
def test_a_mgr_lost_at_any_step_resumes_and_repeats_no_pair(lost, crashes):
    mgr = a_mgr()
    campaign_id = start(mgr)
    go_on(mgr, 700, lost, crashes)
    mgr.report_all()
    shown = said(mgr, "campaign show", campaign_id=campaign_id)
    assert shown["status"] == "done", shown
    assert all_modes(mgr) == {WB}
    for result in shown["results"]:
        record = said(mgr, "campaign record", record_id=result["record_id"])
        assert [p["index"] for p in record["pairs"]] == list(range(len(record["pairs"])))
    assert len(shown["results"]) == 3
    plan_id = apply_plan(mgr)
    go_on(mgr, 300, lost, seconds=1.0)
    assert said(mgr, "plan show", plan_id=plan_id)["status"] == "done"
    assert all_modes(mgr) == {WT}
    mgr.restart()
    ok(mgr.command("rollback"))
    mgr.restart()
    mgr.settle()
    assert all_modes(mgr) == {WB}
    fine(mgr)


@pytest.mark.parametrize("how", ["stop", "freeze"])
@pytest.mark.parametrize("steps", [0, 1, 2, 3, 4, 7, 20])
def test_stop_and_freeze_restore_at_once_whatever_is_under_way(how, steps):
    mgr = a_mgr()
    campaign_id = start(mgr)
    mgr.steps(steps)
    if how == "stop":
        assert said(mgr, "campaign stop", campaign_id=campaign_id)["changed"] is True
    else:
        frozen = said(mgr, "freeze")
        assert (frozen["frozen"], frozen["changed"]) == (True, True)
        assert said(mgr, "freeze")["changed"] is False
    mgr.settle(10)
    assert all_modes(mgr) == {WB}
    shown = said(mgr, "campaign show", campaign_id=campaign_id)
    assert {run["status"] for run in shown["run_list"]} == {"aborted"}
    assert all(run["reason"] for run in shown["run_list"])
    assert mgr.loads.waiting == {}
    fine(mgr)
    if how == "freeze":
        mgr.restart()
        assert said(mgr, "status")["frozen"] is True
        assert mgr.command("campaign start", loads="timer")[0] == -errno.EPERM
        assert said(mgr, "freeze", thaw=True)["changed"] is True
    start(mgr, loads="timer")


@pytest.mark.slow
def test_stopping_an_old_campaign_does_not_disturb_what_is_measured_now():
    mgr = measured()
    plan_id = apply_plan(mgr)
    first_look(mgr)
    assert mgr.loads.waiting
    assert said(mgr, "campaign stop", campaign_id="c1")["changed"] is False
    mgr.settle()
    assert said(mgr, "plan show", plan_id=plan_id)["status"] == "done"


def with_one_change_made_and_one_open():
    mgr = measured()
    plan_id = apply_plan(mgr)
    while [c.status for c in mgr.inside.rollouts[plan_id].rollout.changes][:2] != [
        ChangeStatus.APPLIED, ChangeStatus.APPLYING,
    ]:
        mgr.step(1.0)
    mgr.step(0.1)
    return mgr, plan_id


@pytest.mark.slow
def test_a_freeze_in_the_middle_of_a_rollout_takes_the_open_change_back_and_keeps_the_rest():
    mgr, plan_id = with_one_change_made_and_one_open()
    ok(mgr.command("freeze"))
    mgr.settle(20)
    plan = said(mgr, "plan show", plan_id=plan_id)
    assert [c["status"] for c in plan["changes"]] == ["applied", "rolled back", "planned"]
    assert plan["status"] == "stopped"
    ok(mgr.command("freeze", thaw=True))
    ok(mgr.command("rollback"))
    mgr.settle()
    assert all_modes(mgr) == {WB}


@pytest.mark.slow
def test_a_rollback_beside_an_abort_takes_back_what_the_abort_would_leave():
    mgr, plan_id = with_one_change_made_and_one_open()
    ok(mgr.command("rollout abort", plan_id=plan_id))
    assert said(mgr, "plan show", plan_id=plan_id)["status"] == "rolling back"
    assert said(mgr, "rollback", plan_id=plan_id)["changed"] is True
    assert said(mgr, "rollback", plan_id=plan_id)["changed"] is False
    mgr.settle()
    assert said(mgr, "plan show", plan_id=plan_id)["status"] == "rolled back"
    assert all_modes(mgr) == {WB}


@pytest.mark.slow
def test_a_rollback_of_a_plan_under_a_later_one_is_refused():
    mgr = measured()
    apply_plan(mgr)
    mgr.settle()
    for probe in mgr.probes.values():
        probe.latency_ns = {WB: 1_000_000, WT: 9_000_000}
    mgr.report_all()
    for _ in range(2):  # what one campaign has proven, two in a row outweigh
        assert said(mgr, "plan", consent_turn_on=True)["plan_id"] == ""
        ok(mgr.command("campaign start", loads="depth1", accept_cost=True, consent_turn_on=True))
        settled(mgr)
    assert said(mgr, "plan", consent_turn_on=True)["plan_id"] == "p2"
    ok(mgr.command("apply", plan_id="p2"))
    mgr.settle()
    assert all_modes(mgr) == {WB}
    assert refused(mgr, "rollback", errno.EBUSY, plan_id="p1").count("p2") == 2
    ok(mgr.command("rollback"))
    mgr.settle()
    assert all_modes(mgr) == {WT}
    ok(mgr.command("rollback", plan_id="p1"))
    mgr.settle()
    assert all_modes(mgr) == {WB}
