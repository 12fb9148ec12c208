"""What all of it would gain, over the engine; and what of it waits, as findings."""

from __future__ import annotations

from typing import List, Optional, Tuple

from ..core.automation.modes import Mode, Modes, mode_of
from ..core.change.gate.marked import marked
from ..core.fleet.claims import believed
from ..core.model import Finding, FindingCode, Severity
from ..core.simulation import real
from ..core.verdict.homes import counted
from ..core.verdict.outlook import WAITING, Outlook, Standing, outlook, standings
from ..engine.engine import Engine

# A fleet of more drives than this is looked at anew no sooner than after so long, since health
# checks are told at each tick.
DRIVES_AT_ONCE_MAX, KEEP_S = 1000, 30.0


class OutlookService:
    """Looks at all drive models; thread-safe by the engine's lock."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._rows: Tuple[Standing, ...] = ()
        self._drives = 0
        self._asked: Optional[Tuple[float, int]] = None  # when, and on how many results

    def look(self) -> Outlook:
        """All drive models."""
        return outlook(self._look(), self._drives)

    def findings(self, modes: Modes) -> List[Finding]:
        """Where `auto` may recommend and not apply: what waits for an admin."""
        if all(item.mode is not Mode.RECOMMEND for item in modes):
            return []
        return [
            Finding(
                FindingCode.RECOMMENDATION, Severity.WARNING,
                f"class {row.found.device_class}, drive model {row.kind.drive_model}", row.text,
            )
            for row in self._told(modes) if row.found is not None
        ]

    def headline(self, modes: Modes) -> str:
        """The same in one line, for `ceph health`; '' where nothing waits."""
        rows = self._told(modes) if modes else []
        return outlook(rows, sum(row.drives for row in rows)).gains if rows else ""

    def _told(self, modes: Modes) -> List[Standing]:
        if any(not machine.over for machine in self._engine.rollouts.values()):
            return []  # it is being carried out
        return [
            row for row in self._look()
            if row.group == WAITING and row.found is not None
            and mode_of(modes, row.found.device_class) is Mode.RECOMMEND
        ]

    def _look(self) -> Tuple[Standing, ...]:
        engine = self._engine
        now_s, results = engine.clock(), len(engine.analyses.results)
        if (
            self._asked is not None and self._drives > DRIVES_AT_ONCE_MAX
            and self._asked[1] == results and 0 <= now_s - self._asked[0] < KEEP_S
        ):
            return self._rows
        advice = engine.recommendations()
        cluster, throwaway = engine.view.cluster(), engine.options().throwaway_cluster
        with engine.lock:
            reports = tuple(engine.hosts.reports.values())
            marks = marked(
                (m.rollout for m in engine.rollouts.values()), engine.analyses.results.values()
            )
        modes = {(item.device_class, str(item.drive_model)): item.mode for item in advice}
        back = [
            kind for kind, mark in marks.items() if modes.get(kind[:2]) is mark.mode
        ]
        of_fleet = counted(believed(reports, cluster), cluster, throwaway=throwaway)
        self._rows = tuple(standings(of_fleet, advice, back))
        counting = real(reports) or reports
        self._drives = sum(len(report.drives) for report in counting)
        self._asked = (now_s, results)
        return self._rows
