"""Runs the state machines: hands their actions to the ports and feeds answers back.

One lock guards everything here and in the parts; nothing slow happens under it: that works
elsewhere and puts its answers into queues, which `tick` drains.  A lease is renewed by
progress: probes hear of it only while whole ticks are made.
"""

from __future__ import annotations

import logging
import queue
import threading
from functools import partial
from typing import Callable, Dict, List, Optional, Sequence, Set, Tuple

from ..core import events
from ..core.automation.windows import outside
from ..core.change.rollout import RolloutMachine
from ..core.change.rollout_state import Rollout
from ..core.cluster import ClusterView
from ..core.errors import StorageError
from ..core.experiment.campaign import Campaign
from ..core.experiment.observing.machines import machine_of
from ..core.experiment.run_state import FROZEN_BY_ADMIN, OVER, RunState
from ..core.experiment.slots import Periods
from ..core.fleet.claims import believed
from ..core.fleet.retention import Bounds
from ..core.ports import ConfigDatabase
from ..core.protocol import Lease, MemoryRequest, Task
from ..core.verdict.homes import homes
from ..core.verdict.load_profile import merged
from ..core.verdict.recommend import OsdProfiles, Recommendation, recommend
from ..options import Options
from .accepting import Accepting
from .config_watch import ConfigWatch
from .debts import Debts, Learned
from .evidence.analyses import Analyses, Analysis
from .executor import Executor
from .gate.looking import Stops
from .gate.watching import BlockRunner
from .hosts import Hosts
from .measuring import LoadRunner, Measuring
from .run_queue import CLUSTER_GRACE_S, RunQueue
from .steady_clock import steady_clock
from .storing.archive import Archive
from .storing.audit_log import AuditLog
from .storing.persistence import FROZEN, Machine, StatePersistence
from .storing.store_gate import StoreGate
from .storing.told_changes import ToldChanges
from .watchdog import Watchdog


class Engine:
    """All machines of the module, and what they share."""

    def __init__(
        self,
        *,
        archive: Archive,
        view: ClusterView,
        loads: LoadRunner,
        database: ConfigDatabase,
        analysis: Analysis,
        blocks: BlockRunner,
        stops: Stops,
        options: Callable[[], Options],
        profiles: Callable[[], OsdProfiles] = dict,
        wake: Callable[[], None] = lambda: None,
        clock: Optional[Callable[[], float]] = None,
        log: logging.Logger = logging.getLogger("wcache"),  # noqa: B008  always the same
        bounds: Bounds = Bounds(),  # noqa: B008  frozen
    ) -> None:
        self.lock = threading.RLock()
        self.archive = archive
        self.view = view
        self.options = options
        self._profiles = profiles
        self.log = log
        self.clock = clock or steady_clock()
        self.wake = wake
        self.hosts = Hosts()
        self.debts = Debts(self.hosts)
        self.campaigns: Dict[str, Campaign] = {}
        self._unstored: Set[str] = set()  # ids of campaigns that the mons do not have yet
        self.audit = AuditLog(archive, self.clock, log)
        self._told = ToldChanges(self.audit, lambda: self.hosts.reports, self.clock)
        self.frozen = False
        self.claimed = ""  # what measures OSDs and is no run, in words
        self.epoch = "0"
        self.ticked_at_s = 0.0  # when the last whole tick ended
        self.gate = StoreGate(wake)
        self.persistence = StatePersistence(archive, bounds, self.gate)
        self.accepting = Accepting(archive, self.persistence)
        self.analyses = Analyses(analysis=analysis, archive=archive, lock=self.lock, wake=wake)
        self.measuring = Measuring(loads, self.post_event)
        self.config = ConfigWatch(
            database=database, clock=self.clock, post_event=self.post_event,
            note=lambda owner, text: self.note("mgr", owner, text),
        )
        self._queue = RunQueue(agents=self.hosts.agents, view=view, options=options)
        self._watchdog = Watchdog(hosts=self.hosts, view=view, options=options)
        self._executor = Executor(
            archive=archive, hosts=self.hosts, persistence=self.persistence, gate=self.gate,
            analyses=self.analyses, measuring=self.measuring, config=self.config,
            watchdog=self._watchdog, view=view, clock=self.clock, note=self.note, log=log,
            told=self._told, post_event=self.post_event, epoch=lambda: self.epoch,
            blocks=blocks, stops=stops, reserved=lambda: self.reserved,
            outside_windows=lambda: outside(options().auto_windows, self.clock()),
            frozen=lambda: self.frozen, recommendations=self.recommendations,
        )
        self.looking = self._executor.looking
        self.runs = self._executor.runs
        self.rollouts = self._executor.rollouts
        self.broken = self._executor.broken
        self._events: queue.Queue[Tuple[str, events.Event]] = queue.Queue()

    # ---- start

    def load(self) -> None:
        """Take up the stored state and go on where the last mgr stopped.

        Raises a WcacheError where it cannot be read; then nothing has begun, and it can be
        called again.
        """
        with self.lock:
            self.runs.clear()
            self.rollouts.clear()
            self.archive.check_version()
            now_s = self.clock()
            self._watchdog.trusted_from_s = self._queue.trusted_from_s = now_s + CLUSTER_GRACE_S
            self.epoch = format(int(now_s * 1000), "x")
            self.frozen = self.archive.frozen
            self.audit.load()
            self.hosts.load(self.archive, now_s)
            self.analyses.load()
            self.campaigns = self.archive.campaigns()
            for plan_id, rollout in self.archive.rollouts().items():
                self.rollouts[plan_id] = RolloutMachine(rollout, self.epoch)
            self._told.load(self.rollouts)
            for run_id, state in self.archive.runs().items():
                if state.spec.campaign_id not in self.campaigns:
                    continue  # its campaign was never wholly stored, or cannot be read
                over = state.status in OVER
                count = len(state.spec.experiments)
                periods = (
                    [{} for _ in range(count)] if over else self.archive.periods(run_id, count)
                )
                self.runs[run_id] = machine_of(state, periods, self.epoch)
            for owner in self.accepting.load(self.runs, self.rollouts):
                self.execute(owner, [events.SaveRun()])
            resumed = [run_id for run_id, run in self.runs.items() if run.under_way]
            resumed += [plan_id for plan_id, plan in self.rollouts.items() if plan.moving]
            for owner in resumed:
                self.note("mgr", owner, "resumed after a restart of the mgr")
                if self.frozen:
                    self.feed(owner, events.Halt(FROZEN_BY_ADMIN))
                self.feed(owner, events.Begin())
            self.persistence.records.recover({run_id: m.state for run_id, m in self.runs.items()})
            self.analyses.catch_up()
            self.prune()
            self.ticked_at_s = self.clock()

    # ---- the world's events

    def tick(self) -> Optional[float]:
        """Do what is due; returns the seconds until something is due again, or None."""
        with self.lock:
            self.hear_store()
            while True:
                try:
                    owner, event = self._events.get_nowait()
                except queue.Empty:
                    break
                self.feed(owner, event)
            now_s = self.clock()
            for owner in [*self.runs, *self.rollouts]:
                self._executor.guarded(owner, partial(self._turn, owner, now_s))
            self._start_waiting(now_s)
            for run_id, told in self._watchdog.unfit(self.runs.items(), now_s):
                self.feed(run_id, told)
            self._executor.end_overdue(self.options().lease_ttl_s)
            self.analyses.tick(now_s)
            self.persistence.retry(now_s, self._save, self.analyses)
            if self.persistence.prune_due:
                self.prune()
            self.ticked_at_s = self.clock()
            self.log.debug("tick: %.3f s", self.ticked_at_s - now_s)
            return self._next_wake_s(now_s)

    def _turn(self, owner: str, now_s: float) -> None:
        """Tell a run or a rollout what time alone brings."""
        machine: Machine = self.runs.get(owner) or self.rollouts[owner]
        for event in self._watchdog.due(owner, machine, now_s):
            self.feed(owner, event)

    def _start_waiting(self, now_s: float) -> None:
        if self.frozen or any(not m.over for m in self.rollouts.values()):
            return
        if self.archive.trouble():
            return
        runs = self.runs
        if self._unstored:
            runs = {i: m for i, m in runs.items() if m.spec.campaign_id not in self._unstored}
        going_on = {owner for owner, _ in self.measuring.going_on()}
        due = self._queue.due(runs, now_s, going_on)
        for run_id, event in self.debts.begin(due, self.runs, self.rollouts, self.view):
            if isinstance(event, events.Begin):
                spec = self.runs[run_id].spec
                self.note("mgr", run_id, f"started on {spec.hostname} {spec.domain_id}")
            self.feed(run_id, event)

    def prune(self) -> None:
        """Forget what is beyond the bounds."""
        with self.lock:
            self.persistence.prune(self.campaigns, self.runs, self.analyses.results, self.rollouts)

    def _next_wake_s(self, now_s: float) -> Optional[float]:
        machines: List[Machine] = [*self.runs.values(), *self.rollouts.values()]
        due = [m.wake_at_s for m in machines if m.wake_at_s is not None]
        return max(0.001, min(due) - now_s) if due else None

    def feed(self, owner: str, event: events.Event) -> None:
        """Give an event to a run or rollout and execute what it wants."""
        with self.lock:
            self._executor.feed(owner, event)

    def execute(self, owner: str, actions: List[events.Action]) -> None:
        """Carry out what a run or rollout wants, in order."""
        self._executor.execute(owner, actions)

    def hear_store(self) -> None:
        """Go on where the mons have answered since."""
        self._executor.hear_store()

    def _save(self, owner: str) -> None:
        if owner == FROZEN:
            self.persistence.save_frozen(self.frozen)
        else:
            self._executor.save(owner)

    def machine(self, owner: str) -> Optional[Machine]:
        """The run or rollout of that id."""
        return self._executor.machine(owner)

    @property
    def reserved(self) -> str:
        """What measures OSDs beside the runs, in words: no drive is toggled meanwhile."""
        return self.claimed or self.measuring.last_call

    @property
    def active(self) -> bool:
        """Whether something is under way, so that time matters."""
        moving = any(m.moving for m in self.rollouts.values())
        return bool(self.reserved) or moving or any(not m.over for m in self.runs.values())

    def begin(self, owner: str) -> None:
        """Start a run or a rollout."""
        self.feed(owner, events.Begin())

    def post_event(self, owner: str, event: events.Event) -> None:
        """Queue an event from another thread; `tick` feeds it."""
        self._events.put((owner, event))
        self.wake()

    def cancel_loads(self) -> None:
        """Stop every measurement that is under way: the mgr stops."""
        with self.lock:
            self.measuring.cancel_all()
            self._executor.watching.cancel_all()

    # ---- what probes hear

    @property
    def unticked_s(self) -> float:
        """Seconds since the last whole tick."""
        return self.clock() - self.ticked_at_s

    @property
    def stuck(self) -> bool:
        """Whether no whole tick was made for as long as a lease lasts."""
        return self.unticked_s > self.options().lease_ttl_s

    def lease_of(self, hostname: str) -> Optional[Lease]:
        """The lease that a run holds on a host."""
        for machine in self.runs.values():
            if machine.holds_lease and machine.spec.hostname == hostname:
                spec = machine.spec
                other = spec.domain_ids[1] if len(spec.domain_ids) > 1 else ""
                return Lease(spec.lease_id, spec.domain_id, self.options().lease_ttl_s, other)
        return None

    def renewed_lease(self, hostname: str) -> Optional[Lease]:
        """The lease that a host may go on with: none from an engine that is stuck."""
        return None if self.stuck else self.lease_of(hostname)

    def task_for(self, hostname: str, now_s: float) -> Optional[Task]:
        """The task a host should do next: its machine's, else a look around when due."""
        pending = self.hosts.tasks.get(hostname)
        if pending is not None:
            return None if pending.owner and self.stuck else pending.task
        owed = self._restore_owed(hostname, now_s)
        if owed is not None:
            return owed
        if self.hosts.memory_due(hostname, now_s):
            return self.hosts.give(hostname, self.epoch, MemoryRequest())
        if not self.hosts.look_due(hostname, now_s) or self.lease_of(hostname) is not None:
            return None
        return self.hosts.look_around(hostname, self.epoch, self.analyses.accepted.all())

    def _restore_owed(self, hostname: str, now_s: float) -> Optional[Task]:
        """What only the mgr knows how to restore, where the host has nothing else to do."""
        if self.lease_of(hostname) is not None or self.busy(hostname):
            return None
        request = self.accepting.request(hostname, now_s)
        request = request or self.debts.restore(self.runs, hostname, now_s)
        return None if request is None else self.hosts.ask(hostname, self.epoch, request)

    def busy(self, hostname: str) -> bool:
        """Whether a host should poll fast."""
        runs = (m.spec.hostname for m in self.runs.values() if m.under_way)
        now = (m.current for m in self.rollouts.values() if m.moving)
        return hostname in runs or any(c is not None and c.hostname == hostname for c in now)

    def settle(self, learned: Sequence[Learned]) -> None:
        """Store what became known of the prior states that runs owe."""
        for run_id, said in learned:
            if said:
                self.note("mgr", run_id, said)
            self.execute(run_id, [events.SaveRun()])

    # ---- the audit log

    def note(self, who: str, what: str, text: str, severity: Optional[str] = None) -> None:
        """Add a line to the audit log and to the mgr's; that of a run names its drive."""
        with self.lock:
            about = self._told.about(who, what, self.runs.get(what))
            self.audit.note(who, what, text, severity, about)

    # ---- campaigns and plans

    def add_campaign(self, campaign: Campaign, states: Sequence[RunState]) -> None:
        """Store a campaign; its runs begin once the mons have all of it."""
        campaign_id = campaign.campaign_id
        self.campaigns[campaign_id] = campaign
        for state in states:
            periods: List[Periods] = [{} for _ in state.spec.experiments]
            self.runs[state.spec.run_id] = machine_of(state, periods, self.epoch)
        self._unstored.add(campaign_id)

        def stored() -> None:
            self._unstored.discard(campaign_id)
            self.persistence.stored()

        def failed(error: StorageError) -> None:
            self._unstored.discard(campaign_id)
            self.campaigns.pop(campaign_id, None)
            for number, state in enumerate(states):
                self.runs.pop(state.spec.run_id, None)
                if number:  # the first keeps the campaign's number from being used again
                    self.archive.drop_run(state.spec.run_id)
            self.archive.drop_campaign(campaign_id)
            self.note("mgr", campaign_id, f"not started: {error.message}", "warning")

        self.archive.put_campaign(
            campaign, states, self.gate.expect(campaign_id, stored, failed)
        )
        self.hear_store()

    def recommendations(self) -> Tuple[Recommendation, ...]:
        """What should be, from all results and the loads that are known.

        A big cluster takes time for it, so the lock is not held meanwhile: whoever can asks
        without it.
        """
        by_osd = self._profiles()
        profiles = {key: merged(tuple(each.values())) for key, each in by_osd.items()}
        cluster, throwaway = self.view.cluster(), self.options().throwaway_cluster
        with self.lock:
            told = tuple(self.hosts.reports.values())
            results, pools = self.analyses.believed(), self.analyses.pools()
            accepted = self.analyses.accepted.all()
        reports = believed(told, cluster)
        at_home = homes(reports, cluster, throwaway=throwaway)
        return recommend(results, profiles, pools, at_home, by_osd, reports, accepted)

    def add_rollout(self, rollout: Rollout) -> RolloutMachine:
        """Store a new plan and return its machine, not started."""
        machine = RolloutMachine(rollout, self.epoch)
        self.rollouts[rollout.plan_id] = machine
        self.persistence.save(rollout.plan_id, machine)
        self.hear_store()
        self.prune()
        return machine
