"""What is expected: the gain of all plans, what waits, and when a campaign ends."""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple

from ..core.automation.state import Mode, Modes, mode_of
from ..core.experiment.campaign import Campaign
from ..core.experiment.forecast import forecast, periods_expected
from ..core.experiment.run import RunMachine
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


# Below this share of the periods, what is over says too little of the pace.
SHARE_MIN = 0.05


def periods_of(world: World, machine: RunMachine) -> Tuple[int, int, int]:
    """Periods of a run: measured, at most, and those expected at its end.

    What ended early needs no more.
    """
    results, expected = world.all_results, world.expected_pairs
    ended = sum(2 * results[i].pairs for i in machine.state.finished if i in results)
    done, most = (ended + periods for periods in machine.open_periods)
    if machine.spec.observes or machine.over:
        return done, most, most
    open_ = machine.open_experiments
    more = sum(periods_expected(expected, setup, n) - n for setup, n in open_)
    return done, most, done + more


def ending(world: World, campaign: Campaign) -> Dict[str, float]:
    """Seconds until its end, expected and at most: by the pace so far, else as forecast."""
    machines = [world.runs[name] for name in campaign.run_ids if name in world.runs]
    open_ = [machine.spec for machine in machines if not machine.over]
    cost = forecast(open_, world.cluster, (), world.expected_pairs)
    periods = [periods_of(world, machine) for machine in machines]
    done, most, at_end = (sum(ns) for ns in zip((0, 0, 0), *periods))
    elapsed_s = max(0.0, world.now_s - campaign.created_at_s)
    most_s, expected_s = cost.seconds, cost.seconds_expected
    if most and done / most > SHARE_MIN:
        most_s = min(most_s, elapsed_s * (most - done) / done)
    if at_end and done / at_end > SHARE_MIN:
        expected_s = elapsed_s * (at_end - done) / done
    return {
        "seconds_left": round(min(expected_s, most_s), 1), "seconds_left_max": round(most_s, 1),
    }
