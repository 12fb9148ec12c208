"""How drives, OSDs and hosts are set up, looked at again only now and then."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from ...core.fleet.set_up import of_report
from ...core.model import Finding
from ...core.simulation import in_cluster
from ...core.verdict.result import Result
from ...engine.world import World
from .hosts import FleetView, HostView

# What is told changes with the reports and the results; OSDs' metadata are looked at this often.
KEEP_S = 60.0


class SetUpViews:
    """Keeps what was found of each host for a while: findings are asked for at each tick."""

    def __init__(self) -> None:
        self._kept = _Kept()

    def findings(self, fleet: FleetView, world: World) -> List[Finding]:
        """Return those of all hosts of the cluster, by host."""
        now_s, of = world.now_s, (len(world.results), world.config_read_at_s)
        old = self._kept  # at once: several threads look
        if old.of != of or now_s - old.at_s > KEEP_S:
            old = _Kept(now_s, of)
        again = [name for name, view in fleet.views.items() if old.views.get(name) is not view]
        told = dict(old.told)
        for name in (*again, *(old.views.keys() - fleet.views.keys())):
            told.pop(name, None)
        results: Dict[str, List[Result]] = {}
        for one in world.believed_results if again else ():
            results.setdefault(one.hostname, []).append(one)
        for name in again:
            report = fleet.views[name].report
            found = of_report(
                report, world.cluster.osds, results.get(name, ()), world.config
            ) if in_cluster(report) else ()
            if found:
                told[name] = found
        self._kept = _Kept(old.at_s, of, fleet.views, told)
        return [item for name in sorted(told) for item in told[name]]


@dataclass(frozen=True)
class _Kept:
    """What was found, when at first, on how many results, by which reading of the config."""

    at_s: float = -math.inf
    of: Tuple[int, Optional[float]] = (0, None)
    views: Mapping[str, HostView] = field(default_factory=dict)  # that it was found of
    told: Mapping[str, Sequence[Finding]] = field(default_factory=dict)  # where there is something
