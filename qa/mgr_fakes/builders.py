"""Drives, reports, clusters and setups with everything filled in that a test does not care for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Dict, Iterable, List, Tuple

from wcache.core.cluster import ClusterState, OsdInfo
from wcache.core.errors import Refusal, RefusalKind
from wcache.core.experiment.run_state import RunSpec
from wcache.core.host_report import HostReport
from wcache.core.loads import SAMPLES
from wcache.core.model import (
    Arm,
    CacheMode,
    DeviceCache,
    DriveModel,
    DriveReport,
    DriveState,
    KernelView,
    Layer,
    LayerKind,
    LoadPoint,
    OsdUse,
    Role,
    Transport,
)
from wcache.core.record import ExperimentSetup, Period

MODEL = DriveModel("ACME", "HD1", "1.0")
CLUSTER_ID = "00000000-0000-4000-8000-000000000001"


def state(mode: CacheMode, **changes: Any) -> DriveState:
    """A pinned SCSI drive's state in `mode`."""
    layers = (Layer("dm-0", LayerKind.LVM, KernelView.WRITE_BACK),)
    found = DriveState(DeviceCache(mode.value), KernelView.WRITE_BACK, True, layers=layers)
    return replace(found, **changes)


def drive(name: str, *osd_ids: int, mode: CacheMode = CacheMode.WRITE_BACK,
          roles: Tuple[Role, ...] = (Role.BLOCK,), **changes: Any) -> DriveReport:
    """A SCSI drive in a cache domain of its own that the OSDs use in `roles`."""
    uses = tuple(OsdUse(osd_id, role) for osd_id in osd_ids for role in roles)
    found = DriveReport(
        f"wwn-{name}", f"domain-{name}", name, MODEL, Transport.SCSI, state(mode),
        rotational=True, uses=uses,
    )
    return replace(found, **changes)


def refused(text: str, kind: RefusalKind = RefusalKind.LEFT_ALONE) -> Tuple[Refusal, ...]:
    """What a probe has against toggling a drive."""
    return (Refusal(kind, text),)


def unsafe_drive(**changes: Any) -> DriveReport:
    """A drive that caches, under a kernel that does not flush."""
    wrong = state(CacheMode.WRITE_BACK, kernel_view=KernelView.WRITE_THROUGH)
    return drive("sda", 0, state=wrong, **changes)


def report(hostname: str, *drives: DriveReport, **changes: Any) -> HostReport:
    """A host's report."""
    found = HostReport(hostname, "0.1", drives)
    return replace(found, **changes)


def osd(osd_id: int, hostname: str, **changes: Any) -> OsdInfo:
    """An OSD that is up, in class hdd."""
    return replace(
        OsdInfo(osd_id, hostname, "hdd", True, "20.2.4", hostname, rotational=True), **changes
    )


def cluster(osds: Iterable[OsdInfo], **changes: Any) -> ClusterState:
    """A healthy cluster of these OSDs."""
    found = ClusterState(CLUSTER_ID, "20.2.4", {o.osd_id: o for o in osds})
    return replace(found, **changes)


def fleet(hosts: int = 5, drives: int = 4) -> Tuple[List[HostReport], ClusterState]:
    """What hosts with as many drives each report, and the cluster of their OSDs."""
    reports = [
        report(f"h{h}", *(drive(f"sd{d}", h * drives + d) for d in range(drives)))
        for h in range(hosts)
    ]
    osds = [osd(h * drives + d, f"h{h}") for h in range(hosts) for d in range(drives)]
    return reports, cluster(osds)


def setup(load_point: LoadPoint = LoadPoint.OSD_BENCH_DEPTH1, **changes: Any) -> ExperimentSetup:
    """The setup of an experiment on osd.0 of host h1."""
    found = ExperimentSetup(
        CLUSTER_ID, "20.2.4", "h1", 0, "hdd", Role.BLOCK, load_point, "domain-sda", "wwn-sda",
        MODEL, Transport.SCSI, SAMPLES[load_point], 0.0, 0.25, 7, 8, True,
    )
    return replace(found, **changes)


def run_spec(*experiments: ExperimentSetup, **changes: Any) -> RunSpec:
    """A run of these experiments on one cache domain of h1, with budgets out of the way."""
    found = RunSpec(
        "c1.0", "c1", "h1", "domain-sda", "lease.c1.0", experiments, 2000.0, 1e9, 2**40
    )
    return replace(found, **changes)


def period(arm: Arm, **changes: Any) -> Period:
    """A short period with three samples."""
    return replace(
        Period(arm, 1000.0, 0.25, 0.5, (1_000_000, 1_100_000, 900_000), (), 12288), **changes
    )


LATENCY_NS: Dict[CacheMode, int] = {
    CacheMode.WRITE_BACK: 20_000_000,
    CacheMode.WRITE_THROUGH: 4_000_000,
}
