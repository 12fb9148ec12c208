"""`ceph wcache auto`: begins what an admin would, by the same services under their guards."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, Callable, Dict, FrozenSet, List, Optional, Sequence

from ..core import codec
from ..core.automation.deciding import (
    Seen,
    Wish,
    begun,
    decide,
    turned,
)
from ..core.automation.state import (
    Allowance,
    AutoState,
    Mode,
    ModelKey,
    Purpose,
    any_on,
    contested,
    find_undone,
    is_open,
    mode_of,
)
from ..core.change.preconditions import TOLD_AFTER_S
from ..core.errors import ConflictError, MalformedError, RefusedError, WcacheError
from ..core.history import ADMIN, AUTO
from ..core.model import Finding, FindingCode, Severity
from ..core.scope import Scope, parse_scope
from ..core.text import duration, named
from ..engine.auto_look import (
    Domains,
    arrivals,
    ended,
    going_on,
    is_fine,
    limits_of,
    look,
    modes_now,
    stands,
    taken_back,
    without_hosts,
    words_of_paused,
    words_of_taken_back,
)
from ..engine.engine import Engine
from ..engine.orders import Orders
from ..engine.storing.archive import AUTOMATION
from ..engine.world import World
from ..knobs.knob import Asked
from ..knobs.registry import DEFAULT
from .campaigns import CampaignService, Ready
from .guards import (
    disputed_domains,
    require_apart,
    require_few,
    require_scope,
    require_store,
    require_thawed,
    would,
)
from .outlook import would_begin
from .plans.plans import PlanService, planned_words

LOOK_EVERY_S = 5.0
# While something is under way, what else there is may wait: a look at all drives is not free.
BUSY_LOOK_EVERY_S = 60.0
# What was refused is asked again after this long.
REFUSED_WAIT_S = 300.0
LOADS = "traffic,depth1"
FREE_LOADS = "traffic,timer"  # they write nothing
# A second experiment settles for so many times the first one's, and for this long at least.
SETTLE_FACTOR, SETTLE_AGAIN_S = 5.0, 2.0
LEFT_SHOWN_MAX = 100
ALLOWS = {
    Mode.OFF: "nothing is begun without an admin",
    Mode.RECOMMEND: "drives are measured within the daily limits and brought back; `ceph health` "
    "and the dashboard show what would gain, and nothing is applied",
    Mode.APPLY: "drives are measured, and what would gain is applied, within the daily limits",
}
FROZEN = "; the cluster is frozen: nothing is begun before it is thawed"


class AutoService:
    """One thing at a time, under a lock of its own; what it begins, the services guard."""

    def __init__(
        self, engine: Engine, campaigns: CampaignService, plans: PlanService,
        wishes: Callable[[], Sequence[Wish]],
    ) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._campaigns = campaigns
        self._plans = plans
        self._wishes = wishes
        self.state = AutoState()
        self._domains = Domains()
        self._look_at_s = 0.0
        self._whole_look_at_s = 0.0
        self._wait_until_s = 0.0
        self._asked: Dict[str, FrozenSet[str]] = {}
        self.waiting = ""
        self._held_since_s: Optional[float] = None  # by the cluster, or as it was refused

    def load(self) -> None:
        self.state = self._engine.ports.archive.get(AUTOMATION) or AutoState()

    # ---- commands

    def turn(
        self, mode: str, scope: Optional[str] = None, dry_run: bool = False
    ) -> Dict[str, Any]:
        """`auto off|recommend|apply`: what may be begun without an admin, stored.

        A `dry_run` says what would be begun first.
        """
        wanted, world = Mode(mode), self._engine.world()
        within = parse_scope(scope)
        device_class = within.device_class
        require_store(world)
        require_scope(world, within)
        limits = limits_of(world.options)
        answer: Dict[str, Any] = {
            "device_class": device_class, "mode": wanted.value, "scope": str(within),
            "frozen": world.frozen, "before": mode_of(self.state.modes, device_class).value,
            "allows": ALLOWS[wanted] + (FROZEN if world.frozen else ""),
        }
        with self._lock:
            before, seen = self.state, self._seen(world)
            # a host whose next report is awaited has no new drives for that
            state = turned(
                before, self._seen(world, older=True), device_class, wanted, world.now_s
            )
            if dry_run:
                lines = would_begin(before, state, seen, limits, world.now_s)
                return {**answer, **would(lines)}
            answer["changed"] = state.modes != before.modes
            if answer["changed"]:
                with self._engine.orders() as orders:
                    orders.note(ADMIN, device_class or "cluster", f"auto {wanted.value}")
            self._keep(state)
            self._wait_until_s = self._look_at_s = self._whole_look_at_s = 0.0
        # what is under way is not cut off: an admin says whether it ends
        goes_on = going_on(world, device_class) if wanted is not Mode.APPLY else []
        self._engine.wake()
        return {**answer, "goes_on": "; ".join(goes_on)} if goes_on else answer

    def status(self) -> Dict[str, Any]:
        """`auto status`: what is allowed, what is spent, what it waits for, what it leaves."""
        world = self._engine.world()
        options, now_s = world.options, world.now_s
        problem, limits = "", Allowance()
        try:
            limits = limits_of(options)
        except MalformedError as error:
            problem = error.line()
        with self._lock:
            state, seen = self.state, self._seen(world)
        on = any_on(state.modes)
        return {
            "modes": {item.device_class or "*": item.mode.value for item in state.modes},
            "persist": options.auto_persist,
            "window_open": is_open(limits.windows, now_s),
            "windows": options.auto_windows,
            "spent_today": codec.to_plain(state.spent.today(now_s)),
            "limits": {
                "seconds_per_day": limits.seconds_per_day,
                "bytes_per_day": limits.bytes_per_day,
                "quiet_s": limits.quiet_s, "rollout_harm_max_s": options.rollout_harm_max_s,
            },
            "under_way": named([item.owner for item in state.begun]),
            "new_drives": len(state.fresh),
            "waiting": problem or (self.waiting if on else ""),
            "left_alone": [
                *(
                    f"{' '.join(d.key)}: {d.refusal}" for d in seen.drives
                    if d.refusal and not is_fine(d, seen)
                    and mode_of(state.modes, d.device_class) is not Mode.OFF
                ),
                *(words_of_paused(world) if on else []),
                *([without_hosts(seen.without)] if seen.without and on else []),
                *(
                    f"{' '.join(key)}: contested, see `ceph wcache status`"
                    for key in sorted(seen.contested)
                ),
                *(
                    f"{who}: `auto` no longer applies it: {held}" for who, held in (
                        *((f"{t.device_class} {t.drive_model}", t.held) for t in state.tried),
                        *((f"{item.knob} {item.host}", item.held) for item in state.anew),
                    ) if held
                ),
                *(
                    f"{' '.join(key)}: went back in plan {plan_id}: `auto` does not apply it "
                    "until it is measured while clients write"
                    for key, plan_id in sorted(seen.went_back.items())
                ),
                *(
                    f"{' '.join(key)}: `auto` no longer applies it: {why}"
                    for key, why in sorted(words_of_taken_back(state, seen.taken_back).items())
                ),
            ][:LEFT_SHOWN_MAX],
        }

    def findings(self, world: World) -> List[Finding]:
        """Tell of drives that somebody else changes back, and of what has waited for long."""
        found = contested(self.state.undone, world.reports)
        since_s = self._held_since_s
        if since_s is not None and world.now_s - since_s >= TOLD_AFTER_S:
            found.append(Finding(FindingCode.PLAN_WAITS, Severity.WARNING, "auto", self.waiting))
        return found

    def held(self, world: World) -> Dict[ModelKey, str]:
        """Tell why modes are not applied by themselves any more, by class and drive model."""
        state = self.state
        held = {item.model_key: item.held for item in state.tried if item.held}
        return {**held, **words_of_taken_back(state, taken_back(world))}

    # ---- by itself

    def tick(self, world: World) -> None:
        """Look whether something is to be begun."""
        with self._lock:
            now_s, state = world.now_s, self.state
            if now_s < self._look_at_s:
                return
            self._look_at_s = now_s + LOOK_EVERY_S
            stand = stands(world)
            undone = find_undone(
                state.undone, stand, modes_now(world) if stand else {}, now_s
            ) if stand or state.undone else ()
            if undone != state.undone:
                self._keep(replace(state, undone=undone))
            if any_on(state.modes) or state.begun:
                before = self.waiting
                self._go_on(world)
                if self.waiting != before:
                    said = f"waits: {self.waiting}" if self.waiting else "goes on"
                    self._engine.ports.log.info("auto: %s", said)

    def _keep(self, state: AutoState, orders: Optional[Orders] = None) -> None:
        """Take a new state, and store it where it differs; `orders` of whoever has the lock."""
        if state == self.state:
            return
        self.state = state
        with nullcontext(orders) if orders is not None else self._engine.orders() as given:
            given.keep_automation(state)

    def _go_on(self, world: World) -> None:
        now_s, before = world.now_s, self.state.begun
        try:
            limits = limits_of(world.options)
        except MalformedError as error:
            self.waiting = error.line()
            return
        if before and now_s < self._whole_look_at_s and not any(
            ended(world, item.owner) for item in before
        ):
            return
        self._whole_look_at_s = now_s + BUSY_LOOK_EVERY_S
        world = self._having_asked_new_osds(world)
        seen = self._seen(world)
        decision = decide(self.state, seen, limits, now_s)
        self._keep(decision.state)
        wish = decision.wish
        if wish is None:
            self.waiting = decision.waiting
            self._held(now_s, bool(seen.blocked) and decision.waiting == seen.blocked)
            return
        if now_s < self._wait_until_s:
            return
        refused = False
        without = f"begun {without_hosts(seen.without)}" if seen.without else ""
        try:
            if wish.purpose in (Purpose.APPLY, Purpose.DIVIDE):
                self.waiting = self._plan(world, wish, without)
            else:
                self.waiting = self._measure(world, wish, limits, without)
        except WcacheError as error:
            self.waiting, refused = error.line(), not world.frozen
        self._held(now_s, refused)
        if self.waiting:
            self._wait_until_s = now_s + REFUSED_WAIT_S

    def _held(self, now_s: float, held: bool) -> None:
        if not held:
            self._held_since_s = None
        elif self._held_since_s is None:
            self._held_since_s = now_s

    def _having_asked_new_osds(self, world: World) -> World:
        """Ask a host where an OSD came for a report, once for each."""
        found = arrivals(world)
        for hostname, uuids in found.items():
            if uuids - self._asked.get(hostname, frozenset()):
                with self._engine.orders() as orders:
                    orders.ask_anew(hostname)
        self._asked = found
        return self._engine.world(world)

    def _seen(self, world: World, older: bool = False) -> Seen:
        disputed = frozenset(disputed_domains(world))
        return look(world, self._domains, self.state, disputed, self._wishes(), older=older)

    def _measure(self, world: World, wish: Wish, limits: Allowance, without: str) -> str:
        """Begin a campaign of as many drives as may be measured today; returns why it was not."""
        again = wish.purpose is Purpose.AGAIN
        longer_s = max(SETTLE_AGAIN_S, SETTLE_FACTOR * world.options.settle_s)
        ready_with = partial(
            self._campaigns.ready, loads=LOADS if limits.bytes_per_day else FREE_LOADS,
            only=frozenset(wish.keys), recheck=not again, accept_cost=True, by=AUTO,
            settle_s=longer_s if again else None,
        )

        def over(now: World, ready: Ready) -> str:
            spent, cost = self.state.spent.today(now.now_s), ready.cost
            return spent.over(limits, cost.drive_seconds, cost.bytes_written)

        def prepare(now: World) -> Ready:
            most = now.options.drives_per_model
            for drives in sorted({most, min(2, most), 1}, reverse=True):
                ready = ready_with(now, drives_per_model=drives)
                if not over(now, ready):
                    break
            return ready

        with self._campaigns.deciding(prepare, world) as (now, orders, ready):
            why = over(now, ready)
            if why:
                return why
            campaign_id = ready.campaign.campaign_id
            self._campaigns.started(now, orders, ready)
            for text in filter(None, (wish.why, without)):
                orders.note(AUTO, campaign_id, text)
            cost = ready.cost
            self._keep(begun(
                self.state, wish, campaign_id, cost.drive_seconds, cost.bytes_written, 0
            ), orders)
        return ""

    def _plan(self, world: World, wish: Wish, without: str) -> str:
        """Make a plan and begin it; returns why it was not."""
        with self._engine.deciding(world) as (now, orders):
            require_thawed(now)
            require_store(now)
            require_few(now.open_plans)
            persist = now.options.auto_persist and not wish.knob
            plan = self._plans.planned(now, orders, wish.knob or DEFAULT.name, Asked(
                scope=Scope(wish.device_class), persist=persist, only=frozenset(wish.keys),
                by_itself=True,
            ))
            plan_id, changes = plan["plan_id"], len(plan["changes"])
            if not plan_id:
                nothing = "" if wish.knob else "there is nothing to change"
                return "; ".join(plan["left_alone"][:2]) or nothing
            kept, before, said = orders.look(now), self.state, [planned_words(changes)]
            if wish.knob:
                said.append(wish.why)
                changes = len({osd_id for step in plan["changes"] for osd_id in (
                    *(item["osd_id"] for item in step.get("expect", ())),
                    *step.get("osd_ids", ()),
                )})
            try:
                require_apart(kept, kept.rollouts[plan_id].rollout)
                self._require_allowed(kept, plan_id)
                self._keep(begun(before, wish, plan_id, 0.0, 0, changes), orders)
                self._plans.applied(
                    orders.look(now), orders, plan_id, persist=persist, by=AUTO, said=said
                )
            except WcacheError as error:
                # what is refused is no plan that ended badly
                self._keep(before, orders)
                if orders.rollouts[plan_id].over:
                    orders.remove_plan(plan_id)
                # its number is used again, so nobody is told to apply it
                said_why = error.message.replace(f"plan {plan_id} ", "the plan ")
                hint = "" if plan_id in error.advice else error.advice
                again = f"it is asked again every {duration(REFUSED_WAIT_S)}"
                raise RefusedError(said_why, "; ".join(filter(None, (hint, again)))) from error
            if without:
                orders.note(AUTO, plan_id, without)
        return ""

    def _require_allowed(self, world: World, plan_id: str) -> None:
        """Change no class that is off: a wish is older than the plan, which may have more."""
        changes = world.rollouts[plan_id].rollout.changes
        of_osds = (world.cluster.classes_of(change, change.treated) for change in changes)
        for name in sorted({change.device_class for change in changes}.union(*of_osds)):
            if name and mode_of(self.state.modes, name) is not Mode.APPLY:
                raise ConflictError(
                    f"class {name} is {mode_of(self.state.modes, name).value} under `auto`, and "
                    "the plan would change it",
                )
