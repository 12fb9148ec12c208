"""Runs the state machines: hands their actions to the ports and feeds answers back.

One lock guards everything here; nothing slow happens under it.  Measurements and
analyses run elsewhere and put their answers into `events`, which `tick` drains.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from dataclasses import dataclass, replace
from typing import (
    Any,
    Callable,
    Dict,
    List,
    Mapping,
    Optional,
    Protocol,
    Sequence,
    Set,
    Tuple,
    Union,
)

from .archive import HISTORY_MAX, Archive, HistoryEntry
from .core import actions as act
from .core.agents import CLAIM_S, Agents
from .core.campaign import Campaign
from .core.codec import one_line
from .core.errors import StorageError
from .core.model import HostReport
from .core.osds import ClusterView
from .core.policy import Profiles, Recommendation, Result, recommend
from .core.protocol import Lease, ReleaseRequest, ReportRequest, RollbackRequest, Task
from .core.record import Record
from .core.retention import Bounds, surplus
from .core.rollout import Rollout, RolloutMachine
from .core.run import RunMachine, RunStatus
from .options import Options
from .pools import Pools
from .record_keeper import RecordKeeper
from .results import not_analysed, of_record

# A machine that has heard nothing at all for this long is stopped.  Longer than the longest
# measurement: 16 benches of 30 s each (`ceph_command.COMMAND_TIMEOUT_S`).
STALL_S = 900.0
# Notices remembered, so that one that is sent twice is told once.
NOTICES_MAX = 2000
# A host is looked at again this long after its last report.
REPORT_EVERY_S = 600.0
SILENT_ABORT_S = 30.0
# How often a record that could not be analysed is tried again.
ANALYSIS_RETRY_S = 10.0
# How often what the mons did not store is stored again.
SAVE_RETRY_S = 10.0
# How often a pool that failed is tried again.
POOLS_EVERY_S = 60.0
# How often the cluster is looked at while something is measured.
CLUSTER_EVERY_S = 5.0
# A new mgr knows nothing of the PGs until the OSDs have reported (mgr_stats_period).
CLUSTER_GRACE_S = 60.0


Machine = Union[RunMachine, RolloutMachine]
# Tasks that bring a prior state back: given even where nothing can be stored.
RESTORES = (ReleaseRequest, RollbackRequest)


class LoadRunner(Protocol):
    """Port: measures OSDs in the background."""

    def start(
        self, token: str, request: act.LoadRequest,
        done: Callable[[act.LoadSamples, str], None],
    ) -> None:
        """Measure; calls `done(samples, error)` once, from another thread."""

    def cancel(self, token: str) -> None:
        """Stop a measurement as soon as it can be stopped; one that is over is fine."""


class Analysis(Protocol):
    """Port: the statistics, in a child process."""

    def start(
        self, record: Record, done: Callable[[Optional[Dict[str, object]], str], None]
    ) -> None:
        """Analyse; calls `done(result, error)` once, from another thread."""

    def pool(
        self, items: Sequence[Mapping[str, Any]],
        done: Callable[[Optional[Dict[str, object]], str], None],
    ) -> None:
        """Pool results of like drives; calls `done(answer, error)` once, from any thread."""


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
        profiles: Callable[[], Profiles] = dict,
        wake: Callable[[], None] = lambda: None,
        clock: Optional[Callable[[], float]] = None,
        bounds: Bounds = Bounds(),  # noqa: B008  frozen
    ) -> None:
        self.lock = threading.RLock()
        self.archive = archive
        self.view = view
        self.options = options
        self._profiles = profiles
        self.clock = clock or _steady_clock()
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
        self._retry_at_s = 0.0
        self._retries = 0
        self._cluster_at_s = 0.0
        self._trusted_from_s = 0.0
        self.storage_error = ""
        self.records = RecordKeeper(archive, bounds)
        self._bounds = bounds
        self._unsaved_owners: Set[str] = set()
        self._save_at_s = 0.0
        self._prune_due = False
        self.frozen = False
        # what else measures OSDs now, in words: no drive may be toggled meanwhile
        self.reserved = ""
        self._loads = loads
        self._analysis = analysis
        self._pools = Pools(analysis)
        self._pools_at_s = 0.0
        self.wake = wake
        self._events: queue.Queue[Tuple[str, act.Event]] = queue.Queue()
        self._loading: Dict[str, str] = {}
        self._notices: Dict[Tuple[str, str], None] = {}
        self._heard_at_s: Dict[str, float] = {}
        self._looks: Dict[str, Tuple[int, Dict[str, object]]] = {}
        self._serial = 0
        self.epoch = "0"

    # ---- start

    def load(self) -> None:
        """Take up the stored state and go on where the last mgr stopped.

        Raises a WcacheError where it cannot be read; then nothing has begun, and it can be
        called again.
        """
        with self.lock:
            self.runs, self.rollouts = {}, {}
            self.archive.check_version()
            now_s = self.clock()
            self._cluster_at_s = self._trusted_from_s = now_s + CLUSTER_GRACE_S
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
                if state.spec.campaign_id not in self.campaigns:
                    continue  # its campaign was never wholly stored, or cannot be read
                over = state.status in (RunStatus.DONE, RunStatus.ABORTED)
                count = len(state.spec.experiments)
                periods = (
                    [{} for _ in range(count)] if over else self.archive.periods(run_id, count)
                )
                self.runs[run_id] = RunMachine(state, periods, self.epoch)
            resumed = [run_id for run_id, run in self.runs.items() if run.holds_lease]
            resumed += [plan_id for plan_id, plan in self.rollouts.items() if not plan.over]
            for owner in resumed:
                self.note("mgr", owner, "resumed after a restart of the mgr")
                if self.frozen:
                    self.feed(owner, act.Halt("frozen by an admin"))
                self.feed(owner, act.Begin())
            self.records.recover({run_id: m.state for run_id, m in self.runs.items()})
            for record_id in self.archive.record_ids():
                if record_id not in self.results or not self.results[record_id].analysed:
                    self._analyse_again(record_id)
            self.prune()

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
                    self._unstall(run_id, machine, now_s)
                if machine.wake_at_s is not None and machine.wake_at_s <= now_s:
                    self.feed(run_id, act.Tick())
            for plan_id, rollout in list(self.rollouts.items()):
                if rollout.over:
                    continue
                if rollout.current is not None:
                    self._watch(plan_id, rollout.current.hostname, now_s)
                    self._unstall(plan_id, rollout, now_s)
                if rollout.wake_at_s is not None and rollout.wake_at_s <= now_s:
                    self.feed(plan_id, act.Tick())
            self._start_waiting(now_s)
            self._watch_cluster(now_s)
            self._retry_analysis(now_s)
            self._refresh_pools(now_s)
            self._retry_saves(now_s)
            if self._prune_due:
                self.prune()
            return self._next_wake_s(now_s)

    def _watch_cluster(self, now_s: float) -> None:
        """Stop measuring when a precondition breaks meanwhile: benches make it worse."""
        measuring = [
            run_id
            for run_id, machine in self.runs.items()
            if machine.state.status is RunStatus.RUNNING
            and not machine.spec.simulated
            and not machine.spec.forced
        ]
        if not measuring or now_s < self._cluster_at_s:
            return
        self._cluster_at_s = now_s + CLUSTER_EVERY_S
        broken = self.view.cluster().blocking
        for run_id in measuring if broken else ():
            words = ", ".join(item.value for item in broken)
            self.feed(run_id, act.Halt(f"stopped, since this no longer holds: {words}"))

    def _retry_analysis(self, now_s: float) -> None:
        """Try a record again that nobody could analyse: numpy may have been installed."""
        if not self.analysis_error or now_s < self._retry_at_s:
            return
        self._retry_at_s = now_s + ANALYSIS_RETRY_S
        waiting = sorted(key for key, result in self.results.items() if not result.analysed)
        self._retries += 1
        for offset in range(len(waiting)):
            # a record that fails for a reason of its own must not hold up the others
            record = self.archive.record(waiting[(self._retries + offset) % len(waiting)])
            if record is not None:
                self._final(record)
                return
        self.analysis_error = ""  # nothing waits for it any more

    def _refresh_pools(self, now_s: float) -> None:
        """Pool what has changed; a pool that failed is tried again."""
        if now_s >= self._pools_at_s:
            self._pools_at_s = now_s + POOLS_EVERY_S
            self._pools.refresh(tuple(self.results.values()))

    def _retry_saves(self, now_s: float) -> None:
        """Store what the mons did not take before."""
        if now_s < self._save_at_s:
            return
        self._save_at_s = now_s + SAVE_RETRY_S
        for owner in sorted(self._unsaved_owners):
            if owner not in self.runs and owner not in self.rollouts:
                self._unsaved_owners.discard(owner)  # forgotten meanwhile
                continue
            with contextlib.suppress(StorageError):
                self._save_owner(owner)
        if self.records.unsaved:
            for record in self.records.retry(self._ended_at_s()):
                self._final(record)
            self._stored()

    def _stored(self) -> None:
        """The store takes values: nothing is wrong with it, once nothing waits for it."""
        if not self._unsaved_owners and not self.records.unsaved:
            self.storage_error = ""

    def prune(self) -> None:
        """Forget what is beyond the bounds of `core/retention.py`."""
        with self.lock:
            self._prune_due = False
            gone = surplus(
                self.campaigns, {run_id: m.state for run_id, m in self.runs.items()},
                self.results, {plan_id: m.rollout for plan_id, m in self.rollouts.items()},
                self._bounds,
            )
            for result_id in gone.result_ids:
                del self.results[result_id]
                self.archive.drop_result(result_id)
            for run_id in gone.run_ids:
                del self.runs[run_id]
                self.archive.drop_run(run_id)
            # the header goes last: a mgr lost in between prunes its campaign again
            for campaign_id in gone.campaign_ids:
                del self.campaigns[campaign_id]
                self.archive.drop_campaign(campaign_id)
            for plan_id in gone.plan_ids:
                del self.rollouts[plan_id]
                self.archive.drop_rollout(plan_id)

    def _next_wake_s(self, now_s: float) -> Optional[float]:
        due = [m.wake_at_s for m in self.runs.values() if m.wake_at_s is not None]
        due += [m.wake_at_s for m in self.rollouts.values() if m.wake_at_s is not None]
        return max(0.001, min(due) - now_s) if due else None

    def feed(self, owner: str, event: act.Event) -> None:
        """Give an event to a run or rollout and execute what it wants."""
        with self.lock:
            machine = self.runs.get(owner) or self.rollouts.get(owner)
            if machine is None:
                return
            token = event.token if isinstance(event, (act.LoadMeasured, act.LoadFailed)) else None
            if token is not None and self._loading.get(owner) == token:
                del self._loading[owner]
            actions = machine.handle(event, self.clock())
            if actions:
                self._heard_at_s[owner] = self.clock()
            self.execute(owner, actions)

    @property
    def active(self) -> bool:
        """Whether something is under way, so that time matters."""
        if self.reserved:
            return True
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

    def _unstall(self, owner: str, machine: Machine, now_s: float) -> None:
        """Stop what waits for an answer that will not come, so that no lease is held for ever."""
        heard_at_s = self._heard_at_s.setdefault(owner, now_s)
        if machine.wake_at_s is not None or now_s - heard_at_s <= STALL_S:
            return
        self._heard_at_s[owner] = now_s
        said = f"nothing has happened for {STALL_S:.0f} s"
        releasing = isinstance(machine, RunMachine) and machine.state.status is RunStatus.RELEASING
        forgets = releasing or isinstance(machine, RolloutMachine)
        self.feed(owner, act.AgentSilent(said) if forgets else act.Halt(said))

    def _start_waiting(self, now_s: float) -> None:
        if self.frozen or any(not m.over for m in self.rollouts.values()):
            return
        if all(m.state.status is not RunStatus.WAITING for m in self.runs.values()):
            return
        cluster_missed = self.view.cluster().blocking
        throwaway = self.options().throwaway_cluster
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
            if machine.spec.throwaway and not throwaway:
                self.feed(run_id, act.Halt("throwaway_cluster was set when this was planned"))
                continue
            missed = () if machine.spec.simulated else cluster_missed
            if missed and not machine.spec.forced:
                if now_s < self._trusted_from_s:
                    continue
                words = ", ".join(item.value for item in missed)
                self.feed(run_id, act.Halt(f"not measured, since this does not hold: {words}"))
                continue
            busy.add(hostname)
            self.note("mgr", run_id, f"started on {hostname} {machine.spec.domain_id}")
            self.feed(run_id, act.Begin())

    # ---- what machines want done

    def execute(self, owner: str, actions: List[act.Action]) -> None:
        """Carry out actions in order; what must be on disk is there before the next one."""
        for index, action in enumerate(actions):
            try:
                self._do(owner, action)
            except StorageError as error:
                self._unsaved(owner, error, actions[index + 1 :])
                return

    def _unsaved(self, owner: str, error: StorageError, rest: List[act.Action]) -> None:
        """Nothing new is begun that cannot be stored; what is under way is restored."""
        self.storage_error = error.line()
        if not any(isinstance(a, act.GiveTask) and isinstance(a.request, RESTORES) for a in rest):
            machine = self.runs.get(owner) or self.rollouts[owner]
            rest = machine.handle(act.Halt(f"stopped: {error.message}"), self.clock())
        for action in rest:
            with contextlib.suppress(StorageError):
                self._do(owner, action)

    def _do(self, owner: str, action: act.Action) -> None:
        if isinstance(action, act.GiveTask):
            self._cancel_load(owner)
            hostname = self._host_of(owner)
            if hostname:
                self.tasks[hostname] = Pending(owner, Task(action.task_id, action.request))
        elif isinstance(action, act.MeasureLoad):
            self._start_load(owner, action)
        elif isinstance(action, act.AskAnalysis):
            self._start_look(owner, action)
        elif isinstance(action, act.SavePeriod):
            self.archive.put_period(
                owner, action.experiment_index, action.pair_index, action.second, action.period,
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
        self._unsaved_owners.add(owner)
        if owner in self.runs:
            machine = self.runs[owner]
            if machine.over:
                self._let_go(owner, {machine.spec.hostname})
            self.archive.put_run(machine.state)
            # only now: a crash before this line must find the periods again
            ended = len(machine.spec.experiments) if machine.over else machine.experiment_index
            for index in range(ended) if machine.over else range(max(0, ended - 1), ended):
                self.records.drop_periods(owner, index)
            self._prune_due = self._prune_due or machine.over
        else:
            rollout = self.rollouts[owner]
            if rollout.over:
                self._let_go(owner, {change.hostname for change in rollout.rollout.changes})
            self.archive.put_rollout(rollout.rollout)
        self._unsaved_owners.discard(owner)
        self._stored()

    def _let_go(self, owner: str, hostnames: Set[str]) -> None:
        """The machine is over: nothing of it is left to do, and its hosts are looked at again."""
        self._drop_task(owner)
        self._cancel_load(owner)
        self._heard_at_s.pop(owner, None)
        for hostname in hostnames:
            self.reported_at_s.pop(hostname, None)

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

        self._cancel_load(owner)
        self._loading[owner] = action.token
        self._loads.start(action.token, action.request, done)

    def _cancel_load(self, owner: str) -> None:
        token = self._loading.pop(owner, None)
        if token is not None:
            self._loads.cancel(token)

    def _start_look(self, owner: str, action: act.AskAnalysis) -> None:
        def done(result: Optional[Dict[str, object]], error: str) -> None:
            self.analysis_error = error
            if result is not None:
                self._looks[action.record.record_id] = (len(action.record.pairs), result)
            stop = bool(result and result.get("stop") is True)
            self.post_event(owner, act.Decided(action.token, stop, error))

        self._analysis.start(action.record, done)

    def _save_record(self, record: Record) -> None:
        for side in self.records.take(record):
            self.records.save(side, self._ended_at_s())
            self._final(side)

    def _ended_at_s(self) -> Dict[str, float]:
        return {record_id: result.ended_at_s for record_id, result in self.results.items()}

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
        """Store a result; one that is lost is analysed again from its record."""
        with self.lock:
            self.results[result.record_id] = result
            self._pools_at_s = 0.0
            self.wake()
            try:
                self.archive.put_result(result)
            except StorageError as error:
                self.storage_error = error.line()

    def cancel_loads(self) -> None:
        """Stop every measurement that is under way: the mgr stops."""
        with self.lock:
            for owner in list(self._loading):
                self._cancel_load(owner)

    # ---- what probes hear

    def lease_of(self, hostname: str) -> Optional[Lease]:
        """The live lease of a host."""
        for machine in self.runs.values():
            if machine.holds_lease and machine.spec.hostname == hostname:
                spec = machine.spec
                other = spec.domain_ids[1] if len(spec.domain_ids) > 1 else ""
                return Lease(spec.lease_id, spec.domain_id, self.options().lease_ttl_s, other)
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

    def seen_notice(self, probe_id: str, notice_id: str, mark: bool = True) -> bool:
        """Whether a probe's notice was taken before; remembers it with `mark`."""
        key = (probe_id, notice_id)
        seen = key in self._notices
        if mark and not seen:
            self._notices[key] = None
            for old in list(self._notices)[:-NOTICES_MAX]:
                del self._notices[old]
        return seen

    def note_restored(self, hostname: str, domain_id: str) -> None:
        """A probe says that a prior state is back: runs that ended in doubt are cleared."""
        for run_id, machine in self.runs.items():
            mine = machine.spec.hostname == hostname and domain_id in machine.spec.domain_ids
            if mine and machine.over and not machine.state.restored:
                machine.confirm(domain_id)
                self.execute(run_id, [act.SaveRun()])

    # ---- the audit log

    def recommendations(self) -> Tuple[Recommendation, ...]:
        """What should be, from all results and the loads that are known."""
        with self.lock:
            return recommend(
                tuple(self.results.values()), self._profiles(), self._pools.known()
            )

    def note(self, who: str, what: str, text: str) -> None:
        """Add a line to the audit log, printable and bounded."""
        entry = HistoryEntry(
            self.clock(), one_line(who, 200), one_line(what, 200), one_line(text, 900)
        )
        with self.lock:
            self.history.append(entry)
            del self.history[:-HISTORY_MAX]
            try:
                self.archive.add_history(entry)
            except StorageError as error:
                self.storage_error = error.line()  # the log must not stop what it tells of

    def add_rollout(self, rollout: Rollout) -> RolloutMachine:
        """Store a new plan and return its machine, not started."""
        machine = RolloutMachine(rollout, self.epoch)
        self.archive.put_rollout(rollout)
        self.rollouts[rollout.plan_id] = machine
        self.prune()
        return machine


def _steady_clock() -> Callable[[], float]:
    """Wall-clock time that never steps: a set clock must not end or prolong a period."""
    offset_s = time.time() - time.monotonic()
    return lambda: offset_s + time.monotonic()


def _run_order(item: Tuple[str, RunMachine]) -> Tuple[float, str]:
    campaign, _, index = item[0].partition(".")
    number = campaign[1:]
    return (
        float(number if number.isdecimal() else 0) * 1e6 + float(index if index.isdecimal() else 0),
        item[0],
    )
