"""A knob that is a folder goes through try, plan, rollout and rollback by the real engine."""

from dataclasses import replace

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from mgr_fakes import builders as make
from mgr_fakes.mclock import MgrGone
from mgr_fakes.module import FakeMgr
from module_world import fine, ok, refused, said, taken_over, until
from toy_knob import DEPTH, TOY, ToyPlanner
from wcache.commands import commands
from wcache.core.config_database import Config, ConfigEdit, ConfigRequest, Entry, left_to_write
from wcache.core.record import Precondition

HOSTS = ("h0", "h1", "h2")
BEFORE = {("osd/host:h1", DEPTH): "3.000000"}
AFTER = {(f"osd/host:{name}", DEPTH): "8.000000" for name in HOSTS}


@pytest.fixture(autouse=True, scope="module")
def _toy_is_declared():
    """The toy knob is one of those that a command declares, as where it is registered."""
    checked = commands._checked

    def declared(name, how, value):
        return value if name == "--knob" else checked(name, how, value)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commands, "_checked", declared)
        yield


class Mgr(FakeMgr):
    """A mgr with the toy knob; a write takes `gain` times less where the depth is 8."""

    gain = 5.0

    def latency_ns(self, osd_id):
        is_set = self.config.kept.get((f"osd/host:h{osd_id}", DEPTH)) == "8.000000"
        return int(20_000_000 / self.gain) if is_set else 20_000_000


def a_mgr(gain=5.0):
    mgr = Mgr(*((name, (make.drive("sda", i),)) for i, name in enumerate(HOSTS)))
    mgr.gain = gain
    mgr.more_planners = {TOY.name: ToyPlanner(8)}
    mgr.config.kept.update(BEFORE)
    taken_over(mgr)
    mgr.step()
    return mgr


def planned(mgr):
    return said(mgr, "plan", knob=TOY.name)["plan_id"]


def shown(mgr, plan_id):
    return said(mgr, "plan show", plan_id=plan_id)


def statuses(mgr, plan_id):
    return [change["status"] for change in shown(mgr, plan_id)["changes"]]


def test_tried_it_says_what_the_first_change_gains_and_takes_it_back():
    mgr = a_mgr()
    plan_id = planned(mgr)
    ok(mgr.command("apply", plan_id=plan_id, trial=True))
    mgr.settle()
    plan = shown(mgr, plan_id)
    assert (plan["status"], plan["reason"]) == ("rolled back", "tried: 20.00 ms -> 4.00 ms (-80%)")
    assert statuses(mgr, plan_id) == ["rolled back", "planned", "planned"]
    assert plan["changes"][0]["ratio"] == 5.0
    assert mgr.config.kept == BEFORE
    assert mgr.config.writes == [
        f"ceph config set osd/host:h0 {DEPTH} 8", f"ceph config rm osd/host:h0 {DEPTH}"]
    fine(mgr)


def test_a_value_is_tried_on_an_osd_that_is_well_whatever_goes_on_elsewhere():
    mgr = a_mgr()
    plan_id = planned(mgr)
    ill = "has PGs that are degraded"
    mgr.view.state = replace(
        mgr.view.state, missed=(Precondition.PGS_CLEAN, Precondition.NO_RECOVERY),
        ill=dict.fromkeys((0, 1, 2), ill),
    )
    assert f"osd.0 {ill}" in refused(mgr, "apply", plan_id=plan_id, trial=True)
    mgr.view.state = replace(mgr.view.state, ill={0: ill})
    dry = said(mgr, "apply", plan_id=plan_id, trial=True, dry_run=True)
    assert [line.partition(":")[0] for line in dry["would_change"]] == ["toy of host h1"]
    dry = said(
        mgr, "apply", plan_id=plan_id, trial=True, dry_run=True, override="osds_well",
    )
    assert [line.partition(":")[0] for line in dry["would_change"]] == ["toy of host h0"]
    answer = said(mgr, "apply", plan_id=plan_id, trial=True)
    assert answer["later"] == [f"toy of host h0: osd.0 {ill}"]
    mgr.settle()
    assert shown(mgr, plan_id)["reason"] == "tried: 20.00 ms -> 4.00 ms (-80%)"
    assert statuses(mgr, plan_id) == ["planned", "rolled back", "planned"]
    assert mgr.config.kept == BEFORE


def test_rolled_out_each_change_is_proven_and_all_of_it_goes_back():
    mgr = a_mgr()
    plan_id = planned(mgr)
    ok(mgr.command("apply", plan_id=plan_id))
    mgr.settle()
    plan = shown(mgr, plan_id)
    assert plan["status"] == "done"
    assert [change["ratio"] for change in plan["changes"]] == [5.0] * 3
    assert mgr.config.kept == AFTER
    assert said(mgr, "plan", knob=TOY.name)["changes"] == []
    ok(mgr.command("rollback"))
    mgr.settle()
    assert shown(mgr, plan_id)["status"] == "rolled back"
    assert mgr.config.kept == BEFORE
    log = ok(mgr.command("history"))
    assert f"ceph config set osd/host:h1 {DEPTH} 8 (was 3.000000)" in log
    assert f"ceph config set osd/host:h1 {DEPTH} 3.000000 (was 8)" in log
    fine(mgr)


def test_a_plan_is_not_begun_where_a_value_has_moved_since():
    mgr = a_mgr()
    plan_id = planned(mgr)
    mgr.config.kept[("osd/host:h2", DEPTH)] = "5.000000"
    ok(mgr.command("apply", plan_id=plan_id))
    mgr.settle()
    plan = shown(mgr, plan_id)
    assert plan["status"] == "stopped"
    assert "osd/host:h2 was changed since" in plan["reason"]
    assert mgr.config.writes == []


def test_an_unknown_knob_is_refused_and_the_known_ones_are_told():
    error = refused(a_mgr(), "plan", knob="moon")
    assert "use one of cache_mode, mclock, memory, " in error
    assert "toy" in error


def test_a_knob_that_nothing_measures_cannot_be_tried():
    mgr = a_mgr()
    mgr.config.kept[("osd.0", "osd_mclock_max_capacity_iops_hdd")] = "120.500000"
    ok(mgr.command("campaign start", loads="capacity", accept_cost=True))
    mgr.settle()
    ok(mgr.command("plan", knob="mclock"))
    assert "nothing measures" in refused(mgr, "apply", plan_id="p1", trial=True)
    assert shown(mgr, "p1")["status"] == "planned"


@pytest.mark.parametrize("what", ["freeze", "rollback", "restart"])
@pytest.mark.parametrize("when", ["planned", "applying", "rolling back"])
def test_a_trial_is_undone_however_it_ends(what, when):
    mgr = a_mgr()
    plan_id = planned(mgr)
    ok(mgr.command("apply", plan_id=plan_id, trial=True))
    come = "applying" if when == "rolling back" else when
    until(mgr, lambda: come in statuses(mgr, plan_id), seconds=0.1)
    mgr.config.down = when == "rolling back"  # the way back waits for the mons
    until(mgr, lambda: when in statuses(mgr, plan_id), seconds=0.1)
    if what == "restart":
        taken_over(mgr)
    else:
        ok(mgr.command(what))
    mgr.config.down = False
    mgr.now_s += 31.0
    mgr.report_all()
    mgr.settle()
    assert mgr.config.kept == BEFORE
    assert shown(mgr, plan_id)["status"] in ("rolled back", "stopped")
    if (what, when) == ("restart", "applying"):
        assert "restarted during the trial" in shown(mgr, plan_id)["reason"]


def test_nothing_is_written_before_the_mons_have_what_was_there():
    mgr = a_mgr()
    plan_id = planned(mgr)
    mgr.store.slow = True
    ok(mgr.command("apply", plan_id=plan_id))
    for _ in range(10):
        mgr.steps(10)
        stored = mgr.store.kept.get(f"rollout/{plan_id}", "")
        if mgr.config.writes:
            break
        mgr.store.answer()
    assert mgr.config.writes == [f"ceph config set osd/host:h0 {DEPTH} 8"]
    assert '"applying"' in stored


@pytest.mark.parametrize(("now", "others_stay", "written"), [
    ({}, False, ["a", "b"]),
    ({"a": "2"}, False, ["b"]),
    ({"a": "2.000000", "b": "2"}, False, []),
    ({"b": "7"}, False, []),
    ({"b": "7"}, True, ["a"]),
])
def test_only_what_is_missing_is_written_and_nothing_where_others_were(now, others_stay, written):
    edits = tuple(ConfigEdit(who, DEPTH, "2", None) for who in ("a", "b"))
    config = Config(Entry(who, DEPTH, value) for who, value in now.items())
    left = left_to_write(ConfigRequest(edits, others_stay=others_stay), config)
    assert [edit.who for edit in left] == written
    assert left_to_write(ConfigRequest(edits, write=False), config) == []


@pytest.mark.slow
@examples(60)
@given(
    st.lists(st.sampled_from(
        ["step", "step", "step", "lost", "lost in a write", "down", "up", "refuse", "take"]
    ), max_size=25),
    st.booleans(), st.sampled_from([5.0, 0.5]),
)
def test_no_loss_of_the_mgr_or_the_mons_ever_loses_a_prior_value(events, trial, gain):
    mgr = a_mgr(gain)
    plan_id = planned(mgr)
    ok(mgr.command("apply", plan_id=plan_id, trial=trial))
    for event in events:
        if event == "lost":
            taken_over(mgr)
        elif event == "lost in a write":
            mgr.config.lost_after = 1
        elif event in ("down", "up"):
            mgr.config.down = event == "down"
        elif event in ("refuse", "take"):
            mgr.config.fails = (lambda who: True) if event == "refuse" else (lambda who: False)
        try:
            mgr.step(40.0 if event == "up" else 0.3)
        except MgrGone:
            mgr.config.lost_after = None
            taken_over(mgr)
    mgr.config.down, mgr.config.lost_after = False, None
    mgr.config.fails = lambda who: False
    mgr.now_s += 40.0
    mgr.report_all()
    mgr.settle()
    if trial and shown(mgr, plan_id)["status"] != "stopped":
        assert mgr.config.kept == BEFORE
    mgr.command("rollback", plan_id=plan_id)
    mgr.settle()
    assert mgr.config.kept == BEFORE
    assert mgr.exceptions == []
