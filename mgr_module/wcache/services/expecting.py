"""When a campaign is expected to end, and when at the latest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Tuple

from ..core.experiment.campaign import Campaign, forecast
from ..core.experiment.expected import periods_expected
from ..core.experiment.run import RunMachine
from ..engine.world import World

# Below this share of the periods, what is over says too little of the pace.
SHARE_MIN = 0.05


@dataclass(frozen=True)
class Ending:
    """Seconds until a campaign's end: expected, and at most."""

    expected_s: float
    most_s: float

    def fields(self) -> Dict[str, Any]:
        """As answers have it."""
        return {
            "seconds_left": round(self.expected_s, 1), "seconds_left_max": round(self.most_s, 1),
        }


def periods_of(world: World, machine: RunMachine) -> Tuple[int, int]:
    """(periods measured, periods at most) of a run: what ended early needs no more."""
    results = world.all_results
    ended = sum(2 * results[i].pairs for i in machine.state.finished if i in results)
    done, most = machine.open_periods
    return ended + done, ended + most


def periods_at_end(world: World, machine: RunMachine) -> int:
    """Periods that a run is expected to have measured at its end."""
    done, most = periods_of(world, machine)
    if machine.spec.observes or machine.over:
        return most
    open_ = machine.open_experiments
    ended = done - sum(n for _, n in open_)
    return ended + sum(periods_expected(world.expected_pairs, setup, n) for setup, n in open_)


def ending(world: World, campaign: Campaign) -> Ending:
    """By the pace so far, else as forecast."""
    machines = [world.runs[name] for name in campaign.run_ids if name in world.runs]
    open_ = [machine.spec for machine in machines if not machine.over]
    cost = forecast(open_, world.cluster, (), world.expected_pairs)
    periods = [periods_of(world, machine) for machine in machines]
    done, most = sum(n for n, _ in periods), sum(n for _, n in periods)
    at_end = sum(periods_at_end(world, machine) for machine in machines)
    elapsed_s = max(0.0, world.now_s - campaign.created_at_s)
    most_s, expected_s = cost.seconds, cost.seconds_expected
    if most and done / most > SHARE_MIN:
        most_s = min(most_s, elapsed_s * (most - done) / done)
    if at_end and done / at_end > SHARE_MIN:
        expected_s = elapsed_s * (at_end - done) / done
    return Ending(min(expected_s, most_s), most_s)
