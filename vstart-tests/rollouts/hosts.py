"""OSDs on three hosts, each with a probe of its own; hosts are the failure domain."""

from __future__ import annotations

import shutil
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator, List, Mapping, Sequence, Set, Tuple

from harness import Cluster, ClusterPlan, OsdLayout, start_cluster
from probes import MODULE, Probe, Wcache
from rollouts.rig import OPTIONS, POOL, Rig

BACK, THROUGH = "write back", "write through"
CLASS = "hdd"
Layout = Mapping[str, Tuple[int, ...]]
HOSTS: Layout = {"h1": (0, 1), "h2": (2, 3), "h3": (4,)}
RULE = "by-host"
# No two steps of a rollout are nearer to each other: each is let settle for so long.
SETTLE_S = 2.0
LOOK_S = 0.005
UNJUDGED = ("applying", "made, not judged yet")
HOST_OPTIONS = {
    **OPTIONS, "gate_by_load": False, "gate_block_s": 0.5, "settle_s": SETTLE_S,
    "canary_wait_s": 6.0, "lease_ttl_s": 4.0,
    # clients beside a bench, on a busy machine: the limit has tests of its own
    "latency_limit_ms": 60_000,
}


class Hosts(Rig):
    """The cluster with its hosts.  `self.probe` is that of the first one."""

    def __init__(self, cluster: Cluster, hosts: Layout) -> None:
        super().__init__(cluster)
        self.hosts = hosts
        self.osd_ids = [osd_id for osd_ids in hosts.values() for osd_id in osd_ids]
        self.probes = {
            name: Probe(self.cluster, name, osd_data=f"osd.[{''.join(map(str, osd_ids))}]")
            for name, osd_ids in hosts.items()
        }
        self.probe = self.probes["h1"]
        self.by_hand: List[Tuple[float, int]] = []

    def host_of(self, osd_id: int) -> str:
        """The host of an OSD."""
        return next(name for name, osd_ids in self.hosts.items() if osd_id in osd_ids)

    def switch(self, osd_id: int, mode: str) -> None:
        """Change a drive's mode by hand, as another admin would."""
        self.by_hand.append((time.monotonic(), osd_id))
        path = Path(f"/sys/block/{self.device(osd_id).name}/queue/write_cache")
        path.write_text(mode)

    def reset(self, hostname: str) -> None:
        """The host loses its power: nothing runs, drives are as at power-on, /run is empty."""
        probe = self.probes[hostname]
        devices = {osd_id: self.device(osd_id) for osd_id in self.hosts[hostname]}
        probe.kill()
        for osd_id in devices:
            self.cluster.stop_osd(osd_id, kill=True, wait=False)
        for device in devices.values():
            Path(f"/sys/block/{device.name}/queue/write_cache").write_text(BACK)
        shutil.rmtree(probe.state_dir / "run", ignore_errors=True)
        probe.start()
        for osd_id in devices:
            self.cluster.wait_osd_up(osd_id, up=False)
            self.cluster.start_osd(osd_id)

    def as_recorded(self, plan_id: str) -> None:
        """Each drive is in the mode that the plan's record says."""
        for change in self.changes(plan_id):
            kept = change["status"] in ("applied", "unchanged", UNJUDGED[1])
            said = THROUGH if kept else BACK
            now = self.mode(change["osd_id"])
            assert now == said, f"osd.{change['osd_id']} is in {now}: {change}"


class Unjudged:
    """Which hosts have a change that is not judged, by a plan's record, and by its drives."""

    def __init__(self, rig: Hosts) -> None:
        self._rig = rig
        self._seen: Set[Tuple[str, ...]] = set()

    def look(self, plan_id: str) -> None:
        """What the record says now."""
        found = {c["hostname"] for c in self._rig.changes(plan_id) if c["status"] in UNJUDGED}
        self._seen.add(tuple(sorted(found)))

    def one_host_at_a_time(self, made: Sequence[Tuple[float, int]]) -> None:
        """No drive was changed while one of another host was not judged yet."""
        assert all(len(hosts) <= 1 for hosts in self._seen), self._seen
        hands = self._rig.by_hand
        ours = [
            (at_s, osd_id) for at_s, osd_id in made
            if not any(osd_id == other and 0 <= at_s - hand_s < 1 for hand_s, other in hands)
        ]
        for (one_s, one), (other_s, other) in zip(ours, ours[1:]):
            near = other_s - one_s < SETTLE_S - 2 * LOOK_S
            assert self._rig.host_of(one) == self._rig.host_of(other) or not near, ours


class Witness:
    """Looks at the drives themselves, all the time: when was which one put into write through."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._files = {
            osd_id: Path(f"/sys/block/{rig.device(osd_id).name}/queue/write_cache")
            for osd_id in rig.osd_ids
        }
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self.made: List[Tuple[float, int]] = []

    def _look(self) -> None:
        before = {osd_id: file.read_text() for osd_id, file in self._files.items()}
        while not self._over.wait(LOOK_S):
            for osd_id, file in self._files.items():
                mode = file.read_text()
                if mode != before[osd_id] and mode.strip() == THROUGH:
                    self.made.append((time.monotonic(), osd_id))
                before[osd_id] = mode

    @contextmanager
    def looking(self) -> Iterator[None]:
        """While the block runs."""
        self._thread.start()
        try:
            yield
        finally:
            self._over.set()
            self._thread.join()


@contextmanager
def hosts_started(
    release: int, hosts: Layout = HOSTS, options: Mapping[str, Any] = HOST_OPTIONS
) -> Iterator[Hosts]:
    """Hosts with drives of one drive model in write back, of which one was measured."""
    osds = tuple(
        OsdLayout(device_class=CLASS, hostname=name) for name in hosts for _ in hosts[name]
    )
    plan = ClusterPlan(release=release, osds=osds, standby_mgrs=1)
    with start_cluster(plan) as cluster:
        cluster.ceph("osd", "crush", "rule", "create-replicated", RULE, "default", "host")
        cluster.ceph("osd", "pool", "create", POOL, "32", "32", "replicated", RULE)
        cluster.ceph("osd", "pool", "application", "enable", POOL, "test")
        for pool in cluster.ceph("osd", "pool", "ls").stdout.split():
            cluster.ceph("osd", "pool", "set", pool, "crush_rule", RULE)
        cluster.install_module(MODULE)
        cluster.enable_module("wcache")
        wcache = Wcache(cluster)
        for name, value in {**options, "settle_s": 0.1}.items():
            wcache.option(name, value)
        wcache.wait("the module", lambda: wcache("status"), 60)
        rig = Hosts(cluster, hosts)
        for probe in rig.probes.values():
            probe.start()
        # each sees the drives of all, since they share a machine; one host's word counts for each
        wcache.wait(
            "the reports",
            lambda: {row["hostname"] for row in wcache("drive ls")["drives"]} == set(hosts), 60,
        )
        cluster.wait_healthy(120)
        # a verdict needs the word of two of its hosts
        wcache.decide(CLASS, scope=f"class:{CLASS}", loads="depth1", drives_per_model=2, seed=7)
        assert wcache.advice(CLASS)["mode"] == THROUGH
        wcache.option("settle_s", options["settle_s"])
        try:
            yield rig
        finally:
            for probe in rig.probes.values():
                probe.kill()
