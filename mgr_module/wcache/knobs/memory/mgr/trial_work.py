"""Carries out a trial of a larger target: its machine's actions, in order.

OSDs are asked in threads.  Nothing is leased before the mons have stored the trial; taking
leases back waits for nobody but a lease that an OSD is being given at that moment, since what
is taken back must stay back.
"""

from __future__ import annotations

import queue
import threading
from functools import partial
from typing import Callable, Dict, List, Optional, Tuple, Union

from ....core.agents import MEMORY_UNTOLD_S
from ....core.errors import StorageError
from ....core.fleet.claims import believed
from ....core.ports import Done
from ....core.precondition_text import no_longer_met
from ....core.simulation import real
from ....engine.engine import Engine
from .. import trial as tr
from ..knob import MEMORY
from ..reading import OsdReading
from ..trial_result import TrialResult, TrialResults
from ..trial_room import crowded
from .archive import MemoryArchive
from .osds import OsdMemory

CLUSTER_EVERY_S = 5.0
RESULTS_MAX = 100
Runner = Callable[[Callable[[], object]], None]


def in_thread(what: Callable[[], object]) -> None:
    """Run something where it may wait."""
    threading.Thread(target=what, daemon=True, name="wcache-memory-trial").start()


class TrialWork:
    """The trial under way and what trials have told; guarded by the engine's lock."""

    def __init__(
        self, *, engine: Engine, reader: OsdMemory, run: Runner = in_thread
    ) -> None:
        self._engine = engine
        self._archive = MemoryArchive(engine.archive)
        self._reader = reader
        self._run = run
        self._events: queue.Queue[tr.Event] = queue.Queue()
        self._waiting: List[Union[tr.Lease, tr.ReadOsds]] = []  # for the mons to store
        self._unstored = 0
        self._cluster_at_s = 0.0
        self._leasing = threading.Lock()
        self._up_from: Dict[int, int] = {}  # when the trial began
        # its OSDs by the host that tells of their memory, and since when that is asked
        self._on: Dict[str, List[int]] = {}
        self._asked_at_s = 0.0
        self.machine: Optional[tr.TrialMachine] = None
        self.results: Tuple[TrialResult, ...] = ()

    def load(self) -> None:
        """Take up what was stored; leases of a trial that was under way go back."""
        engine = self._engine
        with engine.lock:
            self.results = self._archive.results()
            stored = self._archive.trial()
            self.machine = None
            if stored is not None:
                self.machine = tr.TrialMachine(stored, engine.epoch)
                self._do(self.machine.begin(engine.clock()))

    def start(self, trial: tr.Trial) -> None:
        """Begin a new trial."""
        with self._engine.lock:
            self.machine = tr.TrialMachine(trial, self._engine.epoch)
            self._up_from = self._ups(trial)
            self._on, self._asked_at_s = self._places(trial), self._engine.clock()
            self._do(self.machine.start(self._engine.clock()))

    def halt(self, reason: str) -> bool:
        """End what is under way; whether there was something."""
        with self._engine.lock:
            machine = self.machine
            if machine is None or machine.trial.status is not tr.TrialStatus.RUNNING:
                return False
            self._do(machine.halt(reason, self._engine.clock()))
            return True

    def tick(self) -> None:
        """Take what OSDs have said, and let time pass."""
        engine = self._engine
        with engine.lock:
            now_s = engine.clock()
            while not self._events.empty():
                event = self._events.get_nowait()
                if self.machine is not None:
                    self._do(self.machine.handle(event, now_s))
            if self.machine is None or self.machine.over:
                return
            if engine.frozen:
                self.halt("frozen by an admin")
            elif now_s >= self._cluster_at_s:
                self._cluster_at_s = now_s + CLUSTER_EVERY_S
                self._look()
            self._look_at_hosts(now_s)
            self._do(self.machine.tick(now_s))

    def _look(self) -> None:
        """End it where the cluster is not fit for it any more, or an OSD began anew."""
        machine = self.machine
        if machine is None or machine.trial.status is not tr.TrialStatus.RUNNING:
            return
        broken = self._engine.view.cluster().blocking
        if broken:
            self.halt(no_longer_met(broken))
            return
        now = self._ups(machine.trial)
        for osd_id, since in self._up_from.items():
            if now.get(osd_id) != since:
                self.halt(f"osd.{osd_id} was restarted")
                return

    def _look_at_hosts(self, now_s: float) -> None:
        """End it where its hosts run out of memory, or one of them does not tell."""
        machine = self.machine
        if machine is None or machine.trial.status is not tr.TrialStatus.RUNNING:
            return
        for hostname, osd_ids in self._on.items():
            told_at_s, memory = self._engine.hosts.memory.get(hostname, (self._asked_at_s, None))
            if now_s - told_at_s > MEMORY_UNTOLD_S:
                self.halt(
                    f"the probe of {hostname} has not reported its memory for "
                    f"{MEMORY_UNTOLD_S:g} s"
                )
                return
            why = crowded(osd_ids, machine.trial.high_bytes, memory) if memory else ""
            if why:
                self.halt(why)
                return

    def _places(self, trial: tr.Trial) -> Dict[str, List[int]]:
        """By the name that a probe has for its host, which need not be Ceph's."""
        cluster, reports = self._engine.view.cluster(), self._engine.hosts.reports
        found: Dict[str, List[int]] = {}
        by_osd = {
            use.osd_id: report.hostname for report in real(believed(reports.values(), cluster))
            for drive in report.drives for use in drive.uses
        }
        for osd_id in trial.osd_ids:
            hostname = by_osd.get(osd_id) or cluster.osds[osd_id].hostname
            found.setdefault(hostname, []).append(osd_id)
        return found

    def _ups(self, trial: tr.Trial) -> Dict[int, int]:
        osds = self._engine.view.cluster().osds
        return {osd_id: osds[osd_id].up_from for osd_id in trial.osd_ids if osd_id in osds}

    def close(self) -> None:
        """The mgr stops: every lease is taken back now, as far as Ceph lets it."""
        with self._engine.lock:
            machine = self.machine
            if machine is None or machine.over:
                return
            machine.halt("the mgr stops", self._engine.clock())
            owed = machine.trial.owed
        # not waited for: the next mgr has the trial stored and takes them back again
        for osd_id in owed:
            self._run(partial(self._give_back, osd_id))

    def _do(self, actions: List[tr.Action]) -> None:
        engine, machine = self._engine, self.machine
        if machine is None:
            return
        for action in actions:
            if isinstance(action, tr.SaveTrial):
                self._unstored += 1
                self._archive.put_trial(machine.trial, self._done())
            elif isinstance(action, tr.Keep):
                self.results = (*self.results, action.result)[-RESULTS_MAX:]
                self._archive.put_results(TrialResults(self.results))
            elif isinstance(action, tr.Say):
                engine.note("mgr", machine.trial.trial_id, action.text)
            elif isinstance(action, tr.Lease) and action.target_bytes is None:
                self._ask(action)
            else:
                self._waiting.append(action)
        self._go_on()
        engine.hear_store()
        self._reserve()

    def _done(self) -> Done:
        def told(error: Optional[StorageError]) -> None:
            with self._engine.lock:
                if error is not None:
                    self._waiting.clear()
                    self.halt(f"stopped: {error.message}")
                self._unstored -= 1
                self._go_on()
            self._engine.wake()

        return told

    def _go_on(self) -> None:
        if not self._unstored:
            waiting, self._waiting = self._waiting, []
            for action in waiting:
                self._ask(action)

    def _ask(self, action: Union[tr.Lease, tr.ReadOsds]) -> None:
        self._run(lambda: self._asked(action))

    def _asked(self, action: Union[tr.Lease, tr.ReadOsds]) -> None:
        event: tr.Event
        if isinstance(action, tr.Lease):
            with self._leasing:
                event = tr.Leased(action.token, {
                    osd_id: self._lease(osd_id, action) for osd_id in action.osd_ids
                })
        else:
            read = {osd_id: self._read(osd_id) for osd_id in action.osd_ids}
            event = tr.Read(action.token, {i: r for i, r in read.items() if r is not None})
        self._events.put(event)
        self._engine.wake()

    def _read(self, osd_id: int) -> Optional[OsdReading]:
        try:
            return self._reader.read(osd_id)
        except Exception as error:
            # a thread's exception would go nowhere, and the lease stay for ever
            self._engine.log.warning(f"reading the memory of osd.{osd_id} failed: {error!r}")
            return None

    def _lease(self, osd_id: int, action: tr.Lease) -> str:
        """Why an OSD has it not.  Whoever ends the trial meanwhile takes back what there is."""
        machine = self.machine
        if machine is None or not machine.expects(action.token):
            return "the trial has ended"
        return self._leased(osd_id, action.target_bytes)

    def _give_back(self, osd_id: int) -> None:
        with self._leasing:
            pass  # what is being leased at this moment comes first, and nothing after it
        self._leased(osd_id, None)

    def _leased(self, osd_id: int, target_bytes: Optional[int]) -> str:
        """Why an OSD has it not; one that is not in the cluster any more owes nothing."""
        osd = self._engine.view.cluster().osds.get(osd_id)
        if target_bytes is None and osd is None:
            return ""
        try:
            return self._reader.lease(osd_id, target_bytes)
        except Exception as error:
            # a thread's exception would go nowhere, and the trial wait for ever
            return f"osd.{osd_id}: {error!r}"[:300]

    def _reserve(self) -> None:
        """Nothing else may measure meanwhile; who owes a lease to OSDs that are down can wait."""
        engine, machine = self._engine, self.machine
        running = machine is not None and machine.trial.status is tr.TrialStatus.RUNNING
        engine.hosts.watch_memory(self._on if running else ())
        words = ""
        if machine is not None and not machine.over and not self._waits_for_osds(machine.trial):
            words = f"memory trial {machine.trial.trial_id}"
        engine.claim(MEMORY.name, words)

    def _waits_for_osds(self, trial: tr.Trial) -> bool:
        """Whether all that is left to be taken back is at OSDs that are down."""
        osds = self._engine.view.cluster().osds
        return trial.status is tr.TrialStatus.ENDING and bool(trial.owed) and not any(
            osd_id in osds and osds[osd_id].up for osd_id in trial.owed
        )
