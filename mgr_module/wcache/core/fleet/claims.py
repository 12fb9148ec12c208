"""Whose word counts for an OSD: that of the host it runs on, where a probe speaks for it.

Whoever holds one host's key can report drives that any OSD uses.  No other host's OSD is
measured or changed for that.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Container, Dict, Iterable, List

from ..cluster import ClusterState
from ..host_report import HostReport
from ..model import DriveReport, OsdUse
from ..simulation import in_cluster


def believed(reports: Iterable[HostReport], cluster: ClusterState) -> List[HostReport]:
    """The reports without uses by another host's OSDs; a drive that had one is refused."""
    known: Dict[str, HostReport] = {report.hostname: report for report in reports}
    return [_checked(report, cluster, known) for report in known.values()]


def _checked(
    report: HostReport, cluster: ClusterState, known: Container[str]
) -> HostReport:
    if not in_cluster(report):
        return report  # nothing but itself is measured for its OSDs
    name = report.hostname
    if not any(_foreign(use, name, cluster, known) for d in report.drives for use in d.uses):
        return report
    drives = tuple(_checked_drive(drive, name, cluster, known) for drive in report.drives)
    return replace(report, drives=drives)


def _foreign(use: OsdUse, hostname: str, cluster: ClusterState, known: Container[str]) -> bool:
    """Whether an OSD is of another host, which has a probe to speak for it."""
    osd = cluster.osds.get(use.osd_id)
    # a host may have another name in Ceph's maps than its probe was given
    return osd is not None and osd.hostname != hostname and osd.hostname in known


def _checked_drive(
    drive: DriveReport, hostname: str, cluster: ClusterState, known: Container[str]
) -> DriveReport:
    others = [use for use in drive.uses if _foreign(use, hostname, cluster, known)]
    if not others:
        return drive
    last = cluster.osds[others[-1].osd_id]
    return replace(
        drive, uses=tuple(use for use in drive.uses if use not in others),
        toggle_refusal=f"osd.{last.osd_id} runs on {last.hostname}, whose own probe speaks for it",
    )
