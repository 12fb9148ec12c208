"""Prior states that are owed: read back, restored where only the mgr knows them, or settled.

A run that ended with nobody to answer owes the domains it touched.  They are settled by a
reading that shows them as they were.  Where a probe's journal is lost (another probe speaks
for the host now), and the drive is in the mode that wcache left it in, the probe is asked
to restore it from what the mgr has stored.

A probe drops an entry only when it has read the prior state.  So a journal of the same probe
without an entry says that the drive was restored; where it is in another state, somebody
changed it since, and it is not changed again: an admin accepts it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Dict, Iterable, List, Mapping, Optional, Set, Tuple

from ..core.change.rollout import RolloutMachine
from ..core.cluster import ClusterView
from ..core.drive.journal import EntryKind
from ..core.drive.prior import not_back, states_by_id
from ..core.events import Begin, Event, Halt
from ..core.experiment.run import RunMachine
from ..core.experiment.run_held import BACK
from ..core.experiment.run_priors import (
    differs_from_prior,
    prior_of,
    release_request,
    touched,
    with_changed_since,
    with_dispute,
    with_told,
    with_told_back,
)
from ..core.fleet.disputes import Dispute, Key, disputes
from ..core.host_report import HostReport
from ..core.model import DriveState, mode_of
from ..core.protocol import Notice, ReleaseRequest, Request, StateOutcome
from .hosts import Hosts

# How often a probe is asked to restore what its journal has lost.
RESTORE_EVERY_S = 60.0

Learned = Tuple[str, str]
"""A run whose state changed, and a line for the log; empty where there is nothing to say."""


class Unrestored:
    """Guarded by the engine's lock."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts
        self._asked_at_s: Dict[Key, float] = {}
        self._flagged: Set[Tuple[str, str]] = set()  # run and domain

    def told(
        self, runs: Mapping[str, RunMachine], hostname: str, notice: Notice
    ) -> List[Learned]:
        """A probe has restored a lease by itself.

        Its word alone settles nothing: the host is looked at again.
        """
        self._hosts.reported_at_s.pop(hostname, None)
        changed: List[Learned] = []
        for run_id, machine in runs.items():
            domain_id = notice.domain_id
            mine = machine.spec.hostname == hostname and domain_id in machine.spec.domain_ids
            if mine and notice.lease_id == machine.spec.lease_id:
                state = with_told_back(machine.state, domain_id)
                if notice.prior:
                    state = with_told(state, domain_id, notice.prior)
                    state = with_dispute(state, domain_id, notice.prior)
                if state != machine.state:
                    machine.state = state
                    changed.append((run_id, ""))
        return changed

    def released(
        self, runs: Mapping[str, RunMachine], hostname: str, request: ReleaseRequest,
        outcome: StateOutcome,
    ) -> List[Learned]:
        """A probe did what `restore` asked for, and read the drives afterwards."""
        read = states_by_id(outcome.drive_ids, outcome.after)
        changed: List[Learned] = []
        for run_id, machine in runs.items():
            if machine.spec.lease_id == request.lease_id:
                for domain_id in _owed(machine, hostname):
                    prior = prior_of(machine.state, domain_id)
                    mine = domain_id == request.domain_id and not machine.state.dispute
                    if mine and not differs_from_prior(prior, read):
                        machine.confirm(domain_id)
                        changed.append((run_id, BACK))
        return changed

    def read(self, runs: Mapping[str, RunMachine], report: HostReport) -> List[Learned]:
        """A host has reported: domains that are as they were, and those somebody changed."""
        read = {drive.drive_id: drive.state for drive in report.drives}
        changed: List[Learned] = []
        for run_id, machine in runs.items():
            for domain_id in _owed(machine, report.hostname):
                prior = prior_of(machine.state, domain_id)
                if not prior.known or machine.state.dispute or _has_entry(report, domain_id):
                    continue  # nobody knows, or the probe itself is not done with it
                differs, where = not_back(prior.drives, read), (run_id, domain_id)
                if not differs:
                    machine.confirm(domain_id)
                    changed.append((run_id, BACK))
                elif any(item.drive_id not in read for item in prior.drives):
                    continue  # it is gone, and may come back as it was
                elif not self._may_restore(machine, domain_id, read):
                    if where in self._flagged:
                        state = with_changed_since(machine.state, domain_id, differs)
                        machine.state = state
                        changed.append((run_id, state.dispute))
                    else:
                        # a restore may have ended between the look and the end of the report
                        self._hosts.reported_at_s.pop(report.hostname, None)
                    self._flagged ^= {where}
        return changed

    def _may_restore(
        self, machine: RunMachine, domain_id: str, read: Mapping[str, DriveState]
    ) -> bool:
        """Whether a domain without a journal entry is as wcache left it, as far as is known."""
        state = machine.state
        agent = self._hosts.agents.get(state.spec.hostname)
        lost = agent is not None and state.probe_id not in ("", agent.probe_id)
        prior = prior_of(state, domain_id).drives
        if any(item.drive_id not in read for item in prior):
            return False
        as_left = all(
            mode_of(item.transport, read[item.drive_id]) is not None
            and read[item.drive_id].page.saved is item.state.page.saved
            for item in prior
        )
        return lost and as_left and domain_id not in state.told_back

    def restore(
        self, runs: Mapping[str, RunMachine], hostname: str, now_s: float
    ) -> Optional[Request]:
        """What a probe with nothing else to do should restore by what the mgr knows."""
        report = self._hosts.reports.get(hostname)
        if report is None or hostname not in self._hosts.reported_at_s:
            return None
        here = {drive.domain_id for drive in report.drives}
        read = {drive.drive_id: drive.state for drive in report.drives}
        for machine in runs.values():
            for domain_id in _owed(machine, hostname):
                asked_at_s = self._asked_at_s.get((hostname, domain_id), float("-inf"))
                known = prior_of(machine.state, domain_id).known and not machine.state.dispute
                known = known and (
                    _has_entry(report, domain_id) or self._may_restore(machine, domain_id, read)
                )
                if known and domain_id in here and now_s - asked_at_s >= RESTORE_EVERY_S:
                    self._asked_at_s[(hostname, domain_id)] = now_s
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
            if isinstance(event, Begin) and any(why) and not spec.observes:
                found[index] = (run_id, Halt(f"not measured: {'; '.join(filter(None, why))}"))
            agent = self._hosts.agents.get(spec.hostname)
            if agent is not None:
                machine = runs[run_id]
                machine.state = replace(machine.state, probe_id=agent.probe_id)
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


def _has_entry(report: HostReport, domain_id: str) -> bool:
    key = f"{EntryKind.LEASE.value}/{domain_id}"
    return any(note.key == key for note in report.journal)


def _owed(machine: RunMachine, hostname: str) -> Iterable[str]:
    state = machine.state
    if machine.spec.hostname != hostname or not machine.over or state.restored:
        return ()
    if machine.spec.option_osd is not None:
        return ()  # no host tells of an OSD's option (`osd_options.py`)
    owed = state.owed or state.spec.domain_ids
    return [d for d in owed if d not in state.accepted and touched(state, d)]
