"""Plans that meet memory trials: beside one, or tried by one (`apply PLAN --trial`)."""

from dataclasses import replace

import pytest
from memory_world import (
    BUSY,
    GIB,
    TARGET,
    a_mgr,
    a_trial,
    begun,
    leased,
    one_host,
    raised,
    shown,
    to_its_end,
    watch,
)
from module_world import ok, refused, said, settled, start
from wcache.core.events import ClusterSeen
from wcache.core.record import Precondition
from wcache.knobs.memory.trial_result import TrialVerdict


def with_a_plan(**options):
    """A mgr with a plan that gives class hdd more, since a trial has shown what that gains."""
    mgr = a_mgr(hosts=3, ram_bytes=32 * GIB, **options)
    to_its_end(begun(mgr))
    watch(mgr)
    plan = said(mgr, "plan", knob="memory")
    assert plan["plan_id"] == "p1"
    mgr.osd_memory.leases.clear()
    return mgr


def planned(mgr):
    """The target that the plan comes to for class hdd."""
    edits = [e for c in said(mgr, "plan show", plan_id="p1")["changes"] for e in c["edits"]]
    return int(edits[-1]["value"])


@pytest.mark.slow
def test_a_trial_of_a_plan_leases_its_target_and_leaves_the_plan_as_it_is():
    mgr = with_a_plan()
    before = dict(mgr.config.kept)
    answer = said(mgr, "apply", plan_id="p1", trial=True)
    assert (answer["changed"], answer["status"], answer["trial_id"]) == (True, "planned", "t2")
    trial = a_trial(mgr).trial
    assert (trial.plan_id, trial.device_class, trial.high_bytes) == ("p1", "hdd", planned(mgr))
    assert set(leased(raised(mgr)).values()) == {planned(mgr)}
    assert set(leased(mgr)) == set(trial.osd_ids)
    to_its_end(mgr)
    assert leased(mgr) == {}
    assert a_trial(mgr).trial.status.value == "done"
    assert mgr.config.kept == before
    results = said(mgr, "memory trial show")["results"]
    assert [item["trial_id"] for item in results] == ["t1", "t2"]
    ok(mgr.command("apply", plan_id="p1"))  # what was tried can be carried out
    to_its_end(mgr)
    assert said(mgr, "plan show", plan_id="p1")["status"] == "done"


@pytest.mark.slow
def test_it_is_shown_and_told_as_a_trial_that_was_asked_for_by_itself():
    mgr = with_a_plan()
    ok(mgr.command("apply", plan_id="p1", trial=True))
    raised(mgr)
    (row,) = said(mgr, "plan ls")["trials"]
    assert (row["trial_id"], row["plan_id"], row["status"]) == ("t2", "p1", "running")
    assert said(mgr, "rollout show", plan_id="t2")["trial"] == row
    assert said(mgr, "rollout show", plan_id="p1")["trials"] == [row]
    for plan_id in ("t2", "p1"):
        text = ok(mgr.command("rollout show", plan_id=plan_id))
        assert "trial t2 of plan p1: running; wcache memory trial t2, about" in text
    status = said(mgr, "status")
    assert status["measuring"] == "memory trial t2"
    assert "wcache.t2" in mgr.views.under_way()
    told = [line["text"] for line in said(mgr, "history")["history"]]
    assert any("memory trial of 3 OSDs" in line for line in told)
    assert any("apply --trial requested: t2" in line for line in told)
    assert (shown(mgr)["trial_id"], shown(mgr)["plan_id"]) == ("t2", "p1")


@pytest.mark.slow
def test_an_abort_ends_it_and_every_lease_goes_back():
    mgr = with_a_plan()
    ok(mgr.command("apply", plan_id="p1", trial=True))
    raised(mgr)
    text = ok(mgr.command("rollout abort", plan_id="t2", dry_run=True))
    assert text.splitlines() == [
        "dry run: nothing of trial t2 is changed", "would restore what OSDs were leased",
        "next: ceph wcache rollout abort t2",
    ]
    assert leased(mgr)
    assert said(mgr, "rollout abort", plan_id="t2")["changed"] is True
    mgr.step(1.0)
    assert leased(mgr) == {}
    told = said(mgr, "rollout show", plan_id="t2")["trial"]
    assert (told["status"], told["reason"]) == ("stopped", "stopped by an admin")
    assert said(mgr, "rollout abort", plan_id="t2")["changed"] is False


@pytest.mark.slow
def test_a_dry_run_says_which_osds_and_for_how_long_and_leases_nothing():
    mgr = with_a_plan()
    told = said(mgr, "apply", plan_id="p1", trial=True, dry_run=True)
    assert len(told["would_change"]) == 3
    assert "back, leased" in told["would_change"][0]
    assert told["seconds_most"] > 3600
    assert "would change osd." in ok(mgr.command("apply", plan_id="p1", trial=True, dry_run=True))
    for arguments in ({"persist": True}, {"override": "osds_well"}):
        error = refused(mgr, "apply", plan_id="p1", trial=True, **arguments)
        assert "takes neither --override nor --persist" in error
    assert mgr.osd_memory.leases == []
    assert a_trial(mgr).job_id == "t1"


@pytest.mark.slow
def test_a_frozen_or_busy_cluster_has_no_trial_of_a_plan():
    mgr = with_a_plan()
    ok(mgr.command("freeze"))
    for dry_run in (False, True):
        error = mgr.command("apply", plan_id="p1", trial=True, dry_run=dry_run)[2]
        assert "the cluster is frozen" in error
    ok(mgr.command("freeze", thaw=True))
    ok(mgr.command("apply", plan_id="p1", trial=True))
    error = mgr.command("apply", plan_id="p1", trial=True)[2]
    assert "memory trial t2 is under way" in error
    assert "`ceph wcache rollout abort t2`" in error
    would = ok(mgr.command("apply", plan_id="p1", trial=True, dry_run=True))
    assert "memory trial t2 is under way" in would
    assert would.endswith("\nnext: ceph wcache memory trial show")
    assert "memory trial t2 is under way" in mgr.command("apply", plan_id="p1")[2]


def test_a_plan_that_only_shrinks_is_not_tried():
    mgr = a_mgr(hosts=3, ram_bytes=9 * GIB)
    watch(mgr)
    plan_id = said(mgr, "plan", knob="memory", scope="class:ssd")["plan_id"]
    error = refused(mgr, "apply", plan_id=plan_id, trial=True)
    assert "raises no target" in error
    assert "apply it without --trial" in error


@pytest.mark.slow
def test_a_target_that_a_host_has_no_memory_for_is_not_tried():
    mgr = with_a_plan()
    for probe in mgr.probes.values():
        probe.memory = type(probe.memory)(11 * GIB)
    mgr.report_all()
    mgr.step()
    assert "does not have the memory for it" in refused(mgr, "apply", plan_id="p1", trial=True)
    assert mgr.osd_memory.leases == []


@pytest.mark.slow
def test_only_osds_that_the_plan_gives_more_are_tried():
    mgr = with_a_plan()
    mgr.config.kept[("osd.0", TARGET)] = str(4 * GIB)
    mgr.inside.config.read_soon()
    watch(mgr)
    plan_id = said(mgr, "plan", knob="memory")["plan_id"]
    ok(mgr.command("apply", plan_id=plan_id, trial=True))
    assert a_trial(mgr).trial.osd_ids == (2, 4)
    assert (a_trial(mgr).trial.plan_id, set(leased(raised(mgr)))) == (plan_id, {2, 4})


def planned_modes(mgr, *hosts):
    """A plan of cache modes for drives of these hosts; clients are not looked at."""
    others = [name for name in mgr.probes if name not in hosts]
    without = ",".join(
        f"{name}:{drive.dev_name}" for name in others for drive in mgr.probes[name].drives.values())
    return said(mgr, "plan", without=without)["plan_id"]


def beside_plans(each=1):
    """OSDs with memory, of drives whose mode has a verdict."""
    mgr = a_mgr(hosts=6, ram_bytes=32 * GIB, each=each)
    start(mgr, scope="class:hdd")
    settled(mgr)
    watch(mgr)
    return mgr


def test_a_trial_goes_on_beside_a_paused_plan_on_osds_that_the_plan_does_not_have():
    mgr = beside_plans()
    plan_id = planned_modes(mgr, "h0", "h1")
    ok(mgr.command("apply", plan_id=plan_id))
    ok(mgr.command("rollout pause", plan_id=plan_id))
    mgr.settle()
    kept = {osd for c in mgr.inside.rollouts[plan_id].rollout.changes for osd in c.treated}
    told = said(mgr, "memory trial start", scope="class:hdd", osds=3, accept_cost=True)
    assert told["trial_id"]
    assert not kept & {*told["forecast"]["osds"]}
    ok(mgr.command("rollout abort", plan_id=told["trial_id"]))
    mgr.step(1.0)
    error = mgr.command("memory trial start", scope="class:hdd", osds=6, accept_cost=True)[2]
    assert f"plan {plan_id} is paused, with osd.{min(kept)}" in error
    assert f"`ceph wcache rollout resume {plan_id}`" in error


@pytest.mark.slow
def test_beside_a_trial_a_plan_and_a_campaign_go_on_and_its_osds_are_left_alone():
    mgr = beside_plans()
    begun(mgr)
    tried = {*shown(mgr)["osd_ids"]}
    names = [name for name, probe in mgr.probes.items() for drive in probe.drives.values()
             if {use.osd_id for use in drive.uses} & tried]
    assert len(names) == len(tried)
    mine, others = planned_modes(mgr, *names), planned_modes(mgr, *({*mgr.probes} - {*names}))
    error = mgr.command("apply", plan_id=mine)[2]
    assert f"memory trial t1 is under way, with osd.{min(tried)}" in error
    world = mgr.engine.world()
    for plan_id, missed in ((mine, True), (others, False)):
        machine, cluster = mgr.inside.rollouts[plan_id], world.cluster
        found = mgr.inside.looking.missed_now(machine, cluster, lambda: world)
        assert (Precondition.NO_OTHER_PLAN in found) is missed
    ok(mgr.command("apply", plan_id=others))
    mgr.steps(60, 1.0)
    assert mgr.inside.rollouts[others].rollout.status.value == "done"
    answer = said(mgr, "campaign start", loads="depth1", drives_per_model=9, accept_cost=True)
    assert any("memory trial t1 is under way, and has this host or OSD for itself" in line
               for line in answer["forecast"]["skipped"])
    assert not tried & {
        osd_id for run in mgr.inside.runs.values() if not run.over for osd_id in run.spec.osd_ids}
    # what was planned on such a drive all the same waits, and no plan compares with it
    run = next(run for run in mgr.inside.runs.values() if not run.over)
    run.state = replace(run.state, spec=replace(run.spec, experiments=(
        replace(run.spec.experiments[0], osd_id=min(tried)),)))
    mgr.step(1.0)
    assert not run.under_way
    assert f"waiting: memory trial t1 has osd.{min(tried)} for itself" in run.state.reason
    seen = ClusterSeen("", (), 1, controls=(*sorted(tried), 90, 91, 92))
    assert mgr.inside.looking.as_of_now(others, seen).controls == (90, 91, 92)
    assert shown(mgr)["status"] == "running"


@pytest.mark.parametrize(("told", "line"), [
    (None, "ceph wcache memory trial start class:hdd --dry-run"),
    ((TrialVerdict.NONE, 1.0), ""),
])
def test_a_plan_that_changes_nothing_leads_to_a_trial_where_none_has_told(told, line):
    mgr = one_host(BUSY, BUSY, told=told)
    watch(mgr)
    plan = said(mgr, "plan", knob="memory")
    assert (plan["changes"], plan["next"]) == ([], line)
    if line:
        forecast = said(mgr, "memory trial start", scope="class:hdd", dry_run=True)
        assert forecast["next"] == "ceph wcache memory trial start class:hdd --accept-cost"
        begun(mgr)
        assert said(mgr, "plan", knob="memory")["next"] == "ceph wcache memory trial show"
