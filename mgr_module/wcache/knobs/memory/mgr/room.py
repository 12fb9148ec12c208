"""The knob `memory` in a mgr."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Sequence

from ....core.automation.deciding import Wish
from ....core.change.rollout_state import Rollout
from ....core.errors import NotFoundError, NotReadyError
from ....core.model import Finding
from ....engine.engine import steady_clock
from ....engine.world import World
from ....services.guards import require_all_drives, require_config
from ....services.plans.own_trial import OwnTrial
from ....services.plans.planner import Parts, Planner
from ...knob import Asked, Wanted
from ..advice import advise, take_over
from ..knob import MEMORY
from ..plan import make_changes
from .osds import CephMemory
from .service import MemoryService
from .tables import ROWS
from .trial_work import TrialOsds

__all__ = ["ROWS", "MemoryPlanner", "make"]


def make(parts: Parts) -> Planner:
    """Make the planner, with the service behind its commands."""
    # what OSDs have counted is divided by it: a clock that is set must not change a rate
    clock = steady_clock()
    reader = CephMemory(
        parts.ceph, is_up=parts.is_up, up_from=partial(_up_from, parts), clock=clock
    )
    return MemoryPlanner(MemoryService(
        engine=parts.engine, archive=parts.archive, surroundings=parts.surroundings,
        log=parts.log, reader=reader, emptied_at_s=parts.emptied_at_s, wall=clock,
        trial_osds=TrialOsds(view=parts.view, log=parts.log, reader=reader),
    ))


def _up_from(parts: Parts, osd_id: int) -> int:
    osd = parts.view.cluster().osds.get(osd_id)
    return osd.up_from if osd is not None else 0


class MemoryPlanner(Planner):
    """From the division of each host's memory."""

    def __init__(self, service: MemoryService) -> None:
        self.service: MemoryService = service

    def plan(self, asked: Asked, world: World) -> Wanted:
        """See Planner."""
        require_all_drives(asked.without, MEMORY.name)
        require_config(world)
        if self.service.watch.read_at_s is None:
            raise NotReadyError("no OSD has reported its memory yet", "try again in a minute")
        facts = self.service.facts.gather(world)
        _require_hosts(asked.take_over, [host.name for host in facts.hosts])
        facts = take_over(facts, asked.take_over)
        groups = advise(facts)
        wanted = make_changes(asked, groups, facts, asked.take_over)
        return replace(
            wanted, remember=lambda changes: self.service.promise(asked, groups, facts, changes)
        )

    def trial_of(self, rollout: Rollout, world: World) -> OwnTrial:
        """See Planner: a larger target is leased on some OSDs of a class, in blocks."""
        return self.service.trial_of(rollout, world)

    def findings(self, world: World) -> Sequence[Finding]:
        """See Planner."""
        return self.service.facts.findings()

    def load(self) -> None:
        """See Planner."""
        self.service.load()

    def start(self) -> None:
        """See Planner."""
        self.service.watch.start()

    def close(self) -> None:
        """See Planner."""
        self.service.close()

    def tick(self, world: World) -> None:
        """See Planner."""
        self.service.tick(world)

    def wishes(self) -> Sequence[Wish]:
        """See Planner."""
        return [
            Wish.of_host(
                MEMORY.name, host, classes, f"divide the memory of host {host} anew",
                f"the OSDs or daemons of host {host} changed: its memory is divided anew",
            )
            for host, classes in self.service.facts.to_divide
        ]


def _require_hosts(asked: Sequence[str], known: Sequence[str]) -> None:
    for name in asked:
        if name not in known:
            raise NotFoundError(
                f"no OSD is on a host {name[:60]!r}", "see `ceph wcache memory status`"
            )
