"""To change now and to make it last are two consents: the second may come later."""

import errno

import pytest
from gate_world import begun
from mgr_fakes.builders import CLUSTER_ID
from module_world import (
    WB,
    WT,
    applied,
    apply_plan,
    fine,
    measured,
    ok,
    refused,
    said,
    settled,
    taken_over,
    unconsented,
)
from test_verdicts_that_fall import fall
from wcache.core.change.change import ChangeStatus
from wcache.core.protocol import ApplyRequest, FailureOutcome

pytestmark = pytest.mark.slow  # whole rollouts


def done(**options):
    mgr = begun(**options)
    assert mgr.end() == "done"
    assert {change.lasts for change in mgr.plan.changes} == {False}
    return mgr


def saved(mgr):
    return {drive.state.page.saved for p in mgr.probes.values() for drive in p.drives.values()}


def test_a_plan_that_is_done_is_made_to_last_by_a_consent_of_its_own_and_goes_back_whole():
    mgr = done()
    assert said(mgr, "apply", plan_id="p1", persist=True)["changed"] is True
    assert mgr.end() == "done"
    assert saved(mgr) == {WT}
    assert {change.lasts for change in mgr.plan.changes} == {True}
    assert said(mgr, "apply", plan_id="p1", persist=True)["changed"] is False
    ok(mgr.command("rollback", plan_id="p1"))
    assert mgr.end() == "rolled back"
    assert saved(mgr) == {WB} or saved(mgr) == {None}
    assert mgr.changed == set()
    fine(mgr)


def test_a_plan_that_is_made_to_last_changes_for_now_until_apply_has_the_consent():
    mgr = measured()
    assert {c["kept"] for c in said(mgr, "plan", persist=True, dry_run=True)["changes"]} == {
        "planned"}
    assert "next: ceph wcache apply p1 --persist" in ok(mgr.command("plan", persist=True))
    for asked, lasting, drives in (({}, "no: until", 0), ({"persist": True}, "yes: ", 3),
                                   ({"trial": True}, "no: a trial", 0)):
        would = said(mgr, "apply", plan_id="p1", dry_run=True, **asked)
        assert would["lasting"].startswith(lasting)
        assert len(would["would_persist"]) == drives
        assert f"lasts: {lasting}" in ok(mgr.command("apply", plan_id="p1", dry_run=True, **asked))
    ok(mgr.command("apply", plan_id="p1"))
    settled(mgr)
    assert saved(mgr) == {None}
    assert said(mgr, "plan show", plan_id="p1")["status"] == "done"
    assert {c["kept"] for c in said(mgr, "plan show", plan_id="p1")["changes"]} == {None}
    ok(mgr.command("apply", plan_id="p1", persist=True))
    settled(mgr)
    assert saved(mgr) == {WT}


def test_drives_that_are_only_to_keep_their_mode_are_left_until_apply_has_the_consent():
    mgr = applied()
    assert said(mgr, "plan", persist=True)["plan_id"] == "p2"
    error, following = unconsented(mgr, "apply", plan_id="p2")
    assert error.endswith("the modes that they are to keep: add --persist")
    assert following == "ceph wcache apply p2 --persist"
    assert saved(mgr) == {None}
    ok(mgr.command("apply", plan_id="p2", persist=True))
    mgr.settle()
    assert saved(mgr) == {WT}


def with_one_host_changed():
    """A mgr whose plan p2 has drives of h1 only last, and changes h2; it is done, for now."""
    mgr = measured()
    apply_plan(mgr, scope="host:h1")
    settled(mgr)
    ok(mgr.command("plan", persist=True))
    would = ok(mgr.command("apply", plan_id="p2", dry_run=True))
    assert "h1 sda keeps its mode" in would
    assert "would change h1" not in would
    assert "would change h2 sdc: write back to write through" in would
    ok(mgr.command("apply", plan_id="p2"))
    settled(mgr)
    assert saved(mgr) == {None}
    return mgr


def test_drives_that_are_only_to_keep_their_mode_last_by_a_consent_after_the_one_to_change():
    mgr = with_one_host_changed()
    would = said(mgr, "apply", plan_id="p2", persist=True, dry_run=True)["would_persist"]
    assert would == ["h1 sda", "h1 sdb", "h2 sdc"]
    ok(mgr.command("apply", plan_id="p2", persist=True))
    settled(mgr)
    assert saved(mgr) == {WT}
    ok(mgr.command("rollback", plan_id="p2"))
    mgr.settle()
    modes = {drive.mode for drive in mgr.probes["h1"].drives.values()}
    assert (modes, saved(mgr) - {WB, None}) == ({WT}, set())
    fine(mgr)


def test_drives_that_were_not_reached_when_the_second_consent_was_cut_short_stay_unchanged():
    mgr = with_one_host_changed()
    ok(mgr.command("apply", plan_id="p2", persist=True))
    mgr.step(0.05)
    ok(mgr.command("freeze"))
    mgr.settle()
    changes = said(mgr, "plan show", plan_id="p2")["changes"]
    assert [one["status"] for one in changes] == ["applied", "unchanged", "applied"]
    ok(mgr.command("freeze", thaw=True))
    mgr.report_all()
    ok(mgr.command("apply", plan_id="p2", persist=True))
    settled(mgr)
    assert saved(mgr) == {WT}


def test_a_plan_under_way_is_told_to_wait_with_its_second_consent():
    mgr = begun()
    error = refused(mgr, "apply", errno.EBUSY, plan_id="p1", persist=True)
    assert "`ceph wcache apply p1 --persist`" in error


@pytest.mark.parametrize("step", range(1, 24, 3))
def test_a_mgr_lost_while_a_done_plan_is_made_to_last_goes_on(step):
    mgr = done()
    ok(mgr.command("apply", plan_id="p1", persist=True))
    mgr.steps(step, 0.05)
    taken_over(mgr)
    assert mgr.end() == "done"
    assert saved(mgr) == {WT}


def test_a_drive_that_does_not_keep_it_stays_changed_and_is_named():
    mgr = done()
    mgr.probes["h2"].keeps = False
    ok(mgr.command("apply", plan_id="p1", persist=True))
    assert mgr.end() == "done"
    assert len(mgr.changed) == len(mgr.plan.changes)
    assert "h2 sda does not last" in mgr.plan.reason
    assert {change.status for change in mgr.plan.changes} == {ChangeStatus.APPLIED}


def test_a_drive_that_reads_otherwise_than_its_probe_says_does_not_last():
    mgr = done()
    mgr.probes["h2"]._keep = lambda domain_id, saved: None
    ok(mgr.command("apply", plan_id="p1", persist=True))
    assert mgr.end() == "done"
    assert "write through did not read back as what the drive keeps" in mgr.plan.reason
    assert {change.status for change in mgr.plan.changes} == {ChangeStatus.APPLIED}


@pytest.mark.parametrize(("proven", "status"), [
    (True, ChangeStatus.ROLLED_BACK), (False, ChangeStatus.ROLLBACK_FAILED),
])
def test_a_drive_that_left_its_mode_while_it_was_made_to_last_is_not_called_applied(
    proven, status
):
    mgr = done()
    probe = mgr.probes["h2"]

    def fails(task):
        request = task.request
        if not (isinstance(request, ApplyRequest) and request.consent_persist):
            return None
        probe.switch(request.domain_id, WB)
        if proven:
            del probe.actions[request.action_id]
        drive = probe.drives[request.domain_id]
        return FailureOutcome(
            "it broke", restored=proven, drive_ids=(drive.drive_id,), after=(drive.state,)
        )

    probe.fails = fails
    ok(mgr.command("apply", plan_id="p1", persist=True))
    assert mgr.end() == "done"
    assert "h2 sda does not last: it broke" in mgr.plan.reason
    found = {(change.hostname, change.status) for change in mgr.plan.changes}
    assert found == {("h2", status), *((f"h{n}", ChangeStatus.APPLIED) for n in (0, 1, 3, 4))}
    mgr.report_all()
    owed = {item.hostname for item in mgr.inside.unrestored.disputes(CLUSTER_ID)}
    assert owed == (set() if proven else {"h2"})
    ok(mgr.command("rollback", plan_id="p1"))
    assert mgr.end() == "rolled back"
    fine(mgr)


def test_drives_that_do_not_keep_it_are_all_named_and_the_others_last():
    mgr = done()
    mgr.probes["h1"].keeps = mgr.probes["h3"].keeps = False
    for kept in (False, True):
        ok(mgr.command("apply", plan_id="p1", persist=True))
        assert mgr.end() == "done"
        last = {change.hostname for change in mgr.plan.changes if change.lasts}
        assert last == {"h0", "h2", "h4"} | ({"h1", "h3"} if kept else set())
        for host in ("h1", "h3"):
            assert (f"{host} sda does not last: " in mgr.plan.reason) is not kept
            mgr.probes[host].keeps = True


def test_a_pause_holds_what_is_made_to_last_afterwards_until_it_is_resumed():
    mgr = done()
    ok(mgr.command("apply", plan_id="p1", persist=True))
    mgr.go(lambda: any(change.lasts for change in mgr.plan.changes), seconds=0.05)
    ok(mgr.command("rollout pause", plan_id="p1"))
    assert mgr.end() == "paused"
    assert sum(change.lasts for change in mgr.plan.changes) <= 2
    ok(mgr.command("rollout resume", plan_id="p1"))
    assert mgr.end() == "done"
    assert {change.lasts for change in mgr.plan.changes} == {True}


def test_a_consent_to_last_that_was_cut_short_is_given_again():
    mgr = applied()
    ok(mgr.command("apply", plan_id="p1", persist=True))
    mgr.step(0.05)
    ok(mgr.command("freeze"))
    mgr.settle()
    ok(mgr.command("freeze", thaw=True))
    mgr.report_all()
    assert saved(mgr) == {None}
    assert said(mgr, "apply", plan_id="p1")["changed"] is False
    would = said(mgr, "apply", plan_id="p1", persist=True, dry_run=True)
    assert len(would["would_persist"]) == 3
    assert would["waves"] == []
    assert said(mgr, "apply", plan_id="p1", persist=True)["changed"] is True
    settled(mgr)
    assert saved(mgr) == {WT}
    assert said(mgr, "apply", plan_id="p1", persist=True)["changed"] is False


@pytest.mark.parametrize("event", ["falls", "frozen"])
def test_what_was_judged_well_is_not_made_to_last_once_its_verdict_fell_or_all_is_frozen(event):
    mgr = begun(apply={"persist": True})
    mgr.go(lambda: mgr.plan.step.before and mgr.changed)
    if event == "falls":
        fall(mgr)
    else:
        mgr.inside.frozen = True  # the Halt of the command is what usually ends it
    mgr.go(lambda: mgr.plan.missed)
    assert [change.status for change in mgr.plan.changes[:2]] == [
        ChangeStatus.APPLIED, ChangeStatus.PLANNED]
    assert {change.lasts for change in mgr.plan.changes} == {False}
    assert any("h0 sda is not made to last" in line for _, line in mgr.log_lines)


def test_a_done_plan_stops_being_made_to_last_where_its_verdict_falls():
    mgr = done()
    ok(mgr.command("apply", plan_id="p1", persist=True))
    mgr.go(lambda: mgr.plan.changes[0].lasts, seconds=0.05)
    fall(mgr)
    assert mgr.end() == "done"
    assert [change.lasts for change in mgr.plan.changes].count(False) >= 5
    assert len(mgr.changed) == len(mgr.plan.changes)
    assert "is not made to last" in mgr.plan.reason
