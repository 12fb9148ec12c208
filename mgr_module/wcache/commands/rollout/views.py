"""What only looks at rollouts: `rollout ls` and `rollout show`, and their progress."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Tuple

from ...core import codec
from ...core.change.change_status import ChangeStatus
from ...core.change.gate.evidence import Evidence
from ...core.change.putting_off import later_words
from ...core.change.rollout import RolloutMachine
from ...core.change.rollout_state import Rollout, RolloutStatus
from ...core.change.time_left import TimeLeft, time_left
from ...core.errors import NotFoundError
from ...core.jobs import Trial
from ...engine.world import World


def rollouts(world: World) -> Dict[str, Any]:
    """`rollout ls`: every plan that was begun, newest last."""
    found = sorted(world.rollouts.items(), key=lambda item: (len(item[0]), item[0]))
    rows = [
        _head(world, machine) for _, machine in found
        if machine.rollout.status is not RolloutStatus.PLANNED
    ]
    trials = [_trial(one, world.now_s) for one in world.trials.values()]
    return {"rollouts": rows, "trials": trials}


def rollout(world: World, plan_id: str) -> Dict[str, Any]:
    """`rollout show`: its waves, the step under way, its judgement, and the time left."""
    trial = world.trials.get(plan_id)
    if trial is not None:
        return {"trial": _trial(trial, world.now_s)}
    machine = world.rollouts.get(plan_id)
    if machine is None:
        raise NotFoundError(
            f"there is no plan {plan_id[:40]!r}", "see `ceph wcache rollout ls`"
        )
    plan = machine.rollout
    judged = machine.now_judged()
    step = plan.step
    return {
        **_head(world, machine),
        "waves": _waves(plan),
        "step": {
            "changes": [plan.changes[index].name for index in step.indices],
            "osds": list(step.treated), "controls": list(step.controls),
            "blocks_before": len(step.before), "blocks": machine.blocks_seen,
            "blocks_max": machine.blocks_max,
            "phase": machine.phase.value,
        },
        "judgement": None if judged is None else {
            **codec.to_plain(judged), "words": judged.words,
        },
        "evidence": [_evidence(item) for item in plan.evidence],
        "next_step": None if machine.over else dict(zip(("size", "why"), machine.next_step())),
        "harm_s": round(plan.harm.spent_s, 1), "harm_max_s": plan.harm_max_s,
        "waiting_for": list(machine.waits_for),
        "later": [] if machine.over else later_words(plan, world.cluster),
        "overridden": [item.name.lower() for item in plan.overridden],
        "forced": [item.name.lower() for item in plan.forced],
        "persist": plan.may_last, "judged_by": plan.judged_by,
        "trials": [
            _trial(one, world.now_s) for one in world.trials.values() if one.plan_id == plan_id
        ],
    }


def _trial(trial: Trial, now_s: float) -> Dict[str, Any]:
    """What a knob tries by itself, of a plan or for its own sake."""
    words, fraction = ("", 1.0) if trial.over else trial.progress(now_s)
    return {
        "trial_id": trial.job_id, "plan_id": trial.plan_id, "status": trial.status,
        "reason": trial.reason, "words": words, "fraction": round(fraction, 4),
        "shown_by": trial.shown_by,
    }


def _evidence(item: Evidence) -> Dict[str, Any]:
    """What all steps of a kind say together, with a 95% interval."""
    told = item.difference
    return {
        "kind": item.kind, "of": item.of, "steps": item.steps, "drives": item.drives,
        "ratio": round(math.exp(told.mean), 3), "low": round(math.exp(told.low(0.025)), 3),
        "high": round(math.exp(told.high(0.025)), 3),
    }


def _head(world: World, machine: RolloutMachine) -> Dict[str, Any]:
    rollout = machine.rollout
    left = None if machine.over else _time_left(machine, world.now_s)
    return {
        "plan_id": rollout.plan_id, "status": rollout.status.value,
        "reason": rollout.reason or rollout.pausing, "changes": len(rollout.changes),
        "applied": sum(c.status is ChangeStatus.APPLIED for c in rollout.changes),
        "not_judged": sum(c.status is ChangeStatus.MADE for c in rollout.changes),
        "wave": _wave_now(rollout), "waves_total": len(rollout.waves),
        "began_at_s": rollout.began_at_s, "paused_at_s": rollout.paused_at_s,
        "seconds_left_least": None if left is None else round(left.least_s),
        "seconds_left_most": None if left is None else round(left.most_s),
        "ends_at_s": round(world.now_s + left.expected_s)
        if left is not None and rollout.status is RolloutStatus.RUNNING and not machine.waits_for
        else None,
        "fraction": 1.0 if left is None else round(left.fraction, 4),
    }


def failed(rollout: Rollout) -> str:
    """Why a plan that is over came to nothing; '' where it was done, or taken back by will."""
    if rollout.status is RolloutStatus.DONE or rollout.by_will:
        return ""
    return rollout.reason or rollout.status.value


def _time_left(machine: RolloutMachine, now_s: float) -> TimeLeft:
    return time_left(machine.rollout, machine.steps_left(), now_s)


def progress(machine: RolloutMachine, now_s: float) -> Tuple[str, float]:
    """For `ceph progress`: a message, and the fraction of the time that is over."""
    rollout, left = machine.rollout, _time_left(machine, now_s)
    said = f"wcache plan {rollout.plan_id}"
    if rollout.status is RolloutStatus.PAUSED:
        return f"{said}: paused", left.fraction
    if rollout.status is RolloutStatus.ROLLING_BACK:
        return f"{said}: rolling back", left.fraction
    if rollout.missed:
        return f"{said}: waiting", left.fraction
    wave = f"wave {_wave_now(rollout)} of {len(rollout.waves)}"
    return f"{said}: {wave}, {left.words}", left.fraction


def _wave_now(rollout: Rollout) -> int:
    """Counted from 1; 0 before the first."""
    made = [
        rollout.wave_of(index) + 1 for index, item in enumerate(rollout.changes)
        if item.status is not ChangeStatus.PLANNED or index in rollout.step.indices
    ]
    return max(made, default=0)


def _waves(rollout: Rollout) -> List[Dict[str, Any]]:
    rows, at = [], 0
    for wave in rollout.waves:
        members = rollout.changes[at:at + wave.size]
        counts: Dict[str, int] = {}
        for item in members:
            counts[item.status.value] = counts.get(item.status.value, 0) + 1
        rows.append({
            "kind": wave.kind.value, "name": wave.name, "changes": wave.size, "statuses": counts,
        })
        at += wave.size
    return rows
