"""What the running probe owes: cache domains whose lease is over.

A child that restores ends at any time: when it is heard of, its lease may have been resumed
and have written a new entry.  So no success of anybody frees a cache domain; the journal does,
read at that moment.  Reading it and telling the keeper is one step, or the loop and the guard
could tell it what was so before the other one.

The worker does the mgr's tasks, and a look at a drive that hangs takes it along, for minutes or
for ever.  A lease that runs out meanwhile, or that `restore --all` ends, must end all the same, so
a thread steps in: the guard.  It starts processes and asks no drive for anything.  What an admin
asks for is another thread's: its answer is a file, whose folder may hang too.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Callable, Dict, Iterable, List, Optional, Tuple

from wcache.core.drive.journal import EntryKind, PriorDrive
from wcache.core.errors import NotReadyError, WcacheError
from wcache.core.protocol import Notice

from ..journal.journal_words import prior_of_entry
from ..mgr_link import printable
from ..switching.lease import LeaseKeeper, Restore
from .restorer import ReadJournal, RestoreApart


@dataclass
class Holds:
    """Tells the keeper what the journal says.  Where that is in doubt, nothing is freed."""

    keeper: LeaseKeeper
    read: ReadJournal
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock)

    def follow(self, domain_id: str) -> None:
        """Hold the domain where the journal has an entry of a lease for it, else free it."""
        key = lease_key(domain_id)
        with self._one_at_a_time, suppress(WcacheError):
            sound, damaged = self.read()
            if key in sound:
                self.keeper.is_held(domain_id, sound[key].owner_id)
            elif key not in damaged:
                self.keeper.is_free(domain_id)

    def hold_all(self) -> None:
        """Hold every domain that the journal has an entry of a lease for."""
        with self._one_at_a_time, suppress(WcacheError):
            sound, _ = self.read()
            for entry in sound.values():
                if entry.kind is EntryKind.LEASE:
                    self.keeper.is_held(entry.domain_id, entry.owner_id)

    def prior(self, domain_id: str) -> Tuple[PriorDrive, ...]:
        """What the entry of a domain's lease says; nothing without one that can be read."""
        with suppress(WcacheError):
            return prior_of_entry(self.read()[0].get(lease_key(domain_id)))
        return ()


def lease_key(domain_id: str) -> str:
    """Where the journal keeps the entry of a domain's lease."""
    return f"{EntryKind.LEASE.value}/{domain_id}"


NOTICES_MAX = 64
# A restore on a busy host takes a while; one that is still running is told of after this long.
RUNNING_TOLD_S = 20.0


@dataclass
class Restoring:
    """Has everything restored that the keeper says is owed; `notices` wait for the mgr.

    `works_on`: the domain that a task of this process is changing at this moment.  It is left to
    that task, which goes back by itself: two never work on one domain.
    """

    keeper: LeaseKeeper
    holds: Holds
    restorer: RestoreApart
    instance_id: str
    say: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    works_on: Callable[[], str] = str
    notices: List[Notice] = field(default_factory=list)
    _priors: Dict[str, Tuple[PriorDrive, ...]] = field(default_factory=dict)
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock)
    _count: int = 0
    _told: Dict[str, str] = field(default_factory=dict)  # said last of a domain that is not back
    _running_since_s: Dict[str, float] = field(default_factory=dict)
    _items: Dict[str, Restore] = field(default_factory=dict)

    def restore_owed(
        self, patience_s: Optional[float] = None
    ) -> Dict[str, Optional[WcacheError]]:
        """Restore what is due now; returns what came of each domain, late ones too.

        The loop calls it, and the guard while the loop hangs.  `patience_s`
        is how long each is waited for, where nothing else is to be done.
        """
        with self._one_at_a_time:
            self.holds.hold_all()
            told: Dict[str, Optional[WcacheError]] = {}
            # twice where a child that was told of late had brought back an earlier entry
            for _ in range(2):
                owed = self.keeper.owed(self.clock())
                self._items.update({item.domain_id: item for item in owed})
                due = [item.domain_id for item in owed]
                busy = self.works_on()
                if busy in due:
                    due.remove(busy)
                    still = NotReadyError("a change of it has not ended", "it goes back by itself")
                    told[busy] = self._took(busy, still)
                if not due and not self._items:
                    break
                self._priors.update({name: self.holds.prior(name) for name in due})
                results = self.restorer.restore([lease_key(name) for name in due], patience_s)
                for key, error in results.items():
                    told[_domain(key)] = self._took(_domain(key), error)
            return told

    def _took(self, domain_id: str, error: Optional[WcacheError]) -> Optional[WcacheError]:
        """Take what became of a domain; returns what is so now."""
        self.holds.follow(domain_id)
        item = self._items.get(domain_id)
        now_s = self.clock()
        if not isinstance(error, NotReadyError):
            self._running_since_s.pop(domain_id, None)
        if error is None:
            self._told.pop(domain_id, None)
            again = domain_id in self.keeper.held
            if item is not None:
                del self._items[domain_id]
                more = ", and was changed anew under its lease" if again else ""
                self._note(item, f"the prior state is back{more}", restored=True)
            return NotReadyError("it was changed anew meanwhile", "call again") if again else None
        if domain_id not in self.keeper.held and not isinstance(error, NotReadyError):
            self._told.pop(domain_id, None)
            if item is not None:
                del self._items[domain_id]
                self._note(item, error.line(), restored=False)
            return error
        self.keeper.not_restored(domain_id, now_s)
        if isinstance(error, NotReadyError):
            since_s = self._running_since_s.setdefault(domain_id, now_s)
            if now_s - since_s < RUNNING_TOLD_S:
                return error
        # "still running" names the seconds, which are no news
        news = "running" if isinstance(error, NotReadyError) else error.line()
        if item is not None and self._told.get(domain_id) != news:
            self._told[domain_id] = news
            self._note(item, f"the prior state is not back: {error.line()}", restored=False)
        return error

    def _note(self, item: Restore, what: str, *, restored: bool) -> None:
        text = printable(f"{item.domain_id} (lease {item.lease_id}): {item.reason}; {what}")
        self.say(text)
        self._count += 1
        notice_id = f"{self.instance_id}.{self._count}"
        prior = self._priors.pop(item.domain_id, ()) if restored else ()
        if restored:  # what was said of it before, and nobody has heard, is no longer so
            of_it = (item.domain_id, item.lease_id, False)
            self.sent(
                one for one in tuple(self.notices)
                if (one.domain_id, one.lease_id, one.restored) == of_it
            )
        self.notices.append(
            Notice(notice_id, text, item.domain_id, restored, item.lease_id, prior)
        )
        del self.notices[:-NOTICES_MAX]

    def sent(self, notices: Iterable[Notice]) -> None:
        """These need not be told (any more)."""
        for notice in notices:
            with suppress(ValueError):  # the guard may have dropped it meanwhile
                self.notices.remove(notice)


def _domain(key: str) -> str:
    return key.partition("/")[2]


# A task that is well takes less, but for timers, in which no lease runs out.
BUSY_S = 2.0
EVERY_S = 0.5


def guard(
    restoring: Restoring, busy_s: Callable[[], float], look: Callable[[], None]
) -> None:
    """Begin what steps in for a worker that has been busy for too long, `busy_s`.

    It restores, and `look` does what an admin asks for by a file, each in a thread of its own.
    """
    for turn in (restoring.restore_owed, look):
        threading.Thread(
            target=_now_and_then, args=(turn, busy_s), name="guard", daemon=True
        ).start()


def _now_and_then(turn: Callable[[], object], busy_s: Callable[[], float]) -> None:
    while True:
        time.sleep(EVERY_S)
        step_in(turn, busy_s)


def step_in(turn: Callable[[], object], busy_s: Callable[[], float]) -> None:
    """Take a turn of the guard."""
    if busy_s() > BUSY_S:
        turn()
