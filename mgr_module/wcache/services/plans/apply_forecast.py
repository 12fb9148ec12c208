"""What `apply --dry-run` answers: what would be changed, for how long, what would keep it."""

from __future__ import annotations

import queue
from dataclasses import replace
from itertools import islice
from typing import Any, Callable, Dict, List, Tuple

from ...core import codec
from ...core.change import preconditions
from ...core.change.change import Change, ChangeStatus
from ...core.change.rollout_state import Rollout, RolloutStatus, not_lasting
from ...core.change.stepping import gated, steps_left, time_left
from ...core.change.waves import later_words, put_off
from ...core.errors import NotReadyError
from ...core.events import LookAtCluster
from ...core.record import Precondition
from ...core.text import typed
from ...engine.engine import Engine
from ..deploying import WAIT_S
from ..guards import require_plan
from .plan_guards import obstructed, to_begin


def apply_forecast(
    engine: Engine, plan_id: str, need_not: Tuple[Precondition, ...], persist: bool, *,
    trial: bool, commits_per_s: Callable[[int], float],
) -> Dict[str, Any]:
    """What `apply` would do, in which order and for how long, and what would keep it.

    It asks what `apply` asks before the first change, the mons too.
    """
    world = engine.world()
    machine = require_plan(world.rollouts, plan_id)
    seen = _seen_by_mons(engine, plan_id)
    plan = machine.rollout
    rollout = replace(plan, trial=trial or plan.trial)
    planned = [c for c in rollout.changes if c.status is ChangeStatus.PLANNED]
    if trial:
        later = frozenset(put_off(preconditions.override(rollout, need_not), world.cluster))
        well = (
            c for i, c in enumerate(rollout.changes)
            if i not in later and c.status is ChangeStatus.PLANNED
        )
        planned = [*islice(well, 1), *planned][:1]
        rollout = replace(rollout, changes=tuple(planned))
    # a plan that is done makes nothing last by a consent that was cut short: it is given again
    over = rollout.status is RolloutStatus.DONE
    lasts = not rollout.trial and (persist or (rollout.may_last and not over))
    lasting = [
        *(c for c in planned if c.can_last), *(rollout.changes[i] for i in not_lasting(rollout)),
    ]
    left = time_left(rollout, steps_left(rollout), world.now_s)
    asked = preconditions.override(rollout, need_not)
    missed = broken(plan, need_not, seen)
    if planned and _idle(asked, planned[0], world.options.traffic_commits_min, commits_per_s):
        missed.append(Precondition.CLIENT_LOAD)
    if plan.to_last or persist:
        plan = replace(plan, consent_persist=persist or plan.may_last)
    gone = preconditions.reasons(plan, world.reports, world.cluster, world)
    return {
        "plan_id": plan_id, "changed": False, "status": rollout.status.value,
        "dry_run": True, "waves": codec.to_plain(() if over else plan.waves),
        "would_change": [
            f"{change.name}: {change.setting.words}" for change in planned
            if not change.setting.only_lasts
        ],
        "would_keep": [change.name for change in planned if change.setting.only_lasts],
        "would_persist": [change.name for change in lasting] if lasts else [],
        "judged_by": asked.judged_by if any(one.has_clients for one in planned) else "",
        "lasting": _lasting(rollout, lasts=lasts, any_can=bool(lasting)),
        "harm_max_s": 0.0 if over else rollout.harm_max_s,
        "seconds_least": round(left.least_s), "seconds_most": round(left.most_s),
        "missed": [item.value for item in missed],
        "later": later_words(asked, world.cluster),
        "moved": gone,
        **obstructed(world, plan, to_begin(plan, persist, trial, (*need_not, *missed))),
        **({"next": "ceph wcache plan"} if gone else {}),
    }


def _idle(
    rollout: Rollout, first: Change, commits_min: int, commits_per_s: Callable[[int], float],
) -> bool:
    """Whether clients write too little to judge the first change by, and it waits for that.

    What may concern reads as well does not wait: see `Rollout.judged_by`.
    """
    block_s = rollout.gate.seconds(True, 1)
    return gated(rollout, first) and not first.setting.READS_TOO and all(
        commits_per_s(osd) * block_s < commits_min for osd in first.judging_osds
    )


def _lasting(rollout: Rollout, *, lasts: bool, any_can: bool) -> str:
    """What a power cycle makes of it; "" where nothing of it could be made to last."""
    if not any_can:
        return ""
    if rollout.trial:
        return "no: a trial is taken back"
    if lasts:
        return "yes: what is judged well is made to last over a power cycle"
    again = typed("ceph wcache apply {} --persist", rollout.plan_id)
    return f"no: until the next power cycle; {again} also makes it last, now or later"


def broken(
    rollout: Rollout, need_not: Tuple[Precondition, ...], seen: Tuple[Precondition, ...]
) -> List[Precondition]:
    """What keeps the plan from going on, of what was seen not to hold."""
    asked = preconditions.override(rollout, need_not)
    missed = {item for c in asked.changes for item in preconditions.missed(asked, c, seen)}
    return [item for item in seen if item in missed]


def _seen_by_mons(engine: Engine, plan_id: str) -> Tuple[Precondition, ...]:
    """What does not hold now, with what only the mons know; holds no lock while it waits."""
    answers: queue.SimpleQueue[Tuple[Precondition, ...]] = queue.SimpleQueue()
    with engine.orders() as orders:
        machine = orders.rollouts[plan_id]
        orders.looking.see(
            machine, LookAtCluster("", machine.groups_next),
            lambda seen: answers.put(seen.missed),
        )
    try:
        return answers.get(timeout=WAIT_S)
    except queue.Empty:
        raise NotReadyError(
            f"the mons have not said within {WAIT_S:g} s whether the OSDs may stop",
            "ask again in a moment",
        ) from None
