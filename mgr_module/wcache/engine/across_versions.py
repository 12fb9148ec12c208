"""What a probe of another protocol is asked for, and what follows from its journal's keys.

It is asked to bring back what a release or a rollback waits for, and for nothing else.  It says
what it has read: an entry leaves its journal only once the drives are as they were.
"""

from __future__ import annotations

from typing import Callable, Optional, Union

from ..core import across
from ..core.drive.prior import Prior
from ..core.events import Halt, TaskAnswered
from ..core.protocol import (
    PROTOCOL_VERSION,
    FailureOutcome,
    ReleaseRequest,
    RollbackRequest,
    StateOutcome,
)
from .executor import Executor
from .hosts import key_of
from .probe_calls import settle

BUSY_S = 1.0


class AcrossVersions:
    """Over the executor, as `ProbeCalls`: the caller holds the lock."""

    def __init__(self, executor: Executor, lines: Callable[[str], int]) -> None:
        self._executor = executor
        self._lines = lines

    def take(
        self, hostname: str, hello: across.Caller, report: Optional[across.Report]
    ) -> across.Order:
        """A probe of another protocol calls."""
        executor = self._executor
        agents, now_s = executor.hosts.agents, executor.clock()
        known = agents.other(hostname, now_s)
        other = agents.hear_other(hostname, hello, now_s, report is not None)
        if (known is None or known.version != other.version) and self._lines(hostname):
            executor.note("mgr", hostname, other.words, "warning")
        # it gives up its lease as soon as it hears that this is another protocol
        for run_id, machine in list(executor.runs.items()):
            if machine.holds_lease and machine.spec.hostname == hostname:
                executor.feed(run_id, Halt(other.words))
        if report is not None:
            self._settle(hostname, report)
        pending = executor.hosts.tasks.get(hostname)
        key = None if pending is None else key_of(pending.task.request)
        if key is None:
            return across.Order(PROTOCOL_VERSION, executor.options().poll_idle_s)
        here = report is not None and key in report.keys
        return across.Order(PROTOCOL_VERSION, BUSY_S, (key,) if here else ())

    def _settle(self, hostname: str, report: across.Report) -> None:
        """Answer what waits for the host, where the journal's keys say what became of it."""
        executor = self._executor
        pending = executor.hosts.tasks.get(hostname)
        if pending is None:
            return
        request = pending.task.request
        if not isinstance(request, (ReleaseRequest, RollbackRequest)):
            return
        outcome = self._outcome(hostname, request, report)
        if outcome is None:
            return
        del executor.hosts.tasks[hostname]
        if isinstance(outcome, StateOutcome):
            said = f"its probe, of protocol {report.version}, says that it is back"
            executor.note("mgr", request.domain_id, said)
        if isinstance(request, ReleaseRequest) and isinstance(outcome, StateOutcome):
            settle(executor, executor.unrestored.released(hostname, request, outcome))
        if pending.owner:
            executor.feed(pending.owner, TaskAnswered(pending.task.task_id, outcome))

    def _outcome(
        self, hostname: str, request: Union[ReleaseRequest, RollbackRequest], report: across.Report
    ) -> Union[StateOutcome, FailureOutcome, None]:
        """What became of a request; None where that is not known yet."""
        key = key_of(request) or ""
        known = self._executor.hosts.agents.get(hostname)
        same = known is not None and known.probe_id == report.probe_id
        lease = isinstance(request, ReleaseRequest)
        if key in report.restored or (lease and same and key not in report.keys):
            if request.prior.known:
                return as_before(request.prior)
            why = "what was there before is not known here"
        elif key in report.keys:
            why = dict(report.failed).get(key, "")
            if not why:
                return None
        else:
            why = "its journal has no entry of it"
        return FailureOutcome(
            f"the probe is of protocol {report.version}, this module of {PROTOCOL_VERSION}: {why}",
            "update the older of the two, then try again", restored=False,
        )


def as_before(prior: Prior) -> StateOutcome:
    """The answer of a probe that has read every drive as it was before."""
    states = tuple(item.state for item in prior.drives)
    ids = tuple(item.drive_id for item in prior.drives)
    return StateOutcome(states, states, (), True, ids)
