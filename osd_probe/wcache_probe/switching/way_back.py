"""The way back of what only the mgr knows: the journal has no entry of the change."""

from __future__ import annotations

from typing import Sequence

from wcache.core.drive.journal import JOURNAL_VERSION, EntryKind, JournalEntry
from wcache.core.drive.prior import Prior, lost, not_back, states_by_id
from wcache.core.drive.safety import require_ours, require_throwaway
from wcache.core.model import CacheMode, DriveReport

from . import options, toggle
from .steps import Program, ReadOptions, ReadState, Switched, WriteJournal, read


def bring_back(
    prior: Prior, drives: Sequence[DriveReport], *, kind: EntryKind, owner_id: str, now_s: float,
    throwaway: bool = False,
) -> Program:
    """Restore the cache mode, or the options, of which the mgr tells.

    Drives that are as they were need nothing.  Others are journalled from what the mgr
    knows first, so that a crash in the middle leaves the way back.
    """
    if not prior.known:
        raise lost(owner_id)
    states = yield from read(*drives, how=ReadOptions if prior.of_options else ReadState)
    ids = [drive.drive_id for drive in drives]
    if not not_back(prior.drives, states_by_id(ids, states)):
        return Switched(states, states, changed=False)
    persisted = False
    if prior.of_options:
        throwaway = False
    else:  # before anything is journalled
        modes = {item.drive_id: item.mode for item in prior.drives}
        require_throwaway(drives, modes, throwaway=throwaway)
        if CacheMode.WRITE_BACK in modes.values():
            require_ours(drives)
        # what a lease found was never saved anew; an applied change may have been
        saved = {item.drive_id: item.state.page.saved for item in prior.drives}
        persisted = kind is EntryKind.ACTION and any(
            state.page.saved is not saved.get(drive.drive_id)
            for drive, state in zip(drives, states)
        )
    entry = JournalEntry(
        JOURNAL_VERSION, kind, owner_id, prior.domain_id, prior.drives, now_s, throwaway,
        persisted, prior.cluster_fsid,
    )
    yield WriteJournal(entry)
    restore = options.restore if prior.of_options else toggle.restore
    return (yield from restore(entry, drives))
