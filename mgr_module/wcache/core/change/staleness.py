"""What a plan is bound to, and what of it has moved since: named, one line each.

Bound are the drives with their OSDs and states, what an admin consented to, that acknowledged data
may rest where it would, the verdicts and the failure domains.  Epochs of maps are not: they grow
whenever anything happens anywhere.
"""

from __future__ import annotations

from typing import Dict, Iterable, List, Mapping, Optional, Sequence, Set

from ..cluster import ClusterState, failure_domains
from ..drive_kind import DriveKind
from ..host_report import HostReport, lost_models
from ..model import CacheMode
from .change import UNFINISHED, Change, ChangeStatus
from .drive_setting import DriveSetting
from .rollout_state import Rollout
from .setting import Verdicts


def turned_on(rollout: Rollout) -> Set[DriveKind]:
    """The drive models whose caches a plan turns on, now or at each power-on from now on.

    Those that it has turned on for good are left out.
    """
    return {
        change.kind.in_any_class for change, setting in rollout.mode_changes
        if change.status in UNFINISHED and setting.after is CacheMode.WRITE_BACK
    }


def reasons(
    rollout: Rollout, reports: Mapping[str, HostReport], cluster: ClusterState,
    verdicts: Verdicts, changes: Optional[Sequence[Change]] = None,
) -> List[str]:
    """Why changes would not be planned like this any more; by default those not made yet.

    `apply`, `resume`, and the look before each change ask this, and so does what makes changes
    last.  Values of the config database are looked at again before each change of them is made.
    """
    if changes is None:
        changes = [one for one in rollout.changes if one.status is ChangeStatus.PLANNED]
    return [*moved(rollout, reports, cluster, changes), *verdicts_moved(changes, verdicts)]


def moved(
    rollout: Rollout, reports: Mapping[str, HostReport], cluster: ClusterState,
    changes: Sequence[Change],
) -> List[str]:
    """The same but for the verdicts, which take a large cluster a tenth of a second."""
    names = {one.action_id: one.name for one in changes}
    told = moved_by_id(rollout, reports, cluster, changes)
    return [f"{names[action_id]}: {why}" for action_id, why in told.items()]


def moved_by_id(
    rollout: Rollout, reports: Mapping[str, HostReport], cluster: ClusterState,
    changes: Sequence[Change],
) -> Dict[str, str]:
    """The same by the changes' ids."""
    lost = lost_models(reports.values())
    told = (
        (one, _moved(
            rollout, one, one.setting, reports.get(one.hostname), cluster, lost[one.simulated]
        ))
        for one in changes if isinstance(one.setting, DriveSetting)
    )
    return {one.action_id: why for one, why in told if why}


def _moved(
    rollout: Rollout, change: Change, setting: DriveSetting, report: Optional[HostReport],
    cluster: ClusterState, lost: Mapping[str, str],
) -> str:
    drives = [d for d in (report.drives if report else ()) if d.domain_id == change.domain_id]
    others = change.domain.others(drives)
    if others or report is None:
        return others
    # one that is made may be made since the host was looked at; it is read before it is to last
    for drive in drives if change.status is ChangeStatus.PLANNED else ():
        unlike = setting.unlike(drive, planned=True)
        if unlike:
            return f"{unlike} now, and {setting.was}"
    why = setting.refusal(rollout.warrant(change), report, drives, lost)
    if why:
        return why
    osd = cluster.osd_of(change, change.osd_id)
    if osd is not None:
        if osd.device_class != change.device_class:
            return f"its device class is {osd.device_class} now, and was {change.device_class}"
        where = ", ".join(failure_domains(osd, cluster))
        if change.failure_domain and where != change.failure_domain:
            return f"it is in {where} now, and was planned in {change.failure_domain}"
    return ""


def verdicts_moved(changes: Iterable[Change], verdicts: Verdicts) -> List[str]:
    """Say which changes are no longer what is recommended, and why."""
    told = ((change, change.verdict_moved(verdicts)) for change in changes)
    return [f"{change.name}: {why}" for change, why in told if why]
