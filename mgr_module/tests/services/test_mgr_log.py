"""What an admin finds in the mgr's log, and what nobody can flood it with."""

import re

import pytest
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from mgr_fakes.store import MemoryStore
from module_world import measured, said, settled
from wcache.core.events import Answered, LoadFailed
from wcache.core.protocol import ApplyRequest, FailureOutcome, RollbackRequest
from wcache.engine.storing.audit_log import traced
from wcache.services.probes import LINES_BURST


def a_mgr(**options):
    mgr = FakeMgr(("h1", (make.drive("sda", 0),)), **options)
    mgr.report_all()
    return mgr


def lines(mgr, level):
    return [text for name, text in mgr.log_lines if name == level]


def test_the_log_tells_the_story_of_a_campaign_and_a_plan_without_a_look_at_the_module():
    mgr = a_mgr()
    mgr.command("apply", plan_id="p1")
    mgr.command("campaign start", loads="depth1", accept_cost=True)
    settled(mgr)
    mgr.command("plan")
    mgr.command("apply", plan_id="p1")
    mgr.settle()
    mgr.command("freeze")
    mgr.command("campaign start", loads="depth1")
    told = lines(mgr, "INFO")
    assert [line for line in told if "apply is refused" in line] == [
        "admin: wcache apply is refused: there is no plan 'p1': make one with `ceph wcache plan`"
    ]
    assert told[-1].startswith("admin: wcache campaign start is refused: the cluster is frozen")
    for grep in ("c1", "p1", "h1", "osd.0"):  # what an admin looks for
        assert any(re.search(rf"(?<![\w.]){re.escape(grep)}(?!\w)", line) for line in told), grep
    assert "mgr: c1.0: started on h1 domain-sda [h1 domain-sda osd.0]" in told
    assert "mgr: c1.0.0: write through: medians [h1 osd.0]" in told
    of_plan = [line.split(": ", 2)[2] for line in told if ": p1: " in line]
    assert of_plan[:2] == ["planned 1 change", "apply requested"]
    assert of_plan[2].startswith("h1 sda: write back to write through, applied; latency ")
    assert of_plan[3:] == ["done"]
    assert all("\n" not in line for _, line in mgr.log_lines)


def test_who_only_reads_or_has_a_probes_key_writes_nothing_at_the_default():
    mgr = a_mgr()
    before = len(lines(mgr, "INFO"))
    mgr.command("explain", scope="osd.99")
    mgr.command("history", scope="moon")
    assert len(lines(mgr, "INFO")) == before
    assert lines(mgr, "DEBUG")[-1].startswith("admin: wcache history is refused: scope 'moon'")


def test_what_auto_waits_for_is_told_when_it_changes():
    mgr = a_mgr(auto_windows="00:00-00:01")
    mgr.command("auto", mode="apply")
    mgr.steps(40)
    told = [line for line in lines(mgr, "INFO") if line.startswith("auto: waits: ")]
    assert told == ["auto: waits: outside the maintenance windows (auto_windows)"]


def test_that_the_mons_store_again_is_told_once():
    mgr = a_mgr(store=MemoryStore())
    mgr.store.fails = lambda key: key.startswith("frozen")
    mgr.command("freeze")
    mgr.store.fails = lambda key: False
    mgr.steps(60)
    told = [line for line in lines(mgr, "INFO") if "the mons store again" in line]
    assert len(told) == 1


def test_each_task_for_a_probe_and_each_call_of_it_is_at_debug():
    mgr = a_mgr()
    mgr.command("campaign start", loads="depth1", accept_cost=True)
    mgr.settle()
    found = lines(mgr, "DEBUG")
    assert "poll of h1" in found
    (task, *_) = (line for line in found if "SetModeRequest" in line)
    assert re.match(
        r"c1\.0 h1: GiveTask task_id='c1\.0\.\w+\.\d+' \(SetModeRequest .*"
        r"domain_id='domain-sda' mode='write (back|through)'", task,
    )
    (load, *_) = (line for line in found if "MeasureLoad" in line)
    assert "(LoadRequest osd.0 load_point='osd_bench_depth1' count=" in load
    assert any(line.startswith("c1.0 h1: Decided token=") for line in found)
    assert not any("Tick" in line for line in found)


def test_what_others_say_is_quoted_at_debug_too():
    failed = Answered("t1", LoadFailed("it said 'no'\nadmin: p1: done"))
    assert traced(failed) == (
        'Answered token=\'t1\' (LoadFailed message="it said \'no\'\\nadmin: p1: done")'
    )


@pytest.mark.slow
def test_a_change_that_fails_is_a_warning():
    mgr = measured()
    plan_id = said(mgr, "plan")["plan_id"]
    failure = FailureOutcome("the drive refused", restored=True)
    mgr.probes["h1"].fails = lambda task: (
        failure if isinstance(task.request, ApplyRequest) else None
    )
    mgr.command("apply", plan_id=plan_id)
    mgr.settle()
    assert f"mgr: {plan_id}: stopped: the drive refused" in lines(mgr, "WARNING")
    (change,) = (line for line in lines(mgr, "WARNING") if line.startswith("admin: "))
    assert change == (
        f"admin: {plan_id}: h1 sda: write back to write through, failed: the drive refused "
        "[h1 domain-sda osd.0]"
    )


@pytest.mark.slow
def test_each_change_is_told_with_its_host_and_osds_and_a_way_back_that_fails_is_an_error():
    mgr = measured()
    plan_id = said(mgr, "plan")["plan_id"]
    mgr.command("apply", plan_id=plan_id)
    mgr.settle()
    told = [line for line in lines(mgr, "INFO") if line.startswith(f"admin: {plan_id}: h")]
    assert [line.rpartition(" [")[2] for line in told] == [
        "h1 domain-sda osd.0]", "h1 domain-sdb osd.1]", "h2 domain-sdc osd.2]",
    ]
    mgr.probes["h2"].fails = lambda task: (
        FailureOutcome("it does not obey") if isinstance(task.request, RollbackRequest) else None
    )
    mgr.command("rollback", plan_id=plan_id)
    mgr.settle()
    (error,) = lines(mgr, "ERROR")
    assert "h2 sdc: " in error
    assert "rollback failed: it does not obey" in error
    assert error.endswith("[h2 domain-sdc osd.2]")


def test_what_a_probe_says_is_quoted_and_stays_in_one_line():
    mgr = a_mgr()
    with mgr.engine.orders() as orders:
        orders.note("probe h1", "domain-sda", "restored\nadmin: p1: done")
    assert lines(mgr, "INFO")[-1] == (
        "probe h1: domain-sda: 'restored admin: p1: done' [h1 domain-sda osd.0]"
    )
    with mgr.engine.orders() as orders:
        orders.note("admin", "ACME HD1 1.0", "trusted")
    assert lines(mgr, "INFO")[-1] == "admin: 'ACME HD1 1.0': trusted"


def test_refused_calls_are_a_warning_and_stop_filling_the_log():
    mgr = a_mgr()
    for _ in range(int(LINES_BURST) * 3):
        mgr.send("wcache agent post", "h1", '{"version": "\x1b[2J' + "x" * 3000 + '"}')
    found = lines(mgr, "WARNING")
    assert 0 < len(found) <= LINES_BURST
    assert all(line.startswith("refused a post of h1: ") for line in found)
    assert all(len(line) < 400 and line.isprintable() for line in found)


def test_what_the_store_refuses_is_a_warning():
    mgr = a_mgr(store=MemoryStore())
    mgr.store.fails = lambda key: key.startswith("campaign/")
    mgr.command("campaign start", loads="depth1", accept_cost=True)
    mgr.settle()
    assert any("not stored" in line for line in lines(mgr, "WARNING"))
