"""OSDs that came since their host reported last: without them a host reports every ten minutes."""

from __future__ import annotations

from collections import defaultdict
from typing import Dict, FrozenSet, Mapping, Set

from ..cluster import ClusterState
from ..host_report import HostReport
from ..simulation import real


def arrivals(
    cluster: ClusterState, reports: Mapping[str, HostReport]
) -> Dict[str, FrozenSet[str]]:
    """By host that has reported: the UUIDs of its OSDs that are up and not in its report."""
    found: Dict[str, Set[str]] = defaultdict(set)
    used = {
        report.hostname: {use.osd_id for drive in report.drives for use in drive.uses}
        for report in real(reports.values())
    }
    for osd_id, osd in cluster.osds.items():
        if osd.up and osd_id not in used.get(osd.hostname, {osd_id}):
            found[osd.hostname].add(osd.uuid)
    return {hostname: frozenset(uuids) for hostname, uuids in found.items()}
