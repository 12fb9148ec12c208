"""The loop with the mgr: tasks and their answers, odd replies, refusals, waits."""

from __future__ import annotations

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
    StopNever,
    hold,
    lease,
)
from wcache.core.errors import ConflictError, MalformedError, NotReadyError, VersionError
from wcache.core.model import KernelView, LoadPoint, Role
from wcache.core.protocol import (
    PROTOCOL_VERSION,
    CountersRequest,
    FailureOutcome,
    MeasureRequest,
    MemoryOutcome,
    MemoryRequest,
    ReleaseRequest,
    ReportOutcome,
    ReportRequest,
    SamplesOutcome,
    SetModeRequest,
    TimerRequest,
)


def test_a_report_carries_every_drive_and_both_sides_of_its_cache(probe):
    outcome = probe.ask(ReportRequest())
    assert isinstance(outcome, ReportOutcome)
    assert [drive.wwn for drive in outcome.report.drives] == [OBEYS, IGNORES, REFUSES, NVME, OFF]
    assert outcome.report.simulated
    off = outcome.report.drives[-1].state
    assert off.device_cache.value == off.kernel_view.value == "write through"


def test_an_entry_of_the_journal_that_goes_while_the_host_is_looked_at_is_not_told(probe):
    hold(probe)
    assert [note.key for note in probe.ask(ReportRequest()).report.journal] == [f"lease/{OBEYS}"]
    look = probe.host.look

    def restored_meanwhile():
        drives = look()
        probe.journal.entries.clear()
        return drives

    probe.host.look = restored_meanwhile
    assert probe.ask(ReportRequest()).report.journal == ()


def test_what_a_host_has_of_memory_is_told_without_a_look_at_its_drives(probe):
    probe.mgr.ask("t1", MemoryRequest())
    drives, probe.host.look = probe.host.look, None
    probe.run()
    probe.host.look = drives
    assert probe.mgr.outcome("t1") == MemoryOutcome(None)  # a simulated host has none


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


P = PROTOCOL_VERSION


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ('{"version": 3, "next_poll_s": 0.1', "not JSON"),
        (json.dumps({"version": P + 1, "next_poll_s": 0.1, "news": 1}),
         f"speaks protocol {P + 1}"),
        (json.dumps({"version": P, "next_poll_s": 0.1, "news": 1}), "unknown field 'news'"),
        (json.dumps({"version": P, "next_poll_s": 1e9}), "next call in 1e+09 s"),
        (json.dumps({"version": P, "next_poll_s": 0.1, "lease": {
            "lease_id": "L", "domain_id": OBEYS, "ttl_s": 1e12}}), "lease for 1e+12 s"),
        (json.dumps({"version": P, "next_poll_s": 0.1, "task": "x" * 70_000}), "longer than"),
        (json.dumps([1]), "must be an object"),
        ("[" * 60_000, "nested deeper"),
    ],
    ids=lambda value: value[:20],
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
        agent.jitter = jitter
        before_s = probe.clock.now_s
        agent.run_turn()
        assert probe.clock.now_s - before_s == pytest.approx(expected_s)
    assert drawn == [(0.8, 1.2)]


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


def test_a_bug_in_a_drive_is_an_answer_and_not_the_end_of_the_probe(probe):
    def explode(drive):
        raise KeyError("what\nnow")

    probe.host.counters = explode
    probe.mgr.ask("t1", CountersRequest(OBEYS))
    probe.mgr.ask("t2", ReportRequest())
    probe.run()
    assert "KeyError" in probe.mgr.outcome("t1").message
    assert isinstance(probe.mgr.outcome("t2"), ReportOutcome)


def test_a_probe_that_hears_nothing_for_minutes_restores_and_ends_to_be_started_anew(probe):
    hold(probe)
    probe.mgr.error = NotReadyError("the mgr does not answer")
    agent = probe.agent(StopNever(probe))
    began_s = probe.clock.now_s
    agent.run()
    assert agent.lost
    assert 600.0 <= probe.clock.now_s - began_s < 700.0
    assert probe.mode(OBEYS) is BACK


def test_a_mgr_that_refuses_is_no_silence(probe):
    probe.mgr.error = ConflictError("another probe speaks for this host")
    agent = probe.agent(StopNever(probe))
    for _ in range(100):
        agent.run_turn()
    assert not agent.lost
