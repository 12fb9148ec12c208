"""A cluster under `ceph wcache auto apply` that grows: its drives tell models by `named_loops`."""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, FrozenSet, Iterator, List

from harness import ClusterPlan, OsdLayout, add_osd, start_cluster
from probes import MODULE, Probe, Wcache
from rollouts.rig import OPTIONS, Rig

CLASS, OTHER_CLASS = "hdd", "ssd"
KNOWN, UNKNOWN = "HD-KNOWN", "HD-UNKNOWN"
POOL, RULE = "grows", "by-host"
HOSTS = ("h1", "h2", "h3")
QUIET_S = 60.0  # most of what has to move has moved by then
# It looks every 5 s; what is under way is looked at when it has ended.
GROWTH_OPTIONS = {
    **OPTIONS, "gate_by_load": False, "auto_quiet_s": QUIET_S, "drives_per_model": 1,
    "latency_limit_ms": 60_000,
}


class NamedProbe(Probe):
    """A probe whose loop devices tell the drive models of a file."""

    @property
    def models(self) -> Path:
        """The file; see `named_loops`."""
        return self.cluster.folder / "models.json"

    def environment(self) -> Dict[str, str]:
        """Where the program of these tests is, too."""
        path = super().environment()["PYTHONPATH"]
        return {"PYTHONPATH": f"{path}:{self.cluster.project}/vstart-tests"}

    def _argv(self, *words: str) -> List[str]:
        program = [self.cluster.python_inside, "-m", "rollouts.named_loops", str(self.models)]
        return [*program, *words]


class Growing(Rig):
    """The cluster, its three probes, and what may be added."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.models: Dict[str, str] = {}
        self.hosts: Dict[int, str] = {}
        self.probes = [NamedProbe(self.cluster, name, osd_data="osd.none") for name in HOSTS]

    def name_drive(self, osd_id: int, hostname: str, model: str) -> None:
        """Which drive model an OSD's drive tells; before a probe looks at it."""
        image = self.cluster.folder / f"osd.{osd_id}" / "block.img"
        self.models[str(image.stat().st_ino)] = model
        self.hosts[osd_id] = hostname
        self.osd_ids = sorted(self.hosts)
        self.probes[0].models.write_text(json.dumps(self.models), encoding="utf-8")

    def host_of(self, osd_id: int) -> str:
        """The host of an OSD."""
        return self.hosts[osd_id]

    def fill(self) -> None:
        """Objects, so that there is something to move when the cluster grows."""
        self.cluster.run_inside(
            ["rados", "-p", POOL, "bench", "2", "write", "-b", "65536", "--no-cleanup"]
        )

    def add(self, hostname: str, model: str) -> int:
        """An OSD on a drive of that model joins the cluster."""
        layout = OsdLayout(device_class=CLASS, hostname=hostname)
        return add_osd(
            self.cluster, layout, lambda osd_id: self.name_drive(osd_id, hostname, model)
        )

    def status(self) -> Dict[str, Any]:
        """`auto status`."""
        status: Dict[str, Any] = self.wcache("auto status")
        return status

    def campaigns(self) -> FrozenSet[str]:
        """All campaigns so far."""
        return frozenset(c["campaign_id"] for c in self.wcache("campaign ls")["campaigns"])

    def plans(self) -> FrozenSet[str]:
        """All plans that were begun so far."""
        rows = self.wcache("plan ls")["plans"]
        return frozenset(row["plan_id"] for row in rows if row["status"] != "planned")


@contextmanager
def growing(release: int) -> Iterator[Growing]:
    """Two OSDs of a drive model that was measured, and two of another class on other hosts."""
    osds = (
        *(OsdLayout(device_class=CLASS, hostname=HOSTS[0]) for _ in range(2)),
        *(OsdLayout(device_class=OTHER_CLASS, hostname=name) for name in HOSTS[1:]),
    )
    with start_cluster(ClusterPlan(release=release, osds=osds)) as cluster:
        cluster.ceph("osd", "crush", "rule", "create-replicated", RULE, "default", "host")
        cluster.ceph("osd", "pool", "create", POOL, "32", "32", "replicated", RULE)
        cluster.ceph("osd", "pool", "application", "enable", POOL, "test")
        cluster.install_module(MODULE)
        cluster.enable_module("wcache")
        wcache = Wcache(cluster)
        for name, value in GROWTH_OPTIONS.items():
            wcache.option(name, value)
        wcache.wait("the module", lambda: wcache("status"), 60)
        rig = Growing(cluster)
        for osd_id, layout in enumerate(osds):
            rig.name_drive(osd_id, layout.hostname, KNOWN)
        for probe in rig.probes:
            probe.start()
        wcache.wait(
            "the reports",
            lambda: {row["hostname"] for row in wcache("drive ls")["drives"]} == set(HOSTS), 60,
        )
        cluster.wait_healthy(120)
        wcache.decide(CLASS, scope="osd.0", loads="depth1", seed=7)
        try:
            yield rig
        finally:
            for probe in rig.probes:
                probe.kill()
