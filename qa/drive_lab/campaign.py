"""A whole campaign over the drives of a file, and everything seen of it in one result.

Guest, drives and OSDs in the guest; mon, mgr with the module, and clients on the host side;
the probe in the guest.  The campaign is started and read as an admin would, by
``ceph wcache``.
"""

from __future__ import annotations

import contextlib
import re
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterator, Mapping, Sequence

from harness import Cluster, ClusterPlan, start_cluster
from harness.processes import MARKER
from harness.releases import ensure_release
from harness.start import MEMORY_TARGET_BYTES
from probes import MODULE, Wcache
from wcache.core.model import LoadPoint
from wcache.core.options.entries import CACHE_MODES
from wcache.deployment.places import caps_of
from wcache_sim.drive_schema import load_drive_file
from wcache_sim.placement import PlacedDrive, osd_roles, place

from . import network
from .agent import HANG_S
from .clients import Clients
from .images import artefacts
from .lab import Lab
from .machine import MachineSpec
from .osds import GuestOsds, Stack
from .probe import GuestProbe
from .processes import LabError
from .witness import BENCH_BYTES, Witness, look

RESULT_FORMAT = "wcache.lab-result"
RESULT_VERSION = 1
HOSTNAME = "wcache-lab"
TRAFFIC = "traffic"
LOADS = ("depth1",)

# What daemons gather for a log that nobody asks for, which costs a guest without KVM dearly.
QUIET = ("auth", "bdev", "bluefs", "bluestore", "monc", "ms", "objecter", "osd", "rocksdb")

CONF = {
    # One replica, so that a client waits for one drive; no consent to lose data is implied,
    # the data is the lab's own.
    "osd pool default size": "1",
    "mon allow pool size one": "true",
    # one RocksDB column family in place of twelve: a store is made in half the time
    "bluestore rocksdb cf": "false",
    **{f"debug {name}": "0/0" for name in QUIET},
}


@dataclass(frozen=True)
class LabJob:
    """What ``make lab`` was asked for."""

    drive_file: Path
    release: int = 20
    stack: Stack = Stack.RAW
    loads: Sequence[str] = LOADS
    pairs: int = 80  # the budgets in seconds end it before
    seed: int = 1
    campaign_timeout_s: float = 7200.0
    folders: Mapping[str, Path] = field(default_factory=dict)  # see MachineSpec
    # releases that the cluster is upgraded to: their roots are in the guest as well, in order
    next_releases: Sequence[int] = ()


class Stages:
    """Says on stderr what is being waited for, and keeps how long each stage took."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._began = self._last = time.monotonic()

    def done(self, name: str) -> None:
        now = time.monotonic()
        self.seconds[name] = round(now - self._last, 1)
        self._last = now
        print(f"{now - self._began:6.1f} s  {name}", file=sys.stderr, flush=True)

    def total(self) -> float:
        return round(time.monotonic() - self._began, 1)


def run(job: LabJob) -> dict[str, Any]:
    """Do all of it and return the result as plain data; leaves nothing behind.

    Raises LabError, or HarnessError of the cluster's harness, with one line of what failed.
    """
    stages = Stages()
    with running(job, stages) as up:
        return _Campaign(job, up, stages).run()


@dataclass
class Running:
    """A lab and the cluster on its drives, all OSDs up."""

    lab: Lab
    cluster: Cluster
    clients: Clients
    osds: GuestOsds
    _owner: contextlib.ExitStack

    def leave_running(self) -> None:
        """Let all of it live on; see ``running``."""
        self._owner.pop_all()
        self.cluster.leave_running()
        self.lab.leave_running()


@contextlib.contextmanager
def running(job: LabJob, stages: Stages, *, keepable: bool = False) -> Iterator[Running]:
    """The lab with a cluster on its drives; gone again at the end.

    This process goes into a network of its own and stays there.  A ``keepable`` one can
    ``leave_running``, and ends by ``vstart-tests/cluster stop``: everything is in the
    cluster's folder and carries its mark.
    """
    artefacts.ensure(job.release)
    ensure_release(job.release)
    more_roots = [artefacts.ensure(number).root_image for number in job.next_releases]
    for number in job.next_releases:
        ensure_release(number)
    stages.done("guest and release ready to start")
    drive_file = load_drive_file(str(job.drive_file))
    osd_count = len(osd_roles(place(drive_file)))
    if not osd_count:
        raise LabError(f"{job.drive_file.name} has no block drive, so there is no OSD to ask")
    network.enter_private_network()
    plan = ClusterPlan(
        release=job.release, folder=Path(tempfile.mkdtemp(prefix="wc.")), osds=(),
        remote_osds=osd_count, address=network.HOST, own_modules=[MODULE], conf=CONF,
    )  # fmt: skip
    with contextlib.ExitStack() as owner:
        cluster = owner.enter_context(start_cluster(plan))
        stages.done("mon and mgr up")
        lab = owner.enter_context(
            Lab(
                job.drive_file,
                release=job.release,
                # 1 GiB, and what each OSD is told that it may use
                machine=MachineSpec(
                    tap=network.TAP, hostname=HOSTNAME,
                    memory_mib=1024 + (MEMORY_TARGET_BYTES >> 20) * max(2, osd_count),
                    folders=job.folders,
                    more_roots=more_roots,
                ),
                seed=job.seed,
                home=cluster.folder / "lab" if keepable else None,
                environment={MARKER: str(cluster.folder)} if keepable else None,
            )
        )  # fmt: skip
        stages.done("guest up")
        osds = GuestOsds(lab, cluster, address=network.GUEST, stack=job.stack)
        osds.create()
        osds.wait_up()
        stages.done("OSDs up")
        placed = [fitted.placed for fitted in lab.drives]
        clients = Clients(cluster, placed, drive_file.osd.client_depth)
        yield Running(lab, cluster, clients, osds, owner)


class _Campaign:
    """The part that needs everything up."""

    def __init__(self, job: LabJob, up: Running, stages: Stages) -> None:
        self._job = job
        self._lab = up.lab
        self._cluster = up.cluster
        self._clients = up.clients
        self._stages = stages
        self._wcache = Wcache(up.cluster)
        self._placed = [fitted.placed for fitted in up.lab.drives]

    def run(self) -> dict[str, Any]:
        wcache, stages = self._wcache, self._stages
        self._cluster.enable_module("wcache")
        # a run ends once it is decided; a guest on a busy machine needs minutes for it
        for name, value in {"poll_idle_s": 0.5, "experiment_seconds_max": 600}.items():
            wcache.option(name, value)
        wcache.wait("the module", lambda: wcache("status"), HANG_S)
        keyring = self._cluster.auth_key(f"client.wcache.{HOSTNAME}", **caps_of(HOSTNAME))
        probe = GuestProbe(self._lab, HOSTNAME, keyring)
        probe.prepare()
        probe.start()
        try:
            wcache.wait("the probe's report", lambda: wcache("drive ls")["drives"], HANG_S)
        except AssertionError as error:
            raise LabError(f"{error}\nthe probe said:\n{probe.log()[-2000:]}") from error
        if TRAFFIC in self._job.loads:
            for name in self._clients.device_classes:
                self._clients.make_pool(name)
        self._cluster.wait_clean(HANG_S)  # the drives of a file may have findings
        stages.done("module and probe at work")
        reported = wcache("drive ls")["drives"]
        before = self._look_at_all()
        stages.done("state before")
        shown = self._campaigns()
        after = self._look_at_all()
        stages.done("state after")
        return {
            "format": RESULT_FORMAT,
            "version": RESULT_VERSION,
            "release": self._job.release,
            "stack": self._job.stack.value,
            "drive_file": self._job.drive_file.name,
            "campaigns": [
                {key: each[key] for key in ("campaign_id", "status", "seconds", "bytes_written",
                                            "skipped", "run_list")}
                for each in shown
            ],
            "drives": [
                self._drive(drive, reported, before, after, shown) for drive in self._placed
            ],
            "recommendations": wcache("recommend")["recommendations"],
            "findings": wcache("status")["findings"],
            "stage_seconds": stages.seconds,
            "total_seconds": stages.total(),
        }  # fmt: skip

    def _campaigns(self) -> list[dict[str, Any]]:
        """Quiet loads first, then the clients' traffic, which would disturb the others."""
        shown = []
        quiet = [load for load in self._job.loads if load != TRAFFIC]
        if quiet:
            shown.append(self._measure(quiet, "cluster"))
            self._stages.done(f"campaign: {', '.join(quiet)}")
        if TRAFFIC in self._job.loads:
            for name in self._clients.device_classes:
                self._clients.start(name)
                try:
                    shown.append(self._measure([TRAFFIC], f"class:{name}"))
                finally:
                    self._clients.stop()
                self._stages.done(f"campaign: traffic of class {name}")
        return shown

    def _measure(self, loads: Sequence[str], scope: str) -> dict[str, Any]:
        campaign_id = self._wcache.start_campaign(
            scope=scope, loads=",".join(loads), pairs=self._job.pairs, seed=self._job.seed
        )
        return self._wcache.wait_over(campaign_id, self._job.campaign_timeout_s)

    def _look_at_all(self) -> dict[str, Witness]:
        seen = {}
        for drive in self._placed:
            osd_ids = [osd_id for osd_id, _ in drive.uses]

            def commit(osd_ids: Sequence[int] = osd_ids) -> None:
                size = str(BENCH_BYTES)
                self._cluster.ceph("tell", f"osd.{osd_ids[0]}", "bench", size, size)

            seen[drive.name] = look(self._lab.drive(drive.name), commit if osd_ids else None)
        return seen

    def _drive(
        self,
        drive: PlacedDrive,
        reported: Sequence[Mapping[str, Any]],
        before: Mapping[str, Witness],
        after: Mapping[str, Witness],
        shown: Sequence[Mapping[str, Any]],
    ) -> dict[str, Any]:
        results = [
            result
            for campaign in shown
            for result in campaign["results"]
            if is_of(drive, result)
        ]
        return {
            "name": drive.name,
            "model": drive.spec.model,
            "transport": drive.spec.transport.value,
            "serial": drive.serial,
            "wwn": drive.wwn,
            "uses": [{"osd_id": osd_id, "role": role.value} for osd_id, role in drive.uses],
            "reported": [row for row in reported if is_of(drive, row)],
            "before": before[drive.name].plain(),
            "after": after[drive.name].plain(),
            "loads": [_load(drive, result) for result in results],
        }


def is_of(drive: PlacedDrive, row: Mapping[str, Any]) -> bool:
    """Whether a row of the module is about this drive.

    Its ids are made of the WWN (``naa.5000c500...``) or, where QEMU's NVMe drives have none,
    of model and serial (``nvme:MODEL:SERIAL``).
    """
    words = re.split("[:.]", f"{row['drive_id']}:{row['domain_id']}")
    return drive.wwn[2:].lower() in map(str.lower, words) or drive.serial in words


def _load(drive: PlacedDrive, result: Mapping[str, Any]) -> dict[str, Any]:
    truth = drive.spec.truth.get(LoadPoint(result["load_point"]))
    kept = (
        "load_point", "osd_id", "verdict", "ratio", "ratio_low", "ratio_high", "pairs", "seconds",
        "bytes_written", "ended", "why", "warnings", "write_back", "write_through", "record_id",
    )  # fmt: skip
    return {
        **{key: result[key] for key in kept},
        "expected": CACHE_MODES.said(truth.verdict) if truth else None,
        "right": result["verdict"] == CACHE_MODES.said(truth.verdict) if truth else None,
    }
