"""The cache domains of hosts in the order in which plans go through them."""

from __future__ import annotations

from collections import defaultdict
from typing import Dict, Iterable, List, NamedTuple, Tuple

from ..core.cluster import ClusterState, failure_domains
from ..core.host_report import HostReport
from ..core.model import DriveReport
from ..core.simulation import osd_of


class Domain(NamedTuple):
    """A cache domain with its failure domains, the widest first, and its host's report."""

    where: Tuple[str, ...]
    report: HostReport
    drives: Tuple[DriveReport, ...]

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.report.hostname} {', '.join(drive.dev_name for drive in self.drives)}"

    @property
    def osd_ids(self) -> Tuple[int, ...]:
        """All OSDs on it."""
        return tuple(sorted({use.osd_id for drive in self.drives for use in drive.uses}))


def in_order(reports: Iterable[HostReport], cluster: ClusterState) -> List[Domain]:
    """All of them, those of one failure domain before those of the next."""
    found = []
    for report in reports:
        domains: Dict[str, List[DriveReport]] = defaultdict(list)
        for drive in report.drives:
            domains[drive.domain_id].append(drive)
        for drives in domains.values():
            ids = [use.osd_id for drive in drives for use in drive.uses]
            osd = osd_of(report, ids[0], cluster) if ids else None
            where = failure_domains(osd, cluster) if osd else (f"host {report.hostname}",)
            found.append(Domain(where, report, tuple(drives)))
    return sorted(
        found, key=lambda one: (one.where, one.report.hostname, one.drives[0].domain_id)
    )
