"""The probe's loop: ask the mgr, have done what it says, restore what nobody speaks for.

The loop only calls, and keeps the lease; it touches no drive and no file.  All that may hang is
the worker's (`worker.py`): what has to be restored, which comes before everything else, and then
the mgr's tasks.  All decisions about leases are in `switching.lease`.
"""

from __future__ import annotations

import random
import time
from collections import deque
from dataclasses import dataclass, field, replace
from typing import Callable, Deque, Optional, Sequence, Tuple

from wcache.core import versions
from wcache.core.errors import MalformedError, NotReadyError, WcacheError
from wcache.core.ports import MgrLink
from wcache.core.protocol import (
    LEASED,
    PROTOCOL_VERSION,
    FailureOutcome,
    Hello,
    Notice,
    Outcome,
    PollReply,
    Post,
    ReportRequest,
    Task,
)

from .changes import GLANCE_EVERY_S, HostWatch
from .journal.journal_words import JournalBack
from .mgr_link import Identity, OtherProtocolError, encode_post, printable
from .restoring.owed import Restoring
from .stop_signal import StopSignal
from .switching.lease import TASK_MAX_S, LeaseKeeper
from .tasks import TaskRunner
from .worker import Worker

CALL_MAX_S = 10.0
CALL_MIN_S = 0.05
FAREWELL_S = 2.0
# Below this the mgr is in the middle of something and wants exact times.
IDLE_FROM_S = 5.0
JITTER = 0.2
RETRY_FIRST_S = 0.25
RETRY_MAX_S = 15.0
REFUSED_RETRY_S = 10.0
# While something is held, an answer is worth more than a quiet log.
HELD_RETRY_S = 1.0
REFUSALS_MAX = 5
SILENCE_MAX_S = 600.0
# The mgr is called this often while a task goes on, and told what takes longer.
PASSING_S = 2.0
# What has not ended by then is named and left: a child that restores goes on by itself, and what
# hangs in the kernel is ended there.  All in all a stop takes less than half a minute.
END_PATIENCE_S = 18.0
CHILDREN_S = 15.0


@dataclass
class ProbeLoop:
    """One probe's dealings with the mgr; `at_turn` and `heard` are the worker's too.

    These two may wait for a file.
    """

    identity: Identity
    link: MgrLink
    keeper: LeaseKeeper
    restoring: Restoring
    runner: TaskRunner
    worker: Worker
    stop: StopSignal
    say: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    jitter: Callable[[float, float], float] = random.uniform
    at_turn: Callable[[], None] = lambda: None
    changes: HostWatch = field(default_factory=HostWatch)
    heard: Callable[[PollReply], None] = lambda reply: None
    journal: JournalBack = field(default_factory=lambda: JournalBack(tuple, lambda keys: {}))
    _replies: Deque[PollReply] = field(default_factory=lambda: deque(maxlen=1))  # not yet `heard`
    _doing: str = ""  # the task that the worker has, or has done and nobody was told
    _outcomes: Deque[Tuple[str, Outcome]] = field(default_factory=deque)
    _tended_at_s: float = 0.0
    _trouble: str = ""
    _file_trouble: str = ""
    _failures: int = 0
    _refusals: int = 0
    _heard_once: bool = False
    _silent_since_s: Optional[float] = None
    _journal_report: str = ""  # what is said next to a mgr of another protocol
    lost: bool = False  # whether it ended because nobody answers

    def run(self) -> None:
        """Restore what a crash left, then serve the mgr until told to stop, then restore."""
        self._tend()
        while not self.stop.is_set() and not self.lost:
            self.run_turn()
        self._end()

    # ---- one turn

    def run_turn(self) -> None:
        """Call the mgr, hand over what follows from it, and sleep until the next time."""
        self._tend()
        wait_s = self._call()
        while self._outcomes and not self.stop.is_set():
            wait_s = self._call()
        if not self.stop.is_set():
            self.stop.wait(self._bounded(wait_s))
            self._tend_owed()

    def tend(self) -> None:
        """Have the worker look around, now and then: in a long wait."""
        if self.clock() >= self._tended_at_s + GLANCE_EVERY_S:
            self._tend()

    def _tend(self) -> None:
        if not self.worker.busy:
            self._tended_at_s = self.clock()
            self.worker.give(self._look_around)

    def _tend_owed(self) -> None:
        if self.keeper.owed(self.clock()):
            self._tend()

    # ---- the worker's

    def _look_around(self) -> None:
        """What is due beside tasks: restores first, and what else may wait for a file."""
        told, due = len(self.restoring.notices), self.changes.due_at_s
        try:
            while self._replies:
                self.heard(self._replies.pop())
            self.at_turn()
            self.changes.look()
            self.restoring.restore_owed()
            self._file_trouble = ""
        except WcacheError as error:
            if self._file_trouble != error.line():
                self._file_trouble = error.line()
                self.say(printable(self._file_trouble))
        if len(self.restoring.notices) > told or self.changes.due_at_s != due:
            self.stop.wake(end=len(self.restoring.notices) > told)

    def _do(self, task: Task) -> None:
        self._look_around()
        if self.stop.is_set():
            return  # nothing is begun any more; the mgr asks the next start for it
        self._outcomes.append((task.task_id, self._answer(task)))
        self.stop.wake(end=True)

    # ---- calling

    def _call(self) -> float:
        """Call the mgr and take what it wants; returns the seconds to wait until the next."""
        self.changes.told()
        journal, self._journal_report = self._journal_report, ""
        try:
            sent_at_s = self.clock()
            done = ""
            if journal:
                reply = self.link.post(journal, self._call_timeout_s())
            elif self._outcomes:
                done, outcome = self._outcomes.popleft()
                self._doing = ""
                reply = self._post(done, outcome)
            elif self.restoring.notices:
                reply = self._post("", None)
            else:
                reply = self.link.poll(versions.dumps(self._hello()), self._call_timeout_s())
            return self._follow(reply, sent_at_s, done)
        except NotReadyError as error:
            self._failures += 1
            now_s = self.clock()
            if self._silent_since_s is None:
                self._silent_since_s = now_s
            elif now_s - self._silent_since_s >= SILENCE_MAX_S:
                # librados can hang for good (see `rados_link.py`), which looks the same from here
                self.say(f"no answer for {SILENCE_MAX_S / 60:g} minutes: ending, to be restarted")
                self.lost = True
            self._complain(error)
            wait_s = min(RETRY_MAX_S, RETRY_FIRST_S * 2.0 ** min(self._failures - 1, 16))
            return self._retry_in(wait_s)
        except OtherProtocolError as other:
            return self._across(other, reported=bool(journal))
        except WcacheError as error:
            self._silent_since_s = None
            self._complain(error)
            return self._retry_in(REFUSED_RETRY_S)

    def _across(self, other: OtherProtocolError, *, reported: bool) -> float:
        """The mgr is of another protocol: give up the lease, and bring back what it names.

        After each of its words the journal is reported once.
        """
        self._silent_since_s, self._failures = None, 0
        if other.version == PROTOCOL_VERSION:
            return CALL_MIN_S  # it was updated meanwhile
        self._complain(other)
        if self.keeper.lease(self.clock()) is not None:
            self.keeper.give_up("the mgr is of another version")
        self._tend_owed()
        if other.order is None:
            return self._retry_in(REFUSED_RETRY_S)
        keys = other.order.keys
        if (keys or not reported) and not self.worker.busy:
            self.worker.give(lambda: self._bring_back(keys))
        return self._retry_in(other.order.next_poll_s)

    def _bring_back(self, keys: Sequence[str]) -> None:
        """The worker's: restore these entries of the journal, then say what is in it."""
        self._look_around()
        try:
            self._journal_report = self.journal.report(keys, self.identity)
        except WcacheError as error:
            self._complain(error)
            return
        self.stop.wake(end=True)

    def _follow(self, reply: PollReply, sent_at_s: float, done: str) -> float:
        """Take a reply, and give its task to the worker, unless it is the one just answered."""
        self._well()
        self.keeper.heard(reply, sent_at_s, self.clock())
        self._end_lease_of_hanging_look()
        self._replies.append(reply)
        task = reply.task
        if self.stop.is_set():
            return 0.0  # what was done is undone first; the mgr learns it from our farewell
        if task is not None and not self._doing and task.task_id != done:
            self._doing, given = task.task_id, task
            self.keeper.given(task, self.clock())
            self.worker.give(lambda: self._do(given))
        else:
            self._tend_owed()
        wait_s = reply.next_poll_s
        if wait_s >= IDLE_FROM_S:
            wait_s *= self.jitter(1.0 - JITTER, 1.0 + JITTER)
        return wait_s

    def _end_lease_of_hanging_look(self) -> None:
        """No call renews a lease beyond the time of what hangs, where that is no task either."""
        hangs = self.worker.busy and not self._doing
        now_s = self.clock()
        if hangs and now_s >= self._tended_at_s + TASK_MAX_S and self.keeper.lease(now_s):
            self.keeper.give_up(f"a look around did not end within its {TASK_MAX_S:g} s")

    def _answer(self, task: Task) -> Outcome:
        known = self.keeper.decide(task, self.clock())
        if known is not None:
            return known
        self.worker.begin(words(task))
        if isinstance(task.request, ReportRequest):
            self.changes.reporting()
        outcome = self.runner.perform(task)
        owed = self.keeper.owed(self.clock())
        if isinstance(task.request, LEASED) and any(
            item.domain_id == task.request.domain_id for item in owed
        ):
            self.restoring.restore_owed()
            outcome = FailureOutcome(
                "the lease ran out while the drive was being changed",
                "the drive or the host is slow: set mgr/wcache/lease_ttl_s higher",
                restored=task.request.domain_id not in self.keeper.held,
            )
        self.keeper.answered(task.task_id, outcome)
        return outcome

    def _post(self, task_id: str, outcome: Optional[Outcome]) -> PollReply:
        """Send an answer and the waiting notices; returns the mgr's reply."""
        sent = tuple(self.restoring.notices)
        try:
            text = encode_post(self._body(task_id, outcome, sent))
        except MalformedError as error:
            failure = self._failed(task_id, error.line())
            text = encode_post(self._body(task_id, failure, sent))
        try:
            reply = self.link.post(text, self._call_timeout_s())
        except MalformedError as error:
            # a mgr that just started refuses everything for a while; one that goes on doing so
            # gets another answer, or it would ask for ever
            self._refusals += 1
            if task_id and self._refusals >= REFUSALS_MAX:
                self._failed(task_id, f"the mgr refused the answer: {error.line()}")
            raise
        self._refusals = 0
        self.restoring.sent(sent)
        return reply

    def _failed(self, task_id: str, why: str) -> FailureOutcome:
        """Answer a task with a failure, in place of what cannot be told."""
        failure = FailureOutcome(printable(why), restored=not self.keeper.held)
        self.keeper.answered(task_id, failure)
        return failure

    def _hello(self) -> Hello:
        lease = self.keeper.lease(self.clock())
        return Hello(
            PROTOCOL_VERSION, self.identity.probe_id, self.identity.instance_id,
            lease.lease_id if lease else "", self.identity.simulated, self.changes.due,
            self.worker.waiting(PASSING_S),
        )

    def _body(
        self, task_id: str, outcome: Optional[Outcome], notices: tuple[Notice, ...]
    ) -> Post:
        hello = self._hello()
        if outcome is not None:
            hello = replace(hello, waiting=None)  # what it waited for is over
        return Post(
            **vars(hello), hostname=self.identity.hostname, task_id=task_id,
            outcome=outcome, notices=notices,
        )

    # ---- the end

    def _end(self) -> None:
        """Undo what leases hold, and say goodbye; name what is not over in time."""
        self.keeper.stopping()
        self.worker.give(lambda: self.restoring.restore_owed(CHILDREN_S))
        if not self.worker.wait(END_PATIENCE_S):
            waiting = self.worker.waiting(0.0)
            what = f"{waiting.what}, for {waiting.seconds:g} s so far" if waiting else "its work"
            self.say(printable(
                f"this cannot be ended, and the kernel keeps the process until it is over: {what}"
            ))
        for domain_id in self.keeper.held:
            self.say(printable(
                f"{domain_id}: the prior state is not back yet; what restores it goes on, and the "
                "next start and `wcache-probe restore --all` see to it"
            ))
        if self.restoring.notices and not self._trouble:
            try:
                text = encode_post(self._body("", None, tuple(self.restoring.notices)))
                self.link.post(text, FAREWELL_S)
            except WcacheError:
                return  # the journal knows, and the next start tells

    # ---- waiting and talking

    def _call_timeout_s(self) -> float:
        remaining_s = self.keeper.remaining_s(self.clock())
        if remaining_s is None or not self.keeper.held:
            return CALL_MAX_S
        return min(CALL_MAX_S, max(CALL_MIN_S, remaining_s))

    def _bounded(self, wait_s: float) -> float:
        if self.worker.busy:  # its guard sees to what is owed
            return PASSING_S if self._doing else min(wait_s, PASSING_S)
        wake_at_s = self.keeper.wake_at_s()
        if wake_at_s is None:
            return wait_s
        return max(0.0, min(wait_s, wake_at_s - self.clock()))

    def _retry_in(self, wait_s: float) -> float:
        held = self.keeper.remaining_s(self.clock()) is not None
        return min(wait_s, HELD_RETRY_S) if held else wait_s * self.jitter(1 - JITTER, 1 + JITTER)

    def _complain(self, error: WcacheError) -> None:
        line = printable(error.line())
        if line != self._trouble:
            self.say(line)
            self._trouble = line

    def _well(self) -> None:
        if self._trouble or not self._heard_once:
            again = " again" if self._heard_once else ""
            self.say(f"the mgr answers{again}")
        self._heard_once = True
        self._trouble = ""
        self._failures = 0
        self._silent_since_s = None


def words(task: Task) -> str:
    """What a task is, for people."""
    domain_id = getattr(task.request, "domain_id", "")
    return f"{task.request.KIND} of {domain_id}" if domain_id else task.request.KIND
