"""`write back` is recommended only where something shows that flushes reach the medium."""

import random
from dataclasses import replace

import pytest
from bench_decision import synthetic
from wcache.analysis.decision import Materiality
from wcache.analysis.experiment import analyse, analysed
from wcache.ceph.health import health_checks
from wcache.commands.findings import results
from wcache.core.drive.proofs import AcceptedProof, digest
from wcache.core.fleet.findings import of_power_cuts
from wcache.core.hardware import FlushCounters
from wcache.core.host_report import DriveKind, HostReport, PowerCut
from wcache.core.model import (
    Arm,
    CacheMode,
    DeviceCache,
    DriveState,
    FindingCode,
    KernelView,
    LoadPoint,
    Role,
    Severity,
    Verdict,
)
from wcache.core.options.entries import OptionTrial
from wcache.core.verdict.recommend import recommend
from wcache.engine.world import World

BATCH, DEPTH1, TRAFFIC = (
    LoadPoint.OSD_BENCH_BATCH, LoadPoint.OSD_BENCH_DEPTH1, LoadPoint.OSD_TRAFFIC,
)


def measured(load, *, counted=False, ratio=0.1, level_us=None, also=lambda record: record):
    """The result of a real drive at a load, on a kernel that counts flushes or does not."""
    draw = synthetic.lognormal(
        random.Random(4), ratio=ratio, sample_sd=0.05, period_sd=0.01
    )
    setup = replace(
        synthetic.SETUP, load_point=load, simulated=False, throwaway=False, rotational=False
    )
    record = synthetic.record(draw, 10, setup=setup)
    if level_us is not None:
        record = at_level(record, level_us)
    if counted:
        record = with_counters(record)
    record = replace(also(record), record_id=f"r-{load.value}")
    return analysed(record, analyse(record, Materiality())).result


def at_level(record, level_us):
    """The same record, with write back around a level and the same ratio."""
    level = record.pairs[0].a.samples_ns[0]

    def scaled(period):
        each = tuple(round(ns * level_us * 1e3 / level) for ns in period.samples_ns)
        return replace(period, samples_ns=each)

    return synthetic.altered(record, scaled, scaled)


def with_counters(record):
    counters = (FlushCounters(0, 0, 0, 0), FlushCounters(1, 0, 100, 800))
    return synthetic.altered(record, lambda period: replace(period, flush_counters=counters))


def fast_counters(record):
    """The same record, whose flushes took 50 us each in both modes."""
    counters = (FlushCounters(0, 0, 0, 0), FlushCounters(1, 1000, 1000, 50))
    return synthetic.altered(record, lambda period: replace(period, flush_counters=counters))


def still(record, *, writes=100, flushes=0, flush_ms=0, view=KernelView.WRITE_BACK, paths=1):
    """The same record, whose disk counted so many writes and flushes in each period."""
    state = DriveState(DeviceCache.WRITE_BACK, view)
    counters = (FlushCounters(0, 5, 5, 5), FlushCounters(1, 5 + writes, 5 + flushes, 5 + flush_ms))

    def one(period):
        through = period.arm is Arm.B
        own = replace(state, device_cache=DeviceCache.WRITE_THROUGH) if through else state
        return replace(
            period, state_before=(own,), state_after=(own,),
            flush_counters=tuple(replace(item, paths=paths) for item in counters),
        )

    return synthetic.altered(record, one, one)


def codes(result):
    return [finding.code.value for finding in result.findings]


def test_without_counters_a_batch_alone_never_leads_to_write_back_and_it_is_said():
    result = measured(BATCH, counted=False)
    assert codes(result) == ["WCACHE_FLUSH_NOT_COUNTED"]
    (advice,) = recommend([result])
    assert (advice.verdict, advice.mode) == (Verdict.INSUFFICIENT, None)
    assert "the kernel counted none (from Linux 5.5 on it does)" in advice.why


def test_where_the_kernel_counts_the_same_batch_leads_to_write_back():
    result = measured(BATCH, counted=True)
    assert codes(result) == []
    assert recommend([result])[0].verdict is Verdict.A


def test_one_commit_at_a_time_shows_it_for_the_other_loads_of_the_drive_model():
    batch = measured(BATCH, counted=False)
    single = measured(DEPTH1, counted=False)
    assert codes(single) == []
    assert recommend([batch, single])[0].verdict is Verdict.A


def test_one_commit_at_a_time_that_is_too_fast_shows_nothing():
    fast = measured(DEPTH1, counted=False, ratio=5.0, level_us=50.0)
    assert codes(fast) == ["WCACHE_FLUSH_TOO_FAST"]


@pytest.mark.parametrize(("ratio", "pairs", "verdict"), [
    (1.0, 10, Verdict.NO_DIFFERENCE), (5.0, 10, Verdict.B),
    (0.1, 3, Verdict.INSUFFICIENT),
])
def test_a_flush_too_fast_at_one_load_keeps_write_back_from_all_and_that_loads_verdict_stands(
    ratio, pairs, verdict
):
    fast = measured(DEPTH1, ratio=ratio, level_us=50.0,
                    also=lambda record: replace(record, pairs=record.pairs[:pairs]))
    assert codes(fast) == ["WCACHE_FLUSH_TOO_FAST"]
    assert fast.doubts == ()
    assert recommend([fast])[0].verdict is fast.verdict is verdict
    traffic = measured(TRAFFIC, counted=True)
    assert recommend([traffic])[0].verdict is Verdict.A
    (advice,) = recommend([traffic, fast])
    assert advice.mode is not CacheMode.WRITE_BACK
    assert "more): the drive may be" not in advice.why  # one drive, counted once
    # flash that is not recommended write back anyway is nothing to be called out for
    assert fast.findings[0].severity is Severity.INFO
    disk = measured(DEPTH1, ratio=ratio, level_us=50.0, also=lambda record: replace(
        record, setup=replace(record.setup, rotational=True)))
    assert disk.findings[0].severity is Severity.WARNING


@pytest.mark.parametrize("setup", [
    {"load_point": LoadPoint.FDATASYNC_TIMER}, {"apart": (Role.DB,)},
    {"option": OptionTrial("nr_requests", "64", "256")},
])
def test_a_flush_that_may_have_had_nothing_to_write_is_no_doubt(setup):
    result = measured(DEPTH1, ratio=1.0, also=lambda record: fast_counters(
        replace(record, setup=replace(record.setup, **setup))))
    assert codes(result) == []
    assert codes(measured(DEPTH1, ratio=1.0, also=fast_counters)) == ["WCACHE_FLUSH_TOO_FAST"]


@pytest.mark.parametrize("change", [
    {"writes": 0}, {"paths": 0}, {"view": KernelView.WRITE_THROUGH}, {"flushes": 1},
])
def test_counters_that_stand_still_are_no_counters(change):
    """300 writes and no flush: the head of a multipath device, on a kernel that counts."""
    result = measured(BATCH, also=lambda record: still(record, **change))
    assert codes(result) == ["WCACHE_FLUSH_NOT_COUNTED"]
    (advice,) = recommend([result])
    assert (advice.verdict, advice.mode) == (Verdict.INSUFFICIENT, None)


@pytest.mark.parametrize("load", [BATCH, DEPTH1])
@pytest.mark.parametrize("ratio", [0.1, 4.0])
def test_commits_and_writes_without_a_flush_are_the_worst_finding(load, ratio):
    result = measured(load, ratio=ratio, also=still)
    (finding,) = result.findings
    assert (finding.code, finding.severity) == (FindingCode.FLUSH_MISSING, Severity.ERROR)
    assert "and no flush reached the drive" in finding.detail
    (advice,) = recommend([result])
    assert advice.mode is not CacheMode.WRITE_BACK
    fine = measured(TRAFFIC, counted=True)  # of the same drive model
    assert recommend([result, fine])[0].mode is not CacheMode.WRITE_BACK
    checks = health_checks(results(World(0.0, dict, all_results={result.record_id: result})))
    assert checks["WCACHE_FLUSH_MISSING"]["severity"] == "error"


def flushed(record):
    return still(record, flushes=100, flush_ms=800)


def told_of(found):
    return [item.code for item in results(World(0.0, dict, all_results={
        item.record_id: item for item in found}))]


@pytest.mark.parametrize("load", [BATCH, DEPTH1])
def test_no_older_verdict_and_nothing_but_counted_flushes_answers_a_flush_that_was_not_sent(load):
    def at(name, ended_at_s, also, **changes):
        return replace(
            measured(load, also=also), record_id=name, ended_at_s=ended_at_s, **changes)

    good, unsent = at("r1", 1.0, flushed), at("r2", 2.0, still)
    assert recommend([good])[0].mode is CacheMode.WRITE_BACK
    for later in (
        (), (at("r3", 3.0, still, pairs=0, findings=()),),
        (at("r3", 3.0, lambda record: still(record, view=KernelView.WRITE_THROUGH)),),
        (at("r3", 3.0, flushed, load_point=TRAFFIC),),
        (at("r3", 3.0, flushed, drive_id="d2"),),
    ):
        found = [good, unsent, *later]
        (advice,) = recommend(found)
        assert (advice.verdict, advice.mode) == (Verdict.INSUFFICIENT, None)
        assert f"h1 d0 at {load.short} (WCACHE_FLUSH_MISSING)" in advice.why
        assert FindingCode.FLUSH_MISSING in told_of(found)
    found = [good, unsent, at("r3", 3.0, flushed)]
    assert recommend(found)[0].mode is CacheMode.WRITE_BACK
    assert FindingCode.FLUSH_MISSING not in told_of(found)


@pytest.mark.parametrize("also", [still, lambda record: still(record, flushes=100), flushed])
def test_what_a_forced_run_has_seen_of_flushes_counts_and_its_latency_does_not(also):
    good = measured(TRAFFIC, also=flushed)
    forced = replace(
        measured(BATCH, also=also), forced=True, hostname="h2", drive_id="d2", ended_at_s=-1.0)
    (advice,) = recommend([good, forced])
    assert (advice.mode is None) is bool(codes(forced))
    assert advice.record_ids == (good.record_id,)


@pytest.mark.parametrize(("role", "apart", "found"), [
    (Role.BLOCK, (), True), (Role.BLOCK, (Role.DB,), False), (Role.DB, (Role.DB,), True),
    (Role.DB, (Role.DB, Role.WAL), False), (Role.WAL, (Role.DB, Role.WAL), True),
])
def test_only_the_drive_that_takes_the_commits_flush_must_see_one(role, apart, found):
    def alone(record):
        return still(replace(record, setup=replace(record.setup, role=role, apart=apart)))

    assert ("WCACHE_FLUSH_MISSING" in codes(measured(BATCH, also=alone))) is found


def test_a_period_with_fewer_writes_than_commits_was_not_written_to_that_drive():
    result = measured(BATCH, also=lambda record: still(record, writes=1))
    assert codes(result) == ["WCACHE_FLUSH_NOT_COUNTED"]


@pytest.mark.parametrize("load", [BATCH, TRAFFIC])
def test_write_through_needs_no_counters(load):
    result = measured(load, counted=False, ratio=4.0)
    assert recommend([result])[0].verdict is Verdict.B


# ---- power cuts that somebody has witnessed


def cut(lost=0, *, booted=True, mode=CacheMode.WRITE_BACK):
    return PowerCut(
        "ab" * 16, "naa.9", synthetic.SETUP.drive_model, mode, 900, 900, lost, 1.0, booted
    )


def told(*cuts, by=("h8", "h9")):
    """What hosts say, the last of them about all, the others about the first."""
    *others, last = by
    first = [HostReport(name, "1", power_cuts=cuts[:1]) for name in others]
    return [*first, HostReport(last, "1", power_cuts=cuts)]


def test_a_drive_model_that_lost_acknowledged_writes_never_gets_write_back():
    result = measured(BATCH, counted=True)
    (advice,) = recommend([result], reports=told(cut(), cut(lost=2)))
    assert (advice.verdict, advice.mode) == (Verdict.INSUFFICIENT, None)
    assert "naa.9 lost 2 acknowledged writes in a power cut (WCACHE_FLUSH_LOST)" in advice.why
    assert [f.code.value for f in of_power_cuts(told(cut(), cut(lost=2))[-1])] == [
        "WCACHE_FLUSH_LOST"
    ]


def test_a_power_cut_that_lost_nothing_counts_where_the_kernel_does_not():
    result = measured(BATCH, counted=False)
    assert recommend([result], reports=told(cut()))[0].verdict is Verdict.A
    for nothing_shown in (cut(booted=False), cut(mode=CacheMode.WRITE_THROUGH)):
        assert recommend([result], reports=told(nothing_shown))[0].mode is None


def test_a_forged_power_cut_of_one_host_lifts_no_doubt_for_others():
    result = measured(BATCH, counted=False)
    (advice,) = recommend([result], reports=told(cut(), by=["h9"]))
    assert advice.mode is None
    assert "only h9 says that a power cut lost nothing" in advice.why
    model = str(cut().drive_model)
    proof = AcceptedProof("h9", model, "I pulled the plug", (digest(cut()),))
    assert recommend([result], reports=told(cut(), by=["h9"]), accepted=[proof])[0].mode is not None
    again = replace(cut(), checked_at_s=2.0)
    assert recommend([result], reports=told(again, by=["h9"]), accepted=[proof])[0].mode is None


def test_a_drive_model_that_only_the_witnesss_host_has_needs_no_other_word():
    result = measured(BATCH, counted=False)
    reports = told(cut(), by=[result.hostname])
    assert recommend([result], reports=reports)[0].verdict is Verdict.A
    name = str(result.drive_model)
    at_home = {DriveKind(result.device_class, name, False): frozenset({result.hostname, "h2"})}
    (advice,) = recommend([result], reports=reports, at_home=at_home)
    assert advice.mode is None


def test_a_loss_that_one_host_has_seen_withholds_write_back_everywhere():
    result = measured(BATCH, counted=True)
    (advice,) = recommend([result], reports=told(cut(lost=2), by=["h9"]))
    assert advice.mode is None
    assert "h9: naa.9 lost 2" in advice.why
