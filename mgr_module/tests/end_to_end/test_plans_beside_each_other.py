"""Plans, and a plan and a campaign, go on together where they have nothing in common."""

import errno
from dataclasses import replace

import pytest
from auto_world import expand
from gate_world import GateMgr
from mgr_fakes import builders as make
from module_world import ok, refused, said, settled, start, taken_over, until
from wcache.core.change.rollout_base import Phase
from wcache.core.events import ClusterSeen, LookAtCluster
from wcache.core.model import DriveModel
from wcache.core.record import Precondition
from wcache.engine.under_way import OPEN_PLANS_MAX

HOSTS = 8
OTHER = DriveModel("ACME", "HD2", "1.0")
ILL = "has PGs that are degraded"
ONE_DRIVE_EACH = tuple((f"h{h}", (make.drive("sda", h),)) for h in range(HOSTS))


def a_mgr(hosts=ONE_DRIVE_EACH, **options):
    """All of one drive model, on hosts of one drive each."""
    mgr = GateMgr(*hosts, **options)
    mgr.report_all()
    start(mgr)
    settled(mgr)
    return mgr


def planned(mgr, *hosts):
    """A plan for these hosts' drives."""
    names = [name for name in mgr.probes if name not in {f"h{host}" for host in hosts}]
    without = ",".join(f"{name}:sda" for name in names)
    return said(mgr, "plan", without=without)["plan_id"]


def applied(mgr, *hosts):
    plan_id = planned(mgr, *hosts)
    ok(mgr.command("apply", plan_id=plan_id))
    return plan_id


def measured(mgr, **what):
    """The runs of a campaign that is begun."""
    name = said(mgr, "campaign start", loads="traffic", **what)["campaign_id"]
    return [run for run in mgr.inside.runs.values() if run.spec.campaign_id == name]


def sick(mgr, *osd_ids):
    mgr.view.state = replace(mgr.view.state, ill=dict.fromkeys(osd_ids, ILL))


def rollout(mgr, plan_id):
    return mgr.inside.rollouts[plan_id].rollout


def status(mgr, plan_id):
    return rollout(mgr, plan_id).status.value


def done(mgr, *plan_ids):
    until(mgr, lambda: all(status(mgr, plan_id) == "done" for plan_id in plan_ids))


def changing(mgr, plan_id):
    """Until its drives are changed."""
    until(mgr, lambda: mgr.inside.rollouts[plan_id].phase in (Phase.LOOKING, Phase.CHANGING))


@pytest.mark.slow
def test_a_plan_that_waits_is_in_nobodys_way():
    mgr = a_mgr()
    first = applied(mgr, 0)
    sick(mgr, 0)
    until(mgr, lambda: rollout(mgr, first).missed)
    second = applied(mgr, 1, 2)
    done(mgr, second)
    assert mgr.changed == {1, 2}
    # what it has just changed is no control yet
    seen = mgr.inside.looking.as_of_now(first, ClusterSeen("", (), 1, controls=(1, 2, 3, 4, 5)))
    assert seen.controls == (3, 4, 5)
    (run,) = measured(mgr, scope="host:h3")
    until(mgr, lambda: run.over)
    assert run.state.status.value == "done"
    assert status(mgr, first) == "running"
    sick(mgr)
    done(mgr, first)


@pytest.mark.slow
def test_a_campaign_leaves_the_hosts_of_plans_alone():
    mgr = a_mgr()
    first = applied(mgr, 0)
    assert not said(mgr, "try", dry_run=True)["occupied"]
    runs = measured(mgr, drives_per_model=8)
    assert {run.spec.hostname for run in runs} == {f"h{h}" for h in range(1, HOSTS)}
    # what came to be planned on such a host all the same waits
    run = runs[0]
    run.state = replace(run.state, spec=replace(run.spec, hostname="h0"))
    for _ in range(20):
        mgr.step(0.5)
        assert not run.under_way
    assert f"plan {first} has host h0" in run.state.reason


@pytest.mark.slow
def test_two_plans_never_touch_the_same_host_osd_or_values():
    mgr = a_mgr()
    first, second = planned(mgr, 0, 1), planned(mgr, 1, 2)
    ok(mgr.command("apply", plan_id=first))
    error = refused(mgr, "apply", errno.EBUSY, plan_id=second)
    assert f"plan {first} is under way, with host h1, osd.1 too" in error
    forced = refused(mgr, "apply", errno.EBUSY, plan_id=second, override="no_other_plan")
    assert "with host h1, osd.1 too" in forced
    done(mgr, first)


@pytest.mark.slow
def test_no_control_is_what_another_plan_changes_or_may_take_back():
    mgr = a_mgr()
    first, second = planned(mgr, 0, 1), planned(mgr, 2, 3)
    for plan_id in (first, second):
        ok(mgr.command("apply", plan_id=plan_id))
    mine = {first: {0, 1}, second: {2, 3}}
    seen = 0

    def both_are_done():
        nonlocal seen
        for plan_id, other in ((first, second), (second, first)):
            step = rollout(mgr, plan_id).step
            theirs = rollout(mgr, other)
            if step.controls and theirs.status.value == "running" and theirs.step.indices:
                seen += 1
                assert not mine[other] & {*step.controls}
        return all(status(mgr, plan_id) == "done" for plan_id in mine)

    until(mgr, both_are_done)
    assert seen
    assert mgr.changed == {0, 1, 2, 3}


@pytest.mark.slow
def test_beside_another_plan_it_compares_with_what_it_comes_to_later():
    mgr = a_mgr(ONE_DRIVE_EACH[:6])
    first, second = applied(mgr, 0, 1, 2, 3, 4), applied(mgr, 5)
    assert said(mgr, "status")["rollout"] == f"{first}, {second}"
    until(mgr, lambda: rollout(mgr, first).step.indices)
    assert {*rollout(mgr, first).step.controls} == {1, 2, 3, 4}
    assert rollout(mgr, second).step.controls == ()


@pytest.mark.slow
def test_a_plan_waits_for_a_step_that_compares_with_its_osds():
    mgr = a_mgr()
    first = applied(mgr, 0)
    until(mgr, lambda: rollout(mgr, first).step.controls)
    assert 1 in rollout(mgr, first).step.controls
    second = applied(mgr, 1)
    until(mgr, lambda: rollout(mgr, second).missed)
    assert Precondition.NO_OTHER_PLAN in rollout(mgr, second).missed
    assert "osd.1 as a control" in rollout(mgr, second).reason
    while status(mgr, first) != "done":
        assert 1 not in mgr.changed
        mgr.step(0.5)
    done(mgr, second)


@pytest.mark.slow
def test_the_mons_are_asked_for_what_both_plans_touch_at_once():
    mgr = a_mgr()
    first, second = planned(mgr, 0), planned(mgr, 1)
    ok(mgr.command("apply", plan_id=second))
    sick(mgr, 1)
    until(mgr, lambda: rollout(mgr, second).missed)
    ok(mgr.command("apply", plan_id=first))
    changing(mgr, first)
    sick(mgr)
    mgr.stops.most = 0
    looking = mgr.inside.looking
    looking.see(mgr.inside.rollouts[second], LookAtCluster("", ((1,),)), lambda seen: None)
    assert ((0, 1),) in mgr.stops.asked
    # what was answered without it says nothing of both
    taken = looking.as_of_now(second, ClusterSeen("", (), 1))
    assert Precondition.OK_TO_STOP in taken.missed
    both = looking.as_of_now(second, ClusterSeen("", (), 1, beside=frozenset({0})))
    assert Precondition.OK_TO_STOP not in both.missed
    done(mgr, first, second)  # one by one


@pytest.mark.slow
def test_no_run_begins_while_a_plan_changes_drives():
    other = make.drive("sda", 5, drive_model=OTHER)  # so its OSD is no control
    mgr = a_mgr((*ONE_DRIVE_EACH[:5], ("h5", (other,))))
    first = applied(mgr, 0)
    changing(mgr, first)
    (run,) = measured(mgr, scope="host:h5")
    while mgr.inside.rollouts[first].mid_change:
        assert not run.under_way
        mgr.step(0.5)
    until(mgr, lambda: run.under_way)
    done(mgr, first)


@pytest.mark.slow
def test_a_plan_that_is_over_goes_back_where_nothing_compares_with_it_or_changes_drives():
    mgr = a_mgr()
    first = applied(mgr, 0, 1)
    done(mgr, first)
    second = applied(mgr, 2, 3)
    until(mgr, lambda: rollout(mgr, second).step.controls)
    assert {0, 1} & {*rollout(mgr, second).step.controls}
    assert "as a control" in refused(mgr, "rollback", errno.EBUSY, plan_id=first)
    changing(mgr, second)
    assert refused(mgr, "rollback", errno.EBUSY, plan_id=first)
    assert {0, 1} <= mgr.changed
    done(mgr, second)
    third = applied(mgr, 4)
    sick(mgr, 4)
    until(mgr, lambda: rollout(mgr, third).missed)
    ok(mgr.command("rollback", plan_id=first))
    until(mgr, lambda: status(mgr, first) == "rolled back")
    assert mgr.changed == {2, 3}
    sick(mgr)
    done(mgr, third)


@pytest.mark.slow
def test_a_plan_that_is_over_does_not_go_back_while_a_campaign_toggles_drives():
    mgr = a_mgr()
    first = applied(mgr, 0)
    done(mgr, first)
    (run,) = measured(mgr, scope="host:h5")
    until(mgr, lambda: run.under_way)
    assert "campaign" in refused(mgr, "rollback", errno.EBUSY, plan_id=first)
    assert 0 in mgr.changed


@pytest.mark.slow
def test_a_rollback_that_names_no_plan_is_refused_where_several_are_not_over():
    mgr = a_mgr()
    plans = [applied(mgr, 0), applied(mgr, 1)]
    error = refused(mgr, "rollback", errno.EINVAL)
    assert all(plan_id in error for plan_id in plans)


def test_so_many_plans_are_not_over_and_no_more():
    mgr = a_mgr(tuple((f"h{h}", (make.drive("sda", h),)) for h in range(OPEN_PLANS_MAX + 1)))
    sick(mgr, *range(OPEN_PLANS_MAX + 1))
    for host in range(OPEN_PLANS_MAX):
        plan_id = planned(mgr, host)
        ok(mgr.command("apply", plan_id=plan_id, override="osds_well"))
        ok(mgr.command("rollout pause", plan_id=plan_id))
    last = planned(mgr, OPEN_PLANS_MAX)
    assert "plans are not over" in refused(
        mgr, "apply", errno.EBUSY, plan_id=last, override="osds_well"
    )


def paused(mgr, *hosts):
    """A plan of these hosts that an admin has paused before it changed anything."""
    plan_id = applied(mgr, *hosts)
    ok(mgr.command("rollout pause", plan_id=plan_id))
    assert status(mgr, plan_id) == "paused"
    return plan_id


def test_capacities_are_measured_beside_a_paused_plan_on_other_hosts():
    mgr = a_mgr(ONE_DRIVE_EACH[:4])
    first = paused(mgr, 0)
    cost = said(
        mgr, "campaign start", dry_run=True, loads="capacity", drives_per_model=9
    )["forecast"]
    assert cost["drives"] == 3
    assert (
        f"osd.0: plan {first} is not over, and has this host or OSD for itself" in cost["skipped"]
    )
    ok(mgr.command(
        "campaign start", loads="capacity", drives_per_model=9, accept_cost=True,
    ))
    until(mgr, lambda: not mgr.engine.is_active())
    assert [row["osd_id"] for row in said(mgr, "mclock show")["measured"]] == [1, 2, 3]
    assert status(mgr, first) == "paused"


@pytest.mark.slow
def test_auto_goes_on_beside_a_paused_plan_and_leaves_what_is_the_plans_alone():
    mgr = a_mgr(auto_quiet_s=0.0)
    first = paused(mgr, 0)
    ok(mgr.command("auto", mode="apply"))
    until(mgr, lambda: len(mgr.inside.rollouts) == 2)
    (second,) = set(mgr.inside.rollouts) - {first}
    assert {change.hostname for change in rollout(mgr, second).changes} == {
        f"h{host}" for host in range(1, HOSTS)}
    done(mgr, second)
    assert mgr.changed == set(range(1, HOSTS))
    assert status(mgr, first) == "paused"
    assert (
        f"host h0, osd.0: plan {first} is paused and has them for itself: `ceph wcache rollout "
        f"resume {first}` goes on, `ceph wcache rollout abort {first}` ends it"
    ) in said(mgr, "auto status")["left_alone"]
    ok(mgr.command("rollout resume", plan_id=first))
    done(mgr, first)
    assert said(mgr, "auto status")["left_alone"] == []


@pytest.mark.slow
def test_auto_goes_on_beside_a_plan_of_its_own_that_is_paused():
    mgr = a_mgr(auto_quiet_s=0.0)
    ok(mgr.command("auto", mode="apply"))
    until(mgr, lambda: mgr.inside.rollouts)
    (first,) = mgr.inside.rollouts
    ok(mgr.command("rollout pause", plan_id=first))
    until(mgr, lambda: status(mgr, first) == "paused")
    expand(mgr, "h99", make.drive("sda", 99, drive_model=OTHER))
    until(mgr, lambda: any(
        run.spec.hostname == "h99" and run.over for run in mgr.inside.runs.values()))
    assert status(mgr, first) == "paused"
    assert f"{first}, c" in said(mgr, "auto status")["under_way"]


@pytest.mark.slow
def test_auto_makes_no_plan_that_could_not_begin_beside_so_many_paused_ones():
    mgr = a_mgr(auto_quiet_s=0.0)
    plans = [paused(mgr, host) for host in range(OPEN_PLANS_MAX)]
    ok(mgr.command("auto", mode="apply"))
    mgr.steps(4, 400.0)
    assert [*mgr.inside.rollouts] == plans
    told = said(mgr, "auto status")
    assert told["waiting"].startswith(f"{OPEN_PLANS_MAX} plans are not over")
    assert told["waiting"].endswith("or resume or abort one that is paused")
    assert len(told["left_alone"]) == OPEN_PLANS_MAX
    ok(mgr.command("rollout abort", plan_id=plans[0]))
    until(mgr, lambda: len(mgr.inside.rollouts) > OPEN_PLANS_MAX)


@pytest.mark.slow
@pytest.mark.parametrize("phase", [Phase.BLOCKS_BEFORE, Phase.CHANGING, Phase.BLOCKS_AFTER])
def test_two_plans_go_on_after_a_restart_of_the_mgr(phase):
    mgr = a_mgr()
    first = applied(mgr, 0, 1)
    second = applied(mgr, 2, 3)
    until(mgr, lambda: mgr.inside.rollouts[second].phase is phase)
    taken_over(mgr)
    done(mgr, first, second)
    assert mgr.changed == {0, 1, 2, 3}


@pytest.mark.slow
def test_a_freeze_ends_all_plans_and_takes_back_what_none_has_judged():
    mgr = a_mgr()
    plans = [applied(mgr, 0), applied(mgr, 1)]
    until(mgr, lambda: any(
        mgr.inside.rollouts[plan_id].phase is Phase.BLOCKS_AFTER for plan_id in plans))
    assert mgr.changed
    ok(mgr.command("freeze"))
    until(mgr, lambda: all(mgr.inside.rollouts[plan_id].over for plan_id in plans))
    assert mgr.changed == set()
