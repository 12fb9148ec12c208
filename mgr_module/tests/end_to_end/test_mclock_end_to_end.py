"""`ceph wcache mclock ...` from forecast to rollback, over failovers and failures."""

import math
from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from module_world import (
    apply_plan,
    codes,
    ok,
    refused,
    said,
    settled,
    start,
    taken_over,
    until_benched,
    unwrapped,
)
from wcache.core.loads import CAPACITY_CALL_BYTES as CALL_BYTES
from wcache.core.model import CacheMode
from wcache.core.record import Precondition

BACK, THROUGH = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH
STALE = "WCACHE_MCLOCK_STALE"
HDD = "osd_mclock_max_capacity_iops_hdd"


@pytest.fixture
def mgr():
    """Four hosts with one OSD each, in write back, reported, the config database read."""
    found = FakeMgr(*((f"h{i}", (make.drive("sda", i),)) for i in range(4)))
    found.report_all()
    found.config.kept[("osd.0", HDD)] = "120.500000"
    found.step()
    yield found
    assert found.exceptions == []


def not_begun(mgr, **arguments):
    """Why no measurement of capacities begins."""
    return refused(mgr, "campaign start", loads="capacity", **arguments)


def campaign(mgr):
    """The newest campaign, and why its runs ended."""
    found = said(mgr, "campaign ls")["campaigns"][-1]
    shown = said(mgr, "campaign show", campaign_id=found["campaign_id"])
    return {**shown, "reason": " ".join(run["reason"] for run in shown["run_list"])}


def plan(mgr):
    """The newest plan."""
    return said(mgr, "plan ls")["plans"][-1]


def measure(mgr, **arguments):
    start(mgr, "capacity", **arguments)
    mgr.settle()


def switch(mgr, mode, *hostnames):
    """Somebody puts drives into another mode, and the probes report it."""
    for hostname in hostnames:
        probe = mgr.probes[hostname]
        probe.drives = {
            d.domain_id: make.drive(d.dev_name, *(u.osd_id for u in d.uses), mode=mode)
            for d in probe.drives.values()
        }
        mgr.inside.hosts.reported_at_s.pop(hostname, None)
    mgr.report_all()


def test_osds_that_are_not_well_are_passed_over_and_those_that_move_data_come_last(mgr):
    mgr.step(61.0)  # from now on the mgr knows of its PGs
    mgr.view.state = replace(mgr.view.state, ill={0: "is near full"}, busy=frozenset([1]))
    cost = said(
        mgr, "campaign start", dry_run=True, loads="capacity", drives_per_model=2
    )["forecast"]
    assert "1 OSD passed over, each is near full: osd.0" in cost["skipped"]
    start(mgr, "capacity", drives_per_model=2)
    assert [one.spec.osd_ids for one in mgr.inside.runs.values()] == [{2}, {3}]
    mgr.step()
    mgr.view.state = replace(mgr.view.state, ill={2: "is near full"})
    mgr.now_s += 6.0
    mgr.engine.tick()
    mgr.settle()
    ended = mgr.inside.runs["c1.0"].state
    assert "osd.2 is near full" in ended.reason
    assert mgr.inside.runs["c1.1"].state.reason == ""
    assert len(mgr.inside.runs) == 2, "no capacity is of a drive model"


def test_an_osd_that_may_get_data_is_benched_last(mgr):
    mgr.view.state = replace(
        mgr.view.state, missed=(Precondition.NO_RECOVERY,), gets_data=lambda osd_id: osd_id == 0)
    told = said(mgr, "campaign start", dry_run=True, loads="capacity", drives_per_model=2)
    assert told["clients"].startswith("clients of osd.1, osd.2 wait ")


def test_pgs_that_move_elsewhere_keep_no_capacity_from_being_measured(mgr):
    mgr.view.state = replace(mgr.view.state, missed=(
        Precondition.PGS_CLEAN, Precondition.NO_RECOVERY, Precondition.NO_SLOW_OPS))
    measure(mgr, calls=4)
    assert campaign(mgr)["status"] == "done"
    assert [row["forced"] for row in said(mgr, "mclock show")["measured"]] == [False] * 3
    mgr.view.state = replace(
        mgr.view.state, missed=(Precondition.CLUSTER_HEALTHY,), sick=("flag pause is set",))
    assert "flag pause is set" in not_begun(mgr, accept_cost=True)


@pytest.mark.parametrize("moved", [False, True])
def test_a_forced_measurement_takes_no_place_of_a_good_one_that_holds(mgr, moved):
    measure(mgr)
    (before,) = said(mgr, "mclock show")["classes"]
    if moved:
        switch(mgr, THROUGH, *mgr.probes)
    mgr.osd_iops = lambda osd_id, call: 60.0 + call
    mgr.now_s += 10.0
    measure(mgr, override="cluster_healthy")
    for _ in range(2):
        after = said(mgr, "mclock show")
        assert [row["forced"] for row in after["measured"]] == [moved] * 3
        (advice,) = after["classes"]
        assert advice["models"] == ([] if moved else before["models"])
        taken_over(mgr)


def test_measure_recommend_apply_and_roll_back(mgr):
    mgr.osd_iops = lambda osd_id, call: 300.0 + osd_id + call
    measure(mgr)
    shown = said(mgr, "mclock show")
    assert [row["osd_id"] for row in shown["measured"]] == [0, 1, 2]
    assert all(row["setting"] == "write back" for row in shown["measured"])
    assert all(row["iops_low"] < row["iops"] < row["iops_high"] for row in shown["measured"])
    assert campaign(mgr)["bytes_written"] == 12 * CALL_BYTES
    (advice,) = said(mgr, "mclock show")["classes"]
    value = round(math.exp(sum(
        math.log(300.0 + o + c) for o in range(3) for c in range(4)) / 12))
    assert advice["shadowing"] == ["osd.0"]
    assert advice["commands"] == [
        f"ceph config set osd/class:hdd {HDD} {value}", f"ceph config rm osd.0 {HDD}"]
    assert mgr.config.writes == []

    planned = said(mgr, "plan", knob="mclock")
    ok(mgr.command("apply", plan_id=planned["plan_id"]))
    assert [line for row in planned["changes"] for line in row["manual"]] == advice["commands"]
    mgr.step()
    assert mgr.config.writes == advice["commands"]
    assert mgr.config.kept == {("osd/class:hdd", HDD): f"{value}.000000"}
    assert plan(mgr)["status"] == "done"
    assert said(mgr, "plan", knob="mclock")["changes"] == []
    assert said(mgr, "mclock show")["classes"][0]["commands"] == []

    assert said(mgr, "rollback")["changed"] is True
    mgr.step()
    assert mgr.config.kept == {("osd.0", HDD): "120.500000"}
    assert plan(mgr)["status"] == "rolled back"
    assert "nothing is applied" in refused(mgr, "rollback")
    log = mgr.command("history", format="plain")[1]
    assert f"ceph config rm osd.0 {HDD} (was 120.500000)" in log


def test_a_change_of_mode_makes_a_stored_value_stale_until_it_is_measured_again(mgr):
    assert STALE not in codes(mgr)
    switch(mgr, THROUGH, "h0")
    mgr.step(31.0)
    assert STALE in codes(mgr)
    told = unwrapped(mgr.command("status")[1])
    assert "osd.0 was stored while the drives were in write back" in told
    switch(mgr, BACK, "h0")
    mgr.step(31.0)
    assert STALE not in codes(mgr)


def test_what_was_seen_of_a_value_outlives_the_mgr(mgr):
    taken_over(mgr)
    mgr.step()
    switch(mgr, THROUGH, "h0")
    mgr.step(31.0)
    assert STALE in codes(mgr)
    mgr.config.kept.clear()  # a cure by hand is seen soon
    mgr.step(61.0)
    mgr.step()
    assert STALE not in codes(mgr)


def test_a_measurement_in_a_mode_that_is_gone_is_not_recommended(mgr):
    measure(mgr)
    switch(mgr, THROUGH, "h0", "h1", "h2", "h3")
    (advice,) = said(mgr, "mclock show")["classes"]
    assert advice["commands"] == []
    assert "osd.0 was measured in write back" in " ".join(advice["warnings"])
    assert "no measurement is still valid" in str(said(mgr, "plan", knob="mclock")["left_alone"])


def test_what_is_doubted_of_a_class_that_is_changed_is_a_note_and_nothing_is_left_alone(mgr):
    measure(mgr, drives_per_model=2)
    told, plain = said(mgr, "plan", knob="mclock"), ok(mgr.command("plan", knob="mclock"))
    assert told["changes"]
    assert [told["left_alone"], told["doubts"]] == [
        [], ["class hdd: ACME HD1 1.0: 2 OSDs measured; 3 or more are better"]]
    assert f"note: {told['doubts'][0]}" in plain
    assert "left alone" not in plain


def test_a_failover_goes_on_with_the_osd_that_is_missing_and_repeats_none(mgr):
    start(mgr, "capacity")
    while not mgr.mclock.measured:
        mgr.step()
    made = list(mgr.bench.calls)
    mgr.restart()
    assert mgr.command("campaign start", accept_cost=True)[0] != 0
    mgr.settle()
    assert sorted({*made, *mgr.bench.calls}) == [0, 1, 2]
    assert 0 not in mgr.bench.calls
    assert campaign(mgr)["status"] == "done"


def test_nothing_is_toggled_while_osds_are_benched_and_the_other_way_round(mgr):
    start(mgr, "capacity")
    assert "campaign c1 is not over yet" in refused(mgr, "campaign start", accept_cost=True)
    assert "campaign c1 is not over yet" in not_begun(mgr, accept_cost=True)
    assert "measuring: mclock measurement c1" in mgr.command("status")[1]
    ((message, fraction),) = mgr.views.under_way().values()
    assert message.startswith("wcache campaign c1, at most ")
    assert fraction == 0.0
    while not mgr.bench.calls:
        mgr.step()
    assert mgr.views.under_way()["wcache.c1"][1] == pytest.approx(1 / 12)
    mgr.settle()
    assert mgr.command("campaign start", accept_cost=True)[0] == 0
    assert "campaign c2 is not over yet" in not_begun(mgr, accept_cost=True)


@pytest.mark.parametrize("run_known", [True, False])
def test_a_host_is_left_alone_before_the_bench_call_that_was_stopped_has_ended(mgr, run_known):
    start(mgr, "capacity")
    until_benched(mgr)
    ends = mgr.loads.ends_late()
    said(mgr, "campaign stop", campaign_id="c1")
    mgr.engine.tick()
    shown = campaign(mgr)
    assert shown["status"] == "aborted"
    assert shown["bytes_written"] == CALL_BYTES  # it goes on, and is charged in full
    capacity = {"loads": "capacity", "drives_per_model": 9}
    if not run_known:  # it is pruned while its call goes on
        mgr.inside.runs.clear()
    (call,) = mgr.inside.reserved
    (osd_id,), (hostname,) = call.touched.osds, call.touched.hosts
    alone = (
        ": the last bench call of an mclock measurement is under way, and has this host or OSD for "
        "itself")

    def left_out(**arguments):
        told = said(mgr, "campaign start", dry_run=True, **arguments)
        return [line for line in told["forecast"]["skipped"] if line.endswith(alone)]

    assert left_out(**capacity) == [f"osd.{osd_id}{alone}"]
    (line,) = left_out()
    assert line.startswith(f"{hostname} ")
    ends()
    assert left_out(**capacity) == left_out() == []


def test_an_osd_that_refuses_and_a_silent_probe_end_it_with_the_reason(mgr):
    mgr.bench.error = "osd.0 went down during `bench`"
    measure(mgr)
    assert mgr.bench.error in campaign(mgr)["reason"]
    mgr.probes.clear()
    start(mgr, "capacity")
    mgr.step()
    mgr.step(121.0)
    assert "has not responded" in campaign(mgr)["reason"]


def test_where_mclock_does_not_schedule_nothing_is_benched_and_it_says_so(mgr):
    mgr.compiled_queue = "wpq"
    assert "schedules by wpq, not by mClock" in not_begun(mgr, accept_cost=True)
    assert said(mgr, "mclock show")["other_schedulers"] == ["wpq"]
    assert "schedule by wpq" in mgr.command("mclock show")[1]
    mgr.config.kept[("osd", "osd_op_queue")] = "mclock_scheduler"
    mgr.step()
    mgr.step()
    assert said(mgr, "campaign start", dry_run=True, loads="capacity")["forecast"]["drives"] == 3


def test_a_rollback_leaves_alone_what_others_changed_meanwhile(mgr):
    measure(mgr)
    apply_plan(mgr, knob="mclock")
    mgr.step()
    mgr.config.kept[("osd/class:hdd", HDD)] = "250.000000"
    said(mgr, "rollback")
    mgr.step()
    assert mgr.config.kept == {
        ("osd/class:hdd", HDD): "250.000000", ("osd.0", HDD): "120.500000"}
    assert "osd/class:hdd" in plan(mgr)["reason"]


@pytest.mark.slow
def test_a_plan_and_the_recommendation_name_the_keys_that_will_be_stale(mgr):
    start(mgr)
    mgr.settle()
    (row,) = said(mgr, "recommend")["recommendations"]
    assert row["mode"] == "write through"
    assert row["stale_keys"] == [f"osd.0 {HDD}"]
    assert "campaign start --loads=capacity" in mgr.command("recommend")[1]
    plan = said(mgr, "plan")
    assert plan["stale_keys"] == [f"osd.0 {HDD}"]
    assert f"osd.0 {HDD}" in mgr.command("plan show", plan_id=plan["plan_id"])[1]

    def keys():
        shown = said(mgr, "plan show", plan_id=plan["plan_id"])
        (row,) = said(mgr, "recommend")["recommendations"]
        return [shown["stale_keys"], row["stale_keys"]]

    mgr.command("apply", plan_id=plan["plan_id"])
    settled(mgr)
    assert keys() == [[f"osd.0 {HDD}"]] * 2
    mgr.config.kept[("osd.0", HDD)] = "299.000000"  # measured anew, by whomever
    mgr.step(61.0)
    mgr.step()
    assert keys() == [[], []]
