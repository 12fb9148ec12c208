"""What a probe's call changes, and what the probe hears: its next task and its lease.

Whoever calls has checked the message.
"""

from __future__ import annotations

from typing import Callable, Optional, Sequence

from ..core.agents import Agent
from ..core.errors import RefusedError
from ..core.events import AgentSilent, Event, LeaseLost, SaveRun, TaskAnswered
from ..core.host_report import HostReport
from ..core.protocol import (
    PROTOCOL_VERSION,
    AcceptRequest,
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
    Request,
    StateOutcome,
    Task,
)
from ..core.simulation import is_real
from .engine import Engine
from .hosts import CHANGED_EVERY_S
from .under_way import busy, open_runs
from .unrestored import Learned

Note = Callable[[str, str, str], None]
"""Takes a line of a host's probe for the audit log: the host, what it is about, the text."""


class ProbeCalls:
    """Over the engine: it holds nothing itself."""

    def __init__(self, engine: Engine, note: Note) -> None:
        self._engine = engine
        self._note = note

    def poll(self, hostname: str, hello: Hello) -> PollReply:
        """A probe asks what to do."""
        with self._engine.lock:
            self._hear(hostname, hello)
            return self._reply(hostname)

    def post(self, hostname: str, hello: Hello, post: Post) -> PollReply:
        """A probe tells an outcome; one that is repeated changes nothing."""
        with self._engine.lock:
            self._take(hostname, hello, post)
            return self._reply(hostname)

    def other_version(self, hostname: str, version: int) -> None:
        """A probe of another protocol has called, and was refused."""
        with self._engine.lock:
            self._engine.hosts.agents.note_other(hostname, version, self._engine.clock())

    def _take(self, hostname: str, hello: Hello, post: Post) -> None:
        engine = self._engine
        if self._is_old(hostname, post):
            return
        # the outcome first: it may be what ended the lease that `hello` no longer holds
        self._hear(hostname, hello, answers=post.task_id)
        for notice in post.notices:
            if engine.hosts.seen_notice(hostname, post.probe_id, notice.notice_id):
                continue
            self._note(hostname, notice.domain_id or hostname, notice.text)
            if notice.restored:
                self._settle(engine.unrestored.told(engine.runs, hostname, notice))
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
        if not is_real(hello) and not engine.options().throwaway_cluster:
            raise RefusedError(
                f"the probe on {hostname} simulates its drives",
                "set mgr/wcache/throwaway_cluster to true, in a cluster whose data is worthless",
            )
        if engine.hosts.removed.get(hostname) == hello.instance_id:
            raise RefusedError(
                f"host {hostname} was removed",
                f"stop this probe, or bring it back with `ceph wcache agent add {hostname}`",
            )
        engine.hosts.removed.pop(hostname, None)
        before = engine.hosts.agents.hear(hostname, hello, engine.clock())
        if before.instance_id != hello.instance_id or before.probe_id != hello.probe_id:
            engine.hosts.reported_at_s.pop(hostname, None)
            engine.hosts.journal_known.discard(hostname)
            agent = engine.hosts.agents.get(hostname)
            if agent is not None:
                engine.archive.put_agent(agent)
            self._note(hostname, hostname, f"probe {hello.probe_id} started")
        if hello.changed:
            engine.hosts.want_look(hostname)
        pending = engine.hosts.tasks.get(hostname)
        answered = pending is not None and pending.task.task_id == answers
        if not answered:
            self._notice_lost_lease(hostname, before, hello)

    def _notice_lost_lease(self, hostname: str, before: Agent, hello: Hello) -> None:
        lease = self.lease_of(hostname)
        if lease is None:
            return
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
        if isinstance(request, AcceptRequest) and isinstance(post.outcome, FailureOutcome):
            said = f"what was accepted is not dropped yet: {post.outcome.message}"
            self._note(hostname, request.domain_id, said)
        if isinstance(request, ReleaseRequest) and isinstance(post.outcome, StateOutcome):
            self._settle(engine.unrestored.released(engine.runs, hostname, request, post.outcome))
        if pending.owner:
            outcome = self._checked(hostname, pending.task.request, post.outcome)
            engine.feed(pending.owner, TaskAnswered(post.task_id, outcome))

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
        engine.hosts.reported(hostname, engine.clock())
        engine.hosts.agents.note_version(hostname, report.probe_version)
        engine.accepting.read(report)
        self._settle(engine.unrestored.read(engine.runs, report))
        if engine.hosts.reports.get(hostname) != report:
            engine.hosts.reports[hostname] = report
            engine.archive.put_report(report)

    def _reply(self, hostname: str) -> PollReply:
        """What the probe is told: when to call again, its task, its lease."""
        engine = self._engine
        engine.hear_store()  # what waited for the mons may be this probe's next task
        options = engine.options()
        next_s = options.poll_idle_s
        if busy(hostname, engine.runs, engine.rollouts):
            next_s = options.poll_busy_s
        elif engine.reserved or open_runs(engine.runs):
            next_s = min(1.0, options.poll_idle_s)
        elif engine.hosts.look_wanted(hostname):
            next_s = min(CHANGED_EVERY_S, options.poll_idle_s)
        return PollReply(
            PROTOCOL_VERSION, next_s, self.task_for(hostname, engine.clock()),
            self.renewed_lease(hostname), engine.frozen, options.throwaway_cluster,
        )

    # ---- what it hears

    def lease_of(self, hostname: str) -> Optional[Lease]:
        """The lease that a run holds on a host."""
        for machine in self._engine.runs.values():
            if machine.holds_lease and machine.spec.hostname == hostname:
                spec = machine.spec
                other = spec.domain_ids[1] if len(spec.domain_ids) > 1 else ""
                ttl_s = self._engine.options().lease_ttl_s
                return Lease(spec.lease_id, spec.domain_id, ttl_s, other)
        return None

    def renewed_lease(self, hostname: str) -> Optional[Lease]:
        """The lease that a host may go on with: none from an engine that is stuck."""
        return None if self._stuck() else self.lease_of(hostname)

    def task_for(self, hostname: str, now_s: float) -> Optional[Task]:
        """The task a host should do next: its machine's, else a look around when due."""
        engine, hosts = self._engine, self._engine.hosts
        pending = hosts.tasks.get(hostname)
        if pending is not None:
            return None if pending.owner and self._stuck() else pending.task
        owed = self._restore_owed(hostname, now_s)
        if owed is not None:
            return owed
        if hosts.memory_due(hostname, now_s):
            return hosts.give(hostname, engine.epoch, MemoryRequest())
        if not hosts.look_due(hostname, now_s) or self.lease_of(hostname) is not None:
            return None
        return hosts.look_around(hostname, engine.epoch, engine.analyses.accepted.all())

    def _restore_owed(self, hostname: str, now_s: float) -> Optional[Task]:
        """What only the mgr knows how to restore, where the host has nothing else to do."""
        if self.lease_of(hostname) is not None or busy(
            hostname, self._engine.runs, self._engine.rollouts
        ):
            return None
        engine = self._engine
        request = engine.accepting.request(hostname, now_s)
        request = request or engine.unrestored.restore(engine.runs, hostname, now_s)
        return None if request is None else engine.hosts.ask(hostname, engine.epoch, request)

    def _settle(self, learned: Sequence[Learned]) -> None:
        """Store what became known of the prior states that runs owe."""
        for run_id, said in learned:
            if said:
                self._engine.note("mgr", run_id, said)
            self._engine.execute(run_id, [SaveRun()])

    def _stuck(self) -> bool:
        """Whether no whole tick was made for as long as a lease lasts."""
        return self._engine.unticked_s > self._engine.options().lease_ttl_s
