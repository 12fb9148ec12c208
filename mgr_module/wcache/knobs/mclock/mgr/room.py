"""The knob `mclock` in a mgr."""

from __future__ import annotations

from typing import AbstractSet, Any, List, Mapping, Optional, Sequence

from ....core.errors import NotReadyError
from ....core.jobs import Holding, Touched
from ....core.model import Finding, LoadPoint
from ....core.shell import command
from ....engine.world import World
from ....services.guards import require_all_drives, require_config
from ....services.plans.planner import OwnRuns, Parts, Planner
from ...knob import Asked, Wanted
from ..advice import advise
from ..knob import MCLOCK
from ..plan import make_changes
from .capacities import runs_of, under_way
from .service import MclockService
from .tables import ROWS

__all__ = ["ROWS", "MclockPlanner", "make"]


def make(parts: Parts) -> Planner:
    """Make the planner, with the service behind its commands."""
    return MclockPlanner(MclockService(
        engine=parts.engine, archive=parts.archive,
        # what the mgr sees is the compiled default, unless it is set for all daemons
        compiled_queue=lambda: str(parts.ceph.get_ceph_option("osd_op_queue")),
    ))


class MclockPlanner(Planner):
    """From measured capacities and what the config database says."""

    own_loads = (LoadPoint.OSD_BENCH_CAPACITY,)

    def __init__(self, service: MclockService) -> None:
        self.service: MclockService = service

    def plan(self, asked: Asked, world: World) -> Wanted:
        """See Planner."""
        require_all_drives(asked.without, MCLOCK.name)
        require_config(world)
        advices = [
            advice for advice in advise(self.service.facts.gather(world))
            if asked.scope.has_class(advice.device_class)
        ]
        if not advices:
            raise NotReadyError(
                "no capacity was measured yet, so there is nothing to plan by",
                "measure with `ceph wcache campaign start --loads=capacity`",
            )
        return make_changes(asked, advices, world.cluster, world.config)

    def own_runs(
        self, world: World, campaign_id: str, arguments: Mapping[str, Any]
    ) -> OwnRuns:
        """See Planner."""
        return self.service.own_runs(world, campaign_id, arguments)

    def findings(self, world: World) -> Sequence[Finding]:
        """Stored values that do not fit the mode of the drives."""
        return self.service.facts.findings()

    def load(self) -> None:
        """See Planner."""
        self.service.load()

    def tick(self, world: World) -> None:
        """See Planner."""
        self.service.tick(world)

    def measuring(self, world: World) -> Optional[Holding]:
        """See Planner."""
        campaign = under_way(world)
        if campaign is None:
            return None
        specs = [run.spec for run in runs_of(world, campaign) if not run.over]
        return Holding(
            f"mclock measurement {campaign.campaign_id}",
            Touched(
                frozenset(spec.hostname for spec in specs),
                frozenset(osd_id for spec in specs for osd_id in spec.osd_ids),
            ),
            command("ceph wcache mclock show"),
        )

    def stale_keys(
        self, world: World, changing: AbstractSet[int], changed: AbstractSet[int]
    ) -> List[str]:
        """See Planner."""
        return self.service.facts.stale_keys(world, changing, changed)
