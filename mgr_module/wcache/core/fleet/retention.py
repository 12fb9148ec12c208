"""What may be forgotten: the mons carry all of the module's state, so it is bounded.

Kept whatever the bounds: what is under way, what is not known to be restored, plans that
a rollback needs, and the newest results that recommendations stand on.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Dict, List, Mapping, Set, Tuple

from ..change.change import BACK
from ..change.rollout_state import UNDER_WAY, Rollout
from ..experiment.campaign import Campaign
from ..experiment.run_state import OVER, RunState
from ..verdict.recommend import groups
from ..verdict.repeated import ignoring, unsent
from ..verdict.result import Result


@dataclass(frozen=True)
class Bounds:
    """How much is kept; together with the reports of 10,000 drives below 5 MB.

    `standing` results are what recommendations stand on, `standing_min` of each device
    class, drive model and load whatever there is of others; of options, whose values can be
    compared without end, no number is kept whatever there is.  `others` are superseded, forced
    or not analysed.  `records` hold the raw samples.  Plans that were never carried out have
    `plan_changes` together; the newest has as many as it likes.
    """

    campaigns: int = 50
    runs: int = 600
    standing: int = 800
    standing_min: int = 6
    others: int = 200
    plans: int = 20
    plan_changes: int = 10_000
    records: int = 400
    records_bytes: int = 680_000


@dataclass(frozen=True)
class Surplus:
    """What can go, by id."""

    campaign_ids: Tuple[str, ...] = ()
    run_ids: Tuple[str, ...] = ()
    result_ids: Tuple[str, ...] = ()
    plan_ids: Tuple[str, ...] = ()


def surplus(
    campaigns: Mapping[str, Campaign], runs: Mapping[str, RunState],
    results: Mapping[str, Result], plans: Mapping[str, Rollout], bounds: Bounds,
) -> Surplus:
    """What is beyond the bounds."""
    gone = _campaigns(campaigns, runs, bounds)
    return Surplus(
        tuple(gone),
        tuple(run_id for run_id, state in runs.items() if state.spec.campaign_id in set(gone)),
        tuple(_results(results, bounds)), tuple(_plans(plans, bounds)),
    )


def _campaigns(
    campaigns: Mapping[str, Campaign], runs: Mapping[str, RunState], bounds: Bounds
) -> List[str]:
    """Old campaigns, oldest first; never the newest, nor one with a run that matters still."""
    counts: Dict[str, int] = defaultdict(int)
    held: Set[str] = set()
    for state in runs.values():
        counts[state.spec.campaign_id] += 1
        over = state.status in OVER
        if not over or not state.settled:
            held.add(state.spec.campaign_id)
    newest_first = sorted(campaigns.values(), key=lambda c: c.created_at_s, reverse=True)
    gone, kept, kept_runs = [], 0, 0
    for campaign in newest_first:
        own = counts[campaign.campaign_id]
        fits = kept < bounds.campaigns and kept_runs + own <= bounds.runs
        if kept == 0 or fits or campaign.campaign_id in held:
            kept, kept_runs = kept + 1, kept_runs + own
        else:
            gone.append(campaign.campaign_id)
    return gone[::-1]


def _results(results: Mapping[str, Result], bounds: Bounds) -> List[str]:
    """Results beyond the bounds.

    Standing ones go by their rank (newest first) within their device class, drive model and
    load, so that a recommendation loses drives evenly and never all of them.  Those that were
    weighed together go together: what is left of them would say something else.
    """
    # not forgotten for other drives' sake: they keep write back from their drive model
    gravest = {item.record_id for item in unsent(results.values())}
    grave = {item.record_id for item in ignoring(results.values())}
    ranked: List[Tuple[int, float, Tuple[str, ...]]] = []
    for items in groups(list(results.values())).values():
        items.sort(key=lambda r: (grave.isdisjoint(r.record_ids), -r.ended_at_s, r.record_id))
        ranked += [(rank, -item.ended_at_s, item.record_ids) for rank, item in enumerate(items)]
    standing: Set[str] = set()
    gone: List[str] = []
    for rank, _, names in sorted(ranked):
        standing.update(names)
        may_go = rank >= bounds.standing_min or results[names[0]].option is not None
        if may_go and len(standing) > bounds.standing:
            gone += names
    others = [item for item in results.values() if item.record_id not in standing]
    others.sort(key=lambda r: (
        r.record_id not in gravest, r.record_id not in grave, -r.ended_at_s, r.record_id))
    return gone + [item.record_id for item in others[bounds.others:]]


def _plans(plans: Mapping[str, Rollout], bounds: Bounds) -> List[str]:
    """Old plans that were never carried out, or that later ones have replaced wholly.

    A plan that some drive still stands on is kept, however old it is: a rollback and the
    look for drift need it.  So is the newest that says of some kind of change that it went back,
    as clients were worse off or an admin wanted it: `auto` would make it again.
    """
    newest_first = sorted(plans.values(), key=lambda p: p.created_at_s, reverse=True)
    replaced: Set[Tuple[str, str]] = set()
    gone: List[str] = []
    told: Set[Tuple[bool, str]] = set()
    idle = idle_changes = carried_out = 0
    for plan in newest_first:
        marks = _marks(plan) - told
        told |= marks
        mine = {key for change in plan.touched for key in change.setting.touches}
        if plan.status in UNDER_WAY:
            pass
        elif not mine:
            idle += 1
            idle_changes += len(plan.changes)
            many = idle > 1 and idle_changes > bounds.plan_changes
            if (idle > bounds.plans or many) and not marks:
                gone.append(plan.plan_id)
        else:
            carried_out += 1
            if carried_out > bounds.plans and mine <= replaced and not marks:
                gone.append(plan.plan_id)
        replaced |= mine
    return gone[::-1]


def _marks(plan: Rollout) -> Set[Tuple[bool, str]]:
    """The kinds of change that went back for clients, or by an admin's will, as a plan tells.

    Of values of the config database those that follow from a verdict.
    """
    worse, found = set(plan.worse.indices), set()
    for index, change in enumerate(plan.changes):
        by_will = plan.by_will and change.status in BACK
        if index not in worse and not by_will:
            continue
        kinds = [change.pooled_as]
        if change.edits:
            kinds = [f"{edit.name} {edit.value}" for edit in change.edits if change.grounds]
        found |= {(index in worse, f"{change.device_class} {kind}") for kind in kinds}
    return found
