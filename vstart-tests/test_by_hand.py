"""What an admin does by hand on a host, and what it comes to in the cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from harness import ClusterAccess, CommandError
from probes import Probe, Wcache, kernel_view

pytestmark = [pytest.mark.cluster, pytest.mark.one_release]

ELSEWHERE = "11111111-2222-4333-8444-555555555555"


def status(wcache: Wcache) -> str:
    return json.dumps(wcache("status"))


def journal_of(probe: Probe) -> Path:
    return probe.state_dir / "journal"


def test_restore_all_beside_a_running_probe_has_it_restore_and_ends_the_run(
    wcache: Wcache, probe: Probe, steady: ClusterAccess
):
    device = Path(steady.osd_devices(0)["block"])
    wcache.option("settle_s", 2)
    try:
        campaign_id = wcache.start_campaign(scope="osd.0", loads="depth1", pairs=80)
        wcache.wait_period_in("write through", device)
        done = probe.run(
            "restore", "--all", "--state-dir", str(probe.state_dir),
            "--run-dir", str(probe.state_dir / "run"),
        )
        shown = wcache.wait_over(campaign_id)
    finally:
        wcache.option("settle_s", 0.1)
    assert "asking the probe" in done.stdout
    assert "restored" in done.stdout
    assert kernel_view(device) == "write back"
    assert list(journal_of(probe).glob("*.json")) == []
    assert probe.process is not None
    assert probe.process.poll() is None
    (run,) = shown["run_list"]
    assert (run["status"], run["restored"]) == ("aborted", True)
    assert "restore" in wcache.history_text()


def left_by_another_cluster(wcache: Wcache, probe: Probe, device: Path) -> tuple[str, Path]:
    """An applied change's journal entry that nobody here made; its domain, and its file."""
    campaign_id = wcache.start_campaign(scope="osd.0", loads="depth1", pairs=80)
    wcache.wait_period_in("write through", device)
    probe.kill()
    (lease,) = journal_of(probe).glob("lease*.json")
    entry: dict[str, Any] = json.loads(lease.read_text())
    probe.start()
    wcache("campaign stop", campaign_id=campaign_id)
    wcache.wait_over(campaign_id)
    probe.stop()
    entry.update(kind="action", owner_id="p99.0", cluster_fsid=ELSEWHERE)
    path = journal_of(probe) / f"{quote('action/p99.0', safe='')}.json"
    path.write_text(json.dumps(entry))
    probe.start()
    return str(entry["domain_id"]), path


def test_a_prior_state_that_nobody_here_knows_stops_its_drive_until_an_admin_accepts_it(
    wcache: Wcache, probe: Probe, steady: ClusterAccess
):
    device = Path(steady.osd_devices(0)["block"])
    domain_id, entry = left_by_another_cluster(wcache, probe, device)
    wcache.wait("a finding", lambda: "WCACHE_PRIOR_LOST" in status(wcache))
    assert ELSEWHERE in status(wcache)
    with pytest.raises(CommandError, match="drive accept"):
        wcache("campaign start", scope="osd.0", loads="depth1", pairs=4, accept_cost=True)
    with pytest.raises(CommandError, match="--accept-cost"):
        wcache("drive accept", hostname="h1", domain_id=domain_id)
    assert entry.exists()
    wcache("drive accept", hostname="h1", domain_id=domain_id, accept_cost=True)
    wcache.wait("it is accepted", lambda: "WCACHE_PRIOR_LOST" not in status(wcache))
    assert not entry.exists()
    assert kernel_view(device) == "write back"
    assert "accepted" in wcache.history_text()
    wcache.done(scope="osd.0", loads="depth1", pairs=4)


@pytest.mark.long
def test_an_entry_of_a_later_probe_stops_its_drive_until_that_probe_brings_it_back(
    wcache: Wcache, probe: Probe, steady: ClusterAccess
):
    """An older probe was installed in the middle of an experiment: it cannot read the lease."""
    device = Path(steady.osd_devices(0)["block"])
    campaign_id = wcache.start_campaign(scope="osd.0", loads="depth1", pairs=80)
    wcache.wait_period_in("write through", device)
    probe.kill()
    (lease,) = journal_of(probe).glob("lease*.json")
    text = lease.read_text()
    later = json.dumps({**json.loads(text), "version": 99, "of_later": [1]})
    lease.write_text(later)
    probe.start()
    wcache.wait("it is told", lambda: "of version 99" in status(wcache))
    wcache("campaign stop", campaign_id=campaign_id)
    with pytest.raises(CommandError, match="version 99"):
        wcache("campaign start", scope="osd.0", loads="depth1", pairs=4, accept_cost=True)
    by_hand = probe.run(
        "restore", "--all", "--state-dir", str(probe.state_dir),
        "--run-dir", str(probe.state_dir / "run"), check=False,
    )
    assert by_hand.rc != 0
    assert "version 99" in by_hand.stdout + by_hand.stderr
    assert lease.read_text() == later
    probe.stop()
    lease.write_text(text)
    probe.start()
    wcache.wait("it is brought back", lambda: not lease.exists())
    assert kernel_view(device) == "write back"
    wcache.wait_over(campaign_id)
    wcache.wait("all is settled", lambda: "version 99" not in status(wcache))
    wcache.done(scope="osd.0", loads="depth1", pairs=4)


def test_what_changes_on_a_host_is_seen_in_seconds_and_not_at_the_next_look(
    wcache: Wcache, probe: Probe, steady: ClusterAccess
):
    device = Path(steady.osd_devices(0)["block"])
    view = Path("/sys/block") / device.name / "queue" / "write_cache"

    def shown() -> tuple[str, float]:
        (drive,) = [
            d for d in wcache("drive ls")["drives"] if d["dev_name"] == device.name
        ]
        return drive["state"]["kernel_view"], drive["reported_s_ago"] or 0.0

    wcache.option("poll_idle_s", 300)
    try:
        wcache.wait("the probe is idle", lambda: shown()[1] > 10.0)
        view.write_text("write through")
        wcache.wait("it is seen", lambda: shown()[0] == "write through", 120.0)
    finally:
        view.write_text("write back")
        wcache.wait("it is seen", lambda: shown()[0] == "write back", 120.0)
        wcache.option("poll_idle_s", 0.3)
        # what it was told last is to call again in 300 s: the next tests need it sooner
        probe.stop()
        probe.start()
