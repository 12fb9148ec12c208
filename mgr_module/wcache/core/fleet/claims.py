"""Whose word counts for an OSD: that of the host it runs on, where a probe speaks for it.

Whoever holds one host's key can report drives that any OSD uses.  No other host's OSD is
measured or changed for that.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Container, Dict, Iterable, List

from ..cluster import ClusterState
from ..host_report import HostReport
from ..model import DriveReport


def believed(reports: Iterable[HostReport], cluster: ClusterState) -> List[HostReport]:
    """The reports without uses by another host's OSDs; a drive that had one is refused."""
    known: Dict[str, HostReport] = {report.hostname: report for report in reports}
    return [_checked(report, cluster, known) for report in known.values()]


def _checked(
    report: HostReport, cluster: ClusterState, known: Container[str]
) -> HostReport:
    if report.simulated:
        return report  # its OSDs are made up, and nothing but itself is measured for it
    name = report.hostname
    drives = tuple(_checked_drive(drive, name, cluster, known) for drive in report.drives)
    return report if drives == report.drives else replace(report, drives=drives)


def _checked_drive(
    drive: DriveReport, hostname: str, cluster: ClusterState, known: Container[str]
) -> DriveReport:
    own, said = [], ""
    for use in drive.uses:
        osd = cluster.osds.get(use.osd_id)
        # a host may have another name in Ceph's maps than its probe was given
        if osd is None or osd.hostname == hostname or osd.hostname not in known:
            own.append(use)
        else:
            said = f"osd.{use.osd_id} runs on {osd.hostname}, whose own probe speaks for it"
    return replace(drive, uses=tuple(own), toggle_refusal=said) if said else drive
