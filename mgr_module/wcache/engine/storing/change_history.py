"""Puts a line into the audit log when a change of a plan has come to an end."""

from __future__ import annotations

from dataclasses import replace
from typing import Callable, Dict, Mapping, Optional, Tuple

from ...core.change.change import ChangeStatus
from ...core.change.history import ended, line
from ...core.change.rollout import RolloutMachine
from ...core.change.rollout_state import Rollout
from ...core.experiment.run import RunMachine
from ...core.history import OSDS_MAX, PROBE_PREFIX, About
from ...core.host_report import HostReport
from .audit_log import AuditLog


class ChangeHistory:
    """Looks at plans as they are stored; guarded by the engine's lock.

    `reports` are the hosts' last ones: which OSDs a drive has.
    """

    def __init__(
        self, audit: AuditLog, reports: Callable[[], Mapping[str, HostReport]],
        clock: Callable[[], float],
    ) -> None:
        self._audit = audit
        self._reports = reports
        self._clock = clock
        self._known: Dict[str, Dict[str, ChangeStatus]] = {}

    def load(self, rollouts: Mapping[str, RolloutMachine]) -> None:
        """What stored plans have come to is told already."""
        self._known = {plan_id: _statuses(one.rollout) for plan_id, one in rollouts.items()}

    def look(self, machine: RolloutMachine) -> None:
        """Tell what has ended since; the plan keeps when it did."""
        rollout = machine.rollout
        indices = ended(self._known.get(rollout.plan_id, {}), rollout)
        self._known[rollout.plan_id] = _statuses(rollout)
        if not indices:
            return
        now_s, changes = self._clock(), [*rollout.changes]
        for index in indices:
            change = changes[index] = replace(changes[index], at_s=now_s)
            ids = osds_of(self._reports(), change.hostname, change.domain_id)
            self._audit.add(line(rollout, change, now_s, ids))
        machine.rollout = replace(rollout, changes=tuple(changes))

    def about(self, who: str, what: str, run: Optional[RunMachine]) -> Optional[About]:
        """The drive that a line of a run is about, or of a probe that names a cache domain."""
        if run is not None:
            hostname, domain_id = run.spec.hostname, run.spec.domain_id
        elif who.startswith(PROBE_PREFIX):
            hostname, domain_id = who[len(PROBE_PREFIX):], what
        else:
            return None
        ids = osds_of(self._reports(), hostname, domain_id)
        return About(hostname, ids[:OSDS_MAX], "" if domain_id == hostname else domain_id)


def _statuses(rollout: Rollout) -> Dict[str, ChangeStatus]:
    return {change.action_id: change.status for change in rollout.changes}


def osds_of(
    reports: Mapping[str, HostReport], hostname: str, domain_id: str
) -> Tuple[int, ...]:
    """The OSDs on a cache domain, as its host has last reported."""
    report = reports.get(hostname)
    drives = report.drives if report is not None else ()
    return tuple(sorted({
        use.osd_id for drive in drives if drive.domain_id == domain_id for use in drive.uses
    }))
