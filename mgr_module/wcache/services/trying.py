"""The use case behind `ceph wcache try`: a thin face over campaigns, no engine of its own.

It is called again and again: first it says what measuring would cost, then how far it is,
then what came out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Dict, List, Mapping, Optional

from ..ceph.traffic import Traffic
from ..core import codec
from ..core.errors import ConflictError, RefusedError
from ..core.experiment.campaign import Campaign, candidates
from ..core.experiment.try_sample import DRIVES_PER_MODEL, LOADS, TrySample, enough_traffic_per_s
from ..core.precondition_text import PROBE_RESPONDS, precondition_text
from ..core.scope import parse_scope
from ..core.simulation import all_simulated, real
from ..engine.engine import Engine
from ..engine.orders import Orders
from ..engine.world import World
from .campaigns import CampaignService, Ready, periods_of
from .expecting import ending, periods_at_end
from .guards import require_reports

ARGUMENTS: Mapping[str, Any] = {"loads": LOADS, "drives_per_model": DRIVES_PER_MODEL}
FORECAST, MEASURING, ANSWER = "forecast", "measuring", "answer"
# The last drive is still to be brought back.
PERCENT_OPEN_MAX = 99


class TryService:
    """Picks a measurement, and says where it stands; thread-safe by the engine's lock."""

    def __init__(
        self, engine: Engine, campaigns: CampaignService, traffic: Traffic
    ) -> None:
        self._engine = engine
        self._campaigns = campaigns
        self._traffic = traffic

    def look(self, scope: Optional[str] = None, accept_cost: bool = False) -> Dict[str, Any]:
        """`try`: what it would cost; with `accept_cost` it is begun, and then told of."""
        chosen = str(parse_scope(scope))
        if not accept_cost:
            return self._looked(self._engine.world(), chosen)
        looked = self._engine.world()
        told = _under_way(looked, chosen)
        if told:
            return told
        with self._campaigns.deciding(lambda now: self._ready(now, chosen), looked) as (
            world, orders, ready
        ):
            return self._begun(world, orders, ready, chosen)

    def _looked(self, world: World, chosen: str) -> Dict[str, Any]:
        running = _running(world)
        if running is not None and running.trial:
            return _measuring(world, running)
        last = None if running is not None else _last(world, chosen)
        if last is not None:
            with self._engine.orders() as orders:
                reported = orders.refresh()
            return {
                **_head(ANSWER, last.options.scope), "campaign_id": last.campaign_id,
                "reported": codec.to_plain(reported),
            }
        sample = self._sample(world, chosen)
        # beside a plan or a trial that leaves no drive: what it costs once that has ended
        then = replace(world, rollouts={}, reserved=()) if world.occupied else world
        told = self._campaigns.forecast(sample, then, scope=chosen, **ARGUMENTS)
        return {
            **_head(FORECAST, chosen), **told, "in_the_way": _in_the_way(world),
            "sick": list(world.cluster.sick),
            "busy_osds": sorted(sample.busy_osds), "not_heard": world.not_heard,
            "frozen": world.frozen,
            "under_way": running.campaign_id if running is not None else "",
            "occupied": world.occupied,
        }

    def _ready(self, world: World, chosen: str) -> Ready:
        sample = self._sample(world, chosen)
        _require_fit(world)
        return self._campaigns.ready(world, sample, accept_cost=True, scope=chosen, **ARGUMENTS)

    def _begun(self, world: World, orders: Orders, ready: Ready, chosen: str) -> Dict[str, Any]:
        told = _under_way(world, chosen)
        if told:
            return told
        _require_fit(world)
        begun = self._campaigns.started(world, orders, ready)
        now = orders.look(world)
        return _measuring(now, now.campaigns[begun["campaign_id"]])

    def _sample(self, world: World, scope: str) -> TrySample:
        options = world.options
        require_reports(world)
        found = candidates(world.believed_reports, world.cluster, parse_scope(scope))
        osd_ids = {
            use.osd_id for item in real(found)
            for drive in item.drives for use in drive.uses
        }
        return TrySample(
            {osd_id: self._traffic.commits_per_s(osd_id) for osd_id in osd_ids},
            enough_traffic_per_s(options.period_s, options.traffic_commits_min),
        )


def _under_way(world: World, chosen: str) -> Dict[str, Any]:
    """How far it is, where it was begun before; a ConflictError where something else was."""
    running, occupied = _running(world), world.occupied
    if running is not None and running.trial and running.options.scope == chosen:
        return _measuring(world, running)
    if running is not None:
        occupied = f"campaign {running.campaign_id}"
    if occupied:
        raise ConflictError(f"{occupied} is under way", "begin this after it")
    return {}


def _require_fit(world: World) -> None:
    in_the_way = _in_the_way(world)
    if in_the_way:
        raise RefusedError(
            precondition_text(in_the_way, sick=world.cluster.sick),
            "wait until they are met, and try again",
        )


def _in_the_way(world: World) -> List[str]:
    if not set(world.reports) - set(world.not_heard):
        return [PROBE_RESPONDS]
    if all_simulated(world.reports.values()):
        return []
    return [item.value for item in world.cluster.blocking]


def _running(world: World) -> Optional[Campaign]:
    return world.campaigns.get(world.open_campaign)


def _last(world: World, scope: str) -> Optional[Campaign]:
    found = [
        item for item in world.campaigns.values() if item.trial and item.options.scope == scope
    ]
    found.sort(key=lambda item: item.created_at_s)
    return found[-1] if found else None


def _measuring(world: World, campaign: Campaign) -> Dict[str, Any]:
    """How far a campaign is: by its periods and those that are expected."""
    machines = [world.runs[name] for name in campaign.run_ids if name in world.runs]
    open_ = [machine for machine in machines if not machine.over]
    periods = [periods_of(world, machine) for machine in machines]
    share = sum(
        1.0 if machine.over else done / max(1, periods_at_end(world, machine))
        for machine, (done, _) in zip(machines, periods)
    ) / max(1, len(machines))
    return {
        **_head(MEASURING, campaign.options.scope), "campaign_id": campaign.campaign_id,
        "percent": min(PERCENT_OPEN_MAX, round(100.0 * share)),
        **ending(world, campaign).fields(),
        "drives_done": len(machines) - len(open_), "drives": len(machines),
    }


def _head(state: str, scope: str) -> Dict[str, Any]:
    return {"state": state, "scope": scope}
