"""`ab` over an option of OSDs: the mgr sets it under a lease, and whatever happens it goes back."""

from dataclasses import replace

import pytest
from compared_world import (
    FAST,
    HDD,
    PROFILE,
    SLOW,
    TRIAL,
    decided,
    lost,
    planned,
    start,
    stop,
    the_run,
    turning,
    until_set,
    wire,
    with_osds,
    with_value_set,
)
from module_world import findings_of, ok, refused, said, settled
from wcache.core.experiment.osd_option import NONE
from wcache.core.model import Verdict


def test_no_probe_is_asked_for_anything_and_it_goes_on_without_the_one_of_its_host():
    mgr = with_value_set()
    probe = mgr.probes["h0"]
    assert (probe.lease, probe.leased_options) == (None, {})
    assert not any(pending.owner for pending in mgr.inside.hosts.tasks.values())
    probe.muted = True
    mgr.settle()
    assert decided(mgr) == f"{HDD} {FAST}"


@pytest.mark.slow
@pytest.mark.parametrize("before", [None, "32768"])
def test_a_mgr_that_is_lost_at_any_step_leaves_a_value_that_the_next_puts_back_first(before):
    """Counted over the steps of the look, the first settling checks and periods."""
    seen = set()
    for steps in range(40):
        mgr = with_osds()
        if before is not None:
            mgr.osd_options.at_run_time[0, HDD] = before
        was = dict(mgr.osd_options.at_run_time)
        start(mgr)
        mgr.osd_options.steps_left = steps
        assert lost(mgr)
        mgr.osd_options.steps_left = None
        left = mgr.osd_options.at_run_time.get((0, HDD))
        seen.add(left)
        mgr.restart()
        wire(mgr)
        mgr.osd_options.set_so_far.clear()
        mgr.osd_options.run()  # what the new mgr asks for before anything else
        assert mgr.osd_options.at_run_time == was, f"lost before step {steps}: {left} is left"
        mgr.settle()
        assert mgr.osd_options.at_run_time == was
        assert decided(mgr) == f"{HDD} {FAST}"
    assert seen == {before, SLOW, FAST}  # it was lost in each of the states


@pytest.mark.parametrize(
    ("before", "undo"), [(None, f"unset {HDD}"), ("32768", f"set {HDD} 32768")]
)
def test_the_cluster_is_told_of_a_value_that_stood_while_no_mgr_ran_the_module(before, undo):
    mgr = with_osds()
    if before is not None:
        mgr.osd_options.at_run_time[0, HDD] = before
    start(mgr)
    until_set(mgr)
    assert mgr.cluster_log == []
    mgr.restart()
    wire(mgr)
    mgr.step()
    (told,) = mgr.cluster_log
    assert told.startswith(f"wcache c1.0: osd.0 still had the {HDD} that it was")
    assert f"osd.0 still had the {HDD}" in ok(mgr.command("history"))
    mgr.osd_options.down.add(0)
    stop(mgr)
    (found,) = said(mgr, "status")["findings"]
    assert f"by hand: `ceph tell osd.0 config {undo}`" in found["detail"]


@pytest.mark.slow
def test_nobody_is_told_where_the_osd_had_its_own_value_again():
    mgr = with_value_set()
    mgr.osd_options.restart(0)
    mgr.restart()
    wire(mgr)
    mgr.settle()
    assert mgr.cluster_log == []


def test_ab_and_the_entry_say_what_an_admin_does_while_no_mgr_runs_the_module():
    mgr = with_osds()
    undo = f"ceph tell osd.N config unset {HDD}"
    assert undo in ok(mgr.command("ab", option=TRIAL, dry_run=True))
    assert undo in ok(mgr.command("option show", option=HDD))


def test_a_frozen_cluster_has_its_value_back_after_a_failover():
    mgr = with_value_set()
    mgr.restart()
    said(mgr, "freeze", yes=True)
    wire(mgr)
    mgr.settle()
    assert mgr.osd_options.at_run_time == {}
    assert the_run(mgr)["restored"] is True


def test_an_osd_that_does_not_answer_at_the_end_is_asked_until_it_does():
    mgr = with_value_set()
    mgr.osd_options.down.add(0)
    stop(mgr)
    assert the_run(mgr)["restored"] is False
    error = refused(mgr, "ab", option=TRIAL)  # nothing is begun there meanwhile
    assert f"{HDD} of osd.0 was not read back yet" in error
    (found,) = said(mgr, "status")["findings"]
    assert found["code"] == "WCACHE_RESTORE_FAILED"
    assert "start the OSD if it is down" in found["advice"]
    assert f"by hand: `ceph tell osd.0 config unset {HDD}`" in found["detail"]
    mgr.restart()  # and not by this mgr alone
    mgr.report_all()
    mgr.steps(3, 70.0)
    assert mgr.osd_options.at_run_time == {(0, HDD): SLOW}
    mgr.osd_options.down.clear()
    mgr.step(70.0)
    mgr.step()
    assert mgr.osd_options.at_run_time == {}
    assert the_run(mgr)["restored"] is True


def test_an_osd_that_left_the_cluster_owes_nothing():
    mgr = with_value_set()
    mgr.osd_options.down.add(0)
    mgr.view.state = replace(mgr.view.state, osds={})
    stop(mgr)
    assert the_run(mgr)["restored"] is True


def test_an_osd_that_starts_again_meanwhile_voids_the_period_alone():
    mgr = with_value_set()
    mgr.osd_options.restart(0)
    mgr.settle()
    assert mgr.osd_options.at_run_time == {}
    assert decided(mgr) == f"{HDD} {FAST}"


def test_one_that_does_not_take_it_ends_the_run_and_has_its_own():
    mgr = with_osds()
    mgr.osd_options.stubborn.add(0)
    start(mgr)
    mgr.settle()
    run = the_run(mgr)
    assert (run["status"], run["restored"]) == ("aborted", True)
    assert f"osd.0 was given {HDD}" in run["reason"]
    assert f"has {NONE}" in run["reason"]


def test_what_somebody_else_sets_meanwhile_ends_it():
    mgr = with_osds()
    start(mgr)
    for _ in range(2000):
        mgr.step()
        if (0, HDD) in mgr.osd_options.at_run_time:
            mgr.osd_options.at_run_time[0, HDD] = "4096"
        if the_run(mgr)["status"] == "aborted":
            break
    assert the_run(mgr)["status"] == "aborted"
    assert mgr.osd_options.at_run_time == {}


def test_nothing_is_set_before_the_mons_have_what_was_there():
    mgr = with_osds()
    start(mgr)
    mgr.store.slow = True
    mgr.steps(20)
    assert mgr.osd_options.set_so_far == []
    mgr.store.slow = False
    mgr.store.answer()
    until_set(mgr)
    mgr.restart()  # so the next mgr knows
    (prior,) = mgr.inside.runs["c1.0"].state.priors
    assert [(one.name, one.value) for one in prior.drives[0].options] == [(HDD, NONE)]


@pytest.mark.parametrize("steps", range(3))
def test_a_mgr_that_is_lost_while_it_gives_back_leaves_it_to_the_next(steps):
    mgr = with_value_set()
    said(mgr, "campaign stop", campaign_id="c1")
    for _ in range(2):  # the next one too
        mgr.osd_options.steps_left = steps
        lost(mgr, 5)
        mgr.osd_options.steps_left = None
        left = bool(mgr.osd_options.at_run_time)
        mgr.restart()
    mgr.settle()
    assert mgr.osd_options.at_run_time == {}
    assert bool(mgr.cluster_log) is left
    assert the_run(mgr)["restored"] is True


def without_effect(mgr, osd_id=0):
    mgr.osd_options.configured.update({
        (osd_id, "osd_op_queue"): "wpq", (osd_id, "bluestore_prefer_deferred_size"): "4096",
    })


NO_EFFECT = pytest.mark.parametrize(
    ("option", "words"),
    [
        (f"{PROFILE}=balanced,high_client_ops", "osd_op_queue is wpq and not mclock_scheduler"),
        (TRIAL, "bluestore_prefer_deferred_size is 4096 and not 0"),
    ],
)


@NO_EFFECT
@pytest.mark.parametrize("dry_run", [False, True])
def test_where_an_option_does_nothing_on_any_osd_the_command_is_refused(option, words, dry_run):
    mgr = with_osds()
    without_effect(mgr)
    code, _, error = mgr.command("ab", option=option, dry_run=dry_run)
    assert code != 0
    assert f"does nothing on osd.0: {words}" in error
    assert mgr.inside.campaigns == {}


def test_osds_of_the_sample_on_which_it_does_nothing_are_left_out_and_named():
    mgr = with_osds(hosts=2)
    without_effect(mgr)
    made = said(mgr, "ab", option=TRIAL)
    assert any("does nothing on osd.0" in line for line in made["forecast"]["skipped"])
    mgr.settle()
    assert {osd_id for osd_id, _, _ in mgr.osd_options.set_so_far} == {1}


def test_an_osd_that_does_not_answer_the_command_is_asked_again_by_its_run():
    mgr = with_osds()
    without_effect(mgr)
    mgr.osd_options.down.add(0)
    start(mgr)
    mgr.osd_options.down.clear()
    mgr.settle()
    assert "does nothing on osd.0" in the_run(mgr)["reason"]


@NO_EFFECT
def test_where_an_option_does_nothing_the_run_says_so_and_sets_nothing(option, words):
    mgr = with_osds()
    start(mgr, option=option)
    without_effect(mgr)
    mgr.settle()
    run = the_run(mgr)
    assert (run["status"], run["restored"]) == ("aborted", True)
    assert words in run["reason"]
    assert mgr.osd_options.set_so_far == []


@pytest.mark.parametrize(("simulated", "words"), [
    (False, f"the drive of osd.0 does not rotate: {HDD} does nothing there"),
    (True, "a simulated one has none"),
])
def test_it_is_not_compared_on_drives_of_another_kind_nor_on_simulated_ones(simulated, words):
    mgr = with_osds(simulated=simulated)
    turning(mgr, rotational=simulated)
    assert words in refused(mgr, "ab", option=TRIAL)


def test_a_task_that_the_release_overtakes_is_not_begun_any_more():
    mgr = with_osds()
    start(mgr)
    for _ in range(400):
        mgr.step()
        mgr.engine.tick()
        if mgr.osd_options.waiting and mgr.osd_options.at_run_time:
            break
    before = len(mgr.osd_options.set_so_far)
    said(mgr, "campaign stop", campaign_id="c1")
    assert mgr.osd_options.waiting == 2
    mgr.settle()
    assert [value for _, _, value in mgr.osd_options.set_so_far[before:]] == [None]


def test_what_an_admin_has_stored_since_is_known_to_the_next_plan():
    mgr = with_osds()
    start(mgr)
    settled(mgr)
    mgr.config.kept["osd.0", HDD] = FAST  # a reading of before has the default, SLOW
    assert said(mgr, "plan", knob="options", dry_run=True)["changes"] != []
    mgr.step(1.0)
    assert said(mgr, "plan", knob="options", dry_run=True)["changes"] == []


@pytest.mark.slow
def test_a_verdict_that_falls_holds_the_plan_before_the_next_osds_are_set():
    mgr = with_osds(hosts=2)
    plan_id, stored = planned(mgr)["plan_id"], mgr.config.kept
    said(mgr, "apply", plan_id=plan_id)
    while float(stored.get(("osd.0", HDD), SLOW)) == float(SLOW):
        mgr.step(1.0)
    results = mgr.inside.analyses.results
    kept = dict(results)
    results.update({i: replace(one, verdict=Verdict.INSUFFICIENT) for i, one in kept.items()})
    mgr.steps(60, 1.0)
    plan = said(mgr, "plan show", plan_id=plan_id)
    assert [change["status"] for change in plan["changes"]] == ["applied", "planned"]
    assert "no longer stands" in plan["reason"]
    assert stored["osd.1", HDD] == SLOW
    results.update(kept)
    mgr.settle()
    assert said(mgr, "plan show", plan_id=plan_id)["status"] == "done"


@pytest.mark.slow
def test_a_verdict_about_osds_is_planned_set_read_back_from_them_and_taken_back():
    mgr = with_osds(hosts=2)
    plan, stored = planned(mgr), mgr.config.kept
    edits = [edit for change in plan["changes"] for edit in change["edits"]]
    assert [(e["who"], e["prior"], e["value"]) for e in edits] == [
        ("osd.0", None, FAST), ("osd.1", SLOW, FAST)]
    said(mgr, "apply", plan_id=plan["plan_id"])
    mgr.settle()
    assert said(mgr, "plan show", plan_id=plan["plan_id"])["status"] == "done"
    assert {who: float(value) for (who, _), value in stored.items()} == {
        "osd.0": float(FAST), "osd.1": float(FAST)}
    del stored["osd.1", HDD]
    mgr.steps(3, 400.0)
    (found,) = findings_of(mgr, "WCACHE_OPTION_DRIFT")
    assert found["subject"] == "osd.1"
    stored["osd.1", HDD] = FAST
    said(mgr, "rollback", plan_id=plan["plan_id"])
    mgr.settle()
    assert {who: float(value) for (who, _), value in stored.items()} == {"osd.1": float(SLOW)}
    assert mgr.exceptions == []


def gated_with_no_clients():
    """A mgr with a plan about OSDs, where clients would judge it and do nothing."""
    mgr = with_osds(hosts=2, gate_by_load=True, gate_block_s=0.5, canary_wait_s=0.0)
    mgr.clients.others = 0.0
    return mgr, planned(mgr)


@pytest.mark.parametrize(("override", "judged_by"), [
    ("client_load", "what is read back alone; client_load is overridden"),
    (None, "clients' reads and writes in blocks of 0.5 s, beside OSDs that are not changed; where "
           "clients do too little, by what is read back alone"),
])
def test_a_plan_that_nobody_judges_says_before_and_after_that_it_is_only_read_back(
    override, judged_by
):
    mgr, _ = gated_with_no_clients()
    given = {"plan_id": "p1", **({"override": override} if override else {})}
    would = said(mgr, "apply", dry_run=True, **given)
    assert (would["missed"], would["judged_by"]) == ([], judged_by)
    more = " --override=client_load" if override else ""
    assert would["next"] == f"ceph wcache apply p1{more}"
    said(mgr, "apply", **given)
    mgr.settle()
    shown = said(mgr, "rollout show", plan_id="p1")
    assert (shown["status"], shown["judged_by"]) == ("done", judged_by)
    changes = [line["text"] for line in said(mgr, "history", what="change")["history"]]
    assert changes
    assert all(line.endswith("applied; only read back") for line in changes)


def test_a_plan_of_osds_options_leaves_drives_alone_whose_own_options_were_not_compared():
    _, plan = gated_with_no_clients()
    left = " ".join(plan["left_alone"])
    assert "no option of such a drive's queue or bcache was compared" in left


def test_what_ab_has_decided_leads_to_its_plan_until_one_is_made():
    mgr = with_osds()
    start(mgr)
    assert said(mgr, "campaign show", campaign_id="c1")["next"] == "ceph wcache campaign show c1"
    settled(mgr)

    def following():
        shown = said(mgr, "campaign show", campaign_id="c1")
        return {shown["next"], said(mgr, "option ls")["next"]}

    assert following() == {"ceph wcache plan --knob=options"}
    said(mgr, "plan", knob="options")
    assert following() == {"ceph wcache apply p1"}


def test_an_ab_that_found_no_difference_leads_to_no_plan():
    mgr = with_osds(factor=1.0)
    start(mgr)
    settled(mgr)
    assert said(mgr, "campaign show", campaign_id="c1")["next"] == "ceph wcache try"
    assert said(mgr, "option ls")["next"] == "ceph wcache try"
