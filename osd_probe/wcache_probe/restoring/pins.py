"""The pins of changes that were applied: in place at the start, tried again where one fails.

A drive that is off and not pinned may come on at its next reset, with nobody who flushes it.
So a pin that fails is not left alone: it is tried again for as long as the journal names the
drive, after pauses that grow, each time by a child that holds up nobody.  Reports to the mgr
name it meanwhile.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Callable, Dict, Mapping, Sequence, Tuple

from wcache.core.drive.journal import JournalEntry
from wcache.core.errors import NotReadyError, WcacheError
from wcache.core.model import Finding, FindingCode, Severity

from ..mgr_link import printable
from .owed import ReadJournal
from .restorer import RestoreApart, Results

PAUSE_FIRST_S = 2.0
PAUSE_MAX_S = 600.0
# A turn of the probe's loop starts no more children than this, and waits for none.
AT_ONCE = 4


@dataclass
class _Owed:
    why: str
    failures: int
    next_s: float


class Pins:
    """Pins what the journal's entries of changes name.  Only the probe's loop may call it."""

    def __init__(
        self, pinner: RestoreApart, read: ReadJournal, say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`pinner` pins the drives of journal entries by their keys."""
        self._pinner = pinner
        self._read = read
        self._say = say
        self._clock = clock
        self._owed: Dict[str, _Owed] = {}

    def pin(self, keys: Sequence[str]) -> None:
        """Pin the drives of these entries; waits a little, and for no drive that hangs."""
        self._take(self._pinner.restore(keys))

    def look(self) -> None:
        """Try again what is due, and hear what came of earlier tries."""
        if not self._owed:
            return
        try:
            sound, damaged = self._read()
        except WcacheError:
            return
        self._owed = {k: o for k, o in self._owed.items() if k in sound or k in damaged}
        now_s = self._clock()
        due = [key for key, owed in self._owed.items() if owed.next_s <= now_s][:AT_ONCE]
        self._take(self._pinner.restore(due, 0.0))

    def findings(self, entries: Mapping[str, JournalEntry]) -> Tuple[Finding, ...]:
        """The pins that are not in place; `entries` is what the journal holds now."""
        return tuple(
            Finding(
                FindingCode.NOT_PINNED, Severity.ERROR,
                printable(", ".join(drive.dev_name for drive in entries[key].drives)),
                printable(f"{owed.why}; the probe tries again"),
            )
            for key, owed in self._owed.items() if key in entries
        )

    def _take(self, results: Results) -> None:
        for key, error in results.items():
            if error is None:
                if self._owed.pop(key, None) is not None:
                    self._say(printable(f"wcache-probe: {key}: pinned now"))
            else:
                self._failed(key, error)

    def _failed(self, key: str, error: WcacheError) -> None:
        known = self._owed.get(key, _Owed("", 0, 0.0))
        if isinstance(error, NotReadyError):
            # its child goes on; how long it has taken is no news
            why, failures = known.why or "the drive has not answered yet", known.failures
        else:
            why, failures = error.line(), known.failures + 1
        pause_s = min(PAUSE_MAX_S, PAUSE_FIRST_S * 2.0 ** min(failures, 16))
        self._owed[key] = _Owed(why, failures, self._clock() + pause_s)
        if known.why != why:
            self._say(printable(f"wcache-probe: {key}: cannot be pinned now: {why}"))
