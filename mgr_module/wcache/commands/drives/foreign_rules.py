"""Findings of others' rules, held against what is recommended for the drives of their host."""

from __future__ import annotations

from typing import List, Optional, Tuple

from ...core.knobs.cache_mode import foreign_rules
from ...core.knobs.cache_mode.plan import recommended_for
from ...core.model import Finding, FindingCode
from ...core.simulation import DriveKind
from ...core.verdict.recommend import Recommendation
from ...engine.engine import Engine
from .hosts import HostView

# Advice over a whole fleet takes long to put together, and findings are asked for at each tick.
KEEP_S = 30.0


class ForeignRules:
    """Judges findings; keeps the advice that it judges by for a while."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._advice: Tuple[Recommendation, ...] = ()
        self._asked: Optional[Tuple[float, int]] = None  # when, and on how many results

    def judged(self, hosts: List[HostView]) -> List[Finding]:
        """The findings of all hosts, those of others' rules with whether they agree."""
        found: List[Finding] = []
        for host in hosts:
            for item in host.findings:
                foreign = item.code is FindingCode.FOREIGN_RULE
                found.append(self._judged(item, host) if foreign else item)
        return found

    def _judged(self, finding: Finding, host: HostView) -> Finding:
        cluster = self._engine.view.cluster()
        wanted = {
            DriveKind.of(item): item for item in self._known()
        }
        drives = [drive for drive in host.report.drives if drive.uses]
        modes = []
        for drive in drives:
            advice = recommended_for(drive, host.report, cluster, wanted)
            modes.append(None if advice is None else advice.mode)
        return foreign_rules.judged(finding, host.report.hostname, drives, modes)

    def _known(self) -> Tuple[Recommendation, ...]:
        engine = self._engine
        now_s, count = engine.clock(), len(engine.analyses.results)
        if self._asked is None or self._asked[1] != count or now_s - self._asked[0] > KEEP_S:
            self._asked = (now_s, count)
            self._advice = engine.recommendations()
        return self._advice
