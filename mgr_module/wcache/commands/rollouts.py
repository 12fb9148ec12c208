"""`ceph wcache plan ls`, `rollout show`: how far plans are."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from ..core import codec
from ..core.change.change import ChangeStatus
from ..core.change.preconditions import NEEDED, faults
from ..core.change.rollout import RolloutMachine
from ..core.change.rollout_state import Rollout, RolloutStatus
from ..core.change.stepping import TimeLeft, between, time_left
from ..core.change.waves import later_words
from ..core.jobs import Trial
from ..core.text import NOTHING, command, listed, many, named, roughly, since, ticked, typed, when
from ..engine.world import World
from ..services.guards import require_plan
from .plans import coming_later, stands, waiting
from .tables import LONG, NUMBER, Column, listing, said_of


def plans(world: World) -> Dict[str, Any]:
    """`plan ls`: every plan and how far it is, newest last, and the trials."""
    found = sorted(world.rollouts.items(), key=lambda item: (len(item[0]), item[0]))
    trials = [_trial(one, world.now_s) for one in world.trials.values()]
    return {"plans": [_head(world, machine) for _, machine in found], "trials": trials}


def rollout(world: World, plan_id: str) -> Dict[str, Any]:
    """`rollout show`: its waves, the step under way, its judgement, and the time left."""
    trial = world.trials.get(plan_id)
    if trial is not None:
        return {"trial": _trial(trial, world.now_s)}
    machine = require_plan(world.rollouts, plan_id, "see `ceph wcache plan ls`")
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
        # what all steps of a kind say together, with a 95% interval
        "evidence": [
            {
                "kind": item.kind, "of": item.of, "steps": item.steps, "drives": item.drives,
                "ratio": round(math.exp(told.mean), 3),
                "low": round(math.exp(told.low(0.025)), 3),
                "high": round(math.exp(told.high(0.025)), 3),
            }
            for item in plan.evidence for told in [item.difference]
        ],
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


def _head(world: World, machine: RolloutMachine) -> Dict[str, Any]:
    rollout = machine.rollout
    planned = rollout.status is RolloutStatus.PLANNED
    left = None if planned or machine.over else _time_left(machine, world.now_s)
    return {
        "plan_id": rollout.plan_id, "status": rollout.status.value,
        "created_at_s": rollout.created_at_s,
        "reason": rollout.reason or rollout.pausing, "changes": len(rollout.changes),
        "applied": sum(c.status is ChangeStatus.APPLIED for c in rollout.changes),
        "not_judged": sum(c.status is ChangeStatus.MADE for c in rollout.changes),
        "wave": _wave_now(rollout), "waves_total": len(rollout.waves),
        "began_at_s": rollout.began_at_s, "ended_at_s": rollout.ended_at_s,
        "undone_by": command("ceph wcache rollback {}", rollout.plan_id)
        if rollout.status is not RolloutStatus.ROLLING_BACK
        and (rollout.touched or (not planned and not machine.over)) else NOTHING,
        "paused_at_s": rollout.paused_at_s,
        "seconds_left_least": None if left is None else round(left.least_s),
        "seconds_left_most": None if left is None else round(left.most_s),
        "ends_at_s": round(world.now_s + left.expected_s)
        if left is not None and rollout.status is RolloutStatus.RUNNING and not machine.waits_for
        else None,
        "fraction": 0.0 if planned else 1.0 if left is None else round(left.fraction, 4),
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
    text = between(left.least_s, left.most_s)
    about = "" if " to " in text else "about "
    return f"{said}: {wave}, {about}{text} left", left.fraction


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
        counts = dict(Counter(item.status.value for item in members))
        rows.append({
            "kind": wave.kind.value, "name": wave.name, "changes": wave.size, "statuses": counts,
        })
        at += wave.size
    return rows


# More waves than this are told together where they stand alike.
WAVES_MAX, WAVES_NAMED = 20, 3
# What a dry run says of each change.
_WOULD = (
    ("would change {}", "would_change"),
    ("{} keeps its mode", "would_keep"),
    ("would make {} last over a power cycle", "would_persist"),
    ("would restore {}", "would_restore"),
)


PLANS = (
    Column("PLAN", "plan_id", "/rollouts/"), Column("STATUS", "status"),
    Column("MADE (UTC)", lambda r: when(r["created_at_s"]), NUMBER),
    Column("WAVE", lambda r: f"{r['wave']}/{r['waves_total']}", NUMBER),
    Column("APPLIED", lambda r: f"{r['applied']}/{r['changes']}", NUMBER),
    Column("NOT JUDGED", "not_judged", NUMBER), Column("TIME LEFT", lambda r: _left(r), NUMBER),
    Column("REASON", "reason", LONG),
)
WAVES = (
    Column("WAVE", 0, NUMBER), Column("KIND", 1), Column("WHERE", 2), Column("CHANGES", 3),
)


def plans_text(data: Mapping[str, Any]) -> str:
    """`ceph wcache plan ls`."""
    tried = [trial_line(one) for one in data["trials"]]
    if not data["plans"]:
        return "\n".join(tried or ["no plan yet"])
    return "\n".join([listing(PLANS, data["plans"]), *tried])


def trial_line(one: Mapping[str, Any]) -> str:
    """What a knob tries by itself."""
    of = f" of plan {one['plan_id']}" if one["plan_id"] else ""
    reason = f" ({one['reason']})" if one["reason"] else ""
    words = f"; {one['words']}" if one["words"] else ""
    see = ticked(one["shown_by"])
    return f"trial {one['trial_id']}{of}: {one['status']}{reason}{words}; see {see}"


def rollout_text(data: Mapping[str, Any]) -> str:
    """`ceph wcache rollout show`, of a plan or a trial."""
    if "trial" in data:
        return trial_line(data["trial"])
    lines = [stands(data)]
    if data["waves"]:
        lines.append(listing(WAVES, wave_rows(data["waves"])))
    step = data["step"]
    if step["changes"]:
        beside = ", ".join(f"osd.{item}" for item in step["controls"]) or "none are left"
        lines += [
            f"step: {', '.join(step['changes'])} ({step['phase']})",
            f"unchanged OSDs beside it: {beside}",
            f"blocks: {step['blocks_before']} before, {step['blocks']} of at most "
            f"{step['blocks_max']} in this stretch",
        ]
    lines.append(f"judged by: {data['judged_by']}")
    if data["judgement"]:
        lines.append(f"judgement: {data['judgement']['words']}")
        if data["judgement"]["settle"]:
            lines.append(f"it would be settled by {data['judgement']['settle']}")
    lines += [f"so far: {_told(item)}" for item in data["evidence"]]
    following = data["next_step"]
    if following and following["size"]:
        lines.append(f"next step: {many(following['size'], 'change')}, {following['why']}")
    if data["harm_max_s"]:
        lines.append(
            f"extra wait of clients: {data['harm_s']:.0f} s of {data['harm_max_s']:.0f} s, "
            "over all of them"
        )
    lines += [trial_line(one) for one in data["trials"]]
    lines += [*waiting(data), *coming_later(data)]
    if data["ends_at_s"] is not None:
        lines.append(f"expected end: {when(data['ends_at_s'])} UTC")
    if data["seconds_left_most"] is not None:
        lines.append(f"time left: {_left(data)}, without what it may wait for")
    if data["status"] == "paused":
        lines.append(f"to end it: {typed('ceph wcache rollout abort {}', data['plan_id'])}")
    return "\n".join(lines)


def wave_rows(waves: Sequence[Mapping[str, Any]]) -> List[Tuple[Any, ...]]:
    """A row for each wave; where they are many, one for those in a row that stand alike."""
    rows: List[List[Any]] = []
    for number, wave in enumerate(waves, 1):
        statuses = wave["statuses"]
        last = rows[-1] if rows else None
        if last and len(waves) > WAVES_MAX and wave["kind"] == last[2] and len(statuses) == 1 \
                and [*statuses] == [*last[4]]:
            last[1] = number
            last[3].append(wave["name"])
            last[4] = {status: last[4][status] + count for status, count in statuses.items()}
        else:
            rows.append([number, number, wave["kind"], [wave["name"]], dict(statuses)])
    return [
        (first if first == last else f"{first} to {last}", kind, named(names, WAVES_NAMED),
         ", ".join(f"{count} {status}" for status, count in statuses.items()))
        for first, last, kind, names, statuses in rows
    ]


def _told(item: Mapping[str, Any]) -> str:
    """What all steps of a kind say together."""
    return (
        f"{item['kind']}: {item['of']} latency {since(item['ratio'], item['low'], item['high'])}, "
        f"{many(item['steps'], 'step')} together, {many(item['drives'], 'change')} proven"
    )


def forecast_text(data: Mapping[str, Any]) -> str:
    """`ceph wcache apply --dry-run`, `rollback --dry-run`, and what they really answer."""
    if not data.get("dry_run"):
        return "\n".join([*said_of(data), *coming_later(data)])
    of = f"trial {data['trial_id']}" if "trial_id" in data else f"plan {data['plan_id']}"
    lines = [f"dry run: nothing of {of} is changed"]
    if "text" in data:
        return "\n".join([*lines, data["text"]])
    waves = [
        f"wave {number}, {wave['kind']}: {wave['name']}, {many(wave['size'], 'change')}"
        for number, wave in enumerate(data.get("waves", ()), 1)
    ]
    lines += listed(waves, "waves: see --format json")
    for words, key in _WOULD:
        said = [words.format(line) for line in data.get(key, ())]
        lines += listed(said, "like these: see --format json")
    if "seconds_most" in data:
        taken = between(data["seconds_least"], data["seconds_most"])
        lines.append(f"takes {taken}, without what it may wait for")
    if data.get("harm_max_s"):
        lines.append(f"{at_worst(data['harm_max_s'])}; then it pauses (rollout_harm_max_s)")
    if data.get("judged_by"):
        lines.append(f"judged by: {data['judged_by']}")
    if data.get("lasting"):
        lines.append(f"lasts: {data['lasting']}")
    if data.get("in_the_way"):
        lines.append(f"in the way: {data['in_the_way']}")
    lines += [f"not met now: {line}" for line in faults(data.get("missed", ()), NEEDED)]
    lines += coming_later(data)
    lines += [f"has changed: {line}" for line in data.get("moved", ())]
    return "\n".join(lines)


def at_worst(seconds: float) -> str:
    """What a rollout may cost its clients."""
    return f"at worst {seconds:.0f} s of extra wait, over all clients"


def _left(row: Mapping[str, Any]) -> str:
    least, most = row["seconds_left_least"], row["seconds_left_most"]
    if most is None:
        return "-"
    return between(least, most) if most - least > 5 else roughly(most)
