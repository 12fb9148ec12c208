"""When a campaign is expected to end, and when at the latest."""

from __future__ import annotations

from typing import Dict, Tuple

from ..core.experiment.campaign import Campaign
from ..core.experiment.forecast import forecast, periods_expected
from ..core.experiment.run import RunMachine
from ..engine.world import World

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
