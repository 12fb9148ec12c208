"""What the probe tells of its journal: in reports, findings and answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Optional, Tuple

from wcache.core.drive.journal import EntryKind, JournalEntry, PriorDrive
from wcache.core.host_report import JournalNote, KeptPrior
from wcache.core.model import Finding, FindingCode, Severity
from wcache.core.protocol import Lease

from ..mgr_link import printable
from ..switcher import Switcher

NOTES_MAX = 1024
_LEASE = f"{EntryKind.LEASE.value}/"


def prior_of_entry(entry: Optional[JournalEntry]) -> Tuple[PriorDrive, ...]:
    """What an entry says of its drives, as it is told to the mgr: without their layers."""
    drives = entry.drives if entry is not None else ()
    return tuple(replace(d, state=replace(d.state, layers=())) for d in drives)


def journal_notes(switcher: Switcher) -> Tuple[JournalNote, ...]:
    """What the journal holds, for the mgr to compare with what it knows."""
    sound, damaged = switcher.read_journal()
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
        notes.append(JournalNote(printable(key), printable(domain_id)))
    return tuple(notes[:NOTES_MAX])


def journal_findings(switcher: Switcher, lease: Optional[Lease]) -> Tuple[Finding, ...]:
    """What could not be restored so far; `lease` is the live one."""
    sound, damaged = switcher.read_journal()
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
