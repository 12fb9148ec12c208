"""A DB drive that several OSDs share: each of them is watched while it is toggled."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Iterator, List

import pytest
from harness import Cluster, ClusterPlan, OsdLayout, loops, start_cluster
from harness.osds import add_osd
from probes import MODULE, Probe, Wcache, kernel_view
from wcache.core.experiment.run import ILL_WAIT_S

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.one_release]

SECTORS = (1 << 30) // 512
FIRST_SECTOR = 2048
LIMIT_MS = 3000
OPTIONS = {
    "throwaway_cluster": True, "poll_idle_s": 0.3, "settle_s": 0.1, "gate_by_load": False,
    "latency_limit_ms": LIMIT_MS,
}


class Site:
    """OSDs 0 to 2 by themselves, and two with their DBs on one drive."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.wcache = Wcache(cluster)
        self.shared = loops.attach(cluster.folder / "shared-db.img", 3 << 30)
        self.osds: List[int] = [self._add(number) for number in (1, 2)]

    def end(self) -> None:
        """Take the partitions away, which outlive the detaching of their loop device."""
        for number, osd_id in enumerate(self.osds, 1):
            self.cluster.stop_osd(osd_id, kill=True)
            subprocess.run(["delpart", self.shared, str(number)], check=True, timeout=30)

    def _add(self, number: int) -> int:
        start = FIRST_SECTOR + (number - 1) * SECTORS
        subprocess.run(
            ["addpart", self.shared, str(number), str(start), str(SECTORS)], check=True, timeout=30,
        )
        part = Path(f"{self.shared}p{number}")

        def on_the_part(osd_id: int) -> None:
            (self.cluster.folder / f"osd.{osd_id}" / "block.db").symlink_to(part)

        return add_osd(self.cluster, OsdLayout(("block",), "hdd"), on_the_part)


@pytest.fixture(scope="module")
def site(release: int) -> Iterator[Site]:
    """The cluster with its module, its probe and the two OSDs."""
    with start_cluster(ClusterPlan(release=release, osds=[OsdLayout(("block",), "hdd")] * 3)) as it:
        found = Site(it)
        probe = Probe(it)
        try:
            it.install_module(MODULE)
            it.enable_module("wcache")
            for name, value in OPTIONS.items():
                found.wcache.option(name, value)
            found.wcache.wait("the module", lambda: found.wcache("status"), 60)
            probe.start()
            found.wcache.wait("the drives", lambda: found.wcache("drive ls")["drives"], 60)
            it.wait_healthy(120)
            yield found
        finally:
            probe.stop()
            found.end()


def test_one_that_shares_the_drive_ends_what_toggles_it(site: Site):
    wcache, cluster = site.wcache, site.cluster
    name = Path(site.shared).name
    (drive,) = [d for d in wcache("drive ls")["drives"] if d["dev_name"] == name]
    assert sorted(use["osd_id"] for use in drive["uses"]) == site.osds
    measured, beside = site.osds
    before = kernel_view(Path(site.shared))
    campaign_id = wcache.start_campaign(scope=f"osd.{measured}", loads="depth1", pairs=40)
    wcache.wait(
        "the shared drive to be toggled", lambda: kernel_view(Path(site.shared)) != before, 180)
    pid = cluster.osd_pid(beside)
    os.kill(pid, signal.SIGSTOP)
    try:
        said = f"past the limit of {LIMIT_MS} ms"
        wcache.wait("the pair to be thrown away", lambda: said in wcache.history_text(), 60)
        wcache.wait("the way back", lambda: kernel_view(Path(site.shared)) == before, 60)
        shown = wcache.wait_over(campaign_id, ILL_WAIT_S + 60)
    finally:
        os.kill(pid, signal.SIGCONT)
    reasons = [run["reason"] for run in shown["run_list"]]
    print(reasons)
    assert any(f"osd.{beside} " in reason for reason in reasons), reasons
    assert kernel_view(Path(site.shared)) == before
