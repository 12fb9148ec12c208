"""The module's state in a real mon store: taken up again once it can be read, and small."""

from __future__ import annotations

import time

import pytest
from harness import Cluster, CommandError
from probes import Probe, Wcache

pytestmark = pytest.mark.cluster

VERSION = "mgr/wcache/version"


def failed(cluster: Cluster) -> bool:
    """Whether the module says that it cannot use its state."""
    return "WCACHE_STORE_FAILED" in cluster.health_checks()


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
        with pytest.raises(CommandError, match="version '999'"):
            wcache("status")
    finally:
        own_cluster.ceph("config-key", "set", VERSION, "1")
    # no restart: it tries again by itself
    wcache.wait("the module", lambda: wcache("status"), 90)
    after = wcache("history", limit=1000)["history"]
    assert after[: len(before)] == before
    wcache.wait("health", lambda: not failed(own_cluster), 30)


def test_what_the_mons_keep_of_a_value_is_smaller_than_the_value(
    wcache: Wcache, probe: Probe, own_cluster: Cluster
):
    (row,) = [r for r in wcache("agent ls")["agents"] if r["hostname"] == probe.hostname]
    kept = own_cluster.ceph("config-key", "get", f"mgr/wcache/report/{row['hostname']}").stdout
    shown = own_cluster.ceph("wcache", "drive", "ls", probe.hostname, "--format", "json").stdout
    assert kept.startswith("wcache-packed:")
    assert len(kept) < len(shown) / 3
