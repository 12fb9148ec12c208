"""The use cases that steer a rollout, from `rollout pause` to `rollback`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Dict, Optional, Union

from ...core.change import preconditions as holding
from ...core.change.change import ChangeStatus
from ...core.change.rollout_state import Rollout, RolloutStatus
from ...core.errors import ConflictError, MalformedError, NotFoundError, StorageError
from ...core.events import STOP, Halt
from ...core.text import named
from ...engine.engine import Engine
from ...engine.world import World
from ..guards import require_apart, require_plan, require_store, require_thawed
from .plan_guards import Steered, anew, plan_order, require_latest, require_unmoved
from .plans import PlanService

SEE = "see `ceph wcache plan ls`"


class RolloutService:
    """Steers a rollout that was begun; thread-safe by the engine's lock."""

    def __init__(self, engine: Engine, plans: PlanService) -> None:
        self._engine = engine
        self._plans = plans

    def pause(self, plan_id: str, dry_run: bool = False) -> Steered:
        """`rollout pause`: nothing further is changed; what is made stays, and is not persisted.

        A change that is under way is made first.
        """
        engine = self._engine
        with engine.deciding() as (world, orders):
            machine = require_plan(world.rollouts, plan_id, SEE)
            rollout = machine.rollout
            changed = rollout.status is RolloutStatus.RUNNING
            if not changed and not machine.paused:
                raise ConflictError(
                    f"plan {plan_id} is {rollout.status.value}: there is nothing to pause", SEE
                )
            if dry_run:
                after = " once the change under way is made" if machine.mid_change else ""
                lines = [f"change nothing further{after}"] if changed else []
                return replace(_answer(rollout, False), dry_run=True, would=lines)
            if changed:
                orders.note("admin", plan_id, "pause requested")
                orders.steer(plan_id, lambda plan: plan.pause("paused by an admin"))
        return self._answered(plan_id, changed)

    def resume(
        self, plan_id: str, override: Optional[str] = None, dry_run: bool = False
    ) -> Steered:
        """`rollout resume`: go on; a step that is made and not judged is watched anew."""
        engine = self._engine
        need_not = holding.parse_override(override or "")
        with engine.deciding(engine.world().advised()) as (world, orders):
            require_thawed(world)
            machine = require_plan(world.rollouts, plan_id, SEE)
            rollout = machine.rollout
            if not machine.paused and not rollout.pausing:
                if rollout.status is RolloutStatus.RUNNING:
                    new = not dry_run and self._plans.override(orders, rollout, need_not)
                    return _answer(rollout, new)
                raise ConflictError(f"plan {plan_id} is {rollout.status.value}, not paused", SEE)
            require_store(world)
            require_unmoved(world, rollout)
            if dry_run:
                broken = self._plans.broken(world, orders, rollout, need_not)
                return replace(_answer(rollout, False), dry_run=True, missed=broken)
            orders.note("admin", plan_id, "resume requested")
            self._plans.override(orders, rollout, need_not)
            orders.steer(plan_id, lambda plan: plan.resume(world.now_s))
        return self._answered(plan_id, True)

    def abort(
        self, plan_id: str, dry_run: bool = False
    ) -> Union[Steered, Dict[str, Any]]:
        """`rollout abort`: the wave that is not judged goes back, the plan is over.

        What earlier waves have changed stays; `rollback` takes that back too.  A trial ends, and
        what it has leased goes back.
        """
        engine = self._engine
        with engine.deciding() as (world, orders):
            if plan_id in world.trials:
                return self._end_trial(world, orders, plan_id, dry_run)
            machine = require_plan(world.rollouts, plan_id, SEE)
            rollout = machine.rollout
            changed = not machine.over and rollout.status is not RolloutStatus.ROLLING_BACK
            if dry_run:
                back = machine.would_go_back if changed else ()
                names = [change.name for change in back]
                return replace(_answer(rollout, False), dry_run=True, would_restore=names)
            if changed:
                orders.note("admin", plan_id, "abort requested")
                orders.feed(plan_id, Halt("aborted by an admin"))
        return replace(self._answered(plan_id, changed), undo=anew(rollout))

    def _end_trial(
        self, world: World, orders: Engine, trial_id: str, dry_run: bool
    ) -> Dict[str, Any]:
        trial = world.trials[trial_id]
        told = {"trial_id": trial_id, "changed": False, "status": trial.status}
        if dry_run:
            lines = [] if trial.over else ["what OSDs were leased"]
            return {**told, "dry_run": True, "would_restore": lines}
        changed = orders.end_trial(trial_id, STOP.reason)
        self._engine.wake()
        return {
            **told, "changed": changed, "status": orders.look(world).trials[trial_id].status,
            "text": f"{trial_id} ends: what it leased goes back",
        }

    def rollback(self, plan_id: Optional[str] = None, dry_run: bool = False) -> Steered:
        """`rollback`: bring back what was there before a plan (default: the last one applied).

        A plan that is being carried out stops where it is and goes back.  It works while the
        cluster is frozen: a freeze stops changes, and this only takes them back.
        """
        with self._engine.deciding() as (world, orders):
            if plan_id is None:
                done = {*(plan.plan_id for plan in world.plans if plan.touched), *world.open_plans}
                if not done:
                    raise NotFoundError("nothing is applied", "see `ceph wcache history`")
                if len(world.open_plans) > 1:
                    raise MalformedError(
                        f"{len(world.open_plans)} plans are not over",
                        f"name one of {named(world.open_plans)}",
                    )
                plan_id = max(done, key=plan_order)
            machine = world.rollouts.get(plan_id)
            if machine is None:
                damaged = world.unreadable.get(f"rollout/{plan_id}")
                if damaged:
                    raise StorageError(f"plan {plan_id[:40]!r} cannot be read: {damaged}")
                raise NotFoundError(f"there is no plan {plan_id[:40]!r}")
            rollout = machine.rollout
            going = rollout.status is RolloutStatus.ROLLING_BACK
            if going and not any(c.status is ChangeStatus.APPLIED for c in rollout.changes):
                # of an abort, what earlier waves have changed would stay
                return Steered(plan_id, False, rollout.status)
            told = Steered(plan_id, False, rollout.status, undo=anew(rollout))
            if machine.over and not rollout.touched:
                return told
            if machine.over:
                require_apart(world, rollout, unasked=True)
            require_latest(world, rollout)
            if dry_run:
                lines = [
                    f"{c.name}: {c.setting.what}{c.setting.over_others(world.drives_of(c))}"
                    for c in rollout.touched
                ]
                return replace(told, dry_run=True, would_restore=lines)
            orders.note("admin", plan_id, "rollback requested")
            for change in rollout.touched:
                others = change.setting.over_others(world.drives_of(change))
                if others:
                    text = f"{change.name}: {change.setting.what}{others}"
                    orders.note("mgr", plan_id, text, "warning")
            status = orders.steer(plan_id, lambda plan: plan.start_rollback())
            self._engine.wake()
            return replace(told, changed=True, status=status)

    def _answered(self, plan_id: str, changed: bool) -> Steered:
        self._engine.wake()
        return _answer(self._engine.world().rollouts[plan_id].rollout, changed)


def _answer(rollout: Rollout, changed: bool) -> Steered:
    return Steered(rollout.plan_id, changed, rollout.status, rollout.reason or rollout.pausing)
