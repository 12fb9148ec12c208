"""A cluster whose rollouts are judged by its clients: five OSDs of one drive model."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Sequence, Set

from harness import Cluster, ClusterPlan, CommandError, OsdLayout, start_cluster
from probes import MODULE, Probe, Wcache, kernel_view

HDD = OsdLayout(device_class="hdd")
OSDS = 5
POOL, OBJECTS = "wcache-clients", 4096
OPTIONS = {
    "throwaway_cluster": True, "poll_idle_s": 0.3, "settle_s": 0.1, "period_s": 1.0,
    "canary_wait_s": 1.0, "traffic_commits_min": 4, "lease_ttl_s": 30,
}


class Rig:
    """The cluster with its module, its probe and its clients."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.wcache = Wcache(cluster)
        self.probe = Probe(cluster)
        self.osd_ids: Sequence[int] = range(OSDS)

    def device(self, osd_id: int) -> Path:
        """The loop device of an OSD."""
        return Path(self.cluster.osd_devices(osd_id)["block"])

    def mode(self, osd_id: int) -> str:
        """The cache mode of an OSD's drive now."""
        return kernel_view(self.device(osd_id))

    def changed(self) -> Set[int]:
        """The OSDs in write through."""
        return {osd_id for osd_id in self.osd_ids if self.mode(osd_id) == "write through"}

    @contextmanager
    def clients(self, depth: int) -> Iterator[None]:
        """Clients that keep so many small writes in flight, to objects on all OSDs."""
        cluster = self.cluster
        script = cluster.project / "vstart-tests/worlds/writes_inside.py"
        process = cluster.popen_inside(
            [cluster.python_inside, str(script), str(cluster.conf), POOL, str(OBJECTS),
             str(depth)],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        try:
            yield
        finally:
            process.kill()
            process.wait()

    @contextmanager
    def options(self, **values: Any) -> Iterator[None]:
        """The module's options for a while; afterwards those of this rig."""
        for name, value in values.items():
            self.wcache.option(name, value)
        yield
        for name in values:
            if name in OPTIONS:
                self.wcache.option(name, OPTIONS[name])
            else:
                self.cluster.ceph("config", "rm", "mgr", f"mgr/wcache/{name}")

    def plan(self, **scope: Any) -> str:
        """A plan; fails where nothing would be changed."""
        planned = self.wcache("plan", **scope)
        assert planned["plan_id"], planned["left_alone"]
        return str(planned["plan_id"])

    def begin(self, plan_id: str) -> str:
        """Apply a plan, once the mgr knows that all is well."""
        def begun() -> bool:
            try:
                return bool(self.wcache("apply", plan_id=plan_id)["changed"])
            except CommandError as refusal:
                if "preconditions not met" not in str(refusal):
                    raise
                return False

        self.wcache.wait("the plan to begin", begun, 120)
        return plan_id

    def shown(self, plan_id: str) -> Dict[str, Any]:
        """`rollout show`."""
        shown: Dict[str, Any] = self.wcache("rollout show", plan_id=plan_id)
        return shown

    def changes(self, plan_id: str) -> List[Dict[str, Any]]:
        """The changes of a plan, in order."""
        changes: List[Dict[str, Any]] = self.wcache("plan show", plan_id=plan_id)["changes"]
        return changes

    def phase(self, plan_id: str) -> str:
        """What a rollout waits for."""
        return str(self.shown(plan_id)["step"]["phase"])

    def wait_phase(self, plan_id: str, phase: str, applied: int = 0) -> None:
        """Until so many changes are judged, and the next is in this phase."""
        def there() -> bool:
            shown = self.shown(plan_id)
            assert shown["status"] in ("running", "rolling back"), shown
            return bool(shown["step"]["phase"] == phase and shown["applied"] >= applied)

        self.wcache.wait(f"{plan_id} to be {phase}", there, 300)

    def end(
        self, plan_id: str, timeout_s: float = 600.0, meanwhile: Callable[[], Any] = bool
    ) -> Dict[str, Any]:
        """Until it is over or paused."""
        def over() -> bool:
            meanwhile()
            return self.shown(plan_id)["status"] not in ("running", "rolling back")

        self.wcache.wait(f"the end of {plan_id}", over, timeout_s)
        return self.shown(plan_id)

    def all_back(self) -> None:
        """Every plan that still stands is rolled back, newest first."""
        begun = [r for r in self.wcache("plan ls")["plans"] if r["status"] != "planned"]
        for row in reversed(begun):
            self.wcache("rollback", plan_id=row["plan_id"])
            self.end(row["plan_id"])


@contextmanager
def started(release: int) -> Iterator[Rig]:
    """Five OSDs of one drive model in write back, of which one was measured."""
    with start_cluster(ClusterPlan(release=release, osds=(HDD,) * OSDS)) as cluster:
        cluster.wait_healthy(120)
        cluster.install_module(MODULE)
        cluster.enable_module("wcache")
        rig = Rig(cluster)
        for name, value in OPTIONS.items():
            rig.wcache.option(name, value)
        rig.wcache.wait("the module", lambda: rig.wcache("status"), 60)
        rig.probe.start()
        rig.wcache.wait("the probe's report", lambda: rig.wcache("drive ls")["drives"], 60)
        rig.wcache.decide("hdd", scope="osd.0", loads="depth1", seed=7)
        assert rig.wcache.advice("hdd")["mode"] == "write through"
        # or it moves PGs under the clients, and nothing is measured until they have moved
        cluster.ceph("balancer", "off")
        cluster.ceph("osd", "pool", "create", POOL, "32")
        cluster.ceph("osd", "pool", "application", "enable", POOL, "test")
        cluster.wait_healthy(120)
        try:
            yield rig
        finally:
            rig.probe.stop()
