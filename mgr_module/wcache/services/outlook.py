"""What all of it would gain; and what of it waits, as findings."""

from __future__ import annotations

from typing import List, Optional, Tuple

from ..core.automation.state import Mode, Modes, mode_of
from ..core.model import Finding, FindingCode, Severity
from ..core.verdict.hosts_by_model import counted
from ..core.verdict.outlook import WAITING, Outlook, Position, outlook, standings
from ..engine.world import World

# A fleet of more drives than this is looked at anew no sooner than after so long, since health
# checks are told at each tick.
DRIVES_AT_ONCE_MAX, KEEP_S = 1000, 30.0


class OutlookService:
    """Looks at all drive models; of a large fleet it keeps what it found for a while."""

    def __init__(self) -> None:
        self._kept: Optional[Tuple[float, int, Tuple[Position, ...], int]] = None

    def look(self, world: World) -> Outlook:
        """All drive models."""
        return outlook(*self._look(world))

    def findings(self, world: World, modes: Modes) -> List[Finding]:
        """Where `auto` may recommend and not apply: what waits for an admin."""
        if all(item.mode is not Mode.RECOMMEND for item in modes):
            return []
        return [
            Finding(
                FindingCode.RECOMMENDATION, Severity.WARNING,
                f"class {row.found.device_class}, drive model {row.kind.drive_model}", row.text,
            )
            for row in self._told(world, modes) if row.found is not None
        ]

    def headline(self, world: World, modes: Modes) -> str:
        """The same in one line, for `ceph health`; '' where nothing waits."""
        rows = self._told(world, modes) if modes else []
        return outlook(rows, sum(row.drives for row in rows)).gains if rows else ""

    def _told(self, world: World, modes: Modes) -> List[Position]:
        if world.open_plan:
            return []  # it is being carried out
        return [
            row for row in self._look(world)[0]
            if row.group == WAITING and row.found is not None
            and mode_of(modes, row.found.device_class) is Mode.RECOMMEND
        ]

    def _look(self, world: World) -> Tuple[Tuple[Position, ...], int]:
        """Every drive model, and how many drives there are; when, and on how many results."""
        if self._kept is not None:
            at_s, results, rows, drives = self._kept
            if (
                drives > DRIVES_AT_ONCE_MAX and results == len(world.results)
                and 0 <= world.now_s - at_s < KEEP_S
            ):
                return rows, drives
        modes = {
            (item.device_class, str(item.drive_model)): item.mode
            for item in world.recommendations
        }
        back = [kind for kind, mark in world.marks.items() if modes.get(kind[:2]) is mark.mode]
        of_fleet = counted(
            world.believed_reports, world.cluster, throwaway=world.options.throwaway_cluster
        )
        rows = tuple(standings(of_fleet, world.recommendations, back))
        reports = world.real_reports or world.reports.values()
        drives = sum(len(report.drives) for report in reports)
        self._kept = (world.now_s, len(world.results), rows, drives)
        return rows, drives
