"""The planner of the knob `memory`."""

from __future__ import annotations

from dataclasses import replace
from typing import Sequence

from ...core.automation.seen import Outdated
from ...core.errors import NotFoundError, NotReadyError
from ...core.knobs.knob import Asked, Wanted
from ...core.knobs.memory_target.advice import advise, take_over
from ...core.knobs.memory_target.knob import MEMORY
from ...core.knobs.memory_target.plan import make_changes
from ...core.model import Finding
from ...engine.world import World
from ..guards import require_config
from ..planner import Planner
from .service import MemoryService


class MemoryPlanner(Planner):
    """From the division of each host's memory."""

    def __init__(self, memory: MemoryService) -> None:
        self._memory = memory

    def plan(self, asked: Asked, world: World) -> Wanted:
        """See Planner."""
        require_config(world)
        if self._memory.watch.read_at_s is None:
            raise NotReadyError("no OSD has reported its memory yet", "try again in a minute")
        facts = self._memory.facts.gather(world)
        _require_hosts(asked.take_over, [host.name for host in facts.hosts])
        facts = take_over(facts, asked.take_over)
        groups = advise(facts)
        wanted = make_changes(asked, groups, facts, asked.take_over)
        return replace(
            wanted, remember=lambda changes: self._memory.promise(asked, groups, facts, changes)
        )

    def findings(self, world: World) -> Sequence[Finding]:
        """See Planner."""
        return self._memory.facts.findings()

    def tick(self, world: World) -> None:
        """See Planner."""
        self._memory.tick(world)

    def outdated(self) -> Sequence[Outdated]:
        """See Planner."""
        return [
            Outdated(
                MEMORY.name, host, classes, f"divide the memory of host {host} anew",
                f"the OSDs or daemons of host {host} changed: its memory is divided anew",
            )
            for host, classes in self._memory.facts.to_divide
        ]


def _require_hosts(asked: Sequence[str], known: Sequence[str]) -> None:
    for name in asked:
        if name not in known:
            raise NotFoundError(
                f"no OSD is on a host {name[:60]!r}", "see `ceph wcache memory status`"
            )
