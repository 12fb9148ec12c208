"""mClock's capacities are measured by runs that toggle nothing."""

import json
from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from module_world import refused, said, until_benched
from test_ceph_loads import answer_of
from wcache.ceph.command import Osds
from wcache.ceph.loads import CephLoads
from wcache.core import events
from wcache.core.experiment.run_state import RunState, RunStatus
from wcache.core.loads import CAPACITY_CALL_BYTES, CapacityCall, CapacityRecipe
from wcache.core.model import CacheMode, LoadPoint, Role
from wcache.core.protocol import DrivesOutcome, FailureOutcome, LookRequest
from wcache.engine.run_queue import machine_of
from wcache.engine.storing.archive import CAMPAIGN

BACK, THROUGH = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH
CAPACITY = LoadPoint.OSD_BENCH_CAPACITY
BLOCK = make.drive("sda", 0)
DB_ROLE = (Role.DB,)
DB = make.drive("nvme0", 0, 1, roles=DB_ROLE)


def machine(status=RunStatus.WAITING, **changes):
    setup = replace(make.setup(), load_point=CAPACITY, samples_per_period=3)
    spec = make.run_spec(setup, observes=True, looks_at=("domain-nvme0",), **changes)
    found = machine_of(RunState(spec, status), [{}], "1")
    return found, found.handle(events.Begin(), 1.0)


def only(actions, kind):
    (found,) = [action for action in actions if isinstance(action, kind)]
    return found


def look(found, actions, *drives):
    """Answer the looks at both domains."""
    for drive in drives:
        task = only(actions, events.GiveTask)
        assert task.request == LookRequest(drive.domain_id)
        actions = found.handle(events.Answered(task.task_id, DrivesOutcome((drive,))), 2.0)
    return actions


def call(found, actions, iops=300.0):
    asked = only(actions, events.MeasureLoad)
    assert (asked.request.load_point, asked.request.count) == (CAPACITY, 1)
    samples = events.LoadSamples(
        1.0, (int(1e9 / iops),), (), CAPACITY_CALL_BYTES,
        capacity=CapacityCall(iops, "mclock_scheduler", 50.0, 500.0),
    )
    return found.handle(events.Answered(asked.token, samples), 3.0)


def test_all_drives_of_the_osd_are_looked_at_before_and_after_the_calls():
    found, actions = machine()
    actions = look(found, actions, BLOCK, make.drive("nvme0", 0, 1, mode=THROUGH, roles=DB_ROLE))
    for iops in (300.0, 310.0, 320.0):
        assert not found.over
        actions = call(found, actions, iops)
    look(found, actions, BLOCK, make.drive("nvme0", 0, 1, mode=THROUGH, roles=DB_ROLE))
    (seen,) = found.state.observed
    assert found.state.status is RunStatus.DONE
    assert seen.capacity.setting == "block write back, db write through"
    assert seen.capacity.stack == f"{make.MODEL} with db on {make.MODEL}"
    assert seen.capacity.iops == (300.0, 310.0, 320.0)
    assert (seen.capacity.iops_min, seen.capacity.iops_max) == (50.0, 500.0)
    assert seen.bytes_written == 3 * CAPACITY_CALL_BYTES


def test_a_db_drive_that_changes_its_mode_meanwhile_leaves_no_capacity():
    found, actions = machine()
    actions = look(found, actions, BLOCK, DB)
    for _ in range(3):
        actions = call(found, actions)
    look(found, actions, BLOCK, make.drive("nvme0", 0, 1, mode=THROUGH, roles=DB_ROLE))
    assert found.state.status is RunStatus.ABORTED
    assert "osd.0 went from write back to block write back, db write through" in found.state.reason
    (seen,) = found.state.observed
    assert seen.capacity is None
    assert found.bytes_spent == 3 * CAPACITY_CALL_BYTES


def test_nothing_is_benched_where_the_mode_of_a_drive_is_not_known():
    found, actions = machine()
    task = only(actions, events.GiveTask)
    found.handle(events.Answered(task.task_id, FailureOutcome("sda does not answer", "")), 2.0)
    assert (found.state.status, found.state.reason) == (RunStatus.ABORTED, "sda does not answer")
    found, actions = machine()
    unused = replace(BLOCK, uses=())
    look(found, actions, unused, DB)
    assert found.state.reason == "the cache mode of osd.0 is not known"
    assert found.bytes_spent == 0


@pytest.mark.parametrize("made", [0, 1, 2])
def test_a_run_that_is_stopped_is_charged_with_the_call_that_goes_on(made):
    found, actions = machine()
    actions = look(found, actions, BLOCK, DB)
    for _ in range(made):
        actions = call(found, actions)
    found.handle(events.Halt("stopped by an admin"), 4.0)
    assert found.state.status is RunStatus.ABORTED
    assert found.bytes_spent == (made + 1) * CAPACITY_CALL_BYTES
    assert found.state.observed[0].capacity is None


def test_a_mgr_that_takes_over_makes_all_calls_again_and_charges_the_lost_ones_in_full():
    found, actions = machine(RunStatus.RUNNING)
    assert found.bytes_spent == 3 * CAPACITY_CALL_BYTES
    actions = look(found, actions, BLOCK, DB)
    assert only(actions, events.MeasureLoad)


# ---- in the mgr


def a_mgr():
    mgr = FakeMgr(("h0", (make.drive("sda", 0), make.drive("sdb", 1))))
    mgr.report_all()
    mgr.step()
    return mgr


@pytest.mark.parametrize("name", ["osd_bench_capacity", "capacity"])
@pytest.mark.parametrize("observe", [False, True])
def test_it_is_the_load_of_a_campaign_which_toggles_nothing(name, observe):
    mgr = a_mgr()
    asked = {"loads": name, "observe": observe, "calls": 3, "accept_cost": True}
    campaign_id = said(mgr, "campaign start", **asked)["campaign_id"]
    by_campaign = mgr.inside.runs[f"{campaign_id}.0"].spec
    assert by_campaign.observes
    assert by_campaign.experiments[0].samples_per_period == 3
    mgr.settle()
    assert [row["calls"] for row in said(mgr, "mclock show")["measured"]] == [3, 3]


@pytest.mark.parametrize(("asked", "why"), [
    ({"loads": "capacity,timer"}, "capacity is measured by itself"),
    ({"loads": "capacity", "pairs": 8}, "--loads=capacity toggles nothing, so --pairs"),
    ({"loads": "capacity", "consent_turn_on": True}, "so --consent-turn-on cannot be given"),
    ({"loads": "capacity", "calls": 99}, "--calls must be a whole number from 3 to"),
    ({"loads": "timer", "calls": 3}, "only --loads=capacity has a number of calls, so --calls"),
])
def test_what_it_cannot_be_asked_for_is_refused(asked, why):
    assert why in refused(a_mgr(), "campaign start", accept_cost=True, **asked)


def ended_without_a_tick(mgr):
    """Carry its runs out; what keeps capacities has no tick."""
    while any(not run.over for run in mgr.inside.runs.values()):
        mgr.now_s += 0.3
        for probe in mgr.probes.values():
            probe.turn()
        mgr.loads.run()
        mgr.engine.tick()


def test_what_was_measured_outlives_its_campaign_and_a_mgr_that_stops_at_once():
    mgr = a_mgr()
    said(mgr, "campaign start", loads="capacity", accept_cost=True)
    ended_without_a_tick(mgr)
    shown = said(mgr, "mclock show")
    assert [row["osd_id"] for row in shown["measured"]] == [0, 1]
    mgr.restart()
    assert [row["osd_id"] for row in said(mgr, "mclock show")["measured"]] == [0, 1]
    mgr.step()
    for run_id in list(mgr.inside.runs):
        mgr.inside.archive.drop_run(run_id)
    mgr.inside.archive.drop(CAMPAIGN, "c1")
    mgr.restart()
    shown = said(mgr, "mclock show")
    assert [row["osd_id"] for row in shown["measured"]] == [0, 1]


def test_no_run_begins_on_a_host_while_a_bench_call_of_an_ended_one_goes_on():
    mgr = a_mgr()
    said(mgr, "campaign start", loads="capacity", accept_cost=True)
    until_benched(mgr)
    ends = mgr.loads.ends_late()
    with mgr.engine.orders() as orders:
        orders.feed("c1.0", events.Halt("its OSD went down"))
    for _ in range(5):
        mgr.step()
    assert mgr.inside.runs["c1.1"].state.status is RunStatus.WAITING
    ends()
    mgr.settle()
    assert mgr.inside.runs["c1.1"].state.status is RunStatus.DONE


# ---- the bench itself


class BenchedOsd:
    """A mgr with one OSD that benches in 10 s, and schedules by `scheduler`."""

    def __init__(self, scheduler):
        self.scheduler = scheduler
        self.benches = []

    def send_command(self, result, svc_type, svc_id, command, tag):
        asked = json.loads(command)
        if asked["prefix"] == "bench":
            self.benches.append(asked)
            result.complete(0, json.dumps({"bytes_written": 12_288_000, "elapsed_sec": 10.0}), "")
            return
        value = self.scheduler if asked["var"] == "osd_op_queue" else "80"
        result.complete(0, json.dumps({asked["var"]: value}), "")


def benched(osd, **recipe):
    request = events.LoadRequest(
        0, CAPACITY, 1, 0.0, 1.0, recipe=CapacityRecipe(True, **recipe)
    )
    return answer_of(CephLoads(Osds(osd), commits_min=lambda: 20), request)


def test_a_call_is_the_bench_by_which_an_osd_finds_its_own_capacity():
    osd = BenchedOsd("mclock_scheduler")
    samples, error = benched(osd)
    assert error == ""
    (asked,) = osd.benches
    assert (asked["count"], asked["size"]) == (12_288_000, 4096)
    assert (asked["object_size"], asked["object_num"]) == (4_194_304, 100)
    assert samples.capacity == CapacityCall(300.0, "mclock_scheduler", 80.0, 80.0)
    assert samples.aborted == ""  # a full queue takes longer than any latency limit


def test_an_osd_that_mclock_does_not_serve_is_benched_only_by_force():
    osd = BenchedOsd("wpq")
    assert benched(osd)[1] == "osd.0 schedules by wpq, not by mClock"
    assert osd.benches == []
    samples, error = benched(osd, forced=True)
    assert (error, samples.capacity.scheduler) == ("", "wpq")
