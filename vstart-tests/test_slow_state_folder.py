"""The journal's disk does not flush: the probe goes on calling, and its drives are safe."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any, Dict, Iterator

import pytest
from harness import ClusterAccess
from probes import Probe, Wcache, kernel_view
from worlds.slow_disk import SlowDisk, slow_disk

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.one_release]

FLUSH_S = 40.0
HANGS_S = 600.0  # until the test ends it
LEASE_S = 8
STOP_S = 30.0  # what a stop may take
CAMPAIGN = {"scope": "osd.0", "loads": "depth1", "pairs": 80}
BACK, THROUGH = "write back", "write through"


@pytest.fixture
def device(steady: ClusterAccess, wcache: Wcache) -> Iterator[Path]:
    """The drive of the OSD that is measured, which is in its prior mode after the test too."""
    found = Path(steady.osd_devices(0)["block"])
    assert kernel_view(found) == BACK
    wcache.option("lease_ttl_s", LEASE_S)
    wcache.option("settle_s", 0.5)
    yield found
    wcache.option("settle_s", 0.1)
    wcache.option("lease_ttl_s", 30)
    for each in wcache("campaign ls")["campaigns"]:
        if each["status"] == "running":
            wcache("campaign stop", campaign_id=each["campaign_id"])
            wcache.wait_over(each["campaign_id"])
    assert kernel_view(found) == BACK


@pytest.fixture
def disk(wcache: Wcache, probe: Probe, device: Path) -> Iterator[SlowDisk]:
    """A slow disk, on which the probe's state folder lies meanwhile."""
    with slow_disk(wcache.cluster.folder / "slow") as made:
        state_dir, run_dir = probe.state_dir, probe.run_dir
        probe.stop()
        shutil.copytree(state_dir, made.mount / "state")
        probe.state_dir, probe.run_dir = made.mount / "state", made.mount.parent / "run"
        try:
            begin(wcache, probe)
            yield made
        finally:
            made.flush_takes(0)
            try:
                probe.stop()
            finally:
                probe.kill()  # nothing, where it has ended
                probe.state_dir, probe.run_dir = state_dir, run_dir
    begin(wcache, probe)


def begin(wcache: Wcache, probe: Probe) -> None:
    """Start the probe, and wait until it has called."""
    answered = "the mgr answers"
    before = probe.text().count(answered)
    probe.start()
    wcache.wait("the probe", lambda: probe.text().count(answered) > before, 60)


def row(wcache: Wcache) -> Dict[str, Any]:
    """What `agent ls` says of the host."""
    (found,) = [a for a in wcache("agent ls")["agents"] if a["hostname"] == "h1"]
    return dict(found)


def health(wcache: Wcache) -> str:
    """What Ceph's health tells of a probe that does nothing."""
    checks = wcache.cluster.command("health", detail="detail")["checks"]
    detail = checks.get("WCACHE_AGENT_SILENT", {}).get("detail", [])
    return "\n".join(each["message"] for each in detail)


def waits(wcache: Wcache, task: str) -> str:
    """What the host waits for, once that is the journal, in such a task."""
    said = str(wcache.wait(f"{task} waits", lambda: row(wcache)["waits"], 60))
    assert "the probe calls, and has waited for" in said
    assert f"s: {task} of " in said
    return said


def measures(wcache: Wcache, probe: Probe, device: Path) -> None:
    """It measures again, and owes nothing."""
    wcache.wait("nothing is waited for", lambda: not row(wcache)["waits"], 60)
    wcache.done(scope="osd.0", loads="depth1", pairs=4)
    assert kernel_view(device) == BACK
    assert list((probe.state_dir / "journal").glob("*.json")) == []
    assert health(wcache) == ""


def test_an_fsync_before_a_change_that_takes_40_s_is_told_and_changes_nothing(
    wcache: Wcache, probe: Probe, device: Path, disk: SlowDisk
):
    disk.flush_takes(FLUSH_S)
    campaign_id = wcache.start_campaign(**CAMPAIGN)
    said = waits(wcache, "set_mode")
    hung_at_s = time.monotonic()
    assert f"fsync of {disk.mount}" in said
    seen = set()

    def told() -> bool:
        seen.add(kernel_view(device))
        return "fsync of " in health(wcache)

    wcache.wait("health", told, FLUSH_S)
    # a call after the lease's time has said that it is over: it went on calling
    assert row(wcache)["lease_id"] == ""
    assert "the probe calls, and has waited for" in row(wcache)["waits"]
    assert time.monotonic() - hung_at_s < FLUSH_S
    assert seen == {BACK}
    disk.flush_takes(0)  # the entry's other fsyncs
    shown = wcache.wait_over(campaign_id)
    assert shown["run_list"][0]["restored"] is True
    measures(wcache, probe, device)


def test_a_stop_beside_an_fsync_that_hangs_names_it_in_time_and_the_next_start_measures(
    wcache: Wcache, probe: Probe, device: Path, disk: SlowDisk
):
    disk.flush_takes(HANGS_S)
    campaign_id = wcache.start_campaign(**CAMPAIGN)
    waits(wcache, "set_mode")
    assert probe.process is not None
    probe.process.terminate()
    asked_at_s = time.monotonic()
    wcache.wait("it is named", lambda: "this cannot be ended" in probe.text(), STOP_S)
    assert "it is over: set_mode of " in probe.text().rpartition("this cannot be ended")[2]
    assert time.monotonic() - asked_at_s < STOP_S
    assert kernel_view(device) == BACK
    disk.flush_takes(0)
    assert probe.process.wait(timeout=STOP_S) == 1
    assert kernel_view(device) == BACK
    begin(wcache, probe)
    wcache("campaign stop", campaign_id=campaign_id)
    wcache.wait_over(campaign_id)
    measures(wcache, probe, device)


def test_a_drive_is_back_while_the_fsync_after_that_hangs(
    wcache: Wcache, probe: Probe, device: Path, disk: SlowDisk
):
    campaign_id = wcache.start_campaign(**CAMPAIGN)
    wcache.wait_period_in(THROUGH, device)
    disk.flush_takes(HANGS_S)
    wcache("campaign stop", campaign_id=campaign_id)
    waits(wcache, "release")
    assert kernel_view(device) == BACK
    wcache.wait("the lease is over", lambda: row(wcache)["lease_id"] == "", 2 * LEASE_S)
    disk.flush_takes(0)
    shown = wcache.wait_over(campaign_id)
    assert shown["run_list"][0]["restored"] is True
    measures(wcache, probe, device)
