"""What an admin finds in the mgr's log, and what nobody can flood it with."""

import pytest
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from mgr_fakes.store import MemoryStore
from module_world import measured, said
from wcache.core.protocol import ApplyRequest, FailureOutcome, RollbackRequest
from wcache.services.probes import LINES_BURST


def a_mgr(**options):
    mgr = FakeMgr(("h1", (make.drive("sda", 0),)), **options)
    mgr.report_all()
    return mgr


def lines(mgr, level):
    return [text for name, text in mgr.log_lines if name == level]


def test_a_campaign_leaves_its_beginning_and_each_runs_end_at_info():
    mgr = a_mgr()
    mgr.command("campaign start", loads="depth1", accept_cost=True)
    mgr.settle()
    found = lines(mgr, "INFO")
    assert any(line.startswith("admin: c1: campaign started") for line in found)
    assert "mgr: c1.0: started on h1 domain-sda [h1 domain-sda osd.0]" in found
    assert any(line.startswith("mgr: c1.0: done") for line in found)
    assert lines(mgr, "WARNING") == lines(mgr, "ERROR") == []


def test_each_task_for_a_probe_and_each_call_of_it_is_at_debug():
    mgr = a_mgr()
    mgr.command("campaign start", loads="depth1", accept_cost=True)
    mgr.settle()
    found = lines(mgr, "DEBUG")
    assert any("SetModeRequest" in line for line in found)
    assert "poll of h1" in found
    assert "c1.0: measures osd.0 osd_bench_depth1" in found


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
    mgr.inside.note("probe h1", "domain-sda", "restored\nadmin: p1: done")
    assert lines(mgr, "INFO")[-1] == (
        "probe h1: domain-sda: 'restored admin: p1: done' [h1 domain-sda osd.0]"
    )
    mgr.inside.note("admin", "ACME HD1 1.0", "trusted")
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
