"""One rig for all tests: wcache comes onto it by the page, and the last test takes it away."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Dict, Iterator

import pytest
from cephadm.route import HOSTS, Route, heard
from cephadm_rig import CephadmCluster, CephadmPlan, start_cephadm
from harness import NotPossible
from harness.processes import wait_until
from probes import Wcache, kernel_view


def pytest_collection_modifyitems(items: list) -> None:
    """The undo comes last, whatever else is chosen."""
    items.sort(key=lambda item: "undo" in item.name)


@pytest.fixture(scope="session")
def rig() -> Iterator[CephadmCluster]:
    """HOSTS hosts with an OSD each; where no machine can run here, the tests are skipped.

    With KEEP=1 it is left running, and said how to stop it.
    """
    try:
        cluster = start_cephadm(CephadmPlan(HOSTS))
    except NotPossible as reason:
        pytest.skip(str(reason))
    try:
        yield cluster
    finally:
        if os.environ.get("KEEP") == "1":
            cluster.leave_running()
            program = "vstart-tests/cephadm_rig/rig"
            print(f"left running: {program} shell --dir {cluster.folder}", file=sys.stderr)
        else:
            cluster.stop()


@pytest.fixture(scope="session")
def installed(rig: CephadmCluster) -> Route:
    """The page's route, up to the first recommendation."""
    route = Route(rig)
    print(f"\nCeph {rig.ceph('version').stdout.split()[2]}, {len(rig.machines)} hosts", flush=True)
    route.health_before = rig.health_checks()
    route.install()
    route.add_probes()
    route.answer = route.try_it()
    print(
        f"{route.commands} commands and {route.seconds:.0f} s to the first recommendation",
        flush=True,
    )
    return route


@pytest.fixture(scope="session")
def wcache(installed: Route) -> Wcache:
    """`ceph wcache` on the rig."""
    return Wcache(installed.rig)


@pytest.fixture
def views(wcache: Wcache, rig: CephadmCluster) -> Iterator[Dict[str, str]]:
    """Every drive's kernel view before the test, which must be there again after it.

    So must be both hosts, all daemons, and no finding that the test began without.
    """

    def now() -> Dict[str, str]:
        drives = [drive for machine in rig.machines.values() for drive in machine.drives]
        return {drive: kernel_view(Path(drive)) for drive in drives}

    def findings() -> Dict[str, str]:
        # that several campaigns were aborted is true, and stays until one succeeds
        found = {row["code"]: row["detail"] for row in wcache("status")["findings"]}
        return {code: why for code, why in found.items() if code not in known}

    known = {"WCACHE_CAMPAIGN_ABORTS"}
    known |= set(findings())
    before = now()
    assert set(before.values()) == {"write back"}
    yield before
    for campaign in wcache("campaign ls")["campaigns"]:
        if campaign["status"] == "running":  # a test that failed must not spoil the next ones
            wcache("campaign stop", campaign_id=campaign["campaign_id"])
            wcache.wait_over(campaign["campaign_id"])
    wcache.wait("the probes", lambda: heard(wcache) == set(rig.machines), 240)
    wait_until(lambda: not findings(), 120)
    assert findings() == {}
    assert now() == before
