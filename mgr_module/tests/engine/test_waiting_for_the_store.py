"""A step is taken when the mons have what came before it, and leases live on progress alone."""

import pytest
from examples import ALL
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from module_world import WB, WT, a_mgr, all_modes, fine, measured, ok, said, start
from wcache.core.experiment.comparing_run import ComparingRun
from wcache.core.experiment.run_state import RunStatus

LEASE_S = 60.0


def two_hosts_at_once():
    mgr = FakeMgr(
        ("h1", (make.drive("sda", 0),)), ("h2", (make.drive("sdb", 1),)), parallel_hosts_max=2,
    )
    mgr.report_all()
    start(mgr)
    return mgr


def codes(mgr):
    return {f["code"] for f in said(mgr, "status")["findings"]}


def a_run(mgr):
    """A campaign's first run, some steps in."""
    start(mgr)
    for _ in range(7):
        mgr.step()
    return mgr.inside.runs["c1.0"]


def slow_until_it_waits(mgr):
    """The mons stop answering, and the run comes to where it needs them."""
    mgr.store.slow = True
    for _ in range(40):
        mgr.step()
        if mgr.inside.gate.held:
            return
    raise AssertionError("it never waited")


# ---- stored before done


@pytest.mark.slow
def test_no_task_is_given_before_the_mons_have_the_run():
    mgr = a_mgr()
    mgr.store.slow = True
    start(mgr)
    for _ in range(20):
        mgr.step()
    assert mgr.inside.runs["c1.0"].state.status is RunStatus.WAITING, "not even its campaign"
    mgr.store.answer()
    for _ in range(20):
        mgr.step()
    assert mgr.inside.runs["c1.0"].state.status is RunStatus.RUNNING
    assert '"waiting"' in mgr.store.kept["run/c1.0"]
    assert mgr.probes["h1"].set_count == 0
    mgr.store.answer()
    for _ in range(20):
        mgr.step()
    assert mgr.probes["h1"].set_count == 0, "looked at, and what was seen is not stored yet"
    mgr.store.answer()
    mgr.step()
    mgr.step()
    assert '"running"' in mgr.store.kept["run/c1.0"]
    assert mgr.probes["h1"].set_count
    mgr.store.slow = False
    mgr.store.answer()
    mgr.settle()
    fine(mgr)


@pytest.mark.slow
def test_a_mgr_lost_while_its_writes_wait_leaves_nothing_that_was_done_and_not_stored():
    for steps in range(1, 40, 1 if ALL else 4):
        mgr = a_mgr()
        start(mgr)
        for _ in range(steps):
            mgr.step()
        mgr.store.slow = True
        for _ in range(6):
            mgr.step()
        held = {probe.hostname for probe in mgr.probes.values() if probe.leased}
        mgr.restart()
        mgr.store.slow = False
        leases = {m.spec.hostname for m in mgr.inside.runs.values() if m.holds_lease}
        assert held <= leases, f"after {steps} steps a drive was held and the mons knew of no run"
        mgr.settle()
        fine(mgr)
        assert all_modes(mgr) == {WB}


@pytest.mark.slow
def test_no_change_is_made_before_the_mons_have_the_plan():
    mgr = measured()
    plan_id = said(mgr, "plan")["plan_id"]
    ok(mgr.command("apply", plan_id=plan_id))
    mgr.store.slow = True
    for _ in range(20):
        mgr.step()
    assert all_modes(mgr) == {WB}
    mgr.store.slow = False
    mgr.store.answer()
    mgr.settle()
    assert all_modes(mgr) == {WT}


@pytest.mark.slow
def test_an_election_shorter_than_the_lease_ends_nothing():
    mgr = a_mgr(lease_ttl_s=LEASE_S)
    run = a_run(mgr)
    slow_until_it_waits(mgr)
    waited_s = 0.0
    while waited_s < LEASE_S - 5:
        mgr.step(2.0)
        waited_s += 2.0
        assert mgr.probes["h1"].lease == run.spec.lease_id
    mgr.store.slow = False
    mgr.store.answer()
    mgr.settle()
    assert run.state.status is RunStatus.DONE
    assert said(mgr, "campaign show", campaign_id="c1")["run_list"][0]["interrupted_periods"] == 0
    fine(mgr)


def test_an_election_longer_than_the_lease_ends_the_run_and_the_drive_is_back_meanwhile():
    mgr = a_mgr(lease_ttl_s=LEASE_S)
    run = a_run(mgr)
    slow_until_it_waits(mgr)
    for _ in range(35):
        mgr.step(2.0)
    assert mgr.probes["h1"].leased == {}
    assert all_modes(mgr) == {WB}
    assert run.state.status is RunStatus.ABORTED
    assert "have not answered for 60 s" in run.state.reason
    assert "WCACHE_STORE_FAILED" in codes(mgr)
    mgr.store.slow = False
    mgr.store.answer()
    for _ in range(3):
        mgr.step()
    assert '"aborted"' in mgr.store.kept["run/c1.0"]
    mgr.settle()
    assert "WCACHE_STORE_FAILED" not in codes(mgr)
    fine(mgr)


def test_a_stop_does_not_wait_for_the_mons_to_restore():
    mgr = a_mgr()
    run = a_run(mgr)
    slow_until_it_waits(mgr)
    ok(mgr.command("campaign stop", campaign_id="c1"))
    mgr.step()
    mgr.step()
    assert mgr.probes["h1"].leased == {}
    assert run.state.status is RunStatus.ABORTED


def test_a_refused_write_ends_its_run_alone():
    mgr = two_hosts_at_once()
    for _ in range(6):
        mgr.step()
    mgr.store.fails = lambda key: key.startswith("period/c1.0/")
    mgr.settle()
    status = {name: m.state.status for name, m in mgr.inside.runs.items()}
    assert status == {"c1.0": RunStatus.ABORTED, "c1.1": RunStatus.DONE}
    fine(mgr)


@pytest.mark.parametrize("call", ["poll", "post"])
def test_a_probes_call_never_waits_for_the_mons(call):
    mgr = a_mgr()
    mgr.store.slow = True
    before = dict(mgr.store.kept)
    probe = mgr.probes["h1"]
    probe.crash()  # it says that it is new, which is to be stored
    if call == "poll":
        probe.turn(0)
    else:
        probe.post("", None)
    assert probe.error == ""
    assert mgr.store.kept == before


# ---- renewed by progress


@pytest.mark.slow
def test_an_engine_that_makes_no_tick_renews_no_lease():
    mgr = a_mgr(lease_ttl_s=LEASE_S)
    a_run(mgr)
    probe = mgr.probes["h1"]
    while not probe.leased:
        mgr.step()
    began_s, renewed_s = mgr.now_s, 0.0
    for _ in range(24 * 60 * 4):  # a day of polls and never a tick
        mgr.now_s += 15.0
        probe.turn()
        if probe.lease:
            renewed_s = mgr.now_s - began_s
    assert renewed_s <= LEASE_S
    assert probe.leased == {}
    assert all_modes(mgr) == {WB}
    assert "WCACHE_INTERNAL_ERROR" in codes(mgr)


def test_an_engine_that_goes_on_gets_its_run_to_the_end():
    mgr = a_mgr(lease_ttl_s=LEASE_S)
    run = a_run(mgr)
    for _ in range(20):
        mgr.now_s += 15.0
        for probe in mgr.probes.values():
            probe.turn()
    mgr.engine.tick()
    assert "WCACHE_INTERNAL_ERROR" not in codes(mgr)
    mgr.settle()
    assert run.state.status is RunStatus.DONE
    fine(mgr)


# ---- a machine that raises


def broken_by(mgr, owner, when):
    """The run's machine raises at its first event after `when` held."""

    class Broken(ComparingRun):
        def handle(self, event, now_s):
            if when(self):
                raise ZeroDivisionError("odd")
            return super().handle(event, now_s)

    old = mgr.inside.runs[owner]
    new = Broken(old.state, old.periods, old.epoch)
    mgr.inside.runs[owner] = new
    return new


def test_a_machine_that_raises_is_ended_and_told_of_and_the_others_go_on():
    mgr = two_hosts_at_once()
    broken_by(mgr, "c1.0", lambda machine: len(machine.periods[0]) >= 3)
    mgr.settle()
    run = mgr.inside.runs["c1.0"].state
    assert run.status is RunStatus.ABORTED
    assert "ZeroDivisionError" in run.reason
    assert mgr.inside.runs["c1.1"].state.status is RunStatus.DONE
    assert mgr.exceptions == ["c1.0 failed"]
    assert "WCACHE_INTERNAL_ERROR" in codes(mgr)
    assert "ended by internal error" in ok(mgr.command("history"))
    mgr.step()
    assert all(probe.leased == {} for probe in mgr.probes.values())
    assert all_modes(mgr) == {WB}
    mgr.report_all()
    assert mgr.inside.runs["c1.0"].state.restored, "a report has shown the drive as it was"
    assert "the prior state is restored" in ok(mgr.command("history"))
    mgr.restart()
    assert mgr.inside.runs["c1.0"].state.status is RunStatus.ABORTED
    assert "WCACHE_INTERNAL_ERROR" not in codes(mgr)


def test_a_machine_that_cannot_say_when_it_is_due_keeps_no_other_waiting():
    mgr = two_hosts_at_once()

    class Broken(ComparingRun):
        @property
        def under_way(self):
            if not self.over:
                raise ZeroDivisionError("odd")
            return False

    old = mgr.inside.runs["c1.0"]
    mgr.inside.runs["c1.0"] = Broken(old.state, old.periods, old.epoch)
    mgr.settle()
    assert mgr.inside.runs["c1.0"].state.status is RunStatus.ABORTED
    assert mgr.inside.runs["c1.1"].state.status is RunStatus.DONE
    assert all_modes(mgr) == {WB}


def test_a_probes_call_that_breaks_a_machine_is_answered_all_the_same():
    mgr = a_mgr()
    a_run(mgr)
    probe = mgr.probes["h1"]
    broken_by(mgr, "c1.0", lambda machine: True)
    probe.crash()
    assert probe.turn(0).lease is None
    assert probe.error == ""
    assert mgr.inside.runs["c1.0"].over


def test_a_waiting_run_that_raises_has_touched_nothing():
    mgr = a_mgr()
    start(mgr)
    broken_by(mgr, "c1.0", lambda machine: True)
    mgr.settle()
    run = mgr.inside.runs["c1.0"].state
    assert (run.status, run.restored) == (RunStatus.ABORTED, True)
    assert mgr.inside.runs["c1.1"].state.status is RunStatus.DONE


@pytest.mark.slow
def test_a_rollout_that_raises_stops_and_says_what_is_not_proven():
    mgr = measured()
    plan_id = said(mgr, "plan")["plan_id"]
    ok(mgr.command("apply", plan_id=plan_id))
    for _ in range(3):
        mgr.step()
    mgr.inside.rollouts[plan_id]._serial = None  # what no code of ours makes
    for _ in range(20):
        mgr.step(2.0)
    plan = said(mgr, "plan show", plan_id=plan_id)
    assert plan["status"] == "stopped"
    assert "internal error" in plan["reason"]
    assert {"WCACHE_INTERNAL_ERROR", "WCACHE_RESTORE_FAILED"} <= codes(mgr)
