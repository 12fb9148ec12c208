"""Clients on the host side: 4 KiB writes to OSDs, as deep as the drive file says.

Each device class has a pool of its own: clients of all OSDs together would wait for the
slowest one most of the time and leave the others idle; and the guest's processors, which
KVM does not help, are for the OSDs that are being measured.
"""

from __future__ import annotations

import subprocess
from typing import Sequence

from harness import Cluster
from wcache.core.model import Role
from wcache_sim.placement import PlacedDrive, osd_roles

POOL = "clients"
PGS = 8
SECONDS_MAX = 3600


class Clients:
    """One `rados bench` for each device class of a cluster."""

    def __init__(self, cluster: Cluster, drives: Sequence[PlacedDrive], depth: int) -> None:
        """``depth`` is the writes under way for each OSD."""
        self._cluster = cluster
        self._depth = depth
        roles = osd_roles(tuple(drives)).values()
        classes = [by_role[Role.BLOCK].device_class for by_role in roles]
        self._osds_of = {each: classes.count(each) for each in sorted(set(classes))}
        self.device_classes = list(self._osds_of)
        self._running: list[subprocess.Popen[bytes]] = []

    def make_pool(self, device_class: str) -> None:
        """A pool on the OSDs of a device class."""
        rule = ("create-replicated", device_class, "default", "osd", device_class)
        self._cluster.ceph("osd", "crush", "rule", *rule)
        pool, pgs = f"{POOL}-{device_class}", str(PGS)
        self._cluster.ceph("osd", "pool", "create", pool, pgs, pgs, "replicated", device_class)
        self._cluster.ceph("osd", "pool", "application", "enable", pool, "rados")

    def command(self, device_class: str) -> list[str]:
        """What writes to the OSDs of a device class, as an admin would type it."""
        return [
            "rados", "-p", f"{POOL}-{device_class}", "bench", str(SECONDS_MAX), "write",
            "-b", "4096", "-t", str(self._depth * self._osds_of[device_class]), "--no-cleanup",
        ]  # fmt: skip

    def start(self, device_class: str) -> None:
        """Write to the OSDs of a device class until `stop`."""
        process = self._cluster.popen_inside(
            self.command(device_class),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self._running.append(process)

    def stop(self) -> None:
        """End all writers; harmless when there are none."""
        while self._running:
            process = self._running.pop()
            process.kill()
            process.wait(timeout=20)
