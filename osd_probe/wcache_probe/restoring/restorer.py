"""Brings journal entries back, or pins their drives, each in a process of its own.

A drive that hangs takes along whoever waits for it: such a process can be neither ended
nor interrupted (state D), and a thread of it neither.  So each cache domain is restored
by a child.  One that hangs is left behind and holds up nothing but its own domain, which
is tried again when that child has ended.

A drive that is off and not pinned may come on at its next reset, with nobody who flushes it.
So a pin of a change that was applied is in place at the start, and one that fails is tried again
for as long as the journal names the drive, after pauses that grow.  Reports to the mgr name it
meanwhile.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import IO, Callable, Dict, List, Mapping, Optional, Protocol, Sequence, Tuple, cast

from wcache.core.codec import parse_json
from wcache.core.drive.journal import JournalEntry
from wcache.core.errors import MalformedError, NotReadyError, StorageError, WcacheError
from wcache.core.model import Finding, FindingCode, Severity

from ..mgr_link import printable

PATIENCE_S = 6.0
# Longer than the commands of a drive that still answers: a flush may take 120 s by itself.
HANGS_S = 150.0
# So many at a time; one that is slow does not count, so that no slot is held by a drive.
AT_ONCE = 16
SLOW_S = 2.0
ANSWER_BYTES_MAX = 65_536

Results = Dict[str, Optional[WcacheError]]
ReadJournal = Callable[[], Tuple[Dict[str, JournalEntry], Dict[str, str]]]


class Started(Protocol):
    """A process of ours, as `subprocess.Popen` has it."""

    pid: int
    stdout: IO[bytes]

    def wait(self) -> int:
        """How it ended, once it has."""


Start = Callable[[Sequence[str]], Started]  # of this program, with these words


@dataclass
class _Child:
    process: Started
    began_s: float
    said: bytearray = field(default_factory=bytearray)


@dataclass
class RestoreApart:
    """In children that `start` makes of `words` and a key."""

    start: Start
    words: Callable[[], Sequence[str]]
    patience_s: float = PATIENCE_S
    hangs_s: float = HANGS_S
    clock: Callable[[], float] = time.monotonic
    _children: Dict[str, _Child] = field(default_factory=dict)

    def restore(self, keys: Sequence[str], patience_s: Optional[float] = None) -> Results:
        """Tell what came of entries: None is back, NotReadyError is still being done.

        Entries of earlier calls whose end was not told yet are told too.  Each child is waited
        for until it is as old as `patience_s`, where that is not the usual time.
        """
        patience_s = self.patience_s if patience_s is None else patience_s
        results: Results = {}
        self._collect(results, 0.0)
        waiting = [key for key in keys if key not in self._children and key not in results]
        asked = set(keys)
        while True:
            waiting = self._start(waiting, results)
            now_s = self.clock()
            young = [
                child.began_s + patience_s - now_s
                for key, child in self._children.items()
                if key in asked and now_s < child.began_s + patience_s
            ]
            if not waiting and not young:
                break
            self._collect(results, min([0.5, *young]))
        for key in keys:
            if key not in results:
                results[key] = self._unfinished(self._children[key])
        return results

    def _start(self, waiting: List[str], results: Results) -> List[str]:
        """Start as many as may run; returns those that have to wait."""
        now_s = self.clock()
        busy = sum(now_s < child.began_s + SLOW_S for child in self._children.values())
        free = max(0, AT_ONCE - busy)
        for key in waiting[:free]:
            try:
                process = self.start([*self.words(), key])
            except OSError as error:
                results[key] = StorageError(f"no process could be started ({error.strerror})")
                continue
            self._children[key] = _Child(process, now_s)
        return waiting[free:]

    def _collect(self, results: Results, wait_s: float) -> None:
        """Take what children have said, and the results of those that have ended."""
        by_fd = {child.process.stdout.fileno(): key for key, child in self._children.items()}
        if not by_fd:
            return
        ready, _, _ = select.select(list(by_fd), [], [], max(0.0, wait_s))
        for fd in ready:
            key = by_fd[fd]
            child = self._children[key]
            more = os.read(fd, ANSWER_BYTES_MAX)
            child.said += more[: ANSWER_BYTES_MAX - len(child.said)]
            if not more:
                # it closes its output by ending
                code = child.process.wait()
                child.process.stdout.close()
                del self._children[key]
                results[key] = verdict(code, bytes(child.said))

    def _unfinished(self, child: _Child) -> WcacheError:
        pid = child.process.pid
        age_s = self.clock() - child.began_s
        if age_s < self.hangs_s:
            return NotReadyError(f"restore process {pid} still running after {age_s:.0f} s")
        return StorageError(
            f"process {pid} hangs in its drive",
            f"see /proc/{pid}/stack and the kernel's log; it is tried again when that has ended",
        )


def verdict(code: int, said: bytes) -> Optional[WcacheError]:
    """What the end of a child means."""
    if code == 0:
        return None
    try:
        told = parse_json(said.decode("utf-8"), bytes_max=ANSWER_BYTES_MAX, what="what it said")
        message, advice = printable(str(told["message"])), printable(str(told["advice"]))
    except (MalformedError, ValueError, KeyError, TypeError):
        message = advice = ""
    if not message:
        return StorageError(f"what restores it ended with code {code}", "it is tried again")
    return StorageError(message, advice)


def answer(error: WcacheError) -> str:
    """What a child says of a failure."""
    return json.dumps({"message": error.message, "advice": error.advice})


def start_again(words: Sequence[str], module: str = "wcache_probe.main") -> Started:
    """Start this very program once more, wherever it came from: `main` of the module.

    Neither PATH nor the working folder decides what is run: the interpreter, and the places
    that it imports from now.
    """
    places = [os.path.abspath(place) for place in sys.path if place]
    program = (
        f"import sys; sys.path[:] = {places!r}; from {module} import main; "
        "sys.exit(main(sys.argv[1:]))"
    )
    return start_command([sys.executable, "-c", program, *words])


def start_command(command: Sequence[str]) -> Started:
    """Start a command with its output to us."""
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    return cast(Started, child)


PAUSE_FIRST_S = 2.0
PAUSE_MAX_S = 600.0
# A turn of the probe's loop starts no more children than this, and waits for none.
PINS_AT_ONCE = 4


@dataclass
class _Owed:
    why: str
    failures: int
    next_s: float


@dataclass
class Pins:
    """Pins what the journal's entries of changes name; `pinner` does it by their keys.

    Only the probe's loop may call it.
    """

    pinner: RestoreApart
    read: ReadJournal
    say: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    _owed: Dict[str, _Owed] = field(default_factory=dict)

    def pin(self, keys: Sequence[str]) -> None:
        """Pin the drives of these entries; waits a little, and for no drive that hangs."""
        self._take(self.pinner.restore(keys))

    def look(self) -> None:
        """Try again what is due, and hear what came of earlier tries."""
        if not self._owed:
            return
        try:
            sound, damaged = self.read()
        except WcacheError:
            return
        self._owed = {k: o for k, o in self._owed.items() if k in sound or k in damaged}
        now_s = self.clock()
        due = [key for key, owed in self._owed.items() if owed.next_s <= now_s][:PINS_AT_ONCE]
        self._take(self.pinner.restore(due, 0.0))

    def findings(self, entries: Mapping[str, JournalEntry]) -> Tuple[Finding, ...]:
        """The pins that are not in place; `entries` is what the journal holds now.

        Those of entries that cannot be read are among them, with the drives that they name.
        """
        return tuple(
            Finding(
                FindingCode.NOT_PINNED, Severity.ERROR,
                printable(", ".join(one.dev_name or one.drive_id for one in entries[key].drives)),
                printable(f"{owed.why}; the probe tries again"),
            )
            for key, owed in self._owed.items() if key in entries
        )

    def _take(self, results: Results) -> None:
        for key, error in results.items():
            if error is None:
                if self._owed.pop(key, None) is not None:
                    self.say(printable(f"wcache-probe: {key}: pinned now"))
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
        self._owed[key] = _Owed(why, failures, self.clock() + pause_s)
        if known.why != why:
            self.say(printable(f"wcache-probe: {key}: cannot be pinned now: {why}"))
