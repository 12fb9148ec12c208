"""`ceph wcache mclock apply` and `rollback`: plans of this one knob, made and carried out."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from ....core.change.rollout_state import RolloutStatus
from ....core.change.scope import Scope
from ....core.errors import NotFoundError
from ....engine.engine import Engine
from ....services.dry_run import would
from ....services.guards import (
    require_class,
    require_config,
    require_store,
    require_thawed,
)
from ....services.plans.plan_guards import plan_order
from ....services.plans.plans import PlanService, PlanWish
from ...knob import knobs_of
from ..advice import Advice, advise
from ..knob import MCLOCK
from .facts import MclockFacts


class MclockPlans:
    """Makes a plan of what `mclock recommend` shows, and carries it out or takes it back."""

    def __init__(self, engine: Engine, facts: MclockFacts, plans: PlanService) -> None:
        self._engine = engine
        self._facts = facts
        self._plans = plans

    def apply(
        self, device_class: Optional[str] = None, dry_run: bool = False
    ) -> Dict[str, Any]:
        """`mclock apply`: make the recommended changes in the config database."""
        engine = self._engine
        world = engine.world()
        require_class(world, device_class)
        require_config(world)
        chosen = [
            advice for advice in advise(self._facts.gather(world))
            if device_class in (None, "", advice.device_class)
        ]
        wish = PlanWish(Scope(device_class or None), knob=MCLOCK.name)
        with engine.deciding(world.advised()) as (world, orders):
            require_thawed(world)
            require_store(world)
            if not any(advice.changes for advice in chosen):
                return {"change_id": "", "changed": False, "changes": [],
                        "why": _why_nothing(chosen)}
            if dry_run:
                planned = self._plans.forecast(world, orders, wish)
                commands = [line for row in planned["changes"] for line in row["manual"]]
                return {"change_id": "", "why": "", "changes": [],
                        **would(f"run: {line}" for line in commands)}
            planned = self._plans.planned(world, orders, wish)
            self._plans.applied(orders.look(world), orders, planned["plan_id"])
        return {
            "change_id": planned["plan_id"], "changed": True, "why": "",
            "changes": [line for row in planned["changes"] for line in row["manual"]],
        }

    def rollback(
        self, change_id: Optional[str] = None, dry_run: bool = False
    ) -> Dict[str, Any]:
        """`mclock rollback`: bring back the values before an apply (default: the last one)."""
        engine = self._engine
        with engine.deciding() as (world, orders):
            require_thawed(world)
            mine = {
                plan_id: machine.rollout for plan_id, machine in world.rollouts.items()
                if MCLOCK.name in knobs_of(machine.rollout)
            }
            if change_id is None:
                done = [
                    plan_id for plan_id, rollout in mine.items()
                    if rollout.touched or rollout.status is RolloutStatus.RUNNING
                ]
                if not done:
                    raise NotFoundError("nothing is applied", "see `ceph wcache mclock show`")
                change_id = max(done, key=plan_order)
            if change_id not in mine:
                raise NotFoundError(
                    f"there is no change {change_id[:40]!r}", "see `ceph wcache mclock show`"
                )
            answer = self._plans.taken_back(world, orders, change_id, dry_run)
            if dry_run:
                lines = [f"restore {line}" for line in answer.get("would_restore", ())]
                return {"change_id": change_id, "status": answer["status"], **would(lines)}
        return {
            "change_id": change_id, "changed": answer["changed"], "status": answer["status"]
        }


def _why_nothing(chosen: List[Advice]) -> str:
    if not chosen:
        return "nothing is measured; see `ceph wcache campaign forecast --loads=capacity`"
    blocked = [line for advice in chosen for line in advice.warnings]
    return blocked[0] if blocked else "every value is as recommended"
