"""Verdicts of `ab` become plans: each value proven, read back, taken back, and missed when gone."""


import pytest
from compared_world import options_before, options_of, slower, with_drives
from gate_world import GateMgr
from mgr_fakes.module import FakeMgr
from module_world import fine, ok, refused, said
from wcache.core.change.preconditions import verdicts_moved
from wcache.core.hardware import OptionValue
from wcache.knobs.knob import Asked

BEFORE = options_before("none")
AFTER = OptionValue("scheduler", "mq-deadline")
HOSTS = ("h0", "h1", "h2")
AB = "scheduler=none,mq-deadline"


class GatedMgr(GateMgr):
    """Clients' commits take so much longer too, where the gate looks."""

    def block_us(self, osd_id):
        worse = self.factor if values(self, f"h{osd_id}")["scheduler"] == self.slow else 1.0
        return 10_000.0 * worse * self.random.lognormvariate(0.0, self.noise)


def a_mgr(factor=1.5, slow="none", kind=FakeMgr):
    """Hosts of one drive each, whose commits take longer while a scheduler is set."""
    mgr = with_drives(slow, factor, len(HOSTS), "none", kind)
    mgr.factor, mgr.slow = factor, slow
    wire(mgr)
    mgr.step()
    return mgr


def wire(mgr):
    slower(
        mgr, lambda osd_id: values(mgr, f"h{osd_id}")["scheduler"] == mgr.slow, mgr.factor
    )


def values(mgr, hostname):
    return {one.name: one.value for one in options_of(mgr, hostname)}


def schedulers(mgr):
    return [values(mgr, name)["scheduler"] for name in HOSTS]


def compared(mgr, option=AB, **arguments):
    said(mgr, "ab", option=option, loads="batch", accept_cost=True, **arguments)
    mgr.settle()
    mgr.report_all()


def planned(mgr, **arguments):
    return said(mgr, "plan", knob="options", **arguments)


def applied(mgr):
    compared(mgr)
    plan_id = planned(mgr)["plan_id"]
    ok(mgr.command("apply", plan_id=plan_id))
    mgr.settle()
    mgr.report_all()
    return plan_id


def shown(mgr, plan_id):
    return said(mgr, "plan show", plan_id=plan_id)


def found_as(mgr, hostname, *values):
    """Somebody else, or a reboot, has set options of a drive, and its probe has told of it."""
    mgr.probes[hostname].set_options("domain-sda", values)
    mgr.step(700.0)
    mgr.report_all()


def drift(mgr):
    return [
        item for item in said(mgr, "status")["findings"] if item["code"] == "WCACHE_OPTION_DRIFT"
    ]


def test_nothing_is_planned_before_something_was_compared():
    mgr = a_mgr()
    error = refused(mgr, "plan", knob="options")
    assert "no option was compared yet" in error
    assert "ceph wcache ab OPTION=A,B" in error


@pytest.mark.slow
def test_a_verdict_is_applied_read_back_and_taken_back():
    mgr = a_mgr()
    plan_id = applied(mgr)
    plan = shown(mgr, plan_id)
    assert (plan["status"], [c["status"] for c in plan["changes"]]) == ("done", ["applied"] * 3)
    assert schedulers(mgr) == ["mq-deadline"] * 3
    assert all(c["ratio"] > 1.3 for c in plan["changes"])
    assert drift(mgr) == []
    assert planned(mgr)["changes"] == []
    ok(mgr.command("rollback"))
    mgr.settle()
    assert shown(mgr, plan_id)["status"] == "rolled back"
    assert [values(mgr, name) for name in HOSTS] == [{v.name: v.value for v in BEFORE}] * 3
    assert all(probe.option_actions == {} for probe in mgr.probes.values())
    log = ok(mgr.command("history"))
    assert "h1 sda: scheduler none to mq-deadline, applied" in log
    assert "h1 sda: scheduler mq-deadline to none, rolled back" in log
    fine(mgr)


@pytest.mark.slow
def test_the_plan_says_how_it_is_done_by_hand_and_that_it_does_not_last():
    mgr = a_mgr()
    compared(mgr)
    text = ok(mgr.command("plan", knob="options"))
    assert "scheduler none" in text
    path = "/sys/block/sda/queue"
    by_hand = {change["hostname"]: change["manual"] for change in shown(mgr, "p1")["changes"]}
    assert sorted(by_hand) == sorted(HOSTS)
    do, *_ = by_hand["h0"]
    assert do == f"echo mq-deadline > {path}/scheduler  # gone after a reboot of the host"
    assert f"echo 128 > {path}/nr_requests  # undo it" in by_hand["h0"]
    assert "note: a value of a drive does not survive a reboot of its host" in text
    assert "p1.0 " in ok(mgr.command("plan show", plan_id="p1", all=True))


@pytest.mark.slow
def test_what_is_gone_after_a_reboot_is_a_finding_and_is_planned_again():
    mgr = a_mgr()
    applied(mgr)
    found_as(mgr, "h1", *BEFORE)
    (found,) = drift(mgr)
    assert found["subject"] == "h1 sda"
    assert found["detail"] == (
        "plan p1 gave it scheduler mq-deadline, and scheduler of sda is none"
    )
    assert "scheduler of sda is none since" in refused(mgr, "apply", plan_id="p1")
    assert [c["hostname"] for c in planned(mgr)["changes"]] == ["h1"]


@pytest.mark.slow
def test_clients_that_are_worse_off_have_the_canary_back_and_the_rest_as_it_was():
    mgr = a_mgr(kind=GatedMgr)
    compared(mgr)
    plan_id = planned(mgr)["plan_id"]
    mgr.slow = "mq-deadline"
    ok(mgr.command("apply", plan_id=plan_id))
    assert mgr.end() == "rolled back"
    assert [change.status.value for change in mgr.plan.changes] == [
        "rolled back", "planned", "planned"]
    assert schedulers(mgr) == ["none"] * 3


def stopped_on_its_way(mgr, plan_id):
    """The canary is set; then what was measured is not there any more."""
    while shown(mgr, plan_id)["changes"][0]["status"] == "planned":
        mgr.step(0.2)
    kept = dict(mgr.inside.analyses.results)
    mgr.inside.analyses.results.clear()
    mgr.steps(60, 1.0)
    return kept


@pytest.mark.slow
def test_a_verdict_that_falls_holds_the_rollout_and_no_further_drive_is_set():
    mgr = a_mgr()
    compared(mgr)
    plan_id = planned(mgr)["plan_id"]
    ok(mgr.command("apply", plan_id=plan_id))
    kept = stopped_on_its_way(mgr, plan_id)
    assert schedulers(mgr) == ["mq-deadline", "none", "none"]
    plan = shown(mgr, plan_id)
    assert (plan["status"], [c["status"] for c in plan["changes"]]) == (
        "running", ["applied", "planned", "planned"])
    assert "no longer stands" in plan["reason"]
    assert "`ceph wcache option ls`" in plan["reason"]
    mgr.inside.analyses.results.update(kept)
    mgr.settle()
    assert schedulers(mgr) == ["mq-deadline"] * 3


@pytest.mark.slow
def test_a_plan_whose_verdict_fell_before_it_is_applied_is_refused():
    mgr = a_mgr()
    compared(mgr)
    plan_id = planned(mgr)["plan_id"]
    mgr.inside.analyses.results.clear()
    said_why = "no verdict about scheduler of its drive model is left"
    code, _, error = mgr.command("apply", plan_id=plan_id)
    assert (code != 0, said_why in error) == (True, True)
    assert said_why in said(mgr, "apply", plan_id=plan_id, dry_run=True)["moved"][0]


def under_auto(mgr, until, steps=400):
    ok(mgr.command("auto", mode="apply"))
    for _ in range(steps):
        mgr.step(5.0)
        if until():
            return True
    return False


@pytest.mark.slow
def test_auto_sets_what_is_better_and_sets_it_again_after_a_reboot():
    mgr = a_mgr()
    compared(mgr)
    assert under_auto(mgr, lambda: schedulers(mgr) == ["mq-deadline"] * 3)
    mgr.probes["h1"].set_options("domain-sda", BEFORE)
    assert under_auto(mgr, lambda: schedulers(mgr) == ["mq-deadline"] * 3)
    log = ok(mgr.command("history", limit=200))
    assert "do not have the values that were found to be better" in log


@pytest.mark.slow
def test_what_was_not_compared_or_is_undecided_is_left_alone_and_says_so():
    mgr = a_mgr()
    compared(mgr)
    found_as(mgr, "h2", OptionValue("scheduler", "kyber"))
    plan = planned(mgr)
    assert [c["hostname"] for c in plan["changes"]] == ["h0", "h1"]
    assert plan["left_alone"] == [
        "h2 sda: scheduler: kyber was not compared: `ceph wcache ab scheduler=kyber,none`"]


@pytest.mark.slow
def test_a_drive_that_has_moved_since_the_plan_is_not_changed():
    mgr = a_mgr()
    compared(mgr)
    plan_id = planned(mgr)["plan_id"]
    mgr.probes["h0"].set_options("domain-sda", (OptionValue("scheduler", "kyber"),))
    ok(mgr.command("apply", plan_id=plan_id))
    mgr.settle()
    assert "scheduler of sda is kyber and was none" in shown(mgr, plan_id)["changes"][0]["detail"]
    assert schedulers(mgr) == ["kyber", "none", "none"]


@pytest.mark.slow
def test_a_drive_that_does_not_go_back_is_owed_until_an_admin_takes_it_as_it_is():
    mgr = a_mgr()
    applied(mgr)
    mgr.probes["h1"].stuck = {"domain-sda"}
    ok(mgr.command("rollback"))
    mgr.settle()
    assert [c["status"] for c in shown(mgr, "p1")["changes"]] == [
        "rolled back", "rollback failed", "rolled back"]
    assert schedulers(mgr) == ["none", "mq-deadline", "none"]
    owed = [f for f in said(mgr, "status")["findings"] if f["code"] == "WCACHE_RESTORE_FAILED"]
    assert [f["subject"] for f in owed] == ["h1 domain-sda"]
    ok(mgr.command("drive accept", hostname="h1", domain_id="domain-sda", accept_cost=True))
    mgr.steps(3, 5.0)
    assert shown(mgr, "p1")["changes"][1]["status"] == "accepted as it is"
    assert mgr.probes["h1"].option_actions == {}
    assert said(mgr, "status")["findings"] == []


@pytest.mark.slow
def test_two_plans_of_one_option_go_back_in_order_and_the_cache_mode_is_by_itself():
    mgr = a_mgr()
    applied(mgr)
    mgr.slow = "mq-deadline"
    compared(mgr, "scheduler=mq-deadline,kyber", pairs=8)
    plan_id = planned(mgr)["plan_id"]
    ok(mgr.command("apply", plan_id=plan_id))
    mgr.settle()
    assert schedulers(mgr) == ["kyber"] * 3
    assert f"roll back {plan_id} first" in refused(mgr, "rollback", plan_id="p1")
    for each in (plan_id, "p1"):
        ok(mgr.command("rollback", plan_id=each))
        mgr.settle()
    assert schedulers(mgr) == ["none"] * 3


@pytest.mark.slow
@pytest.mark.parametrize("lost", range(1, 60, 3))
def test_a_mgr_or_a_probe_that_is_lost_anywhere_leaves_nothing_half_done(lost):
    mgr = a_mgr()
    compared(mgr)
    plan_id = planned(mgr)["plan_id"]
    ok(mgr.command("apply", plan_id=plan_id))
    for step in range(80):
        if step == lost:
            mgr.restart()
            wire(mgr)
            mgr.probes["h0"].crash()
        mgr.step(0.2)
    mgr.settle()
    assert shown(mgr, plan_id)["status"] == "done"
    assert schedulers(mgr) == ["mq-deadline"] * 3
    ok(mgr.command("rollback"))
    mgr.settle()
    assert [values(mgr, name) for name in HOSTS] == [{v.name: v.value for v in BEFORE}] * 3
    fine(mgr)


@pytest.mark.parametrize("by_itself", [False, True])
def test_what_one_host_measured_changes_no_option_where_others_have_the_drive_model(by_itself):
    mgr = a_mgr(factor=3.0)
    compared(mgr, scope="host:h0")
    (verdict,) = said(mgr, "option ls")["verdicts"]
    assert verdict["verdict"] == "insufficient data"
    assert "`ceph wcache ab scheduler=none,mq-deadline --scope=host:h1`" in verdict["why"]
    planner = mgr.service.planners["options"]
    asked = Asked("p1", "nonce", by_itself=by_itself)
    assert planner.plan(asked, mgr.engine.world()).changes == ()
    compared(mgr, scope="host:h1")
    changes = planner.plan(asked, mgr.engine.world()).changes
    assert {change.hostname for change in changes} == set(HOSTS)


@pytest.mark.slow
def test_a_plan_by_two_hosts_waits_where_the_word_of_one_of_them_is_taken_back():
    mgr = a_mgr(factor=3.0)
    compared(mgr, scope="host:h0")
    compared(mgr, scope="host:h1")
    planned(mgr)
    mgr.inside.analyses.results = {
        key: one for key, one in mgr.inside.analyses.results.items()
        if one.hostname == "h0"
    }
    (machine,) = mgr.inside.rollouts.values()
    assert verdicts_moved(machine.rollout.changes, mgr.engine.world())
