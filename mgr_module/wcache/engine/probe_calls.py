"""What a probe's call changes, with what the probe hears, of another protocol too.

Whoever calls has checked the message.

What a probe of another protocol is asked for, and what follows from its journal's keys.

It is asked to bring back what a release or a rollback waits for, and for nothing else.  It says
what it has read: an entry leaves its journal only once the drives are as they were.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Callable, Optional, Sequence, Union

from ..core import across
from ..core.codec import one_line
from ..core.drive.proofs import proofs_for
from ..core.errors import RefusedError
from ..core.events import AgentSilent, Answered, Event, Halt, LeaseLost, SaveRun
from ..core.fleet.agents import Agent
from ..core.fleet.claims import as_a_probe_may
from ..core.host_report import HostReport, disobeyed
from ..core.protocol import (
    PROTOCOL_VERSION,
    AcceptRequest,
    ApplyRequest,
    DrivesOutcome,
    FailureOutcome,
    Hello,
    Lease,
    LookRequest,
    MemoryOutcome,
    MemoryRequest,
    Outcome,
    PollReply,
    Post,
    ReleaseRequest,
    ReportOutcome,
    ReportRequest,
    Request,
    RollbackRequest,
    SetModeRequest,
    StateOutcome,
    Task,
)
from ..core.text import typed
from .executor import Executor
from .hosts import CHANGED_EVERY_S, key_of
from .storing.archive import AGENT, REPORT
from .under_way import busy, open_jobs
from .unrestored import Learned

# How soon a probe of another protocol calls again that has something to bring back.
BUSY_S = 1.0


def settle(engine: Executor, learned: Sequence[Learned]) -> None:
    """Store what became known of the prior states that runs owe."""
    for run_id, said in learned:
        if said:
            engine.note("mgr", run_id, said)
        engine.execute(run_id, [SaveRun()])


class ProbeCalls:
    """Over the engine: it keeps nothing itself, and the caller holds the lock.

    `lines` tells whether one more line of a host's probe is kept in the audit log: 0 where not,
    else 1 and how many were left out before it.
    """

    def __init__(self, engine: Executor, lines: Callable[[str], int]) -> None:
        self._engine = engine
        self._lines = lines

    def answer(self, hostname: str, hello: Hello) -> PollReply:
        """A probe asks what to do, and may tell an outcome; a repeated one changes nothing."""
        if not isinstance(hello, Post):
            self._hear(hostname, hello)
        elif not self._is_old(hostname, hello):
            self._take(hostname, hello)
        return self._reply(hostname)

    def _note(self, hostname: str, what: str, text: str) -> None:
        """A line of a host's probe in the audit log, unless it has had too many."""
        lines = self._lines(hostname)
        if lines:
            more = f" (and {lines - 1} lines before it were too many)" if lines > 1 else ""
            self._engine.note(f"probe {hostname}", what, text + more)

    def _take(self, hostname: str, post: Post) -> None:
        engine = self._engine
        # the outcome first: it may be what ended the lease that it no longer holds
        self._hear(hostname, post, answers=post.task_id)
        for notice in post.notices:
            if engine.hosts.seen_notice(hostname, post.probe_id, notice.notice_id):
                continue
            self._note(hostname, notice.domain_id or hostname, notice.text)
            if notice.restored:
                settle(engine, engine.unrestored.told(hostname, notice))
        self._take_outcome(hostname, post)

    def _is_old(self, hostname: str, post: Post) -> bool:
        """Whether a post of this host's probe came before (librados resends after a restart).

        What it says of its lease was true then, so nothing follows from it now.
        """
        engine = self._engine
        agent = engine.hosts.agents.get(hostname)
        if agent is None or agent.probe_id != post.probe_id:
            return False
        seen = engine.hosts.seen_notice
        told = [seen(hostname, post.probe_id, n.notice_id, mark=False) for n in post.notices]
        if not all(told):
            return False
        pending = engine.hosts.tasks.get(hostname)
        if post.task_id:
            return pending is None or pending.task.task_id != post.task_id
        return bool(told)

    def _hear(self, hostname: str, hello: Hello, answers: str = "") -> None:
        """A probe calls, with the answer to a task or without; refuses one that may not."""
        engine = self._engine
        if hello.simulated and not engine.options().throwaway_cluster:
            raise RefusedError(
                f"the probe on {hostname} simulates its drives",
                "set mgr/wcache/throwaway_cluster to true, in a cluster whose data is worthless",
            )
        if engine.hosts.removed.has(hostname, hello.instance_id):
            raise RefusedError(
                f"host {hostname} was removed",
                "stop this probe, or bring it back with "
                + typed("ceph wcache agent add {}", hostname),
            )
        before = engine.hosts.agents.hear(hostname, hello, engine.clock())
        if before.instance_id != hello.instance_id or before.probe_id != hello.probe_id:
            engine.hosts.reported_at_s.pop(hostname, None)
            engine.hosts.journal_known.discard(hostname)
            agent = engine.hosts.agents.get(hostname)
            if agent is not None:
                engine.archive.put_later(AGENT, agent)
            self._note(hostname, hostname, f"probe {hello.probe_id} started")
        engine.hosts.heard(hostname, engine.clock())
        if hello.changed:
            engine.hosts.look_wanted.add(hostname)
        pending, lease = engine.hosts.tasks.get(hostname), self.lease_of(hostname)
        answered = pending is not None and pending.task.task_id == answers
        if lease is not None and not answered:
            self._notice_lost_lease(lease, before, hello)

    def _notice_lost_lease(self, lease: Lease, before: Agent, hello: Hello) -> None:
        if before.probe_id != hello.probe_id:
            # its journal is another one: it would take our mode for the prior state
            said = f"probe {before.probe_id} is gone and {hello.probe_id} took its place"
            self._tell_holder(lease.lease_id, AgentSilent(said))
            return
        restarted = bool(before.instance_id) and before.instance_id != hello.instance_id
        lost = before.lease_id == lease.lease_id and hello.lease_id != lease.lease_id
        if restarted or lost:
            why = "the probe was restarted" if restarted else "the lease ran out at the probe"
            self._tell_holder(lease.lease_id, LeaseLost(why))

    def _tell_holder(self, lease_id: str, event: Event) -> None:
        for run_id, machine in list(self._engine.runs.items()):
            if machine.holds_lease and machine.spec.lease_id == lease_id:
                self._engine.feed(run_id, event)

    def _take_outcome(self, hostname: str, post: Post) -> None:
        engine = self._engine
        pending = engine.hosts.tasks.get(hostname)
        if pending is None or post.outcome is None or pending.task.task_id != post.task_id:
            return  # answered before (librados resends after a mgr restart), or never asked
        if isinstance(post.outcome, ReportOutcome):
            self._take_report(hostname, post.outcome.report)
        if isinstance(post.outcome, MemoryOutcome) and post.outcome.memory is not None:
            engine.hosts.memory[hostname] = engine.clock(), post.outcome.memory
        del engine.hosts.tasks[hostname]
        request = pending.task.request
        if isinstance(request, (SetModeRequest, ApplyRequest)):
            self._remember(hostname, request.domain_id, post.outcome)
        if isinstance(request, AcceptRequest) and isinstance(post.outcome, FailureOutcome):
            said = f"what was accepted is not dropped yet: {post.outcome.message}"
            self._note(hostname, request.domain_id, said)
        if isinstance(request, ReleaseRequest) and isinstance(post.outcome, StateOutcome):
            settle(engine, engine.unrestored.released(hostname, request, post.outcome))
        if pending.owner:
            outcome = self._checked(hostname, pending.task.request, post.outcome)
            engine.feed(pending.owner, Answered(post.task_id, outcome))

    def _remember(self, hostname: str, domain_id: str, outcome: Outcome) -> None:
        """Keep with the host's report that a drive did not obey; the next one has it anyway."""
        engine, report = self._engine, self._engine.hosts.reports.get(hostname)
        if report is None or not isinstance(outcome, FailureOutcome) or not outcome.by_drive:
            return
        report = replace(report, drives=tuple(
            disobeyed(drive, one_line(outcome.message, 300)) if drive.domain_id == domain_id
            else drive for drive in report.drives
        ))
        engine.hosts.reports[hostname] = report
        engine.archive.put_later(REPORT, report)
        engine.hosts.look_again(hostname)

    def _checked(self, hostname: str, request: Request, outcome: Outcome) -> Outcome:
        """A look at other drives than the host has reported is none: in words, a failure."""
        if not isinstance(request, LookRequest) or not isinstance(outcome, DrivesOutcome):
            return outcome
        report, domain_id = self._engine.hosts.reports.get(hostname), request.domain_id
        told = [d.drive_id for d in report.drives if d.domain_id == domain_id] if report else []
        if sorted(told) == sorted(drive.drive_id for drive in outcome.drives):
            return outcome
        self._engine.hosts.reported_at_s.pop(hostname, None)
        return FailureOutcome(
            f"the drives of {domain_id[:60]} are not those that {hostname} has reported",
            "it is asked for a new report: try again in a moment", refused=True,
        )

    def _take_report(self, hostname: str, report: HostReport) -> None:
        engine = self._engine
        if report.hostname != hostname:
            raise RefusedError(f"{hostname} sent a report in the name of {report.hostname[:60]}")
        report = as_a_probe_may(report)
        engine.hosts.reported(hostname, engine.clock())
        engine.hosts.agents.note_version(hostname, report.probe_version)
        settle(engine, engine.unrestored.read(report))
        if engine.hosts.reports.get(hostname) != report:
            engine.hosts.reports[hostname] = report
            engine.archive.put_later(REPORT, report)

    def _reply(self, hostname: str) -> PollReply:
        """What the probe is told: when to call again, its task, its lease."""
        engine = self._engine
        engine.hear_store()  # what waited for the mons may be this probe's next task
        options, now_s = engine.options(), engine.clock()
        next_s, lease = options.poll_idle_s, self.lease_of(hostname)
        at_work = busy(hostname, engine.runs, engine.rollouts)
        stuck = now_s - engine.ticked_at_s > options.lease_ttl_s
        if at_work:
            next_s = options.poll_busy_s
        elif engine.reserved or open_jobs(engine.runs):
            next_s = min(1.0, options.poll_idle_s)
        elif hostname in engine.hosts.look_wanted:
            next_s = min(CHANGED_EVERY_S, options.poll_idle_s)
        pending = engine.hosts.tasks.get(hostname)
        if pending is not None:
            task = None if pending.owner and stuck else pending.task
        else:
            task = self.next_look(hostname, now_s, lease, at_work)
        return PollReply(
            PROTOCOL_VERSION, next_s, task,
            None if stuck else lease,  # renewed by progress alone
            engine.frozen, options.throwaway_cluster,
        )

    # ---- what it hears

    def lease_of(self, hostname: str) -> Optional[Lease]:
        for machine in self._engine.runs.values():
            if machine.holds_lease and machine.spec.hostname == hostname:
                spec = machine.spec
                other = spec.domain_ids[1] if len(spec.domain_ids) > 1 else ""
                ttl_s = self._engine.options().lease_ttl_s
                return Lease(spec.lease_id, spec.domain_id, ttl_s, other)
        return None

    def next_look(
        self, hostname: str, now_s: float, lease: Optional[Lease] = None, at_work: bool = False
    ) -> Optional[Task]:
        """What a host should do that no machine waits for: a look around, or a restore."""
        engine, hosts, owed = self._engine, self._engine.hosts, None
        if lease is None and not at_work:  # what only the mgr knows how to restore
            owed = engine.unrestored.request(hostname, now_s)
        if owed is not None:
            hosts.look_again(hostname)  # the next one says what came of it
            return hosts.give(hostname, engine.epoch, owed)
        if hosts.memory_due(hostname, now_s):
            return hosts.give(hostname, engine.epoch, MemoryRequest())
        if lease is not None or not hosts.look_due(hostname, now_s):
            return None
        proofs = proofs_for(hostname, hosts.reports.values(), engine.analyses.accepted)
        return hosts.give(hostname, engine.epoch, ReportRequest(proofs))

    # ---- of another protocol

    def answer_other(
        self, hostname: str, hello: across.Caller, report: Optional[across.Report]
    ) -> across.Order:
        """A probe of another protocol calls."""
        engine = self._engine
        agents, now_s = engine.hosts.agents, engine.clock()
        known = agents.other(hostname, now_s)
        other = agents.hear_other(hostname, hello, now_s, report is not None)
        if (known is None or known.version != other.version) and self._lines(hostname):
            engine.note("mgr", hostname, other.words, "warning")
        # it gives up its lease as soon as it hears that this is another protocol
        for run_id, machine in list(engine.runs.items()):
            if machine.holds_lease and machine.spec.hostname == hostname:
                engine.feed(run_id, Halt(other.words))
        if report is not None:
            self._settle(hostname, report)
        pending = engine.hosts.tasks.get(hostname)
        key = None if pending is None else key_of(pending.task.request)
        if key is None:
            return across.Order(PROTOCOL_VERSION, engine.options().poll_idle_s)
        here = report is not None and report.may_hold(key)
        return across.Order(PROTOCOL_VERSION, BUSY_S, (key,) if here else ())

    def _settle(self, hostname: str, report: across.Report) -> None:
        """Answer what waits for the host, where the journal's keys say what became of it."""
        engine = self._engine
        pending = engine.hosts.tasks.get(hostname)
        if pending is None:
            return
        request = pending.task.request
        if not isinstance(request, (ReleaseRequest, RollbackRequest)):
            return
        outcome = self._outcome(hostname, request, report)
        if outcome is None:
            return
        del engine.hosts.tasks[hostname]
        if isinstance(outcome, StateOutcome):
            said = f"its probe, of protocol {report.version}, says that it is back"
            engine.note("mgr", request.domain_id, said)
        if isinstance(request, ReleaseRequest) and isinstance(outcome, StateOutcome):
            settle(engine, engine.unrestored.released(hostname, request, outcome))
        if pending.owner:
            engine.feed(pending.owner, Answered(pending.task.task_id, outcome))

    def _outcome(
        self, hostname: str, request: Union[ReleaseRequest, RollbackRequest], report: across.Report
    ) -> Union[StateOutcome, FailureOutcome, None]:
        """What became of a request; None where that is not known yet."""
        key = key_of(request) or ""
        known = self._engine.hosts.agents.get(hostname)
        same = known is not None and known.probe_id == report.probe_id
        lease, absent = isinstance(request, ReleaseRequest), not report.may_hold(key)
        if key in report.restored or (lease and same and absent):
            if request.prior.known:
                return StateOutcome.of_prior(request.prior, changed=True)
            why = "what was there before is not known here"
        elif absent:
            why = "its journal has no entry of it"
        else:
            why = dict(report.failed).get(key, "")
            if not why:
                return None
        return FailureOutcome(
            f"the probe is of protocol {report.version}, this module of {PROTOCOL_VERSION}: {why}",
            "update the older of the two, then try again", restored=False,
        )
