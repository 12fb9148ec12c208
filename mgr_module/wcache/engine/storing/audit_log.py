"""The audit log: what admins did is one log, what mgr and probes tell is another.

Whoever has a host's key can make lines of that host's probe.  They displace nothing of the
admins' and, beyond `PROBE_LINES_MAX`, only older lines of the same probe.
"""

from __future__ import annotations

from typing import Dict, List

from .archive import Archive, HistoryEntry

ADMIN = "admin"
# Folders in the store.  Versions before this one had all lines in the second.
ADMINS_LOG, OTHERS_LOG = "audit", "history"
LINES_MAX = 1000
PROBE_LINES_MAX = 100


class AuditLog:
    """Both logs, bounded each; guarded by the engine's lock."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._lines: Dict[str, Dict[int, HistoryEntry]] = {ADMINS_LOG: {}, OTHERS_LOG: {}}
        self._next = {ADMINS_LOG: 0, OTHERS_LOG: 0}

    def load(self) -> None:
        """Take up what was stored; admins' lines go into their own log."""
        for log in self._lines:
            self._lines[log] = self._archive.history(log)
            self._next[log] = self._archive.history_next(log)
        for number, entry in list(self._lines[OTHERS_LOG].items()):
            if entry.who == ADMIN:
                self._append(ADMINS_LOG, entry)
                self._remove(OTHERS_LOG, number)

    def add(self, entry: HistoryEntry) -> None:
        """Add a line; the oldest one that is too many goes."""
        if entry.who == ADMIN:
            self._append(ADMINS_LOG, entry)
            return
        if entry.who.startswith("probe "):
            lines = self._lines[OTHERS_LOG].items()
            same = [number for number, old in lines if old.who == entry.who]
            for number in same[: max(0, len(same) - PROBE_LINES_MAX + 1)]:
                self._remove(OTHERS_LOG, number)
        self._append(OTHERS_LOG, entry)

    def _append(self, log: str, entry: HistoryEntry) -> None:
        number = self._next[log]
        self._next[log] += 1
        self._lines[log][number] = entry
        self._archive.put_history(log, number, entry)
        while len(self._lines[log]) > LINES_MAX:
            self._remove(log, next(iter(self._lines[log])))

    def _remove(self, log: str, number: int) -> None:
        del self._lines[log][number]
        self._archive.drop_history(log, number)

    def newest(self, count: int) -> List[HistoryEntry]:
        """The last lines of both logs together, oldest first."""
        lines = [entry for log in self._lines.values() for entry in log.values()]
        return sorted(lines, key=lambda entry: entry.at_s)[-count:]
