"""Cache mode and osd_memory_target in one plan: one after the other, and both back."""

import pytest
from memory_world import GIB, a_mgr, watch
from module_world import (
    WB,
    WT,
    all_modes,
    apply_plan,
    fine,
    ok,
    refused,
    said,
    settled,
    taken_over,
)

RAM_BYTES = int(7.8 * GIB)


def measured():
    """Hosts that give more memory than they have, and drives that are better off without cache."""
    mgr = a_mgr(
        hosts=3, ram_bytes=RAM_BYTES, memory_floor=3 * GIB, canary_wait_s=0.0, memory_step_s=5.0
    )
    said(mgr, "campaign start", loads="depth1", accept_cost=True)
    settled(mgr)
    watch(mgr)
    return mgr


def targets(mgr):
    return {mgr.osd_memory.target_of(osd_id) for osd_id in mgr.osd_memory.osds}


def gone_on(mgr):
    """Until nothing is under way: the modes and targets at each step."""
    seen = []
    while mgr.engine.is_active():
        mgr.step(1.0)
        seen.append((all_modes(mgr), targets(mgr)))
        assert len(seen) < 2000, "still under way"
    return seen


@pytest.mark.slow
def test_both_knobs_are_in_one_plan_one_after_the_other_and_both_go_back():
    mgr = measured()
    before = dict(mgr.config.kept)
    answer = said(mgr, "plan", knob="all")
    kinds = ["knob" in change for change in answer["changes"]]
    assert sorted(kinds) == kinds, "drives first, then what the config database holds"
    assert set(kinds) == {False, True}
    ids = [change["action_id"] for change in answer["changes"]]
    assert len(set(ids)) == len(ids)
    ok(mgr.command("apply", plan_id=answer["plan_id"]))
    # no memory is moved before the last drive was judged
    assert all(modes == {WT} for modes, given in gone_on(mgr) if given != {4 * GIB})
    assert said(mgr, "plan show", plan_id=answer["plan_id"])["status"] == "done"
    assert all_modes(mgr) == {WT}
    assert min(targets(mgr)) == 3 * GIB
    ok(mgr.command("rollback"))
    assert all(modes == {WT} for modes, given in gone_on(mgr) if given != {4 * GIB})
    assert (all_modes(mgr), targets(mgr)) == ({WB}, {4 * GIB})
    assert mgr.config.kept == before
    fine(mgr)


@pytest.mark.slow
def test_a_plan_of_one_device_class_has_both_knobs_of_that_class_alone():
    mgr = measured()
    answer = said(mgr, "plan", knob="all", scope="class:ssd")
    assert {change["device_class"] for change in answer["changes"]} == {"ssd"}
    assert {"knob" in change for change in answer["changes"]} == {False, True}


def test_a_knob_of_which_nothing_is_known_is_named_and_the_other_is_planned():
    mgr = a_mgr(hosts=3, ram_bytes=RAM_BYTES, memory_floor=3 * GIB)
    watch(mgr)
    answer = said(mgr, "plan", knob="all")
    assert {change.get("knob") for change in answer["changes"]} == {"memory"}
    assert any(line.startswith("cache_mode: nothing was measured") for line in answer["left_alone"])


def test_where_nothing_is_known_of_either_the_plan_is_refused():
    mgr = a_mgr(hosts=3)
    assert "nothing was measured yet" in refused(mgr, "plan", knob="all")


@pytest.mark.slow
@pytest.mark.parametrize("moment", [3, 30, 60])
def test_a_mgr_that_is_lost_in_either_half_goes_on_and_all_of_it_goes_back(moment):
    mgr = measured()
    before = dict(mgr.config.kept)
    plan_id = apply_plan(mgr, knob="all")
    mgr.steps(moment, 1.0)
    taken_over(mgr)
    gone_on(mgr)
    assert said(mgr, "plan show", plan_id=plan_id)["status"] == "done"
    ok(mgr.command("rollback"))
    gone_on(mgr)
    assert (all_modes(mgr), targets(mgr)) == ({WB}, {4 * GIB})
    assert mgr.config.kept == before
    fine(mgr)
