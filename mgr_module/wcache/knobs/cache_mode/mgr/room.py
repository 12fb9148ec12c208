"""The knob `cache_mode` in a mgr."""

from __future__ import annotations

from dataclasses import replace
from typing import Tuple

from ....commands.views import Command
from ....core.errors import NotReadyError
from ....core.text import command, ticked
from ....engine.world import World
from ....services.guards import disputed_domains, unseen
from ....services.plans.planners import Parts, Planner
from ...knob import Asked, Wanted
from ..plan import make_changes

ROWS: Tuple[Command, ...] = ()


def make(parts: Parts) -> Planner:
    """Make the planner."""
    return CacheModePlanner()


class CacheModePlanner(Planner):
    """From standing recommendations."""

    def plan(self, asked: Asked, world: World) -> Wanted:
        device_class = asked.scope.device_class
        classes = {r.device_class for r in world.recommendations}
        if not classes or (device_class and device_class not in classes):
            of_class = f" in device class {device_class}" if device_class else ""
            start = command("ceph wcache campaign start")
            if device_class:
                start = command("ceph wcache campaign start --scope=class:{}", device_class)
            raise NotReadyError(
                f"nothing was measured yet{of_class}, so there is nothing to plan by",
                f"measure with {ticked(start)}",
            )
        here = replace(asked, without={**disputed_domains(world), **asked.without})
        wanted = make_changes(
            here, world.recommendations, world.believed_reports, world.cluster,
            throwaway=world.options.throwaway_cluster, fresh=world.reported_at_s,
        )
        left = (*wanted.left_alone, *unseen(world, asked.scope))
        return replace(wanted, left_alone=left)
