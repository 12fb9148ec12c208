"""The cluster of a run: three mons, two mgrs, nine OSDs on three hosts, of which one is a guest."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, Iterator, List, Mapping, Sequence

from drive_lab import network
from drive_lab.campaign import CONF as GUEST_CONF
from drive_lab.campaign import HOSTNAME as GUEST
from drive_lab.images import artefacts
from drive_lab.lab import Lab
from drive_lab.machine import MachineSpec
from drive_lab.osds import GuestOsds
from drive_lab.probe import GuestProbe
from harness import Cluster, ClusterPlan, OsdLayout, add_osd, start_cluster
from harness.processes import MARKER, kill_all
from harness.releases import ensure_release, install_packages
from harness.start import MEMORY_TARGET_BYTES
from probes import MODULE, Wcache
from rollouts.hosts import RULE
from rollouts.rig import OPTIONS, POOL
from wcache.deployment.places import caps_of
from worlds import slow_disk

from .choices import MONS, SLOW_HOST, SMALL_HOST, SMALL_MON
from .hosts import GuestHost, Host, NativeHost
from .places import SmallDisk, run, wires

RELEASE = 20
CLASS = "hot"
HOSTS: Mapping[str, Sequence[int]] = {"h1": (0, 1, 2), "h2": (3, 4, 5), "h3": (6, 7, 8)}
GUEST_DRIVES = Path(__file__).resolve().parents[1] / "drive_models" / "lab.toml"
SMALL_MIB, MON_MIB = 8, 384
LEASE_S = 8
WAIT_S = 300.0
MIB = 1 << 20
CONF = {
    "osd num cache shards": "1", "osd pool default size": "2",
    # a bin each second, so that a trial of memory need not wait for minutes
    **{
        f"bluestore cache age bins {cache}": "1 0 0 0 0 0 0 0 0 0"
        for cache in ("meta", "kv", "kv_onode", "data")
    },
    **{key: value for key, value in GUEST_CONF.items() if key.startswith("debug ")},
}
CHAOS_OPTIONS = {
    **OPTIONS, "gate_by_load": False, "latency_limit_ms": 60_000,
    "memory_floor": 896 * MIB, "memory_step_s": 1,
    # more than the OSDs have, so that a plan of memory has something to change, and a trial room
    "memory_budget": 3 * 1408 * MIB,
}
# Once something is known of the drives, which a busy machine takes longer for.
IN_ROUNDS = {"lease_ttl_s": LEASE_S, "experiment_seconds_max": 60}


@dataclass
class Stage:
    """All that a round works on."""

    cluster: Cluster
    hosts: Dict[str, Host]
    small_disk: SmallDisk
    mon_disk: SmallDisk
    slow_disk: slow_disk.SlowDisk
    _others: List[Cluster] = field(default_factory=list)

    @property
    def wcache(self) -> Wcache:
        """Its module, for the thread that plays rounds."""
        return Wcache(self.cluster)

    def another(self) -> Cluster:
        """The cluster for another thread, with a connection of its own."""
        self._others.append(Cluster.attach(self.cluster.folder))
        return self._others[-1]

    def host_of(self, osd_id: int) -> Host:
        """The host of an OSD."""
        return next(host for host in self.hosts.values() if osd_id in host.osd_ids)

    @property
    def guest(self) -> List[GuestHost]:
        """The guest, if it takes part."""
        return [host for host in self.hosts.values() if isinstance(host, GuestHost)]

    @property
    def native(self) -> List[NativeHost]:
        """The other hosts."""
        return [host for host in self.hosts.values() if isinstance(host, NativeHost)]

    def close(self) -> None:
        """End the connections of other threads."""
        for each in self._others:
            each.close_console()


def host_names(with_guest: bool) -> Dict[str, Sequence[int]]:
    """The hosts and their OSDs."""
    if not with_guest:
        return dict(HOSTS)
    # the lab numbers its OSDs from 0
    return {GUEST: (0, 1, 2), "h1": (3, 4, 5), "h2": (6, 7, 8)}


def install(with_guest: bool) -> None:
    """What is needed of the machine, while it still has its network."""
    ensure_release(RELEASE)
    install_packages(slow_disk.PACKAGES)
    if with_guest:
        artefacts.ensure(RELEASE)


@contextmanager
def staged(with_guest: bool) -> Iterator[Stage]:
    """The cluster, its module and probes at work, and drives of which something is known."""
    hosts = host_names(with_guest)
    natives = [name for name in hosts if name != GUEST]
    osds = [OsdLayout(device_class=CLASS, hostname=name) for name in natives for _ in hosts[name]]
    plan = ClusterPlan(
        release=RELEASE, folder=Path(tempfile.mkdtemp(prefix="wc.")), mons=len(MONS),
        osds=() if with_guest else osds,
        standby_mgrs=1, remote_osds=len(hosts[GUEST]) if with_guest else 0,
        address=network.HOST, own_modules=[MODULE], conf=CONF,
    )
    with ExitStack() as ended:
        cluster = ended.enter_context(start_cluster(plan))
        folder = cluster.folder
        mark = {MARKER: str(folder)}
        mon_disk = _mon_on_small_disk(cluster, ended)
        small = SmallDisk(folder / f"probe.{SMALL_HOST}", SMALL_MIB)
        ended.callback(run, "umount", "--lazy", str(small.place))
        slow = ended.enter_context(slow_disk.slow_disk(folder / "slow"))
        wired = ended.enter_context(wires(natives, mark))
        # what they hold open would keep the disks
        ended.callback(kill_all, folder)
        places = {SMALL_HOST: small.place, SLOW_HOST: slow.mount / "state"}
        guest = _guest(cluster, ended) if with_guest else None
        for layout in osds if guest else ():
            add_osd(cluster, layout)
        _pools(cluster)
        _options(cluster)
        made: Dict[str, Host] = {
            name: NativeHost(cluster, name, hosts[name], wired[name], places.get(name))
            for name in natives
        }
        if guest:
            made[GUEST] = guest
        stage = Stage(cluster, made, small, mon_disk, slow)
        ended.callback(stage.close)
        for host in made.values():
            host.start_probe()
        _know(stage)
        yield stage


def _mon_on_small_disk(cluster: Cluster, ended: ExitStack) -> SmallDisk:
    """Move a mon's store to a disk that can be filled."""
    daemon = f"mon.{SMALL_MON}"
    cluster.stop_daemon(daemon, kill=False)
    place = cluster.folder / daemon
    aside = cluster.folder / "mon-aside"
    place.rename(aside)
    disk = SmallDisk(place, MON_MIB)
    ended.callback(run, "umount", "--lazy", str(place))
    run("cp", "-a", f"{aside}/.", str(place))
    run("rm", "-r", str(aside))
    cluster.start_daemon(daemon)
    return disk


def _pools(cluster: Cluster) -> None:
    """Hosts are the failure domain, and there is something to move when an OSD leaves."""
    cluster.command("osd crush rule create-replicated", name=RULE, root="default", type="host")
    cluster.command(
        "osd pool create", pool=POOL, pg_num=32, pgp_num=32, pool_type="replicated", rule=RULE
    )
    cluster.command("osd pool application enable", pool=POOL, app="test")
    for row in cluster.command("osd lspools"):
        cluster.command("osd pool set", pool=row["poolname"], var="crush_rule", val=RULE)
    cluster.command("balancer off", target="mgr")
    _set(cluster, f"osd/class:{CLASS}", "osd_memory_target", 1024 * MIB)


def _options(cluster: Cluster) -> None:
    cluster.enable_module("wcache")
    for name, value in CHAOS_OPTIONS.items():
        _set(cluster, "mgr", f"mgr/wcache/{name}", value)
    wcache = Wcache(cluster)
    wcache.wait("the module", lambda: wcache("status"), WAIT_S)


def _set(cluster: Cluster, who: str, name: str, value: object) -> None:
    cluster.command("config set", who=who, name=name, value=str(value).lower())


def _guest(cluster: Cluster, ended: ExitStack) -> GuestHost:
    lab = ended.enter_context(Lab(GUEST_DRIVES, release=RELEASE, machine=MachineSpec(
        tap=network.TAP, hostname=GUEST, memory_mib=1024 + 3 * (MEMORY_TARGET_BYTES >> 20),
    )))
    osds = GuestOsds(lab, cluster, address=network.GUEST)
    osds.create()
    osds.wait_up()
    keyring = cluster.auth_key(f"client.wcache.{GUEST}", **caps_of(GUEST))
    probe = GuestProbe(lab, GUEST, keyring)
    probe.prepare()
    return GuestHost(lab, osds, probe)


def _know(stage: Stage) -> None:
    """Wait for reports, write objects, and measure each class once, so that plans have content."""
    wcache, cluster = stage.wcache, stage.cluster
    wcache.wait("the reports", lambda: (
        {row["hostname"] for row in wcache("drive ls")["drives"]} == set(stage.hosts)
    ), WAIT_S)
    cluster.wait_healthy(WAIT_S)
    cluster.run_inside(
        ["rados", "-p", POOL, "bench", "3", "write", "-b", "65536", "--no-cleanup"], timeout_s=120
    )
    asked = {CLASS: {"scope": f"class:{CLASS}", "drives_per_model": 2}}
    for guest in stage.guest:
        asked["hdd"] = {"scope": f"osd.{guest.osd_ids[0]}"}
    for device_class, arguments in asked.items():
        try:
            wcache.decide(device_class, loads="depth1", seed=7, **arguments)
        except AssertionError as error:
            print(f"no rollouts of class {device_class}: {str(error)[:200]}", flush=True)
    for name, value in IN_ROUNDS.items():
        _set(cluster, "mgr", f"mgr/wcache/{name}", value)
