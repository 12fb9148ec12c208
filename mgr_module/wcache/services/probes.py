"""What a probe's calls do: `wcache agent poll` and `post`.

Everything a probe says is judged here before the engine hears of it; a message that comes
twice changes nothing.
"""

from __future__ import annotations

from typing import Any, Callable, Type, TypeVar

from ..core import codec
from ..core.agents import Agent
from ..core.errors import RefusedError, VersionError, WcacheError
from ..core.events import AgentSilent, Event, LeaseLost, TaskAnswered
from ..core.host_report import HostReport
from ..core.protocol import (
    POST_BYTES_MAX,
    PROTOCOL_VERSION,
    AcceptRequest,
    DrivesOutcome,
    FailureOutcome,
    Hello,
    LookRequest,
    MemoryOutcome,
    Outcome,
    PollReply,
    Post,
    ReleaseRequest,
    ReportOutcome,
    Request,
    StateOutcome,
)
from ..core.simulation import is_real
from ..engine.engine import Engine
from ..engine.hosts import CHANGED_EVERY_S
from .admission import Admission, check_drives

HELLO_BYTES_MAX = 4096
REFUSAL_CHARS_MAX = 300  # in the log of the mgr
VERSION_MAX = 1_000_000
T = TypeVar("T")


class ProbeService:
    """Takes what probes say and tells them what to do next; thread-safe by the engine's lock."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._admission = Admission(engine.options, engine.clock)

    def poll(self, hostname: str, text: str) -> PollReply:
        """`wcache agent poll`: who asks, and what it should do next."""
        return self._logged(hostname, "poll", lambda: self._poll(hostname, text))

    def post(self, hostname: str, text: str) -> PollReply:
        """`wcache agent post`: take an outcome once; a repeated one changes nothing."""
        return self._logged(hostname, "post", lambda: self._post(hostname, text))

    def _logged(self, hostname: str, what: str, call: Callable[[], PollReply]) -> PollReply:
        """The reply; why a call is refused is in the mgr's log, unless there were too many."""
        log = self._engine.log
        log.debug("%s of %s", what, hostname)
        try:
            return call()
        except WcacheError as error:
            with self._engine.lock:
                lines = self._admission.line(hostname)
            if lines:
                said = codec.one_line(error.line(), REFUSAL_CHARS_MAX)
                log.warning("refused a %s of %s: %s", what, hostname, said)
            raise

    def _poll(self, hostname: str, text: str) -> PollReply:
        self._admit(hostname, text)
        hello = self._message(hostname, Hello, text, bytes_max=HELLO_BYTES_MAX, what="hello")
        with self._engine.lock:
            self._hear(hostname, hello)
            return self._reply(hostname)

    def _post(self, hostname: str, text: str) -> PollReply:
        self._admit(hostname, text)
        post = self._message(
            hostname, Post, text, bytes_max=POST_BYTES_MAX, what="post", check=check_drives
        )
        if post.hostname != hostname:
            raise RefusedError(f"{hostname} sent a post in the name of {post.hostname[:60]}")
        hello = Hello(
            post.version, post.probe_id, post.instance_id, post.lease_id, post.simulated,
            post.changed,
        )
        engine = self._engine
        with engine.lock:
            if self._is_old(hostname, post):
                return self._reply(hostname)
            # the outcome first: it may be what ended the lease that `hello` no longer holds
            self._hear(hostname, hello, answers=post.task_id)
            for notice in post.notices:
                if engine.hosts.seen_notice(hostname, post.probe_id, notice.notice_id):
                    continue
                self._note(hostname, notice.domain_id or hostname, notice.text)
                if notice.restored:
                    engine.settle(engine.debts.told(engine.runs, hostname, notice))
            self._take_outcome(hostname, post)
            return self._reply(hostname)

    def _admit(self, hostname: str, text: str) -> None:
        with self._engine.lock:
            self._admission.call(hostname, len(text))

    def _message(
        self, hostname: str, cls: Type[T], text: str, *, bytes_max: int, what: str,
        check: Callable[[Any], None] = lambda plain: None,
    ) -> T:
        """A probe's message; one of another version is named as that, whatever its fields are."""
        plain = codec.parse_json(text, bytes_max=bytes_max, what=what)
        version = plain.get("version") if isinstance(plain, dict) else None
        if isinstance(version, int) and version != PROTOCOL_VERSION:
            version = max(0, min(int(version), VERSION_MAX))
            with self._engine.lock:
                self._engine.hosts.agents.note_other(hostname, version, self._engine.clock())
            raise VersionError(
                f"the {what} has protocol version {version}, this module speaks "
                f"{PROTOCOL_VERSION}",
                "install the probe of this module's version",
            )
        check(plain)
        return codec.decode(cls, plain, what)

    def _note(self, hostname: str, what: str, text: str) -> None:
        """A line of a host's probe in the audit log, unless it has had too many."""
        lines = self._admission.line(hostname)
        if lines:
            more = f" (and {lines - 1} lines before it were too many)" if lines > 1 else ""
            self._engine.note(f"probe {hostname}", what, text + more)

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
        lease = self._engine.lease_of(hostname)
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
            engine.settle(engine.debts.released(engine.runs, hostname, request, post.outcome))
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
        engine.settle(engine.debts.read(engine.runs, report))
        if engine.hosts.reports.get(hostname) != report:
            engine.hosts.reports[hostname] = report
            engine.archive.put_report(report)

    def _reply(self, hostname: str) -> PollReply:
        engine = self._engine
        engine.hear_store()  # what waited for the mons may be this probe's next task
        options = engine.options()
        next_s = options.poll_idle_s
        if engine.busy(hostname):
            next_s = options.poll_busy_s
        elif engine.reserved or any(not m.over for m in engine.runs.values()):
            next_s = min(1.0, options.poll_idle_s)
        elif engine.hosts.look_wanted(hostname):
            next_s = min(CHANGED_EVERY_S, options.poll_idle_s)
        return PollReply(
            PROTOCOL_VERSION, next_s, engine.task_for(hostname, engine.clock()),
            engine.renewed_lease(hostname), engine.frozen, options.throwaway_cluster,
        )
