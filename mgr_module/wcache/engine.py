"""Runs the state machines: hands their actions to the ports and feeds answers back.

One lock guards everything here; nothing slow happens under it.  Measurements and
analyses run elsewhere and put their answers into `events`, which `tick` drains.
"""

from __future__ import annotations

import queue
import threading
import time
from dataclasses import dataclass, replace
from typing import Callable, Dict, List, Optional, Protocol, Tuple

from .archive import Archive, HistoryEntry
from .core import actions as act
from .core.agents import CLAIM_S, Agents
from .core.campaign import Campaign
from .core.model import HostReport
from .core.osds import ClusterView
from .core.policy import Result
from .core.protocol import Lease, ReportRequest, Task
from .core.record import Record
from .core.rollout import Rollout, RolloutMachine
from .core.run import RunMachine, RunStatus
from .options import Options
from .results import not_analysed, of_record

# A host is looked at again this long after its last report.
REPORT_EVERY_S = 600.0
SILENT_ABORT_S = 30.0


class LoadRunner(Protocol):
    """Port: measures OSDs in the background."""

    def start(self, request: act.LoadRequest, done: Callable[[act.LoadSamples, str], None]) -> None:
        """Measure; calls `done(samples, error)` once, from another thread."""

    def cancel_all(self) -> None:
        """Stop what is running as soon as it can be stopped."""


class Analysis(Protocol):
    """Port: the statistics, in a child process."""

    def start(
        self, record: Record, done: Callable[[Optional[Dict[str, object]], str], None]
    ) -> None:
        """Analyse; calls `done(result, error)` once, from another thread."""


@dataclass(frozen=True)
class Pending:
    """A task that waits for its answer, and whose it is."""

    owner: str
    task: Task


class Engine:
    """All machines of the module, and what they share."""

    def __init__(
        self,
        *,
        archive: Archive,
        view: ClusterView,
        loads: LoadRunner,
        analysis: Analysis,
        options: Callable[[], Options],
        wake: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.lock = threading.RLock()
        self.archive = archive
        self.view = view
        self.options = options
        self.clock = clock
        self.agents = Agents()
        self.reports: Dict[str, HostReport] = {}
        self.reported_at_s: Dict[str, float] = {}
        self.campaigns: Dict[str, Campaign] = {}
        self.runs: Dict[str, RunMachine] = {}
        self.rollouts: Dict[str, RolloutMachine] = {}
        self.results: Dict[str, Result] = {}
        self.history: List[HistoryEntry] = []
        self.tasks: Dict[str, Pending] = {}
        self.analysis_error = ""
        self.frozen = False
        self._loads = loads
        self._analysis = analysis
        self.wake = wake
        self._events: queue.Queue[Tuple[str, act.Event]] = queue.Queue()
        self._looks: Dict[str, Tuple[int, Dict[str, object]]] = {}
        self._serial = 0
        self.epoch = "0"

    # ---- start

    def load(self) -> None:
        """Take up the stored state and go on where the last mgr stopped."""
        with self.lock:
            self.archive.check_version()
            now_s = self.clock()
            self.epoch = format(int(now_s * 1000), "x")
            self.frozen = self.archive.frozen
            self.history = self.archive.history()
            for hostname, agent in self.archive.agents().items():
                self.agents.restore(replace(agent, hostname=hostname, seen_at_s=now_s))
            self.reports = self.archive.reports()
            self.results = self.archive.results()
            self.campaigns = self.archive.campaigns()
            for plan_id, rollout in self.archive.rollouts().items():
                self.rollouts[plan_id] = RolloutMachine(rollout, self.epoch)
            for run_id, state in self.archive.runs().items():
                over = state.status in (RunStatus.DONE, RunStatus.ABORTED)
                count = len(state.spec.experiments)
                periods = (
                    [{} for _ in range(count)] if over else self.archive.periods(run_id, count)
                )
                self.runs[run_id] = RunMachine(state, periods, self.epoch)
            for run_id, machine in self.runs.items():
                if machine.holds_lease:
                    self.note("mgr", run_id, "resumed after a restart of the mgr")
                    self.execute(run_id, machine.handle(act.Begin(), now_s))
            for plan_id, rollout_machine in self.rollouts.items():
                if not rollout_machine.over:
                    self.note("mgr", plan_id, "resumed after a restart of the mgr")
                    self.execute(plan_id, rollout_machine.handle(act.Begin(), now_s))
            for record_id in self.archive.record_ids():
                if record_id not in self.results or not self.results[record_id].analysed:
                    self._analyse_again(record_id)

    def _analyse_again(self, record_id: str) -> None:
        record = self.archive.record(record_id)
        if record is not None:
            self._final(record)

    # ---- the world's events

    def tick(self) -> Optional[float]:
        """Do what is due; returns the seconds until something is due again, or None."""
        with self.lock:
            while True:
                try:
                    owner, event = self._events.get_nowait()
                except queue.Empty:
                    break
                self.feed(owner, event)
            now_s = self.clock()
            for run_id, machine in list(self.runs.items()):
                if machine.over:
                    continue
                if machine.holds_lease:
                    self._watch(run_id, machine.spec.hostname, now_s)
                if machine.wake_at_s is not None and machine.wake_at_s <= now_s:
                    self.feed(run_id, act.Tick())
            for plan_id, rollout in list(self.rollouts.items()):
                if rollout.over:
                    continue
                if rollout.current is not None:
                    self._watch(plan_id, rollout.current.hostname, now_s)
                if rollout.wake_at_s is not None and rollout.wake_at_s <= now_s:
                    self.feed(plan_id, act.Tick())
            self._start_waiting(now_s)
            return self._next_wake_s(now_s)

    def _next_wake_s(self, now_s: float) -> Optional[float]:
        due = [m.wake_at_s for m in self.runs.values() if m.wake_at_s is not None]
        due += [m.wake_at_s for m in self.rollouts.values() if m.wake_at_s is not None]
        return max(0.001, min(due) - now_s) if due else None

    def feed(self, owner: str, event: act.Event) -> None:
        """Give an event to a run or rollout and execute what it wants."""
        with self.lock:
            machine = self.runs.get(owner) or self.rollouts.get(owner)
            if machine is not None:
                self.execute(owner, machine.handle(event, self.clock()))

    @property
    def active(self) -> bool:
        """Whether something is under way, so that time matters."""
        return any(not m.over for m in self.runs.values()) or any(
            not m.over for m in self.rollouts.values()
        )

    def begin(self, owner: str) -> None:
        """Start a run or a rollout."""
        self.feed(owner, act.Begin())

    def post_event(self, owner: str, event: act.Event) -> None:
        """Queue an event from another thread; `tick` feeds it."""
        self._events.put((owner, event))
        self.wake()

    def _watch(self, owner: str, hostname: str, now_s: float) -> None:
        """A machine that waits for a probe does not wait for ever."""
        agent = self.agents.get(hostname)
        limit_s = self.options().lease_ttl_s + SILENT_ABORT_S
        if agent is None or now_s - agent.seen_at_s > limit_s:
            self.tasks.pop(hostname, None)
            said = f"the probe on {hostname} was not heard for {limit_s:.0f} s"
            self.feed(owner, act.AgentSilent(said))

    def _start_waiting(self, now_s: float) -> None:
        if self.frozen or any(not m.over for m in self.rollouts.values()):
            return
        busy = {m.spec.hostname for m in self.runs.values() if m.holds_lease}
        for run_id, machine in sorted(self.runs.items(), key=_run_order):
            if machine.state.status is not RunStatus.WAITING:
                continue
            hostname = machine.spec.hostname
            if hostname in busy or len(busy) >= self.options().parallel_hosts_max:
                continue
            agent = self.agents.get(hostname)
            if agent is None or now_s - agent.seen_at_s > CLAIM_S:
                self.feed(run_id, act.Halt(f"no probe is heard on {hostname}"))
                continue
            missed = () if machine.spec.simulated else self.view.cluster().missed
            if missed and not machine.spec.forced:
                words = ", ".join(item.value for item in missed)
                self.feed(run_id, act.Halt(f"not measured, since this does not hold: {words}"))
                continue
            busy.add(hostname)
            self.note("mgr", run_id, f"started on {hostname} {machine.spec.domain_id}")
            self.feed(run_id, act.Begin())

    # ---- what machines want done

    def execute(self, owner: str, actions: List[act.Action]) -> None:
        """Carry out actions in order; what must be on disk is there before the next one."""
        for action in actions:
            if isinstance(action, act.GiveTask):
                hostname = self._host_of(owner)
                if hostname:
                    self.tasks[hostname] = Pending(owner, Task(action.task_id, action.request))
            elif isinstance(action, act.MeasureLoad):
                self._start_load(owner, action)
            elif isinstance(action, act.AskAnalysis):
                self._start_look(owner, action)
            elif isinstance(action, act.SavePeriod):
                self.archive.put_period(
                    owner, action.experiment_index, action.pair_index, action.second,
                    action.period,
                )
            elif isinstance(action, act.SaveRecord):
                self._save_record(action.record)
            elif isinstance(action, act.SaveRun):
                self._save_owner(owner)
            else:
                self.note("mgr", owner, action.text)

    def _host_of(self, owner: str) -> str:
        if owner in self.runs:
            return self.runs[owner].spec.hostname
        change = self.rollouts[owner].current
        return change.hostname if change else ""

    def _save_owner(self, owner: str) -> None:
        if owner in self.runs:
            machine = self.runs[owner]
            self.archive.put_run(machine.state)
            # only now: a crash before this line must find the periods again
            for index in range(machine.experiment_index):
                self.archive.drop_periods(owner, index)
            if machine.over:
                self._drop_task(owner)
                self.reported_at_s.pop(machine.spec.hostname, None)
        else:
            rollout = self.rollouts[owner]
            self.archive.put_rollout(rollout.rollout)
            if rollout.over:
                self._drop_task(owner)
                for change in rollout.rollout.changes:
                    self.reported_at_s.pop(change.hostname, None)

    def _drop_task(self, owner: str) -> None:
        for hostname in [h for h, pending in self.tasks.items() if pending.owner == owner]:
            del self.tasks[hostname]

    def _start_load(self, owner: str, action: act.MeasureLoad) -> None:
        def done(samples: act.LoadSamples, error: str) -> None:
            event: act.Event = (
                act.LoadFailed(action.token, error)
                if error
                else act.LoadMeasured(action.token, samples)
            )
            self.post_event(owner, event)

        self._loads.start(action.request, done)

    def _start_look(self, owner: str, action: act.AskAnalysis) -> None:
        def done(result: Optional[Dict[str, object]], error: str) -> None:
            self.analysis_error = error
            if result is not None:
                self._looks[action.record.record_id] = (len(action.record.pairs), result)
            stop = bool(result and result.get("stop") is True)
            self.post_event(owner, act.Decided(action.token, stop, error))

        self._analysis.start(action.record, done)

    def _save_record(self, record: Record) -> None:
        ids = self.archive.record_ids()
        oldest = min(ids, key=lambda i: self._ended_at_s(i)) if ids else None
        self.archive.put_record(record, oldest)
        self._final(record)

    def _ended_at_s(self, record_id: str) -> float:
        result = self.results.get(record_id)
        return result.ended_at_s if result else float("inf")

    def _final(self, record: Record) -> None:
        """Have a finished record analysed, or take the look that saw the same pairs."""
        pairs, result = self._looks.pop(record.record_id, (-1, {}))
        if pairs == len(record.pairs):
            self.keep_result(of_record(record, result))
            return
        self.keep_result(not_analysed(record, "being analysed"))

        def done(answer: Optional[Dict[str, object]], error: str) -> None:
            self.analysis_error = error
            kept = not_analysed(record, error) if answer is None else of_record(record, answer)
            self.keep_result(kept)

        self._analysis.start(record, done)

    def keep_result(self, result: Result) -> None:
        """Store a result."""
        with self.lock:
            self.results[result.record_id] = result
            self.archive.put_result(result)

    def cancel_loads(self) -> None:
        """Stop measurements that are under way (freeze, campaign stop, shutdown)."""
        self._loads.cancel_all()

    # ---- what probes hear

    def lease_of(self, hostname: str) -> Optional[Lease]:
        """The live lease of a host."""
        for machine in self.runs.values():
            if machine.holds_lease and machine.spec.hostname == hostname:
                spec = machine.spec
                return Lease(spec.lease_id, spec.domain_id, self.options().lease_ttl_s)
        return None

    def task_for(self, hostname: str, now_s: float) -> Optional[Task]:
        """The task a host should do next: its machine's, else a look around when due."""
        pending = self.tasks.get(hostname)
        if pending is not None:
            return pending.task
        reported = self.reported_at_s.get(hostname)
        due = reported is None or now_s - reported > REPORT_EVERY_S
        if not due or self.lease_of(hostname) is not None:
            return None
        self._serial += 1
        task = Task(f"report.{self.epoch}.{self._serial}", ReportRequest())
        self.tasks[hostname] = Pending("", task)
        return task

    def busy(self, hostname: str) -> bool:
        """Whether a host should poll fast."""
        if self.lease_of(hostname) is not None:
            return True
        return any(
            m.current is not None and not m.over and m.current.hostname == hostname
            for m in self.rollouts.values()
        )

    # ---- the audit log

    def note(self, who: str, what: str, text: str) -> None:
        """Add a line to the audit log, printable and bounded."""
        clean = "".join(c if c.isprintable() else " " for c in text)[:900]
        entry = HistoryEntry(self.clock(), who[:200], what[:200], clean)
        with self.lock:
            self.history.append(entry)
            del self.history[:-1000]
            self.archive.add_history(entry)

    def add_rollout(self, rollout: Rollout) -> RolloutMachine:
        """Store a new plan and return its machine, not started."""
        machine = RolloutMachine(rollout, self.epoch)
        self.rollouts[rollout.plan_id] = machine
        self.archive.put_rollout(rollout)
        return machine


def _run_order(item: Tuple[str, RunMachine]) -> Tuple[float, str]:
    campaign, _, index = item[0].partition(".")
    number = campaign[1:]
    return (
        float(number if number.isdecimal() else 0) * 1e6 + float(index if index.isdecimal() else 0),
        item[0],
    )
