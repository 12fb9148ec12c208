"""Findings of others' rules, held against what is recommended for the drives of their host."""

from __future__ import annotations

from typing import List, Optional, Tuple

from ...core.fleet import foreign_rules
from ...core.model import Finding, FindingCode
from ...core.simulation import DriveKind
from ...core.verdict.recommend import Recommendation, recommended_for
from ...engine.world import World
from .hosts import FleetView, HostView

# Advice over a whole fleet takes long to put together, and findings are asked for at each tick.
KEEP_S = 30.0


class ForeignRules:
    """Judges findings; keeps the advice that it judges by for a while."""

    def __init__(self) -> None:
        self._advice: Tuple[Recommendation, ...] = ()
        self._asked: Optional[Tuple[float, int]] = None  # when, and on how many results

    def judged(self, fleet: FleetView, world: World) -> List[Finding]:
        """The findings of all hosts, those of others' rules with whether they agree."""
        found: List[Finding] = []
        for _, host in sorted(fleet.told.items()):
            for item in host.findings:
                foreign = item.code is FindingCode.FOREIGN_RULE
                found.append(self._judged(item, host, world) if foreign else item)
        return found

    def _judged(self, finding: Finding, host: HostView, world: World) -> Finding:
        wanted = {DriveKind.of(item): item for item in self._known(world)}
        drives = [drive for drive in host.report.drives if drive.uses]
        modes = []
        for drive in drives:
            advice = recommended_for(drive, host.report, world.cluster, wanted)
            modes.append(None if advice is None else advice.mode)
        return foreign_rules.judged(finding, host.report.hostname, drives, modes)

    def _known(self, world: World) -> Tuple[Recommendation, ...]:
        now_s, count = world.now_s, len(world.results)
        if self._asked is None or self._asked[1] != count or now_s - self._asked[0] > KEEP_S:
            self._advice = world.recommendations
            self._asked = (now_s, count)
        return self._advice
