"""What is toggled under a lease comes back, however the lease ends."""

from __future__ import annotations

import contextlib

import pytest
from sim_drives import (
    BACK,
    NVME,
    OBEYS,
    OFF,
    THROUGH,
    Crash,
    Probe,
    StopNever,
    crash_after,
    hold,
    lease,
)
from wcache.core.drive.safety import Safety, judge
from wcache.core.errors import ConflictError, NotReadyError
from wcache.core.model import Role
from wcache.core.protocol import (
    ApplyRequest,
    FailureOutcome,
    Lease,
    ReleaseRequest,
    ReportOutcome,
    ReportRequest,
    RollbackRequest,
    SetModeRequest,
    TimerRequest,
)


@pytest.mark.parametrize("other", [None, lease(NVME)], ids=["none", "for another domain"])
def test_set_mode_without_a_lease_is_refused(probe, other):
    probe.mgr.lease = other
    probe.mgr.ask("t1", SetModeRequest(OBEYS, THROUGH))
    probe.run()
    outcome = probe.mgr.outcome("t1")
    assert isinstance(outcome, FailureOutcome)
    assert outcome.refused
    assert probe.mode(OBEYS) is BACK


def test_a_stop_restores_and_says_goodbye_without_the_lease(probe):
    hold(probe)
    probe.run(turns=0)
    assert probe.mode(OBEYS) is BACK
    assert "the probe was stopped" in probe.mgr.notices()
    assert probe.mgr.posts[-1].lease_id == ""


def test_a_crash_is_repaired_at_the_next_start_before_the_mgr_is_called(probe):
    hold(probe)
    probe.mgr.during = lambda: modes.append(probe.mode(OBEYS))
    modes = []
    probe.restart()
    probe.run()
    assert modes[0] is BACK
    assert "restarted; the prior state is back" in probe.mgr.notices()


@pytest.mark.slow
@pytest.mark.parametrize("domain_id", [OBEYS, NVME])
def test_a_crash_after_any_step_of_a_toggle_or_its_restore_is_repaired(domain_id):
    crashes = 0
    for first in range(1, 20):
        for second in range(1, 20):
            probe = Probe()
            probe.mgr.lease = lease(domain_id)
            probe.mgr.ask("t1", SetModeRequest(domain_id, THROUGH))
            crashed = 0
            for number in (first, second):
                probe.restart(crash_after(number))
                with contextlib.suppress(Crash):
                    probe.run(turns=1)
                    break
                crashed += 1
                (drive,) = probe.host.domain(domain_id)
                assert judge(drive.state) is Safety.SAFE
            crashes += crashed
            probe.mgr.tasks.clear()
            probe.restart()
            probe.run(turns=1)
            assert probe.mode(domain_id) is BACK, (first, second)
            assert probe.journal.entries == {}
            if crashed < 2:
                break  # it ended before that step, as it does before all later ones
        if not crashed:
            break
    assert crashes > 70


@pytest.mark.parametrize("silence", [NotReadyError("gone"), ConflictError("a rival")])
def test_a_lease_that_runs_out_in_silence_restores_and_is_told(probe, silence):
    hold(probe)
    probe.mgr.error = silence
    stop = StopNever(probe)
    agent = probe.agent(stop)
    until_s = probe.clock.now_s + 30.0
    while probe.clock.now_s < until_s - 1.5:
        agent.run_turn()
        assert probe.mode(OBEYS) is THROUGH
    while probe.clock.now_s < until_s:
        agent.run_turn()
    assert probe.mode(OBEYS) is BACK
    probe.mgr.error = None
    probe.mgr.lease = None
    agent.run_turn()
    assert "ran out after 30 s without an answer from the mgr" in probe.mgr.notices()
    assert probe.mgr.posts[-1].lease_id == ""


def test_no_call_lasts_longer_than_the_lease_that_is_held(probe):
    hold(probe)
    agent = probe.agent(StopNever(probe))
    probe.clock.now_s += 27.0
    probe.mgr.error = NotReadyError("gone")
    agent.run_turn()
    assert probe.mgr.timeouts_s[-1] <= 3.0


def test_a_lease_counts_from_the_sending_of_the_call(probe):
    probe.mgr.lease = lease(ttl_s=30.0)
    probe.mgr.ask("t1", SetModeRequest(OBEYS, THROUGH))

    def slow_call():
        probe.clock.now_s += 31.0

    probe.mgr.during = slow_call
    probe.agent(StopNever(probe)).run_turn()
    assert probe.mode(OBEYS) is BACK
    assert probe.mgr.outcome("t1").refused


def test_a_reply_without_the_lease_restores_at_once(probe):
    hold(probe)
    probe.mgr.lease = None
    probe.agent(StopNever(probe)).run_turn()
    assert probe.mode(OBEYS) is BACK


def test_a_reply_with_another_lease_restores_before_its_task_is_done(probe):
    hold(probe)
    probe.mgr.lease = lease(NVME, "L2")
    probe.mgr.ask("t2", SetModeRequest(NVME, THROUGH))
    probe.agent(StopNever(probe)).run_turn()
    assert probe.mode(OBEYS) is BACK
    assert probe.mode(NVME) is THROUGH


@pytest.mark.parametrize("ending", ["no lease", "silence", "freeze", "killed", "stopped"])
def test_a_lease_on_two_domains_holds_both_and_its_end_restores_both(probe, ending):
    both = Lease("L1", OBEYS, 30.0, NVME)
    probe.mgr.lease = both
    agent = probe.agent(StopNever(probe))
    for number, domain_id in enumerate((OBEYS, NVME, OBEYS)):
        probe.mgr.ask(f"t{number}", SetModeRequest(domain_id, THROUGH))
        agent.run_turn()
    assert (probe.mode(OBEYS), probe.mode(NVME)) == (THROUGH, THROUGH)
    probe.mgr.ask("third", SetModeRequest(OFF, BACK, consent_turn_on=True))
    agent.run_turn()
    assert probe.mgr.outcome("third").refused
    if ending == "no lease":
        probe.mgr.lease = None
        agent.run_turn()
    elif ending == "silence":
        probe.mgr.error = NotReadyError("gone")
        for _ in range(40):
            agent.run_turn()
    elif ending == "freeze":
        probe.mgr.frozen = True
        agent.run_turn()
    elif ending == "killed":
        probe.mgr.tasks.clear()
        probe.restart()
        probe.run(turns=1)
    else:
        probe.run(turns=0)
    assert (probe.mode(OBEYS), probe.mode(NVME)) == (BACK, BACK)
    assert probe.journal.entries == {}


def test_one_of_two_domains_can_be_released_while_the_other_is_held(probe):
    probe.mgr.lease = Lease("L1", OBEYS, 30.0, NVME)
    agent = probe.agent(StopNever(probe))
    for number, request in enumerate((
        SetModeRequest(OBEYS, THROUGH), SetModeRequest(NVME, THROUGH), ReleaseRequest(OBEYS),
    )):
        probe.mgr.ask(f"t{number}", request)
        agent.run_turn()
    assert (probe.mode(OBEYS), probe.mode(NVME)) == (BACK, THROUGH)


def test_a_freeze_restores_and_refuses_changes_but_not_looks_or_rollbacks(probe):
    probe.mgr.throwaway = True
    probe.mgr.ask("apply", ApplyRequest(NVME, "a1", BACK, THROUGH))
    probe.run()
    hold(probe)
    probe.mgr.frozen = True
    probe.mgr.ask("set", SetModeRequest(OBEYS, THROUGH))
    probe.mgr.ask("apply2", ApplyRequest(OBEYS, "a2", BACK, THROUGH))
    probe.mgr.ask("look", ReportRequest())
    probe.mgr.ask("back", RollbackRequest(NVME, "a1"))
    probe.agent(StopNever(probe)).run_turn()
    assert probe.mode(OBEYS) is BACK
    assert "frozen" in probe.mgr.outcome("set").message
    assert "frozen" in probe.mgr.outcome("apply2").message
    assert isinstance(probe.mgr.outcome("look"), ReportOutcome)
    assert probe.mode(NVME) is BACK


def test_a_damaged_journal_entry_is_named_left_and_stops_changes_of_its_drive(probe):
    hold(probe)
    key = f"lease/{OBEYS}"
    probe.journal.entries[key] = probe.journal.entries[key][:-20]
    kept = probe.journal.entries[key]
    probe.restart()
    probe.mgr.ask("look", ReportRequest())
    probe.mgr.ask("set", SetModeRequest(OBEYS, BACK))
    probe.mgr.lease = lease(lease_id="L2")
    probe.run()
    findings = probe.mgr.outcome("look").report.findings
    assert [f.subject for f in findings] == [key]
    assert "damaged" in probe.mgr.outcome("set").message
    assert probe.mgr.outcome("set").restored is False
    assert probe.journal.entries[key] == kept
    assert probe.mode(OBEYS) is THROUGH


def test_a_drive_that_went_away_is_tried_again_and_told_when_it_is_back(probe):
    hold(probe)
    gone = probe.host._drives.pop(OBEYS)
    probe.mgr.lease = None
    agent = probe.agent(StopNever(probe))
    agent.run_turn()
    agent.run_turn()
    assert "is not on this host" in probe.mgr.notices()
    probe.host._drives[OBEYS] = gone
    probe.clock.now_s += 120.0
    agent.run_turn()
    agent.run_turn()
    assert probe.mode(OBEYS) is BACK
    assert probe.mgr.posts[-1].notices[-1].restored is True


def test_a_sleep_never_outlasts_the_lease_that_is_held(probe):
    hold(probe)
    probe.mgr.next_poll_s = 300.0
    agent = probe.agent(StopNever(probe))
    before_s = probe.clock.now_s
    agent.run_turn()
    assert probe.clock.now_s - before_s <= 30.0
    assert probe.mode(OBEYS) is BACK


def test_a_timer_ends_before_the_lease_does(probe):
    hold(probe)
    probe.clock.now_s += 20.0
    asked = []
    real = probe.host.time_flushes

    def time_flushes(drive, osd_id, role, count, seconds_max, limit_ms, spread_s):
        asked.append(seconds_max)
        return real(drive, osd_id, role, count, seconds_max, limit_ms, spread_s)

    probe.host.time_flushes = time_flushes
    probe.mgr.lease = lease(ttl_s=4.0)
    probe.mgr.ask("t", TimerRequest(OBEYS, 0, Role.BLOCK, 10, 10.0, 1000.0))
    probe.agent(StopNever(probe)).run_turn()
    assert asked == [2.0]
