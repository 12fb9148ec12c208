"""A Ceph that cephadm deploys over machines of this rig, and takes away without a trace."""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, Mapping, Optional, Sequence, Tuple

from harness import loops
from harness.access import PROJECT, ClusterAccess
from harness.errors import HarnessError, NotPossible
from harness.processes import wait_until
from harness.start import MEMORY_TARGET, MEMORY_TARGET_BYTES

from .images import Images, ensure_images
from .keeper import Keeper, keeper_of, remove
from .machine import Machine

PREFIX = "wcr."  # of the folders of rigs
STATE_FILE = "rig.json"
NETWORK = "10.77.0"
GATEWAY = f"{NETWORK}.1"
DRIVE_BYTES = 6 << 30
# Of the machine's RAM, with what the autotuner takes off for other daemons: 6.2 GiB on the first
# host, where there are two.  By default it shares out 0.7 of it.
TUNED_BYTES, TUNED_SHARE_MAX = 15 << 29, 0.7
MGRS = 2  # cephadm deploys no active mgr anew: another one has to take over before
FORGOTTEN_S = 60.0  # a rig's folder of that age has a keeper, or is left over
BOOTSTRAP_TIMEOUT_S = 240.0
OSDS_TIMEOUT_S = 300.0
READY_TIMEOUT_S = 240.0
CONF = "/etc/ceph/ceph.conf"
# A copy of the admin's /etc/ceph: cephadm takes the key off a host that it does not reach in time,
# as on a machine that is very busy, and brings it again later.
ADMIN = "/root/etc-ceph"
# A `ceph` where none is installed, as admins of cephadm have it; files are named from here.
CEPH = """#!/bin/sh
exec podman run -i --rm --net=host --log-driver=none --entrypoint ceph \\
    -v {admin}:/etc/ceph:ro -v "$PWD:$PWD" -w "$PWD" {image} "$@"
"""


@dataclass(frozen=True)
class CephadmPlan:
    """What to start."""

    hosts: int = 2
    osds_per_host: int = 1
    release: int = 20
    folder: Optional[Path] = None  # None: a new one under /tmp


def start_cephadm(plan: CephadmPlan) -> CephadmCluster:
    """Build what is missing, start the machines, let cephadm deploy a Ceph, wait for HEALTH_OK.

    All of it ends with this process, however that ends, unless `leave_running` is called.
    Raises NotPossible where this machine does not let machines be made.
    """
    images = ensure_images(plan.release)
    remove_forgotten()
    folder = plan.folder or Path(tempfile.mkdtemp(prefix=PREFIX, dir="/tmp"))
    folder.mkdir(parents=True, exist_ok=True)
    cluster = CephadmCluster(folder.resolve(), images, Keeper(folder.resolve(), f"{GATEWAY}/24"))
    try:
        cluster.guard()
        _Starter(cluster, plan).run()
    except BaseException:
        cluster.stop()
        raise
    return cluster


def remove_forgotten() -> None:
    """Remove rigs whose starter and keeper were both killed."""
    for folder in Path("/tmp").glob(f"{PREFIX}*"):
        old = time.time() - folder.stat().st_mtime > FORGOTTEN_S
        if old and not keeper_of(folder):
            remove(folder)


class CephadmCluster(ClusterAccess):
    """A cephadm cluster.  `machines` are its hosts by name; an admin sits at the first one."""

    def __init__(self, folder: Path, images: Images, keeper: Optional[Keeper]) -> None:
        super().__init__()
        self.folder = folder
        self.conf = Path(CONF)
        self.images = images
        self.machines: Dict[str, Machine] = {}
        self.fsid = ""
        self._keeper = keeper
        self._handlers: Dict[signal.Signals, Any] = {}

    @classmethod
    def attach(cls, folder: Path) -> CephadmCluster:
        """A rig that another process has left running; raises HarnessError."""
        folder = folder.resolve()
        try:
            state = json.loads((folder / STATE_FILE).read_text(encoding="utf-8"))
            host, ceph, store, name = state["images"]
            images = Images(Path(host), Path(ceph), Path(store), name)
            cluster = cls(folder, images, None)
            cluster.fsid = state["fsid"]
            for name, address, first_pid, drives in state["machines"]:
                machine = Machine(name, address, folder, images, first_pid, drives)
                cluster.machines[name] = machine
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise HarnessError(f"{folder} holds no rig: {error}") from error
        return cluster

    def save(self) -> None:
        """Write down what `attach` needs."""
        of = self.images
        state = {
            "images": [str(of.host), str(of.ceph), str(of.store), of.name], "fsid": self.fsid,
            "machines": [
                [m.name, m.address, m.first_pid, list(m.drives)] for m in self.machines.values()
            ],
        }
        (self.folder / STATE_FILE).write_text(json.dumps(state), encoding="utf-8")

    @property
    def admin(self) -> Machine:
        """The machine where an admin types."""
        return next(iter(self.machines.values()))

    def popen_inside(
        self, argv: Sequence[str], *, env: Optional[Mapping[str, str]] = None, **options: Any
    ) -> subprocess.Popen[bytes]:
        """See ClusterAccess; in a container of the release, on a host that is on."""
        variables = [f"--env={name}={value}" for name, value in (env or {}).items()]
        words = [
            "podman", "run", "-i", "--rm", "--net=host", "--log-driver=none",
            "-v", f"{ADMIN}:/etc/ceph:ro", "-v", f"{PROJECT}:{PROJECT}:ro", *variables,
            "--entrypoint", argv[0], self.images.name, *argv[1:],
        ]
        return subprocess.Popen(self.admin.entry(words), **options)

    # Daemons

    def place_of(self, daemon: str) -> Tuple[Machine, str]:
        """The machine that a daemon is deployed on, and its unit there."""
        for machine in self.machines.values():
            if machine.is_on and machine.path(f"/var/lib/ceph/{self.fsid}/{daemon}").is_dir():
                return machine, f"ceph-{self.fsid}@{daemon}.service"
        raise HarnessError(f"{daemon} is on no host that is on")

    def daemon_pid(self, daemon: str) -> int:
        """Of a daemon in a container no pid is known here."""
        raise NotPossible(f"{daemon} runs in a container")

    def stop_daemon(self, daemon: str, *, kill: bool) -> None:
        """See ClusterAccess."""
        machine, unit = self.place_of(daemon)
        if kill:
            machine.run(f"podman kill ceph-{self.fsid}-{daemon.replace('.', '-')}")
        machine.run(f"systemctl stop {unit}", timeout_s=120)

    def start_daemon(self, daemon: str) -> None:
        """See ClusterAccess."""
        machine, unit = self.place_of(daemon)
        machine.run(f"systemctl reset-failed {unit}; systemctl start {unit}", timeout_s=120)

    # The end

    def guard(self) -> None:
        """From now on stop when this process ends; after a kill -9 the keeper does it."""
        atexit.register(self.stop)
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) == signal.SIG_DFL:
                self._handlers[number] = signal.signal(number, _leave)

    def leave_running(self) -> None:
        """Let all of it live on when this process ends."""
        self._unguard()
        if self._keeper is not None:
            self._keeper.let_stay()

    def _unguard(self) -> None:
        self.close_console()
        atexit.unregister(self.stop)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._handlers.clear()

    def stop(self) -> None:
        """End the machines and remove all that is of them; raises HarnessError naming the rest."""
        self.close_console()
        if self._keeper is None:
            remove(self.folder)
        else:
            self._keeper.end()
        self._unguard()


def _leave(number: int, _frame: Optional[types.FrameType]) -> None:
    raise SystemExit(128 + number)


class _Starter:
    """The steps from namespaces to HEALTH_OK; each is told with its seconds."""

    def __init__(self, cluster: CephadmCluster, plan: CephadmPlan) -> None:
        self.cluster = cluster
        self.plan = plan
        self.names = [f"h{number}" for number in range(1, plan.hosts + 1)]
        self._began_s = time.monotonic()

    def run(self) -> None:
        self._make_machines()
        machines = self.cluster.machines.values()
        for machine in machines:
            machine.power_on()
        for machine in machines:
            machine.wait_up()
        self._tell(f"{len(self.names)} machines are up")
        self._bootstrap()
        self._tell("bootstrapped")
        for machine in list(machines)[1:]:
            self.cluster.ceph("orch", "host", "add", machine.name, machine.address, timeout_s=120)
        # one mon: a second one would have every daemon configured anew
        self.cluster.ceph("orch", "apply", "mgr", str(MGRS))
        self._tell("all hosts are known")
        for machine in machines:
            what = f"{machine.name}:{','.join(machine.drives)}"
            # raw: not every kernel has a device mapper
            told = self.cluster.ceph(
                "orch", "daemon", "add", "osd", what, "--method=raw", timeout_s=OSDS_TIMEOUT_S
            ).stdout
            if "Created osd" not in told:
                raise HarnessError(f"no OSDs on {what}: {told}")
            # else cephadm tries to make them again, in each turn of its loop
            self.cluster.ceph("orch", "set-unmanaged", "osd.default")
        self._tell("all OSDs are deployed")
        self._wait()
        self._tell("healthy")

    def _tell(self, what: str) -> None:
        print(f"  {time.monotonic() - self._began_s:6.1f} s  {what}", file=sys.stderr, flush=True)

    def _make_machines(self) -> None:
        folder, images = self.cluster.folder, self.cluster.images
        key = folder / "id_ed25519"
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "rig", "-f", str(key)], check=True
        )
        addresses = {name: f"{NETWORK}.{10 + n}" for n, name in enumerate(self.names, 1)}
        program = _with_python(images.ceph / "usr/sbin/cephadm")
        keeper = self.cluster._keeper
        assert keeper is not None
        for name, address in addresses.items():
            machine = Machine(name, address, folder, images, keeper.first_pid)
            machine.prepare(addresses, key)
            machine.drives = tuple(
                loops.attach(machine.folder / f"drive{number}", DRIVE_BYTES)
                for number in range(self.plan.osds_per_host)
            )
            cephadm = machine.folder / "upper/usr/sbin/cephadm"
            cephadm.parent.mkdir(parents=True, exist_ok=True)
            cephadm.write_bytes(program)
            cephadm.chmod(0o755)
            machine.write("/usr/local/bin/ceph", CEPH.format(image=images.name, admin=ADMIN), 0o755)
            self.cluster.machines[name] = machine
        self.cluster.save()

    def _bootstrap(self) -> None:
        admin = self.cluster.admin
        admin.path("/root/rig.conf").write_text("\n".join(_conf(self.plan)) + "\n")
        admin.run(
            f"cephadm --image {self.cluster.images.name} bootstrap --mon-ip {admin.address} "
            "--config /root/rig.conf --ssh-private-key /root/.ssh/id_ed25519 "
            "--ssh-public-key /root/.ssh/id_ed25519.pub --skip-pull --skip-monitoring-stack "
            "--skip-dashboard --skip-firewalld --orphan-initial-daemons",
            timeout_s=BOOTSTRAP_TIMEOUT_S,
        )
        admin.run(f"cp -r /etc/ceph {ADMIN}")
        self.cluster.fsid = str(self.cluster.command("status")["fsid"])
        self.cluster.save()

    def _wait(self) -> None:
        expected = self.plan.hosts * self.plan.osds_per_host

        def complete() -> bool:
            status = self.cluster.command("status")
            return bool(
                status["osdmap"]["num_up_osds"] == expected
                and status["mgrmap"]["available"]
                and status["mgrmap"]["num_standbys"] == MGRS - 1
                and status["pgmap"]["num_pools"] > 0
            )

        if not wait_until(complete, READY_TIMEOUT_S, 0.5):
            status = self.cluster.ceph("status", check=False).stdout
            raise HarnessError(f"not complete in {READY_TIMEOUT_S:.0f} s:\n{status}")
        # it calls the first daemons stray until it looks again, within a minute or two
        self.cluster.wait_healthy(READY_TIMEOUT_S, ignoring=("CEPHADM_STRAY_",))


def _conf(plan: CephadmPlan) -> Iterator[str]:
    """What the cluster starts with."""
    yield "[global]"
    copies = min(2, plan.hosts * plan.osds_per_host)
    yield f"osd_pool_default_size = {copies}"
    yield "osd_pool_default_min_size = 1"
    if plan.hosts == 1:
        yield "osd_crush_chooseleaf_type = 0"
    yield "[osd]"
    yield f"{MEMORY_TARGET} = {MEMORY_TARGET_BYTES}"
    for cache in ("meta", "kv", "kv_onode", "data"):
        # they reach back for seconds, so that caches settle in that time (by default: 12 minutes)
        yield f"bluestore_cache_age_bins_{cache} = 1 2 4 6 8 12 0 0 0 0"
    yield "[mon]"
    if copies == 1:
        yield "mon_warn_on_pool_no_redundancy = false"
    yield "mon_data_avail_warn = 2"
    yield "[mgr]"
    if plan.hosts == 1:
        # two mgrs on one host: only the active one has the ports of modules
        yield "mgr_standby_modules = false"
    # its autotuner gives each OSD a share of what the whole machine has, whatever runs beside
    total_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    share = min(TUNED_SHARE_MAX, TUNED_BYTES / total_bytes)
    yield f"mgr/cephadm/autotune_memory_target_ratio = {share:.4f}"
    # the image is in no registry: its loop would wait for a pull for ever
    yield "mgr/cephadm/use_repo_digest = false"
    # some of the packages' modules do not load on this Python, at each start of a mgr
    yield "mgr/crash/warn_recent_interval = 0"


def _with_python(zipapp: Path) -> bytes:
    """The program, for any Python: the packaged one names the release's own."""
    first, _, archive = zipapp.read_bytes().partition(b"\n")
    # of the same length: the archive counts from the file's begin
    return b"#!/usr/bin/python3".ljust(len(first)) + b"\n" + archive
