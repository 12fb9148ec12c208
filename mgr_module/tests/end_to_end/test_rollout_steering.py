"""What holds, steers and foretells a rollout under a gate, by the real engine."""

import errno
from dataclasses import replace

import pytest
from gate_world import HOSTS, a_gate_mgr, begun, shown
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from module_world import (
    WB,
    WT,
    change_osd,
    ok,
    refused,
    said,
    settled,
    start,
    taken_over,
    until,
)
from wcache.core.change.change import ChangeStatus
from wcache.core.change.preconditions import LOOK_EVERY_S
from wcache.core.protocol import ApplyRequest
from wcache.core.record import Precondition

pytestmark = pytest.mark.slow


def test_a_pause_waits_for_the_change_under_way_and_a_resume_judges_it_anew():
    mgr = begun()
    mgr.go(lambda: mgr.plan.changes[0].status is ChangeStatus.APPLYING, seconds=0.05)
    assert said(mgr, "rollout pause", plan_id="p1")["status"] == "running"
    assert mgr.end() == "paused"
    assert mgr.changed == {0}
    mgr.restart()
    assert mgr.end() == "paused"
    assert said(mgr, "rollout pause", plan_id="p1")["changed"] is False
    ok(mgr.command("rollout resume", plan_id="p1"))
    assert mgr.end() == "done"


def test_a_resume_takes_a_pause_back_that_still_waits_for_the_change_under_way():
    mgr = begun()
    mgr.go(lambda: mgr.plan.changes[0].status is ChangeStatus.APPLYING, seconds=0.05)
    ok(mgr.command("rollout pause", plan_id="p1"))
    assert said(mgr, "rollout resume", plan_id="p1")["changed"] is True
    assert said(mgr, "rollout show", plan_id="p1")["reason"] == ""
    assert mgr.end() == "done"
    assert "resume requested" in ok(mgr.command("history"))


@pytest.mark.parametrize("item", [
    Precondition.NO_MAINTENANCE, Precondition.CLUSTER_HEALTHY,
])
def test_each_wave_waits_for_its_preconditions_and_a_name_overrides_them(item):
    mgr = begun()
    mgr.go(lambda: mgr.plan.changes[1].status is ChangeStatus.MADE)
    mgr.view.state = replace(mgr.view.state, missed=(item,))
    mgr.go(lambda: mgr.plan.missed)
    assert mgr.plan.missed == (item,)
    assert mgr.changed == {0, 1}
    assert shown(mgr)["waiting_for"] == [item.value]
    ok(mgr.command("rollout resume", plan_id="p1", override=item.name.lower()))
    assert mgr.end() == "done"
    assert item in mgr.plan.forced


def test_where_the_osds_of_one_drive_may_not_stop_together_the_override_is_named():
    # two OSDs on each drive: one that hangs stops both
    mgr = a_gate_mgr(tuple(
        (f"h{h}", (make.drive("sda", 2 * h, 2 * h + 1),)) for h in range(HOSTS)
    ))
    said(mgr, "plan")
    mgr.stops.most = 0
    would = said(mgr, "apply", plan_id="p1", dry_run=True)
    assert would["missed"] == [Precondition.OK_TO_STOP.value]
    command = "ceph wcache apply p1 --override=ok_to_stop"
    assert would["next"] == command
    assert ok(mgr.command("apply", plan_id="p1", dry_run=True)).endswith(f"next: {command}")
    ok(mgr.command("apply", plan_id="p1"))
    mgr.go(lambda: mgr.plan.missed)
    assert mgr.plan.missed == (Precondition.OK_TO_STOP,)
    for show in ("rollout show", "plan show"):
        assert f"to go on without: {command}" in ok(mgr.command(show, plan_id="p1"))
    assert said(mgr, "apply", plan_id="p1", override="ok_to_stop")["changed"]
    assert mgr.end() == "done"


def test_a_drive_of_one_osd_stops_none_and_goes_by_itself_where_none_may_stop():
    mgr = begun(rollout_parallel_max=2)
    mgr.stops.most = 0
    assert said(mgr, "rollout show", plan_id="p1")["waiting_for"] == []
    assert mgr.end() == "done"
    assert {len(r.treated) for r in mgr.blocks.requests} == {1}
    assert all(len(groups) != 1 for groups in mgr.stops.asked)
    assert len(said(mgr, "rollback", dry_run=True)["would_restore"]) == 2 * HOSTS
    assert mgr.plan.status.value == "done"


def test_a_dry_run_waits_for_mons_that_do_not_answer_for_a_moment_only(monkeypatch):
    monkeypatch.setattr("wcache.services.plans.apply_forecast.WAIT_S", 0.01)
    mgr = a_gate_mgr()
    said(mgr, "plan")
    mgr.stops.ask = lambda groups, done: None
    error = refused(mgr, "apply", errno.EAGAIN, plan_id="p1", dry_run=True)
    assert error.startswith("the mons have not said within")


def test_a_plan_whose_drive_has_moved_is_refused_and_the_drive_named():
    mgr = a_gate_mgr()
    said(mgr, "plan")
    host = mgr.inside.hosts.reports["h3"]
    drives = tuple(
        replace(d, drive_id="another") if d.dev_name == "sdb" else d for d in host.drives)
    mgr.inside.hosts.reports["h3"] = replace(host, drives=drives)
    error = refused(mgr, "apply", errno.EBUSY, plan_id="p1")
    assert "h3 sdb: the drive is gone or was replaced" in error
    assert said(mgr, "apply", plan_id="p1", dry_run=True)["moved"]


def test_the_message_of_ceph_progress_says_which_wave_and_how_long():
    mgr = begun()
    mgr.go(lambda: mgr.plan.changes[0].status is ChangeStatus.MADE)
    message, fraction = mgr.views.under_way()["wcache.p1"]
    assert message.startswith("wcache plan p1: wave 1 of 6, ")
    assert message.endswith("left")
    assert 0.0 < fraction < 0.5
    ok(mgr.command("rollout pause", plan_id="p1"))
    mgr.end()
    assert mgr.views.under_way()["wcache.p1"][0] == "wcache plan p1: paused"


def test_a_freeze_takes_back_what_is_made_and_not_judged_also_of_a_paused_plan():
    mgr = begun()
    mgr.go(lambda: mgr.plan.changes[0].status is ChangeStatus.MADE)
    ok(mgr.command("rollout pause", plan_id="p1"))
    assert mgr.end() == "paused"
    ok(mgr.command("freeze"))
    assert mgr.end() == "rolled back"
    assert mgr.changed == set()
    assert WB in {mgr.mode_of(0)}


def test_a_mgr_that_takes_over_a_frozen_cluster_takes_back_what_a_paused_plan_has_made():
    mgr = begun()
    mgr.go(lambda: mgr.plan.changes[0].status is ChangeStatus.MADE)
    ok(mgr.command("rollout pause", plan_id="p1"))
    assert mgr.end() == "paused"
    # the last mgr is lost when the freeze is stored, and what follows from it is not
    mgr.store.fails = lambda key: key != "frozen"
    mgr.command("freeze")
    mgr.store.fails = lambda key: False
    taken_over(mgr)
    assert mgr.end() == "rolled back"
    assert mgr.changed == set()


def test_a_canary_that_was_there_already_uses_up_nothing_of_the_watch():
    mgr = a_gate_mgr(canary_wait_s=600.0)
    said(mgr, "plan")
    first, second = mgr.plan.changes[:2]
    mgr.probes[first.hostname].switch(first.domain_id, WT)  # by hand, and not reported yet
    ok(mgr.command("apply", plan_id="p1"))
    mgr.go(lambda: mgr.plan.changes[1].status is ChangeStatus.MADE, steps=8000)
    made_s = mgr.now_s
    assert (first.action_id, mgr.plan.canary_index) == (mgr.plan.changes[0].action_id, 1)
    assert mgr.plan.changes[0].status is ChangeStatus.UNCHANGED
    mgr.go(lambda: mgr.plan.changes[1].status is ChangeStatus.APPLIED, steps=8000)
    assert mgr.now_s - made_s >= 600.0
    assert second.action_id == mgr.plan.changes[1].action_id


def test_after_a_rollback_is_ordered_no_drive_is_changed_that_had_not_asked_yet():
    mgr = FakeMgr(*((f"h{i}", (make.drive("sda", i),)) for i in range(4)), canary_wait_s=0.0)
    mgr.report_all()
    start(mgr)
    settled(mgr)
    said(mgr, "plan")
    ok(mgr.command("apply", plan_id="p1"))
    machine, later = mgr.inside.rollouts["p1"], mgr.probes["h1"]

    def status(index):
        return machine.rollout.changes[index].status

    until(mgr, lambda: status(0) is ChangeStatus.APPLIED, seconds=0.1)
    change_osd(mgr, 1, up=False)
    until(mgr, lambda: status(3) is ChangeStatus.APPLIED, seconds=0.1)
    turn, later.turn = later.turn, lambda rounds=1: None
    change_osd(mgr, 1, up=True)
    until(mgr, lambda: "h1" in mgr.inside.hosts.tasks, seconds=0.1)
    turn()  # it looks, and does not ask for the change yet
    until(mgr, lambda: status(1) is ChangeStatus.APPLYING, seconds=0.1)
    assert isinstance(mgr.inside.hosts.tasks["h1"].task.request, ApplyRequest)
    mgr.probes["h3"].muted = True  # it goes back first, and its host is gone
    ok(mgr.command("rollback", plan_id="p1"))
    later.turn = turn
    mgr.steps(30, 2.0)
    assert {drive.mode for drive in later.drives.values()} == {WB}


def test_what_is_undone_while_a_plan_is_paused_is_told():
    mgr = begun()
    mgr.go(lambda: mgr.plan.changes[1].status is ChangeStatus.APPLIED)
    ok(mgr.command("rollout pause", plan_id="p1"))
    mgr.report_all()
    assert "WCACHE_DRIFT" not in ok(mgr.command("status"))
    drives = mgr.probes["h0"].drives
    for name, drive in drives.items():
        drives[name] = replace(drive, state=make.state(WB))
    mgr.steps(12, 60.0)  # as long as until its next report
    assert "WCACHE_DRIFT" in ok(mgr.command("status"))


@pytest.mark.parametrize("status", [ChangeStatus.MADE, ChangeStatus.APPLIED])
def test_an_abort_says_before_what_it_takes_back_of_the_wave(status):
    mgr = begun(rollout_parallel_max=1)
    # of the second failure domain the first drive is judged, and the second is made, or is judged
    mgr.go(lambda: mgr.plan.changes[2].status is ChangeStatus.APPLIED
           and mgr.plan.changes[3].status is status)
    before = mgr.changed
    would = said(mgr, "rollout abort", plan_id="p1", dry_run=True)["would_restore"]
    assert mgr.changed == before
    assert said(mgr, "rollout abort", plan_id="p1")["changed"] is True
    assert mgr.end() == "stopped"
    assert mgr.changed >= {0, 1}, "earlier waves are kept"
    assert said(mgr, "rollout abort", plan_id="p1")["changed"] is False
    back = [c.name for c in mgr.plan.changes if c.status is ChangeStatus.ROLLED_BACK]
    assert would == back == (["h1 sda", "h1 sdb"] if status is ChangeStatus.MADE else [])


def test_the_verdict_is_asked_at_each_look_for_all_changes_that_come_next(monkeypatch):
    asked, fallen = [], set()

    def moved(changes, verdicts):
        asked.append(tuple(change.name for change in changes))
        return [f"{name}: no longer" for name in asked[-1] if name in fallen]

    monkeypatch.setattr("wcache.engine.gate.looking.preconditions.verdicts_moved", moved)
    mgr = begun(rollout_parallel_max=2)
    mgr.go(lambda: mgr.changed == {0, 1})
    fallen.add(mgr.plan.changes[3].name)  # of the two that come next the second one
    mgr.go(lambda: mgr.plan.missed)
    assert asked[-1] == tuple(change.name for change in mgr.plan.changes[2:4])
    assert mgr.plan.missed == (Precondition.VERDICT_STANDS,)
    assert mgr.changed == {0, 1}
    before = len(asked)
    mgr.steps(30, LOOK_EVERY_S)
    assert len(asked) >= before + 20  # while it is held too
    fallen.clear()
    assert mgr.end() == "done"
