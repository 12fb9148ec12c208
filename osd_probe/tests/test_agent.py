"""The loop with the mgr: tasks, leases, freezes, silence, refusals."""

from __future__ import annotations

import contextlib
import json

import pytest
from sim_drives import (
    BACK,
    IGNORES,
    NVME,
    OBEYS,
    OFF,
    REFUSES,
    THROUGH,
    Crash,
    Probe,
    crash_after,
)
from wcache.core.errors import ConflictError, MalformedError, NotReadyError, VersionError
from wcache.core.model import KernelView, LoadPoint, Role
from wcache.core.protocol import (
    ApplyRequest,
    CountersRequest,
    FailureOutcome,
    Lease,
    MeasureRequest,
    ReleaseRequest,
    ReportOutcome,
    ReportRequest,
    RollbackRequest,
    SamplesOutcome,
    SetModeRequest,
    StateOutcome,
    TimerRequest,
)
from wcache.core.safety import Safety, judge


@pytest.fixture
def probe() -> Probe:
    return Probe()


def lease(domain_id: str = OBEYS, lease_id: str = "L1", ttl_s: float = 30.0) -> Lease:
    return Lease(lease_id, domain_id, ttl_s)


def hold(probe: Probe, domain_id: str = OBEYS) -> None:
    """Leave the domain in write through under a live lease, as between two polls."""
    probe.mgr.lease = lease(domain_id)
    probe.mgr.ask("hold", SetModeRequest(domain_id, THROUGH))
    stop = StopNever(probe)
    probe.agent(stop).run_turn()
    assert probe.mode(domain_id) is THROUGH
    assert isinstance(probe.mgr.outcome("hold"), StateOutcome)


class StopNever:
    def __init__(self, probe: Probe) -> None:
        self.probe = probe

    def is_set(self) -> bool:
        return False

    def wait(self, seconds: float) -> None:
        self.probe.clock.now_s += seconds


def test_a_report_carries_every_drive_and_both_sides_of_its_cache(probe):
    probe.mgr.ask("t1", ReportRequest())
    probe.run()
    outcome = probe.mgr.outcome("t1")
    assert isinstance(outcome, ReportOutcome)
    assert [drive.wwn for drive in outcome.report.drives] == [OBEYS, IGNORES, REFUSES, NVME, OFF]
    assert outcome.report.simulated
    off = outcome.report.drives[-1].state
    assert off.device_cache.value == off.kernel_view.value == "write through"


def test_a_whole_period_of_an_experiment(probe):
    probe.mgr.lease = lease()
    probe.mgr.ask("set", SetModeRequest(OBEYS, THROUGH))
    probe.mgr.ask("measure", MeasureRequest(OBEYS, 0, LoadPoint.OSD_BENCH_DEPTH1, 20))
    probe.mgr.ask("timer", TimerRequest(OBEYS, 0, Role.BLOCK, 10, 5.0, 1000.0))
    probe.mgr.ask("close", CountersRequest(OBEYS))
    probe.mgr.ask("release", ReleaseRequest(OBEYS))
    probe.run()
    done = probe.mgr.outcome("set")
    assert done.changed
    assert done.after[0].device_cache.value == "write through"
    assert done.after[0].kernel_view is KernelView.WRITE_BACK
    assert len(probe.mgr.outcome("measure").samples_ns) == 20
    assert len(probe.mgr.outcome("timer").samples_ns) == 10
    assert probe.mgr.outcome("close").counters[0].flushes > 0
    assert probe.mgr.outcome("release").after[0].device_cache.value == "write back"
    assert probe.journal.entries == {}
    assert probe.mgr.notices() == ""


def test_a_task_that_is_sent_again_is_answered_and_not_done_again(probe):
    probe.mgr.ask("t1", MeasureRequest(OBEYS, 0, LoadPoint.OSD_BENCH_DEPTH1, 5))
    probe.mgr.lose_next_post = True
    probe.run(turns=2)
    first = probe.mgr.outcome("t1")
    probe.mgr.ask("t1", MeasureRequest(OBEYS, 0, LoadPoint.OSD_BENCH_DEPTH1, 5))
    probe.run()
    assert probe.mgr.outcome("t1") == first
    assert isinstance(first, SamplesOutcome)


def test_set_mode_without_a_lease_is_refused(probe):
    probe.mgr.ask("t1", SetModeRequest(OBEYS, THROUGH))
    probe.run()
    outcome = probe.mgr.outcome("t1")
    assert isinstance(outcome, FailureOutcome)
    assert outcome.refused
    assert probe.mode(OBEYS) is BACK


def test_a_lease_for_another_domain_gives_no_right(probe):
    probe.mgr.lease = lease(NVME)
    probe.mgr.ask("t1", SetModeRequest(OBEYS, THROUGH))
    probe.run()
    assert probe.mgr.outcome("t1").refused
    assert probe.mode(OBEYS) is BACK


@pytest.mark.parametrize("domain_id", [IGNORES, REFUSES])
def test_a_drive_that_does_not_obey_is_restored_and_reported_so(probe, domain_id):
    probe.mgr.lease = lease(domain_id)
    probe.mgr.ask("t1", SetModeRequest(domain_id, THROUGH))
    probe.run()
    outcome = probe.mgr.outcome("t1")
    assert isinstance(outcome, FailureOutcome)
    assert outcome.restored
    assert probe.journal.entries == {}


def test_turning_a_cache_on_needs_consent(probe):
    probe.mgr.lease = lease(OFF)
    probe.mgr.ask("t1", SetModeRequest(OFF, BACK))
    probe.mgr.ask("t2", SetModeRequest(OFF, BACK, consent_turn_on=True))
    probe.mgr.ask("t3", ReleaseRequest(OFF))
    probe.run()
    assert probe.mgr.outcome("t1").refused
    assert probe.mgr.outcome("t2").after[0].kernel_view is KernelView.WRITE_BACK
    assert probe.mode(OFF) is THROUGH


def test_a_journal_that_cannot_be_written_leaves_the_drive_untouched(probe):
    probe.journal.error = NotReadyError("the disk is full")
    probe.mgr.lease = lease()
    probe.mgr.ask("t1", SetModeRequest(OBEYS, THROUGH))
    probe.run()
    outcome = probe.mgr.outcome("t1")
    assert (outcome.message, outcome.restored) == ("the disk is full", True)
    (drive,) = probe.host.domain(OBEYS)
    assert drive.state.pinned is False
    assert drive.mode is BACK


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
    assert "started anew; the prior state is back" in probe.mgr.notices()


@pytest.mark.parametrize("domain_id", [OBEYS, NVME])
def test_a_crash_after_any_step_of_a_toggle_or_its_restore_is_repaired(domain_id):
    crashes = 0
    for first in range(1, 20):
        for second in range(1, 20):
            probe = Probe()
            probe.mgr.lease = lease(domain_id)
            probe.mgr.ask("t1", SetModeRequest(domain_id, THROUGH))
            for number in (first, second):
                probe.restart(crash_after(number))
                with contextlib.suppress(Crash):
                    probe.run(turns=1)
                    break
                crashes += 1
                (drive,) = probe.host.domain(domain_id)
                assert judge(drive.state) is Safety.SAFE
            probe.mgr.tasks.clear()
            probe.restart()
            probe.run(turns=1)
            assert probe.mode(domain_id) is BACK, (first, second)
            assert probe.journal.entries == {}
    assert crashes > 100


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
    assert "ran out after 30 s with no word from the mgr" in probe.mgr.notices()
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


def test_an_applied_change_outlives_leases_stops_and_crashes_until_its_rollback(probe):
    probe.mgr.ask("apply", ApplyRequest(OBEYS, "a1", BACK, THROUGH, consent_persist=True))
    probe.run()
    assert probe.mgr.outcome("apply").changed
    probe.restart()
    probe.run(turns=3)
    assert probe.mode(OBEYS) is THROUGH
    probe.mgr.ask("back", RollbackRequest(OBEYS, "a1"))
    probe.run()
    assert probe.mgr.outcome("back").changed
    (drive,) = probe.host.domain(OBEYS)
    assert (drive.mode, drive.state.page.saved) == (BACK, BACK)
    probe.mgr.ask("again", RollbackRequest(OBEYS, "a1"))
    probe.run()
    assert not probe.mgr.outcome("again").changed


def test_a_rollback_whose_answer_was_lost_in_a_crash_is_still_ours(probe):
    probe.mgr.ask("apply", ApplyRequest(OBEYS, "a1", BACK, THROUGH))
    probe.run()
    probe.restart()
    probe.mgr.ask("apply again", ApplyRequest(OBEYS, "a1", BACK, THROUGH))
    probe.run()
    assert probe.mgr.outcome("apply again").changed
    probe.mgr.ask("back", RollbackRequest(OBEYS, "a1"))
    probe.run()
    assert probe.mode(OBEYS) is BACK


def test_a_plan_made_from_another_mode_is_refused(probe):
    probe.mgr.ask("apply", ApplyRequest(OFF, "a1", BACK, BACK, consent_turn_on=True))
    probe.run()
    assert probe.mgr.outcome("apply").refused
    assert probe.mode(OFF) is THROUGH


def test_an_experiment_keeps_an_apply_out(probe):
    hold(probe)
    probe.mgr.ask("apply", ApplyRequest(OBEYS, "a1", BACK, THROUGH))
    probe.agent(StopNever(probe)).run_turn()
    assert "an experiment holds" in probe.mgr.outcome("apply").message


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


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ('{"version": 1, "next_poll_s": 0.1', "not JSON"),
        (json.dumps({"version": 2, "next_poll_s": 0.1, "news": 1}), "speaks protocol 2"),
        (json.dumps({"version": 1, "next_poll_s": 0.1, "news": 1}), "unknown field 'news'"),
        (json.dumps({"version": 1, "next_poll_s": 1e9}), "next call in 1e+09 s"),
        (json.dumps({"version": 1, "next_poll_s": 0.1, "lease": {
            "lease_id": "L", "domain_id": OBEYS, "ttl_s": 1e12}}), "lease for 1e+12 s"),
        (json.dumps({"version": 1, "next_poll_s": 0.1, "task": "x" * 70_000}), "longer than"),
        (json.dumps([1]), "must be an object"),
        ("[" * 60_000, "nested deeper"),
    ],
)
def test_a_reply_that_makes_no_sense_is_named_once_and_renews_nothing(probe, reply, said):
    hold(probe)
    probe.mgr.raw_reply = reply
    agent = probe.agent(StopNever(probe))
    for _ in range(40):
        agent.run_turn()
    lines = [line for line in probe.said if said in line]
    assert len(lines) == 1, probe.said
    assert "\n" not in lines[0]
    assert probe.mode(OBEYS) is BACK


@pytest.mark.parametrize(
    "error", [ConflictError("probe p2 speaks for sim1"), VersionError("protocol 9")]
)
def test_a_refusal_is_printed_once_and_retried_slowly(probe, error):
    probe.mgr.error = error
    stop = probe.run(turns=5)
    assert probe.said == [error.line()]
    assert all(wait_s >= 5.0 for wait_s in stop.waits_s)


def test_a_mgr_out_of_reach_is_tried_ever_more_seldom_but_always_again(probe):
    probe.mgr.error = NotReadyError("gone")
    stop = probe.run(turns=30)
    assert stop.waits_s[0] < 1.0
    assert stop.waits_s[-1] == stop.waits_s[-2] <= 20.0


def test_idle_polls_have_jitter_and_busy_ones_are_exact(probe):
    drawn = []

    def jitter(low, high):
        drawn.append((low, high))
        return high

    for next_poll_s, expected_s in ((0.05, 0.05), (30.0, 36.0)):
        probe.mgr.next_poll_s = next_poll_s
        agent = probe.agent(StopNever(probe))
        agent._jitter = jitter
        before_s = probe.clock.now_s
        agent.run_turn()
        assert probe.clock.now_s - before_s == pytest.approx(expected_s)
    assert drawn == [(0.8, 1.2)]


def test_a_sleep_never_outlasts_the_lease_that_is_held(probe):
    hold(probe)
    probe.mgr.next_poll_s = 300.0
    agent = probe.agent(StopNever(probe))
    before_s = probe.clock.now_s
    agent.run_turn()
    assert probe.clock.now_s - before_s <= 30.0
    assert probe.mode(OBEYS) is BACK


def test_an_answer_that_the_mgr_never_takes_is_replaced_by_a_failure(probe):
    probe.mgr.ask("t1", ReportRequest())
    taken = probe.mgr.post

    def picky(post_json, timeout_s):
        if '"kind":"report"' in post_json:
            raise MalformedError("report.drives[0].size_bytes must be a whole number")
        return taken(post_json, timeout_s)

    probe.mgr.post = picky
    probe.run(turns=10)
    assert "size_bytes" in probe.mgr.outcome("t1").message


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


def test_a_bug_in_a_drive_is_an_answer_and_not_the_end_of_the_probe(probe):
    def explode(drive):
        raise KeyError("what\nnow")

    probe.host.counters = explode
    probe.mgr.ask("t1", CountersRequest(OBEYS))
    probe.mgr.ask("t2", ReportRequest())
    probe.run()
    assert "KeyError" in probe.mgr.outcome("t1").message
    assert isinstance(probe.mgr.outcome("t2"), ReportOutcome)
