"""Answers say numbers with their units and nouns, and leave nothing out without a word."""

import re
from dataclasses import replace

import pytest
from module_world import (
    RealAnalysis,
    a_mgr,
    applied,
    apply_plan,
    measured,
    measured_anew,
    ok,
    said,
    settled,
    start,
)
from wcache.ceph.health import CephProgress
from wcache.commands.plans import plan_text
from wcache.commands.status import status_text, whole_status_text
from wcache.core.text import amount, cell, many, setting, written


def test_sizes_and_counts_are_said_with_their_units_and_nouns():
    assert amount(7452 * 2**30) == "7.3 TiB"
    assert (many(1, "drive"), many(0, "drive")) == ("1 drive", "0 drives")
    assert cell(["c3.0", "c3.1"]) == "c3.0, c3.1"
    assert cell([]) == "-"
    assert setting("osd_memory_target", "4088397824") == "3.8 GiB"
    assert setting("osd_memory_target", None) == "unset"
    assert setting("osd_mclock_max_capacity_iops_hdd", "120.5") == "120.5"
    assert written({"bytes_written": 0, "bench_calls": 0}) == "nothing"
    assert written({"bytes_written": 4096, "bench_calls": 1}) == "4.0 KiB in 1 bench call"


def test_an_option_that_is_refused_is_named_as_it_is_typed():
    mgr = a_mgr()
    for dry_run in (True, False):
        for arguments, name in (
            ({"seed": -1}, "--seed"), ({"drives_per_model": 0}, "--drives-per-model"),
            ({"pairs": "many"}, "--pairs"),
        ):
            error = mgr.command("campaign start", dry_run=dry_run, **arguments)[2]
            assert error.startswith(f"{name} must be a whole number"), (dry_run, error)


@pytest.mark.slow
def test_a_plan_that_is_in_place_is_named_and_no_next_step_lacks_an_id():
    mgr = measured()
    assert ok(mgr.command("plan", dry_run=True)).endswith("\nnext: ceph wcache plan")
    mgr = applied()
    assert ok(mgr.command("plan")).split("\n")[0] == "in place, by plan p1"
    assert said(mgr, "plan")["in_place_by"] == "p1"
    ok(mgr.command("rollback"))
    settled(mgr)
    assert said(mgr, "plan")["plan_id"] == "p2"


def test_a_drive_that_was_measured_twice_is_one_drive():
    mgr = measured_anew(make_analysis=RealAnalysis)
    ok(mgr.command("campaign start", loads="depth1", scope="osd.0", recheck=True, accept_cost=True))
    settled(mgr)
    told = ok(mgr.command("explain", scope="osd.0"))
    assert told.count("osd.0 h1 sda, all 2 experiments of this drive: 20.00 ms -> 4.00 ms") == 1
    assert told.count("this experiment: 20.00 ms -> 4.00 ms") == 2
    assert "all 3 drives" in told
    (row,) = said(mgr, "recommend")["recommendations"]
    assert (row["loads"][0]["drives"], len(row["figures"])) == (3, 3)


def test_what_only_informs_is_counted_and_shown_where_all_is_asked_for():
    data = said(measured(), "status")
    note = {"code": "WCACHE_SETUP", "subject": "h1 sda", "detail": "slow", "advice": "look"}
    data["findings"] = [{**note, "severity": "info"}, {**note, "severity": "info"}]
    text = status_text(data)
    assert text.endswith("2 INFO findings: ceph wcache status --all")
    assert "WCACHE_SETUP" not in text
    assert "INFO WCACHE_SETUP h1 sda: slow" in whole_status_text(data)


def test_like_steps_of_a_setting_are_one_line():
    def step(number, prior, value, **changes):
        return {
            "kind": "config", "knob": "memory", "failure_domain": "host h1", "status": "planned",
            "action_id": f"p1.{number}.ab12", "before_us": None, "after_us": None, "detail": "",
            "manual": [], "edits": [{
                "who": "osd.0", "name": "osd_memory_target", "prior": prior, "value": value,
            }], **changes,
        }

    steps = [step(n, str((40 - n) * 2**28), str((39 - n) * 2**28)) for n in range(14)]
    shown = plan_text({"changes": steps, "plan_id": "p1", "status": "planned"})
    (line,) = [row for row in shown.split("\n") if "osd_memory_target" in row]
    assert "p1.0 to p1.13" in line
    assert "in 14 steps  10.0 GiB  6.5 GiB" in line
    # one that says more of itself keeps a line of its own
    told = [*steps[:3], {**steps[3], "detail": "did not take"}, *steps[4:]]
    shown = plan_text({"changes": told, "plan_id": "p1", "status": "planned"})
    assert shown.count("osd_memory_target") == 2
    assert "did not take" in shown


class Progress:
    def __init__(self):
        self.calls = []

    def remote(self, module_name, method_name, *args, **kwargs):
        self.calls.append((method_name, args[0], args[1] if method_name == "fail" else ""))
        if method_name == "update":
            self.last = args[1:3]


def shown(mgr, progress, seen):
    progress.show(mgr.views.under_way(), mgr.views.ended)
    return [call for call in seen.calls if call[0] != "update"]


def test_what_was_stopped_is_not_told_as_complete():
    mgr, seen = a_mgr(), Progress()
    progress = CephProgress(seen)
    start(mgr)
    mgr.step()
    assert shown(mgr, progress, seen) == []
    ok(mgr.command("campaign stop", campaign_id="c1"))
    mgr.settle()
    ((method, event_id, why),) = shown(mgr, progress, seen)
    assert (method, event_id) == ("fail", "wcache.c1")
    assert "admin" in why
    assert seen.last == ("wcache campaign c1: over, 0 of 3 runs done", 1.0)


def test_the_last_text_of_what_is_complete_tells_its_end():
    mgr, seen = a_mgr(), Progress()
    progress = CephProgress(seen)
    start(mgr)
    mgr.step()
    shown(mgr, progress, seen)
    mgr.settle()
    assert shown(mgr, progress, seen) == [("complete", "wcache.c1", "")]
    assert seen.last == ("wcache campaign c1: over, 3 of 3 runs done", 1.0)


@pytest.mark.slow
def test_what_is_done_is_complete_and_a_plan_that_goes_back_by_itself_has_failed():
    mgr, seen = measured(), Progress()
    progress = CephProgress(seen)
    apply_plan(mgr)
    shown(mgr, progress, seen)
    mgr.settle()
    assert shown(mgr, progress, seen) == [("complete", "wcache.p1", "")]
    assert seen.last == ("wcache plan p1: done", 1.0)
    for command in ("plan show", "rollout show"):
        text = ok(mgr.command(command, plan_id="p1"))
        assert re.search(r"^plan p1: done at .* UTC; nothing of it is under way$", text, re.M)
    mgr.report_all()
    ok(mgr.command("rollback"))
    shown(mgr, progress, seen)
    mgr.settle()
    assert shown(mgr, progress, seen)[1:] == [("complete", "wcache.p1", "")]
    machine = mgr.inside.rollouts["p1"]
    machine.rollout = replace(machine.rollout, reason="osd.0 got slower", by_will=False)
    assert mgr.views.ended("wcache.p1") == ("wcache plan p1: rolled back", "osd.0 got slower")


def test_status_says_which_rollout_is_paused_and_how_it_goes_on():
    mgr = measured()
    apply_plan(mgr)
    mgr.step()
    assert said(mgr, "status")["paused"] == []
    ok(mgr.command("rollout pause", plan_id="p1"))
    mgr.steps(100)
    assert said(mgr, "status")["paused"] == ["p1"]
    text = ok(mgr.command("status"))
    assert "rollout:   p1; paused: p1" in text
    assert (
        "WCACHE_ROLLOUT_PAUSED p1: paused by an admin: `ceph wcache rollout resume p1` or "
        "`ceph wcache rollout abort p1`"
    ) in text
