"""The machines and the parts that do what they want, each by itself: one that fails ends alone.

Whoever calls this holds the engine's lock.  A step that needs what was stored before it is
taken when the mons have that (`store_gate`).  A machine that raises is ended and reported, and
the others go on: its lease is not named any more, so its probe restores.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import (
    Callable,
    Dict,
    FrozenSet,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Set,
    Tuple,
    TypeVar,
)

from ..core import events
from ..core.automation.windows import outside
from ..core.change.rollout import RolloutMachine
from ..core.cluster import ClusterState, ClusterView, OsdNow
from ..core.codec import one_line
from ..core.errors import StorageError
from ..core.experiment.campaign import Campaign
from ..core.experiment.observing.machines import machine_of
from ..core.experiment.run import RunMachine
from ..core.experiment.run_state import OVER, RunStatus
from ..core.experiment.slots import slot_at
from ..core.fleet.claims import believed, osds_now
from ..core.fleet.retention import Bounds
from ..core.jobs import Holding, Job, Touched, Trial
from ..core.ports import ConfigDatabase
from ..core.protocol import RollbackRequest, Task
from ..core.verdict.recommend import OsdProfiles
from ..core.verdict.result import Result
from ..options import Options
from .accepting import Accepting
from .another_drive import StandIns
from .config_watch import ConfigWatch
from .evidence.analyses import Analyses, Analysis
from .gate.looking import Looking, Stops
from .gate.watching import BlockRunner, Watching
from .hosts import Hosts, Pending
from .measuring import LoadRunner, Measuring, OsdQuestions
from .osd_options import OsdOptionTasks, OsdPrograms
from .persistence import FROZEN, Machine, StatePersistence
from .run_queue import CLUSTER_GRACE_S, RunQueue
from .storing.archive import Archive
from .storing.audit_log import AuditLog
from .storing.change_history import ChangeHistory
from .storing.store_gate import StoreGate
from .under_way import (
    at_once,
    begun_jobs,
    domains_taken,
    held,
    in_common,
    open_jobs,
    taken,
    touched_by,
    touched_by_run,
)
from .unrestored import Unrestored
from .watchdog import Watchdog
from .world import World

T = TypeVar("T")
Results = Callable[[], List[Result]]
OsdsNow = Callable[[], Mapping[int, OsdNow]]


@dataclass(frozen=True)
class Ports:
    """What the engine works on."""

    archive: Archive
    view: ClusterView
    loads: LoadRunner
    database: ConfigDatabase
    analysis: Analysis
    blocks: BlockRunner
    stops: Stops
    osd_options: OsdPrograms
    cluster_log: Callable[[str], None]  # a warning in it
    options: Callable[[], Options]
    profiles: Callable[[Results, OsdsNow], OsdProfiles]  # asks for no more than these two
    log: logging.Logger = logging.getLogger("wcache")  # noqa: RUF009  always the same
    bounds: Bounds = Bounds()  # noqa: RUF009  frozen


@dataclass(frozen=True)
class Calls:
    """What answers from other threads call, who do not hold the lock; all but `clock` take it."""

    post_event: Callable[[str, events.Event], None]
    note: Callable[[str, str, str], None]
    world: Callable[[], World]
    wake: Callable[[], None]
    clock: Callable[[], float]


class Executor:
    """All machines of the module, and what they share."""

    def __init__(self, ports: Ports, calls: Calls) -> None:
        archive, view, options = ports.archive, ports.view, ports.options
        clock, post_event = calls.clock, calls.post_event
        self.archive = archive
        self.view = view
        self.options = options
        self.clock = clock
        self.log = ports.log
        self._cluster_log = ports.cluster_log
        self._profiles = ports.profiles
        self.runs: Dict[str, RunMachine] = {}
        self.rollouts: Dict[str, RolloutMachine] = {}
        self.trials: Dict[str, Trial] = {}  # the last one of each knob that has its own
        self.campaigns: Dict[str, Campaign] = {}
        self.unstored: Set[str] = set()  # ids of campaigns that the mons do not have yet
        self.broken: Dict[str, str] = {}  # what machines were ended for, until the mgr restarts
        self.frozen = False
        self.epoch = "0"
        self.ticked_at_s = 0.0  # when the last whole tick ended
        self.hosts = Hosts()
        self.unrestored = Unrestored(self.hosts)
        self.audit = AuditLog(archive, clock, ports.log)
        self._post_event = post_event
        self._told = ChangeHistory(self.audit, lambda: self.hosts.reports, clock)
        self.gate = StoreGate(calls.wake)
        self.persistence = StatePersistence(archive, ports.bounds, self.gate)
        self.accepting = Accepting(archive, self.persistence)
        self.analyses = Analyses(analysis=ports.analysis, archive=archive, wake=calls.wake)
        self.measuring = Measuring(ports.loads, post_event)
        self.questions = OsdQuestions(post_event)
        self.osd_options = OsdOptionTasks(ports.osd_options, view, post_event)
        self.config = ConfigWatch(
            database=ports.database, clock=clock, post_event=post_event,
            note=lambda owner, text: calls.note("mgr", owner, text),
        )
        self._queue = RunQueue(
            agents=self.hosts.agents, view=view, options=options, stops=ports.stops,
            wake=calls.wake,
        )
        self.watchdog = Watchdog(
            hosts=self.hosts, view=view, options=options, may_not_stop=self._queue.may_not_stop,
        )
        self.watching = Watching(ports.blocks, post_event, view)
        self._stand_ins = StandIns(
            archive, self.gate, self.runs, lambda: self.campaigns, self.unstored, self.note,
            ports.log,
        )
        self.looking = Looking(
            stops=ports.stops, view=view, hosts=self.hosts, clock=clock, post_event=post_event,
            reserved=lambda: self.reserved,
            outside_windows=lambda: outside(options().auto_windows, clock()), runs=self.runs,
            rollouts=self.rollouts, frozen=lambda: self.frozen,
            verdicts=lambda: self.world(view.cluster), verdicts_later=calls.world, log=ports.log,
        )

    # ---- start

    def load(self) -> None:
        """Take up the stored state and go on where the last mgr stopped."""
        self.runs.clear()
        self.rollouts.clear()
        self.trials.clear()
        self.archive.check_version()
        now_s = self.clock()
        self.watchdog.trusted_from_s = self._queue.trusted_from_s = now_s + CLUSTER_GRACE_S
        self.epoch = format(int(now_s * 1000), "x")
        self.frozen = self.archive.frozen
        self.audit.load()
        self.hosts.load(self.archive, now_s)
        self.analyses.load()
        self.campaigns = self.archive.campaigns()
        for plan_id, rollout in self.archive.rollouts().items():
            with self._taking_up(f"rollout/{plan_id}"):
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
            with self._taking_up(f"run/{run_id}"):
                self.runs[run_id] = machine_of(state, periods, self.epoch)
        for kind in self.questions.kinds.values():
            stored = self.archive.load_one(kind.stored, kind.key)
            if stored is not None:
                with self._taking_up(kind.key):
                    trial = kind.machine_of(stored, self.epoch)
                    self.trials[trial.job_id] = trial
        for owner in self.accepting.load(self.runs, self.rollouts):
            self.execute(owner, [events.SaveRun()])
        for owner in [*begun_jobs(self.runs), *begun_jobs(self.rollouts)]:
            self.note("mgr", owner, "resumed after a restart of the mgr")
            if self.frozen:
                self.feed(owner, events.FREEZE)
            self.feed(owner, events.Begin())
        for owner in open_jobs(self.trials):
            self.feed(owner, events.Begin())
        self._stand_ins.load()
        self.persistence.records.recover({run_id: m.state for run_id, m in self.runs.items()})
        self.analyses.catch_up()
        self.prune()
        self.ticked_at_s = self.clock()

    @contextmanager
    def _taking_up(self, key: str) -> Iterator[None]:
        """Leave out a stored value that no machine can be made of; the others go on."""
        try:
            yield
        except Exception as error:
            self.log.exception("%s is left out", key)
            self.archive.left_out(key, error)

    # ---- time

    def tick(self, told: Iterable[Tuple[str, events.Event]]) -> Optional[float]:
        """Do what is due; returns the seconds until something is due again, or None.

        `told` is what has happened since.
        """
        self.hear_store()
        now_s = self.clock()
        for owner, event in told:
            if isinstance(event, (events.LoadFailed, events.BlocksEnded)):
                self.watchdog.cluster_at_s = 0.0  # where its OSDs are ill, that counts first
                self._tell_of_cluster(now_s)
            self.feed(owner, event)
        for owner in [*self.runs, *self.rollouts, *self.trials]:
            self.guarded(owner, partial(self._turn, owner, now_s))
        self._start_waiting(now_s)
        self._tell_of_cluster(now_s)
        self._take_others()
        self.end_overdue(self.options().lease_ttl_s)
        self.osd_options.ask_again(self.runs, now_s, self.epoch)
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
        for event in self.watchdog.due(owner, machine, now_s):
            self.feed(owner, event)

    def _start_waiting(self, now_s: float) -> None:
        if self.frozen or self.archive.trouble():
            return
        runs = self.runs
        if self.unstored:
            runs = {i: m for i, m in runs.items() if m.spec.campaign_id not in self.unstored}
        going_on = {owner for owner, _ in self.measuring.going_on()}
        due = self._queue.due(runs, now_s, going_on, self._apart())
        for run_id, event in self.unrestored.begin(due, self.runs, self.rollouts, self.view):
            if isinstance(event, events.Begin):
                spec = self.runs[run_id].spec
                self.note("mgr", run_id, f"started on {spec.hostname} {spec.domain_id}")
            self.feed(run_id, event)

    def _take_others(self) -> None:
        """Where the cluster is well otherwise, campaigns measure others than the ill ones."""
        ended = self._stand_ins.ended()
        if not ended or self.frozen or self.archive.trouble():
            return
        cluster = self.view.cluster()
        if cluster.blocking:
            return
        reports = believed(self.hosts.reports.values(), cluster)
        by_others = taken(self.rollouts, self.reserved, lambda: cluster)
        not_now = domains_taken(self.hosts.reports, by_others)
        for item in self.unrestored.disputes(self.runs, self.rollouts, cluster.fsid):
            not_now[item.key] = item.why
        self._stand_ins.take(
            ended, reports, cluster, not_now, self.epoch,
            throwaway=self.options().throwaway_cluster,
        )

    def _apart(self) -> Dict[str, str]:
        """Runs that do not begin now beside what is not over, and why; "" for a moment."""
        plans, reserved = open_jobs(self.rollouts), self.reserved
        begun = {*begun_jobs(self.runs)}
        waiting = [run_id for run_id in open_jobs(self.runs) if run_id not in begun]
        if not (plans or reserved) or not waiting:
            return {}
        cluster, found = self.view.cluster(), {}
        others = [
            *((f"plan {i}", touched_by(self.rollouts[i].rollout, cluster)) for i in plans),
            *((each.words, each.touched) for each in reserved),
        ]
        changing_now = at_once({}, self.rollouts)
        for run_id in waiting:
            spec = self.runs[run_id].spec
            if spec.toggles and changing_now:
                found[run_id] = ""
            for name, touched in others:
                mine = touched_by_run(spec)
                common = in_common(mine, touched.own)
                if common:
                    found[run_id] = f"waiting: {name} has {common} for itself"
                elif in_common(mine, touched):  # until its step is over
                    found.setdefault(run_id, "")
        return found

    def prune(self) -> None:
        """Forget what is beyond the bounds."""
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

    def _save(self, owner: str) -> None:
        if owner == FROZEN:
            self.persistence.save_frozen(self.frozen)
        else:
            self.save(owner)

    # ---- what there is

    @property
    def reserved(self) -> Tuple[Holding, ...]:
        """What has OSDs for itself beside runs and plans."""
        return (*held(self.trials), *self.measuring.last_calls(
            lambda run_id: touched_by_run(self.runs[run_id].spec) if run_id in self.runs
            else Touched()
        ))

    @property
    def active(self) -> bool:
        """Whether something is under way, so that time matters."""
        return bool(self.reserved or begun_jobs(self.rollouts) or open_jobs(self.runs))

    @property
    def unticked_s(self) -> float:
        """Seconds since the last whole tick."""
        return self.clock() - self.ticked_at_s

    def is_stored(self, owner: str) -> bool:
        """Whether the mons have a value, or where a machine stands."""
        self.hear_store()
        return self.persistence.is_stored(owner)

    def world(self, maps: Callable[[], ClusterState]) -> World:
        """What there is now; `maps` fetches the cluster's, where somebody looks at them."""
        self.analyses.hear()
        hosts, analyses, config, now_s = self.hosts, self.analyses, self.config, self.clock()

        def loads() -> OsdProfiles:
            # from this look alone: the lock may be held, or not
            return self._profiles(
                lambda: list(world.results.values()),
                lambda: osds_now(world.reports.values(), world.cluster),
            )

        world = World(
            now_s, maps, loads, self.options(), dict(hosts.reports),
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
            option_results=dict(analyses.option_results), option_pools=analyses.option_pools(),
            blocked=hosts.agents.blocked(now_s),
            awaited_until_s=dict(hosts.awaited_until_s),
        )
        return world

    def _tell_of_cluster(self, now_s: float) -> None:
        for run_id, event in self.watchdog.unfit(self.runs.items(), now_s):
            self.feed(run_id, event)

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

    def note(self, who: str, what: str, text: str, severity: Optional[str] = None) -> None:
        """Add a line to the audit log and to the mgr's; that of a run names its drive."""
        about = self._told.about(who, what, self.runs.get(what))
        self.audit.note(who, what, text, severity, about)

    # ---- machines

    def machine(self, owner: str) -> Optional[Machine]:
        """The run, rollout or trial of that id."""
        return self.runs.get(owner) or self.rollouts.get(owner) or self.trials.get(owner)

    def feed(self, owner: str, event: events.Event) -> None:
        """Give an event to a machine and do what it wants."""
        machine = self.machine(owner)
        if machine is None:
            return
        self.measuring.ended(owner, event)
        if isinstance(event, events.ClusterSeen):
            event = self.looking.as_of_now(owner, event)
        actions = self.guarded(owner, lambda: machine.handle(event, self.clock()))
        if actions:
            self.watchdog.heard(owner, self.clock())
            self.execute(owner, actions)

    def execute(self, owner: str, actions: List[events.Action]) -> None:
        """Carry out actions in order; a step waits until what came before it is stored."""
        for action in actions:
            if self.gate.closed(owner) and not self.gate.passes(action):
                self.gate.hold(owner, action, self.clock())
            else:
                self._do(owner, action)
        self.hear_store()

    def hear_store(self) -> None:
        """Go on where the mons have answered since."""
        for answer in self.gate.answers():
            if answer.error is None:
                self.guarded(answer.owner, answer.then)
            else:
                self._refused(answer.owner, answer.error)
                if answer.failed is not None:
                    answer.failed(answer.error)
                if self.machine(answer.owner) is not None:
                    self.persistence.not_saved(answer.owner)
                self._unsaved(answer.owner, answer.error)
            step = None if self.gate.closed(answer.owner) else self.gate.take(answer.owner)
            if step is not None:
                self._do(answer.owner, step)

    def end_overdue(self, limit_s: float) -> None:
        """What the mons have kept waiting for too long ends as if they had refused."""
        for owner in self.gate.overdue(self.clock(), limit_s):
            said = f"the mons have not answered for {limit_s:.0f} s"
            error = StorageError(said, "check `ceph health` and the mons' disks")
            self._refused(owner, error)
            self._unsaved(owner, error)

    def _refused(self, owner: str, error: StorageError) -> None:
        self.log.warning("%s: not stored: %s", owner, one_line(error.line(), 300))
        self.persistence.failed(error)

    def _unsaved(self, owner: str, error: StorageError) -> None:
        """Nothing new is begun that cannot be stored; what is under way is restored."""
        step = self.gate.take(owner)
        if step is not None and _goes_back(step):
            self._do(owner, step)  # brings a prior state back: given all the same
            return
        machine = self.machine(owner)
        if machine is None:
            return
        halt = events.Halt(f"stopped: {error.message}", unsaved=True)
        for action in self.guarded(owner, lambda: machine.handle(halt, self.clock())) or ():
            self._do(owner, action)

    # ---- one action

    def _do(self, owner: str, action: events.Action) -> None:
        self.guarded(owner, lambda: self._do_one(owner, action))

    def _do_one(self, owner: str, action: events.Action) -> None:
        if isinstance(action, events.GiveTask):
            self._begins(owner)
            hostname = self._host_of(owner)
            run = self.runs.get(owner)
            if run is not None and run.spec.option_osd is not None:
                report = self.hosts.reports.get(hostname)
                self.osd_options.give(owner, run.spec, action, report)
            elif hostname:
                name = type(action.request).__name__
                self.log.debug("%s: %s to %s: %s", owner, action.task_id, hostname, name)
                self.hosts.tasks[hostname] = Pending(owner, Task(action.task_id, action.request))
        elif isinstance(action, events.AskConfig):
            self._begins(owner)
            self.config.ask(owner, action)
        elif isinstance(action, events.MeasureLoad):
            self.gate.take(owner)
            load = action.request
            self.log.debug("%s: measures osd.%d %s", owner, load.osd_id, load.load_point.value)
            self.measuring.start(owner, action)
        elif isinstance(action, events.AskAnalysis):
            self.analyses.look(action, lambda decided: self._post_event(owner, decided))
        elif isinstance(action, events.SavePeriod):
            slot = slot_at(action.pair_index, action.second)
            self.archive.put_period(
                owner, action.experiment_index, slot, action.period, self.gate.expect(owner)
            )
        elif isinstance(action, events.SaveRecord):
            self.persistence.save_record(owner, action.record, self.analyses)
        elif isinstance(action, events.SaveRun):
            self.save(owner)
        elif isinstance(action, events.LookAtCluster):
            self.looking.look(owner, self.rollouts[owner], action.groups)
        elif isinstance(action, events.WatchBlocks):
            self._begins(owner)
            self.watching.start(owner, action)
        elif isinstance(action, events.WatchOsds):
            self.watching.start(owner, action)
        elif isinstance(action, events.AskOsds):
            self._begins(owner)
            self.questions.ask(owner, action)
        else:
            self._say(owner, action)

    def _say(self, owner: str, line: events.Note) -> None:
        self.note("mgr", owner, line.text, line.severity)
        if line.loud:
            self._cluster_log(one_line(f"wcache {owner}: {line.text}", 900))

    def _begins(self, owner: str) -> None:
        """A step is taken: what was held or measured before it is over.

        So is what a rollout watched; a run watches through its steps.
        """
        self.gate.take(owner)
        self.measuring.cancel(owner)
        if owner not in self.runs:
            self.watching.cancel(owner)

    def _host_of(self, owner: str) -> str:
        if owner in self.runs:
            return self.runs[owner].spec.hostname
        change = self.rollouts[owner].current
        return change.hostname if change else ""

    def save(self, owner: str) -> None:
        """Store where a machine stands."""
        machine = self.machine(owner)
        if machine is None:
            self.persistence.forget(owner)  # pruned meanwhile
            return
        if isinstance(machine, RolloutMachine):
            self._told.look(machine)
        if machine.over:
            self._let_go(owner, machine)
        elif isinstance(machine, RolloutMachine) and machine.paused:
            self._begins(owner)
            self._look_again(machine)
        self.persistence.save(owner, machine)

    def _let_go(self, owner: str, machine: Machine) -> None:
        """The machine is over: nothing of it is left to do, and its hosts are looked at again."""
        self.gate.take(owner)
        self.hosts.drop_tasks(owner)
        self.osd_options.cancel(owner)
        self.measuring.cancel(owner)
        self.watching.cancel(owner)
        self.config.cancel(owner)
        self.questions.cancel(owner)
        self.watchdog.forget(owner)
        self._look_again(machine)

    def _look_again(self, machine: Machine) -> None:
        """What its hosts have told is of before what it has done."""
        for hostname in machine.hostnames:
            self.hosts.reported_at_s.pop(hostname, None)

    def cancel_all(self) -> None:
        """Stop every measurement that is under way: the mgr stops."""
        self.measuring.cancel_all()
        self.questions.cancel_all()
        self.watching.cancel_all()

    # ---- errors of our own

    def guarded(self, owner: str, what: Callable[[], T]) -> Optional[T]:
        """What a machine's code returns; None where it raised, and then the machine is over."""
        try:
            return what()
        except Exception as error:
            # whatever it is: the others hold leases too, and must go on
            self.log.exception("%s failed", owner)
            self._break(owner, one_line(f"internal error: {error!r}", 300))
            return None

    def _break(self, owner: str, reason: str) -> None:
        known = owner in self.broken
        self.broken[owner] = reason
        if known:
            return  # also what follows from its end may fail, and must not begin anew
        ended: Optional[Machine] = None
        if owner in self.runs:
            ended = self.runs[owner] = self.runs[owner].abandoned(reason)
        elif owner in self.rollouts:
            ended = self.rollouts[owner] = self.rollouts[owner].abandoned(reason)
        elif owner in self.trials:
            ended = self.trials[owner] = self.trials[owner].abandoned(reason)
        self.note("mgr", owner, f"ended by {reason}", "error")
        if ended is not None:
            self._do(owner, events.SaveRun())
        if owner in self.trials:
            self.feed(owner, events.Begin())


def _goes_back(step: events.Action) -> bool:
    """Whether a step brings back what was there before."""
    if isinstance(step, events.AskConfig):
        return step.request.others_stay
    if isinstance(step, events.AskOsds):
        return step.back
    return isinstance(step, events.GiveTask) and isinstance(step.request, RollbackRequest)
