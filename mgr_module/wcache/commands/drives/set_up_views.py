"""How drives, OSDs and hosts are set up, looked at again only now and then."""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple

from ...core.fleet.set_up import of_report
from ...core.model import Finding
from ...core.simulation import in_cluster
from ...core.verdict.result import Result
from ...engine.engine import Engine
from .hosts import HostView

# What is told changes with the reports and the results; OSDs' metadata are looked at this often.
KEEP_S = 60.0


class SetUpViews:
    """Keeps what was found of each host for a while: findings are asked for at each tick."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._found: Dict[str, Tuple[HostView, List[Finding]]] = {}
        self._asked: Optional[Tuple[float, int]] = None  # when, and on how many results

    def findings(self, hosts: List[HostView]) -> List[Finding]:
        """Those of all hosts of the cluster; call it under the engine's lock."""
        engine = self._engine
        now_s, count = engine.clock(), len(engine.analyses.results)
        if self._asked is None or self._asked[1] != count or now_s - self._asked[0] > KEEP_S:
            self._asked, self._found = (now_s, count), {}
        missing = [
            host for host in hosts
            if in_cluster(host.report) and self._kept(host) is None
        ]
        if missing:
            osds = engine.view.cluster().osds
            results: Dict[str, List[Result]] = {}
            for one in engine.analyses.believed():
                results.setdefault(one.hostname, []).append(one)
            for host in missing:
                name = host.report.hostname
                found = of_report(host.report, osds, results.get(name, ()))
                self._found[name] = (host, found)
        return [item for host in hosts for item in self._kept(host) or ()]

    def _kept(self, host: HostView) -> Optional[List[Finding]]:
        known = self._found.get(host.report.hostname)
        return known[1] if known is not None and known[0] is host else None
