"""A rollout changes drives that are well beside those that are not, and comes back to these."""

from dataclasses import replace

import pytest
from gate_world import a_gate_mgr, begun
from module_world import ok, refused, said
from wcache.core.change.change import ChangeStatus
from wcache.core.change.rollout_base import Phase
from wcache.core.record import Precondition

pytestmark = pytest.mark.slow

DEGRADED = "has PGs that are degraded"
PLANNED, MADE = ChangeStatus.PLANNED, ChangeStatus.MADE


def now(mgr, **values):
    mgr.view.state = replace(mgr.view.state, **values)


def sick(mgr, *osd_ids):
    """From now on these are ill, and no others."""
    now(mgr, ill=dict.fromkeys(osd_ids, DEGRADED))


def down(mgr, *osd_ids):
    now(mgr, osds={
        osd_id: replace(osd, up=osd_id not in osd_ids)
        for osd_id, osd in mgr.view.state.osds.items()
    })


def status_of(mgr, osd_id):
    (found,) = (change.status for change in mgr.plan.changes if osd_id in change.treated)
    return found


def begun_beside(*osd_ids, **options):
    """A plan of which these are ill when it is applied."""
    return begun(before=lambda mgr: sick(mgr, *osd_ids), **options)


def test_ill_drives_come_after_all_others_and_a_plan_waits_for_nothing_but_them():
    mgr = begun_beside(1, 4)
    assert said(mgr, "rollout show", plan_id="p1")["later"] == [
        f"h0 sdb: osd.1 {DEGRADED}", f"h2 sda: osd.4 {DEGRADED}"]
    mgr.go(lambda: mgr.plan.missed)
    assert mgr.changed == {0, 2, 3, 5, 6, 7, 8, 9}
    assert mgr.plan.missed == (Precondition.OSDS_WELL,)
    assert f"osd.1 {DEGRADED}" in mgr.plan.reason
    told = ok(mgr.command("rollout show", plan_id="p1"))
    assert f"2 changes come later: h0 sdb: osd.1 {DEGRADED}" in told
    mgr.restart()
    mgr.steps(20, 5.0)
    assert mgr.changed == {0, 2, 3, 5, 6, 7, 8, 9}
    sick(mgr, 1)
    mgr.go(lambda: 4 in mgr.changed)
    assert 1 not in mgr.changed
    sick(mgr)
    assert mgr.end() == "done"
    assert len(mgr.changed) == 10


def test_an_apply_that_is_refused_names_the_osds_and_why():
    mgr = a_gate_mgr()
    assert said(mgr, "plan")["plan_id"] == "p1"
    sick(mgr, *range(10))
    error = refused(mgr, "apply", plan_id="p1")
    assert f"osd.0 {DEGRADED}" in error
    assert "more" in error, "ten drives are no line of an error"
    code, _, error = mgr.command("apply", plan_id="p1", override="osds_well")
    assert code == 0, error


def test_nothing_is_changed_beside_a_missing_copy_at_any_time():
    mgr = begun_beside(0, 3, 5)
    for number in range(1200):
        ill = {number // 90 % 10, (number // 90 + 4) % 10}
        before = mgr.changed
        sick(mgr, *ill)
        mgr.step(0.5)
        assert not (mgr.changed - before) & ill, number
        if mgr.plan.status.value != "running":
            break
    sick(mgr)
    assert mgr.end() == "done"


def test_one_of_a_step_that_falls_ill_before_its_change_leaves_the_step():
    mgr = begun(rollout_parallel_max=2)
    mgr.go(lambda: status_of(mgr, 2) is ChangeStatus.APPLYING, seconds=0.05)
    assert len(mgr.plan.step.indices) == 2
    sick(mgr, 3)
    mgr.go(lambda: status_of(mgr, 2) is ChangeStatus.APPLIED)
    assert status_of(mgr, 3) is PLANNED
    mgr.go(lambda: 4 in mgr.changed)
    sick(mgr)
    assert mgr.end() == "done"


def test_what_an_ill_osd_tells_is_no_evidence_and_the_others_of_the_step_are_judged():
    mgr = begun(rollout_parallel_max=2)
    mgr.go(lambda: mgr.changed >= {2, 3} and mgr.inside.rollouts["p1"].phase is Phase.BLOCKS_AFTER)
    sick(mgr, 3)
    mgr.neighbour = lambda osd_id: 9.0 if osd_id == 3 else 1.0  # recovery keeps it busy
    mgr.go(lambda: status_of(mgr, 2) is ChangeStatus.APPLIED)
    assert mgr.plan.status.value == "running"
    assert sum(item.drives for item in mgr.plan.evidence) == 3  # of four that are changed
    mgr.neighbour = lambda osd_id: 1.0
    sick(mgr)
    assert mgr.end() == "done"


def test_a_step_of_which_nobody_is_well_is_held_and_judged_when_they_are():
    mgr = begun()
    mgr.go(lambda: mgr.inside.rollouts["p1"].phase is Phase.BLOCKS_AFTER)
    sick(mgr, 0)
    mgr.neighbour = lambda osd_id: 9.0 if osd_id == 0 else 1.0
    mgr.go(lambda: mgr.plan.missed)
    mgr.steps(40, 5.0)
    assert (status_of(mgr, 0), mgr.changed) == (MADE, {0})
    assert mgr.plan.missed == (Precondition.OSDS_WELL,)
    assert f"osd.0 {DEGRADED}" in mgr.plan.reason
    mgr.neighbour = lambda osd_id: 1.0
    sick(mgr)
    assert mgr.end() == "done"


def test_a_change_that_did_harm_goes_back_though_its_osd_was_ill_meanwhile():
    mgr = begun()
    mgr.go(lambda: mgr.inside.rollouts["p1"].phase is Phase.BLOCKS_AFTER)
    mgr.factor = 3.0
    sick(mgr, 0)
    mgr.go(lambda: mgr.plan.missed)
    sick(mgr)
    assert mgr.end() == "rolled back"
    assert mgr.changed == set()


def test_slow_operations_of_its_own_hide_no_harm_of_a_change():
    mgr = begun()
    mgr.go(lambda: mgr.inside.rollouts["p1"].phase is Phase.BLOCKS_AFTER)
    mgr.factor = 3.0
    now(mgr, slow_op_osds=frozenset({0}))
    assert mgr.end() == "rolled back"


def test_a_late_one_that_is_worse_goes_back_alone():
    late, host_of_late = 2, {2, 3}
    mgr = begun_beside(late)
    mgr.go(lambda: mgr.plan.missed)
    assert mgr.changed & host_of_late == host_of_late - {late}
    mgr.neighbour = lambda osd_id: 3.0 if osd_id == late and mgr.mode_of(late).value != (
        "write back") else 1.0
    sick(mgr)
    assert mgr.end() == "stopped"
    assert mgr.changed == set(range(10)) - {late}


def test_an_osd_that_does_not_answer_before_its_change_is_waited_for():
    mgr = begun()
    mgr.go(lambda: mgr.blocks.waiting)
    (token, (request, _, on_end)), = mgr.blocks.waiting.items()
    mgr.blocks.cancel(token)
    on_end(f"osd.{request.treated[0]} does not answer", True, True)
    mgr.go(lambda: mgr.plan.missed)
    assert mgr.plan.status.value == "running"
    down(mgr, 0)
    mgr.go(lambda: mgr.changed)
    assert mgr.changed == {1}
    down(mgr)
    assert mgr.end() == "done"


def test_an_ill_osd_is_no_control_and_one_that_falls_ill_is_none_any_more():
    mgr = begun_beside(9)
    mgr.go(lambda: mgr.inside.rollouts["p1"].phase is Phase.BLOCKS_AFTER)
    assert 9 not in mgr.plan.step.controls
    gone = mgr.plan.step.controls[:2]
    sick(mgr, 9, *gone)
    # as much worse as the change is better: beside these it would be a gain of nothing
    mgr.neighbour = lambda osd_id: 0.05 if osd_id in gone else 1.0
    mgr.go(lambda: mgr.plan.step.judgement is not None)
    assert mgr.plan.step.judgement.controls == len(mgr.plan.step.controls or range(7)) - 2
    sick(mgr)
    mgr.neighbour = lambda osd_id: 1.0
    assert mgr.end() == "done"
