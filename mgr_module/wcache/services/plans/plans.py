"""The use cases behind `ceph wcache plan`, from planning to `apply`."""

from __future__ import annotations

import secrets
from dataclasses import replace
from functools import partial
from typing import (
    Any,
    Dict,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Union,
)

from ...ceph.view import CephTraffic
from ...core import codec
from ...core.change import preconditions as holding
from ...core.change.change import require_room
from ...core.change.rollout import RolloutMachine
from ...core.change.rollout_state import Rollout, RolloutStatus, not_lasting
from ...core.change.stepping import between, time_left
from ...core.change.waves import arranged, later_words
from ...core.errors import (
    ConflictError,
    ConsentError,
    NotFoundError,
    RefusedError,
)
from ...core.events import Begin
from ...core.fleet.claims import Age
from ...core.history import ADMIN, AUTO
from ...core.record import Precondition
from ...core.scope import parse_scope
from ...core.text import NOTHING, many, named, typed
from ...engine.engine import Engine
from ...engine.orders import Orders
from ...engine.storing.plans import require_readable
from ...engine.world import World
from ...knobs.knob import Asked, Wanted
from ...knobs.registry import DEFAULT
from ..guards import (
    left_out,
    require_apart,
    require_plan,
    require_scope,
    require_store,
    require_thawed,
)
from .apply_forecast import apply_forecast, broken
from .plan_guards import (
    OwnTrial,
    Steered,
    anew,
    begin_trial_of,
    gate_settings,
    hosts_taken_over,
    only_to_last,
    require_consent,
    require_for_now,
    require_in_place,
    require_measured,
    require_startable,
    require_unmoved,
    trial_forecast,
)
from .planners import (
    Planner,
    expectations,
    in_place_by,
    laid_out_otherwise,
    plain_changes,
    stale_keys_of,
)

# Enough that no id of a change is ever made twice.
NONCE_BYTES = 8


class _Made(NamedTuple):
    """A plan that is not kept yet; `rollout` is None where there is nothing to change."""

    told: Dict[str, Any]
    wanted: Wanted
    rollout: Optional[Rollout] = None


class PlanService:
    """Makes plans and carries them out; thread-safe by the engine's lock."""

    def __init__(
        self, engine: Engine, planners: Mapping[str, Planner], clients: CephTraffic
    ) -> None:
        self._engine = engine
        self._planners = planners
        self._clients = clients

    def plan(
        self, scope: Optional[str] = None, dry_run: bool = False, knob: str = DEFAULT.name,
        override: str = "", without: str = "", **words: Any,
    ) -> Dict[str, Any]:
        """`plan`: ordered changes that make the recommendations true; nothing is changed.

        `words` are the rest of `Asked`.  A `dry_run` keeps no plan either.
        """
        engine, within = self._engine, parse_scope(scope)
        world = engine.world()
        if knob not in self._planners:
            raise NotFoundError(
                f"there is no knob {knob[:40]!r}", f"use one of {', '.join(self._planners)}"
            )
        require_scope(world, within)
        asked = Asked(
            scope=within, take_over=hosts_taken_over(override), without=left_out(world, without),
            **words,
        )
        with engine.orders() as orders:
            plan_id, reported = orders.new_plan_id(), orders.refresh()
        made = self._made(world, plan_id, reported, knob, asked)
        if dry_run:
            return made.told
        with engine.orders() as orders:
            return _kept(orders, made)

    def planned(self, world: World, orders: Orders, knob: str, asked: Asked) -> Dict[str, Any]:
        """Plan by a look that holds; nothing is noted before it is begun."""
        plan_id, reported = orders.new_plan_id(), orders.refresh()
        return _kept(orders, self._made(world, plan_id, reported, knob, asked), noted=False)

    def _made(
        self, world: World, plan_id: str, reported: Age, knob: str, asked: Asked
    ) -> _Made:
        asked = replace(asked, plan_id=plan_id, nonce=secrets.token_hex(NONCE_BYTES))
        options, cluster, scope = world.options, world.cluster, asked.scope
        wanted = self._planners[knob].plan(asked, world)
        changes, waves = arranged([c for c in wanted.changes if c.is_within(scope)], cluster)
        if not changes:
            return _Made({
                "plan_id": "", "changes": [], "left_alone": list(wanted.left_alone),
                "drives_in_place": wanted.drives_in_place, "reported": codec.to_plain(reported),
                "in_place_by": in_place_by(world, knob, scope),
                "next": self._planners[knob].instead(asked, world),
                **self._missing(world, knob, asked),
            }, wanted)
        rollout = Rollout(
            plan_id, world.now_s, changes, consent_turn_on=asked.consent_turn_on,
            consent_persist=asked.persist, throwaway=options.throwaway_cluster,
            settle_s=max(options.settle_s, 1.0), canary_wait_s=options.canary_wait_s,
            latency_limit_ms=options.latency_limit_ms, period_s=2 * options.period_s,
            cluster_fsid=cluster.fsid, by=AUTO if asked.by_itself else ADMIN, waves=waves,
            gate=gate_settings(options), parallel_max=options.rollout_parallel_max,
            harm_max_s=options.rollout_harm_max_s,
            pause_max_s=3600.0 * options.pause_max_h if asked.by_itself else 0.0,
        )
        for change in changes:
            require_room(change)
        require_readable(rollout)
        return _Made({
            "plan_id": "", "changes": plain_changes(changes, asked.persist, expectations(world)),
            "left_alone": list(wanted.left_alone), "drives_in_place": wanted.drives_in_place,
            "doubts": [*wanted.doubts, *laid_out_otherwise(world, changes)],
            "stale_keys": stale_keys_of(self._planners.values(), world, rollout),
            "waves": codec.to_plain(waves), "reported": codec.to_plain(reported),
        }, wanted, rollout)

    def _missing(self, world: World, knob: str, asked: Asked) -> Dict[str, str]:
        """The consent that is all that keeps a plan from changing something."""
        if asked.consent_turn_on:
            return {}
        wanted = self._planners[knob].plan(replace(asked, consent_turn_on=True), world)
        found = any(change.is_within(asked.scope) for change in wanted.changes)
        return {"missing": "consent_turn_on"} if found else {}

    def remove(self, plan_id: str, dry_run: bool = False) -> Steered:
        """`plan rm`: forget a plan that was never begun; what was begun is the way back."""
        with self._engine.deciding() as (world, orders):
            rollout = require_plan(world.rollouts, plan_id).rollout
            if rollout.status is not RolloutStatus.PLANNED:
                raise RefusedError(
                    f"plan {plan_id} was begun ({rollout.status.value}): it is kept, since it says "
                    "what was there before", "old ones are forgotten by themselves",
                )
            if not dry_run:
                require_store(world)
                orders.remove_plan(plan_id)
                orders.note(ADMIN, plan_id, "removed; it was never begun")
        if dry_run:
            return Steered(plan_id, False, dry_run=True, would=[f"forget plan {plan_id}"])
        return Steered(plan_id, True, undo=anew(rollout))

    def apply(
        self, plan_id: str, override: Optional[str] = None, trial: bool = False,
        persist: bool = False, dry_run: bool = False, consent_turn_on: bool = False,
    ) -> Union[Steered, Dict[str, Any]]:
        """`apply`: carry out a plan in the background, proving each change.

        `override` names preconditions that need not hold, also of a plan that waits for them.
        A `trial` makes the first change, measures what it gains, and takes it back, or is the
        knob's own.  `persist` is the only consent to make what was judged well last, and
        `consent_turn_on` the one to acknowledge what bcache's cache device alone has.  A
        `dry_run` says what would happen, and so does what is missing a consent.
        """
        engine, need_not = self._engine, holding.parse_override(override or "")
        world = engine.world()
        rollout = require_plan(world.rollouts, plan_id).rollout
        own = None
        if trial and rollout.status is RolloutStatus.PLANNED:
            own = self._planners[rollout.changes[0].setting.knob].trial_of(rollout, world)
        forecast = partial(
            apply_forecast, engine, plan_id, need_not, trial=trial,
            commits_per_s=self._clients.commits_per_s,
        )
        if own is not None and (need_not or persist):
            raise RefusedError(
                f"plan {plan_id} is tried by a trial of its own, which takes neither --override "
                "nor --persist", "leave them out",
            )
        if dry_run:
            require_thawed(world)
            if rollout.status is not RolloutStatus.PLANNED:
                require_in_place(world, rollout)
                if not (_makes_last(rollout, persist) and not_lasting(rollout)):
                    return _asked_again(rollout, need_not)
            if own is not None:
                return trial_forecast(rollout, own, world)
            return forecast(persist or only_to_last(rollout))
        try:
            with engine.deciding(world.advised()) as (world, orders):
                told = self.applied(
                    world, orders, plan_id, need_not, trial=trial, persist=persist, own=own,
                    turn_on=consent_turn_on,
                )
        except ConsentError as missing:
            missing.told = forecast(persist or only_to_last(rollout))
            raise
        if told.text is not None:
            return told
        machine = engine.world().rollouts[plan_id]
        left = time_left(machine.rollout, machine.steps_left(), world.now_s)
        planned = many(1 if trial else len(rollout.changes), "change")
        took = between(left.least_s, left.most_s)
        return replace(told, text=f"{plan_id} begins: {planned}, {took}")

    def applied(
        self, world: World, orders: Orders, plan_id: str,
        need_not: Tuple[Precondition, ...] = (), *, trial: bool = False, persist: bool = False,
        by: str = ADMIN, own: Optional[OwnTrial] = None, turn_on: bool = False,
        said: Sequence[str] = (),
    ) -> Steered:
        """Apply by a look that holds; `own` is a trial in place of the plan's first change.

        `said` is noted before it is begun.
        """
        require_thawed(world)
        rollout = require_plan(world.rollouts, plan_id).rollout
        orders.refresh()
        if rollout.status is not RolloutStatus.PLANNED:
            require_in_place(world, rollout)
            if _makes_last(rollout, persist):
                return self._make_last(world, orders, rollout, by)
            under_way = rollout.status is RolloutStatus.RUNNING
            new = under_way and self.override(orders, rollout, need_not)
            said = f"{plan_id} goes on without what is overridden"
            return Steered(plan_id, new, rollout.status, text=said)
        if own is not None:
            told = begin_trial_of(rollout, own, world, orders, by)
            self._engine.wake()
            return told
        require_for_now(rollout, persist)
        require_startable(world, rollout)
        # what it was planned with is no consent: what is asked for now is held against the drives
        require_unmoved(world, replace(rollout, consent_persist=persist))
        require_consent(rollout, turn_on)
        self._require_fit(world, orders, rollout, need_not)
        if trial:
            require_measured(rollout)
        given = (("trial", trial), ("persist", persist), ("consent-turn-on", turn_on))
        words = "".join(f" --{name}" for name, is_given in given if is_given)
        for text in (*said, f"apply{words} requested"):
            orders.note(by, plan_id, text)
        orders.steer(
            plan_id, lambda plan: plan.consent(trial=trial, persist=persist, writeback=turn_on)
        )
        self.override(orders, rollout, need_not)
        orders.feed(plan_id, Begin())
        self._engine.wake()
        status = orders.rollouts[plan_id].rollout.status
        later = later_words(holding.override(rollout, need_not), world.cluster)
        return Steered(plan_id, True, status, later=later or None)

    def _require_fit(
        self, world: World, orders: Orders, rollout: Rollout, need_not: Tuple[Precondition, ...]
    ) -> None:
        """Nothing is begun where a precondition is missed; later the machine holds instead."""
        broken = self.broken(world, orders, rollout, need_not)
        if broken:
            ill = [named(later_words(holding.override(rollout, need_not), world.cluster))]
            ill = ill if Precondition.OSDS_WELL in broken else []
            names = ",".join(item.name.lower() for item in (*need_not, *broken))
            raise RefusedError(
                holding.words(broken, "; ".join((*world.cluster.sick, *ill))),
                "wait until they are met, or "
                + typed("ceph wcache apply {} --override={}", rollout.plan_id, names),
            )

    @staticmethod
    def broken(
        world: World, orders: Orders, rollout: Rollout, need_not: Tuple[Precondition, ...] = ()
    ) -> List[Precondition]:
        """What keeps the plan from going on, by what the mgr knows itself."""
        machine = orders.rollouts[rollout.plan_id]
        missed = orders.looking.missed_now(machine, world.cluster, lambda: world)
        return broken(rollout, need_not, missed)

    def _make_last(self, world: World, orders: Orders, rollout: Rollout, by: str) -> Steered:
        """The consent to last, after the one to change."""
        plan_id = rollout.plan_id
        require_store(world)
        require_apart(world, rollout, unasked=True)
        changes = [rollout.changes[index] for index in not_lasting(rollout)]
        lasting = replace(rollout, consent_persist=True)
        gone = holding.reasons(lasting, world.reports, world.cluster, world, changes)
        if gone:
            raise ConflictError(
                f"not made to last: {gone[0]}", typed("ceph wcache rollback {}", plan_id)
            )
        if changes:
            orders.note(by, plan_id, "apply --persist requested")
        status = orders.steer(plan_id, RolloutMachine.make_last)
        self._engine.wake()
        said = f"{plan_id} is made to last over a power cycle: {many(len(changes), 'change')}"
        return Steered(plan_id, bool(changes), status, text=said)

    @staticmethod
    def override(
        orders: Orders, rollout: Rollout, need_not: Tuple[Precondition, ...]
    ) -> bool:
        """Have a plan go on without these; whether that is new."""
        if set(need_not) <= set(rollout.overridden):
            return False
        names = ", ".join(item.name.lower() for item in need_not)
        orders.note("admin", rollout.plan_id, f"overridden: {names}")
        orders.steer(rollout.plan_id, lambda plan: plan.override(need_not))
        return True


def _makes_last(rollout: Rollout, persist: bool) -> bool:
    """Whether `apply` of a plan that was begun is the consent to last; a ConflictError too soon."""
    done = rollout.status is RolloutStatus.DONE
    if not persist or (rollout.consent_persist and not (done and not_lasting(rollout))):
        return False
    if not done:
        again = typed("ceph wcache apply {} --persist", rollout.plan_id)
        raise ConflictError(
            f"plan {rollout.plan_id} was begun without --persist", f"wait for its end, then {again}"
        )
    return True


def _asked_again(rollout: Rollout, need_not: Tuple[Precondition, ...]) -> Dict[str, Any]:
    """What `apply` would say of a plan that was begun; beside an override it changes nothing."""
    plan_id, status = rollout.plan_id, rollout.status.value
    told = {"plan_id": plan_id, "changed": False, "status": status, "dry_run": True}
    if rollout.status is RolloutStatus.RUNNING and not set(need_not) <= set(rollout.overridden):
        return {**told, "text": f"{plan_id} would go on without what is overridden"}
    return {**told, "text": f"nothing changes: {plan_id} is {status}", "next": NOTHING}


def planned_words(changes: int) -> str:
    """How it is noted that a plan was made."""
    return f"planned {many(changes, 'change')}"


def _kept(orders: Orders, made: _Made, noted: bool = True) -> Dict[str, Any]:
    rollout = made.rollout
    if rollout is None:
        made.wanted.remember(())
        return made.told
    orders.add_rollout(rollout)
    made.wanted.remember(rollout.changes)
    if noted:
        orders.note(rollout.by, rollout.plan_id, planned_words(len(rollout.changes)))
    return {**made.told, "plan_id": rollout.plan_id}
