"""The mons' config database, read again at intervals; edited where rollouts ask for it.

The mons may be slow to answer, so all of it is done in a thread of its own and nothing
waits for it: `config` is what the last reading found.

What is done again and again: until it works, or for as long as the module runs.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Callable, Dict, List, Optional, Sequence, Set, Tuple

from ..core import events
from ..core.codec import one_line
from ..core.config_database import (
    Config,
    ConfigEdit,
    ConfigRequest,
    ConfigState,
    left_to_write,
    same,
    values_of,
)
from ..core.errors import NotReadyError, WcacheError
from ..core.model import Finding, FindingCode, Severity
from ..core.ports import ConfigDatabase

CLOSE_S = 2.0  # what is under way is not waited for longer
RETRY_MIN_S, RETRY_MAX_S = 1.0, 60.0


class Repeating:
    """A thread that calls `turn` at once, and again after `wait_s()` or when asked to.

    `failed` takes what `turn` raises: the thread lives on.
    """

    def __init__(
        self, name: str, turn: Callable[[], object], failed: Callable[[Exception], None],
        wait_s: Callable[[], float],
    ) -> None:
        self._name = name
        self._turn = turn
        self._failed = failed
        self._wait_s = wait_s
        self._wake = threading.Event()
        self._thread: Optional[threading.Thread] = None
        self.stopped = False

    def start(self) -> None:
        self._thread = threading.Thread(target=self._work, daemon=True, name=self._name)
        self._thread.start()

    def soon(self) -> None:
        """Have the next turn begin at once."""
        self._wake.set()

    def close(self) -> None:
        """Begin no other turn, and wait a moment for the one under way."""
        self.stopped = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout=CLOSE_S)

    def _work(self) -> None:
        while not self.stopped:
            try:
                self._turn()
            except Exception as error:
                self._failed(error)
            self._wake.wait(self._wait_s())
            self._wake.clear()


class Starter:
    """Takes up the stored state, by steps that are each done once, in order.

    One that fails is tried again later: right after a mgr has started the mons may have no quorum,
    and a store may be unreadable until an admin has cured it.
    """

    def __init__(self, steps: Sequence[Callable[[], None]]) -> None:
        self._left: List[Callable[[], None]] = list(steps)
        self.retry_s = RETRY_MIN_S
        self.error = ""

    @property
    def ready(self) -> bool:
        """Whether every step is done."""
        return not self._left

    def go_on(self) -> bool:
        """Do what is left; whether that was all.  After a failure `retry_s` says when to try."""
        while self._left:
            try:
                self._left[0]()
            except WcacheError as error:
                self._failed(error.line())
                return False
            except Exception as error:
                # whatever it is, a later try costs nothing, and giving up everything
                self._failed(f"the stored state could not be taken up: {error!r}"[:300])
                return False
            self._left.pop(0)
        self.error, self.retry_s = "", RETRY_MIN_S
        return True

    def _failed(self, line: str) -> None:
        self.retry_s = RETRY_MIN_S if line != self.error else min(RETRY_MAX_S, 2 * self.retry_s)
        self.error = line

    def findings(self) -> Tuple[Finding, ...]:
        """That the module has not started, and why."""
        if not self.error:
            return ()
        said = f"wcache cannot start yet, and keeps trying: {self.error}"
        return (Finding(FindingCode.STORE_FAILED, Severity.ERROR, "mgr", said),)


EVERY_S = 600.0
# A reading that fails (mons without a quorum) is made again after this long.
RETRY_S = 30.0
# The mons tell OSDs of a change at once, and an OSD that is busy takes a moment.
TAKEN_WITHIN_S = 30.0
# Edits told one by one in the audit log, which holds a thousand lines.
TOLD_MAX = 20


@dataclass
class _Asked:
    """What a rollout asks for, and how far it is."""

    action: events.AskConfig
    due_at_s: float = float("-inf")
    written: int = 0
    error: str = ""
    tried: bool = False  # what is to be written was written, or refused: read once more
    expect_until_s: Optional[float] = None  # until then OSDs may still have the old value
    cancelled: bool = False


class ConfigWatch(Repeating):
    """The config database as last read, and one request for each rollout at most.

    `post_event(owner, event)` takes the answers, from this thread; `note(owner, text)` a line
    for the audit log.
    """

    def __init__(
        self, *, database: ConfigDatabase, clock: Callable[[], float],
        post_event: Callable[[str, events.Event], None], note: Callable[[str, str], None],
    ) -> None:
        self._database = database
        self._clock = clock
        self._post_event = post_event
        self._note = note
        self._lock = threading.Lock()  # of `_asked` alone
        self._asked: Dict[str, _Asked] = {}
        # of the thread alone: the mons gave no answer to what was written last here, and may do
        # it yet.  They do one after the other, so what they answer to next is done after it.
        self._unanswered: Set[Tuple[str, str]] = set()
        self._due_at_s = float("-inf")
        super().__init__("wcache-config", self.turn, self._failed, self._wait_s)
        self.config = Config(())
        self.read_at_s: Optional[float] = None
        self.error = ""
        self.on_read: List[Callable[[Config], None]] = []  # called by the thread

    def read_soon(self) -> None:
        """Read again at once: something has changed, or somebody looks."""
        self._due_at_s = float("-inf")
        self.soon()

    # ---- asked by rollouts

    def ask(self, owner: str, action: events.AskConfig) -> None:
        """Do this for a rollout; it replaces what it asked for before."""
        with self._lock:
            self._forget(owner)
            self._asked[owner] = _Asked(action)
        self.soon()

    def cancel(self, owner: str) -> None:
        """Nobody waits for it any more: nothing else is written for it."""
        with self._lock:
            self._forget(owner)

    def _forget(self, owner: str) -> None:
        before = self._asked.pop(owner, None)
        if before is not None:
            before.cancelled = True

    # ---- the thread

    def turn(self) -> bool:
        """Do what is due; whether anything was answered."""
        with self._lock:
            due = [
                (owner, asked) for owner, asked in self._asked.items()
                if asked.due_at_s <= self._clock()
            ]
        answered = [self._carry_out(owner, asked) for owner, asked in due]
        if not due and self._clock() >= self._due_at_s:
            self._read()
        return any(answered)

    def _carry_out(self, owner: str, asked: _Asked) -> bool:
        """Read, write what is to be written, read back; whether it is answered."""
        if not self._read():
            asked.due_at_s = self._due_at_s  # looked at again in a while
            return False
        request = asked.action.request
        left = [] if asked.tried else left_to_write(request, self.config, self._unanswered)
        if left:
            asked.tried = True
            self._write(owner, asked, left)
            if asked.due_at_s > self._clock():
                return False
            if not self._read():
                asked.due_at_s = self._due_at_s
                return False
        unlike = self._unlike(request)
        if unlike and asked.expect_until_s is None:
            asked.expect_until_s = self._clock() + TAKEN_WITHIN_S
        if unlike and self._clock() < (asked.expect_until_s or 0.0):
            asked.due_at_s = self._clock() + 1.0
            return False
        with self._lock:
            if self.stopped or asked.cancelled:
                return False  # the next mgr goes on, or what replaced it
            self._forget(owner)
        values = values_of(request.edits, self.config)
        state = ConfigState(request, values, asked.written, asked.error, unlike)
        self._post_event(owner, events.Answered(asked.action.token, state))
        return True

    def _unlike(self, request: ConfigRequest) -> Tuple[str, ...]:
        """OSDs that do not have what is expected of them; one that gives no answer is not."""
        found = []
        for item in request.expect:
            if self.stopped:
                break
            value = self._database.osd_value(item.osd_id, item.name)
            if value is not None and not same(value, item.value):
                found.append(f"osd.{item.osd_id} has {item.name} {value[:40]}")
        return tuple(found)

    def _write(self, owner: str, asked: _Asked, left: List[ConfigEdit]) -> None:
        for index, edit in enumerate(left):
            if self.stopped or asked.cancelled:
                return
            try:
                self._database.write(edit)
            except NotReadyError as error:
                # neither made nor refused: read and written again, until the mons say which
                if not asked.error:
                    self._note(owner, f"{one_line(error.line())}: it is written again")
                self._unanswered.add(edit.key)
                asked.tried, asked.error = False, one_line(error.line())
                asked.due_at_s = self._clock() + RETRY_S
                return
            except WcacheError as error:
                self._unanswered.discard(edit.key)
                asked.error = one_line(error.line())
                return
            self._unanswered.discard(edit.key)
            asked.written, asked.error = asked.written + 1, ""
            if index < TOLD_MAX:
                was = "" if edit.prior is None else f" (was {edit.prior})"
                self._note(owner, edit.command + was)
            elif index == len(left) - 1:
                self._note(owner, f"and {len(left) - TOLD_MAX} more such changes")

    def _read(self) -> bool:
        try:
            config = Config(self._database.read())
        except WcacheError as error:
            self._unread(error.line())
            return False
        self.error = ""
        self.config, self.read_at_s = config, self._clock()
        self._due_at_s = self._clock() + EVERY_S
        for listener in self.on_read:
            listener(config)
        return True

    def _unread(self, error: str) -> None:
        self.error = one_line(error)
        self._due_at_s = self._clock() + RETRY_S

    def _wait_s(self) -> float:
        with self._lock:
            next_at_s = min([self._due_at_s, *(asked.due_at_s for asked in self._asked.values())])
        return max(1.0, min(EVERY_S, next_at_s - self._clock()))

    def _failed(self, error: Exception) -> None:
        self._unread(f"looking at the config database failed: {error!r}")
