"""Runs the state machines: hands their actions to the ports and feeds answers back.

One lock guards everything here and in the parts; nothing slow happens under it: that works
elsewhere and puts its answers into queues, which `tick` drains.  A lease is renewed by
progress: probes hear of it only while whole ticks are made.
"""

from __future__ import annotations

import logging
import queue
import threading
from contextlib import contextmanager
from functools import partial
from typing import Callable, Dict, FrozenSet, Iterator, List, Optional, Set, Tuple

from ..core import events
from ..core.automation.windows import outside
from ..core.change.rollout import RolloutMachine
from ..core.cluster import ClusterState, ClusterView, OsdLatency, OsdNow
from ..core.experiment.campaign import Campaign
from ..core.experiment.observing.machines import machine_of
from ..core.experiment.run_state import FROZEN_BY_ADMIN, OVER, RunStatus
from ..core.fleet.ages import Age
from ..core.fleet.claims import osds_now
from ..core.fleet.retention import Bounds
from ..core.history.entry import HistoryEntry
from ..core.jobs import Job
from ..core.ports import ConfigDatabase
from ..core.record import Record
from ..core.verdict.recommend import OsdProfiles, Recommendation
from ..core.verdict.result import Result
from ..options import Options
from .accepting import Accepting
from .config_watch import ConfigWatch
from .evidence.analyses import Analyses, Analysis
from .executor import Executor
from .gate.looking import Stops
from .gate.watching import BlockRunner
from .hosts import Hosts
from .measuring import LoadRunner, Measuring, OsdQuestions, TrialKind
from .persistence import FROZEN, Machine, StatePersistence
from .run_queue import CLUSTER_GRACE_S, RunQueue
from .steady_clock import steady_clock
from .storing.archive import Archive
from .storing.audit_log import AuditLog
from .storing.change_history import ChangeHistory
from .storing.store_gate import StoreGate
from .under_way import begun_runs, held, moving_plans, open_plans, open_runs, open_trials
from .unrestored import Unrestored
from .watchdog import Watchdog
from .world import World


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
        self._options = options
        self._profiles = profiles
        self.log = log
        self._clock = clock or steady_clock()
        self._wake = wake
        self.hosts = Hosts()
        self.unrestored = Unrestored(self.hosts)
        self.campaigns: Dict[str, Campaign] = {}
        self.unstored: Set[str] = set()  # ids of campaigns that the mons do not have yet
        self.audit = AuditLog(archive, self.clock, log)
        self._told = ChangeHistory(self.audit, lambda: self.hosts.reports, self.clock)
        self.frozen = False
        self.epoch = "0"
        self.ticked_at_s = 0.0  # when the last whole tick ended
        self.gate = StoreGate(wake)
        self.persistence = StatePersistence(archive, bounds, self.gate)
        self.accepting = Accepting(archive, self.persistence)
        self.analyses = Analyses(analysis=analysis, archive=archive, lock=self.lock, wake=wake)
        self.measuring = Measuring(loads, self.post_event)
        self._questions = OsdQuestions(self.post_event)
        self.config = ConfigWatch(
            database=database, clock=self.clock, post_event=self.post_event,
            note=lambda owner, text: self.note("mgr", owner, text),
        )
        self._queue = RunQueue(agents=self.hosts.agents, view=view, options=options)
        self._watchdog = Watchdog(hosts=self.hosts, view=view, options=options)
        self._executor = Executor(
            archive=archive, hosts=self.hosts, persistence=self.persistence, gate=self.gate,
            analyses=self.analyses, measuring=self.measuring, questions=self._questions,
            config=self.config, watchdog=self._watchdog, view=view, clock=self.clock,
            note=self.note, log=log, told=self._told, post_event=self.post_event,
            blocks=blocks, stops=stops, reserved=lambda: self.reserved,
            outside_windows=lambda: outside(options().auto_windows, self.clock()),
            frozen=lambda: self.frozen, recommendations=self.recommendations,
        )
        self.looking = self._executor.looking
        self.runs = self._executor.runs
        self.rollouts = self._executor.rollouts
        self.trials = self._executor.trials
        self.broken = self._executor.broken
        self._events: queue.Queue[Tuple[str, events.Event]] = queue.Queue()

    def clock(self) -> float:
        """Seconds, of a clock that nobody sets."""
        return self._clock()

    def options(self) -> Options:
        """The module's options as they are now."""
        return self._options()

    # ---- start

    def start(self) -> None:
        """Begin to read the config database."""
        self.config.start()

    def close(self) -> None:
        """Read it no more."""
        self.config.close()

    def carry_out(self, knob: str, kind: TrialKind) -> None:
        """Carry out what a knob tries by itself; before anything is loaded."""
        self._questions.kinds[knob] = kind

    def load(self) -> None:
        """Take up the stored state and go on where the last mgr stopped.

        Raises a WcacheError where it cannot be read; then nothing has begun, and it can be
        called again.
        """
        with self.lock:
            self.runs.clear()
            self.rollouts.clear()
            self.trials.clear()
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
            for kind in self._questions.kinds.values():
                stored = self.archive.load_one(kind.stored, kind.key)
                if stored is not None:
                    trial = kind.machine_of(stored, self.epoch)
                    self.trials[trial.job_id] = trial
            for owner in self.accepting.load(self.runs, self.rollouts):
                self.execute(owner, [events.SaveRun()])
            for owner in [*begun_runs(self.runs), *moving_plans(self.rollouts)]:
                self.note("mgr", owner, "resumed after a restart of the mgr")
                if self.frozen:
                    self.feed(owner, events.Halt(FROZEN_BY_ADMIN))
                self.feed(owner, events.Begin())
            for owner in open_trials(self.trials):
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
            for owner in [*self.runs, *self.rollouts, *self.trials]:
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
        """Tell a machine what time alone brings."""
        machine: Job = self.runs.get(owner) or self.rollouts.get(owner) or self.trials[owner]
        for event in self._watchdog.due(owner, machine, now_s):
            self.feed(owner, event)

    def _start_waiting(self, now_s: float) -> None:
        if self.frozen or open_plans(self.rollouts):
            return
        if self.archive.trouble():
            return
        runs = self.runs
        if self.unstored:
            runs = {i: m for i, m in runs.items() if m.spec.campaign_id not in self.unstored}
        going_on = {owner for owner, _ in self.measuring.going_on()}
        due = self._queue.due(runs, now_s, going_on)
        for run_id, event in self.unrestored.begin(due, self.runs, self.rollouts, self.view):
            if isinstance(event, events.Begin):
                spec = self.runs[run_id].spec
                self.note("mgr", run_id, f"started on {spec.hostname} {spec.domain_id}")
            self.feed(run_id, event)

    def prune(self) -> None:
        """Forget what is beyond the bounds."""
        with self.lock:
            self.persistence.prune(
                self.campaigns, self.runs, self.analyses.results, self.rollouts,
                self.analyses.option_results,
            )

    def _next_wake_s(self, now_s: float) -> Optional[float]:
        machines: List[Job] = [
            *self.runs.values(), *self.rollouts.values(), *self.trials.values()
        ]
        due = [m.wake_at_s for m in machines if m.wake_at_s is not None]
        return max(0.001, min(due) - now_s) if due else None

    def feed(self, owner: str, event: events.Event) -> None:
        """Give an event to a machine and execute what it wants."""
        with self.lock:
            self._executor.feed(owner, event)

    def execute(self, owner: str, actions: List[events.Action]) -> None:
        """Carry out what a machine wants, in order."""
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
        """The run, rollout or trial of that id."""
        return self._executor.machine(owner)

    @property
    def reserved(self) -> str:
        """What measures OSDs beside the runs, in words: no drive is toggled meanwhile."""
        return next(iter(held(self.trials)), self.measuring.last_call)

    def is_active(self) -> bool:
        """Whether something is under way, so that time matters."""
        with self.lock:
            return bool(self.reserved or moving_plans(self.rollouts) or open_runs(self.runs))

    def is_stored(self, owner: str) -> bool:
        """Whether the mons have a value, or where a machine stands."""
        with self.lock:
            self.hear_store()
            return self.persistence.is_stored(owner)

    def refresh(self) -> Age:
        """How old the reports are; hosts whose reports are old are looked at again."""
        with self.lock:
            return self.hosts.refresh(self.clock())

    def ask_anew(self, hostname: str) -> None:
        """A host's last report may not tell of what is there now: it is asked for the next."""
        with self.lock:
            self.hosts.reported_at_s.pop(hostname, None)

    def wake(self) -> None:
        """There is something to do: the next tick comes at once."""
        self._wake()

    def read_config_soon(self) -> None:
        """Somebody looks, so the config database is read again."""
        self.config.read_soon()

    def post_event(self, owner: str, event: events.Event) -> None:
        """Queue an event from another thread; `tick` feeds it."""
        self._events.put((owner, event))
        self.wake()

    def cancel_loads(self) -> None:
        """Stop every measurement that is under way: the mgr stops."""
        with self.lock:
            self.measuring.cancel_all()
            self._questions.cancel_all()
            self._executor.watching.cancel_all()

    @property
    def unticked_s(self) -> float:
        """Seconds since the last whole tick."""
        return self.clock() - self.ticked_at_s

    # ---- the audit log

    def note(self, who: str, what: str, text: str, severity: Optional[str] = None) -> None:
        """Add a line to the audit log and to the mgr's; that of a run names its drive."""
        with self.lock:
            about = self._told.about(who, what, self.runs.get(what))
            self.audit.note(who, what, text, severity, about)

    # ---- what there is

    def recommendations(self) -> Tuple[Recommendation, ...]:
        """What should be, as of now; a big cluster takes time for it."""
        return self.world().recommendations

    def world(self, before: Optional[World] = None) -> World:
        """What there is now; with the maps of an earlier look, and its advice where that stands."""
        if before is not None:
            return self._world(lambda: before.cluster).taking_over(before)
        return self._world(self.view.cluster)

    def _world(self, maps: Callable[[], ClusterState]) -> World:
        with self.lock:
            hosts, analyses, config, now_s = self.hosts, self.analyses, self.config, self.clock()
            return World(
                now_s, maps, self._profiles, self.options(), dict(hosts.reports),
                dict(hosts.reported_at_s), frozenset(hosts.journal_known), dict(hosts.memory),
                *hosts.agents.look(now_s), dict(hosts.deployments),
                {run_id: machine.copied() for run_id, machine in self.runs.items()},
                {plan_id: machine.copied() for plan_id, machine in self.rollouts.items()},
                {job_id: machine.copied() for job_id, machine in self.trials.items()},
                dict(self.campaigns), self._awaited(), dict(analyses.results), analyses.pools(),
                analyses.trust.all(), analyses.accepted.all(), self.accepting.all(),
                dict(analyses.foreign.files), self.frozen, self.reserved, dict(self.broken),
                self.archive.trouble(), self.persistence.error, dict(self.archive.unreadable),
                analyses.error, self.unticked_s, config.config, config.read_at_s, config.error,
                option_results=dict(analyses.option_results),
            )

    @contextmanager
    def deciding(self, before: Optional[World] = None) -> Iterator[World]:
        """The same, and nothing changes until what follows from it is begun."""
        looked = before or self.world()
        _ = looked.cluster  # fetched while no lock is held
        with self.lock:
            yield self.world(looked)

    def results(self) -> List[Result]:
        """The results of all records."""
        with self.lock:
            return list(self.analyses.results.values())

    def osds_now(self) -> Dict[int, OsdNow]:
        """Each OSD, with the drives that are under it now."""
        cluster = self.view.cluster()
        with self.lock:
            return osds_now(self.hosts.reports.values(), cluster)

    def latencies(self) -> Dict[int, OsdLatency]:
        """What OSDs last said of theirs; of a big cluster much."""
        return self.view.latencies()

    def record(self, record_id: str) -> Optional[Record]:
        """A record with its raw samples, where it is still stored."""
        return self.archive.record(record_id)

    def history(self) -> List[HistoryEntry]:
        """The lines of the audit log."""
        with self.lock:
            return self.audit.all()

    def _awaited(self) -> FrozenSet[str]:
        """Campaigns of which a record is still to be stored or analysed.

        What was aborted does not wait for mons that do not answer.
        """
        aborted = {
            machine.spec.campaign_id for machine in self.runs.values()
            if machine.state.status is RunStatus.ABORTED
        }
        unsaved = {record.campaign_id for record in self.persistence.records.unsaved}
        return frozenset((unsaved - aborted) | self.analyses.awaited())
