"""Verdicts of `ab` become plans: each value proven, read back, taken back, and missed when gone."""

from dataclasses import replace

import pytest
from compared_world import options_before, options_of, slow_with, with_drives
from module_world import (
    RealAnalysis,
    change_osd,
    findings_of,
    fine,
    of_one_model,
    ok,
    refused,
    report_anew,
    said,
    settled,
    start,
    until,
)
from wcache.core.automation.deciding import Wish
from wcache.core.hardware import OptionValue
from wcache.core.model import Verdict
from wcache.knobs.knob import Asked

BEFORE = options_before("none")
HOSTS = ("h0", "h1", "h2")


def a_mgr(factor=1.5):
    """Hosts of one drive each, whose commits take longer without a scheduler."""
    mgr = with_drives("none", factor, len(HOSTS), "none")
    mgr.step()
    return mgr


def schedulers(mgr):
    return [options_of(mgr, name)[0].value for name in HOSTS]


def compared(mgr, **arguments):
    said(mgr, "ab", option="scheduler=none,mq-deadline", loads="batch", accept_cost=True,
         **arguments)
    settled(mgr)
    return mgr


def planned(mgr):
    return said(mgr, "plan", knob="options")


def with_a_plan():
    mgr = compared(a_mgr())
    assert planned(mgr)["plan_id"] == "p1"
    return mgr


def applying():
    mgr = with_a_plan()
    ok(mgr.command("apply", plan_id="p1"))
    return mgr


def applied():
    mgr = applying()
    settled(mgr)
    return mgr


def goes_back(mgr):
    ok(mgr.command("rollback"))
    mgr.settle()
    assert [options_of(mgr, name) for name in HOSTS] == [BEFORE] * 3


@pytest.mark.slow
def test_a_rollback_says_where_it_undoes_what_others_have_set_since():
    mgr = applied()
    mgr.probes["h1"].set_options("domain-sda", (OptionValue("scheduler", "kyber"),))
    report_anew(mgr)
    over = "h1 sda: scheduler to none, over kyber, which others have set"
    lines = said(mgr, "rollback", dry_run=True)["would_restore"]
    assert [line for line in lines if "others" in line] == [over]
    ok(mgr.command("rollback"))
    assert over in [row["text"] for row in said(mgr, "history")["history"]]


@pytest.mark.slow
def test_auto_changes_no_class_that_is_off_where_its_wish_is_older_than_the_plan():
    mgr = compared(a_mgr())
    mgr.options = replace(mgr.options, auto_quiet_s=0.0)
    ok(mgr.command("auto", mode="apply"))
    ok(mgr.command("auto", mode="recommend", scope="class:hdd"))
    older = Wish.of_host("options", "h0", ("ssd",), "set options", "as it was")
    mgr.service.auto._wishes = lambda: (older,)
    for _ in range(3):  # the cache mode is measured first
        mgr.steps(20, 10.0)
        mgr.settle()
        report_anew(mgr)
    mgr.steps(60, 10.0)
    assert said(mgr, "plan ls")["plans"] == []
    assert schedulers(mgr) == ["none"] * 3
    assert "class hdd is recommend" in said(mgr, "auto status")["waiting"]


@pytest.mark.slow
def test_auto_leaves_a_value_that_an_admin_took_back_until_he_applies_it():
    mgr = compared(a_mgr())
    mgr.options = replace(mgr.options, auto_quiet_s=0.0)
    ok(mgr.command("auto", mode="apply"))

    def go_on():
        for _ in range(3):
            mgr.steps(20, 10.0)
            mgr.settle()
            report_anew(mgr)

    go_on()
    go_on()
    plans = [row["plan_id"] for row in said(mgr, "plan ls")["plans"]]
    assert (len(plans), schedulers(mgr)) == (3, ["mq-deadline"] * 3)
    ok(mgr.command("rollback", plan_id=min(plans)))  # later ones of other hosts stand
    go_on()
    assert [row["plan_id"] for row in said(mgr, "plan ls")["plans"]] == plans
    assert sorted(schedulers(mgr)) == ["mq-deadline", "mq-deadline", "none"]
    again = planned(mgr)["plan_id"]
    ok(mgr.command("apply", plan_id=again))
    settled(mgr)
    assert schedulers(mgr) == ["mq-deadline"] * 3


def shown(mgr):
    return said(mgr, "plan show", plan_id="p1")


def statuses(mgr):
    return [change["status"] for change in shown(mgr)["changes"]]


def test_nothing_is_planned_before_something_was_compared():
    mgr = a_mgr()
    error = refused(mgr, "plan", knob="options")
    assert "no option was compared yet" in error
    assert "ceph wcache ab OPTION=A,B" in error


@pytest.mark.slow
def test_a_verdict_is_applied_read_back_and_taken_back():
    mgr = applied()
    assert (shown(mgr)["status"], statuses(mgr)) == ("done", ["applied"] * 3)
    assert schedulers(mgr) == ["mq-deadline"] * 3
    assert all(c["ratio"] > 1.3 for c in shown(mgr)["changes"])
    assert findings_of(mgr, "WCACHE_OPTION_DRIFT") == []
    assert planned(mgr)["changes"] == []
    goes_back(mgr)
    assert shown(mgr)["status"] == "rolled back"
    assert all(probe.option_actions == {} for probe in mgr.probes.values())
    log = ok(mgr.command("history"))
    assert "h1 sda: scheduler none to mq-deadline, applied" in log
    assert "h1 sda: scheduler mq-deadline to none, rolled back" in log
    fine(mgr)


@pytest.mark.slow
def test_what_is_gone_after_a_reboot_is_a_finding_and_is_planned_again():
    mgr = applied()
    mgr.probes["h1"].set_options("domain-sda", BEFORE)
    report_anew(mgr)
    (found,) = findings_of(mgr, "WCACHE_OPTION_DRIFT")
    assert found["subject"] == "h1 sda"
    assert found["detail"] == (
        "plan p1 gave it scheduler mq-deadline, and scheduler of sda is none"
    )
    assert "scheduler of sda is none since" in refused(mgr, "apply", plan_id="p1")
    assert [c["hostname"] for c in planned(mgr)["changes"]] == ["h1"]


@pytest.mark.slow
def test_a_verdict_that_falls_holds_the_rollout_and_no_further_drive_is_set():
    mgr = applying()
    while statuses(mgr)[0] == "planned":
        mgr.step(0.2)
    kept = dict(mgr.inside.analyses.results)
    mgr.inside.analyses.results.clear()
    mgr.steps(60, 1.0)
    assert schedulers(mgr) == ["mq-deadline", "none", "none"]
    assert (shown(mgr)["status"], statuses(mgr)) == ("running", ["applied", "planned", "planned"])
    assert "no longer stands" in shown(mgr)["reason"]
    assert "`ceph wcache option ls`" in shown(mgr)["reason"]
    mgr.inside.analyses.results.update(kept)
    mgr.settle()
    assert schedulers(mgr) == ["mq-deadline"] * 3


@pytest.mark.slow
def test_a_plan_whose_verdict_fell_before_it_is_applied_is_refused():
    mgr = with_a_plan()
    mgr.inside.analyses.results.clear()
    why = "no verdict about scheduler of its drive model is left"
    assert why in refused(mgr, "apply", plan_id="p1")
    assert why in said(mgr, "apply", plan_id="p1", dry_run=True)["moved"][0]


@pytest.mark.slow
def test_auto_sets_what_is_better_and_sets_it_again_after_a_reboot():
    mgr = compared(a_mgr())
    ok(mgr.command("auto", mode="apply"))
    until(mgr, lambda: schedulers(mgr) == ["mq-deadline"] * 3, seconds=5.0)
    mgr.probes["h1"].set_options("domain-sda", BEFORE)
    mgr.step(5.0)
    until(mgr, lambda: schedulers(mgr) == ["mq-deadline"] * 3, seconds=5.0)
    log = ok(mgr.command("history", limit=200))
    assert "do not have the values that were found to be better" in log


@pytest.mark.slow
def test_a_drive_that_has_moved_since_the_plan_is_not_changed():
    mgr = with_a_plan()
    mgr.probes["h0"].set_options("domain-sda", (OptionValue("scheduler", "kyber"),))
    ok(mgr.command("apply", plan_id="p1"))
    mgr.settle()
    assert "scheduler of sda is kyber and was none" in shown(mgr)["changes"][0]["detail"]
    assert schedulers(mgr) == ["kyber", "none", "none"]


@pytest.mark.slow
def test_a_drive_that_does_not_go_back_is_owed_until_an_admin_takes_it_as_it_is():
    mgr = applied()
    mgr.probes["h1"].stuck = {"domain-sda"}
    ok(mgr.command("rollback"))
    mgr.settle()
    assert statuses(mgr) == ["rolled back", "rollback failed", "rolled back"]
    assert schedulers(mgr) == ["none", "mq-deadline", "none"]
    (owed,) = findings_of(mgr, "WCACHE_RESTORE_FAILED")
    assert owed["subject"] == "h1 domain-sda"
    ok(mgr.command("drive accept", hostname="h1", domain_id="domain-sda", accept_cost=True))
    mgr.steps(3, 5.0)
    assert statuses(mgr)[1] == "accepted as it is"
    assert mgr.probes["h1"].option_actions == {}
    assert said(mgr, "status")["findings"] == []


@pytest.mark.slow
def test_two_plans_of_one_option_go_back_in_order_and_the_cache_mode_is_by_itself():
    mgr = applied()
    slow_with(mgr, "mq-deadline")
    said(mgr, "ab", option="scheduler=mq-deadline,kyber", loads="batch", pairs=8, accept_cost=True)
    settled(mgr)
    ok(mgr.command("apply", plan_id=planned(mgr)["plan_id"]))
    mgr.settle()
    assert schedulers(mgr) == ["kyber"] * 3
    assert "roll back p2 first" in refused(mgr, "rollback", plan_id="p1")
    for each in ("p2", "p1"):
        ok(mgr.command("rollback", plan_id=each))
        mgr.settle()
    assert schedulers(mgr) == ["none"] * 3


@pytest.mark.slow
@pytest.mark.parametrize("lost", range(1, 60, 3))
def test_a_mgr_or_a_probe_that_is_lost_anywhere_leaves_nothing_half_done(lost):
    mgr = applying()
    for step in range(80):
        if step == lost:
            mgr.restart()
            slow_with(mgr)
            mgr.probes["h0"].crash()
        mgr.step(0.2)
    mgr.settle()
    assert shown(mgr)["status"] == "done"
    assert schedulers(mgr) == ["mq-deadline"] * 3
    goes_back(mgr)
    fine(mgr)


def test_what_one_host_measured_changes_no_option_where_others_have_the_drive_model():
    mgr = a_mgr(factor=3.0)
    compared(mgr, scope="host:h0")
    (verdict,) = said(mgr, "option ls")["verdicts"]
    assert verdict["verdict"] == "insufficient data"
    assert "`ceph wcache ab scheduler=none,mq-deadline --scope=host:h1`" in verdict["why"]
    planner = mgr.service.planners["options"]
    ways = [Asked("p1", "nonce", by_itself=by_itself) for by_itself in (False, True)]
    for asked in ways:
        assert planner.plan(asked, mgr.engine.world()).changes == ()
    compared(mgr, scope="host:h1")
    for asked in ways:
        changes = planner.plan(asked, mgr.engine.world()).changes
        assert {change.hostname for change in changes} == set(HOSTS)


@pytest.mark.slow
def test_a_loss_for_clients_that_one_host_alone_showed_keeps_the_value_everywhere():
    mgr = compared(a_mgr())
    assert {change["hostname"] for change in planned(mgr)["changes"]} == set(HOSTS)
    slow_with(mgr, "mq-deadline", 3.0)
    said(mgr, "ab", option="scheduler=none,mq-deadline", loads="traffic", scope="host:h0",
         accept_cost=True)
    settled(mgr)
    found = {one["load_point"]: one for one in said(mgr, "option ls")["verdicts"]}
    assert found["osd_traffic"]["verdict"] == "insufficient data"
    assert found["osd_traffic"]["ratio_high"] < 0.5
    world = mgr.engine.world()
    for by_itself in (False, True):
        asked = Asked("p2", "nonce", by_itself=by_itself)
        wanted = mgr.service.planners["options"].plan(asked, world)
        assert wanted.changes == ()
        assert "and worse at another (traffic: insufficient data" in wanted.left_alone[0]
        assert "ceph wcache ab scheduler=none,mq-deadline --scope=host:h1" in wanted.left_alone[0]
    assert "no longer speak for scheduler mq-deadline" in refused(mgr, "apply", plan_id="p1")


def doubts(mgr, **asked):
    """Of a plan that changes a drive of each host."""
    plan = said(mgr, "plan", **asked)
    assert len(plan["changes"]) == 3
    return plan["doubts"]


@pytest.mark.slow
@pytest.mark.parametrize(("made", "measure", "asked", "line"), [
    (a_mgr, compared, {"knob": "options"}, "ceph wcache ab scheduler=none,mq-deadline"),
    (
        lambda: of_one_model(each=1, make_analysis=RealAnalysis),
        lambda mgr, scope: (start(mgr, loads="batch", scope=scope), settled(mgr)),
        {}, "ceph wcache campaign start",
    ),
])
def test_a_plan_says_of_which_changes_only_osds_with_a_db_elsewhere_have_proven_the_gain(
    made, measure, asked, line
):
    mgr = made()
    for osd_id in range(3):
        change_osd(mgr, osd_id, dedicated_db=osd_id < 2, rotational=False)
    for host in HOSTS[:2]:
        measure(mgr, scope=f"host:{host}")
    assert doubts(mgr, **asked) == [
        "hdd ACME HD1 1.0: proven only on OSDs with DB elsewhere, and 1 change of OSDs with all "
        f"on one drive; to measure these first: `{line} --scope=osd.2`"
    ]
    measure(mgr, scope="osd.2")
    assert doubts(mgr, **asked) == []


@pytest.mark.slow
def test_an_osd_laid_out_otherwise_that_stayed_undecided_has_proven_nothing():
    mgr = a_mgr()
    for osd_id in range(3):
        change_osd(mgr, osd_id, dedicated_db=osd_id < 2, rotational=False)
    for host in HOSTS[:2]:
        compared(mgr, scope=f"host:{host}")
    before = doubts(mgr, knob="options")
    quiet, calls = mgr.loads.latency_ns, iter(range(10**6))
    mgr.loads.latency_ns = lambda osd_id: int(quiet(osd_id) * (1 + next(calls) % 5 / 2))
    compared(mgr, scope="osd.2", pairs=4)
    *_, result = mgr.engine.world().all_results.values()
    assert result.verdict is Verdict.INSUFFICIENT
    assert doubts(mgr, knob="options") == before != []
