"""Trials of a larger target in a mgr: what asks their OSDs, what ends one, what they have told.

The engine carries out the machine.  OSDs are asked in threads; taking leases back waits for
nobody but a lease that an OSD is being given at that moment, since what is taken back must stay
back.
"""

from __future__ import annotations

import logging
import threading
from functools import partial
from typing import Callable, Dict, Iterable, List, Optional, Tuple

from ....core.change.preconditions import no_longer_met
from ....core.cluster import ClusterView
from ....core.errors import RefusedError
from ....core.events import STOP
from ....core.fleet.agents import MEMORY_UNTOLD_S
from ....engine.engine import Engine
from ....engine.measuring import TrialKind
from ....engine.orders import Orders
from ....engine.storing.archive import Archive, StoredKind
from ....engine.world import World
from ..knob import MEMORY
from ..reading import OsdReading
from ..trial import KEY, Lease, Leased, Read, ReadOsds, Trial, TrialMachine, TrialStatus
from ..trial_result import TrialResult, TrialResults
from .osds import OsdMemory
from .trial_choice import crowded

TRIAL = StoredKind(KEY, Trial)
RESULTS = StoredKind("memory/results", TrialResults)
CLUSTER_EVERY_S = 5.0
RESULTS_MAX = 100
Runner = Callable[[Callable[[], object]], None]


def in_thread(what: Callable[[], object]) -> None:
    """Run something where it may wait."""
    threading.Thread(target=what, daemon=True, name="wcache-memory-trial").start()


class TrialOsds:
    """Asks the OSDs of a trial: the port `OsdWork`."""

    def __init__(
        self, *, view: ClusterView, log: logging.Logger, reader: OsdMemory,
        run: Runner = in_thread,
    ) -> None:
        self._view = view
        self._log = log
        self._reader = reader
        self._run = run
        self._leasing = threading.Lock()

    def ask(
        self, request: object, goes_on: Callable[[], bool], done: Callable[[object], None]
    ) -> None:
        """See OsdWork."""
        self._run(lambda: self._asked(request, goes_on, done))

    def close(self, owed: Iterable[int]) -> None:
        """The mgr stops: every lease is taken back now, as far as Ceph lets it.

        Not waited for: the next mgr has the trial stored and takes them back again.
        """
        for osd_id in owed:
            self._run(partial(self._give_back, osd_id))

    def _asked(
        self, request: object, goes_on: Callable[[], bool], done: Callable[[object], None]
    ) -> None:
        if isinstance(request, Lease):
            with self._leasing:
                errors = {
                    osd_id: self._lease(osd_id, request.target_bytes)
                    if goes_on() else "the trial has ended"
                    for osd_id in request.osd_ids
                }
            osds = self._view.cluster().osds
            down = (i for i in request.osd_ids if i not in osds or not osds[i].up)
            done(Leased(errors, tuple(down)))
        elif isinstance(request, ReadOsds):
            read = {osd_id: self._read(osd_id) for osd_id in request.osd_ids}
            done(Read({i: reading for i, reading in read.items() if reading is not None}))

    def _read(self, osd_id: int) -> Optional[OsdReading]:
        try:
            return self._reader.read(osd_id)
        except Exception as error:
            # a thread's exception would go nowhere, and the lease stay for ever
            self._log.warning(f"reading the memory of osd.{osd_id} failed: {error!r}")
            return None

    def _give_back(self, osd_id: int) -> None:
        with self._leasing:
            pass  # what is being leased at this moment comes first, and nothing after it
        self._lease(osd_id, None)

    def _lease(self, osd_id: int, target_bytes: Optional[int]) -> str:
        """Why an OSD has it not; one that is not in the cluster any more owes nothing."""
        if target_bytes is None and osd_id not in self._view.cluster().osds:
            return ""
        try:
            return self._reader.lease(osd_id, target_bytes)
        except Exception as error:
            # a thread's exception would go nowhere, and the trial wait for ever
            return f"osd.{osd_id}: {error!r}"[:300]


class Trials:
    """Begins and ends trials, and keeps what they have told."""

    def __init__(self, *, engine: Engine, archive: Archive, osds: TrialOsds) -> None:
        self._engine = engine
        self._archive = archive
        self._osds = osds
        self._cluster_at_s = 0.0
        self._up_from: Dict[int, int] = {}  # when the trial began
        # its OSDs by the host that tells of their memory, and since when that is asked
        self._on: Dict[str, List[int]] = {}
        self._asked_at_s = 0.0
        self.results: Tuple[TrialResult, ...] = ()
        engine.trial_kinds[MEMORY.name] = TrialKind(TRIAL, TrialMachine, osds)

    def load(self) -> None:
        """Take up what trials have told."""
        self.results = (self._archive.get(RESULTS) or TrialResults()).items

    def start(self, trial: Trial, world: World, orders: Orders) -> None:
        """Begin a new trial; its OSDs may have fallen ill since they were chosen."""
        for osd_id, why in world.cluster.illness(trial.osd_ids).items():
            raise RefusedError(f"osd.{osd_id} {why}", "wait until it is well, or try it anew")
        self._up_from = _ups(trial, world)
        self._on, self._asked_at_s = _places(trial, world), world.now_s
        self._cluster_at_s = 0.0
        orders.begin_trial(MEMORY.name, trial)

    def stop(self, world: World) -> bool:
        """End what is under way; whether there was something."""
        trial = last_trial(world)
        if trial is None:
            return False
        with self._engine.orders() as orders:
            return orders.end_trial(trial.trial_id, STOP.reason)

    def tick(self, world: World) -> None:
        """End a trial that must not go on, and keep what one has told."""
        trial = last_trial(world)
        if trial is not None and trial.measured:
            self._keep(trial, world.now_s)
        why, running = "", trial is not None and trial.status is TrialStatus.RUNNING
        if trial is not None and running:
            why = self._unfit(trial, world) or self._crowded(trial, world)
        with self._engine.orders() as orders:
            if trial is not None and why:
                orders.end_trial(trial.trial_id, why)
            orders.executor.hosts.watch_memory(self._on if running and not why else ())

    def close(self, world: World) -> None:
        """The mgr stops."""
        trial = last_trial(world)
        if trial is not None and trial.status in (TrialStatus.RUNNING, TrialStatus.ENDING):
            self._osds.close(trial.owed)

    def _keep(self, trial: Trial, now_s: float) -> None:
        if all(item.trial_id != trial.trial_id for item in self.results):
            self.results = (*self.results, trial.result(now_s))[-RESULTS_MAX:]
            self._archive.put_later(RESULTS, TrialResults(self.results))

    def _unfit(self, trial: Trial, world: World) -> str:
        """Why the cluster is not fit for it any more, or that an OSD began anew."""
        if world.now_s < self._cluster_at_s:
            return ""
        self._cluster_at_s = world.now_s + CLUSTER_EVERY_S
        if world.cluster.blocking:
            return no_longer_met(world.cluster.blocking, world.cluster.sick)
        for osd_id, why in world.cluster.illness(trial.osd_ids).items():
            return f"osd.{osd_id} {why}"
        now = _ups(trial, world)
        return next((
            f"osd.{osd_id} was restarted" for osd_id, since in self._up_from.items()
            if now.get(osd_id) != since
        ), "")

    def _crowded(self, trial: Trial, world: World) -> str:
        """Why its hosts run out of memory, or that one of them does not tell."""
        for hostname, osd_ids in self._on.items():
            told_at_s, memory = world.host_memory.get(hostname, (self._asked_at_s, None))
            if world.now_s - told_at_s > MEMORY_UNTOLD_S:
                return (
                    f"the probe of {hostname} has not reported its memory for "
                    f"{MEMORY_UNTOLD_S:g} s"
                )
            why = crowded(osd_ids, trial.high_bytes, memory) if memory else ""
            if why:
                return why
        return ""


def last_trial(world: World) -> Optional[Trial]:
    """The last trial of a larger target, over or not."""
    found = (machine.state for machine in world.trials.values())
    return next((state for state in found if isinstance(state, Trial)), None)


def _places(trial: Trial, world: World) -> Dict[str, List[int]]:
    """By the name that a probe has for its host, which need not be Ceph's."""
    found: Dict[str, List[int]] = {}
    for osd_id in trial.osd_ids:
        hostname = world.told_by.get(osd_id) or world.cluster.osds[osd_id].hostname
        found.setdefault(hostname, []).append(osd_id)
    return found


def _ups(trial: Trial, world: World) -> Dict[int, int]:
    osds = world.cluster.osds
    return {osd_id: osds[osd_id].up_from for osd_id in trial.osd_ids if osd_id in osds}
