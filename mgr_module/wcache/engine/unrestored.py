"""Prior states that are owed: read back, restored where only the mgr knows them, or given up.

A run that ended with nobody to answer owes the domains it touched.  They are settled by a
reading that shows them as they were.  Where a probe's journal is lost (another probe speaks
for the host now), and the drive is in the mode that wcache left it in, the probe is asked
to restore it from what the mgr has stored.

A probe drops an entry only when it has read the prior state.  So a journal of the same probe
without an entry says that the drive was restored; where it is in another state, somebody
changed it since, and it is not changed again: an admin accepts it.

What an admin has accepted is kept over a mgr's end until its journal entries are gone.  The mons
have it before the probe hears of it, so that no later mgr restores what is given up.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Dict, Iterable, List, Mapping, Optional, Set, Tuple

from ..core.change.change import ChangeStatus
from ..core.codec import one_line
from ..core.drive.journal import Acceptance, Acceptances
from ..core.drive.prior import entry_differs, states_by_id
from ..core.events import Begin, Event, Halt
from ..core.experiment.leased_run import BACK
from ..core.experiment.run import RunMachine
from ..core.fleet.disputes import Dispute, Key, disputes, on_domains
from ..core.host_report import HostReport
from ..core.model import DriveState, mode_of
from ..core.protocol import AcceptRequest, Notice, ReleaseRequest, Request, StateOutcome
from .hosts import RESTORE_EVERY_S, leased_by
from .persistence import StatePersistence
from .storing.archive import ACCEPTED
from .under_way import Shared

_OWING = (ChangeStatus.APPLYING, ChangeStatus.ROLLBACK_FAILED)

Learned = Tuple[str, str]
"""A run whose state changed, and a line for the log; empty where there is nothing to say."""


class Unrestored:
    """Guarded by the engine's lock."""

    def __init__(self, shared: Shared, persistence: StatePersistence) -> None:
        self._shared = shared
        self._hosts = shared.hosts
        self._persistence = persistence
        self.accepted: Dict[Key, Acceptance] = {}  # what waits, by domain
        self._asked_at_s: Dict[Tuple[str, Key], float] = {}  # to restore, or to drop
        self._flagged: Set[Tuple[str, str]] = set()  # run and domain

    def told(self, hostname: str, notice: Notice) -> List[Learned]:
        """A probe has restored a lease by itself.

        Its word alone settles nothing: the host is looked at again.
        """
        self._hosts.reported_at_s.pop(hostname, None)
        changed: List[Learned] = []
        for run_id, machine in self._shared.runs.items():
            domain_id = notice.domain_id
            mine = machine.spec.hostname == hostname and domain_id in machine.spec.domain_ids
            if mine and notice.lease_id == machine.spec.lease_id:
                state = machine.state
                prior, told = state.prior_of(domain_id), state.told_back
                if domain_id not in told:
                    state = replace(state, told_back=(*told, domain_id))
                wrong = entry_differs(notice.prior, prior) if notice.prior and prior.known else ""
                if wrong and not state.dispute:  # one write, however often it is told
                    why = f"the journal has another prior state: {wrong}"
                    state = replace(state, dispute=one_line(why))
                if state != machine.state:
                    machine.state = state
                    changed.append((run_id, ""))
        return changed

    def released(
        self, hostname: str, request: ReleaseRequest, outcome: StateOutcome
    ) -> List[Learned]:
        """A probe did what `restore` asked for, and read the drives afterwards."""
        read = states_by_id(outcome.drive_ids, outcome.after)
        changed: List[Learned] = []
        for run_id, machine in self._shared.runs.items():
            if machine.spec.lease_id == request.lease_id:
                for domain_id in _owed(machine, hostname):
                    prior = machine.state.prior_of(domain_id)
                    mine = domain_id == request.domain_id and not machine.state.dispute
                    if mine and not prior.differs(read):
                        machine.confirm(domain_id)
                        changed.append((run_id, BACK))
        return changed

    def read(self, report: HostReport) -> List[Learned]:
        """A host has reported: domains that are as they were, and those somebody changed."""
        there = {note.key for note in report.journal}
        self._drop(
            key for key, item in self.accepted.items()
            if item.hostname == report.hostname and not there & set(item.keys)
            and all(map(self._persistence.is_stored, item.owners))
        )
        read = {drive.drive_id: drive.state for drive in report.drives}
        changed: List[Learned] = []
        for run_id, machine in self._shared.runs.items():
            for domain_id in _owed(machine, report.hostname):
                if machine.state.dispute or leased_by(report, domain_id):
                    continue  # nobody knows, or the probe itself is not done with it
                prior = machine.state.prior_of(domain_id)
                differs, where = prior.differs(read), (run_id, domain_id)
                if not differs:
                    machine.confirm(domain_id)
                    changed.append((run_id, BACK))
                elif any(item.drive_id not in read for item in prior.drives):
                    continue  # it is gone, and may come back as it was
                elif not self._may_restore(machine, domain_id, read):
                    if where in self._flagged:
                        why = one_line(
                            f"the probe's journal has no entry of {run_id} for {domain_id} any "
                            f"more, but {domain_id} is not in its prior state: {differs}"
                        )
                        machine.state = replace(machine.state, dispute=why)
                        changed.append((run_id, why))
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
        prior = state.prior_of(domain_id).drives
        if any(item.drive_id not in read for item in prior):
            return False
        as_left = all(
            mode_of(item.transport, read[item.drive_id]) is not None
            and read[item.drive_id].page.saved is item.state.page.saved
            for item in prior
        )
        return lost and as_left and domain_id not in state.told_back

    def request(self, hostname: str, now_s: float) -> Optional[Request]:
        """What a probe with nothing else to do should drop, or restore by what the mgr knows."""
        for key, item in self.accepted.items():
            # only what the mons know to be given up
            stored = all(map(self._persistence.is_stored, (ACCEPTED.prefix, *item.owners)))
            if item.hostname == hostname and stored and self._asks("drop", key, now_s):
                return AcceptRequest(item.domain_id, item.keys)
        report = self._hosts.reports.get(hostname)
        if report is None or hostname not in self._hosts.reported_at_s:
            return None
        here = {drive.domain_id for drive in report.drives}
        read = {drive.drive_id: drive.state for drive in report.drives}
        for machine in self._shared.runs.values():
            for domain_id in _owed(machine, hostname):
                known = not machine.state.dispute and (
                    leased_by(report, domain_id) or self._may_restore(machine, domain_id, read)
                )
                if known and domain_id in here and self._asks(
                    "restore", (hostname, domain_id), now_s
                ):
                    self._hosts.reported_at_s.pop(hostname, None)
                    return machine.state.release(domain_id)
        return None

    def _asks(self, what: str, key: Key, now_s: float) -> bool:
        """Whether a probe is asked for it now, which is done seldom."""
        due = now_s - self._asked_at_s.get((what, key), float("-inf")) >= RESTORE_EVERY_S
        if due:
            self._asked_at_s[what, key] = now_s
        return due

    def begin(self, due: Iterable[Tuple[str, Event]]) -> List[Tuple[str, Event]]:
        """The same for waiting runs, with the Halt of each whose domains are not settled.

        A run waits on until the journal of its host is known.
        """
        known = self._hosts.journal_known
        found = [
            (run_id, event) for run_id, event in due
            if not isinstance(event, Begin) or self._shared.runs[run_id].spec.hostname in known
        ]
        if not found:
            return []
        disputed = self.disputes(self._shared.view.cluster().fsid)
        reasons = {key: i.why for key, i in on_domains(disputed, self._hosts.reports)}
        for index, (run_id, event) in enumerate(found):
            machine = self._shared.runs[run_id]
            spec = machine.spec
            why = [reasons.get((spec.hostname, name), "") for name in spec.domain_ids]
            if isinstance(event, Begin) and any(why) and not spec.observes:
                found[index] = (run_id, Halt(f"not measured: {'; '.join(filter(None, why))}"))
            agent = self._hosts.agents.get(spec.hostname)
            if agent is not None:
                machine.state = replace(machine.state, probe_id=agent.probe_id)
        return found

    def disputes(self, cluster_fsid: str) -> Tuple[Dispute, ...]:
        """Everything that is not settled."""
        runs, rollouts = self._shared.runs.values(), self._shared.rollouts.values()
        return disputes(
            (machine.state for machine in runs), (machine.rollout for machine in rollouts),
            self._hosts.reports, cluster_fsid, self._hosts.reported_at_s,
        )

    # ---- what an admin has accepted

    def load(self) -> List[str]:
        """Take up what was stored: ids of runs and plans that it changed."""
        items = (self._shared.archive.get(ACCEPTED) or Acceptances()).items
        self.accepted = {(item.hostname, item.domain_id): item for item in items}
        return [owner for item in items for owner in self._give_up(item)]

    def accept(self, item: Acceptance) -> List[str]:
        """Store it, then ask the probe; one that is there already is asked for again.

        Returns the ids of runs and plans that it changes.
        """
        key = (item.hostname, item.domain_id)
        old, merged = self.accepted.get(key), item
        if old is not None:
            keys, owners = {*old.keys, *item.keys}, {*old.owners, *item.owners}
            merged = replace(item, keys=tuple(sorted(keys)), owners=tuple(sorted(owners)))
        if item.keys:
            self._asked_at_s.pop(("drop", key), None)
        if item.keys and merged != old:
            self.accepted[key] = merged
            self._save()  # before all else, so that all of it is stored or none
        return self._give_up(item)

    def forget(self, hostname: str) -> None:
        """A host that is gone has no journal."""
        self._drop(key for key in self.accepted if key[0] == hostname)

    def _drop(self, keys: Iterable[Key]) -> None:
        gone = [*keys]
        for key in gone:
            del self.accepted[key]
        if gone:
            self._save()

    def _save(self) -> None:
        self._persistence.save_value(ACCEPTED, Acceptances(tuple(self.accepted.values())))

    def _give_up(self, item: Acceptance) -> List[str]:
        """What runs and plans owe of a domain: ids of those that this changes."""
        changed = []
        for owner in item.owners:
            run, plan = self._shared.runs.get(owner), self._shared.rollouts.get(owner)
            if run is not None and item.domain_id not in run.state.accepted:
                run.state = replace(run.state, accepted=(*run.state.accepted, item.domain_id))
                changed.append(owner)
            if plan is None:
                continue
            key = (item.hostname, item.domain_id)
            changes = tuple(
                replace(c, status=ChangeStatus.ACCEPTED)
                if (c.hostname, c.domain_id) == key and c.status in _OWING else c
                for c in plan.rollout.changes
            )
            if changes != plan.rollout.changes:
                plan.rollout = replace(plan.rollout, changes=changes)
                changed.append(owner)
        return changed


def _owed(machine: RunMachine, hostname: str) -> Iterable[str]:
    state = machine.state
    if machine.spec.hostname != hostname or not machine.over or state.restored:
        return ()
    if machine.spec.option_osd is not None:
        return ()  # no host tells of an OSD's option (`osd_options.py`)
    return state.unsettled
