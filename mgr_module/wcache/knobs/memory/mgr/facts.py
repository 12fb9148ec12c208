"""What is known of memory, gathered from readings, probes, maps and the config database."""

from __future__ import annotations

import threading
from typing import Callable, Dict, List, Optional, Tuple

from ....ceph.surroundings import Surroundings
from ....core.cluster import OsdInfo
from ....core.config_database import Config
from ....core.fleet.claims import speaking_for
from ....core.hardware.readings import HostMemory
from ....core.model import Finding
from ....engine.storing.archive import Archive, StoredKind
from ....engine.world import World
from ..facts import (
    LABELS,
    OPT_OUT_LABEL,
    Facts,
    HostFacts,
    OsdFacts,
    daemons_of,
    is_autotuned,
)
from ..findings import findings, outdated
from ..knob import MEMORY, MemoryOptions
from ..promise import PROMISES_MAX, Promise, Promises
from ..room import Limits
from .trial_work import Trials
from .watch import MemoryWatch

PROMISES = StoredKind("memory/promises", Promises)
FINDINGS_EVERY_S = 60.0


class KeptPromises:
    """Keeps what plans have promised, here and on the mons.

    Guarded by a lock of its own, which is held for a moment.
    """

    def __init__(self, archive: Archive) -> None:
        self._lock = threading.Lock()
        self._archive = archive
        self.all: Tuple[Promise, ...] = ()

    def load(self) -> None:
        """Take up what was stored."""
        with self._lock:
            self.all = (self._archive.get(PROMISES) or Promises()).items

    def change(self, change: Callable[[Tuple[Promise, ...]], Tuple[Promise, ...]]) -> None:
        """Keep the newest of what `change` makes of them, and store it where it differs."""
        with self._lock:
            promises = change(self.all)[-PROMISES_MAX:]
            if promises != self.all:
                self.all = promises
                self._archive.put_later(PROMISES, Promises(promises))


class MemoryFacts:
    """Reads what is known and what the watch has read; changes nothing."""

    def __init__(
        self, *, watch: MemoryWatch, trials: Trials,
        promises: KeptPromises, surroundings: Surroundings, wall: Callable[[], float],
    ) -> None:
        self._watch = watch
        self._trials = trials
        self._surroundings = surroundings
        self._wall = wall
        self._findings: Tuple[Finding, ...] = ()
        self._of: Tuple[object, ...] = ()
        self._due_s = float("-inf")
        self._promises = promises
        # Hosts that ask for a new division, and can have one now, with their device classes.
        self.to_divide: Tuple[Tuple[str, Tuple[str, ...]], ...] = ()

    @property
    def promises(self) -> Tuple[Promise, ...]:
        """What plans have promised, whatever became of it."""
        return self._promises.all

    def tick(self, world: World) -> None:
        """Work out the findings anew where something was read since."""
        now_s = world.now_s
        of = (self._watch.read_at_s, world.config, self.promises)
        if of != self._of or now_s >= self._due_s:
            self._of, self._due_s = of, now_s + FINDINGS_EVERY_S
            facts, promises = self.gather(world), self.standing(world)
            self._findings = findings(facts, promises) if self._watch.read_at_s else ()
            self.to_divide = outdated(facts, promises) if self._watch.read_at_s else ()

    def standing(self, world: World) -> List[Promise]:
        """What plans that were carried out have promised; of several, the last one counts."""
        done = {
            plan.plan_id for plan in world.plans
            if plan.plan_id not in world.open_plans and any(
                c.knob == MEMORY.name for c in plan.touched
            )
        }
        return list({
            (item.host, item.device_class): item
            for item in self.promises if item.plan_id in done
        }.values())

    def findings(self) -> Tuple[Finding, ...]:
        """As last worked out."""
        return self._findings

    def gather(self, world: World) -> Facts:
        """Everything that advice follows from."""
        memory = _memory_of(world)
        orchestrator = self._surroundings.orchestrator()
        known, now_s = self._watch.by_osd(), self._wall()
        by_host: Dict[str, List[OsdFacts]] = {}
        for osd in world.cluster.osds.values():
            # CRUSH hosts need not be machines; one that was never up has told of no machine
            name = osd.hostname or osd.failure_domain
            seen = known.get(osd.osd_id)
            item = OsdFacts(osd) if seen is None else OsdFacts(
                osd, seen.last, seen.rates, max(0.0, seen.settled_at_s - now_s)
            )
            by_host.setdefault(name, []).append(item)
        return Facts(
            tuple(
                self._host(
                    name, items, memory.get(name), world.config, orchestrator == "cephadm"
                )
                for name, items in sorted(by_host.items()) if name
            ),
            world.config, _limits(world.options.of(MemoryOptions)), self._trials.results,
            orchestrator, now_s,
        )

    def _host(
        self, name: str, items: List[OsdFacts], memory: Optional[HostMemory], config: Config,
        cephadm: bool,
    ) -> HostFacts:
        osds = [item.osd for item in items]
        return HostFacts(
            name, tuple(sorted(items, key=lambda item: item.osd.osd_id)), memory,
            daemons_of(self._watch.daemons.get(name, {})),
            cephadm and _left_to_cephadm(config, name, osds),
        )


def _limits(options: MemoryOptions) -> Limits:
    """What the module's options allow."""
    return Limits(
        options.memory_floor, options.memory_ceiling, options.memory_budget,
        options.memory_headroom, options.memory_step_s,
    )


def _memory_of(world: World) -> Dict[str, HostMemory]:
    """What probes have reported, by the machine of the map that each speaks for."""
    hosts = speaking_for(world.reports, world.cluster)
    return {
        hosts[report.hostname]: report.memory
        for report in world.real_reports if report.memory is not None
    }


def _left_to_cephadm(config: Config, hostname: str, osds: List[OsdInfo]) -> bool:
    labelled = config.at(LABELS.format(host=hostname), OPT_OUT_LABEL) is not None
    return not labelled and any(is_autotuned(config, osd) for osd in osds)
