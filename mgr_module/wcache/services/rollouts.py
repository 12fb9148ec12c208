"""The use cases behind `ceph wcache rollout pause`, `resume` and `abort`."""

from __future__ import annotations

from typing import Any, Dict, Optional

from ..core.change import preconditions as holding
from ..core.change.rollout import RolloutMachine
from ..core.change.rollout_state import RolloutStatus
from ..core.errors import ConflictError, NotFoundError
from ..core.events import Halt
from ..engine.engine import Engine
from .dry_run import would
from .guards import require_store, require_thawed
from .plans import PlanService


class RolloutService:
    """Steers a rollout that was begun; thread-safe by the engine's lock."""

    def __init__(self, engine: Engine, plans: PlanService) -> None:
        self._engine = engine
        self._plans = plans

    def pause(self, plan_id: str, dry_run: bool = False) -> Dict[str, Any]:
        """`rollout pause`: nothing further is changed; what is made stays, and is not persisted.

        A change that is under way is made first.
        """
        engine = self._engine
        with engine.lock:
            machine = self._machine(plan_id)
            changed = machine.rollout.status is RolloutStatus.RUNNING
            if not changed and not machine.paused:
                raise ConflictError(
                    f"plan {plan_id} is {machine.rollout.status.value}: there is nothing to pause",
                    "see `ceph wcache rollout ls`",
                )
            if dry_run:
                after = " once the change under way is made" if machine.mid_change else ""
                lines = [f"change nothing further{after}"] if changed else []
                return {**self._answer(machine, False), **would(lines)}
            if changed:
                engine.note("admin", plan_id, "pause requested")
                engine.execute(plan_id, machine.pause("paused by an admin"))
        engine.wake()
        return self._answer(machine, changed)

    def resume(
        self, plan_id: str, override: Optional[str] = None, dry_run: bool = False
    ) -> Dict[str, Any]:
        """`rollout resume`: go on; a step that is made and not judged is watched anew."""
        engine = self._engine
        need_not = holding.parse_override(override or "")
        with engine.lock:
            require_thawed(engine)
            machine = self._machine(plan_id)
            if not machine.paused:
                if machine.rollout.status is RolloutStatus.RUNNING:
                    new = not dry_run and self._plans.override(machine, need_not)
                    return self._answer(machine, new)
                raise ConflictError(
                    f"plan {plan_id} is {machine.rollout.status.value}, not paused",
                    "see `ceph wcache rollout ls`",
                )
            require_store(engine)
            self._plans.require_unmoved(machine.rollout)
            if dry_run:
                broken = self._plans.broken(machine, need_not)
                return {
                    **self._answer(machine, False), "dry_run": True,
                    "missed": [item.value for item in broken],
                }
            engine.note("admin", plan_id, "resume requested")
            self._plans.override(machine, need_not)
            engine.execute(plan_id, machine.resume(engine.clock()))
        engine.wake()
        return self._answer(machine, True)

    def abort(self, plan_id: str, dry_run: bool = False) -> Dict[str, Any]:
        """`rollout abort`: the wave that is not judged goes back, the plan is over.

        What earlier waves have changed stays; `rollback` takes that back too.
        """
        engine = self._engine
        with engine.lock:
            machine = self._machine(plan_id)
            changed = not machine.over and machine.rollout.status is not RolloutStatus.ROLLING_BACK
            if dry_run:
                back = machine.would_go_back if changed else ()
                return {
                    **self._answer(machine, False), "dry_run": True,
                    "would_restore": [change.name for change in back],
                }
            if changed:
                engine.note("admin", plan_id, "abort requested")
                engine.feed(plan_id, Halt("aborted by an admin"))
        engine.wake()
        return self._answer(machine, changed)

    def _machine(self, plan_id: str) -> RolloutMachine:
        machine = self._engine.rollouts.get(plan_id)
        if machine is None:
            raise NotFoundError(
                f"there is no plan {plan_id[:40]!r}", "see `ceph wcache rollout ls`"
            )
        return machine

    @staticmethod
    def _answer(machine: RolloutMachine, changed: bool) -> Dict[str, Any]:
        rollout = machine.rollout
        return {
            "plan_id": rollout.plan_id, "changed": changed, "status": rollout.status.value,
            "reason": rollout.reason or rollout.pausing,
        }
