"""The one lock, the queue of events and the loop's turn: all that others see of the engine.

Nothing slow happens under the lock: that works elsewhere and puts its answers into queues,
which `tick` drains.  A lease is renewed by progress: probes hear of it only while whole ticks
are made.
"""

from __future__ import annotations

import queue
import time
from contextlib import contextmanager
from functools import partial
from typing import Callable, Dict, Iterable, Iterator, List, Optional, Tuple

from ..core import events
from ..core.automation.state import AutoState
from ..core.change.rollout import RolloutMachine
from ..core.errors import StorageError
from ..core.experiment.run_state import OVER
from ..core.history import HistoryEntry
from ..core.jobs import Job
from .another_drive import take_others
from .executor import Executor, Ports
from .orders import EngineLock, Orders
from .run_queue import CLUSTER_GRACE_S, machine_of
from .storing.archive import AUTOMATION, CAMPAIGN, RUN
from .under_way import at_once, begun_jobs, in_common, open_jobs, touched_by, touched_by_run
from .world import World, look


def steady_clock() -> Callable[[], float]:
    """Wall-clock time that never steps: a set clock must not end or prolong a period."""
    offset_s = time.time() - time.monotonic()
    return lambda: offset_s + time.monotonic()


class Engine:
    """Lets one in at a time: to look, to give orders, or to have the next thing done.

    `ports`, `clock`, `wake` (there is something to do: the next tick comes at once), `config`,
    `kept_blocks` and, before anything is loaded, `trial_kinds` are for anybody, who need not have
    the lock.
    """

    def __init__(
        self, ports: Ports, *, wake: Callable[[], None] = lambda: None,
        clock: Optional[Callable[[], float]] = None,
    ) -> None:
        self.ports = ports
        self.wake = wake
        self.clock = clock or steady_clock()
        self._lock = EngineLock()
        self._events: queue.Queue[Tuple[str, events.Event]] = queue.Queue()
        self._executor = Executor(
            ports, clock=self.clock, wake=wake, post_event=self.post_event,
            note=self._note, verdicts=lambda: look(self._executor, ports.view.cluster),
            verdicts_later=self.world,
        )
        self._orders = Orders(self._executor, self._lock)
        self.config = self._executor.config
        self.trial_kinds = self._executor.questions.kinds
        self.kept_blocks = self._executor.watching.kept

    def load(self) -> None:
        """Take up the stored state and go on where the last mgr stopped.

        Raises a WcacheError where it cannot be read; then nothing has begun, and it can be
        called again.
        """
        with self._lock:
            _load(self._executor)

    def cancel_loads(self) -> None:
        """Stop every measurement that is under way: the mgr stops."""
        with self._lock:
            self._executor.cancel_all()

    # ---- the world's events

    def tick(self) -> Optional[float]:
        """Do what is due; returns the seconds until something is due again, or None."""
        with self._lock:
            return _turn(self._executor, self._posted())

    def _posted(self) -> Iterator[Tuple[str, events.Event]]:
        while True:
            try:
                yield self._events.get_nowait()
            except queue.Empty:
                return

    def post_event(self, owner: str, event: events.Event) -> None:
        """Queue an event from another thread; `tick` feeds it."""
        self._events.put((owner, event))
        self.wake()

    def _note(self, owner: str, text: str) -> None:
        with self._lock:
            self._executor.note("mgr", owner, text)

    # ---- orders

    @contextmanager
    def deciding(self, before: Optional[World] = None) -> Iterator[Tuple[World, Orders]]:
        """A look, and orders that follow from it: nothing else changes meanwhile."""
        looked = before or self.world()
        _ = looked.cluster  # fetched while no lock is held
        with self._lock:
            yield self._orders.look(looked), self._orders

    @contextmanager
    def orders(self) -> Iterator[Orders]:
        """Orders that follow from no look."""
        with self._lock:
            yield self._orders

    def put_automation(self, state: AutoState, refused: Callable[[], None]) -> None:
        """Store what `auto` keeps; where the mons refuse it, `status` says so."""
        def done(error: Optional[StorageError]) -> None:
            if error is not None:
                refused()
                self._executor.persistence.failed(error)

        self.ports.archive.put(AUTOMATION, state, done)

    # ---- what there is

    def world(self, before: Optional[World] = None) -> World:
        """What there is now; with the maps of an earlier look, and its advice where that stands."""
        with self._lock:
            if before is not None:
                return self._orders.look(before)
            return look(self._executor, self.ports.view.cluster)

    def is_active(self) -> bool:
        """Whether something is under way, so that time matters."""
        executor = self._executor
        with self._lock:
            return bool(
                executor.reserved or begun_jobs(executor.rollouts) or open_jobs(executor.runs)
            )

    def history(self) -> List[HistoryEntry]:
        """The lines of the audit log."""
        with self._lock:
            return self._executor.audit.all()


# ---- by whoever has the lock


def _load(executor: Executor) -> None:
    """Take up the stored state and go on where the last mgr stopped."""
    executor.runs.clear()
    executor.rollouts.clear()
    executor.trials.clear()
    executor.archive.check_version()
    now_s = executor.clock()
    executor.watchdog.trusted_from_s = executor.queue.trusted_from_s = now_s + CLUSTER_GRACE_S
    executor.epoch = format(int(now_s * 1000), "x")
    executor.frozen = executor.archive.frozen
    executor.audit.load()
    executor.hosts.load(executor.archive, now_s)
    executor.analyses.load()
    executor.campaigns = executor.archive.all(CAMPAIGN)
    for plan_id, rollout in executor.archive.plans.all().items():
        with _taking_up(executor, f"rollout/{plan_id}"):
            executor.rollouts[plan_id] = RolloutMachine(rollout, executor.epoch)
    executor.told.load(executor.rollouts)
    for run_id, state in executor.archive.all(RUN).items():
        if state.spec.campaign_id not in executor.campaigns:
            continue  # its campaign was never wholly stored, or cannot be read
        over = state.status in OVER
        count = len(state.spec.experiments)
        periods = (
            [{} for _ in range(count)] if over else executor.archive.periods(run_id, count)
        )
        with _taking_up(executor, f"run/{run_id}"):
            executor.runs[run_id] = machine_of(state, periods, executor.epoch)
    for kind in executor.questions.kinds.values():
        stored = executor.archive.get(kind.stored)
        if stored is not None:
            with _taking_up(executor, kind.stored.prefix):
                trial = kind.machine_of(stored, executor.epoch)
                executor.trials[trial.job_id] = trial
    for owner in executor.unrestored.load():
        executor.execute(owner, [events.SaveRun()])
    for owner in [*begun_jobs(executor.runs), *begun_jobs(executor.rollouts)]:
        executor.note("mgr", owner, "resumed after a restart of the mgr")
        if executor.frozen:
            executor.feed(owner, events.FREEZE)
        executor.feed(owner, events.Begin())
    for owner in open_jobs(executor.trials):
        executor.feed(owner, events.Begin())
    # what ended under the last mgr has had its turn
    executor.had_their_turn = {*executor.runs}.difference(open_jobs(executor.runs))
    executor.persistence.records.recover({run_id: m.state for run_id, m in executor.runs.items()})
    executor.analyses.catch_up()
    executor.prune()
    executor.ticked_at_s = executor.clock()


@contextmanager
def _taking_up(executor: Executor, key: str) -> Iterator[None]:
    """Leave out a stored value that no machine can be made of; the others go on."""
    try:
        yield
    except Exception as error:
        executor.log.exception("%s is left out", key)
        executor.archive.left_out(key, error)


def _turn(executor: Executor, told: Iterable[Tuple[str, events.Event]]) -> Optional[float]:
    """Do what is due; returns the seconds until something is due again, or None.

    `told` is what has happened since.
    """
    executor.hear_store()
    now_s = executor.clock()
    for owner, event in told:
        answer = event.answer if isinstance(event, events.Answered) else event
        if isinstance(answer, (events.LoadFailed, events.BlocksEnded)):
            executor.watchdog.cluster_at_s = 0.0  # where its OSDs are ill, that counts first
            _tell_of_cluster(executor, now_s)
        executor.feed(owner, event)
    for owner in [*executor.runs, *executor.rollouts, *executor.trials]:
        executor.guarded(owner, partial(_tell_of_time, executor, owner, now_s))
    _start_waiting(executor, now_s)
    _tell_of_cluster(executor, now_s)
    take_others(executor)
    executor.end_overdue(executor.options().lease_ttl_s)
    executor.osd_options.ask_again(executor.runs, now_s, executor.epoch)
    executor.analyses.tick(now_s)
    executor.persistence.retry(now_s, executor.save, executor.analyses)
    if executor.persistence.prune_due:
        executor.prune()
    executor.ticked_at_s = executor.clock()
    executor.log.debug("tick: %.3f s", executor.ticked_at_s - now_s)
    return _next_wake_s(executor, now_s)


def _tell_of_time(executor: Executor, owner: str, now_s: float) -> None:
    machine = executor.machine(owner)
    for event in executor.watchdog.due(owner, machine, now_s) if machine is not None else ():
        executor.feed(owner, event)


def _tell_of_cluster(executor: Executor, now_s: float) -> None:
    for run_id, event in executor.watchdog.unfit(executor.runs.items(), now_s):
        executor.feed(run_id, event)


def _start_waiting(executor: Executor, now_s: float) -> None:
    if executor.frozen or executor.archive.trouble():
        return
    runs = executor.runs
    if executor.unstored:
        runs = {
            i: m for i, m in runs.items() if m.spec.campaign_id not in executor.unstored
        }
    benched = {name for call in executor.measuring.going_on() for name in call.touched.hosts}
    due = executor.queue.due(runs, now_s, benched, _apart(executor))
    for run_id, event in executor.unrestored.begin(due, executor.view):
        if isinstance(event, events.Begin):
            spec = executor.runs[run_id].spec
            executor.note("mgr", run_id, f"started on {spec.hostname} {spec.domain_id}")
        executor.feed(run_id, event)


def _apart(executor: Executor) -> Dict[str, str]:
    """Waiting runs that are not begun beside what is not over, and why; "" for a moment."""
    plans, reserved = open_jobs(executor.rollouts), executor.reserved
    begun = {*begun_jobs(executor.runs)}
    waiting = [run_id for run_id in open_jobs(executor.runs) if run_id not in begun]
    if not (plans or reserved) or not waiting:
        return {}
    cluster, found = executor.view.cluster(), {}
    others = [
        *((f"plan {i}", touched_by(executor.rollouts[i].rollout, cluster)) for i in plans),
        *((each.words, each.touched) for each in reserved),
    ]
    changing_now = at_once({}, executor.rollouts)
    for run_id in waiting:
        spec = executor.runs[run_id].spec
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


def _next_wake_s(executor: Executor, now_s: float) -> Optional[float]:
    machines: List[Job] = [
        *executor.runs.values(), *executor.rollouts.values(), *executor.trials.values()
    ]
    due = [m.wake_at_s for m in machines if m.wake_at_s is not None]
    return max(0.001, min(due) - now_s) if due else None
