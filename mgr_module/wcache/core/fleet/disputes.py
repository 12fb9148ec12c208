"""Cache domains whose prior state is owed or lost: nothing is begun on them until that is settled.

*Owed*: it was not read back yet, and somebody who knows it is still to restore it.  *Lost*:
nobody knows it any more, or the probe's journal and the mgr contradict each other; only an
admin can settle that, by taking the drive as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Collection, Dict, Iterable, Iterator, List, Mapping, Optional, Set, Tuple

from ..change.change import TOUCHED, Change, ChangeStatus
from ..change.rollout_state import UNDER_WAY, Rollout
from ..drive.journal import EntryKind, of_version
from ..drive.prior import PriorDoubt
from ..experiment.osd_option import NONE, by_hand
from ..experiment.run_state import OVER, RunState, RunStatus
from ..host_report import HostReport, JournalNote
from ..text import ticked

Key = Tuple[str, str]
"""Hostname and cache domain."""
_ACTION = f"{EntryKind.ACTION.value}/"
_HOLDING = (RunStatus.RUNNING, RunStatus.RELEASING)


@dataclass(frozen=True)
class Dispute:
    """One reason why the prior state of a cache domain is not settled.

    `run_id`, `action_id` and `journal_key` say where it comes from; the others are empty.
    `told_back`: the probe has said that it restored it, and it was not read since.
    """

    hostname: str
    domain_id: str
    why: str
    lost: bool
    run_id: str = ""
    action_id: str = ""
    journal_key: str = ""
    told_back: bool = False
    of_osd: bool = False  # an option of an OSD, of which no probe knows
    of_version: str = ""  # the number of a journal entry that its probe does not know

    @property
    def key(self) -> Key:
        """What it is about."""
        return self.hostname, self.domain_id


def disputes(
    runs: Iterable[RunState], rollouts: Iterable[Rollout], reports: Mapping[str, HostReport],
    cluster_fsid: str, fresh: Collection[str],
) -> Tuple[Dispute, ...]:
    """All of them.  `fresh` are the hosts whose reports tell of the state that is there now.

    Another report may tell of entries that our own runs and changes have dropped since; what
    else it tells of the journal still holds.
    """
    plans, states = list(rollouts), list(runs)
    found = [item for state in states for item in _of_run(state)]
    owed = {item.key for item in found}
    found += [item for plan in plans for item in _of_plan(plan)]
    known: Dict[str, Change] = {}
    moving: Set[str] = set()
    standing: Set[Key] = set()
    for plan in plans:
        for change in plan.drive_changes:
            known[change.action_id] = change
            if plan.status in UNDER_WAY:
                moving.add(change.hostname)
            if change.status in TOUCHED:
                standing.add((change.hostname, change.domain_id))
    held, past = _domains(states, _HOLDING), _domains(states, OVER)
    for hostname, report in reports.items():
        for note in report.journal if hostname not in moving else ():
            key, now = (hostname, note.domain_id), hostname in fresh
            why, lost, version = "", True, ""
            if not note.drives:
                why, version = _unread(note, report)
                lost = not version
            elif note.cluster_fsid not in ("", cluster_fsid):
                why = f"journal entry {note.key} is of cluster {note.cluster_fsid}"
            elif note.key.startswith(_ACTION):
                change_of = known.get(note.key[len(_ACTION):])
                if now or change_of is None:
                    why = _of_action(note, change_of, key, standing)
            elif key not in owed and (now or key not in past):
                # its probe may still restore it; a drive that is gone never comes back
                why, lost = f"journal entry {note.key} is of no lease of this mgr", False
            if why and key not in held:
                found.append(
                    Dispute(
                        hostname, note.domain_id, why, lost, journal_key=note.key,
                        of_version=version,
                    )
                )
    return tuple(found)


def on_domains(
    found: Iterable[Dispute], reports: Mapping[str, HostReport]
) -> Iterator[Tuple[Key, Dispute]]:
    """Each with the cache domains that it is of: an entry that names none may be of any there."""
    for item in found:
        ids = {item.domain_id}
        if item.journal_key and not item.domain_id:
            ids |= {drive.domain_id for drive in reports[item.hostname].drives}
        for domain_id in sorted(ids):
            yield (item.hostname, domain_id), item


def _unread(note: JournalNote, report: HostReport) -> Tuple[str, str]:
    """Why an entry is not read; and its number, where its probe says that it knows another one."""
    begins = of_version(note.key)
    told = (one.detail for one in report.findings if one.subject == note.key)
    found = next((text[len(begins):] for text in told if text.startswith(begins)), "")
    version = found.partition(",")[0]
    if version:
        return f"{begins}{version}: update its probe, or run the one that wrote it", version
    anywhere = "" if note.domain_id else ", and may be of any drive there (DOMAIN is its key)"
    return f"journal entry {note.key} cannot be read by its probe{anywhere}", ""


def _domains(states: Iterable[RunState], statuses: Collection[RunStatus]) -> Set[Key]:
    return {
        (state.spec.hostname, domain_id) for state in states if state.status in statuses
        for domain_id in state.spec.domain_ids if domain_id not in state.accepted
    }


def _of_run(state: RunState) -> List[Dispute]:
    if state.status not in OVER or state.restored:
        return []
    found = []
    for domain_id in state.unsettled:
        told = domain_id in state.told_back
        by_probe = "its probe has restored the prior state, which" if told else "the prior state"
        why = f"{state.spec.run_id} ended, and {by_probe} was not read back yet"
        trial, osd_id = state.spec.option, state.spec.option_osd
        if trial is not None and osd_id is not None:
            what = f"{trial.name} of osd.{osd_id}"
            why = f"{state.spec.run_id} ended, and {what} was not read back yet"
            priors = (o.value for d in state.prior_of(domain_id).drives for o in d.options)
            undo = by_hand(trial.name, f"osd.{osd_id}", next(priors, NONE))
            why += f" (by hand: {ticked(undo)})"
        found.append(
            Dispute(
                state.spec.hostname, domain_id, state.dispute or why, bool(state.dispute),
                run_id=state.spec.run_id, told_back=told, of_osd=osd_id is not None,
            )
        )
    return found


def _of_plan(plan: Rollout) -> List[Dispute]:
    """Changes that are neither proven nor back: a rollback may still do it, if the drive lives."""
    return [
        Dispute(
            change.hostname, change.domain_id,
            unconfirmed(plan.plan_id, change),
            change.doubt in (PriorDoubt.DISPUTED, PriorDoubt.LOST), action_id=change.action_id,
        )
        for change in plan.drive_changes
        if plan.status not in UNDER_WAY
        and change.status in (ChangeStatus.APPLYING, ChangeStatus.ROLLBACK_FAILED)
    ]


def unconfirmed(plan_id: str, change: Change) -> str:
    """Why nobody knows whether a change is in place."""
    why = change.detail or "could not confirm whether the change is in place or undone"
    return f"plan {plan_id}: {why}"


def _of_action(
    note: JournalNote, change: Optional[Change], key: Key, standing: Set[Key]
) -> str:
    """Why an entry of an applied change does not agree with what the mgr knows of it."""
    if change is None or (change.hostname, change.domain_id) != key:
        if note.cluster_fsid and key in standing:
            return ""  # later plans replaced it, and it was forgotten with its plan
        return f"journal entry {note.key} is of a change that the mgr does not know"
    if change.status not in TOUCHED:
        return f"journal entry {note.key} is of a change that is {change.status.value}"
    told = {item.drive_id: (item.mode, item.saved) for item in note.drives}
    kept = {item.drive_id: (item.mode, item.state.page.saved) for item in change.prior.drives}
    if told == kept:
        return ""
    return f"journal entry {note.key} records a different prior state than the mgr"
