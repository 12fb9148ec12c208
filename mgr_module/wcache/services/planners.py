"""Who plans the changes of each knob; a new knob has a line here."""

from __future__ import annotations

from typing import Dict

from ..core.errors import NotReadyError
from ..core.fleet.claims import believed
from ..core.knobs.cache_mode.knob import CACHE_MODE
from ..core.knobs.cache_mode.plan import make_changes as cache_mode_changes
from ..core.knobs.knob import Asked, Planner, Wanted
from ..core.knobs.mclock.advice import advise
from ..core.knobs.mclock.knob import MCLOCK
from ..core.knobs.mclock.plan import make_changes as mclock_changes
from ..core.knobs.memory_target.knob import MEMORY
from ..engine.engine import Engine
from .guards import disputed_domains
from .mclock_facts import MclockFacts
from .memory.planner import MemoryPlanner
from .memory.service import MemoryService


def planners(
    engine: Engine, mclock: MclockFacts, memory: MemoryService
) -> Dict[str, Planner]:
    """The planner of each knob of the registry, by the knob's name."""
    return {
        CACHE_MODE.name: _CacheMode(engine), MCLOCK.name: _Mclock(engine, mclock),
        MEMORY.name: MemoryPlanner(engine, memory),
    }


class _CacheMode:
    """From standing recommendations; called under the engine's lock."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def plan(self, asked: Asked) -> Wanted:
        engine, cluster = self._engine, self._engine.view.cluster()
        recommendations = engine.recommendations()
        wanted = asked.device_class
        if not any(r.device_class == (wanted or r.device_class) for r in recommendations):
            of_class = f" in device class {wanted}" if wanted else ""
            scope = f" --scope=class:{wanted}" if wanted else ""
            raise NotReadyError(
                f"nothing was measured yet{of_class}, so there is nothing to plan by",
                f"measure with `ceph wcache campaign start{scope}`",
            )
        return cache_mode_changes(
            asked, recommendations, believed(engine.hosts.reports.values(), cluster), cluster,
            throwaway=engine.options().throwaway_cluster, disputed=disputed_domains(engine),
        )


class _Mclock:
    """From measured capacities and what the config database says."""

    def __init__(self, engine: Engine, facts: MclockFacts) -> None:
        self._engine = engine
        self._facts = facts

    def plan(self, asked: Asked) -> Wanted:
        watch = self._engine.config
        if watch.read_at_s is None:
            raise NotReadyError("the config database was not read yet", watch.error or "try again")
        advices = [
            advice for advice in advise(self._facts.gather())
            if asked.device_class in (None, advice.device_class)
        ]
        if not advices:
            raise NotReadyError(
                "no capacity was measured yet, so there is nothing to plan by",
                "measure with `ceph wcache mclock measure`",
            )
        return mclock_changes(asked, advices, self._engine.view.cluster())
