"""The audit log: commands, what the module began by itself, what changed, the rest.

Whoever has a host's key can make lines of that host's probe.  They displace nothing of the
others and, beyond `PROBE_LINES_MAX`, only older lines of the same probe.  What is still
applied has a line as long as its plan is kept (`core/change/history.py`).

Puts a line into the audit log when a change of a plan has come to an end.
"""

from __future__ import annotations

import logging
from dataclasses import is_dataclass, replace
from enum import Enum
from typing import Callable, Dict, List, Mapping, Optional, Tuple

from ...core.change.change import ChangeStatus
from ...core.change.history import ended, line
from ...core.change.rollout import RolloutMachine
from ...core.change.rollout_state import Rollout
from ...core.codec import one_line
from ...core.errors import StorageError
from ...core.experiment.run import RunMachine
from ...core.history import ADMIN, AUTO, OSDS_MAX, PROBE_PREFIX, About, HistoryEntry, Kind
from ...core.host_report import HostReport
from .archive import Archive, StoredKind

ADMINS_LOG = StoredKind("audit", HistoryEntry, proven=False)
CHANGES_LOG = StoredKind("changes", HistoryEntry, proven=False)
OTHERS_LOG = StoredKind("history", HistoryEntry, proven=False)
_Log = StoredKind[HistoryEntry]
LINES_MAX = 1000
# Of changes: what stands has its plan to tell of it, and lines with evidence are long.
CHANGES_MAX = 200
PROBE_LINES_MAX = 100
# Of lines in the mgr's log, by the severity of what is noted; others are info.
LOG_LEVELS = {"warning": logging.WARNING, "error": logging.ERROR}
SEVERITIES = {
    ChangeStatus.FAILED: "warning", ChangeStatus.REFUSED: "warning",
    ChangeStatus.ROLLBACK_FAILED: "error",
}


class AuditLog:
    """The logs, bounded each; guarded by the engine's lock.

    `reports` are the hosts' last ones: which OSDs a drive has.
    """

    def __init__(
        self, archive: Archive, clock: Callable[[], float], log: logging.Logger,
        reports: Mapping[str, HostReport],
    ) -> None:
        self._archive = archive
        self._clock = clock
        self._log = log
        self._reports = reports
        logs = (ADMINS_LOG, CHANGES_LOG, OTHERS_LOG)
        self._lines: Dict[_Log, Dict[int, HistoryEntry]] = {log: {} for log in logs}
        self._next = {log: 0 for log in logs}
        self._told: Dict[str, Dict[str, ChangeStatus]] = {}  # by plan, what its changes had come to

    def load(self) -> None:
        for log in self._lines:
            self._lines[log] = self._archive.numbered(log)
            self._next[log] = self._archive.next_number(log)

    def note(
        self, who: str, what: str, text: str, severity: Optional[str], run: Optional[RunMachine]
    ) -> None:
        """Add a line, printable and bounded.

        That of a run is about its drive, one of a probe about the cache domain that it names.
        """
        about, hostname, domain_id = None, "", ""
        if run is not None:
            hostname, domain_id = run.spec.hostname, run.spec.domain_id
        elif who.startswith(PROBE_PREFIX):
            hostname, domain_id = who[len(PROBE_PREFIX):], what
        if hostname:
            ids = self._osds_of(hostname, domain_id)
            about = About(hostname, ids[:OSDS_MAX], "" if domain_id == hostname else domain_id)
        said = one_line(who, 200), one_line(what, 200), one_line(text, 900)
        self.add(HistoryEntry(self._clock(), *said, about), severity)

    def add(self, entry: HistoryEntry, severity: Optional[str] = None) -> None:
        """Add a line here and to the mgr's log; the oldest one that is too many goes.

        It is stored before what is stored after it; a probe's line may wait.  A mgr that is told
        to end does so at once (handle_mgr_signal() of Ceph's src/mgr/Mgr.cc), and what a plan is
        stored to have come to is not told again.
        """
        self._log.log(LOG_LEVELS.get(severity or "", logging.INFO), "%s", entry.logged)
        log = CHANGES_LOG if entry.kind is Kind.CHANGE else OTHERS_LOG
        if log is OTHERS_LOG and entry.who in (ADMIN, AUTO):
            log = ADMINS_LOG
        if log is OTHERS_LOG and entry.who.startswith(PROBE_PREFIX):
            same = [number for number, old in self._lines[log].items() if old.who == entry.who]
            for number in same[: max(0, len(same) - PROBE_LINES_MAX + 1)]:
                self._remove(log, number)
        added, name = self._next[log], f"{self._next[log]:010d}"
        self._next[log] += 1
        self._lines[log][added] = entry

        def done(error: Optional[StorageError]) -> None:
            if error is not None:  # tried again until the mons have it
                self._archive.put_later(log, entry, name)

        if entry.kind is Kind.PROBE:
            self._archive.put_later(log, entry, name)
        else:
            self._archive.put(log, entry, done, name)
        while len(self._lines[log]) > (CHANGES_MAX if log is CHANGES_LOG else LINES_MAX):
            self._remove(log, next(iter(self._lines[log])))

    def _remove(self, log: _Log, number: int) -> None:
        del self._lines[log][number]
        self._archive.drop(log, f"{number:010d}")

    def all(self) -> List[HistoryEntry]:
        """The lines of all logs, oldest first."""
        lines = [entry for log in self._lines.values() for entry in log.values()]
        return sorted(lines, key=lambda entry: entry.at_s)

    # ---- what changes have come to

    def know(self, rollout: Rollout) -> None:
        """What a stored plan has come to is told already."""
        self._told[rollout.plan_id] = {
            change.action_id: change.status for change in rollout.changes
        }

    def look(self, machine: RolloutMachine) -> None:
        """Tell what has ended since; the plan keeps when it did."""
        rollout = machine.rollout
        indices = ended(self._told.get(rollout.plan_id, {}), rollout)
        self.know(rollout)
        if not indices:
            return
        now_s, changes = self._clock(), [*rollout.changes]
        for index in indices:
            change = changes[index] = replace(changes[index], at_s=now_s)
            ids = self._osds_of(change.hostname, change.domain_id)
            self.add(line(rollout, change, now_s, ids), SEVERITIES.get(change.status))
        machine.rollout = replace(rollout, changes=tuple(changes))

    def _osds_of(self, hostname: str, domain_id: str) -> Tuple[int, ...]:
        """The OSDs on a cache domain, as its host has last reported."""
        report = self._reports.get(hostname)
        drives = report.domains.get(domain_id, ()) if report is not None else ()
        return tuple(sorted({use.osd_id for drive in drives for use in drive.uses}))


def traced(thing: object, depth: int = 1) -> str:
    """An event or action in words: its kind and what of it is short; all that is text is quoted."""
    said = [type(thing).__name__]
    for name, value in vars(thing).items():
        plain = value.value if isinstance(value, Enum) else value
        if name == "osd_id":
            said.append(f"osd.{value}")
        elif isinstance(plain, (str, int, float)):
            said.append(f"{name}={plain!r}")
        elif depth and is_dataclass(value):
            said.append(f"({traced(value, depth - 1)})")
    return " ".join(said)
