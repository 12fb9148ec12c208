"""Fixtures for tests on a real cluster.  RELEASE chooses the release; see doc/testing.md."""

from __future__ import annotations

import os
import sys
from typing import Iterator

import pytest
from harness import ClusterAccess, ClusterPlan, HarnessError, start_cluster

DEFAULT_RELEASE = 20


@pytest.fixture(scope="session")
def release() -> int:
    """The Ceph release under test, from the environment's RELEASE."""
    return int(os.environ.get("RELEASE", DEFAULT_RELEASE))


@pytest.fixture(scope="session")
def cluster(release: int) -> Iterator[ClusterAccess]:
    """The cluster that all tests share.  Leave it as healthy as you found it.

    With KEEP=1 it is left running, and how to talk to it is printed.
    """
    started = start_cluster(ClusterPlan(release=release))
    try:
        yield started
    finally:
        if os.environ.get("KEEP") == "1":
            started.leave_running()
            command = f"vstart-tests/cluster exec --dir {started.folder} -- ceph status"
            print(f"left running: {command}", file=sys.stderr)
        else:
            started.stop()


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
