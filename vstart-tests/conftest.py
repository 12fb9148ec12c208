"""Fixtures for tests on a real cluster.  RELEASE chooses the release; see doc/testing.md."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from typing import Dict, Iterator, List

import pytest
from harness import (
    Cluster,
    ClusterAccess,
    ClusterPlan,
    ExistingCluster,
    HarnessError,
    start_cluster,
)
from probes import MODULE, Probe, Wcache

DEFAULT_RELEASE = 20
# OSDs tell of their PGs each 5 s (mgr_stats_period): until then a PG that an OSD's restart
# degraded stands as it was before.
PG_STATS_S = 6.0
# A cluster for tests: worthless, polled fast, quick to settle.
OPTIONS = {
    "throwaway_cluster": True,
    "poll_idle_s": 0.3,
    "settle_s": 0.1,
    "period_s": 1.0,
    "canary_wait_s": 1.0,
    "gate_by_load": False,  # nobody writes to most of these clusters
    "lease_ttl_s": 30,
}


@pytest.fixture(scope="session")
def release() -> int:
    """The Ceph release under test, from the environment's RELEASE."""
    return int(os.environ.get("RELEASE", DEFAULT_RELEASE))


@pytest.fixture(scope="session")
def cluster(release: int) -> Iterator[ClusterAccess]:
    """The cluster that all tests share: leave it as healthy as you found it.

    The one that WCACHE_CEPH_CONF names, else a new one.  With KEEP=1 a new one is left
    running, and how to talk to it is printed.
    """
    shared: ClusterAccess
    existing = ExistingCluster.from_environment()
    shared = existing or start_cluster(ClusterPlan(release=release))
    try:
        yield shared
    finally:
        if isinstance(shared, Cluster) and os.environ.get("KEEP") == "1":
            shared.leave_running()
            command = f"vstart-tests/cluster exec --dir {shared.folder} -- ceph status"
            print(f"left running: {command}", file=sys.stderr)
        else:
            shared.stop()


@pytest.fixture
def steady(cluster: ClusterAccess) -> Iterator[ClusterAccess]:
    """The shared cluster, with a check after the test that it is as healthy as before."""

    def starts() -> Dict[int, int]:
        """By OSD the epoch since when it is up."""
        dump = cluster.command("osd dump")["osds"]
        return {each["osd"]: each["up_from"] for each in dump}

    up, checks, before = cluster.osds_up(), cluster.health_checks(), starts()
    yield cluster
    try:
        for osd_id in up:
            cluster.wait_osd_up(osd_id, timeout_s=120)
        if starts() != before:
            time.sleep(PG_STATS_S)
        cluster.wait_healthy(120, ignoring=sorted(checks))
    except HarnessError as error:
        pytest.fail(f"the test left the cluster worse than it was: {error}")


@pytest.fixture
def own_cluster(steady: ClusterAccess) -> Cluster:
    """The shared cluster where it is one of ours; the test is skipped where it is not."""
    if not isinstance(steady, Cluster):
        pytest.skip("needs a cluster that this harness started")
    return steady


@pytest.fixture(scope="session")
def wcache(cluster: ClusterAccess) -> Wcache:
    """The module, loaded, on a cluster declared worthless and polled fast."""
    cluster.install_module(MODULE)
    cluster.enable_module("wcache")
    module = Wcache(cluster)
    for name, value in OPTIONS.items():
        module.option(name, value)
    module.wait("the module", lambda: module("status"), 60)
    return module


@pytest.fixture
def slow_periods(wcache: Wcache) -> Iterator[None]:
    """Periods long enough to strike in the middle of one."""
    wcache.option("settle_s", 0.5)
    yield
    wcache.option("settle_s", 0.1)


@pytest.fixture(scope="module")
def own_class(wcache: Wcache) -> Iterator[str]:
    """A device class that only this file's tests have measured in: OSDs 0 and 1 are in it.

    Recommendations are made for each device class, so what other files measured on these
    OSDs, and left undecided, has no say in it.
    """
    cluster, name, ids = wcache.cluster, f"own-{uuid.uuid4().hex[:8]}", ["0", "1"]
    nodes = cluster.command("osd tree")["nodes"]
    before = {str(n["id"]): n["device_class"] for n in nodes if str(n["id"]) in ids}

    def move(osd_ids: List[str], device_class: str) -> None:
        cluster.command("osd crush rm-device-class", ids=osd_ids)
        cluster.command("osd crush set-device-class", ids=osd_ids, **{"class": device_class})

    move(ids, name)
    wcache.wait("the mgr to know the class", lambda: wcache("recommend", scope=f"class:{name}"), 30)
    yield name
    for osd_id, device_class in before.items():
        move([osd_id], device_class)
    cluster.command("osd crush class rm", **{"class": name})


def heard_of(wcache: Wcache, probe: Probe) -> Probe:
    """The probe, started where it does not run, once the module has its report."""
    if probe.process is None or probe.process.poll() is not None:
        probe.start()

    def reported() -> bool:
        rows = wcache("drive ls")["drives"]
        return any(row["hostname"] == probe.hostname for row in rows)

    wcache.wait("the probe's report", reported, 60)
    return probe


@pytest.fixture(scope="session")
def running_probe(wcache: Wcache) -> Iterator[Probe]:
    """The probe of this machine; a test may have ended it."""
    probe = Probe(wcache.cluster)
    yield heard_of(wcache, probe)
    probe.stop()


@pytest.fixture
def probe(wcache: Wcache, running_probe: Probe) -> Probe:
    """The probe of this machine, running and heard, with nothing under way."""
    return heard_of(wcache, running_probe)


@pytest.fixture
def sim_probe(wcache: Wcache) -> Iterator[Probe]:
    """A probe that speaks for simulated drives."""
    probe = Probe(
        wcache.cluster, "simhost", sim=wcache.cluster.project / "qa/drive_models/demo.toml"
    )
    yield heard_of(wcache, probe)
    probe.stop()
    wcache("agent rm", hostname="simhost", host_is_gone=True)


@pytest.fixture
def client_traffic(cluster: ClusterAccess) -> Iterator[None]:
    """Small writes by rados bench to a pool over all OSDs, while the test runs."""
    if "wcache-load" not in cluster.ceph("osd", "pool", "ls").stdout.split():
        cluster.ceph("osd", "pool", "create", "wcache-load", "8")
        cluster.ceph("osd", "pool", "application", "enable", "wcache-load", "test")
        # what the mons show as clean may not know of the new pool's PGs yet
        deadline = time.monotonic() + 60
        while not cluster.command("pg stat")["pg_summary"]["num_pgs"] >= 9:
            assert time.monotonic() < deadline, "the new pool's PGs do not show up"
            time.sleep(0.2)
        cluster.wait_healthy(60)
    process = cluster.popen_inside(
        ["rados", "-p", "wcache-load", "bench", "600", "write", "-b", "4096", "-t", "4",
         "--no-cleanup"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    yield
    process.kill()
    process.wait()
