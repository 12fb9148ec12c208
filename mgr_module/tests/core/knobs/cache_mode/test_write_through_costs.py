"""The price of the pin and the wear are said beside each `write through`, with measured figures."""

import random
from dataclasses import replace

import pytest
from bench_decision import synthetic
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from module_world import WB, WT, ok, said
from wcache.analysis.decision import Options
from wcache.analysis.experiment import analyse
from wcache.core.hardware.wear import Wear
from wcache.core.knobs.cache_mode.consequences import of_write_through
from wcache.core.model import CachePage, FlushCounters, KernelView, Transport


def drive(saved=None, **changes):
    state = replace(make.state(WT), page=CachePage(True, WB, saved))
    return make.drive("sda", 0, state=state, **changes)


def lines(one, prices=(300.0,)):
    return "\n".join(of_write_through(one, prices))


def test_the_price_is_the_measured_one_or_said_to_be_unknown():
    assert "cost 0.3 ms per commit (measured)" in lines(drive(), (100.0, 300.0, 900.0))
    assert "not counted" in lines(drive(), ())
    assert "not counted" in lines(drive(), (float("nan"), -1.0))


def test_the_way_out_is_printed_only_where_the_saved_page_makes_it_safe():
    safe = lines(drive(WT))
    order = [safe.index(word) for word in ("no-pin", "rescan", "temporary write back")]
    assert order == sorted(order)
    unsafe = [
        drive(), drive(WB), drive(WT, transport=Transport.SATA), drive(WT, transport=Transport.NVME)
    ]
    by_rule = drive(WT)
    state = replace(by_rule.state, page=CachePage(True, WB, WT, by_rule=True))
    for one in [*unsafe, replace(by_rule, state=state)]:
        assert "no-pin" not in lines(one)
    assert "plan --persist" in lines(drive(WB))


@pytest.mark.parametrize(("rotational", "told"), [(False, True), (True, False), (None, False)])
def test_endurance_is_said_of_flash_alone(rotational, told):
    assert ("endurance" in lines(drive(rotational=rotational))) is told


def counted(view, each_us=300):
    draw = synthetic.lognormal(random.Random(4), ratio=4, sample_sd=0.05, period_sd=0.01)
    record = synthetic.record(draw, 10)
    counters = (FlushCounters(0, 0, 0, 0), FlushCounters(1, 0, 1000, each_us))
    state = make.state(WT, kernel_view=view)
    pairs = tuple(
        replace(pair, write_through=replace(
            pair.write_through, flush_counters=counters, state_after=(state,)
        ))
        for pair in record.pairs
    )
    return analyse(replace(record, pairs=pairs), Options())


def test_the_analysis_takes_the_price_from_the_kernels_counters():
    assert counted(KernelView.WRITE_BACK)["pin_price_us"] == pytest.approx(300)
    assert counted(KernelView.WRITE_THROUGH)["pin_price_us"] is None


def test_recommend_prints_what_write_through_costs_and_nothing_for_write_back():
    for latency_ns, wanted in (({WB: 9_000_000, WT: 10**6}, True), ({WB: 10**6, WT: 10**7}, False)):
        mgr = FakeMgr(("h1", (make.drive("sda", 0, rotational=False),)))
        mgr.probes["h1"].latency_ns = latency_ns
        mgr.report_all()
        said(mgr, "campaign start", loads="depth1", accept_cost=True)
        mgr.settle()
        (row,) = said(mgr, "recommend")["recommendations"]
        assert bool(row["consequences"]) is wanted
        text = ok(mgr.command("recommend"))
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
    mgr.now_s += 700.0
    mgr.engine.tick()
    mgr.report_all()
    (line,) = said(mgr, "plan show", plan_id=plan_id)["changes"][0]["written_since"]
    assert "3.00 times as much" in line
    assert "2.00 times over its life before" in line
    assert "written since the change: sda: " in ok(mgr.command("plan show", plan_id=plan_id))
