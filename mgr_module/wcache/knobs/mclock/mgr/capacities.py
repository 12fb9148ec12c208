"""Keeps the newest capacity of each OSD: what runs have measured outlives their campaigns."""

from __future__ import annotations

import threading
from typing import Dict, List, Optional, Set, Tuple

from ....core.experiment.campaign import Campaign
from ....core.experiment.observing.capacity_run import benches_capacity
from ....core.experiment.run import RunMachine
from ....engine.engine import Engine
from ....engine.storing.archive import Archive, StoredKind
from ....engine.world import World
from ..capacity import Measurement
from ..runs import is_measurement, measurement_of

CAPACITY = StoredKind("capacity", Measurement)

# Capacities kept, the newest of each OSD: three stand for a drive model.
MEASURED_MAX = 300


class Capacities:
    """What was measured, from Worlds; guarded by a lock of its own.

    A run is stored with what it measured, so nothing is lost where the mgr stops before this
    has taken it over.
    """

    def __init__(self, engine: Engine, archive: Archive) -> None:
        self._engine = engine
        self._archive = archive
        self._lock = threading.Lock()
        self._taken: Set[str] = set()  # runs whose measurement is among `measured`
        self.measured: Dict[int, Measurement] = {}
        self.kept = 0  # counts measurements, so that others see when there is a new one

    def load(self) -> None:
        """Take up what was stored."""
        with self._lock:
            self._taken.clear()
            self.measured = self._archive.numbered(CAPACITY)
        self.take(self._engine.world())

    def take(self, world: World) -> None:
        """Keep what runs have measured since."""
        with self._lock:
            self._taken &= set(world.runs)
            for run_id, run in world.runs.items():
                if run_id in self._taken or not run.over or not benches_capacity(run.spec):
                    continue
                self._taken.add(run_id)
                for seen in run.state.observed:
                    found = measurement_of(run.spec, seen)
                    if found is not None:
                        self._keep(found)

    def _keep(self, found: Measurement) -> None:
        before = self.measured.get(found.osd_id)
        if before is not None and before.ended_at_s >= found.ended_at_s:
            return
        self._archive.put_later(CAPACITY, found)
        self.measured[found.osd_id] = found
        self.kept += 1
        by_age = sorted(self.measured.values(), key=lambda m: m.ended_at_s)
        for old in by_age[:-MEASURED_MAX]:
            del self.measured[old.osd_id]
            self._archive.drop(CAPACITY, str(old.osd_id))

    def now(self, world: World) -> Tuple[Measurement, ...]:
        """What was measured until this look: a run may have ended since the last tick."""
        self.take(world)
        with self._lock:
            return tuple(self.measured.values())


def newest(world: World) -> Optional[Campaign]:
    """The newest campaign that measures capacities."""
    found = [c for c in world.campaigns.values() if is_measurement(c)]
    found.sort(key=lambda c: (c.created_at_s, len(c.campaign_id), c.campaign_id))
    return found[-1] if found else None


def runs_of(world: World, campaign: Campaign) -> List[RunMachine]:
    """Its runs, in order."""
    return [world.runs[run_id] for run_id in campaign.run_ids if run_id in world.runs]


def under_way(world: World) -> Optional[Campaign]:
    """The campaign that measures capacities now, if one does."""
    campaign = newest(world)
    if campaign is None or all(run.over for run in runs_of(world, campaign)):
        return None
    return campaign
