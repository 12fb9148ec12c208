"""How drives, OSDs and hosts are set up, looked at again only now and then."""

from __future__ import annotations

from typing import Dict, List, Mapping, Optional, Tuple

from ...core.fleet.set_up import of_report
from ...core.model import Finding
from ...core.simulation import in_cluster
from ...core.verdict.result import Result
from ...engine.world import World
from .hosts import HostView

# What is told changes with the reports and the results; OSDs' metadata are looked at this often.
KEEP_S = 60.0


class SetUpViews:
    """Keeps what was found of each host for a while: findings are asked for at each tick."""

    def __init__(self) -> None:
        self._found: Dict[str, Tuple[HostView, List[Finding]]] = {}
        # when, on how many results, and by which reading of the config database
        self._asked: Optional[Tuple[float, int, Optional[float]]] = None

    def findings(self, hosts: List[HostView], world: World) -> List[Finding]:
        """Those of all hosts of the cluster."""
        now_s, of = world.now_s, (len(world.results), world.config_read_at_s)
        found = self._found
        if self._asked is None or self._asked[1:] != of or now_s - self._asked[0] > KEEP_S:
            self._asked, found = (now_s, *of), {}
        missing = [
            host for host in hosts if in_cluster(host.report) and not _is_of(found, host)
        ]
        if missing:
            results: Dict[str, List[Result]] = {}
            for one in world.believed_results:
                results.setdefault(one.hostname, []).append(one)
            found = {**found, **{
                host.report.hostname: (host, of_report(
                    host.report, world.cluster.osds, results.get(host.report.hostname, ()),
                    world.config,
                ))
                for host in missing
            }}
        self._found = found
        return [
            item for host in hosts if _is_of(found, host)
            for item in found[host.report.hostname][1]
        ]


def _is_of(found: Mapping[str, Tuple[HostView, List[Finding]]], host: HostView) -> bool:
    """Whether what was found of a host is of this very view of it."""
    known = found.get(host.report.hostname)
    return known is not None and known[0] is host
