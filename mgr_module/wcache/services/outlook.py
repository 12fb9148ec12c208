"""What is expected: the gain of all plans, what waits, what follows, when a campaign ends.

What follows is by a table of states.  One state has one command, whichever command, page or report
tells of it: it moves the state on, or shows what is waited for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Tuple

from ..core.automation.deciding import Seen, decide
from ..core.automation.state import Allowance, AutoState, Mode, Modes, mode_of
from ..core.change.preconditions import reasons
from ..core.change.rollout_state import RolloutStatus
from ..core.drive.safety import Safety, judge
from ..core.experiment.campaign import (
    Campaign,
    CampaignOptions,
    Candidate,
    Sorted,
    candidates,
    sort_out,
    turning_on,
)
from ..core.experiment.forecast import forecast, periods_expected
from ..core.experiment.run import RunMachine
from ..core.model import Finding, FindingCode, Severity, Transport
from ..core.scope import WHOLE, parse_scope
from ..core.text import NOTHING, CommandLine, chained, command
from ..core.verdict.explaining import START, budgets, settling
from ..core.verdict.hosts_by_model import at_home, counted
from ..core.verdict.outlook import WAITING, Outlook, Position, outlook, standings
from ..engine.world import Once, World
from .guards import domains_not_now
from .plans.plan_guards import plan_order, to_begin

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


@dataclass(frozen=True)
class Situation:
    """What a state is read from; `about` are ids of what an answer is about, told of first.

    `but`: commands that begin so have just led nowhere.
    """

    world: World
    outlooks: OutlookService
    about: Tuple[str, ...] = ()
    but: str = ""

    @Once
    def outlook(self) -> Outlook:
        """All drive models: not looked at where something is under way."""
        return self.outlooks.look(self.world)


def _under_way(now: Situation) -> CommandLine:
    """What shows the first of all that is under way, or lets it go on."""
    world = now.world
    found = {
        plan_id: command(
            "ceph wcache rollout resume {}" if world.rollouts[plan_id].paused
            else "ceph wcache rollout show {}", plan_id,
        ) for plan_id in world.open_plans
    }
    # a campaign that has ended is told of once it is analysed
    for campaign_id in (world.open_campaign, *sorted(world.awaited)):
        one = world.campaigns.get(campaign_id)
        if one is not None:
            found[campaign_id] = try_of(one.options.scope) if one.trial else command(
                "ceph wcache campaign show {}", campaign_id
            )
    found.update({key: one.shown_by for key, one in world.trials.items() if not one.over})
    found.update({held.words: held.show for held in world.reserved})
    return next((found[key] for key in (*now.about, *found) if key in found), NOTHING)


def _planned(now: Situation) -> CommandLine:
    """What carries out the newest of all plans, where it was not begun and still fits."""
    world = now.world
    plan = max(world.plans, key=lambda one: plan_order(one.plan_id), default=None)
    if plan is None or plan.status is not RolloutStatus.PLANNED or reasons(
        plan, world.reports, world.cluster, world
    ):
        return NOTHING
    return to_begin(plan, plan.to_last)


# What sorts drives out where no cache is turned on for it.
_NO_CONSENT = CampaignOptions(WHOLE, (), 4, 1, 0.0, 0.0, 0.0, 0.0, 0)


def sorted_by_try(
    world: World, scope: str, among: Callable[[Candidate], bool] = lambda one: True
) -> Sorted:
    """What of a scope `try` could measure now, and why not the rest."""
    found = candidates(world.believed_reports, world.cluster, parse_scope(scope))
    return sort_out(
        filter(among, found), world.cluster, _NO_CONSENT,
        throwaway=world.options.throwaway_cluster, disputed=domains_not_now(world), gentle=True,
    )


def _unmeasured(now: Situation) -> CommandLine:
    """What measures drive models that are not measured, or shows why they cannot be now."""
    world, kinds = now.world, now.outlook.to_measure
    if not kinds:
        return NOTHING
    domains = {
        (hostname, drive.domain_id)
        for kind, hostname, drive in at_home(world.believed_reports, world.cluster)
        if kind in kinds
    }
    sorts = sorted_by_try(world, WHOLE, lambda one: one.key in domains)
    if sorts.all_off:
        return turning_on(WHOLE)
    if not sorts.by_model and sorts.left_alone:
        return command("ceph wcache status  # says which OSDs are left alone, and why")
    if not sorts.by_model:
        return command("ceph wcache drive ls")
    if any(one.trial and one.options.scope == WHOLE for one in world.campaigns.values()):
        return command("ceph wcache try --accept-cost")  # `try` alone tells of the last one
    return try_of(WHOLE)


def _undecided(now: Situation) -> CommandLine:
    """What would settle the first drive model that is undecided, or why it is."""
    name, world = now.outlook.ask_about, now.world
    for found in world.recommendations if name else ():
        results = [world.results[key] for key in found.record_ids if key in world.results]
        if found.verdict.decided or str(found.drive_model) != name:
            continue
        for _, line in settling(found, results, budgets(world.options)):
            if line.startswith(START):
                return chained((line, command("--dry-run")), " ")
            if line.startswith("ceph wcache "):
                return line
    return command("ceph wcache explain model:{}", name) if name else NOTHING


def _unsafe(now: Situation) -> bool:
    """Whether a drive loses acknowledged data at a power cut; a throwaway cluster's loops may."""
    world = now.world
    return any(
        judge(drive.state) is Safety.UNSAFE
        and not (drive.transport is Transport.LOOP and world.options.throwaway_cluster)
        for report in world.reports.values() for drive in report.drives
    )


# The state, whether it holds, and its command where the second does not make one.
STATES: Tuple[Tuple[str, Callable[[Situation], Any], str], ...] = (
    ("no probe", lambda now: not now.world.agents and not now.world.deployments,
     "ceph wcache agent add --all"),
    ("unsafe", lambda now: not now.about and _unsafe(now),
     "ceph health detail  # WCACHE_UNSAFE says which drives lose data, and what ends that"),
    ("frozen", lambda now: now.world.frozen, "ceph wcache freeze --thaw"),
    ("under way", _under_way, ""),
    ("no probe responds",
     lambda now: {*now.world.reports} <= {*now.world.not_heard} or not now.outlook.models,
     "ceph wcache agent ls"),
    ("unfit", lambda now: now.world.real_reports and now.world.cluster.blocking,
     "ceph wcache status  # says what of the cluster is waited for"),
    ("planned", _planned, ""),
    ("to be changed", lambda now: now.outlook.off.models, "ceph wcache plan"),
    ("to be turned on", lambda now: now.outlook.on.models, "ceph wcache plan --consent-turn-on"),
    ("not measured", _unmeasured, ""),
    ("undecided", _undecided, ""),
    ("went back", lambda now: now.outlook.went_back,
     "ceph wcache campaign start --loads=traffic --dry-run  # while clients write"),
    ("fixed", lambda now: now.outlook.fixed == now.outlook.models, "ceph wcache drive ls"),
)


def next_step(now: Situation) -> CommandLine:
    """The command of the first state that holds; NOTHING where none does."""
    for _, holds, line in STATES:
        found = not (now.but and line.startswith(now.but)) and holds(now)
        if found:
            following: CommandLine = command(line) if line else found
            return following
    return NOTHING


def try_of(scope: str) -> CommandLine:
    """`try` of a scope, as it is typed."""
    return command("ceph wcache try {}", scope) if scope != "cluster" else (
        command("ceph wcache try")
    )


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


def would_begin(
    before: AutoState, after: AutoState, seen: Seen, limits: Allowance, now_s: float
) -> List[str]:
    """Tell what turning it on or off would come to, each in words that go on from "would"."""
    lines = []
    if after.modes != before.modes:
        said = ", ".join(f"{m.device_class or 'all classes'} {m.mode.value}" for m in after.modes)
        lines.append(f"allow: {said}")
    decision = decide(after, seen, limits, now_s)
    if decision.wish is not None:
        lines.append(decision.wish.todo)
    elif decision.waiting:
        lines.append(f"wait: {decision.waiting}")
    return lines
