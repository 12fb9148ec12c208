"""What a host that is removed would keep: read from plans, runs and its last report."""

from __future__ import annotations

from typing import Dict, Iterable, List, Optional

from ..core.change.change import TOUCHED, ChangeStatus
from ..core.change.rollout_state import Rollout
from ..core.drive.journal import EntryKind
from ..core.experiment.run_priors import touched
from ..core.experiment.run_state import RunState, RunStatus
from ..core.host_report import HostReport
from ..core.shell import typed
from ..core.text import named

LINES_MAX = 50


def reasons_to_stay(hostname: str, plans: Iterable[Rollout]) -> List[str]:
    """A line for each plan that has changed drives of the host, with the way back."""
    found = []
    for plan in plans:
        names = [
            f"{','.join(change.dev_names) or change.domain_id} is {change.setting.goal}"
            for change in plan.drive_changes
            if change.hostname == hostname and change.status in TOUCHED
        ]
        if names:
            found.append(
                f"plan {plan.plan_id} is applied on {hostname} ({named(names, 4)}): "
                + typed("ceph wcache rollback {}", plan.plan_id)
            )
    return found


def what_stays(
    hostname: str, plans: Iterable[Rollout], runs: Iterable[RunState],
    report: Optional[HostReport],
) -> List[str]:
    """What is on the host now that only its probe could take back, a line each.

    What `status` will go on to report is told with the command that ends that.
    """
    found: List[str] = []
    keys = set()
    for plan in plans:
        for change in plan.drive_changes:
            lasts = plan.consent_persist and change.setting.CAN_LAST
            kept = " over a power cycle too" if lasts else " until the next power cycle"
            if change.hostname != hostname or change.status not in TOUCHED:
                continue
            drives = ",".join(change.dev_names) or change.domain_id
            keys.add(f"{EntryKind.ACTION.value}/{change.action_id}")
            if change.status is ChangeStatus.APPLIED:
                found.append(
                    f"{drives} remains in {change.setting.goal}{kept} (plan {plan.plan_id})"
                )
            else:
                found.append(
                    f"{drives} may remain in {change.setting.goal}{kept} (plan {plan.plan_id}); "
                    + _until_accepted(hostname, change.domain_id)
                )
    for domain_id, run_id in _owed(hostname, runs).items():
        keys.add(f"{EntryKind.LEASE.value}/{domain_id}")
        found.append(
            f"{_drives(domain_id, report)} may remain in the mode that {run_id} measured last; "
            + _until_accepted(hostname, domain_id)
        )
    for note in report.journal if report is not None else ():
        if note.key not in keys:
            found.append(f"the journal's entry {note.key} of {note.domain_id or 'a drive'}")
    if len(found) > LINES_MAX:
        found[LINES_MAX:] = [f"and {len(found) - LINES_MAX} more"]
    return found


def _owed(hostname: str, runs: Iterable[RunState]) -> Dict[str, str]:
    """The cache domains that a run holds, or has ended without giving back: its id by domain."""
    found = {}
    for state in runs:
        held = state.status in (RunStatus.RUNNING, RunStatus.RELEASING)
        if state.spec.hostname != hostname or (state.restored and not held):
            continue
        for domain_id in state.owed or state.spec.domain_ids:
            if domain_id not in state.accepted and touched(state, domain_id):
                found[domain_id] = state.spec.run_id
    return found


def _drives(domain_id: str, report: Optional[HostReport]) -> str:
    drives = report.drives if report is not None else ()
    return ",".join(d.dev_name for d in drives if d.domain_id == domain_id) or domain_id


def _until_accepted(hostname: str, domain_id: str) -> str:
    return (
        "`ceph wcache status` reports it until you run "
        + typed("ceph wcache drive accept {} {} --yes", hostname, domain_id)
    )
