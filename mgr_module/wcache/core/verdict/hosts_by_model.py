"""Which hosts have a drive model: what is recommended for it needs the word of two of them.

Whoever holds one host's key can make up that host's reports and timings, so one host alone
decides for no other.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Dict, FrozenSet, Iterable, Mapping, Set, Tuple

from ..cluster import ClusterState
from ..drive.safety import may_toggle
from ..host_report import HostReport
from ..model import CacheMode, DriveModel, DriveReport
from ..simulation import DriveKind, in_cluster, is_real

HostsByModel = Mapping[DriveKind, FrozenSet[str]]
"""By `DriveKind.home`, the hosts that have drives which could be measured and changed."""


@dataclass(frozen=True)
class Counted:
    """Drives of one kind: how many could be changed to each mode, and how many could not."""

    changeable: Dict[CacheMode, int] = field(default_factory=lambda: dict.fromkeys(CacheMode, 0))
    stuck: Dict[CacheMode, int] = field(default_factory=lambda: dict.fromkeys(CacheMode, 0))


def counted(
    reports: Iterable[HostReport], cluster: ClusterState, *, throwaway: bool
) -> Dict[DriveKind, Counted]:
    """By `DriveKind.home`, the drives of each kind by what they could be changed to."""
    found: Dict[DriveKind, Counted] = {}
    for report in reports:
        for drive in report.drives:
            mode = drive.mode
            for device_class in _classes(drive, report, cluster):
                kind = DriveKind(device_class, str(drive.drive_model), report.simulated)
                of_kind = found.setdefault(kind, Counted())
                if mode is not None:
                    can = _switchable(drive, throwaway)
                    (of_kind.changeable if can else of_kind.stuck)[mode.other] += 1
    return found


def hosts_by_model(
    reports: Iterable[HostReport], cluster: ClusterState, *, throwaway: bool
) -> HostsByModel:
    """Where each drive model is at home, by the last reports."""
    found: Dict[DriveKind, Set[str]] = defaultdict(set)
    for report in reports:
        here: Set[Tuple[str, DriveModel]] = set()
        for drive in report.drives:
            for device_class in _classes(drive, report, cluster):
                # one drive that can be switched is enough: what cannot is changed nowhere
                kind = device_class, drive.drive_model
                if kind not in here and _switchable(drive, throwaway):
                    here.add(kind)
                    key = DriveKind(device_class, str(drive.drive_model), report.simulated)
                    found[key].add(report.hostname)
    return {key: frozenset(names) for key, names in found.items()}


def differing(
    reports: Iterable[HostReport], cluster: ClusterState, kind: DriveKind, mode: CacheMode, *,
    throwaway: bool,
) -> int:
    """How many drives of a kind could be changed to `mode`, by the last reports."""
    device_class, drive_model, _ = kind.home
    return sum(
        str(drive.drive_model) == drive_model and drive.mode is mode.other
        and device_class in _classes(drive, report, cluster) and _switchable(drive, throwaway)
        for report in reports if is_real(report) == is_real(kind) for drive in report.drives
    )


def _classes(drive: DriveReport, report: HostReport, cluster: ClusterState) -> Set[str]:
    if not in_cluster(report):
        return {""}
    osds = (cluster.osds.get(use.osd_id) for use in drive.uses)
    return {osd.device_class for osd in osds if osd is not None}


def _switchable(drive: DriveReport, throwaway: bool) -> bool:
    mode = drive.mode
    return mode is not None and not may_toggle(
        [drive], mode.other, throwaway=throwaway, consent_turn_on=True
    )
