"""The use cases behind `ceph wcache ...` that change something or cost something.

Each takes plain arguments, returns plain data (what `--format json` prints), and raises
a WcacheError with one clear line.  What only looks is in `views.py`.
"""

from __future__ import annotations

import random
import re
from typing import Any, Dict, Iterable, List, Optional, Tuple, Type, TypeVar

from .core import codec
from .core.actions import AgentSilent, Event, Halt, LeaseLost, TaskAnswered
from .core.agents import Agent
from .core.campaign import (
    Campaign,
    CampaignOptions,
    candidates,
    forecast,
    parse_loads,
    parse_scope,
    select,
)
from .core.campaign_runs import make_runs
from .core.errors import (
    ConflictError,
    MalformedError,
    NotFoundError,
    NotReadyError,
    RefusedError,
    VersionError,
)
from .core.model import HostReport
from .core.plan import make_changes
from .core.protocol import (
    POST_BYTES_MAX,
    PROTOCOL_VERSION,
    Hello,
    PollReply,
    Post,
    ReportOutcome,
)
from .core.rollout import Rollout, RolloutStatus
from .core.run import RunMachine, RunSpec, RunState, RunStatus
from .engine import Engine
from .mclock_service import MclockService

HELLO_BYTES_MAX = 4096
T = TypeVar("T")
_NUMBERED = re.compile(r"[cp][0-9]{1,12}(\.[0-9]+)?").fullmatch


class Service:
    """Use cases over the engine; thread-safe by the engine's lock."""

    def __init__(self, engine: Engine, mclock: MclockService) -> None:
        self._engine = engine
        self.mclock = mclock

    # ---- probes

    def poll(self, hostname: str, text: str) -> PollReply:
        """`wcache agent poll`: who asks, and what it should do next."""
        hello = _message(Hello, text, bytes_max=HELLO_BYTES_MAX, what="hello")
        with self._engine.lock:
            self._hear(hostname, hello)
            return self._reply(hostname)

    def post(self, hostname: str, text: str) -> PollReply:
        """`wcache agent post`: take an outcome once; a repeated one changes nothing."""
        post = _message(Post, text, bytes_max=POST_BYTES_MAX, what="post")
        if post.hostname != hostname:
            raise RefusedError(f"a post for {post.hostname[:60]} came under the name {hostname}")
        hello = Hello(
            post.version, post.probe_id, post.instance_id, post.lease_id, post.simulated
        )
        engine = self._engine
        with engine.lock:
            if self._is_old(hostname, post):
                return self._reply(hostname)
            # the outcome first: it may be what ended the lease that `hello` no longer holds
            self._hear(hostname, hello, answers=post.task_id)
            for notice in post.notices:
                if engine.hosts.seen_notice(post.probe_id, notice.notice_id):
                    continue
                what = notice.domain_id or hostname
                engine.note(f"probe {hostname}", what, notice.text)
                if notice.restored:
                    engine.note_restored(hostname, notice.domain_id)
            self._take_outcome(hostname, post)
            return self._reply(hostname)

    def _is_old(self, hostname: str, post: Post) -> bool:
        """Whether a post of this host's probe came before (librados resends after a restart).

        What it says of its lease was true then, so nothing follows from it now.
        """
        engine = self._engine
        agent = engine.hosts.agents.get(hostname)
        if agent is None or agent.probe_id != post.probe_id:
            return False
        seen = engine.hosts.seen_notice
        told = [seen(post.probe_id, n.notice_id, mark=False) for n in post.notices]
        if not all(told):
            return False
        pending = engine.hosts.tasks.get(hostname)
        if post.task_id:
            return pending is None or pending.task.task_id != post.task_id
        return bool(told)

    def _hear(self, hostname: str, hello: Hello, answers: str = "") -> None:
        engine = self._engine
        if hello.simulated and not engine.options().throwaway_cluster:
            raise RefusedError(
                f"the probe on {hostname} simulates its drives",
                "set mgr/wcache/throwaway_cluster true where data is worth nothing",
            )
        before = engine.hosts.agents.hear(hostname, hello, engine.clock())
        if before.instance_id != hello.instance_id or before.probe_id != hello.probe_id:
            engine.hosts.reported_at_s.pop(hostname, None)
            agent = engine.hosts.agents.get(hostname)
            if agent is not None:
                engine.archive.put_agent(agent)
            engine.note(f"probe {hostname}", hostname, f"probe {hello.probe_id} started")
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
        del engine.hosts.tasks[hostname]
        if pending.owner:
            engine.feed(pending.owner, TaskAnswered(post.task_id, post.outcome))

    def _take_report(self, hostname: str, report: HostReport) -> None:
        engine = self._engine
        if report.hostname != hostname:
            raise RefusedError(f"a report of {report.hostname[:60]} came from {hostname}")
        engine.hosts.reported_at_s[hostname] = engine.clock()
        engine.hosts.agents.note_version(hostname, report.probe_version)
        if engine.hosts.reports.get(hostname) != report:
            engine.hosts.reports[hostname] = report
            engine.archive.put_report(report)

    def _reply(self, hostname: str) -> PollReply:
        engine = self._engine
        options = engine.options()
        next_s = options.poll_idle_s
        if engine.busy(hostname):
            next_s = options.poll_busy_s
        elif engine.reserved or any(not m.over for m in engine.runs.values()):
            next_s = min(1.0, options.poll_idle_s)
        return PollReply(
            PROTOCOL_VERSION, next_s, engine.task_for(hostname, engine.clock()),
            engine.lease_of(hostname), engine.frozen, options.throwaway_cluster,
        )

    def forget_host(self, hostname: str) -> Dict[str, Any]:
        """`agent rm`: drop a host that is gone; one that still calls comes back by itself."""
        engine = self._engine
        with engine.lock:
            if engine.hosts.agents.get(hostname) is None and hostname not in engine.hosts.reports:
                raise NotFoundError(
                    f"there is no probe on host {hostname[:60]!r}", "see `ceph wcache agent ls`"
                )
            if engine.lease_of(hostname) is not None:
                raise ConflictError(
                    f"an experiment holds a drive of {hostname}", "stop its campaign first"
                )
            engine.hosts.forget(hostname)
            engine.archive.drop_host(hostname)
            engine.note("admin", hostname, "host forgotten")
        return {"hostname": hostname, "changed": True}

    # ---- campaigns

    def forecast(self, **arguments: Any) -> Dict[str, Any]:
        """`campaign forecast`: what a campaign with these arguments would cost at most."""
        with self._engine.lock:
            runs, skipped, _ = self._prepare("c0", 0, arguments)
            cost = forecast(runs, self._engine.view.cluster(), skipped)
        return {"forecast": codec.to_plain(cost)}

    def _prepare(
        self, campaign_id: str, seed: int, arguments: Dict[str, Any]
    ) -> Tuple[Tuple[RunSpec, ...], Tuple[str, ...], CampaignOptions]:
        engine, options = self._engine, self._engine.options()
        chosen = CampaignOptions(
            scope=parse_scope(arguments.get("scope") or "cluster").text,
            loads=parse_loads(arguments.get("loads") or "traffic,depth1,batch"),
            pairs_max=_bounded(arguments.get("pairs"), options.pairs_max, 4, 80, "pairs"),
            drives_per_model=_bounded(
                arguments.get("drives_per_model"), options.drives_per_model, 1, 1000,
                "drives_per_model",
            ),
            settle_s=options.settle_s,
            period_s=options.period_s,
            latency_limit_ms=options.latency_limit_ms,
            seconds_max=options.experiment_seconds_max,
            bytes_max=options.experiment_bytes_max,
            consent_turn_on=bool(arguments.get("consent_turn_on")),
            forced=bool(arguments.get("force")),
        )
        cluster = engine.view.cluster()
        if not engine.hosts.reports:
            raise NotReadyError("no probe has reported yet", "start wcache-probe on the OSD hosts")
        found = candidates(engine.hosts.reports.values(), cluster, parse_scope(chosen.scope))
        selection = select(
            found, cluster, chosen, throwaway=options.throwaway_cluster
        )
        runs = make_runs(
            campaign_id, selection, cluster, chosen, seed=seed,
            throwaway=options.throwaway_cluster,
        )
        if not runs:
            raise NotFoundError(
                "none of these loads touches a drive in the scope", "add `timer` or `4m`"
            )
        return runs, selection.skipped, chosen

    def start(self, **arguments: Any) -> Dict[str, Any]:
        """`campaign start`: store the campaign; its runs begin as hosts become free."""
        engine = self._engine
        with engine.lock:
            self._require_thawed()
            self._require_unreserved()
            open_ids = sorted({m.spec.campaign_id for m in engine.runs.values() if not m.over})
            if open_ids:
                raise ConflictError(
                    f"campaign {open_ids[0]} is not over yet",
                    f"wait for it, or `ceph wcache campaign stop {open_ids[0]}`",
                )
            # what cannot be read keeps its number, or its leftovers would become ours
            stored = [*engine.archive.names("campaign"), *engine.archive.names("run")]
            campaign_id = f"c{_next_number([*engine.campaigns, *stored])}"
            seed = _seed(arguments.get("seed"))
            runs, skipped, chosen = self._prepare(campaign_id, seed, arguments)
            cluster = engine.view.cluster()
            real = [run for run in runs if not run.simulated]
            if real and cluster.blocking and not chosen.forced:
                words = ", ".join(item.value for item in cluster.blocking)
                raise RefusedError(
                    f"this does not hold: {words}",
                    "wait until it does, or use --force (the records are then never pooled)",
                )
            cost = forecast(runs, cluster, skipped)
            if cost.bytes_written and real and not arguments.get("accept_cost"):
                raise RefusedError(
                    f"this writes up to {cost.bytes_written} bytes in {cost.bench_calls} bench "
                    f"calls" + _emptied(cost.osds_emptied),
                    "say --accept-cost, or measure with --loads traffic,timer only",
                )
            campaign = Campaign(
                campaign_id, chosen, engine.clock(), seed, tuple(run.run_id for run in runs),
                skipped,
            )
            states = [RunState(run, RunStatus.WAITING) for run in runs]
            for state in states:
                engine.archive.put_run(state)
            # the header comes last: runs without one are not begun after a restart
            engine.archive.put_campaign(campaign)
            engine.campaigns[campaign_id] = campaign
            for state in states:
                periods: List[Any] = [{} for _ in state.spec.experiments]
                engine.runs[state.spec.run_id] = RunMachine(state, periods, engine.epoch)
            text = f"campaign started, scope {chosen.scope}, seed {seed}"
            engine.note("admin", campaign_id, text)
            engine.prune()
        engine.wake()
        return {"campaign_id": campaign_id, "forecast": codec.to_plain(cost)}

    def stop(self, campaign_id: str, reason: str = "stopped by an admin") -> Dict[str, Any]:
        """`campaign stop`: end every run, restoring the prior states."""
        engine = self._engine
        with engine.lock:
            if campaign_id not in engine.campaigns:
                raise NotFoundError(
                    f"there is no campaign {campaign_id[:40]!r}", "see `ceph wcache campaign ls`"
                )
            stopping = [
                run_id
                for run_id, machine in engine.runs.items()
                if machine.spec.campaign_id == campaign_id and not machine.over
            ]
            if stopping:
                engine.note("admin", campaign_id, reason)
            for run_id in stopping:
                engine.feed(run_id, Halt(reason))
        return {"campaign_id": campaign_id, "changed": bool(stopping), "stopping": stopping}

    def freeze(self, thaw: bool = False) -> Dict[str, Any]:
        """`freeze`: nothing is toggled any more, what is under way is restored."""
        engine = self._engine
        with engine.lock:
            changed = engine.frozen == thaw
            engine.frozen = not thaw
            if changed:
                engine.note("admin", "cluster", "thawed" if thaw else "frozen")
            if not thaw:
                for owner, machine in [*engine.runs.items()]:
                    if not machine.over:
                        engine.feed(owner, Halt("frozen by an admin"))
                for owner, rollout in [*engine.rollouts.items()]:
                    if not rollout.over:
                        engine.feed(owner, Halt("frozen by an admin"))
            if changed:  # last: a store that fails must not keep anything from being stopped
                engine.archive.set_frozen(not thaw)
        return {"frozen": engine.frozen, "changed": changed}

    # ---- plans

    def plan(
        self,
        device_class: Optional[str] = None,
        consent_turn_on: bool = False,
        persist: bool = False,
    ) -> Dict[str, Any]:
        """`plan`: ordered changes that make the recommendations true; nothing is changed."""
        engine, options = self._engine, self._engine.options()
        with engine.lock:
            cluster = engine.view.cluster()
            if device_class and device_class not in {
                *(osd.device_class for osd in cluster.osds.values()),
                *(result.device_class for result in engine.analyses.results.values()),
            }:
                raise NotFoundError(f"there is no device class {device_class[:40]!r}")
            recommendations = engine.recommendations()
            stored = engine.archive.names("rollout")
            plan_id = f"p{_next_number([*engine.rollouts, *stored])}"
            changes, left = make_changes(
                recommendations, engine.hosts.reports.values(), cluster, plan_id=plan_id,
                device_class=device_class, throwaway=options.throwaway_cluster,
                consent_turn_on=consent_turn_on,
            )
            if not changes:
                return {"plan_id": "", "changes": [], "left_alone": list(left)}
            rollout = Rollout(
                plan_id, engine.clock(), changes, consent_turn_on=consent_turn_on,
                consent_persist=persist, throwaway=options.throwaway_cluster,
                settle_s=max(options.settle_s, 1.0), canary_wait_s=options.canary_wait_s,
                latency_limit_ms=options.latency_limit_ms, period_s=2 * options.period_s,
            )
            engine.add_rollout(rollout)
            engine.note("admin", plan_id, f"planned {len(changes)} change(s)")
            return {"plan_id": plan_id, "changes": codec.to_plain(changes),
                    "left_alone": list(left),
                    "stale_keys": self.mclock.facts.stale_keys_of(changes)}

    def apply(self, plan_id: str) -> Dict[str, Any]:
        """`apply`: carry out a plan in the background, proving each change."""
        engine = self._engine
        with engine.lock:
            self._require_thawed()
            machine = engine.rollouts.get(plan_id)
            if machine is None:
                raise NotFoundError(
                    f"there is no plan {plan_id[:40]!r}", "make one with `ceph wcache plan`"
                )
            status = machine.rollout.status
            if status is not RolloutStatus.PLANNED:
                return {"plan_id": plan_id, "changed": False, "status": status.value}
            self._require_idle()
            if machine.rollout.throwaway and not engine.options().throwaway_cluster:
                raise RefusedError(
                    f"plan {plan_id} was made while this was a throwaway cluster",
                    "make a new plan with `ceph wcache plan`",
                )
            engine.note("admin", plan_id, "apply")
            engine.begin(plan_id)
        engine.wake()
        return {"plan_id": plan_id, "changed": True, "status": machine.rollout.status.value}

    def rollback(self, plan_id: Optional[str] = None) -> Dict[str, Any]:
        """`rollback`: bring back what was there before a plan (default: the last one applied)."""
        engine = self._engine
        with engine.lock:
            self._require_thawed()
            if plan_id is None:
                done = [p for p, m in engine.rollouts.items() if m.rollout.touched]
                if not done:
                    raise NotFoundError("nothing is applied", "see `ceph wcache history`")
                plan_id = max(done, key=plan_order)
            machine = engine.rollouts.get(plan_id)
            if machine is None:
                raise NotFoundError(f"there is no plan {plan_id[:40]!r}")
            if machine.rollout.status is RolloutStatus.ROLLING_BACK:
                return {"plan_id": plan_id, "changed": False, "status": "rolling back"}
            if not machine.rollout.touched:
                return {
                    "plan_id": plan_id, "changed": False, "status": machine.rollout.status.value
                }
            self._require_idle()
            self._require_latest(machine.rollout)
            engine.note("admin", plan_id, "rollback")
            engine.execute(plan_id, machine.start_rollback("rolled back by an admin"))
        engine.wake()
        return {"plan_id": plan_id, "changed": True, "status": machine.rollout.status.value}

    # ---- guards

    def _require_latest(self, rollout: Rollout) -> None:
        """A later plan on the same drive keeps the state that this one left: it goes first."""
        mine = {(change.hostname, change.domain_id) for change in rollout.touched}
        for plan_id, machine in self._engine.rollouts.items():
            later = plan_order(plan_id) > plan_order(rollout.plan_id)
            theirs = {(change.hostname, change.domain_id) for change in machine.rollout.touched}
            if later and mine & theirs:
                raise ConflictError(
                    f"plan {plan_id} changed drives of {rollout.plan_id} after it",
                    f"roll back {plan_id} first",
                )

    def _require_thawed(self) -> None:
        if self._engine.frozen:
            raise RefusedError("the cluster is frozen", "thaw it with `ceph wcache freeze --thaw`")

    def _require_unreserved(self) -> None:
        if self._engine.reserved:
            raise ConflictError(
                f"{self._engine.reserved} is under way", "wait, or `ceph wcache mclock stop`"
            )

    def _require_idle(self) -> None:
        engine = self._engine
        self._require_unreserved()
        for machine in engine.runs.values():
            if not machine.over:
                raise ConflictError(
                    f"campaign {machine.spec.campaign_id} is under way", "wait for it, or stop it"
                )
        for plan_id, rollout in engine.rollouts.items():
            if not rollout.over:
                raise ConflictError(f"plan {plan_id} is under way", "wait for it")


def _message(cls: Type[T], text: str, *, bytes_max: int, what: str) -> T:
    """A probe's message; one of another version is named as that, whatever its fields are."""
    plain = codec.parse_json(text, bytes_max=bytes_max, what=what)
    version = plain.get("version") if isinstance(plain, dict) else None
    if isinstance(version, int) and version != PROTOCOL_VERSION:
        raise VersionError(
            f"the {what} has protocol version {str(version)[:20]}, this module speaks "
            f"{PROTOCOL_VERSION}",
            "install the probe that belongs to this module",
        )
    return codec.decode(cls, plain, what)


def _next_number(existing: Iterable[str]) -> int:
    numbers = [int(key[1:].partition(".")[0] or "0") for key in existing if _NUMBERED(key)]
    return max(numbers, default=0) + 1


def plan_order(plan_id: str) -> Tuple[int, str]:
    """Sort key: plans are numbered in the order they were made."""
    number = plan_id[1:]
    return (int(number) if number.isdecimal() else 0, plan_id)


def _bounded(value: Any, default: int, low: int, high: int, name: str) -> int:
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise MalformedError(f"{name} must be a whole number from {low} to {high}")
    return int(value)


def _seed(value: Any) -> int:
    if value is None:
        return random.SystemRandom().randrange(2**31)
    return _bounded(value, 0, 0, 2**31 - 1, "seed")


def _emptied(osd_ids: Tuple[int, ...]) -> str:
    if not osd_ids:
        return ""
    shown = ", ".join(f"osd.{osd_id}" for osd_id in osd_ids[:8])
    more = f" and {len(osd_ids) - 8} more" if len(osd_ids) > 8 else ""
    return f", and each call empties the caches of {shown}{more}"
