"""Whose word counts for an OSD: that of the host it runs on, where a probe speaks for it.

Whoever holds one host's key can report drives that any OSD uses.  So a report speaks for the
OSDs of one host of the map, and no other host's OSD is measured or changed for that.
"""

from __future__ import annotations

from dataclasses import replace
from typing import AbstractSet, Dict, FrozenSet, Iterable, List, Tuple

from ..cluster import ClusterState, OsdNow
from ..host_report import HostReport
from ..model import DriveReport, OsdUse
from ..refusal import Refusal, RefusalKind
from ..simulation import in_cluster


def believed(reports: Iterable[HostReport], cluster: ClusterState) -> List[HostReport]:
    """The reports without uses by another host's OSDs; a drive that had one is refused."""
    known: Dict[str, HostReport] = {report.hostname: report for report in reports}
    on_map = {osd.hostname for osd in cluster.osds.values()}
    return [_checked(report, cluster, on_map, known.keys()) for report in known.values()]


def _checked(
    report: HostReport, cluster: ClusterState, on_map: AbstractSet[str],
    known: AbstractSet[str],
) -> HostReport:
    if not in_cluster(report):
        return report  # nothing but itself is measured for its OSDs
    named = _hosts_of(report, cluster)
    host = _speaks_for(report.hostname, named, on_map, known)
    if named <= {host}:
        return report
    drives = tuple(_checked_drive(drive, host, cluster, known) for drive in report.drives)
    return replace(report, drives=drives)


def _hosts_of(report: HostReport, cluster: ClusterState) -> AbstractSet[str]:
    """The hosts that the map has for the OSDs of a report; an OSD may have told none yet."""
    found = (cluster.osds.get(use.osd_id) for drive in report.drives for use in drive.uses)
    return {osd.hostname for osd in found if osd is not None} - {""}


def _speaks_for(
    hostname: str, named: AbstractSet[str], on_map: AbstractSet[str], known: AbstractSet[str]
) -> str:
    """The host of the map for whose OSDs a report speaks; "" where none can be told.

    It is the one of its own name.  A host may have another name in Ceph's maps than its probe
    was given: then it is the one that all of its OSDs run on, if no other probe is there.
    """
    if hostname in on_map:
        return hostname
    free = named - known
    return next(iter(free)) if len(free) == 1 else ""


def _foreign(use: OsdUse, host: str, cluster: ClusterState) -> bool:
    osd = cluster.osds.get(use.osd_id)
    return osd is not None and osd.hostname not in ("", host)


def _checked_drive(
    drive: DriveReport, host: str, cluster: ClusterState, known: AbstractSet[str]
) -> DriveReport:
    others = [use for use in drive.uses if _foreign(use, host, cluster)]
    if not others:
        return drive
    last = cluster.osds[others[-1].osd_id]
    why = "whose own probe speaks for it" if last.hostname in known else (
        f"and this report speaks for {host} alone" if host else
        "and its OSDs are of several hosts, of which this probe has no name"
    )
    return replace(
        drive, uses=tuple(use for use in drive.uses if use not in others),
        refusals=(*drive.refusals, Refusal(
            RefusalKind.LEFT_ALONE, f"osd.{last.osd_id} runs on {last.hostname}, {why}"
        )),
    )


def osds_now(reports: Iterable[HostReport], cluster: ClusterState) -> Dict[int, OsdNow]:
    """Every OSD of the map with its drives, by the last report of its host."""
    drives: Dict[int, FrozenSet[Tuple[str, str]]] = {}
    for report in believed(reports, cluster):
        for drive in report.drives:
            for use in drive.uses:
                held = drives.get(use.osd_id, frozenset())
                drives[use.osd_id] = held | {(report.hostname, drive.drive_id)}
    return {
        osd_id: OsdNow(osd.uuid, drives.get(osd_id, frozenset()))
        for osd_id, osd in cluster.osds.items()
    }
