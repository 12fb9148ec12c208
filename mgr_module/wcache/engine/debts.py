"""Prior states that are owed: read back, restored where only the mgr knows them, or settled.

A run that ended with nobody to answer owes the domains it touched.  They are settled by a
report that shows them as they were; where it shows something else, and the probe's journal
has nothing to restore them by, the probe is asked to do it from what the mgr has stored.
"""

from __future__ import annotations

from typing import Dict, Iterable, List, Mapping, Optional, Tuple

from ..core.change.rollout import RolloutMachine
from ..core.cluster import ClusterView
from ..core.drive.disputes import Dispute, Key, disputes
from ..core.drive.journal import EntryKind
from ..core.drive.prior import not_back
from ..core.events import Begin, Event, Halt
from ..core.experiment.run import RunMachine
from ..core.experiment.run_priors import prior_of, release_request, touched, with_dispute, with_told
from ..core.model import HostReport
from ..core.protocol import Notice, Request
from .hosts import Hosts

# How often a probe is asked to restore what its journal has lost.
RESTORE_EVERY_S = 60.0


class Debts:
    """Guarded by the engine's lock."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts
        self._asked_at_s: Dict[Key, float] = {}

    def told(self, runs: Mapping[str, RunMachine], hostname: str, notice: Notice) -> List[str]:
        """A probe has restored a lease by itself: ids of runs whose state changed.

        Its word alone settles nothing: the host is looked at again.
        """
        self._hosts.reported_at_s.pop(hostname, None)
        changed = []
        for run_id, machine in runs.items():
            domain_id = notice.domain_id
            mine = machine.spec.hostname == hostname and domain_id in machine.spec.domain_ids
            if mine and notice.lease_id == machine.spec.lease_id and notice.prior:
                state = with_dispute(
                    with_told(machine.state, domain_id, notice.prior), domain_id, notice.prior
                )
                if state != machine.state:
                    machine.state = state
                    changed.append(run_id)
        return changed

    def read(self, runs: Mapping[str, RunMachine], report: HostReport) -> List[str]:
        """A host has reported: ids of runs of which a domain is now known to be as it was."""
        confirmed = []
        for run_id, machine in runs.items():
            for domain_id in _owed(machine, report.hostname):
                if not self._differs(machine, domain_id, report):
                    machine.confirm(domain_id)
                    confirmed.append(run_id)
        return confirmed

    @staticmethod
    def _differs(machine: RunMachine, domain_id: str, report: HostReport) -> bool:
        prior = prior_of(machine.state, domain_id)
        kept = f"{EntryKind.LEASE.value}/{domain_id}"
        if not prior.known or machine.state.dispute:
            return True
        if any(note.key == kept for note in report.journal):
            return True  # the probe itself is not done with it
        read = {drive.drive_id: drive.state for drive in report.drives}
        return bool(not_back(prior.drives, read))

    def restore(
        self, runs: Mapping[str, RunMachine], hostname: str, now_s: float
    ) -> Optional[Request]:
        """What a probe with nothing else to do should restore by what the mgr knows."""
        report = self._hosts.reports.get(hostname)
        if report is None or hostname not in self._hosts.reported_at_s:
            return None
        here = {drive.domain_id for drive in report.drives}
        for machine in runs.values():
            for domain_id in _owed(machine, hostname):
                asked_at_s = self._asked_at_s.get((hostname, domain_id), float("-inf"))
                known = prior_of(machine.state, domain_id).known and not machine.state.dispute
                if known and domain_id in here and now_s - asked_at_s >= RESTORE_EVERY_S:
                    self._asked_at_s[(hostname, domain_id)] = now_s
                    # its answer proves nothing that the next report does not
                    self._hosts.reported_at_s.pop(hostname, None)
                    return release_request(machine.state, domain_id)
        return None

    def begin(
        self, due: Iterable[Tuple[str, Event]], runs: Mapping[str, RunMachine],
        rollouts: Mapping[str, RolloutMachine], view: ClusterView,
    ) -> List[Tuple[str, Event]]:
        """The same for waiting runs, with the Halt of each whose domains are not settled.

        A run waits on until the journal of its host is known.
        """
        known = self._hosts.journal_known
        found = [
            (run_id, event) for run_id, event in due
            if not isinstance(event, Begin) or runs[run_id].spec.hostname in known
        ]
        if not found:
            return []
        reasons = {i.key: i.why for i in self.disputes(runs, rollouts, view.cluster().fsid)}
        for index, (run_id, event) in enumerate(found):
            spec = runs[run_id].spec
            why = [reasons.get((spec.hostname, name), "") for name in spec.domain_ids]
            if isinstance(event, Begin) and any(why):
                found[index] = (run_id, Halt(f"not measured: {'; '.join(filter(None, why))}"))
        return found

    def disputes(
        self, runs: Mapping[str, RunMachine], rollouts: Mapping[str, RolloutMachine],
        cluster_fsid: str,
    ) -> Tuple[Dispute, ...]:
        """Everything that is not settled."""
        return disputes(
            (m.state for m in runs.values()), (m.rollout for m in rollouts.values()),
            self._hosts.reports, cluster_fsid, self._hosts.reported_at_s,
        )


def _owed(machine: RunMachine, hostname: str) -> Iterable[str]:
    state = machine.state
    if machine.spec.hostname != hostname or not machine.over or state.restored:
        return ()
    owed = state.owed or state.spec.domain_ids
    return [d for d in owed if d not in state.accepted and touched(state, d)]
