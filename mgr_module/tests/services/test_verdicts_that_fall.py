"""A verdict that falls, a model that loses writes, a freeze: no further change is made."""

import errno
from dataclasses import replace

import pytest
import wcache.engine.world
from gate_world import begun
from gated_plan import GatedMgr
from mgr_fakes import builders as make
from mgr_fakes.module import FakeAnalysis, FakeMgr
from module_world import (
    WB,
    WT,
    a_mgr,
    all_modes,
    apply_plan,
    fine,
    measured,
    ok,
    refused,
    said,
    settled,
    start,
    taken_over,
)
from test_commands_do_what_they_say import until
from wcache.core import events
from wcache.core.change.change import ChangeStatus
from wcache.core.change.preconditions import precondition_text
from wcache.core.change.rollout_state import RolloutStatus
from wcache.core.host_report import PowerCut
from wcache.core.model import Verdict
from wcache.core.record import Precondition

pytestmark = pytest.mark.slow

PLANNED, MAKING, MADE = ChangeStatus.PLANNED, ChangeStatus.APPLYING, ChangeStatus.APPLIED
LOST = PowerCut("r1", "wwn-x", make.MODEL, WB, 100, 100, 3, 1.0, True)
SAYS = "wwn-x lost 3 acknowledged writes in a power cut (WCACHE_FLUSH_LOST)"


def turned_off(**options):
    """Drives that are off and would be better on, on two hosts."""
    mgr = FakeMgr(
        ("h1", (make.drive("sda", 0, mode=WT), make.drive("sdb", 1, mode=WT))),
        ("h2", (make.drive("sdc", 2, mode=WT),)), **options,
    )
    for probe in mgr.probes.values():
        probe.latency_ns = {WB: 4_000_000, WT: 20_000_000}
    mgr.report_all()
    return mgr


def turning_on():
    mgr = turned_off()
    start(mgr, consent_turn_on=True)
    settled(mgr)
    apply_plan(mgr, consent_turn_on=True)
    return mgr


def tells_of_a_loss(mgr, hostname="h2"):
    probe = mgr.probes[hostname]
    report = type(probe).report
    probe.report = lambda: replace(report(probe), power_cuts=(LOST,))
    mgr.inside.hosts.reported_at_s.pop(hostname, None)


def shown(mgr):
    return said(mgr, "plan show", plan_id="p1")


def statuses(mgr):
    return [change["status"] for change in shown(mgr)["changes"]]


def fall(mgr):
    """What was measured does not decide any more."""
    results = mgr.inside.analyses.results
    for key, item in results.items():
        results[key] = replace(item, verdict=Verdict.INSUFFICIENT)


@pytest.mark.parametrize("at", [(MAKING,), (MADE, MAKING)])
def test_a_model_that_loses_writes_is_not_turned_on_any_further_and_the_change_goes_back(at):
    mgr = turning_on()
    until(mgr, *at)
    tells_of_a_loss(mgr)
    mgr.settle()
    plan = shown(mgr)
    assert plan["status"] == ("stopped" if MADE in at else "rolled back")
    assert SAYS in plan["reason"]
    on = [mode for probe in mgr.probes.values() for mode in probe.modes().values() if mode is WB]
    assert len(on) == sum(status is MADE for status in at)
    assert statuses(mgr)[len(at):] == ["planned"] * (3 - len(at))
    fine(mgr)


def test_a_paused_rollout_takes_back_what_it_has_turned_on_and_not_judged():
    mgr = turning_on()
    until(mgr, MAKING)
    rollout = mgr.inside.rollouts["p1"]
    with mgr.engine.orders() as orders:
        orders.execute("p1", rollout.pause("by an admin"))
    while not rollout.paused:
        mgr.step()
    tells_of_a_loss(mgr)
    mgr.steps(20)
    assert shown(mgr)["status"] in ("stopped", "rolled back")
    assert SAYS in shown(mgr)["reason"]


def test_a_plan_that_turns_that_model_off_goes_on_and_so_does_one_of_another_model():
    mgr = begun()
    tells_of_a_loss(mgr)
    assert mgr.end() == "done"
    other = turning_on()
    probe = other.probes["h2"]
    report = type(probe).report
    cut = replace(LOST, drive_model=replace(make.MODEL, model="HD2"))
    probe.report = lambda: replace(report(probe), power_cuts=(cut,))
    other.inside.hosts.reported_at_s.clear()
    other.settle()
    assert shown(other)["status"] == "done"


def test_no_campaign_turns_on_a_model_that_loses_writes():
    mgr = turned_off()
    tells_of_a_loss(mgr)
    mgr.report_all()
    start(mgr, consent_turn_on=True)
    seen = set()
    for _ in range(200):
        mgr.step()
        seen |= all_modes(mgr)
    assert seen == {WT}
    assert all(run.over and SAYS in run.state.reason for run in mgr.inside.runs.values())


def test_no_change_is_made_once_its_verdict_has_fallen_and_nobody_may_override_that():
    mgr = turning_on()
    until(mgr, MAKING)
    results = dict(mgr.inside.analyses.results)
    fall(mgr)
    mgr.steps(60, 1.0)
    assert statuses(mgr) == ["applied", "planned", "planned"]
    assert f"waiting: {precondition_text([Precondition.VERDICT_STANDS])}" in shown(mgr)["reason"]
    assert "is not a precondition" in refused(
        mgr, "apply", errno.EINVAL, plan_id="p1", override="verdict_stands")
    mgr.inside.analyses.results.update(results)  # a pool that was computed anew, say
    mgr.settle()
    assert shown(mgr)["status"] == "done"


def test_the_verdicts_are_asked_for_once_the_mons_have_answered_and_nobody_waits_meanwhile(
    monkeypatch
):
    mgr, waiting, free = begun(), [], []
    mgr.stops.join()  # the look before the first wave
    monkeypatch.setattr(mgr.stops, "ask", lambda groups, done: waiting.append(done))
    recommend = wcache.engine.world.recommend

    def asked(*about):
        free.append(mgr.engine.free)
        return recommend(*about)

    monkeypatch.setattr(wcache.engine.world, "recommend", asked)
    while not waiting:
        mgr.step()
    assert free == []
    fall(mgr)
    waiting.pop()(1, False)
    assert free == [True]
    mgr.step()
    assert precondition_text([Precondition.VERDICT_STANDS]) in mgr.plan.reason


def test_where_the_verdicts_cannot_be_told_nothing_is_changed_until_they_can(monkeypatch):
    mgr = begun()
    recommend = wcache.engine.world.recommend
    monkeypatch.setattr(wcache.engine.world, "recommend", lambda *about: 1 / 0)
    mgr.steps(60, 1.0)
    assert precondition_text([Precondition.VERDICT_STANDS]) in mgr.plan.reason
    assert mgr.changed == set()
    assert "the verdicts could not be asked for" in mgr.exceptions
    monkeypatch.setattr(wcache.engine.world, "recommend", recommend)
    assert mgr.end() == "done"


def test_nothing_is_changed_while_frozen_whatever_the_machine_was_told():
    mgr = turning_on()
    until(mgr, MAKING)
    mgr.inside.frozen = True  # the Halt of the command is what usually ends it
    mgr.steps(60, 1.0)
    assert statuses(mgr) == ["applied", "planned", "planned"]
    assert f"waiting: {precondition_text([Precondition.NOT_FROZEN])}" in shown(mgr)["reason"]


def test_what_is_no_longer_recommended_is_not_made_to_last():
    mgr = begun(plan={"scope": "osd.0"})
    assert mgr.end() == "done"
    fall(mgr)
    error = refused(mgr, "apply", errno.EBUSY, plan_id="p1", persist=True)
    assert "h0 sda: the verdict of its drive model is insufficient data now" in error
    assert "`ceph wcache rollback p1`" in error


@pytest.mark.parametrize("missed", [Precondition.VERDICT_STANDS, Precondition.NOT_FROZEN,
                                    Precondition.CLUSTER_HEALTHY])
def test_each_change_of_a_step_is_looked_at_and_what_is_made_before_one_is_judged(missed):
    mgr = GatedMgr()
    mgr.give(events.Begin())
    while mgr.statuses[1] is not ChangeStatus.MADE:  # the first of a step of two
        assert mgr.step()
        if mgr.statuses[1] is ChangeStatus.APPLYING:
            mgr.missed = (missed,)
    while mgr.machine.rollout.step.indices:
        assert mgr.step()
    assert mgr.statuses[1:3] == [ChangeStatus.APPLIED, ChangeStatus.PLANNED]
    assert mgr.modes["domain-2"] is WB
    for _ in range(10):
        mgr.step()
    assert mgr.statuses[2] is ChangeStatus.PLANNED
    mgr.missed = ()
    assert mgr.to_the_end()
    assert mgr.machine.rollout.status is RolloutStatus.DONE
    assert set(mgr.modes.values()) == {WT}


@pytest.mark.parametrize("missed", [Precondition.VERDICT_STANDS, Precondition.CLUSTER_HEALTHY])
def test_what_is_made_is_judged_though_its_probe_was_silent_before_something_else_was_missed(
    missed
):
    mgr = GatedMgr()
    mgr.give(events.Begin())
    while mgr.statuses[1] is not ChangeStatus.MADE:
        assert mgr.step()
    mgr.fault("probe silent")
    mgr.step()
    assert mgr.machine.rollout.missed == (Precondition.PROBES_HEARD,)
    mgr.silent, mgr.missed = False, (missed,)
    began_s = mgr.now_s
    while mgr.statuses[1] is ChangeStatus.MADE:
        assert mgr.step()
    assert mgr.statuses[1:3] == [ChangeStatus.APPLIED, ChangeStatus.PLANNED]
    assert mgr.now_s - began_s < 600
    mgr.missed = ()
    assert mgr.to_the_end()
    assert set(mgr.modes.values()) == {WT}


def test_a_step_that_was_held_before_its_first_change_takes_its_blocks_anew():
    mgr = GatedMgr()
    mgr.give(events.Begin())
    while not (mgr.watch and mgr.blocks):
        assert mgr.step()
    mgr.missed = (Precondition.CLUSTER_HEALTHY,)
    while mgr.watch:
        assert mgr.step()
    mgr.step()
    assert mgr.statuses == [ChangeStatus.PLANNED] * 4
    mgr.missed = ()
    mgr.step()
    assert (mgr.watch is not None, mgr.blocks, mgr.task) == (True, 0, None)
    assert mgr.to_the_end()
    assert set(mgr.modes.values()) == {WT}


@pytest.mark.parametrize("ends", ["freeze", "campaign stop"])
def test_a_campaign_that_is_stopped_after_a_pair_leaves_what_was_decided(ends):
    mgr = measured()
    (before,) = said(mgr, "recommend")["recommendations"]
    assert before["verdict"] == "write through"
    campaign_id = start(mgr)
    while not any(run.state.spec.campaign_id == campaign_id and len(run.periods[0]) > 5
                  for run in mgr.inside.runs.values()):
        mgr.step(0.1)
    ok(mgr.command(ends, **({"campaign_id": campaign_id} if ends != "freeze" else {})))
    mgr.settle()
    stopped = [r for r in mgr.inside.analyses.results.values() if r.campaign_id == campaign_id]
    assert stopped
    assert all(0 < r.pairs < 4 for r in stopped)
    taken_over(mgr)
    (after,) = said(mgr, "recommend")["recommendations"]
    same = ("verdict", "mode", "why", "record_ids", "loads")
    assert [after[key] for key in same] == [before[key] for key in same]
    assert f"a later experiment ({stopped[0].record_id}) is not counted" in ok(
        mgr.command("recommend"))


def test_figures_of_another_release_than_the_osds_run_now_are_said_to_be_such(monkeypatch):
    answer = FakeAnalysis._answer
    monkeypatch.setattr(FakeAnalysis, "_answer", lambda self, record: {
        **answer(self, record), "log_ratio": 1.6, "pair_sd": 0.02,
    })

    def at(mgr, version):
        seen = mgr.view.state
        osds = {i: replace(osd, ceph_version=version) for i, osd in seen.osds.items()}
        mgr.view.state = replace(seen, ceph_version=version, osds=osds)

    mgr = a_mgr()
    at(mgr, "16.2.15")
    start(mgr)
    mgr.settle()
    assert "measured on Ceph" not in ok(mgr.command("recommend"))
    at(mgr, "20.2.4")
    assert "note: measured on Ceph 16, and OSDs run Ceph 20 now" in " ".join(
        ok(mgr.command("recommend")).split()
    )
