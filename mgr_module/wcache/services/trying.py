"""The use case behind `ceph wcache try`: a thin face over campaigns, no engine of its own.

It is called again and again: first it says what measuring would cost, then how far it is,
then what came out.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from ..ceph.traffic import Traffic
from ..core import codec
from ..core.errors import ConflictError, RefusedError
from ..core.experiment.campaign import Campaign, candidates, forecast, parse_scope
from ..core.experiment.try_sample import DRIVES_PER_MODEL, LOADS, TrySample, enough_traffic_per_s
from ..core.fleet.claims import believed
from ..core.output_format import FORMAT_VERSION
from ..core.record import Precondition
from ..core.simulation import all_simulated, real
from ..core.unmet import PROBE_RESPONDS, unmet
from ..engine.engine import Engine
from .campaigns import CampaignService, periods_of
from .guards import require_reports

FORECAST, MEASURING, ANSWER = "forecast", "measuring", "answer"
# Below this share of the periods, what is left is told by the budget alone.
SHARE_MIN = 0.05
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
        chosen = parse_scope(scope or "cluster").text
        engine = self._engine
        with engine.lock:
            running = self._running()
            if running is not None and running.trial and (
                not accept_cost or running.options.scope == chosen
            ):
                return self._measuring(running)
            if running is not None and accept_cost:
                raise ConflictError(
                    f"campaign {running.campaign_id} is under way", "begin this after it"
                )
            occupied = self._occupied()
            if occupied and accept_cost:
                raise ConflictError(f"{occupied} is under way", "begin this after it")
            last = None if running is not None else self._last(chosen)
            if last is not None and not accept_cost:
                return {
                    **_head(ANSWER, last.options.scope), "campaign_id": last.campaign_id,
                    "reported": codec.to_plain(engine.hosts.refresh(engine.clock())),
                }
            arguments = {
                "scope": chosen, "loads": LOADS, "drives_per_model": DRIVES_PER_MODEL,
            }
            sample = self._sample(chosen)
            if accept_cost:
                self._require_well()
                begun = self._campaigns.start(sample, accept_cost=True, **arguments)
                return self._measuring(engine.campaigns[begun["campaign_id"]])
            told = self._campaigns.forecast(sample, **arguments)
            return {
                **_head(FORECAST, chosen), **told, "in_the_way": self._in_the_way(),
                "busy_osds": sorted(sample.busy_osds), "not_heard": self._not_heard(),
                "frozen": engine.frozen,
                "under_way": running.campaign_id if running is not None else "",
                "occupied": occupied,
            }

    def _sample(self, scope: str) -> TrySample:
        engine, options = self._engine, self._engine.options()
        cluster = engine.view.cluster()
        require_reports(engine)
        reports = believed(engine.hosts.reports.values(), cluster)
        found = candidates(reports, cluster, parse_scope(scope))
        osd_ids = {
            use.osd_id for item in real(found)
            for drive in item.drives for use in drive.uses
        }
        return TrySample(
            {osd_id: self._traffic.commits_per_s(osd_id) for osd_id in osd_ids},
            enough_traffic_per_s(options.period_s, options.traffic_commits_min),
        )

    def _in_the_way(self) -> List[str]:
        engine = self._engine
        if not set(engine.hosts.reports) - set(self._not_heard()):
            return [PROBE_RESPONDS]
        if all_simulated(engine.hosts.reports.values()):
            return []
        return [
            item.value for item in engine.view.cluster().blocking
            if item is not Precondition.NO_SLOW_OPS  # RunSpec.bears
        ]

    def _not_heard(self) -> List[str]:
        """The hosts with a probe that has not reported yet, or that is silent."""
        hosts, now_s = self._engine.hosts, self._engine.clock()
        silent = {agent.hostname for agent in hosts.agents.all() if agent.silent(now_s)}
        known = {*hosts.deployments, *(agent.hostname for agent in hosts.agents.all())}
        return sorted((known - set(hosts.reports)) | silent)

    def _require_well(self) -> None:
        words = self._in_the_way()
        if words:
            raise RefusedError(
                unmet(words), "wait until they are met, and try again",
            )

    def _running(self) -> Optional[Campaign]:
        engine = self._engine
        ids = {m.spec.campaign_id for m in engine.runs.values() if not m.over}
        found = [engine.campaigns[name] for name in sorted(ids) if name in engine.campaigns]
        return found[0] if found else None

    def _occupied(self) -> str:
        """What else has the drives or OSDs for itself; a campaign would wait for its end."""
        engine = self._engine
        plans = [plan_id for plan_id, machine in engine.rollouts.items() if not machine.over]
        return f"plan {plans[0]}" if plans else engine.reserved

    def _last(self, scope: str) -> Optional[Campaign]:
        found = [
            item for item in self._engine.campaigns.values()
            if item.trial and item.options.scope == scope
        ]
        found.sort(key=lambda item: item.created_at_s)
        return found[-1] if found else None

    def _measuring(self, campaign: Campaign) -> Dict[str, Any]:
        """How far a campaign is: by its periods, and by what its budgets leave."""
        engine = self._engine
        machines = [engine.runs[name] for name in campaign.run_ids if name in engine.runs]
        open_ = [machine for machine in machines if not machine.over]
        periods = [periods_of(engine, machine) for machine in machines]
        # by drives: most are decided long before they have had all the periods that they may have
        share = sum(
            1.0 if machine.over else done / most if most else 0.0
            for machine, (done, most) in zip(machines, periods)
        ) / max(1, len(machines))
        left_s = forecast([m.spec for m in open_], engine.view.cluster(), ()).seconds
        elapsed_s = max(0.0, engine.clock() - campaign.created_at_s)
        paced = sum(done for done, _ in periods) / max(1, sum(most for _, most in periods))
        if paced > SHARE_MIN:
            left_s = min(left_s, elapsed_s * (1.0 - paced) / paced)
        return {
            **_head(MEASURING, campaign.options.scope), "campaign_id": campaign.campaign_id,
            "percent": min(PERCENT_OPEN_MAX, round(100.0 * share)),
            "seconds_left": round(left_s, 1),
            "drives_done": len(machines) - len(open_), "drives": len(machines),
        }


def _head(state: str, scope: str) -> Dict[str, Any]:
    return {"format_version": FORMAT_VERSION, "state": state, "scope": scope}
