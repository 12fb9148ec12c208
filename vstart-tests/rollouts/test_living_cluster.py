"""wcache beside what is always wrong somewhere.

Class `hot` is in order, and is worked on.  Of class `cold` one OSD is dead, so that the others
miss copies.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, Sequence

import pytest
from harness import ClusterPlan, CommandError, OsdLayout, start_cluster
from probes import MODULE
from rollouts.hosts import Hosts, Layout, Witness
from rollouts.rig import OPTIONS

pytestmark = [pytest.mark.cluster, pytest.mark.one_release]

HOT, COLD = "hot", "cold"
ONES: Layout = {"h1": (0,), "h2": (1,), "h3": (2,)}
WORK = {**OPTIONS, "gate_by_load": False, "latency_limit_ms": 60_000}
HOT_PGS, COLD_PGS = 32, 4
PATIENCE_S = 1500.0
BENCH = ("-b", "4096", "-t", "16", "--no-cleanup")


class Living(Hosts):
    """The cluster; of `cold` the first OSD is to die, and the others then miss copies."""

    def __init__(self, cluster: Any, hosts: Layout, cold: Sequence[int]) -> None:
        super().__init__(cluster, hosts)
        self.dead, *self.ill = cold
        self.hot = [osd_id for osd_id in self.osd_ids if osd_id not in cold]

    def pool(self, name: str, device_class: str, size: int, pgs: int) -> None:
        """A pool of one device class, with something in it."""
        ceph = self.cluster.ceph
        ceph("osd", "pool", "create", name, str(pgs), str(pgs), "replicated", device_class)
        ceph("osd", "pool", "set", name, "size", str(size), "--yes-i-really-mean-it")
        ceph("osd", "pool", "set", name, "min_size", "1")
        ceph("osd", "pool", "application", "enable", name, "test")
        self.cluster.wait_clean()
        self.write(name, 1)

    def write(self, pool: str, seconds: int) -> None:
        """Objects in a pool."""
        self.cluster.run_inside(["rados", "-p", pool, "bench", str(seconds), "write", *BENCH])

    def kill(self) -> None:
        """The OSD that is down from now on; others miss its copies."""
        self.cluster.stop_osd(self.dead, kill=True)
        self.wcache.wait("missing copies", lambda: (
            {"OSD_DOWN", "PG_DEGRADED"} <= self.cluster.health_checks()
        ), 60)


@contextmanager
def living(release: int, hosts: Layout, cold: Sequence[int], copies: int) -> Iterator[Living]:
    """Hosts with OSDs of both classes, whose pools are each of one class; all is well yet."""
    osds = [
        OsdLayout(device_class=COLD if osd_id in cold else HOT, hostname=name)
        for name, osd_ids in hosts.items() for osd_id in osd_ids
    ]
    conf = {"mon allow pool size one": "true", "osd pool default size": str(copies)}
    with start_cluster(ClusterPlan(release=release, osds=osds, conf=conf)) as cluster:
        for name in (HOT, COLD):
            cluster.ceph("osd", "crush", "rule", "create-replicated", name, "default", "host", name)
        for pool in cluster.ceph("osd", "pool", "ls").stdout.split():
            cluster.ceph("osd", "pool", "set", pool, "crush_rule", HOT)
        cluster.ceph("balancer", "off")
        cluster.install_module(MODULE)
        cluster.enable_module("wcache")
        rig = Living(cluster, hosts, cold)
        for option, value in WORK.items():
            rig.wcache.option(option, value)
        rig.wcache.wait("the module", lambda: rig.wcache("status"), 60)
        for probe in rig.probes.values():
            probe.start()
        rig.pool(HOT, HOT, copies, HOT_PGS)
        rig.pool(COLD, COLD, 2, COLD_PGS)
        rig.wcache.wait("the reports", lambda: (
            {row["hostname"] for row in rig.wcache("drive ls")["drives"]} == set(hosts)
        ), 60)
        cluster.wait_healthy(120)
        try:
            yield rig
        finally:
            for probe in rig.probes.values():
                probe.kill()


def made_by(witness: Witness) -> List[int]:
    """The OSDs whose drives were put into write through, by when each was for the last time."""
    last = {osd_id: at_s for at_s, osd_id in witness.made}
    return sorted(last, key=last.__getitem__)


def carried_out(rig: Living) -> Dict[str, Any]:
    """Plan what is recommended for `hot` and apply it, to the end."""
    shown = rig.end(rig.begin(rig.plan(scope=f"class:{HOT}")), PATIENCE_S)
    assert shown["status"] == "done", shown
    assert rig.changed() == set(rig.hot)
    return shown


def verdicts(shown: Dict[str, Any]) -> Dict[int, str]:
    """By OSD what a campaign has decided of its drive."""
    return {result["osd_id"]: result["verdict"] for result in shown["results"]}


@pytest.fixture
def three(release: int) -> Iterator[Living]:
    """An OSD of class `hot`, and two of class `cold`, each on a host of its own."""
    with living(release, ONES, cold=(2, 1), copies=1) as rig:
        yield rig


def test_a_class_in_order_is_measured_and_changed_beside_one_that_misses_copies(three: Living):
    rig, wcache = three, three.wcache
    (ill,) = rig.ill
    witness = Witness(rig)
    with witness.looking():
        rig.kill()
        shown = wcache.decide(HOT, scope="cluster", loads="depth1", seed=7)
        assert set(verdicts(shown)) == set(rig.hot)
        # those that are passed over are named, with the reason
        for osd_id in (ill, rig.dead):
            assert any(f"osd.{osd_id} " in line for line in shown["skipped"]), shown["skipped"]
        with pytest.raises(CommandError, match=rf"osd\.{ill}\b"):
            wcache("campaign start", scope=f"osd.{ill}", loads="depth1", accept_cost=True)
        carried_out(rig)
    assert made_by(witness) == rig.hot
    assert {"OSD_DOWN", "PG_DEGRADED"} <= rig.cluster.health_checks()
