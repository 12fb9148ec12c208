"""A knob that raises is a finding, and keeps neither `status` nor the other knobs from working."""

import pytest
from memory_world import a_mgr as memory_mgr
from memory_world import watch
from mgr_fakes.module import FakeMgr
from module_world import a_mgr, ok, refused, said, taken_over
from wcache.services.plans.planners import Planner


class Broken(Planner):
    """A knob whose author took every stored value for a number."""

    def plan(self, asked, world):
        raise AssertionError("not asked for here")

    def findings(self, world):
        return [float(entry.value) for entry in world.config.entries]


def broken_mgr():
    mgr = a_mgr()
    mgr.more_planners = {"toy": Broken()}
    mgr.config.kept[("osd", "osd_mclock_max_capacity_iops_hdd")] = "many"
    taken_over(mgr)
    mgr.step()
    return mgr


def failures(mgr):
    return {
        item["subject"]: item["detail"] for item in said(mgr, "status")["findings"]
        if item["code"] == "WCACHE_INTERNAL_ERROR"
    }


def test_status_answers_and_names_the_knob_that_fails_until_it_works_again():
    mgr = broken_mgr()
    text = ok(mgr.command("status"))
    assert "knob toy" in text
    assert "see the mgr's log" in failures(mgr)["knob toy"]
    assert "could not convert string to float: 'many'" in failures(mgr)["knob toy"]
    assert mgr.exceptions == ["knob toy failed"]  # once, however often it is asked
    mgr.config.kept.clear()
    mgr.inside.config.read_soon()
    mgr.step()
    assert failures(mgr) == {}


@pytest.mark.parametrize("knob", ["mclock", "memory", "auto"])
def test_what_a_knob_does_by_itself_may_fail_and_the_others_are_due_all_the_same(knob):
    mgr = a_mgr()
    due = {"mclock": mgr.mclock, "auto": mgr.service.auto, "memory": mgr.memory}
    ticked = []
    for name, part in due.items():
        part.tick = lambda world, name=name: ticked.append(name)

    def fails(world):
        raise ValueError("odd")

    due[knob].tick = fails
    mgr.step()
    assert set(ticked) == set(due) - {knob}
    assert "odd" in failures(mgr)[f"tick of {knob}"]


@pytest.mark.parametrize("value", ["many", "nan", "inf", "-1", "", "1e999"])
@pytest.mark.parametrize("name", [
    "osd_mclock_max_capacity_iops_hdd", "osd_memory_target", "osd_op_queue"])
def test_no_stored_value_keeps_status_from_answering(name, value):
    mgr = a_mgr()
    for who in ("osd", "osd.0", "osd/class:hdd", "osd/host:h1"):
        mgr.config.kept[(who, name)] = value
    mgr.inside.config.read_soon()
    mgr.step()
    assert failures(mgr) == {}


def starved():
    mgr = memory_mgr(hosts=3, ram_bytes=int(7.8 * 2**30), memory_floor=3 * 2**30)
    watch(mgr)
    return mgr


def stored(mgr: FakeMgr):
    return dict(mgr.store.kept)


@pytest.mark.parametrize("knob", ["memory", "all"])
def test_a_dry_run_of_a_plan_stores_nothing_and_promises_nothing(knob):
    mgr = starved()
    before = stored(mgr)
    assert said(mgr, "plan", knob=knob, dry_run=True)["changes"]
    mgr.step()
    assert stored(mgr) == before
    assert mgr.memory.facts.promises == ()
    plan_id = said(mgr, "plan", knob=knob)["plan_id"]
    assert {item.plan_id for item in mgr.memory.facts.promises} == {plan_id}


@pytest.mark.parametrize("knob", ["memory", "mclock", "all"])
def test_a_knob_that_does_not_go_by_drives_refuses_to_leave_some_out(knob):
    mgr = starved()
    assert "--without leaves drives out, and m" in refused(mgr, "plan", knob=knob, without="osd.0")
    assert said(mgr, "plan ls")["plans"] == []


def test_a_plan_that_has_no_change_in_its_scope_promises_nothing():
    mgr = starved()
    assert said(mgr, "plan", knob="memory", scope="model:acme")["plan_id"] == ""
    assert mgr.memory.facts.promises == ()
