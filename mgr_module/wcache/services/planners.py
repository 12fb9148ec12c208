"""Who plans the changes of each knob; a new knob has a line here."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import AbstractSet, Callable, Dict, Iterable, List, Mapping, Sequence, Set

from ..core.change.cache_mode_change import CacheModeChange
from ..core.change.change_status import ChangeStatus
from ..core.change.rollout_state import Change, RolloutStatus
from ..core.change.scope import Scope
from ..core.errors import NotReadyError
from ..core.knobs.cache_mode.knob import CACHE_MODE
from ..core.knobs.cache_mode.plan import make_changes as cache_mode_changes
from ..core.knobs.knob import CHANGES_MAX, Asked, Wanted
from ..core.knobs.mclock.advice import advise
from ..core.knobs.mclock.knob import MCLOCK
from ..core.knobs.mclock.plan import make_changes as mclock_changes
from ..core.knobs.memory_target.knob import MEMORY
from ..core.knobs.registry import ALL, TOGETHER
from ..core.model import Finding
from ..core.simulation import real
from ..engine.mclock.capacities import under_way
from ..engine.world import World
from .guards import disputed_domains, require_config
from .mclock.service import MclockService
from .memory.planner import MemoryPlanner
from .memory.service import MemoryService
from .planner import Planner


def planners(mclock: MclockService, memory: MemoryService) -> Dict[str, Planner]:
    """The planner of each knob of the registry, by the knob's name, and of several in one plan."""
    found: Dict[str, Planner] = {
        CACHE_MODE.name: _CacheMode(), MCLOCK.name: _Mclock(mclock),
        MEMORY.name: MemoryPlanner(memory),
    }
    return {**found, ALL: _Together({knob.name: found[knob.name] for knob in TOGETHER})}


def in_place_by(world: World, knob: str, scope: Scope) -> str:
    """The newest plan of a knob that still stands in a scope; '' where none does."""
    found = [
        plan_id for plan_id, machine in world.rollouts.items()
        if machine.rollout.status is RolloutStatus.DONE and any(
            change.status is ChangeStatus.APPLIED and scope.holds(change)
            and knob == change.knob
            for change in machine.rollout.changes
        )
    ]
    return max(found, key=lambda plan_id: (len(plan_id), plan_id), default="")


class _Together(Planner):
    """Several knobs in one plan: all changes of one before the first of the next.

    So no step changes two things, and what a step did is known before the next knob is touched.
    """

    def __init__(self, knobs: Mapping[str, Planner]) -> None:
        self._knobs = knobs

    def plan(self, asked: Asked, world: World) -> Wanted:
        """See Planner; a knob of which nothing is known is left alone where another has some."""
        changes: List[Change] = []
        left: List[str] = []
        unready: List[NotReadyError] = []
        remembers: List[Callable[[Sequence[Change]], None]] = []
        for name, planner in self._knobs.items():
            try:
                wanted = planner.plan(replace(asked, first=len(changes)), world)
            except NotReadyError as error:
                unready.append(error)
                left.append(f"{name}: {error.line()}")
                continue
            changes += wanted.changes
            left += wanted.left_alone
            remembers.append(wanted.remember)
        if len(unready) == len(self._knobs):
            raise unready[0]
        if len(changes) > CHANGES_MAX:
            return Wanted((), (*left, f"both knobs take {len(changes)} steps, {CHANGES_MAX} are "
                                      "the most of one plan: narrow it with --device-class, or "
                                      "plan one knob after the other"))

        def remember(kept: Sequence[Change]) -> None:
            for each in remembers:
                each(kept)

        return Wanted(tuple(changes), tuple(left), remember)


class _CacheMode(Planner):
    """From standing recommendations."""

    def plan(self, asked: Asked, world: World) -> Wanted:
        wanted = asked.device_class
        if not any(r.device_class == (wanted or r.device_class) for r in world.recommendations):
            of_class = f" in device class {wanted}" if wanted else ""
            scope = f" --scope=class:{shlex.quote(wanted)}" if wanted else ""
            raise NotReadyError(
                f"nothing was measured yet{of_class}, so there is nothing to plan by",
                f"measure with `ceph wcache campaign start{scope}`",
            )
        return cache_mode_changes(
            asked, world.recommendations, world.believed_reports, world.cluster,
            throwaway=world.options.throwaway_cluster, disputed=disputed_domains(world),
        )


class _Mclock(Planner):
    """From measured capacities and what the config database says."""

    def __init__(self, mclock: MclockService) -> None:
        self._mclock = mclock

    def plan(self, asked: Asked, world: World) -> Wanted:
        require_config(world)
        advices = [
            advice for advice in advise(self._mclock.facts.gather(world))
            if asked.device_class in (None, advice.device_class)
        ]
        if not advices:
            raise NotReadyError(
                "no capacity was measured yet, so there is nothing to plan by",
                "measure with `ceph wcache mclock measure`",
            )
        return mclock_changes(asked, advices, world.cluster, world.config)

    def findings(self, world: World) -> Sequence[Finding]:
        """Stored values that do not fit the mode of the drives."""
        return self._mclock.facts.findings()

    def tick(self, world: World) -> None:
        """See Planner."""
        self._mclock.tick(world)

    def measuring(self, world: World) -> str:
        """See Planner."""
        campaign_id = under_way(world)
        return f"mclock measurement {campaign_id}" if campaign_id else ""

    def stale_keys(
        self, world: World, changing: AbstractSet[int], changed: AbstractSet[int]
    ) -> List[str]:
        """See Planner."""
        return self._mclock.facts.stale_keys(world, changing, changed)


def stale_keys(
    knobs: Iterable[Planner], world: World, changing: AbstractSet[int],
    changed: AbstractSet[int] = frozenset(),
) -> List[str]:
    """Stored values, of whatever knob, that a change of cache modes makes stale."""
    return [key for knob in knobs for key in knob.stale_keys(world, changing, changed)]


def stale_keys_of(
    knobs: Iterable[Planner], world: World, changes: Iterable[CacheModeChange]
) -> List[str]:
    """The same for the OSDs on the cache domains of a plan."""
    changing: Set[int] = set()
    changed: Set[int] = set()
    for change in real(changes):
        if change.expected is change.mode:
            continue  # one that is only made to last changes no latency
        report = world.reports.get(change.hostname)
        ids = {
            use.osd_id for drive in (report.drives if report else ())
            if drive.domain_id == change.domain_id for use in drive.uses
        }
        open_ = change.status in (ChangeStatus.PLANNED, ChangeStatus.APPLYING)
        (changing if open_ else changed).update(ids)
    return stale_keys(knobs, world, changing, changed)
