"""What a plan is bound to, and what of it has moved since: named, one line each.

Bound are the drives' states, the verdicts and the failure domains.  Epochs of maps are not:
they grow whenever anything happens anywhere.
"""

from __future__ import annotations

from typing import Iterable, List, Mapping, Optional, Sequence, Set

from ..cluster import ClusterState, failure_domains
from ..host_report import HostReport
from ..model import CacheMode, DriveReport
from ..simulation import DriveKind, osd_of
from .change import Verdicts
from .change_status import UNFINISHED, ChangeStatus
from .drive_change import DriveChange
from .rollout_state import Change, Rollout


def turned_on(rollout: Rollout) -> Set[DriveKind]:
    """The drive models whose caches a plan turns on and has not turned on for good yet."""
    return {
        DriveKind.of(change).in_any_class for change in rollout.mode_changes
        if change.status in UNFINISHED and change.mode is CacheMode.WRITE_BACK
        and change.expected is not change.mode
    }


def reasons(
    rollout: Rollout, reports: Mapping[str, HostReport], cluster: ClusterState,
    verdicts: Verdicts,
) -> List[str]:
    """Why changes that are not made yet would not be planned like this any more.

    Values of the config database are looked at again before each change of them is made.
    """
    found = []
    for change in rollout.drive_changes:
        if change.status is ChangeStatus.PLANNED and change.drive_ids:
            why = _moved(change, reports.get(change.hostname), cluster, verdicts)
            if why:
                found.append(f"{change.name}: {why}")
    planned = (c for c in rollout.config_changes if c.status is ChangeStatus.PLANNED)
    return [*found, *verdicts_moved(planned, verdicts)]


def _moved(
    change: DriveChange, report: Optional[HostReport], cluster: ClusterState,
    verdicts: Verdicts,
) -> str:
    drives = [d for d in (report.drives if report else ()) if d.domain_id == change.domain_id]
    why = _drives_moved(change, drives) or (change.moved_beside(report) if report else "")
    if why:
        return why
    osd = osd_of(change, change.osd_id, cluster)
    if osd is not None:
        if osd.device_class != change.device_class:
            return f"its device class is {osd.device_class} now, and was {change.device_class}"
        where = ", ".join(failure_domains(osd, cluster))
        if change.failure_domain and where != change.failure_domain:
            return f"it is in {where} now, and was planned in {change.failure_domain}"
    return change.verdict_moved(verdicts)


def verdicts_moved(changes: Iterable[Change], verdicts: Verdicts) -> List[str]:
    """Say which changes are no longer what is recommended, and why."""
    told = ((change, change.verdict_moved(verdicts)) for change in changes)
    return [f"{change.name}: {why}" for change, why in told if why]


def _drives_moved(change: DriveChange, drives: Sequence[DriveReport]) -> str:
    if sorted(drive.drive_id for drive in drives) != sorted(change.drive_ids):
        return "the drive is gone or was replaced"
    for drive in drives:
        moved = change.unlike(drive, planned=True)
        if moved:
            return f"{moved} now, and {change.was}"
    osd_ids = sorted({use.osd_id for drive in drives for use in drive.uses})
    if osd_ids != sorted(change.osd_ids):
        return f"its OSDs are {osd_ids} now, and were {sorted(change.osd_ids)}"
    return ""
