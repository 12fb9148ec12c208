"""What a knob tries by itself, in place of a plan's first change, and the one way it is begun."""

from __future__ import annotations

from typing import Any, Callable, Dict, NamedTuple, Sequence

from ...core.change.preconditions import precondition_text
from ...core.change.rollout_state import Rollout
from ...core.errors import RefusedError
from ...core.history import ADMIN
from ...core.jobs import Touched
from ...core.shell import command
from ...engine.orders import Orders
from ...engine.world import World
from ..guards import require_clear, require_store, require_thawed
from .plan_guards import in_the_way, require_startable, require_unmoved


class OwnTrial(NamedTuple):
    """A trial that is ready to begin.

    `words` are for the history, `would` says what it would change, a line each, and `touched` what
    it has for itself.  `start` begins it in the name of whom it is given, and may refuse.
    """

    trial_id: str
    words: str
    would: Sequence[str]
    seconds: float
    touched: Touched
    start: Callable[[World, Orders, str], None]


def begin_trial(trial: OwnTrial, world: World, orders: Orders, by: str = ADMIN) -> None:
    """Begin it by a look that holds, with nothing in common with what is not over.

    No precondition of the whole cluster may be missed; those of its OSDs `start` asks for.
    """
    require_thawed(world)
    require_store(world)
    require_clear(world, trial.touched)
    if world.cluster.blocking:
        cluster = world.cluster
        raise RefusedError(
            precondition_text(cluster.blocking, sick=cluster.sick), "wait until they are met"
        )
    trial.start(world, orders, by)


def begin_trial_of(
    rollout: Rollout, trial: OwnTrial, world: World, orders: Orders, by: str
) -> Dict[str, Any]:
    """Begin the trial of a plan's changes; the plan itself is not begun."""
    require_startable(world, rollout)
    require_unmoved(world, rollout)
    begin_trial(trial, world, orders, by)
    orders.note(by, rollout.plan_id, f"apply --trial requested: {trial.trial_id}, {trial.words}")
    return {
        **_answer(rollout, changed=True), "trial_id": trial.trial_id,
        "next": command("ceph wcache rollout show {}", trial.trial_id),
    }


def trial_forecast(rollout: Rollout, trial: OwnTrial, world: World) -> Dict[str, Any]:
    """Say what it would change and for how long, and what would keep it."""
    return {
        **_answer(rollout, changed=False), "dry_run": True,
        "would_change": list(trial.would),
        "seconds_least": round(trial.seconds), "seconds_most": round(trial.seconds),
        "missed": [item.value for item in world.cluster.blocking],
        "in_the_way": in_the_way(world, rollout),
        "next": command("ceph wcache apply {} --trial", rollout.plan_id),
    }


def _answer(rollout: Rollout, *, changed: bool) -> Dict[str, Any]:
    return {"plan_id": rollout.plan_id, "changed": changed, "status": rollout.status.value}
