"""What a mgr is told of the journal, one of another protocol too, which goes by its keys alone."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Callable, Dict, Mapping, Optional, Sequence, Tuple

from wcache.core import across
from wcache.core.drive.journal import EntryKind, JournalEntry, PriorDrive
from wcache.core.errors import NotReadyError, WcacheError
from wcache.core.host_report import NOTES_MAX, JournalNote, KeptPrior
from wcache.core.model import Finding, FindingCode, Severity
from wcache.core.protocol import PROTOCOL_VERSION, Lease

from ..mgr_link import Identity, printable

_LEASE, ACTION = (f"{kind.value}/" for kind in (EntryKind.LEASE, EntryKind.ACTION))


def prior_of_entry(entry: Optional[JournalEntry]) -> Tuple[PriorDrive, ...]:
    """What an entry says of its drives, as it is told to the mgr: without their layers."""
    drives = entry.drives if entry is not None else ()
    return tuple(replace(d, state=replace(d.state, layers=())) for d in drives)


def journal_notes(
    sound: Mapping[str, JournalEntry], damaged: Mapping[str, str],
    unread: Mapping[str, JournalEntry],
) -> Tuple[JournalNote, ...]:
    """What the journal holds, for the mgr to compare with what it knows.

    `unread` are those of the damaged ones that name their drives.  Where there are too many,
    entries of applied changes are left out: what is owed or damaged comes first.
    """
    notes = [
        JournalNote(
            entry.key, entry.domain_id, entry.cluster_fsid,
            tuple(KeptPrior(d.drive_id, d.mode, d.state.page.saved) for d in entry.drives),
        )
        for entry in sound.values()
    ]
    for key in damaged:
        # the key of a lease's entry names its domain, that of an action's does not
        domain_id = key[len(_LEASE):] if key.startswith(_LEASE) else ""
        domain_id = unread[key].domain_id if key in unread else domain_id
        notes.append(JournalNote(printable(key), printable(domain_id)))
    notes.sort(key=lambda note: bool(note.drives) and note.key.startswith(ACTION))
    return tuple(notes[:NOTES_MAX])


def journal_findings(
    sound: Mapping[str, JournalEntry], damaged: Mapping[str, str], lease: Optional[Lease]
) -> Tuple[Finding, ...]:
    """What could not be restored so far; `lease` is the live one."""
    lines = [(printable(key), text) for key, text in damaged.items()]
    for entry in sound.values():
        live = lease is not None and lease.lease_id == entry.owner_id
        if entry.kind is EntryKind.LEASE and not live:
            lines.append((entry.domain_id, f"the prior state of lease {entry.owner_id} is not "
                                           "restored yet"))
    return tuple(
        Finding(FindingCode.RESTORE_FAILED, Severity.ERROR, subject, printable(text))
        for subject, text in lines
    )


@dataclass
class JournalBack:
    """Brings back what such a mgr names; `keys` are those of the journal now."""

    keys: Callable[[], Sequence[str]]
    bring_back: Callable[[Sequence[str]], Mapping[str, Optional[WcacheError]]]
    _brought_back: Dict[str, None] = field(default_factory=dict)  # as that mgr asked for it
    _going_back: Dict[str, None] = field(default_factory=dict)  # the restore has not ended yet

    def report(self, keys: Sequence[str], identity: Identity) -> str:
        """Restore these entries of the journal, then say what is in it."""
        going_back, here = self._going_back, self.keys()
        failed: Dict[str, str] = {}
        # those of leases are owed, and brought back as such
        going_back.update({key: None for key in keys if key in here and key.startswith(ACTION)})
        # without a key too: what hung may have ended
        for key, error in self.bring_back([*going_back]).items():
            if isinstance(error, NotReadyError):
                continue
            going_back.pop(key, None)
            if error is None:
                self._brought_back[key] = None
            else:
                failed[key] = printable(error.line())
        # of what goes on the entry may be gone, and it is not known yet that it is back
        here = [*{**dict.fromkeys(self.keys()), **going_back}]
        # of a list that is full this answers what it does not say
        known = {*here, *self._brought_back, *failed}
        gone = (key for key in keys if key.startswith(ACTION) and key not in known)
        failed.update({key: "its journal has no entry of it" for key in gone})
        # where there are too many the last are left out: leases come first
        here.sort(key=lambda key: (key.startswith(ACTION), key not in going_back))
        while len(self._brought_back) > across.KEYS_MAX:
            del self._brought_back[next(iter(self._brought_back))]
        return across.encode(across.Report(
            PROTOCOL_VERSION, identity.hostname, identity.probe_id, identity.instance_id,
            tuple(filter(across.is_key, here)), tuple(self._brought_back), tuple(failed.items()),
        ))
