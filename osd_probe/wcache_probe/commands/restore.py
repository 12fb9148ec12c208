"""`wcache-probe restore`, with what a running probe does when it is asked to.

How `restore --all` asks the running probe, and hears what came of it:
    <state>/restore.request    an id; the probe looks for it at every turn and before each task,
                               and its guard while it hangs; it stands until it is answered
    <state>/restore.answer     that id and a line for each cache domain

The signal only shortens the wait, and is sent to a process that catches it alone: it would
end any other.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import threading
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Callable, Dict, List, Optional, Sequence, Tuple

from wcache.core.codec import parse_json
from wcache.core.drive.journal import EntryKind, JournalEntry, of_version
from wcache.core.drive.prior import Prior
from wcache.core.errors import (
    ConflictError,
    MalformedError,
    NotFoundError,
    NotReadyError,
    StorageError,
    WcacheError,
)
from wcache.core.text import arguments, ticked, typed

from ..arguments import HOSTNAME, RESTORE_ONE, RUN_DIR, STATE_DIR
from ..journal.journal_file import JournalFolder, StateFolder
from ..linux.block.host_files import read_text
from ..mgr_link import printable
from ..restoring.owed import Restoring
from ..restoring.restorer import RestoreApart, Start, answer
from ..safe_files import read_own, remove, write_whole
from ..switcher import Switcher, read_journal
from ..switching.lease import LeaseKeeper
from .journal import drives_of, modes_of

SIGNAL = signal.SIGUSR1
BYTES_MAX = 256_000
STEP_S = 0.1


@dataclass(frozen=True)
class Restoration:
    """What became of one cache domain, for the admin."""

    restored: bool
    text: str


class RestoreRequests:
    """The two files in a state folder."""

    def __init__(self, state_dir: str) -> None:
        self._request = os.path.join(state_dir, "restore.request")
        self._answer = os.path.join(state_dir, "restore.answer")

    # ---- the probe's side

    def pending(self) -> str:
        """The id of a request that waits for an answer; empty where there is none."""
        return (read_own(self._request, BYTES_MAX) or "").strip()

    def answer(self, request_id: str, lines: Sequence[Restoration]) -> None:
        """Say what came of it; raises StorageError."""
        said = [[line.restored, line.text] for line in lines]
        write_whole(self._answer, json.dumps({"id": request_id, "lines": said}), sync=None)
        _forget(self._request)

    # ---- the admin's side

    def ask(self, pid: int) -> str:
        """Ask the probe with a pid; returns the id to wait for."""
        request_id = uuid.uuid4().hex
        _forget(self._answer)
        write_whole(self._request, request_id, sync=None)
        if pid:  # else it is not to be seen from here, and looks by itself a little later
            with contextlib.suppress(OSError):
                os.kill(pid, SIGNAL)
        return request_id

    def wait(
        self, request_id: str, seconds: float, there: Callable[[], bool],
        sleep: Callable[[float], None] = time.sleep,
    ) -> Optional[Tuple[Restoration, ...]]:
        """The answer; None where none came in time, or the probe ended (`there` is false)."""
        for _ in range(int(seconds / STEP_S)):
            alive = there()
            found = self._read(request_id)
            if found is not None or not alive:
                return found
            sleep(STEP_S)
        return None

    def _read(self, request_id: str) -> Optional[Tuple[Restoration, ...]]:
        text = (read_own(self._answer, BYTES_MAX) or "").strip()
        if not text:
            return None
        try:
            plain = parse_json(text, bytes_max=3 * BYTES_MAX, what="the answer")
            if plain["id"] != request_id:
                return None
            return tuple(
                Restoration(restored is True, str(line)) for restored, line in plain["lines"]
            )
        except (MalformedError, ValueError, KeyError, TypeError):
            return None


def catches(pid: int) -> bool:
    """Whether a process catches our signal: only a probe that answers requests does."""
    try:
        return bool(int(_status(pid, "SigCgt"), 16) >> (SIGNAL - 1) & 1)
    except ValueError:
        return False


def wake(pid: int) -> None:
    """Have a running probe look around now; nothing, where there is none."""
    if pid and catches(pid):
        with contextlib.suppress(OSError):
            os.kill(pid, SIGNAL)


def is_stopped(pid: int) -> bool:
    """Whether a process does nothing at all: stopped, traced, or dead already."""
    return _status(pid, "State")[:1] in ("T", "t") or has_ended(pid)


def has_ended(pid: int) -> bool:
    """Whether a process is dead; a thread in the kernel may still hold its files and locks."""
    return _status(pid, "State")[:1] in ("Z", "X")


def _status(pid: int, wanted: str) -> str:
    for line in (read_text(f"/proc/{pid}/status") or "").splitlines():
        name, _, value = line.partition(":")
        if name == wanted:
            return value.strip()
    return ""


def _forget(path: str) -> None:
    with contextlib.suppress(StorageError):
        remove(path, sync=None)


STOP_S = 60.0
STOP_STEP_S = 0.1
# A probe in the middle of a long task answers from its guard, or when that has ended.
ANSWER_S = 40.0
# With the wait above within what the unit gives to ExecStopPost= (TimeoutStopSec=).
PATIENCE_S = 60.0


def child_words(options: argparse.Namespace, cluster_fsid: str = "") -> List[str]:
    """What restores one entry; its key comes last.  With `--hold` it is pinned instead.

    With a cluster's id, entries of another one are refused; an admin's own call has none.
    """
    words = [
        RESTORE_ONE, "--state-dir", options.state_dir, "--run-dir", options.run_dir,
        "--hostname", options.hostname, "--host-root", options.host_root,
    ]
    return [*words, "--fsid", cluster_fsid] if cluster_fsid else words


def restore_one(switcher: Switcher, key: str, *, hold: bool, cluster_fsid: str = "") -> int:
    """The child: bring one entry back, or pin its drives; says to the parent what goes wrong."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        # a stop of the service means the probe; what is half restored is no help to anybody
        signal.signal(number, signal.SIG_IGN)
    try:
        if hold:
            switcher.hold_key(key)
        else:
            switcher.restore_key(key, Prior(cluster_fsid=cluster_fsid))
    except WcacheError as error:
        print(answer(error), flush=True)
        return 1
    return 0


def restore(options: argparse.Namespace, start: Start) -> int:
    """`restore --all` and `restore --action`: 0 where everything asked for is back."""
    state = StateFolder(options.state_dir, options.run_dir)
    if options.stop:
        _lock(state)
    elif options.action:
        # a change that was applied is nothing the probe holds: it reads the journal each time
        with suppress(ConflictError):
            state.lock()
    else:
        told = _ask_running_probe(state)
        if told is not None:
            _, damaged = read_journal(state.journal)
            return _print(told, _leases_of(damaged), _applied(state, options))
    chosen, damaged = _chosen(state, options.action)
    restorer = RestoreApart(start, lambda: child_words(options), patience_s=PATIENCE_S)
    results = restorer.restore(list(chosen))
    if state.locked:
        state.journal.sync_marks()
    else:
        wake(state.holder())  # it tells the mgr
    lines = [line_of(chosen[key], error) for key, error in results.items()]
    return _print(lines, damaged, () if options.action else _applied(state, options))


def _ask_running_probe(
    state: StateFolder, answer_s: float = ANSWER_S
) -> Optional[Tuple[Restoration, ...]]:
    """What the running probe answers; None where there is none, or it does nothing at all.

    A request that is not answered stands: until the probe has obeyed it, it changes nothing
    more.  What is restored beside a probe that is busy could be changed by it once more.
    """
    try:
        state.lock()
        return None
    except ConflictError as error:
        pid = state.holder()
        if pid and not catches(pid):
            raise ConflictError(
                f"{error.message}, which restores by itself when it ends",
                "stop it and try again, or add --stop",
            ) from None
    print(f"asking the probe {f'with pid {pid} ' if pid else ''}to restore", flush=True)
    requests = RestoreRequests(state.path)
    lines = requests.wait(
        requests.ask(pid), answer_s, lambda: state.holder() == pid and not is_stopped(pid)
    )
    if lines is not None:
        return lines
    if state.holder() != pid:
        return _ask_running_probe(state, answer_s)  # it has ended, and may have been replaced
    if is_stopped(pid):
        print(_without(pid), file=sys.stderr)
        return None
    chosen, _ = _chosen(state, "")
    late = NotReadyError(
        f"the probe with pid {pid} is busy; it will restore as soon as it can, and changes nothing "
        "until then", "call again to see it done, or add --stop",
    )
    owed = [line_of(entry, late) for entry in chosen.values()]
    return tuple(owed) or (Restoration(False, printable(late.line())),)


def _without(pid: int) -> str:
    """Why a probe that does nothing is not waited for."""
    if has_ended(pid):
        return (
            f"the probe (pid {pid}) has ended, but the kernel keeps it until a device has "
            "answered; restoring without it. A drive that it was changing waits for that"
        )
    return (
        f"the probe (pid {pid}) is suspended; restoring without it. Once resumed, it undoes any "
        "change it makes"
    )


def _chosen(state: StateFolder, action: str) -> Tuple[Dict[str, JournalEntry], Dict[str, str]]:
    """The entries to restore by key, and what is wrong with those that cannot be read."""
    sound, damaged = read_journal(state.journal)
    if action:
        key = f"{EntryKind.ACTION.value}/{action}"
        if key in damaged:
            by_hand = "put the drive right by hand, then " + typed("wcache-probe accept {}", key)
            other = damaged[key].startswith(of_version(printable(key)))
            raise NotFoundError(damaged[key], "" if other else by_hand)
        if key not in sound:
            raise NotFoundError(
                f"no change with the action id {action} is in the journal",
                "see `wcache-probe status`",
            )
        return {key: sound[key]}, {}
    chosen = {key: e for key, e in sound.items() if e.kind is EntryKind.LEASE}
    return chosen, _leases_of(damaged)


def _leases_of(damaged: Dict[str, str]) -> Dict[str, str]:
    return {k: line for k, line in damaged.items() if k.startswith(EntryKind.LEASE.value)}


def _applied(state: StateFolder, options: argparse.Namespace) -> Tuple[str, ...]:
    """A line for each change that stands, with what takes it back; the newest goes first."""
    entries = [e for e in read_journal(state.journal)[0].values() if e.kind is EntryKind.ACTION]
    entries.sort(key=lambda entry: entry.serial, reverse=True)
    words = ["wcache-probe", "restore", *_places(options), "--action"]
    return tuple(
        printable(f"applied, and not taken back: {drives_of(entry)}; was in {modes_of(entry)}: ")
        + ticked(arguments([*words, entry.owner_id]))
        for entry in entries
    )


def _places(options: argparse.Namespace) -> List[str]:
    """The options that say where journal and drives are, where they are not the usual ones."""
    words = []
    for name, value, usual in (
        ("--state-dir", options.state_dir, STATE_DIR), ("--run-dir", options.run_dir, RUN_DIR),
        ("--host-root", options.host_root, "/"), ("--hostname", options.hostname, HOSTNAME),
    ):
        words += [name, value] if value != usual else []
    return words


def _print(
    lines: Sequence[Restoration], damaged: Dict[str, str], applied: Sequence[str] = ()
) -> int:
    for line in lines:
        print(line.text, file=sys.stdout if line.restored else sys.stderr)
    for text in damaged.values():
        print(f"not restored: {text}", file=sys.stderr)
    if not lines and not damaged:
        print("nothing to restore")
    for text in applied:
        print(text)
    return 0 if all(line.restored for line in lines) and not damaged else 1


def line_of(entry: JournalEntry, error: Optional[WcacheError]) -> Restoration:
    """What became of an entry."""
    names = ", ".join(f"{drive.dev_name} to {drive.words}" for drive in entry.drives)
    if error is None:
        return Restoration(True, printable(f"restored {names} (domain {entry.domain_id})"))
    return Restoration(False, printable(f"not restored: {names}: {error.line()}"))


@dataclass
class AskedToRestore:
    """The running probe's side: gives up its lease, restores all, and answers."""

    requests: RestoreRequests
    keeper: LeaseKeeper
    restoring: Restoring
    journal: JournalFolder
    say: Callable[[str], None]
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock)

    def look(self) -> None:
        """Answer a request, if there is one.

        The loop calls it before each task, and the guard while the loop hangs.
        """
        with self._one_at_a_time:
            request_id = self.requests.pending()
            if not request_id:
                return
            sound, _ = read_journal(self.journal)
            held = [entry for entry in sound.values() if entry.kind is EntryKind.LEASE]
            self.keeper.give_up("`wcache-probe restore` was called on this host")
            results = self.restoring.restore_owed(ANSWER_S / 2)
            unknown = NotReadyError("it is not due yet", "call again")
            lines = [line_of(entry, results.get(entry.domain_id, unknown)) for entry in held]
            try:
                self.requests.answer(request_id, lines)
            except WcacheError as error:
                self.say(error.line())


def _lock(state: StateFolder, sleep: Callable[[float], None] = time.sleep) -> None:
    """Lock the folder, after stopping the probe that holds it."""
    try:
        state.lock()
        return
    except ConflictError as error:
        pid = state.holder()
        if not pid:
            raise ConflictError(error.message, "stop it and try again") from None
    print(f"stopping the probe with pid {pid}", flush=True)
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        pass
    except PermissionError:
        raise ConflictError(
            f"the probe with pid {pid} is not ours to stop", "run this as root"
        ) from None
    for _ in range(int(STOP_S / STOP_STEP_S)):
        try:
            state.lock()
            return
        except ConflictError:
            sleep(STOP_STEP_S)
    state.lock()
