"""The probe's side of a lease, as a sans-I/O machine.

The machine knows two things: the lease the mgr granted last and until when it is good,
and which cache domains are *held*, i.e. have a journal entry because a task under a
lease touched them.  A held domain whose own lease is not live is *owed*: it must be
restored before anything else is done.  Every way a lease can end (a reply that names
none or another one, silence, a freeze, a crash of the probe) only changes these two
facts, so no way can be forgotten.

A lease counts from the moment the call that renewed it was *sent*: the mgr answered
later than that, so the probe always gives up before the mgr expects it to.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Dict, List, Mapping, Optional, Tuple, Union

from ..protocol import (
    APPLIED,
    LEASED,
    FailureOutcome,
    Lease,
    Outcome,
    PollReply,
    RollbackRequest,
    Task,
)

# A mgr that lost an answer asks again at once; a few tasks back is already history.
ANSWERS_MAX = 16
RETRY_FIRST_S = 2.0
RETRY_MAX_S = 60.0


@dataclass(frozen=True)
class Restore:
    """Bring back the prior state of a domain now; `reason` is for people."""

    domain_id: str
    lease_id: str
    reason: str
    attempt: int  # 0 the first time


@dataclass(frozen=True)
class Perform:
    """Do the task, then call `answered`."""

    task: Task


@dataclass(frozen=True)
class Repeat:
    """The task was done before: post this answer again."""

    task_id: str
    outcome: Outcome


@dataclass
class _Held:
    lease_id: str
    reason: str  # why it would be owed now
    attempts: int = 0
    retry_at_s: float = 0.0


class LeaseKeeper:
    """Holds at most one lease.  Times are seconds of one monotonic clock.

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
        self._frozen = False
        self._throwaway = False
        self._given_up = ""
        self._answers: OrderedDict[str, Outcome] = OrderedDict()

    # ---- what others ask

    @property
    def frozen(self) -> bool:
        """Whether the last reply said that nothing may be changed."""
        return self._frozen

    @property
    def throwaway(self) -> bool:
        """Whether the last reply said that the cluster's data is worth nothing."""
        return self._throwaway

    @property
    def held(self) -> Tuple[str, ...]:
        """The domains whose prior state is in the journal of leases."""
        return tuple(self._held)

    def lease(self, now_s: float) -> Optional[Lease]:
        """The live lease, or None."""
        self._expire(now_s)
        return self._lease

    def remaining_s(self, now_s: float) -> Optional[float]:
        """Seconds until the live lease runs out; None where there is none."""
        return self._expires_at_s - now_s if self.lease(now_s) else None

    def wake_at_s(self) -> Optional[float]:
        """When `owed` may have something that it has not now, or None."""
        times = [
            self._expires_at_s if self._covers(held) else held.retry_at_s
            for held in tuple(self._held.values())
        ]
        return min(times) if times else None

    # ---- events

    def heard(self, reply: PollReply, sent_at_s: float, now_s: float) -> None:
        """Take a reply of the mgr to a call that was sent at `sent_at_s`."""
        self._expire(now_s)
        self._throwaway = reply.throwaway
        self._frozen = reply.frozen
        if reply.frozen:
            self._end("the cluster was frozen")
        elif reply.lease is None:
            self._given_up = ""
            self._end("the mgr ended the lease")
        elif reply.lease.lease_id != self._given_up:
            self._given_up = ""
            if self._lease is not None and self._lease.lease_id != reply.lease.lease_id:
                self._end(f"the mgr named another lease, {reply.lease.lease_id}")
            self._lease = reply.lease
            self._expires_at_s = sent_at_s + reply.lease.ttl_s
            self._expire(now_s)

    def give_up(self, reason: str) -> None:
        """Everything held is owed now, and the lease is not taken again when the mgr names it.

        Until the mgr has dropped it, nothing is changed under it any more.
        """
        if self._lease is not None:
            self._given_up = self._lease.lease_id
        self._end(reason)
        for held in tuple(self._held.values()):
            held.retry_at_s = 0.0

    def stopping(self) -> None:
        """The probe is told to stop: everything held is owed now."""
        self._end("the probe was stopped")
        for held in tuple(self._held.values()):
            held.retry_at_s = 0.0

    def is_held(self, domain_id: str, lease_id: str) -> None:
        """The journal has an entry of this lease for the domain."""
        known = self._held.get(domain_id)
        if known is None or known.lease_id != lease_id:
            self._held[domain_id] = _Held(lease_id, "its lease is not live")

    def is_free(self, domain_id: str) -> None:
        """The journal has no entry of a lease for the domain any more."""
        self._held.pop(domain_id, None)

    def not_restored(self, domain_id: str, now_s: float) -> None:
        """A restore failed: what is still held is owed again after a while, ever more seldom."""
        held = self._held.get(domain_id)
        if held is None:
            return
        held.retry_at_s = now_s + min(RETRY_MAX_S, RETRY_FIRST_S * 2.0**held.attempts)
        held.attempts = min(held.attempts + 1, 16)

    def answered(self, task_id: str, outcome: Outcome) -> None:
        """Keep the answer of a task, so that the task is never done twice."""
        self._answers[task_id] = outcome
        self._answers.move_to_end(task_id)
        while len(self._answers) > ANSWERS_MAX:
            self._answers.popitem(last=False)

    # ---- what to do

    def owed(self, now_s: float) -> List[Restore]:
        """The restores that are due now; they come before any task."""
        self._expire(now_s)
        return [
            Restore(domain_id, held.lease_id, held.reason, held.attempts)
            for domain_id, held in tuple(self._held.items())
            if not self._covers(held) and now_s >= held.retry_at_s
        ]

    def decide(self, task: Task, now_s: float) -> Union[Perform, Repeat]:
        """What to do about a task that a reply brought; call it when nothing is owed."""
        self._expire(now_s)
        known = self._answers.get(task.task_id)
        if known is not None:
            return Repeat(task.task_id, known)
        refusal = self._refusal(task)
        if refusal is None:
            return Perform(task)
        self.answered(task.task_id, refusal)
        return Repeat(task.task_id, refusal)

    def _refusal(self, task: Task) -> Optional[FailureOutcome]:
        request = task.request
        if not isinstance(request, (*LEASED, *APPLIED, RollbackRequest)):
            return None
        restored = request.domain_id not in self._held
        if self._frozen and not isinstance(request, RollbackRequest):
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
            self._end(f"the lease ran out after {ttl_s:g} s without an answer from the mgr")

    def _end(self, reason: str) -> None:
        for held in tuple(self._held.values()):
            if self._covers(held):
                # what failed before the mgr named the lease again says nothing of now
                held.reason, held.attempts, held.retry_at_s = reason, 0, 0.0
        self._lease = None
