"""A plan waits before its next change while the cluster is not well, and never within one."""

import errno
from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from module_world import (
    WB,
    WT,
    all_modes,
    applied,
    apply_plan,
    applying,
    findings_of,
    fine,
    first_look,
    measured,
    measured_anew,
    ok,
    refused,
    report_of,
    said,
    taken_over,
)
from test_commands_do_what_they_say import until
from test_recommendations import result
from wcache.core.change.change import ChangeStatus
from wcache.core.change.preconditions import (
    HOLD_MAX_S,
    NEEDED,
    TOLD_AFTER_S,
    faults,
    precondition_text,
)
from wcache.core.protocol import FailureOutcome, ReportRequest
from wcache.core.record import RECORDED, Precondition
from wcache.core.verdict.recommend import recommend
from wcache.engine.hosts import REPORT_EVERY_S
from wcache.knobs.cache_mode.plan import make_changes
from wcache.knobs.knob import Asked

HEALTHY = Precondition.CLUSTER_HEALTHY
PLANNED, MAKING, MADE = ChangeStatus.PLANNED, ChangeStatus.APPLYING, ChangeStatus.APPLIED


def miss(mgr, *items):
    """From now on these do not hold."""
    mgr.view.state = replace(mgr.view.state, missed=items)


def waiting():
    """A mgr whose plan waits between its first change and the next one."""
    mgr = applying()
    until(mgr, MADE, PLANNED)
    miss(mgr, HEALTHY)
    mgr.steps(20, 1.0)
    return mgr


def test_a_plan_whose_drive_somebody_has_switched_says_in_words_what_it_was_made_from():
    mgr = measured()
    plan_id = said(mgr, "plan")["plan_id"]
    report_of(mgr, "h1", make.drive("sda", 0), make.drive("sdb", 1, mode=WT))
    fits = f"plan {plan_id} no longer fits: h1 sdb: sdb is in write through now, and was in "
    error = refused(mgr, "apply", plan_id=plan_id)
    assert error.startswith(f"{fits}write back"), error


def shown(mgr):
    return said(mgr, "plan show", plan_id="p1")


def statuses(mgr):
    return [change["status"] for change in shown(mgr)["changes"]]


@pytest.mark.slow
@pytest.mark.parametrize("item", NEEDED)
def test_a_plan_is_not_begun_where_a_precondition_is_missed_unless_that_is_overridden(item):
    mgr = measured()
    ok(mgr.command("plan"))
    miss(mgr, item)
    error = refused(mgr, "apply", errno.EPERM, plan_id="p1")
    name = item.name.lower()
    assert error.startswith(f"{precondition_text([item])} ({name}): ")
    assert f"`ceph wcache apply p1 --override={name}`" in error
    assert f"not met now: {faults([item])[0]} ({name})" in ok(
        mgr.command("apply", plan_id="p1", dry_run=True))
    others = ",".join(other.name.lower() for other in NEEDED if other is not item)
    error = refused(mgr, "apply", errno.EPERM, plan_id="p1", override=others)
    assert error.endswith(f"--override={others},{name}`")
    assert shown(mgr)["status"] == "planned"
    assert said(mgr, "apply", plan_id="p1", override=name)["changed"] is True
    mgr.settle()
    plan = shown(mgr)
    assert plan["status"] == "done"
    assert plan["overridden"] == plan["forced"] == [item.value]


def test_each_precondition_has_words_that_say_what_is_wrong():
    assert all(faults([item]) != [item.value] for item in Precondition)
    # JSON and stored plans hold values, which are taken as well
    assert faults([item.value for item in Precondition]) == faults(Precondition)
    assert "heard" not in precondition_text(Precondition)


@pytest.mark.slow
@pytest.mark.parametrize("item", RECORDED)
def test_what_goes_on_elsewhere_keeps_no_plan_and_what_holds_is_not_recorded_as_forced(item):
    mgr = measured()
    ok(mgr.command("plan"))
    miss(mgr, item)
    ok(mgr.command("apply", plan_id="p1", override="cluster_healthy"))
    mgr.settle()
    assert shown(mgr)["status"] == "done"
    assert shown(mgr)["forced"] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", ["moon", "osds_well,", "osd_up", "PGs active+clean", "no_scrub", "no_recovery"]
)
def test_an_unknown_name_is_refused_and_the_known_ones_are_told(text):
    mgr = measured()
    ok(mgr.command("plan"))
    error = refused(mgr, "apply", errno.EINVAL, plan_id="p1", override=text)
    assert "cluster_healthy, no_upgrade, no_maintenance, osds_well" in error


@pytest.mark.slow
def test_a_change_under_way_is_finished_and_the_next_one_waits_until_all_holds_again():
    mgr = applying()
    until(mgr, MAKING)
    miss(mgr, HEALTHY)
    mgr.steps(60, 1.0)
    assert statuses(mgr) == ["applied", "planned", "planned"]
    plan = shown(mgr)
    assert (plan["status"], plan["missed"]) == ("running", ["cluster healthy"])
    assert f"waiting: {precondition_text([HEALTHY])} (cluster_healthy)" in plan["reason"]
    assert mgr.loads.waiting == {}  # nothing is measured meanwhile either
    miss(mgr)
    mgr.settle()
    plan = shown(mgr)
    assert (plan["status"], plan["missed"], plan["reason"]) == ("done", [], "")
    log = [entry["text"] for entry in said(mgr, "history")["history"]]
    assert sum("waiting: preconditions not met" in text for text in log) == 1
    fine(mgr)


@pytest.mark.slow
def test_what_breaks_while_the_osd_is_measured_before_a_change_keeps_that_change():
    mgr = applying()
    first_look(mgr)
    assert mgr.loads.waiting
    miss(mgr, HEALTHY)
    mgr.steps(20)
    assert statuses(mgr) == ["planned"] * 3
    assert all_modes(mgr) == {WB}


@pytest.mark.slow
def test_a_plan_that_waits_can_be_told_to_go_on():
    mgr = waiting()
    assert said(mgr, "apply", plan_id="p1")["changed"] is False
    assert said(mgr, "apply", plan_id="p1", override="cluster_healthy")["changed"] is True
    assert said(mgr, "apply", plan_id="p1", override="cluster_healthy")["changed"] is False
    mgr.settle()
    assert shown(mgr)["status"] == "done"
    assert all_modes(mgr) == {WT}
    assert shown(mgr)["forced"] == ["cluster healthy"]


@pytest.mark.slow
def test_a_plan_that_waits_survives_a_mgr_that_is_lost_and_measures_nothing_meanwhile():
    mgr = waiting()
    mgr.restart()
    mgr.steps(20, 1.0)
    assert mgr.loads.measured == 0
    miss(mgr)
    mgr.settle()
    assert shown(mgr)["status"] == "done"


def waits_told(mgr):
    """(severity, subject, detail) of each plan or `auto` that has waited for long."""
    found = findings_of(mgr, "WCACHE_PLAN_WAITS")
    return [(item["severity"], item["subject"], item["detail"]) for item in found]


@pytest.mark.slow
def test_an_hour_of_waiting_is_told_and_after_a_week_a_plan_pauses_and_can_go_on():
    mgr = applying()
    until(mgr, MAKING)
    miss(mgr, HEALTHY)
    mgr.steps(20, 1.0)
    mgr.step(TOLD_AFTER_S - 60.0)
    assert waits_told(mgr) == []
    mgr.restart()
    mgr.step(60.0)
    mgr.step(1.0)
    ((severity, subject, detail),) = waits_told(mgr)
    assert (severity, subject) == ("warning", "p1")
    assert detail == shown(mgr)["reason"]
    assert "(cluster_healthy)" in detail
    for part in range(3):
        mgr.steps(20, HOLD_MAX_S / 50)
        if part < 2:
            assert shown(mgr)["status"] == "running"
            mgr.restart()
    assert shown(mgr)["status"] == "paused"
    assert waits_told(mgr) == []  # that it is paused is told
    assert "waited for 7 days: waiting: preconditions not met" in shown(mgr)["reason"]
    assert statuses(mgr) == ["applied", "planned", "planned"]
    assert "ceph wcache rollout resume p1" in refused(mgr, "apply", errno.EBUSY, plan_id="p1")
    miss(mgr)
    assert said(mgr, "rollout resume", plan_id="p1")["changed"] is True
    mgr.settle()
    assert (shown(mgr)["status"], all_modes(mgr)) == ("done", {WT})
    assert said(mgr, "rollback", plan_id="p1")["changed"] is True
    mgr.settle()
    assert all_modes(mgr) == {WB}


@pytest.mark.slow
@pytest.mark.parametrize("how", ["rollback", "freeze"])
def test_a_plan_that_waits_can_be_ended(how):
    mgr = waiting()
    ok(mgr.command(how))
    mgr.settle()
    assert shown(mgr)["status"] == {"rollback": "rolled back", "freeze": "stopped"}[how]
    assert shown(mgr)["missed"] == []  # it waits for nothing any more


@pytest.mark.slow
@pytest.mark.parametrize("more", [{}, {"trial": True}, {"persist": True}], ids=str)
def test_nothing_is_applied_while_the_cluster_is_frozen_whatever_is_overridden(more):
    mgr = measured()
    ok(mgr.command("plan"))
    ok(mgr.command("freeze"))
    override = ",".join(item.name.lower() for item in NEEDED)
    for words in (more, {**more, "override": override}):
        assert "the cluster is frozen" in refused(mgr, "apply", errno.EPERM, plan_id="p1", **words)
    mgr.settle()
    assert shown(mgr)["status"] == "planned"
    assert all_modes(mgr) == {WB}
    ok(mgr.command("freeze", thaw=True))
    ok(mgr.command("apply", plan_id="p1"))
    mgr.settle()
    assert shown(mgr)["status"] == "done"


@pytest.mark.slow
def test_what_is_in_place_is_not_made_to_last_while_the_cluster_is_frozen():
    mgr = measured()
    apply_plan(mgr)
    mgr.settle()
    ok(mgr.command("freeze"))
    error = refused(mgr, "apply", errno.EPERM, plan_id="p1", persist=True)
    assert "the cluster is frozen" in error


@pytest.mark.slow
@pytest.mark.parametrize("override", ["", "osds_well,cluster_healthy,no_upgrade"])
def test_a_plan_that_goes_on_after_a_restart_waits_for_the_journal_of_the_next_host(override):
    mgr = applying()
    until(mgr, MADE, PLANNED)
    ok(mgr.command("apply", plan_id="p1", override=override))
    mgr.restart()
    for probe in mgr.probes.values():
        probe.fails = no_report
    mgr.steps(60, 1.0)
    assert statuses(mgr) == ["applied", "planned", "planned"]
    assert f"waiting: {precondition_text([Precondition.JOURNAL_SETTLED])}" in shown(mgr)["reason"]
    for probe in mgr.probes.values():
        probe.fails = lambda task: None
    mgr.settle()
    assert shown(mgr)["status"] == "done"
    fine(mgr)


@pytest.mark.slow
def test_a_plan_is_not_paused_by_what_a_host_reported_before_a_restart():
    mgr = applying()
    until(mgr, MADE, PLANNED)
    for key in mgr.store.keys("report/"):  # stored while a lease had the drives
        mgr.store.kept[key] = mgr.store.kept[key].replace(WB.value, WT.value)
    mgr.restart()
    for probe in mgr.probes.values():
        probe.fails = no_report
    mgr.steps(60, 1.0)
    told = shown(mgr)
    assert told["status"] == "running", told["reason"]
    assert told["reason"] == f"waiting: {precondition_text([Precondition.JOURNAL_SETTLED])}"
    for probe in mgr.probes.values():
        probe.fails = lambda task: None
    mgr.settle()
    assert shown(mgr)["status"] == "done"


@pytest.mark.slow
def test_a_plan_waits_while_the_journal_names_a_lease_on_its_next_drive():
    mgr = applying()
    until(mgr, MADE, PLANNED)
    mgr.restart()
    mgr.probes["h1"].stuck.add("domain-sdb")
    mgr.probes["h1"].leased["domain-sdb"] = WB
    mgr.steps(60, 1.0)
    assert statuses(mgr) == ["applied", "planned", "planned"]
    mgr.probes["h1"].stuck.clear()
    mgr.probes["h1"].leased.clear()
    mgr.now_s += REPORT_EVERY_S
    mgr.settle()
    assert shown(mgr)["status"] == "done"


def no_report(task):
    report = isinstance(task.request, ReportRequest)
    return FailureOutcome("the host is slow", restored=True) if report else None


@pytest.mark.slow
def test_the_way_back_needs_no_precondition():
    mgr = applying()
    mgr.settle()
    miss(mgr, *NEEDED)
    assert said(mgr, "rollback", plan_id="p1")["changed"] is True
    mgr.settle()
    assert all_modes(mgr) == {WB}


@pytest.mark.slow
def test_simulated_drives_need_no_healthy_cluster():
    mgr = measured_anew(simulated=True)
    ok(mgr.command("plan"))
    miss(mgr, *NEEDED)
    ok(mgr.command("apply", plan_id="p1"))
    mgr.settle()
    assert (shown(mgr)["status"], all_modes(mgr)) == ("done", {WT})
    assert mgr.loads.measured == 0, "no OSD is asked"


def test_a_plan_goes_by_rack_and_host_where_pools_spread_over_racks():
    reports, cluster = make.fleet(4, 2)
    racks = {"h0": "r2", "h1": "r1", "h2": "r2", "h3": "r1"}
    for osd_id, osd in cluster.osds.items():
        rack = racks[osd.hostname]
        location = (("host", osd.hostname), ("rack", rack), ("root", "default"))
        cluster.osds[osd_id] = replace(osd, location=location)
    racked = replace(cluster, failure_types=frozenset({"rack"}))
    assert order(reports, racked) == ["h1", "h1", "h3", "h3", "h0", "h0", "h2", "h2"]
    assert order(reports, cluster) == ["h0", "h0", "h1", "h1", "h2", "h2", "h3", "h3"]
    first = plan_of(reports, racked)[0]
    assert first.failure_domain == "rack r1, host h1"
    assert plan_of(reports, cluster)[0].failure_domain == "host h0"


def test_two_probes_names_of_one_crush_host_stay_together():
    reports, cluster = make.fleet(3, 2)
    for osd_id, osd in cluster.osds.items():
        name = "b" if osd.hostname == "h1" else "a"
        cluster.osds[osd_id] = replace(osd, location=(("host", name), ("root", "default")))
    assert order(reports, cluster) == ["h0", "h0", "h2", "h2", "h1", "h1"]


def plan_of(reports, cluster):
    recommended = recommend([result(), result(hostname="h2", record_id="r2")])
    return make_changes(
        Asked("p1", "n"), recommended, reports, cluster, throwaway=False
    ).changes


def order(reports, cluster):
    return [change.hostname for change in plan_of(reports, cluster)]


def test_a_plan_that_was_never_begun_is_forgotten_and_its_number_never_comes_again():
    mgr = measured()
    ok(mgr.command("plan"))
    assert said(mgr, "plan rm", plan_id="p1", dry_run=True)["would"] == ["forget plan p1"]
    assert [row["plan_id"] for row in said(mgr, "plan ls")["plans"]] == ["p1"]
    assert said(mgr, "plan rm", plan_id="p1")["changed"] is True
    mgr.settle()
    taken_over(mgr)
    assert said(mgr, "plan ls")["plans"] == []
    assert "p1" in refused(mgr, "apply", plan_id="p1")
    assert said(mgr, "plan")["plan_id"] == "p2"


@pytest.mark.slow
def test_a_plan_that_was_begun_is_kept_as_the_way_back():
    mgr = applied()
    assert "it says what was there before" in refused(mgr, "plan rm", plan_id="p1")
    assert said(mgr, "plan ls")["plans"][0]["plan_id"] == "p1"
    ok(mgr.command("rollback", plan_id="p1"))
