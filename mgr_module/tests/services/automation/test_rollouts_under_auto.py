"""Rollouts that `auto` has begun: nobody watches them, so pauses end and windows hold them."""

import time
from dataclasses import replace

import pytest
from gate_world import HOSTS, a_gate_mgr, begun, shown
from module_world import fine, ok, said, taken_over
from wcache.core.change.change import ChangeStatus
from wcache.core.record import Precondition

pytestmark = pytest.mark.slow  # whole rollouts

HOUR_S = 3600.0
ALL = set(range(2 * HOSTS))


def under_auto(**options):
    """A verdict stands, so `auto apply` begins a plan at once."""
    mgr = a_gate_mgr(auto_quiet_s=0.0, **options)
    ok(mgr.command("auto", mode="apply"))
    mgr.go(lambda: "p1" in mgr.inside.rollouts and mgr.plan.status.value == "running")
    return mgr


def undecided(mgr):
    mgr.factor, mgr.noise = 1.0, 1.0
    assert mgr.end() == "paused"
    assert mgr.changed == {0}
    return mgr


def windows(at_s, hours):
    """The option for a window that is open from a moment on."""
    begin, end = (time.strftime("%H:%M", time.gmtime(at_s + s)) for s in (-60, hours * HOUR_S))
    return f"{begin}-{end}"


@pytest.mark.parametrize("lost", [False, True])
def test_a_rollout_of_auto_that_stays_paused_takes_back_what_is_not_judged_after_pause_max_h(lost):
    mgr = undecided(under_auto(pause_max_h=2.0))
    paused_s = mgr.now_s
    if lost:  # a mgr that takes over keeps its time
        mgr.steps(50, 60.0)
        taken_over(mgr)
    while mgr.plan.status.value == "paused":
        mgr.step(60.0)
    assert 0 <= mgr.now_s - paused_s - 2 * HOUR_S <= 120.0
    assert mgr.end() == "rolled back"
    assert mgr.changed == set()
    assert "pause_max_h" in mgr.plan.reason
    mgr.step(10.0)
    assert "`auto` no longer applies it" in ok(mgr.command("auto status"))
    fine(mgr)


def test_a_pause_because_nobody_writes_speaks_against_no_drive_model_however_often():
    mgr = a_gate_mgr(auto_quiet_s=0.0, pause_max_h=1.0)
    mgr.busy = False
    ok(mgr.command("auto", mode="apply"))
    plans = mgr.inside.rollouts
    for plan_id in ("p1", "p2"):
        mgr.go(lambda: plan_id in plans and plans[plan_id].paused, seconds=2.0)  # noqa: B023
        assert mgr.changed == set()
    mgr.busy = True
    mgr.go(lambda: "p3" in plans, seconds=10.0)
    mgr.go(lambda: mgr.changed == ALL)
    assert [plans[name].rollout.status.value for name in ("p1", "p2")] == ["stopped"] * 2
    fine(mgr)


def test_what_earlier_waves_have_changed_stays_when_a_pause_of_auto_ends():
    mgr = under_auto(pause_max_h=1.0)
    mgr.go(lambda: mgr.plan.changes[3].status is ChangeStatus.MADE)
    ok(mgr.command("rollout pause", plan_id="p1"))
    mgr.end()
    mgr.steps(70, 60.0)
    assert mgr.end() == "stopped"
    assert mgr.changed == {0, 1}


def test_a_rollout_of_an_admin_stays_paused_for_as_long_as_it_takes():
    mgr = undecided(begun(pause_max_h=1.0))
    mgr.steps(100, HOUR_S)
    assert mgr.plan.status.value == "paused"
    assert mgr.changed == {0}


def test_resumed_in_time_a_rollout_of_auto_goes_on_and_its_pause_is_forgotten():
    mgr = under_auto(pause_max_h=1.0)
    mgr.go(lambda: mgr.plan.changes[0].status is ChangeStatus.MADE)
    ok(mgr.command("rollout pause", plan_id="p1"))
    assert mgr.end() == "paused"
    mgr.steps(55, 60.0)
    ok(mgr.command("rollout resume", plan_id="p1"))
    assert mgr.end() == "done"
    mgr.steps(10, 60.0)
    assert mgr.changed == ALL


def test_a_window_that_closes_holds_a_rollout_of_auto_before_its_next_step_and_opens_it_again():
    mgr = under_auto()
    mgr.go(lambda: mgr.plan.changes[0].status is ChangeStatus.MADE)
    mgr.options = replace(mgr.options, auto_windows=windows(mgr.now_s + 6 * HOUR_S, 4))
    mgr.go(lambda: mgr.plan.missed)
    assert mgr.plan.missed == (Precondition.IN_WINDOW,)
    # the step under way was judged; nothing else was begun
    assert mgr.changed == {0}
    assert mgr.plan.changes[0].status is ChangeStatus.APPLIED
    assert "maintenance window" in shown(mgr)["waiting_for"][0]
    mgr.steps(5 * 60, 60.0)  # longer than a plan waits for anything else
    assert mgr.plan.missed == (Precondition.IN_WINDOW,)
    assert mgr.plan.status.value == "running"
    taken_over(mgr)
    mgr.steps(70, 60.0)
    assert mgr.end() == "done"
    assert mgr.changed == ALL
    fine(mgr)


def test_waiting_for_a_window_does_not_count_as_waiting_for_the_cluster():
    mgr = under_auto()
    mgr.go(lambda: mgr.plan.changes[0].status is ChangeStatus.MADE)
    mgr.options = replace(mgr.options, auto_windows=windows(mgr.now_s + 3 * HOUR_S, 4))
    mgr.go(lambda: mgr.plan.missed)
    mgr.steps(150, 60.0)
    mgr.stops.upgrading = True
    mgr.steps(60, 60.0)
    assert mgr.plan.status.value == "running"
    assert mgr.plan.missed == (Precondition.NO_UPGRADE,)
    mgr.stops.upgrading = False
    assert mgr.end() == "done"


def test_a_rollout_of_an_admin_asks_for_no_window():
    mgr = begun(auto_windows=windows(1_000_000.0 + 6 * HOUR_S, 1))
    assert mgr.end() == "done"


@pytest.mark.parametrize("hours", [1, 8])
def test_a_canary_runs_long_where_the_option_says_so(hours):
    mgr = begun(canary_wait_s=hours * HOUR_S)
    began_s = mgr.now_s
    mgr.go(lambda: mgr.plan.changes[0].status is ChangeStatus.APPLIED, seconds=30.0)
    assert mgr.changed == {0}
    # the stretch before it is as long as the one after it
    assert 2.0 * hours * HOUR_S <= mgr.now_s - began_s <= 2.1 * hours * HOUR_S
    assert said(mgr, "rollout show", plan_id="p1")["status"] == "running"
    assert mgr.end() == "done"


def test_what_went_back_under_an_admins_plan_is_not_applied_by_itself():
    mgr = begun(auto_quiet_s=0.0)
    mgr.factor = 1.5
    mgr.go(lambda: mgr.plan.status.value == "rolled back")
    mgr.report_all()
    ok(mgr.command("auto", mode="apply"))
    mgr.steps(100, 10.0)
    assert "p2" not in mgr.inside.rollouts
    assert mgr.changed == set()
    assert "went back in plan p1" in ok(mgr.command("auto status"))
    # a later plan of an admin that stays answers it, and auto goes on from there
    mgr.factor = 0.5
    assert said(mgr, "plan", scope="osd.3")["plan_id"] == "p2"
    ok(mgr.command("apply", plan_id="p2"))
    mgr.go(lambda: mgr.changed == ALL)
    fine(mgr)
