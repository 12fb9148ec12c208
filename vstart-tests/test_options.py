"""`ceph wcache ab` on a real cluster: an option of the queue of an OSD's loop device."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator

import pytest
from harness import ClusterAccess
from probes import Probe, Wcache
from worlds.what_stands import applied, ended

pytestmark = [pytest.mark.cluster, pytest.mark.one_release]

OSD = 0
SLOW, FAST = "64", "96"  # neither is what the kernel gives a loop device
OTHER = "80"
TRIAL = f"nr_requests={SLOW},{FAST}"
# While the one value is set, the OSD runs and stands for so long in turn.
RUNS_S, STANDS_S = 0.002, 0.018
REPEATED_MAX = 3  # a busy machine leaves a verdict open, which is no failure
PAIRS = 16  # several times what such an effect needs, and an end where the machine is slow
# With bfq the kernel gives a queue other nr_requests and turns wbt off.
RESETTING, RESETS = "scheduler", ("scheduler", "nr_requests", "wbt_lat_usec")


def attribute(cluster: ClusterAccess, name: str = "nr_requests") -> Path:
    """The file of an option of the OSD's drive."""
    device = Path(cluster.osd_devices(OSD)["block"]).name
    return Path(f"/sys/block/{device}/queue/{name}")


@contextmanager
def slow_at(cluster: ClusterAccess, value: str) -> Iterator[None]:
    """Plant an effect: the OSD is slow while nr_requests of its drive has a value."""
    path, pid, over = attribute(cluster), cluster.osd_pid(OSD), threading.Event()

    def watch() -> None:
        while not over.wait(RUNS_S):
            if path.read_text().strip() == value:
                os.kill(pid, signal.SIGSTOP)
                time.sleep(STANDS_S)
                os.kill(pid, signal.SIGCONT)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


@pytest.fixture
def before(wcache: Wcache, probe: Probe, steady: ClusterAccess) -> Iterator[Dict[str, str]]:
    """What the drive has, which it must have again after the test."""
    was = {name: attribute(steady, name).read_text() for name in RESETS}
    yield was
    for campaign in wcache("campaign ls")["campaigns"]:  # of a test that failed
        if campaign["status"] == "running":
            wcache("campaign stop", campaign_id=campaign["campaign_id"])
            wcache.wait_over(campaign["campaign_id"])
    assert {name: attribute(steady, name).read_text() for name in RESETS} == was


def start(wcache: Wcache, trial: str, **more: Any) -> str:
    asked = {"option": trial, "scope": f"osd.{OSD}", "loads": "batch", "accept_cost": True, **more}
    return str(wcache.wait("a campaign", lambda: wcache("ab", **asked))["campaign_id"])


def compared(wcache: Wcache, trial: str = TRIAL, **more: Any) -> Dict[str, Any]:
    """The result of a campaign that compares two values of an option, to its end."""
    shown = wcache.wait_over(start(wcache, trial, **more))
    assert shown["results"] == []  # none about cache modes
    (result,) = shown["option_results"]
    return dict(result)


def drifted(wcache: Wcache) -> Any:
    """What is found to be gone, once the probe was asked for a report."""
    wcache("plan", knob="options", dry_run=True)
    return [f for f in wcache("status")["findings"] if f["code"] == "WCACHE_OPTION_DRIFT"]


def test_a_planted_effect_is_found_applied_missed_when_gone_and_taken_back(
    wcache, steady, before
):
    held = attribute(steady)
    with slow_at(steady, SLOW):
        for _ in range(REPEATED_MAX):
            result = compared(wcache, pairs=PAIRS)
            if result["decided"]:
                break
    assert result["verdict"] == f"nr_requests {FAST}", result
    assert result["ratio_low"] > 1.1
    (row,) = [
        one for one in wcache("option ls")["verdicts"]
        if result["record_id"] in one["record_ids"]
    ]
    assert row["verdict"] == f"nr_requests {FAST}"
    try:
        held.write_text(SLOW)
        with slow_at(steady, SLOW):
            plan_id = applied(wcache, knob="options", scope=f"osd.{OSD}")
        assert held.read_text().strip() == FAST
        (change,) = wcache("plan show", plan_id=plan_id)["changes"]
        assert (change["status"], change["expected"], change["value"]) == ("applied", SLOW, FAST)
        assert drifted(wcache) == []
        held.write_text(OTHER)  # as a reboot would
        (found,) = wcache.wait("the drift", lambda: drifted(wcache))
        assert f"plan {plan_id} gave it nr_requests {FAST}" in found["detail"]
        wcache("rollback", plan_id=plan_id)
        assert ended(wcache, plan_id)["status"] == "rolled back"
        assert held.read_text().strip() == SLOW
        assert drifted(wcache) == []
    finally:
        held.write_text(before["nr_requests"])


@pytest.mark.long
def test_where_nothing_is_planted_no_value_is_better(wcache, steady, before):
    result = compared(wcache, pairs=6)
    assert result["verdict"] in ("no material difference", "insufficient data"), result


def test_a_probe_that_is_killed_puts_back_what_the_scheduler_reset(
    wcache, probe, steady, before
):
    campaign_id = start(wcache, f"{RESETTING}=bfq,mq-deadline", pairs=80)
    held = attribute(steady, RESETTING)
    wcache.wait("bfq", lambda: "[bfq]" in held.read_text())
    probe.kill()
    assert {n: attribute(steady, n).read_text() for n in RESETS} != before
    said = probe.run(
        "restore", "--all", "--state-dir", str(probe.state_dir),
        "--run-dir", str(probe.state_dir / "run"),
        "--osd-data", str(steady.folder / "osd.*"),
    )
    assert "restored" in said.stdout
    assert {n: attribute(steady, n).read_text() for n in RESETS} == before
    probe.start()
    wcache.wait("bfq again", lambda: "[bfq]" in held.read_text())
    wcache("campaign stop", campaign_id=campaign_id)
    assert wcache.wait_over(campaign_id)["run_list"][0]["restored"] is True
