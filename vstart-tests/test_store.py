"""The module's state in a real mon store: taken up again once it can be read, and small."""

from __future__ import annotations

import base64
import os
import signal
import time
import zlib
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Iterator, List

import pytest
from harness import Cluster, CommandError
from probes import Probe, Wcache, kernel_view

pytestmark = pytest.mark.cluster

VERSION = "mgr/wcache/version"
LONG = {"scope": "osd.0", "loads": "depth1", "pairs": 80}
ELECTION_S = 8.0
LEASE_S = 4
UNTOUCHED_S = 3.0  # the probe asks several times meanwhile
ENTRY_BYTES_MAX = "mon_config_key_max_entry_size"


def device_of(cluster: Cluster) -> Path:
    return Path(cluster.osd_devices(0)["block"])


def kept(cluster: Cluster, key: str) -> str:
    """What the mons have."""
    return str(cluster.ceph("config-key", "get", f"mgr/wcache/{key}").stdout)


@contextmanager
def silent_mon(cluster: Cluster) -> Iterator[None]:
    """The only mon answers nothing, as in an election."""
    pid = cluster.daemon_pid("mon.a")
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def run_of(wcache: Wcache, campaign_id: str) -> Any:
    (run,) = wcache.campaign(campaign_id)["run_list"]
    return run


def failed(cluster: Cluster) -> bool:
    """Whether the module says that it cannot use its state."""
    return "WCACHE_STORE_FAILED" in cluster.health_checks()


@pytest.mark.one_release
def test_a_state_that_cannot_be_read_is_a_health_error_and_taken_up_once_it_is_cured(
    wcache: Wcache, probe: Probe, own_cluster: Cluster
):
    before = wcache("history", limit=1000)["history"]
    own_cluster.ceph("config-key", "set", VERSION, "999")
    try:
        own_cluster.restart_mgr()
        deadline = time.monotonic() + 60
        while not failed(own_cluster):
            assert time.monotonic() < deadline, "no health error within 60 s"
            time.sleep(0.2)
        found = own_cluster.ceph_json("config-key", "dump", "mgr/wcache/")
        with pytest.raises(CommandError, match="version '999'"):
            wcache("status")
        time.sleep(UNTOUCHED_S)
        assert own_cluster.ceph_json("config-key", "dump", "mgr/wcache/") == found
    finally:
        own_cluster.ceph("config-key", "set", VERSION, "1")
    # no restart: it tries again by itself
    wcache.wait("the module", lambda: wcache("status"))
    after = wcache("history", limit=1000)["history"]
    assert after[: len(before)] == before
    wcache.wait("health", lambda: not failed(own_cluster))


def test_what_the_mons_keep_of_a_value_is_smaller_than_the_value(
    wcache: Wcache, probe: Probe, own_cluster: Cluster
):
    (row,) = [r for r in wcache("agent ls")["agents"] if r["hostname"] == probe.hostname]
    kept = own_cluster.ceph("config-key", "get", f"mgr/wcache/report/{row['hostname']}").stdout
    scope = f"host:{probe.hostname}"
    shown = own_cluster.ceph("wcache", "drive", "ls", scope, "--format", "json").stdout
    assert kept.startswith("wcache-packed:")
    assert len(kept) < len(shown) / 3


def test_what_is_done_is_on_the_mons_though_the_mgr_is_killed_at_that_moment(
    wcache: Wcache, probe: Probe, own_cluster: Cluster, slow_periods: None
):
    device = device_of(own_cluster)
    for _ in range(2):
        campaign_id = wcache.start_campaign(scope="osd.0", loads="depth1", pairs=4)
        wcache.wait_period_in("write through", device)
        name = own_cluster.active_mgr()
        old_gid = own_cluster.active_gid()
        own_cluster.stop_daemon(f"mgr.{name}", kill=True)
        # the drive is held, so the run must be known to whoever takes over
        own_cluster.ceph("config-key", "get", f"mgr/wcache/campaign/{campaign_id}")
        stored = kept(own_cluster, f"run/{campaign_id}.0")
        own_cluster.start_daemon(f"mgr.{name}")
        own_cluster.wait_new_mgr(old_gid)
        assert stored, "nothing of the run"
        shown = wcache.wait_over(campaign_id)
        assert shown["status"] == "done", shown["run_list"]
        assert f"{campaign_id}.0" in wcache.history_text()
    assert "resumed after a restart of the mgr" in wcache.history_text()


@pytest.mark.one_release
def test_mons_that_are_silent_for_less_than_a_lease_delay_and_lose_nothing(
    wcache: Wcache, probe: Probe, own_cluster: Cluster, slow_periods: None
):
    campaign_id = wcache.start_campaign(**LONG)
    wcache.wait("a first pair", lambda: run_of(wcache, campaign_id)["periods_done"] >= 2)
    with silent_mon(own_cluster):
        deadline = time.monotonic() + ELECTION_S
        before = run_of(wcache, campaign_id)["periods_done"]
        answered_s: List[float] = []
        while time.monotonic() < deadline:
            began = time.monotonic()
            wcache("status")
            answered_s.append(time.monotonic() - began)
            time.sleep(0.2)
        waiting = run_of(wcache, campaign_id)
    assert waiting["status"] == "running"
    assert waiting["periods_done"] <= before + 2, "it goes on only with what is stored"
    assert median(answered_s) < ELECTION_S / 4, "no command waits for the mons"
    wcache.wait(
        "more periods",
        lambda: run_of(wcache, campaign_id)["periods_done"] > waiting["periods_done"] + 2,
    )
    assert run_of(wcache, campaign_id)["interrupted_periods"] == 0
    wcache("campaign stop", campaign_id=campaign_id)
    wcache.wait_over(campaign_id)
    own_cluster.wait_healthy(60)


@pytest.mark.one_release
def test_mons_that_are_silent_for_longer_than_a_lease_end_it_and_the_drive_is_back_meanwhile(
    wcache: Wcache, probe: Probe, own_cluster: Cluster, slow_periods: None
):
    wcache.option("lease_ttl_s", LEASE_S)
    try:
        campaign_id = wcache.start_campaign(**LONG)
        wcache.wait("a first pair", lambda: run_of(wcache, campaign_id)["periods_done"] >= 2)
        device = device_of(own_cluster)
        with silent_mon(own_cluster):
            wcache.wait_over(campaign_id)
            assert kernel_view(device) == "write back"
            codes = {finding["code"] for finding in wcache("status")["findings"]}
            assert "WCACHE_STORE_FAILED" in codes
        shown = run_of(wcache, campaign_id)
        assert f"have not answered for {LEASE_S} s" in shown["reason"]
        assert shown["restored"] is True
        wcache.wait(
            "the run on the mons", lambda: '"aborted"' in _unpacked(own_cluster, campaign_id)
        )
    finally:
        wcache.option("lease_ttl_s", 30)
    wcache.wait("health", lambda: not failed(own_cluster))


def _unpacked(cluster: Cluster, campaign_id: str) -> str:
    """A run as the mons have it."""
    text = kept(cluster, f"run/{campaign_id}.0").strip()
    head = "wcache-packed:"
    if not text.startswith(head):
        return text
    return zlib.decompress(base64.b64decode(text[len(head) :])).decode()


@pytest.mark.one_release
def test_what_the_mons_refuse_is_a_health_error_and_stored_once_they_take_it(
    wcache: Wcache, probe: Probe, own_cluster: Cluster
):
    own_cluster.ceph("config", "set", "mon", ENTRY_BYTES_MAX, "20")
    try:
        campaign_id = wcache.start_campaign(scope="osd.0", loads="depth1", pairs=4)
        wcache.wait("a health error", lambda: failed(own_cluster))
        assert "entry size limited" in str(wcache("status")["findings"])
        ids = [c["campaign_id"] for c in wcache("campaign ls")["campaigns"]]
        assert campaign_id not in ids, "it could not be stored, so it was not begun"
        assert f"{campaign_id}: not started" in "".join(
            f"{h['what']}: {h['text']}" for h in wcache("history", limit=1000)["history"]
        )
    finally:
        own_cluster.ceph("config", "rm", "mon", ENTRY_BYTES_MAX)
    wcache.wait("health", lambda: not failed(own_cluster))
    wcache.done(scope="osd.0", loads="depth1", pairs=4)
