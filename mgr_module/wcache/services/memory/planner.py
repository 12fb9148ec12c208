"""The planner of the knob `memory`."""

from __future__ import annotations

from dataclasses import replace
from typing import Sequence

from ...core.errors import NotFoundError, NotReadyError
from ...core.knobs.knob import Asked, Planner, Wanted
from ...core.knobs.memory_target.advice import advise, take_over
from ...core.knobs.memory_target.plan import make_changes
from ...core.model import Finding
from ...engine.engine import Engine
from .service import MemoryService


class MemoryPlanner(Planner):
    """From the division of each host's memory; called under the engine's lock."""

    def __init__(self, engine: Engine, memory: MemoryService) -> None:
        self._engine = engine
        self._memory = memory

    def plan(self, asked: Asked) -> Wanted:
        """See Planner."""
        watch = self._engine.config
        if watch.read_at_s is None:
            raise NotReadyError("the config database was not read yet", watch.error or "try again")
        if self._memory.watch.read_at_s is None:
            raise NotReadyError("no OSD has reported its memory yet", "try again in a minute")
        facts = self._memory.facts.gather()
        _require_hosts(asked.take_over, [host.name for host in facts.hosts])
        facts = take_over(facts, asked.take_over)
        groups = advise(facts)
        wanted = make_changes(asked, groups, facts, asked.take_over)
        return replace(
            wanted, remember=lambda changes: self._memory.promise(asked, groups, facts, changes)
        )

    def findings(self) -> Sequence[Finding]:
        """See Planner."""
        return self._memory.facts.findings()


def _require_hosts(asked: Sequence[str], known: Sequence[str]) -> None:
    for name in asked:
        if name not in known:
            raise NotFoundError(
                f"no OSD is on a host {name[:60]!r}", "see `ceph wcache memory status`"
            )
