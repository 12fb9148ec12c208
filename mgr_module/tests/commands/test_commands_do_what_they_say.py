"""A command does what it says, or fails with a line that says what to do."""

import errno
import re
from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from module_world import (
    WB,
    WT,
    a_mgr,
    all_modes,
    applying,
    findings_of,
    fine,
    measured,
    ok,
    refused,
    said,
    settled,
    start,
    with_osds_on,
)
from wcache.core.change.change import ChangeStatus


def until(mgr, *statuses):
    for _ in range(200):
        changes = mgr.inside.rollouts["p1"].rollout.changes
        if [change.status for change in changes][: len(statuses)] == list(statuses):
            return
        mgr.step(0.5)
    raise AssertionError(f"never {statuses}")


UNDER_WAY = [
    (ChangeStatus.PLANNED,), (ChangeStatus.APPLYING,),
    (ChangeStatus.APPLIED, ChangeStatus.PLANNED), (ChangeStatus.APPLIED, ChangeStatus.APPLYING),
]


@pytest.mark.slow
@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("statuses", UNDER_WAY)
def test_a_rollback_of_a_plan_under_way_stops_it_and_brings_back_what_was_there(statuses, named):
    mgr = applying()
    until(mgr, *statuses)
    answered = said(mgr, "rollback", **({"plan_id": "p1"} if named else {}))
    assert answered["changed"] is True
    assert answered["status"] in ("rolling back", "rolled back")
    mgr.settle()
    assert said(mgr, "plan show", plan_id="p1")["status"] == "rolled back"
    assert all_modes(mgr) == {WB}
    assert mgr.loads.waiting == {}
    fine(mgr)


@pytest.mark.slow
def test_a_rollback_of_a_plan_under_way_survives_a_mgr_that_is_lost():
    mgr = applying()
    until(mgr, ChangeStatus.APPLIED, ChangeStatus.APPLYING)
    ok(mgr.command("rollback", plan_id="p1"))
    mgr.restart()
    mgr.settle()
    assert said(mgr, "plan show", plan_id="p1")["status"] == "rolled back"
    assert all_modes(mgr) == {WB}


@pytest.mark.slow
def test_a_campaign_is_not_begun_beside_a_plan_and_the_reason_is_named():
    mgr = applying()
    end = "end it with `ceph wcache rollout abort p1`"
    campaign = {"loads": "depth1", "accept_cost": True}
    error = refused(mgr, "campaign start", errno.EBUSY, **campaign)
    assert error == f"plan p1 is under way: wait for it, or {end}"
    until(mgr, ChangeStatus.APPLIED, ChangeStatus.APPLYING)
    ok(mgr.command("rollout pause", plan_id="p1"))
    mgr.steps(20)
    error = refused(mgr, "campaign start", errno.EBUSY, **campaign)
    assert error.startswith("plan p1 is paused: go on with `ceph wcache rollout resume p1`, or")
    ok(mgr.command("rollback", plan_id="p1"))
    settled(mgr)
    start(mgr)


@pytest.mark.slow
def test_a_frozen_cluster_lets_a_plan_be_taken_back_and_nothing_be_changed():
    mgr = applying()
    until(mgr, ChangeStatus.APPLIED, ChangeStatus.APPLYING)
    ok(mgr.command("freeze"))
    mgr.settle()
    assert WT in all_modes(mgr)
    refused(mgr, "apply", errno.EPERM, plan_id="p1")
    assert said(mgr, "rollback")["changed"] is True
    mgr.step()
    mgr.restart()
    mgr.settle()
    assert said(mgr, "plan show", plan_id="p1")["status"] == "rolled back"
    assert all_modes(mgr) == {WB}
    assert said(mgr, "status")["frozen"] is True
    fine(mgr)


@pytest.mark.slow
def test_a_plan_whose_drives_have_left_its_mode_is_not_called_applied():
    mgr = applying()
    mgr.settle()
    mgr.probes["h1"].switch("domain-sda", WB)
    mgr.report_all()
    error = refused(mgr, "apply", errno.EBUSY, plan_id="p1")
    assert "h1 sda is in write back since" in error
    assert "`ceph wcache plan`" in error


@pytest.mark.slow
def test_a_plan_whose_drive_or_host_has_gone_since_says_so():
    mgr = applying()
    mgr.settle()
    del mgr.probes["h1"].drives["domain-sda"]
    mgr.probes["h1"].actions.clear()
    mgr.report_all()
    error = refused(mgr, "apply", errno.EBUSY, plan_id="p1")
    assert "plan p1 is done, and h1 sda is not there any more" in error
    ok(mgr.command("agent rm", hostname="h1", host_is_gone=True))
    mgr.inside.hosts.reported_at_s["h1"] = mgr.now_s  # a report that could not be taken
    assert said(mgr, "apply", plan_id="p1")["changed"] is False


def test_a_host_that_a_plan_cannot_tell_of_is_named_with_the_reason():
    mgr = measured()
    with_osds_on(mgr, "h9")
    assert said(mgr, "plan", dry_run=True)["left_alone"][-1] == "h9: no probe has reported it"


@pytest.mark.slow
def test_what_was_in_place_by_a_report_from_before_a_change_is_named_with_the_reason():
    mgr = applying()
    settled(mgr)
    every = said(mgr, "plan", dry_run=True)["drives_in_place"]
    assert f"{every} drives in place, and not changed" in ok(mgr.command("plan", dry_run=True))
    mgr.inside.hosts.reported_at_s.pop("h2")
    told = said(mgr, "plan", dry_run=True)
    (line,) = told["left_alone"]
    assert re.match(r"\d+ cache domains? of host h2: as it should be by its last report, but", line)
    assert 0 < told["drives_in_place"] < every
    assert said(mgr, "plan", dry_run=True, scope="host:h1")["left_alone"] == []


@pytest.mark.slow
def test_a_change_that_is_to_last_shows_what_the_drives_keep_and_is_not_made_where_they_do_not():
    mgr = measured()
    ok(mgr.command("plan", persist=True))
    ok(mgr.command("apply", plan_id="p1", persist=True))
    until(mgr, ChangeStatus.APPLIED)
    mgr.probes["h1"].keeps = False
    mgr.settle()
    plan = said(mgr, "plan show", plan_id="p1")
    assert plan["status"] == "stopped"
    assert [c["status"] for c in plan["changes"]] == ["applied", "rolled back", "planned"]
    assert "sdb was told to keep write through over a power cycle" in plan["reason"]
    mgr = measured()
    ok(mgr.command("plan", persist=True))
    ok(mgr.command("apply", plan_id="p1", persist=True))
    mgr.settle()
    changes = said(mgr, "plan show", plan_id="p1")["changes"]
    assert {change["kept"] for change in changes} == {"write through"}
    ok(mgr.command("rollback"))
    settled(mgr)
    assert {drive["state"]["page"]["saved"] for drive in said(mgr, "drive ls")["drives"]} == {None}
    changes = said(mgr, "plan show", plan_id="p1")["changes"]
    assert {change["kept"] for change in changes} == {None}


@pytest.mark.slow
def test_a_plan_that_was_taken_back_or_stopped_is_not_applied_again():
    mgr = applying()
    until(mgr, ChangeStatus.APPLIED, ChangeStatus.APPLYING)
    ok(mgr.command("rollback"))
    assert "is being rolled back" in refused(mgr, "apply", errno.EBUSY, plan_id="p1")
    mgr.settle()
    error = refused(mgr, "apply", errno.EBUSY, plan_id="p1")
    assert "plan p1 is rolled back (rolled back by an admin)" in error
    assert "`ceph wcache plan`" in error
    mgr = applying()
    until(mgr, ChangeStatus.APPLIED, ChangeStatus.APPLYING)
    ok(mgr.command("freeze"))
    mgr.settle()
    ok(mgr.command("freeze", thaw=True))
    assert "plan p1 is stopped" in refused(mgr, "apply", errno.EBUSY, plan_id="p1")


@pytest.mark.slow
def test_a_plan_names_a_drive_that_loses_writes_with_the_commands_that_cure_it():
    mgr = applying()
    mgr.settle()
    drives = mgr.probes["h1"].drives
    unsafe = make.unsafe_drive().state
    drives["domain-sda"] = replace(drives["domain-sda"], state=unsafe)
    for probe in mgr.probes.values():
        probe.latency_ns = {WB: 1_000_000, WT: 4_000_000}
    start(mgr, scope="host:h2")
    settled(mgr)
    (line,) = [line for line in said(mgr, "plan")["left_alone"] if "sda" in line]
    assert line.startswith("h1 sda: loses acknowledged writes at a power cut; turn the cache off")
    assert "sdparm --clear=WCE /dev/sda" in line
    (finding,) = findings_of(mgr, "WCACHE_UNSAFE")
    assert "sdparm --clear=WCE /dev/sda" in finding["detail"]


def aborts(mgr):
    found = findings_of(mgr, "WCACHE_CAMPAIGN_ABORTS")
    return found[0]["detail"] if found else ""


def campaign(mgr, error=""):
    mgr.loads.error = error
    start(mgr)
    mgr.settle()


@pytest.mark.slow
def test_campaigns_that_abort_again_and_again_are_a_health_warning_until_one_ends_well():
    mgr = a_mgr()
    for _ in range(2):
        campaign(mgr, "osd.0 said no")
    assert aborts(mgr) == ""
    start(mgr)
    mgr.step()
    ok(mgr.command("campaign stop", campaign_id="c3"))
    mgr.settle()
    assert aborts(mgr) == ""  # nothing is wrong where an admin stops one
    campaign(mgr, "osd.0 said no")
    assert "c1, c2, c4 aborted; the last one: osd.0 said no" in aborts(mgr)
    mgr.restart()
    assert aborts(mgr)
    campaign(mgr)
    assert aborts(mgr) == ""


@pytest.mark.slow
def test_campaigns_that_aborted_long_ago_are_no_warning():
    mgr = a_mgr()
    for _ in range(3):
        campaign(mgr, "osd.0 said no")
    assert aborts(mgr)
    mgr.now_s += 8 * 86400.0
    assert aborts(mgr) == ""
