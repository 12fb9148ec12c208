"""Fixtures for tests on a real cluster.  RELEASE chooses the release; see doc/testing.md."""

from __future__ import annotations

import os
import sys
from typing import Iterator

import pytest
from harness import (
    Cluster,
    ClusterAccess,
    ClusterPlan,
    ExistingCluster,
    HarnessError,
    NotPossible,
    start_cluster,
)

DEFAULT_RELEASE = 20


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """A test that asks for what this cluster cannot do is skipped, with the reason."""
    try:
        return (yield)
    except NotPossible as reason:
        pytest.skip(str(reason))


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
    up, checks = cluster.osds_up(), cluster.health_checks()
    yield cluster
    try:
        for osd_id in up:
            cluster.wait_osd_up(osd_id, timeout_s=30)
        cluster.wait_healthy(30, ignoring=sorted(checks))
    except HarnessError as error:
        pytest.fail(f"the test left the cluster worse than it was: {error}")


@pytest.fixture
def own_cluster(steady: ClusterAccess) -> Cluster:
    """The shared cluster where it is one of ours; the test is skipped where it is not."""
    if not isinstance(steady, Cluster):
        pytest.skip("needs a cluster that this harness started")
    return steady
