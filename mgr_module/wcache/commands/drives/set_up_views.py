"""How drives, OSDs and hosts are set up, looked at again only now and then."""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple

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
        # what was found of a host is of this very view of it
        mine = [found.get(host.report.hostname) for host in hosts]
        missing = [
            host for host, known in zip(hosts, mine)
            if (known is None or known[0] is not host) and in_cluster(host.report)
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
            mine = [found.get(host.report.hostname) for host in hosts]
        self._found = found
        return [
            item for host, known in zip(hosts, mine) if known is not None and known[0] is host
            for item in known[1]
        ]
