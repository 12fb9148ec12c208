"""What mClock's settings, the caches, and measured capacities say together."""

from __future__ import annotations

import threading
from typing import AbstractSet, Callable, Dict, List, Set, Tuple

from ....core.config_database import Config
from ....core.experiment.observing_run import benches_capacity
from ....core.model import Finding
from ....engine.engine import Engine
from ....engine.storing.archive import Archive, StoredKind
from ....engine.world import World
from ..advice import Basis
from ..capacity import Known, Knowns, Measurement, option, see, settings, stacks
from ..plan import stale
from ..runs import measurement_of

CAPACITY = StoredKind("capacity", Measurement)
KNOWN = StoredKind("mclock/known", Knowns)
# Findings are worked out anew when something they follow from has changed, and at least
# this often, since device classes may change too; at 10,000 OSDs it takes a moment.
FINDINGS_EVERY_S = 600.0
# How old a reading may be while something is found to be wrong.
STALE_READ_S = 60.0
# Capacities kept, the newest of each OSD: three stand for a drive model.
MEASURED_MAX = 300


class MclockFacts:
    """Keeps the newest capacity of each OSD: what runs have measured outlives their campaigns.

    A run is stored with what it measured, so nothing is lost where the mgr stops before this has
    taken it over.  In which setting of the caches each stored value was first seen is kept too: it
    is told of each reading of the config database, from its thread.
    """

    def __init__(
        self, engine: Engine, archive: Archive, compiled_queue: Callable[[], str]
    ) -> None:
        self._engine = engine
        self._archive = archive
        self._lock = threading.Lock()
        self._taken: Set[str] = set()  # runs whose measurement is among `measured`
        self.measured: Dict[int, Measurement] = {}
        self._kept = 0  # counts measurements: there is a new one
        self.compiled_queue = compiled_queue
        self.known: Dict[Tuple[str, str], Known] = {}  # replaced as a whole
        # what they follow from, until when they stand, and the findings: put there at once, for
        # the serve loop and commands both ask
        self._found: Tuple[Tuple[object, ...], float, Tuple[Finding, ...]] = ((), 0.0, ())
        engine.config.on_read.append(self.see)

    def load(self) -> None:
        """Take up what was stored."""
        with self._lock:
            self._taken.clear()
            self.measured = self._archive.numbered(CAPACITY)
        found = self._archive.get(KNOWN) or Knowns()
        self.known = {(k.who, k.name): k for k in found.items}
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
        self._kept += 1
        by_age = sorted(self.measured.values(), key=lambda m: m.ended_at_s)
        for old in by_age[:-MEASURED_MAX]:
            del self.measured[old.osd_id]
            self._archive.drop(CAPACITY, str(old.osd_id))

    def capacities(self, world: World) -> Tuple[Measurement, ...]:
        """What was measured until this look: a run may have ended since the last tick."""
        self.take(world)
        with self._lock:
            return tuple(self.measured.values())

    def see(self, config: Config) -> None:
        """Compare a reading with what was seen before."""
        world = self._engine.world()
        moving = world.leased | world.changing
        known = see(
            self.known, config, world.cluster.osds, settings(world.believed_real, moving)
        )
        if known != self.known:
            self.known = known
            self._archive.put_later(KNOWN, Knowns(tuple(known.values())))
        self._engine.wake()

    def tick(self, world: World) -> None:
        """Take over what was measured, and work out the findings anew where that is due."""
        self.take(world)
        read_at_s = world.config_read_at_s
        if self.stale(world) and read_at_s is not None and world.now_s - read_at_s > STALE_READ_S:
            self._engine.config.read_soon()  # a cure by hand is to be seen soon

    def stale(self, world: World) -> Tuple[Finding, ...]:
        """Stored values that do not fit the mode of the drives."""
        now_s, reports = world.now_s, tuple(world.reports.values())
        # reports are immutable and kept while nothing in them changes
        of = (world.config, self._kept, reports, world.leased | world.changing)
        before, due_s, found = self._found
        if of != before or now_s >= due_s:
            found = stale(self.gather(world)) if world.config.entries else ()
            self._found = of, now_s + FINDINGS_EVERY_S, found
        return found

    def findings(self) -> Tuple[Finding, ...]:
        """Stored values that do not fit the mode of the drives, as last worked out."""
        return self._found[2]

    def gather(self, world: World, with_wanted: bool = False) -> Basis:
        """Everything that advice follows from; `with_wanted` the recommended modes too."""
        reports = world.believed_real
        wanted = {
            (r.device_class, str(r.drive_model)): r.mode
            for r in (world.recommendations if with_wanted else ())
            if r.real and r.mode is not None
        }
        return Basis(
            world.cluster.osds, settings(reports, world.leased | world.changing), stacks(reports),
            world.config, self.capacities(world), self.known, wanted,
            self.compiled_queue(),
        )

    def stale_keys(
        self, world: World, changing: AbstractSet[int], changed: AbstractSet[int]
    ) -> List[str]:
        """OSDs' own stored capacities that a change of the cache mode makes stale.

        Of OSDs whose drives are still to be changed that is every one, of others those that
        are older than a change.
        """
        if not world.config.entries:
            return []
        now = settings(world.believed_real)
        found = []
        for osd_id in sorted({*changing, *changed}):
            for rotational in (True, False):
                who, name = f"osd.{osd_id}", option(rotational)
                entry, known = world.config.at(who, name), self.known.get((who, name))
                older = known is not None and known.setting and known.setting != now.get(osd_id)
                if entry is not None and (osd_id in changing or older):
                    found.append(f"{who} {name}")
        return found
