"""How `wcache-probe restore --all` asks the running probe to restore, and hears what came of it.

    <state>/restore.request    an id; the probe looks for it at every turn and before each task,
                               and its guard while it hangs; it stands until it is answered
    <state>/restore.answer     that id and a line for each cache domain

The signal only shortens the wait, and is sent to a process that catches it alone: it would
end any other.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
import uuid
from dataclasses import dataclass
from typing import Callable, Optional, Sequence, Tuple

from wcache.core.codec import parse_json
from wcache.core.errors import MalformedError, StorageError

from ..linux.block.host_files import read_text
from ..safe_files import read_own, remove, write_whole

SIGNAL = signal.SIGUSR1
BYTES_MAX = 256_000
STEP_S = 0.1


@dataclass(frozen=True)
class Line:
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
        return _text_of(self._request)

    def answer(self, request_id: str, lines: Sequence[Line]) -> None:
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
    ) -> Optional[Tuple[Line, ...]]:
        """The answer; None where none came in time, or the probe ended (`there` is false)."""
        for _ in range(int(seconds / STEP_S)):
            alive = there()
            found = self._read(request_id)
            if found is not None or not alive:
                return found
            sleep(STEP_S)
        return None

    def _read(self, request_id: str) -> Optional[Tuple[Line, ...]]:
        text = _text_of(self._answer)
        if not text:
            return None
        try:
            plain = parse_json(text, bytes_max=3 * BYTES_MAX, what="the answer")
            if plain["id"] != request_id:
                return None
            return tuple(Line(restored is True, str(line)) for restored, line in plain["lines"])
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


def _text_of(path: str) -> str:
    return (read_own(path, BYTES_MAX) or b"").decode("utf-8", "replace").strip()


def _forget(path: str) -> None:
    with contextlib.suppress(StorageError):
        remove(path, sync=None)
