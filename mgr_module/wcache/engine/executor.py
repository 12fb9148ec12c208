"""Carries out what the machines ask for, each by itself: one that fails ends alone.

Guarded by the engine's lock.  A step that needs what was stored before it is taken when the
mons have that (`store_gate`).  A machine that raises is ended and reported, and the others
go on: its lease is not named any more, so its probe restores.
"""

from __future__ import annotations

import logging
from typing import Callable, Dict, List, Optional, Protocol, Sequence, TypeVar

from ..core import events
from ..core.change.rollout import RolloutMachine
from ..core.cluster import ClusterView
from ..core.codec import one_line
from ..core.errors import StorageError
from ..core.experiment.run import RunMachine
from ..core.experiment.slots import slot_at
from ..core.jobs import Trial
from ..core.protocol import RollbackRequest, Task
from ..core.verdict.recommend import Recommendation
from .config_watch import ConfigWatch
from .evidence.analyses import Analyses
from .gate.looking import Looking, Stops
from .gate.watching import BlockRunner, Watching
from .hosts import Hosts, Pending
from .measuring import Measuring, OsdQuestions
from .persistence import Machine, StatePersistence
from .storing.archive import Archive
from .storing.change_history import ChangeHistory
from .storing.store_gate import StoreGate
from .watchdog import Watchdog

T = TypeVar("T")


class Tell(Protocol):
    """Adds a line to the audit log."""

    def __call__(self, who: str, what: str, text: str, severity: Optional[str] = None) -> None:
        """`severity` is of core.events.Note."""


class Executor:
    """The machines, and the parts that do what they want."""

    def __init__(
        self, *, archive: Archive, hosts: Hosts, persistence: StatePersistence, gate: StoreGate,
        analyses: Analyses, measuring: Measuring, questions: OsdQuestions, config: ConfigWatch,
        watchdog: Watchdog, view: ClusterView, clock: Callable[[], float], note: Tell,
        log: logging.Logger,
        post_event: Callable[[str, events.Event], None], told: ChangeHistory,
        blocks: BlockRunner, stops: Stops, reserved: Callable[[], str],
        outside_windows: Callable[[], bool], frozen: Callable[[], bool],
        recommendations: Callable[[], Sequence[Recommendation]],
    ) -> None:
        self._archive = archive
        self._hosts = hosts
        self._persistence = persistence
        self._gate = gate
        self._analyses = analyses
        self._measuring = measuring
        self._questions = questions
        self._config = config
        self._watchdog = watchdog
        self._clock = clock
        self._note = note
        self._log = log
        self._post_event = post_event
        self._told = told
        self.runs: Dict[str, RunMachine] = {}
        self.rollouts: Dict[str, RolloutMachine] = {}
        self.trials: Dict[str, Trial] = {}  # the last one of each knob that has its own
        self.watching = Watching(blocks, post_event)
        self.looking = Looking(
            stops=stops, view=view, hosts=hosts, clock=clock, post_event=post_event,
            reserved=reserved, outside_windows=outside_windows, runs=self.runs,
            rollouts=self.rollouts, frozen=frozen, recommendations=recommendations,
            log=log,
        )
        self.broken: Dict[str, str] = {}  # what machines were ended for, until the mgr restarts

    def machine(self, owner: str) -> Optional[Machine]:
        """The run, rollout or trial of that id."""
        return self.runs.get(owner) or self.rollouts.get(owner) or self.trials.get(owner)

    def feed(self, owner: str, event: events.Event) -> None:
        """Give an event to a machine and do what it wants."""
        machine = self.machine(owner)
        if machine is None:
            return
        self._measuring.ended(owner, event)
        actions = self.guarded(owner, lambda: machine.handle(event, self._clock()))
        if actions:
            self._watchdog.heard(owner, self._clock())
            self.execute(owner, actions)

    def execute(self, owner: str, actions: List[events.Action]) -> None:
        """Carry out actions in order; a step waits until what came before it is stored."""
        for action in actions:
            if self._gate.closed(owner) and not self._gate.passes(action):
                self._gate.hold(owner, action, self._clock())
            else:
                self._do(owner, action)
        self.hear_store()

    def hear_store(self) -> None:
        """Go on where the mons have answered since."""
        for answer in self._gate.answers():
            if answer.error is None:
                self.guarded(answer.owner, answer.then)
            else:
                self._refused(answer.owner, answer.error)
                if answer.failed is not None:
                    answer.failed(answer.error)
                if self.machine(answer.owner) is not None:
                    self._persistence.not_saved(answer.owner)
                self._unsaved(answer.owner, answer.error)
            step = None if self._gate.closed(answer.owner) else self._gate.take(answer.owner)
            if step is not None:
                self._do(answer.owner, step)

    def end_overdue(self, limit_s: float) -> None:
        """What the mons have kept waiting for too long ends as if they had refused."""
        for owner in self._gate.overdue(self._clock(), limit_s):
            said = f"the mons have not answered for {limit_s:.0f} s"
            error = StorageError(said, "check `ceph health` and the mons' disks")
            self._refused(owner, error)
            self._unsaved(owner, error)

    def _refused(self, owner: str, error: StorageError) -> None:
        self._log.warning("%s: not stored: %s", owner, one_line(error.line(), 300))
        self._persistence.failed(error)

    def _unsaved(self, owner: str, error: StorageError) -> None:
        """Nothing new is begun that cannot be stored; what is under way is restored."""
        step = self._gate.take(owner)
        if step is not None and _goes_back(step):
            self._do(owner, step)  # brings a prior state back: given all the same
            return
        machine = self.machine(owner)
        if machine is None:
            return
        halt = events.Halt(f"stopped: {error.message}")
        for action in self.guarded(owner, lambda: machine.handle(halt, self._clock())) or ():
            self._do(owner, action)

    # ---- one action

    def _do(self, owner: str, action: events.Action) -> None:
        self.guarded(owner, lambda: self._do_one(owner, action))

    def _do_one(self, owner: str, action: events.Action) -> None:
        if isinstance(action, events.GiveTask):
            self._begins(owner)
            hostname = self._host_of(owner)
            if hostname:
                name = type(action.request).__name__
                self._log.debug("%s: %s to %s: %s", owner, action.task_id, hostname, name)
                self._hosts.tasks[hostname] = Pending(owner, Task(action.task_id, action.request))
        elif isinstance(action, events.AskConfig):
            self._begins(owner)
            self._config.ask(owner, action)
        elif isinstance(action, events.MeasureLoad):
            self._gate.take(owner)
            load = action.request
            self._log.debug("%s: measures osd.%d %s", owner, load.osd_id, load.load_point.value)
            self._measuring.start(owner, action)
        elif isinstance(action, events.AskAnalysis):
            self._analyses.look(action, lambda decided: self._post_event(owner, decided))
        elif isinstance(action, events.SavePeriod):
            slot = slot_at(action.pair_index, action.second)
            self._archive.put_period(
                owner, action.experiment_index, slot, action.period, self._gate.expect(owner)
            )
        elif isinstance(action, events.SaveRecord):
            self._persistence.save_record(owner, action.record, self._analyses)
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
            self._questions.ask(owner, action)
        else:
            self._note("mgr", owner, action.text, action.severity)

    def _begins(self, owner: str) -> None:
        """A step is taken: what was held or measured before it is over.

        So is what a rollout watched; a run watches through its steps.
        """
        self._gate.take(owner)
        self._measuring.cancel(owner)
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
            self._persistence.forget(owner)  # pruned meanwhile
            return
        if isinstance(machine, RolloutMachine):
            self._told.look(machine)
        if machine.over:
            self._let_go(owner, machine)
        elif isinstance(machine, RolloutMachine) and machine.paused:
            self._begins(owner)
            self._look_again(machine)
        self._persistence.save(owner, machine)

    def _let_go(self, owner: str, machine: Machine) -> None:
        """The machine is over: nothing of it is left to do, and its hosts are looked at again."""
        self._gate.take(owner)
        self._hosts.drop_tasks(owner)
        self._measuring.cancel(owner)
        self.watching.cancel(owner)
        self._config.cancel(owner)
        self._questions.cancel(owner)
        self._watchdog.forget(owner)
        self._look_again(machine)

    def _look_again(self, machine: Machine) -> None:
        """What its hosts have told is of before what it has done."""
        for hostname in machine.hostnames:
            self._hosts.reported_at_s.pop(hostname, None)

    # ---- errors of our own

    def guarded(self, owner: str, what: Callable[[], T]) -> Optional[T]:
        """What a machine's code returns; None where it raised, and then the machine is over."""
        try:
            return what()
        except Exception as error:
            # whatever it is: the others hold leases too, and must go on
            self._log.exception("%s failed", owner)
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
        self._note("mgr", owner, f"ended by {reason}", "error")
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
