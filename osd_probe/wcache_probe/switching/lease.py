"""Decide what a lease allows, on the probe's side: a sans-I/O machine.

The machine knows two things: the lease the mgr granted last and until when it is good,
and which cache domains are *held*, i.e. have a journal entry because a task under a
lease touched them.  A held domain whose own lease is not live is *owed*: it must be
restored before anything else is done.  Every way a lease can end (a reply that names
none or another one, silence, a freeze, a crash of the probe) only changes these two
facts, so no way can be forgotten.

A lease counts from the moment the call that renewed it was *sent*: the mgr answered
later than that, so the probe always gives up before the mgr expects it to.

Tasks are done beside the calls, and one may hang in the kernel, or wait behind what hangs.  So
each has a time of its own from the moment it is given, beyond which no call renews a lease.
Before it begins and before each touch of a drive it is asked anew whether it may go on: who wakes
up late finds that it may not.  Several threads ask.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from functools import wraps
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple, TypeVar, cast

from wcache.core.protocol import (
    APPLIED,
    LEASED,
    FailureOutcome,
    Lease,
    Outcome,
    PollReply,
    ReleaseRequest,
    RollbackRequest,
    Task,
)

# A mgr that lost an answer asks again at once; a few tasks back is already history.
ANSWERS_MAX = 16
# The time of a task under no lease; one that takes longer hangs (a flush may take 120 s).
TASK_MAX_S = 300.0
RETRY_FIRST_S = 2.0
RETRY_MAX_S = 60.0


@dataclass(frozen=True)
class Restore:
    """Bring back the prior state of a domain now; `reason` is for people."""

    domain_id: str
    lease_id: str
    reason: str


@dataclass(frozen=True)
class _UnderWay:
    task: Task
    lease_id: str  # the live lease when it was given
    seconds: float
    until_s: float


@dataclass
class _Held:
    lease_id: str
    reason: str  # why it would be owed now
    attempts: int = 0
    retry_at_s: float = 0.0


_Method = TypeVar("_Method", bound=Callable[..., Any])


def _alone(method: _Method) -> _Method:
    """Let one thread in at a time: the loop renews a lease while a task asks for it."""

    @wraps(method)
    def held(self: LeaseKeeper, *args: Any, **more: Any) -> Any:
        with self._lock:
            return method(self, *args, **more)

    return cast(_Method, held)


class LeaseKeeper:
    """Hold at most one lease.  Times are seconds of one monotonic clock.

    `held` maps cache domains to the lease that touched them, as the journal says at the
    start: what a crash left behind is owed at once.
    """

    def __init__(self, held: Mapping[str, str]) -> None:
        self._held: Dict[str, _Held] = {
            domain_id: _Held(lease_id, "the probe was restarted")
            for domain_id, lease_id in held.items()
        }
        self._lease: Optional[Lease] = None
        self._expires_at_s = 0.0
        self.frozen = False  # the last reply said that nothing may be changed
        self.throwaway = False  # and that the cluster's data is worth nothing
        self._given_up = ""
        self._last_named = ""  # the lease of the last reply, which may have run out since
        self._answers: OrderedDict[str, Outcome] = OrderedDict()
        self._under_way: Optional[_UnderWay] = None
        self._named = ""  # the task that the last reply asked for
        self._lock = threading.RLock()

    # ---- what others ask

    @property
    @_alone
    def held(self) -> Tuple[str, ...]:
        """Return the domains whose prior state the journal has for a lease."""
        return tuple(self._held)

    @_alone
    def lease(self, now_s: float) -> Optional[Lease]:
        """Return the live lease, or None."""
        self._expire(now_s)
        return self._lease

    @_alone
    def remaining_s(self, now_s: float) -> Optional[float]:
        """Return the seconds until the live lease runs out; None where there is none."""
        return self._expires_at_s - now_s if self.lease(now_s) else None

    @_alone
    def wake_at_s(self) -> Optional[float]:
        """Return when `owed` may next have something new, or None."""
        times = [
            self._expires_at_s if self._covers(held) else held.retry_at_s
            for held in tuple(self._held.values())
        ]
        return min(times) if times else None

    # ---- events

    @_alone
    def heard(self, reply: PollReply, sent_at_s: float, now_s: float) -> None:
        """Take a reply of the mgr to a call that was sent at `sent_at_s`."""
        self._expire(now_s)
        self.throwaway = reply.throwaway
        self.frozen = reply.frozen
        self._named = reply.task.task_id if reply.task else ""
        self._last_named = reply.lease.lease_id if reply.lease else ""
        if reply.frozen:
            self._end("the cluster was frozen")
        elif reply.lease is None:
            self._given_up = ""
            self._end("the mgr ended the lease")
        elif self._overdue(now_s):
            self._end(self._too_late)
        elif reply.lease.lease_id != self._given_up:
            self._given_up = ""
            if self._lease is not None and self._lease.lease_id != reply.lease.lease_id:
                self._end(f"the mgr named another lease, {reply.lease.lease_id}")
            self._lease = reply.lease
            self._expires_at_s = sent_at_s + reply.lease.ttl_s
            if self._under_way is not None:
                self._expires_at_s = min(self._expires_at_s, self._under_way.until_s)
            self._expire(now_s)

    @_alone
    def give_up(self, reason: str) -> None:
        """Owe everything that is held, and do not take the lease again when the mgr names it.

        Until the mgr has dropped it, nothing is changed under it any more.
        """
        self._given_up = self._last_named
        self.stopping(reason)

    @_alone
    def stopping(self, reason: str = "the probe was stopped") -> None:
        """Owe everything that is held, at once."""
        self._end(reason)
        for held in tuple(self._held.values()):
            held.retry_at_s = 0.0

    @_alone
    def is_held(self, domain_id: str, lease_id: str) -> None:
        """Note that the journal has an entry of this lease for the domain."""
        known = self._held.get(domain_id)
        if known is None or known.lease_id != lease_id:
            self._held[domain_id] = _Held(lease_id, "its lease is not live")

    @_alone
    def is_free(self, domain_id: str) -> None:
        """Note that the journal has no entry of a lease for the domain any more."""
        self._held.pop(domain_id, None)

    @_alone
    def not_restored(self, domain_id: str, now_s: float) -> None:
        """Note that a restore failed: owe it again after a while, ever more seldom."""
        held = self._held.get(domain_id)
        if held is None:
            return
        held.retry_at_s = now_s + min(RETRY_MAX_S, RETRY_FIRST_S * 2.0**held.attempts)
        held.attempts = min(held.attempts + 1, 16)

    @_alone
    def answered(self, task_id: str, outcome: Outcome) -> None:
        """Keep the answer of a task, so that the task is never done twice."""
        if self._under_way is not None and self._under_way.task.task_id == task_id:
            self._under_way = None
            for held in self._held.values():  # what waited for it need not wait any more
                held.attempts, held.retry_at_s = 0, 0.0
        self._answers[task_id] = outcome
        self._answers.move_to_end(task_id)
        while len(self._answers) > ANSWERS_MAX:
            self._answers.popitem(last=False)

    # ---- what to do

    @_alone
    def owed(self, now_s: float) -> List[Restore]:
        """Return the restores that are due now; they come before any task."""
        self._expire(now_s)
        return [
            Restore(domain_id, held.lease_id, held.reason)
            for domain_id, held in tuple(self._held.items())
            if not self._covers(held) and now_s >= held.retry_at_s
        ]

    @_alone
    def given(self, task: Task, now_s: float) -> None:
        """Begin the time of a task that a reply brought, though its turn may come later."""
        if task.task_id in self._answers:
            return
        self._expire(now_s)
        lease = self._lease
        seconds = lease.ttl_s if lease else TASK_MAX_S
        self._named = task.task_id
        self._under_way = _UnderWay(
            task, lease.lease_id if lease else "", seconds, now_s + seconds
        )

    @_alone
    def decide(self, task: Task, now_s: float) -> Optional[Outcome]:
        """Return the answer to a task whose turn has come; call it when nothing is owed.

        None: do it, then call `answered`.
        """
        self._expire(now_s)
        known = self._answers.get(task.task_id)
        if known is not None:
            return known
        waits = self._under_way is not None and self._under_way.task.task_id == task.task_id
        if not waits or isinstance(task.request, (ReleaseRequest, RollbackRequest)):
            self.given(task, now_s)  # a way back is never late: its time begins anew
        refusal = self._refusal(task) or self._stale(task, now_s)
        if refusal is None:
            return None
        self._under_way = None  # it never began
        self.answered(task.task_id, refusal)
        return refusal

    @_alone
    def may_not_go_on(self, now_s: float) -> str:
        """Say why the task under way may not touch its drive now; empty where it may.

        It was asked before the task began, and is asked again before each touch: in between the
        task may have hung in the kernel for as long as that liked.
        """
        self._expire(now_s)
        doing = self._under_way
        if doing is None:
            return ""
        if self._overdue(now_s):
            return self._too_late
        refusal = self._refusal(doing.task)
        if refusal is not None:
            return refusal.message
        return self._lease_ended(doing)

    def _lease_ended(self, doing: _UnderWay) -> str:
        if isinstance(doing.task.request, LEASED) and (
            self._lease is None or self._lease.lease_id != doing.lease_id
        ):
            return f"lease {doing.lease_id} has ended"
        return ""

    def _stale(self, task: Task, now_s: float) -> Optional[FailureOutcome]:
        """Say why a task waited too long for its turn to be begun."""
        request, doing = task.request, self._under_way
        if doing is None:
            return None
        if self._overdue(now_s):
            why = self._too_late
        elif self._named != task.task_id:
            why = f"the mgr no longer asks for task {task.task_id}"
        else:
            why = self._lease_ended(doing)
        domain_id = getattr(request, "domain_id", "")
        restored = domain_id not in self._held if domain_id else not self._held
        return FailureOutcome(
            f"it was not begun: {why}",
            "the probe's log and the kernel's say what did not answer", restored=restored,
        ) if why else None

    def _refusal(self, task: Task) -> Optional[FailureOutcome]:
        request = task.request
        if not isinstance(request, (*LEASED, *APPLIED, RollbackRequest)):
            return None
        restored = request.domain_id not in self._held
        if self.frozen and not isinstance(request, RollbackRequest):
            return FailureOutcome(
                "the cluster is frozen", "thaw it with `ceph wcache freeze --thaw`",
                refused=True, restored=restored,
            )
        if not isinstance(request, LEASED):
            if restored:
                return None
            return FailureOutcome(
                f"an experiment holds {request.domain_id}", "wait until it ends", refused=True,
                restored=False,
            )
        if self._lease is None or not self._lease.covers(request.domain_id):
            return FailureOutcome(
                f"there is no live lease for {request.domain_id}", refused=True,
                restored=restored,
            )
        held = self._held.get(request.domain_id)
        if held is not None and held.lease_id != self._lease.lease_id:
            return FailureOutcome(
                f"{request.domain_id} is not restored yet after lease {held.lease_id}; the probe "
                "keeps trying", "see the probe's log", refused=True, restored=False,
            )
        return None

    # ---- small things

    def _covers(self, held: _Held) -> bool:
        return self._lease is not None and self._lease.lease_id == held.lease_id

    def _expire(self, now_s: float) -> None:
        if self._lease is not None and now_s >= self._expires_at_s:
            ttl_s = self._lease.ttl_s
            self._end(
                self._too_late if self._overdue(now_s) else
                f"the lease ran out after {ttl_s:g} s without an answer from the mgr"
            )

    def _overdue(self, now_s: float) -> bool:
        return self._under_way is not None and now_s >= self._under_way.until_s

    @property
    def _too_late(self) -> str:
        doing = self._under_way
        assert doing is not None  # callers looked  # noqa: S101
        return f"task {doing.task.task_id} was not done within its {doing.seconds:g} s"

    def _end(self, reason: str) -> None:
        for held in tuple(self._held.values()):
            if self._covers(held):
                # what failed before the mgr named the lease again says nothing of now
                held.reason, held.attempts, held.retry_at_s = reason, 0, 0.0
        self._lease = None
