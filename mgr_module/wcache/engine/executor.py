"""Carries out what machines want, each by itself: one that fails ends alone.

Whoever calls this holds the engine's lock.  A step that needs what was stored before it is
taken when the mons have that (`StoreGate`).  A machine that raises is ended and reported, and
the others go on: its lease is not named any more, so its probe restores.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import (
    Callable,
    Dict,
    List,
    Optional,
    Set,
    TypeVar,
)

from ..core import events
from ..core.change.change import Verdicts
from ..core.change.rollout import RolloutMachine
from ..core.cluster import ClusterView
from ..core.codec import one_line
from ..core.errors import StorageError
from ..core.experiment.design import Slot
from ..core.experiment.observing_run import ObservingRun
from ..core.fleet.retention import Bounds
from ..core.jobs import Touched
from ..core.ports import ConfigDatabase
from ..core.protocol import RollbackRequest, Task
from ..core.verdict.recommend import OsdProfiles
from ..options import Options
from .config_watch import ConfigWatch
from .evidence.analyses import Analyses, Analysis
from .gate.kept_blocks import BlockRunner, Watching
from .gate.looking import Looking, Stops
from .hosts import OpenTask
from .measuring import LoadRunner, OsdOptionTasks, OsdPrograms, OsdQuestions
from .persistence import FROZEN, Machine, StatePersistence
from .run_queue import RunQueue
from .storing.archive import Archive, StoreGate
from .storing.audit_log import AuditLog, traced
from .under_way import Shared, touched_by_run
from .unrestored import Unrestored
from .watchdog import Watchdog
from .world import Objection, World

T = TypeVar("T")


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
    profiles: Callable[[World], OsdProfiles]
    log: logging.Logger = logging.getLogger("wcache")  # noqa: RUF009  always the same
    bounds: Bounds = Bounds()  # noqa: RUF009  frozen


class Executor(Shared):
    """The second part of the engine: what its machines want is carried out here."""

    def __init__(
        self, ports: Ports, *, clock: Callable[[], float], wake: Callable[[], None],
        note: Callable[[str, str], None], verdicts: Callable[[], Verdicts],
        verdicts_later: Callable[[], Verdicts],
    ) -> None:
        archive = ports.archive
        super().__init__(
            archive, ports.view, ports.options, ports.loads, ports.log, clock, wake
        )
        self.ports = ports
        self._holder = 0  # the thread that has the lock
        self.unstored: Set[str] = set()  # ids of campaigns that the mons do not have yet
        self.broken: Dict[str, str] = {}  # what machines were ended for, until the mgr restarts
        self.had_their_turn: Set[str] = set()  # runs that were over before, or seen to be
        self.epoch = "0"
        self.ticked_at_s = 0.0  # when the last whole tick ended
        self.audit = AuditLog(archive, clock, ports.log, self.hosts.reports)
        self.gate = StoreGate(wake)
        self.persistence = StatePersistence(archive, ports.bounds, self.gate)
        self.unrestored = Unrestored(self, self.persistence)
        self.analyses = Analyses(
            analysis=ports.analysis, archive=archive, wake=wake, log=ports.log
        )
        self.questions = OsdQuestions(self.post_event)
        self.trial_kinds = self.questions.kinds
        self.objections: Dict[str, Objection] = {}  # of knobs, by their names
        self.osd_options = OsdOptionTasks(ports.osd_options, ports.view, self.post_event)
        self.config = ConfigWatch(
            database=ports.database, clock=clock, post_event=self.post_event, note=note,
        )
        self.queue = RunQueue(self, ports.stops)
        self.watchdog = Watchdog(self, self.queue.may_not_stop)
        self.watching = Watching(ports.blocks, self.post_event, ports.view, clock)
        self.kept_blocks = self.watching.kept
        self.looking = Looking(self, ports.stops, verdicts, verdicts_later)

    def require_lock(self) -> None:
        """Raise RuntimeError where this thread has not the engine's lock."""
        if self._holder != threading.get_ident():
            raise RuntimeError("an order is given without the engine's lock")

    def prune(self) -> None:
        self.persistence.prune(
            self.campaigns, self.runs, self.analyses.results, self.rollouts,
        )

    def note(self, who: str, what: str, text: str, severity: Optional[str] = None) -> None:
        """Add a line to the audit log and to the mgr's; that of a run names its drive."""
        self.require_lock()
        self.audit.note(who, what, text, severity, self.runs.get(what))

    # ---- machines

    def machine(self, owner: str) -> Optional[Machine]:
        return self.runs.get(owner) or self.rollouts.get(owner) or self.trials.get(owner)

    def feed(self, owner: str, event: events.Event) -> None:
        """Give an event to a machine and do what it wants."""
        self.require_lock()
        machine = self.machine(owner)
        if machine is None:
            return
        self._trace(owner, event)
        self.measuring.ended(owner, event)
        if isinstance(event, events.ClusterSeen):
            event = self.looking.as_of_now(owner, event)
        actions = self.guarded(owner, lambda: machine.handle(event, self.clock()))
        if actions:
            self.watchdog.heard(owner, self.clock())
            self.execute(owner, actions)

    def execute(self, owner: str, actions: List[events.Action]) -> None:
        """Carry out actions in order; a step waits until what came before it is stored."""
        self.require_lock()
        for action in actions:
            if self.gate.closed(owner) and not self.gate.passes(action):
                self.gate.hold(owner, action, self.clock())
            else:
                self._do(owner, action)
        self.hear_store()

    def hear_store(self) -> None:
        """Go on where the mons have answered since."""
        refused = self.persistence.error
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
        if refused and not self.persistence.error:
            self.log.info("the mons store again what they refused: %s", refused)

    def end_overdue(self, limit_s: float) -> None:
        """What the mons have kept waiting for too long ends as if they had refused."""
        now_s = self.clock()
        for owner in [o for o, (_, since_s) in self.gate.held.items() if now_s - since_s > limit_s]:
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
        self._trace(owner, action)
        self.guarded(owner, lambda: self._do_one(owner, action))

    def _trace(self, owner: str, told: object) -> None:
        """Tell at debug what a machine hears and wants; what it notes is told as such."""
        if not isinstance(told, (events.Tick, events.Note)):
            self.log.debug("%s: %s", f"{owner} {self._host_of(owner)}".rstrip(), traced(told))

    def _do_one(self, owner: str, action: events.Action) -> None:
        if isinstance(
            action, (events.GiveTask, events.AskConfig, events.WatchBlocks, events.AskOsds)
        ):
            self._begins(owner)
        if isinstance(action, events.GiveTask):
            self._give(owner, action)
        elif isinstance(action, events.AskConfig):
            self.config.ask(owner, action)
        elif isinstance(action, events.MeasureLoad):
            self.gate.take(owner)
            run, osds = self.runs.get(owner), frozenset({action.request.osd_id})
            touched = touched_by_run(run.spec) if run else Touched(osds=osds)
            self.measuring.start(owner, action, touched)
        elif isinstance(action, events.AskAnalysis):
            self.analyses.look(action, lambda decided: self.post_event(owner, decided))
        elif isinstance(action, events.SavePeriod):
            slot = Slot(action.pair_index, action.second)
            self.archive.put_period(
                owner, action.experiment_index, slot, action.period, self.gate.expect(owner)
            )
        elif isinstance(action, events.SaveRecord):
            self.persistence.save_record(owner, action.record, self.analyses)
        elif isinstance(action, events.SaveRun):
            self.save(owner)
        elif isinstance(action, events.LookAtCluster):
            self.looking.see(
                self.rollouts[owner], action, lambda seen: self.post_event(owner, seen)
            )
        elif isinstance(action, (events.WatchBlocks, events.WatchOsds)):
            self.watching.start(owner, action)
        elif isinstance(action, events.AskOsds):
            self.questions.ask(owner, action)
        else:
            self.note("mgr", owner, action.text, action.severity)
            if action.loud:
                self.ports.cluster_log(one_line(f"wcache {owner}: {action.text}", 900))

    def _begins(self, owner: str) -> None:
        """A step is taken: what was held or measured before it is over.

        So is what a rollout watched; a run watches through its steps.
        """
        self.gate.take(owner)
        self.measuring.cancel(owner)
        if owner not in self.runs:
            self.watching.cancel(owner)
            self.hosts.drop_tasks(owner)  # of another host, which has not asked for it yet

    def _give(self, owner: str, action: events.GiveTask) -> None:
        """Have a probe do it with its next call; what is of an OSD's option is done here."""
        run, hostname = self.runs.get(owner), self._host_of(owner)
        if run is not None and run.spec.option_osd is not None:
            report = self.hosts.reports.get(hostname)
            self.osd_options.give(owner, run.spec, action, report)
        elif hostname:
            self.hosts.tasks[hostname] = OpenTask(owner, Task(action.task_id, action.request))

    def _host_of(self, owner: str) -> str:
        if owner in self.runs:
            return self.runs[owner].spec.hostname
        change = self.rollouts[owner].current if owner in self.rollouts else None
        return change.hostname if change else ""

    def save(self, owner: str) -> None:
        """Store where a machine stands, or whether all of it is FROZEN."""
        if owner == FROZEN:
            self.persistence.save_frozen(self.frozen)
            return
        machine = self.machine(owner)
        if machine is None:
            self.persistence.forget(owner)  # pruned meanwhile
            return
        if isinstance(machine, RolloutMachine):
            self.audit.look(machine)
        if machine.over:
            self._let_go(owner, machine)
        elif isinstance(machine, RolloutMachine) and machine.paused:
            self._begins(owner)
            self._look_again(machine)
        elif isinstance(machine, ObservingRun) and machine.state.ill_since_s:
            self._begins(owner)
            self.hosts.drop_tasks(owner)
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
            self.hosts.look_again(hostname)

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
