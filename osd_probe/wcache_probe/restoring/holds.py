"""What the keeper holds is what the journal says, whichever thread or process changed it.

A child that restores ends at any time: when it is heard of, its lease may have been resumed
and have written a new entry.  So no success of anybody frees a cache domain; the journal does,
read at that moment.  Reading it and telling the keeper is one step, or the loop and the guard
could tell it what was so before the other one.
"""

from __future__ import annotations

import threading
from typing import Callable, Dict, Tuple

from wcache.core.drive.journal import EntryKind, JournalEntry
from wcache.core.errors import WcacheError

from ..switching.lease import LeaseKeeper

ReadJournal = Callable[[], Tuple[Dict[str, JournalEntry], Dict[str, str]]]


class Holds:
    """Tells the keeper what the journal says.  Where that is in doubt, nothing is freed."""

    def __init__(self, keeper: LeaseKeeper, read: ReadJournal) -> None:
        self._keeper = keeper
        self._read = read
        self._one_at_a_time = threading.Lock()

    def follow(self, domain_id: str) -> None:
        """Hold the domain where the journal has an entry of a lease for it, else free it."""
        key = lease_key(domain_id)
        with self._one_at_a_time:
            try:
                sound, damaged = self._read()
            except WcacheError:
                return
            if key in sound:
                self._keeper.is_held(domain_id, sound[key].owner_id)
            elif key not in damaged:
                self._keeper.is_free(domain_id)

    def hold_all(self) -> None:
        """Hold every domain that the journal has an entry of a lease for."""
        with self._one_at_a_time:
            try:
                sound, _ = self._read()
            except WcacheError:
                return
            for entry in sound.values():
                if entry.kind is EntryKind.LEASE:
                    self._keeper.is_held(entry.domain_id, entry.owner_id)


def lease_key(domain_id: str) -> str:
    """Where the journal keeps the entry of a domain's lease."""
    return f"{EntryKind.LEASE.value}/{domain_id}"
