"""The price of the pin and the wear are said beside each `write through`, with measured figures."""

import random
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from bench_decision import synthetic
from bench_decision.loop import experiment
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from module_world import WB, WT, ok, report_anew, said
from wcache.analysis.decision import Materiality
from wcache.analysis.experiment import analyse, analysed
from wcache.analysis.flushes import commit_us
from wcache.core.hardware import FlushCounters, Wear
from wcache.core.model import (
    CachePage,
    DriveModel,
    KernelView,
    LoadPoint,
    Role,
    Transport,
    Verdict,
)
from wcache.core.options.entries import OptionTrial
from wcache.core.record import CounterDelta
from wcache.core.verdict.explaining import noop_flushes, of_write_through
from wcache.core.verdict.result import Result
from wcache_sim.drive_schema import load_drive_file

MODELS = Path(__file__).resolve().parents[4] / "qa" / "drive_models"


def drive(saved=None, **changes):
    state = replace(make.state(WT), page=CachePage(True, WB, saved))
    return make.drive("sda", 0, state=state, **changes)


def lines(one, prices=(300.0,)):
    return "\n".join(of_write_through(one, prices))


def test_the_price_is_the_measured_one_or_said_to_be_unknown():
    said = lines(drive(), (100.0, 300.0, 900.0))
    assert "each of these no-op flushes costs 0.3 ms (measured)" in said
    assert "not counted" in lines(drive(), ())
    assert "not counted" in lines(drive(), (float("nan"), -1.0))


def test_the_way_out_is_printed_only_where_the_saved_page_makes_it_safe():
    safe = lines(drive(WT))
    order = [safe.index(word) for word in (
        "wcache-probe accept domain-sda --yes", "wcache-probe unprepare --drive=sda", "no-pin",
        "rescan", "wcache-probe prepare --drive=sda", "temporary write back",
    )]
    assert order == sorted(order)
    # it is not gone by one of them alone, and not until the next boot only
    assert "at each boot, and the probe at each start" in safe
    assert "until the next boot" not in safe
    unsafe = [
        drive(), drive(WB), drive(WT, transport=Transport.SATA),
        drive(WT, transport=Transport.NVME), drive(WT, transport=Transport.SAS_RAID),
    ]
    by_rule = drive(WT)
    state = replace(by_rule.state, page=CachePage(True, WB, WT, by_rule=True))
    for one in [*unsafe, replace(by_rule, state=state)]:
        assert "no-pin" not in lines(one)
    assert "plan --persist" in lines(drive(WB))


@pytest.mark.parametrize(("rotational", "told"), [(False, True), (True, False), (None, False)])
def test_endurance_is_said_of_flash_alone(rotational, told):
    assert ("endurance" in lines(drive(rotational=rotational))) is told


def words_written(text):
    """What the lines write into `cache_type`."""
    return [shlex.split(line)[shlex.split(line).index("echo") + 1]
            for line in text.splitlines() if "cache_type" in line]


def test_the_word_that_ends_the_override_does_not_set_it():
    """cache_type_store() (drivers/scsi/sd.c) looks at the prefix before it reads the word."""
    ends, undoes = words_written(lines(drive(WT)))
    assert not ends.startswith("temporary ")
    assert ends not in ("write back", "write through", "none", "write back, no read (daft)")
    assert undoes == "temporary write back"


def counted(view, each_us=300, **setup):
    draw = synthetic.lognormal(random.Random(4), ratio=4, sample_sd=0.05, period_sd=0.01)
    record = synthetic.record(draw, 10)
    counters = (FlushCounters(0, 0, 0, 0), FlushCounters(1, 0, 1000, each_us))
    state = make.state(WT, kernel_view=view)
    record = synthetic.altered(record, lambda period: period, lambda period: replace(
        period, flush_counters=counters, state_after=(state,)
    ))
    return analyse(replace(record, setup=replace(record.setup, **setup)), Materiality())


def test_the_analysis_takes_the_price_from_the_kernels_counters():
    assert counted(KernelView.WRITE_BACK)["pin_price_us"] == pytest.approx(300)
    assert counted(KernelView.WRITE_THROUGH)["pin_price_us"] is None


def test_values_of_an_option_tell_nothing_of_write_through():
    found = counted(KernelView.WRITE_BACK, option=OptionTrial("nr_requests", "64", "256"))
    assert (found["pin_price_us"], found["write_through_commit_us"]) == (None, None)


@pytest.mark.parametrize(
    ("setup", "timed"),
    [({}, True), ({"load_point": LoadPoint.OSD_BENCH_BATCH}, False),
     ({"load_point": LoadPoint.FDATASYNC_TIMER}, False), ({"apart": (Role.DB,)}, False)],
)
def test_a_commit_is_timed_where_it_waits_for_a_flush_of_this_drive(setup, timed):
    found = counted(KernelView.WRITE_BACK, **setup)["write_through_commit_us"]
    assert found == (pytest.approx(10_000, rel=0.05) if timed else None)


def test_of_traffic_a_sync_of_the_kv_store_is_the_commit():
    draw = synthetic.lognormal(random.Random(4), ratio=4)
    record = synthetic.record(draw, 1)
    counters = (CounterDelta("osd.0.txc_commit_lat", 9.0, 100),
                CounterDelta("bluestore.kv_sync_lat", 0.2, 20))
    through = replace(record.pairs[0].b, counters=counters)
    pairs = (replace(record.pairs[0], b=through),)
    setup = replace(record.setup, load_point=LoadPoint.OSD_TRAFFIC)
    assert commit_us(replace(record, setup=setup), pairs) == pytest.approx(10_000)


def of_flushes(*figures_us):
    result = Result(
        "r1", "c1", "h1", 0, "hdd", "d0", "d0", DriveModel("ACME", "HD1", "1"),
        LoadPoint.OSD_BENCH_DEPTH1, Verdict.NO_DIFFERENCE, 8, 9.0, 0, "decided",
    )
    return "\n".join(noop_flushes(
        replace(result, pin_price_us=flush, write_through_commit_us=commit)
        for flush, commit in figures_us
    ))


def test_the_part_of_a_commit_that_is_noop_flushes_is_said_where_it_is_material():
    said = "with the cache off at least 9.1 of 9.5 ms of a commit are flushes with nothing to write"
    assert f"{said} (depth1, 1 drive)" in of_flushes((9100.0, 9500.0))
    assert f"{said} (depth1, 3 drives)" in of_flushes((9100, 9500), (1, 10), (9200, 9600))
    assert "at least 0.35 of 0.9 ms" in of_flushes((350.0, 900.0))
    assert of_flushes((900.0, 10_000.0)) == ""  # without them 1.099 times as fast
    assert "12.0 of 12.0 ms" in of_flushes((15_000.0, 12_000.0))  # other OSDs' queue for it
    assert of_flushes((None, 9500.0), (9100.0, None), (9100.0, 0.0), (-1.0, 9.0)) == ""


def test_of_two_flushes_in_a_commit_what_is_said_holds_though_one_alone_is_counted():
    """Ceph 16: 2.0 of 2.2 ms are flushes, of which the mean of one is 1.0 ms."""
    assert "at least 1.0 of 2.2 ms of a commit" in of_flushes((1000.0, 2200.0))
    assert "each of these no-op flushes costs 1 ms (measured)" in lines(drive(), (1000.0,))


def test_of_a_drive_model_with_a_dear_clean_flush_neither_mode_is_better_and_it_is_said_why():
    drives = load_drive_file(str(MODELS / "lab-dear-flush.toml"))
    (spec,) = drives.drives
    outcome, record = experiment(drives, spec, LoadPoint.OSD_BENCH_DEPTH1, 3)
    assert outcome.verdict is Verdict.NO_DIFFERENCE
    (line,) = noop_flushes([analysed(record, analyse(record, Materiality())).result])
    flush_ms, commit_ms = map(float, re.findall(r"([\d.]+) of ([\d.]+) ms of a commit", line)[0])
    assert flush_ms == pytest.approx(25, rel=0.1)
    assert flush_ms > 0.9 * commit_ms


@pytest.mark.parametrize("through_ns", [10**6, 9 * 10**6])
def test_recommend_try_and_explain_say_it_whatever_the_verdict_is(through_ns):
    mgr = FakeMgr(("h1", (make.drive("sda", 0),)))
    mgr.analysis.commit_us = 330.0
    mgr.probes["h1"].latency_ns = {WB: 9_000_000, WT: through_ns}
    mgr.report_all()
    ok(mgr.command("try", accept_cost=True))
    mgr.settle()
    line = "at least 0.3 of 0.33 ms of a commit are flushes with nothing to write"
    for command in ("recommend", "try"):
        assert line in ok(mgr.command(command))
    assert line in ok(mgr.command("explain", scope="model:HD1"))


def test_explain_prints_what_write_through_costs_and_nothing_for_write_back():
    for latency_ns, wanted in (({WB: 9_000_000, WT: 10**6}, True), ({WB: 10**6, WT: 10**7}, False)):
        mgr = FakeMgr(("h1", (make.drive("sda", 0, rotational=False),)))
        mgr.probes["h1"].latency_ns = latency_ns
        mgr.report_all()
        said(mgr, "campaign start", loads="depth1", accept_cost=True)
        mgr.settle()
        (row,) = said(mgr, "recommend")["recommendations"]
        assert bool(row["consequences"]) is wanted
        text = ok(mgr.command("explain", scope="osd.0"))
        assert ("with the pin the kernel still flushes" in text) is wanted
        assert ("endurance" in text) is wanted


def test_a_plan_shows_what_was_written_since_the_change():
    mgr = FakeMgr(("h1", (make.drive("sda", 0, wear=Wear(100 * 2**30, 200 * 2**30)),)))
    mgr.probes["h1"].latency_ns = {WB: 9_000_000, WT: 1_000_000}
    mgr.report_all()
    said(mgr, "campaign start", loads="depth1", accept_cost=True)
    mgr.settle()
    plan_id = said(mgr, "plan")["plan_id"]
    said(mgr, "apply", plan_id=plan_id)
    mgr.settle()
    probe = mgr.probes["h1"]
    for name, one in list(probe.drives.items()):
        probe.drives[name] = replace(one, wear=Wear(110 * 2**30, 230 * 2**30))
    report_anew(mgr)
    (line,) = said(mgr, "plan show", plan_id=plan_id)["changes"][0]["written_since"]
    assert "3.00 times as much" in line
    assert "2.00 times over its life before" in line
    assert "written since the change: sda: " in ok(mgr.command("plan show", plan_id=plan_id))
