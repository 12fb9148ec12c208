"""What a host that is removed would keep: read from the plans and its last report."""

from __future__ import annotations

from typing import Iterable, List, Optional

from ..change.change_status import TOUCHED
from ..change.rollout_state import Rollout
from ..drive.journal import EntryKind
from ..host_report import HostReport

LINES_MAX = 50


def reasons_to_stay(hostname: str, plans: Iterable[Rollout]) -> List[str]:
    """A line for each plan that has changed drives of the host, with the way back."""
    found = []
    for plan in plans:
        names = [
            f"{','.join(change.dev_names) or change.domain_id} is {change.mode.value}"
            for change in plan.drive_changes
            if change.hostname == hostname and change.status in TOUCHED
        ]
        if names:
            shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if names[4:] else "")
            found.append(
                f"plan {plan.plan_id} stands on {hostname} ({shown}): "
                f"`ceph wcache rollback {plan.plan_id}`"
            )
    return found


def what_stays(
    hostname: str, plans: Iterable[Rollout], report: Optional[HostReport]
) -> List[str]:
    """What is on the host now that only its probe could take back, a line each."""
    found: List[str] = []
    named = set()
    for plan in plans:
        kept = " over a power cycle too" if plan.consent_persist else " until the next power cycle"
        for change in plan.drive_changes:
            if change.hostname == hostname and change.status in TOUCHED:
                drives = ",".join(change.dev_names) or change.domain_id
                named.add(f"{EntryKind.ACTION.value}/{change.action_id}")
                found.append(f"{drives} stays {change.mode.value}{kept} (plan {plan.plan_id})")
    for note in report.journal if report is not None else ():
        if note.key not in named:
            found.append(f"the journal's entry {note.key} of {note.domain_id or 'a drive'}")
    if len(found) > LINES_MAX:
        found[LINES_MAX:] = [f"and {len(found) - LINES_MAX} more"]
    return found
