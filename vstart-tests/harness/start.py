"""Starting a test cluster: mons, mgrs and BlueStore OSDs, healthy within seconds.

The order is for speed.  All keys exist before the mon does, the OSDs' stores are made while
the mon and the mgr start, and commands go over one connection.
"""

from __future__ import annotations

import socket
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

from . import config, modules
from .access import PROJECT
from .cluster import Cluster
from .errors import HarnessError
from .osds import OsdLayout, attach_devices, making_store, start_made
from .processes import wait_until
from .releases import cache_lock, ensure_release, find_release
from .roots import Root

MON_TIMEOUT_S = 30.0
HEALTHY_TIMEOUT_S = 120.0
# What each OSD of a test may use: the least that Ceph takes (global.yaml.in, osd_memory_target).
# With Ceph's default of 4 GiB a few OSDs are given more than a machine has that does other things
# beside, and the module says so (WCACHE_MEMORY_OVERCOMMIT).
MEMORY_TARGET, MEMORY_TARGET_BYTES = "osd_memory_target", 896 << 20

# Every kind of layout that BlueStore has: alone, with db and wal, with db.
THREE_OSDS = (
    OsdLayout(("block",), "hdd"),
    OsdLayout(("block", "db", "wal"), "hdd"),
    OsdLayout(("block", "db"), "ssd"),
)


@dataclass(frozen=True)
class ClusterPlan:
    """What to start.  The defaults are what most tests want."""

    release: int = 20
    folder: Optional[Path] = None  # None: a new one under /tmp
    osds: Sequence[OsdLayout] = THREE_OSDS
    # OSDs of another host: `osd new` gives them ids after ours, and they have keyrings in
    # `osd.N` of the folder.  Whoever starts them waits for them: start_cluster does not.
    remote_osds: int = 0
    # Where the daemons listen; loopback serves everything but OSDs of another host.
    address: str = config.ADDRESS
    mons: int = 1
    standby_mgrs: int = 0
    # Module folders of ours; None: the project's module, once it is there.
    own_modules: Optional[Sequence[Path]] = None
    # Modules of the release beyond those that are always on ("prometheus", "dashboard").
    packaged_modules: Sequence[str] = ()
    conf: Mapping[str, str] = field(default_factory=dict)
    native_allowed: bool = True
    # Where the release is installed already, beside the cached roots.
    root: Optional[Root] = None


def start_cluster(plan: ClusterPlan) -> Cluster:
    """Install the release if need be, start a cluster, wait for HEALTH_OK.

    The cluster stops with this process unless `leave_running` is called.  When anything
    fails, or on Ctrl-C, what was started is removed before the exception goes on.
    """
    root = plan.root or ensure_release(plan.release, native_allowed=plan.native_allowed)
    names = [chr(ord("x") + index) for index in range(plan.standby_mgrs + 1)]
    cluster = Cluster.create(plan.folder, root, names)
    try:
        cluster.guard()
        _Starter(cluster, plan).run()
    except BaseException:
        cluster.stop()
        raise
    return cluster


def project_modules() -> List[Path]:
    """The project's mgr module, or nothing while it cannot be loaded."""
    module = PROJECT / "mgr_module" / "wcache"
    return [module] if (module / "module.py").is_file() else []


class _Starter:
    """The steps, each on what the one before left in the folder."""

    def __init__(self, cluster: Cluster, plan: ClusterPlan) -> None:
        self.cluster = cluster
        self.plan = plan
        self.folder = cluster.folder
        self.fsid = str(uuid.uuid4())
        self.osd_uuids = [str(uuid.uuid4()) for _ in range(len(plan.osds) + plan.remote_osds)]
        self.first_port = 0
        self.mon_names = [chr(ord("a") + index) for index in range(plan.mons)]

    def run(self) -> None:
        for name in ("log", "crash", *(f"mon.{name}" for name in self.mon_names)):
            (self.folder / name).mkdir()
        own = self.plan.own_modules
        modules.fill_module_folder(
            self.cluster.module_folder,
            self.cluster.root,
            project_modules() if own is None else own,
            packaged_too=self.plan.packaged_modules,
            with_bcrypt=find_release(self.plan.release).bcrypt_breaks_modules,
        )
        self._write_keyrings()
        for osd_id, layout in enumerate(self.plan.osds):
            attach_devices(self.cluster, osd_id, layout)
        # Held until the mon listens: the next to choose must see our window taken.
        with cache_lock("ports"):
            self._write_conf()
            stores = [
                making_store(self.cluster, osd_id, self.osd_uuids[osd_id])
                for osd_id in range(len(self.plan.osds))
            ]
            self._start_mons()
        for name in self.cluster.mgr_names:
            self.cluster.start_daemon(f"mgr.{name}")
        # in the config database, where a test's own value for an OSD or a class goes before it
        self.cluster.command(
            "config set", who="osd", name=MEMORY_TARGET, value=str(MEMORY_TARGET_BYTES)
        )
        for osd_id, osd_uuid in enumerate(self.osd_uuids):
            self.cluster.command("osd new", uuid=osd_uuid, id=osd_id)
        for osd_id, store in enumerate(stores):
            start_made(self.cluster, osd_id, store)
        self._wait()

    def _write_keyrings(self) -> None:
        caps = config.caps_of(self.cluster.mgr_names, range(len(self.osd_uuids)))
        # The release makes them itself: 20 knows a new type of key and refuses the old one.
        # Nothing is there yet for the program to read, and it wants to read no ceph.conf.
        script = "for each do ceph-authtool --gen-print-key; done"
        keys = self.cluster.run_inside(
            ["/bin/sh", "-ec", script, "keys", *caps], env={"CEPH_CONF": "/dev/null"}
        ).stdout.split()
        config.write_all_keyrings(self.folder, caps, keys)

    def _write_conf(self) -> None:
        address = self.plan.address
        self.first_port = config.choose_ports(address)
        text = config.ceph_conf(
            self.folder, self.fsid, address, self.first_port, self.plan.mons, self.plan.conf
        )
        self.cluster.conf.write_text(text, encoding="utf-8")

    def _start_mons(self) -> None:
        monmap = str(self.folder / "monmap")
        address = self.plan.address
        words = ["monmaptool", "--create", "--fsid", self.fsid]
        for index, name in enumerate(self.mon_names):
            words += ["--addv", name, config.mon_addresses(address, self.first_port, index)]
        self.cluster.run_inside([*words, monmap])
        for name in self.mon_names:
            self.cluster.run_inside(
                [
                    "ceph-mon", "--mkfs", "-i", name, "-c", str(self.cluster.conf),
                    "--monmap", monmap, "--keyring", str(self.folder / "mon.keyring"),
                ]
            )  # fmt: skip
            self.cluster.start_daemon(f"mon.{name}")

        def silent() -> List[str]:
            found = []
            for index, name in enumerate(self.mon_names):
                with socket.socket() as client:
                    client.settimeout(1)
                    if client.connect_ex((address, self.first_port + 2 * index)) != 0:
                        found.append(f"mon.{name}")
            return found

        if not wait_until(lambda: not silent(), MON_TIMEOUT_S):
            tails = "\n".join(map(self.cluster.log_tail, silent()))
            raise HarnessError(f"{', '.join(silent())} does not listen:\n{tails}")

    def _wait(self) -> None:
        """Wait for every daemon, the mgr's own pool, and health."""
        expected = len(self.plan.osds)

        def complete() -> bool:
            status: Dict[str, Dict[str, Any]] = self.cluster.command("status")
            return (
                status["osdmap"]["num_up_osds"] == expected
                and bool(status["mgrmap"]["available"])
                and status["mgrmap"]["num_standbys"] == self.plan.standby_mgrs
                # the mgr makes its pool when there are OSDs
                and (status["pgmap"]["num_pools"] > 0 or not expected)
            )

        if not wait_until(complete, HEALTHY_TIMEOUT_S, 0.1):
            status = self.cluster.ceph("status", check=False).stdout
            raise HarnessError(f"not complete in {HEALTHY_TIMEOUT_S:.0f} s:\n{status}")
        if not self.plan.remote_osds:
            self.cluster.wait_healthy(HEALTHY_TIMEOUT_S)
