"""`ceph wcache auto`: begins what an admin would, by the same services and under their guards."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import replace
from typing import (
    Any,
    Callable,
    Dict,
    FrozenSet,
    Iterator,
    List,
    Optional,
    Sequence,
    Tuple,
)

from ...core import codec
from ...core.automation.arrivals import arrivals
from ...core.automation.deciding import (
    Apply,
    Measure,
    Wish,
    begun,
    decide,
    turned,
    would_begin,
)
from ...core.automation.dividing import PlanAnew
from ...core.automation.drift import contested
from ...core.automation.drift import look as look_for_drift
from ...core.automation.modes import Mode, any_on, mode_of
from ...core.automation.seen import DriveSeen, Outdated, Seen
from ...core.automation.spending import Limits, over, today
from ...core.automation.state import AutoState, Purpose
from ...core.automation.windows import is_open, parse_windows
from ...core.change.preconditions import TOLD_AFTER_S
from ...core.change.scope import Scope
from ...core.errors import MalformedError, WcacheError
from ...core.history.entry import ADMIN, AUTO
from ...core.model import Finding, FindingCode, Severity, Verdict
from ...core.output_format import FORMAT_VERSION
from ...core.shell import typed
from ...core.text import duration, named
from ...engine.automation.domains import Domains
from ...engine.automation.looking import ended, going_on, look, modes_now, stands
from ...engine.automation.stored_state import StoredAutoState
from ...engine.engine import Engine
from ...engine.hosts import AWAITED_S
from ...engine.orders import Orders
from ...engine.under_way import touched_by, words_of
from ...engine.world import World
from ...options import Options
from ..campaigns import CampaignService, Ready
from ..dry_run import would
from ..guards import (
    disputed_domains,
    require_apart,
    require_class,
    require_few,
    require_store,
    require_thawed,
)
from ..plans.plans import PlanService, PlanWish

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


class AutoService:
    """One thing at a time, under a lock of its own; what it begins, the services guard."""

    def __init__(
        self, engine: Engine, campaigns: CampaignService, plans: PlanService,
        outdated: Callable[[], Sequence[Outdated]],
    ) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._campaigns = campaigns
        self._plans = plans
        self._outdated = outdated
        self._stored = StoredAutoState(engine)
        self._domains = Domains()
        self._look_at_s = 0.0
        self._whole_look_at_s = 0.0
        self._wait_until_s = 0.0
        self._asked: Dict[str, FrozenSet[str]] = {}
        self.waiting = ""
        self._held_since_s: Optional[float] = None  # by the cluster, or as it was refused

    @property
    def state(self) -> AutoState:
        """What is kept: modes, what is new, what was begun last."""
        return self._stored.state

    def load(self) -> None:
        """Take up the stored state."""
        self._stored.load()

    # ---- commands

    def turn(
        self, mode: str, device_class: Optional[str] = None, dry_run: bool = False
    ) -> Dict[str, Any]:
        """`auto off|recommend|apply`: what may be begun without an admin, stored.

        A `dry_run` says what would be begun first.
        """
        wanted, world = Mode(mode), self._engine.world()
        require_store(world)
        require_class(world, device_class)
        limits = _limits(world.options)
        with self._lock:
            before, seen = self._stored.state, self._seen(world)
            # a host whose next report is awaited has no new drives for that
            state = turned(before, self._seen(world, older=True), device_class, wanted)
            changed = state.modes != before.modes
            if dry_run:
                return {
                    "device_class": device_class or "", "mode": wanted.value,
                    **would(would_begin(before, state, seen, limits, world.now_s)),
                }
            if changed:
                with self._engine.orders() as orders:
                    orders.note(ADMIN, device_class or "cluster", f"auto {wanted.value}")
            self._stored.keep(state)
            self._wait_until_s = self._look_at_s = self._whole_look_at_s = 0.0
        # what is under way is not cut off: an admin says whether it ends
        goes_on = going_on(world, device_class) if wanted is not Mode.APPLY else []
        self._engine.wake()
        answer = {"device_class": device_class or "", "mode": wanted.value, "changed": changed}
        return {**answer, "goes_on": "; ".join(goes_on)} if goes_on else answer

    def status(self) -> Dict[str, Any]:
        """`auto status`: what is allowed, what is spent, what it waits for, what it leaves."""
        world = self._engine.world()
        options, now_s = world.options, world.now_s
        problem, limits = "", Limits()
        try:
            limits = _limits(options)
        except MalformedError as error:
            problem = error.line()
        with self._lock:
            state, seen = self._stored.state, self._seen(world)
        spent = today(state.spent, now_s)
        on = [d for d in seen.drives if mode_of(state.modes, d.device_class) is not Mode.OFF]
        left = [
            f"{' '.join(d.key)}: {d.refusal}" for d in on
            if d.refusal and not _fine(d, seen)
        ]
        left += _of_paused(world) if any_on(state.modes) else []
        left += [_without(seen.without)] if seen.without and any_on(state.modes) else []
        left += [f"{' '.join(key)}: contested, see `ceph wcache status`"
                 for key in sorted(seen.contested)]
        left += [f"{t.device_class} {t.drive_model}: `auto` no longer applies it: {t.held}"
                 for t in state.tried if t.held]
        left += [f"{a.knob} {a.host}: `auto` no longer applies it: {a.held}"
                 for a in state.anew if a.held]
        left += [f"{' '.join(key)}: went back in plan {plan_id}: `auto` does not apply it "
                 "until it is measured while clients write"
                 for key, plan_id in sorted(seen.went_back.items())]
        return {
            "format_version": FORMAT_VERSION,
            "modes": {item.device_class or "*": item.mode.value for item in state.modes},
            "persist": options.auto_persist,
            "window_open": is_open(limits.windows, now_s),
            "windows": options.auto_windows,
            "spent_today": codec.to_plain(spent),
            "limits": {
                "seconds_per_day": limits.seconds_per_day,
                "bytes_per_day": limits.bytes_per_day,
                "quiet_s": limits.quiet_s, "rollout_harm_max_s": options.rollout_harm_max_s,
            },
            "under_way": named([item.owner for item in state.begun]),
            "new_drives": len(state.fresh),
            "waiting": problem or (self.waiting if any_on(state.modes) else ""),
            "left_alone": left[:LEFT_SHOWN_MAX],
        }

    def findings(self, world: World) -> List[Finding]:
        """Drives that somebody else changes back, and what has waited for long."""
        found = contested(self._stored.state.undone, world.reports)
        since_s = self._held_since_s
        if since_s is not None and world.now_s - since_s >= TOLD_AFTER_S:
            found.append(Finding(FindingCode.PLAN_WAITS, Severity.WARNING, "auto", self.waiting))
        return found

    def held(self) -> Dict[Tuple[str, str], str]:
        """By device class and drive model: why its mode is not applied by itself any more."""
        tried = self._stored.state.tried
        return {(item.device_class, item.drive_model): item.held for item in tried if item.held}

    # ---- by itself

    def tick(self, world: World) -> None:
        """Look whether something is to be begun."""
        with self._lock:
            now_s = world.now_s
            if now_s < self._look_at_s:
                return
            self._look_at_s = now_s + LOOK_EVERY_S
            state = self._stored.state
            modes = modes_now(world, self._domains)
            undone = look_for_drift(state.undone, stands(world), modes, now_s)
            if undone != state.undone:
                self._stored.keep(replace(state, undone=undone))
            if any_on(state.modes) or state.begun:
                self._go_on(world)

    def _go_on(self, world: World) -> None:
        now_s = world.now_s
        try:
            limits = _limits(world.options)
        except MalformedError as error:
            self.waiting = error.line()
            return
        begun_before = self._stored.state.begun
        if begun_before and now_s < self._whole_look_at_s and not any(
            ended(world, item.owner) for item in begun_before
        ):
            return
        self._whole_look_at_s = now_s + BUSY_LOOK_EVERY_S
        world = self._having_asked_new_osds(world)
        seen = self._seen(world)
        decision = decide(self._stored.state, seen, limits, now_s)
        self._stored.keep(decision.state)
        if decision.wish is None:
            self.waiting = decision.waiting
            self._held(now_s, bool(seen.blocked) and decision.waiting == seen.blocked)
            return
        if now_s < self._wait_until_s:
            return
        refused = False
        try:
            with self._deciding(world, decision.wish, limits) as (now, orders, ready):
                require_thawed(now)
                require_store(now)
                self.waiting = self._begin(now, orders, decision.wish, limits, ready)
                pending = self._stored.state.pending
                if seen.without and pending is not None and not self.waiting:
                    orders.note(AUTO, pending.owner, f"begun {_without(seen.without)}")
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
        """A host where an OSD came is asked for a report, once for each."""
        found = arrivals(world.cluster, world.reports)
        for hostname, uuids in found.items():
            if uuids - self._asked.get(hostname, frozenset()):
                with self._engine.orders() as orders:
                    orders.ask_anew(hostname)
        self._asked = found
        return self._engine.world(world)

    def _seen(self, world: World, older: bool = False) -> Seen:
        state, disputed = self._stored.state, frozenset(disputed_domains(world))
        seen = look(world, self._domains, state.undone, state.begun, disputed, older=older)
        return replace(seen, outdated=tuple(self._outdated()))

    @contextmanager
    def _deciding(
        self, world: World, wish: Wish, limits: Limits
    ) -> Iterator[Tuple[World, Orders, Optional[Ready]]]:
        """A look and orders, with the campaign that is to be begun, where one is."""
        if isinstance(wish, Measure):
            with self._campaigns.deciding(
                lambda now: self._ready(now, wish, limits), world
            ) as found:
                yield found
        else:
            with self._engine.deciding(world) as (now, orders):
                yield now, orders, None

    def _begin(
        self, world: World, orders: Orders, wish: Wish, limits: Limits, ready: Optional[Ready]
    ) -> str:
        """Begin it; returns why it was not."""
        if isinstance(wish, PlanAnew):
            return self._plan_anew(world, orders, wish)
        if isinstance(wish, Apply):
            return self._apply(world, orders, wish)
        return self._measure(world, orders, wish, limits, ready) if ready is not None else ""

    def _ready(self, world: World, wish: Measure, limits: Limits) -> Ready:
        """A campaign of as many drives as may be measured today, at least of one."""
        options = world.options
        arguments: Dict[str, Any] = {
            "loads": LOADS if limits.bytes_per_day else FREE_LOADS,
            "only": frozenset(wish.keys),
            "confirm": wish.purpose is not Purpose.AGAIN,
            "accept_cost": True, "by": AUTO,
        }
        if wish.purpose is Purpose.AGAIN:
            arguments["settle_s"] = max(SETTLE_AGAIN_S, SETTLE_FACTOR * options.settle_s)
        for drives in sorted({options.drives_per_model, min(2, options.drives_per_model), 1},
                             reverse=True):
            ready = self._campaigns.ready(world, drives_per_model=drives, **arguments)
            if not self._over(world, limits, ready):
                break
        return ready

    def _over(self, world: World, limits: Limits, ready: Ready) -> str:
        spent, cost = today(self._stored.state.spent, world.now_s), ready.cost
        return over(spent, limits, cost.drive_seconds, cost.bytes_written)

    def _measure(
        self, world: World, orders: Orders, wish: Measure, limits: Limits, ready: Ready
    ) -> str:
        why = self._over(world, limits, ready)
        if why:
            return why
        said = self._campaigns.started(world, orders, ready)
        campaign_id, cost = said["campaign_id"], ready.cost
        orders.note(
            AUTO, campaign_id,
            f"{_WHY[wish.purpose]}: class {wish.device_class}, drive model {wish.drive_model}",
        )
        self._stored.keep(begun(
            self._stored.state, wish, campaign_id, cost.drive_seconds, cost.bytes_written, 0
        ))
        return ""

    def _apply(self, world: World, orders: Orders, wish: Apply) -> str:
        require_few(world.open_plans)
        plan = self._plans.planned(world, orders, PlanWish(
            Scope(wish.device_class), persist=world.options.auto_persist,
            only=frozenset(wish.keys), by=AUTO,
        ))
        plan_id = plan["plan_id"]
        if not plan_id:
            return "; ".join(plan["left_alone"][:2]) or "there is nothing to change"
        _require_apart(world, orders, plan_id)
        changes = len(plan["changes"])
        self._stored.keep(begun(self._stored.state, wish, plan_id, 0.0, 0, changes))
        self._plans.applied(
            orders.look(world), orders, plan_id, persist=world.options.auto_persist, by=AUTO
        )
        return ""

    def _plan_anew(self, world: World, orders: Orders, wish: PlanAnew) -> str:
        about = wish.about
        require_few(world.open_plans)
        asked = PlanWish(knob=about.knob, only=frozenset(wish.keys), by=AUTO)
        plan = self._plans.planned(world, orders, asked)
        osds = {
            osd_id for step in plan["changes"] for osd_id in (
                *(item["osd_id"] for item in step.get("expect", ())), *step.get("osd_ids", ()),
            )
        }
        plan_id = plan["plan_id"]
        if not plan_id:
            return "; ".join(plan["left_alone"][:2])
        _require_apart(world, orders, plan_id)
        orders.note(AUTO, plan_id, about.why)
        self._stored.keep(begun(self._stored.state, wish, plan_id, 0.0, 0, len(osds)))
        self._plans.applied(orders.look(world), orders, plan_id, by=AUTO)
        return ""


def _require_apart(world: World, orders: Orders, plan_id: str) -> None:
    """What is refused beside others is no plan that ended badly."""
    now = orders.look(world)
    require_apart(now, now.rollouts[plan_id].rollout)


def _limits(options: Options) -> Limits:
    """What the options allow; raises MalformedError where the windows make no sense."""
    return Limits(
        parse_windows(options.auto_windows), options.auto_seconds_per_day,
        options.auto_bytes_per_day, options.auto_quiet_s,
    )


def _without(hosts: Sequence[str]) -> str:
    """Whose drives are left out, since their probes call and do not report."""
    return (
        f"without {named(hosts, 3)}: no report came for {duration(AWAITED_S)} though its probe "
        "calls; see its log, `journalctl -u wcache-probe`"
    )


def _of_paused(world: World) -> List[str]:
    """What plans that are paused keep for themselves, and how each goes on or ends."""
    paused = [plan_id for plan_id in world.open_plans if world.rollouts[plan_id].paused]
    kept = (touched_by(world.rollouts[plan_id].rollout, world.cluster) for plan_id in paused)
    return [
        f"{words_of(touched)}: plan {plan_id} is paused and has them for itself: "
        f"{typed('ceph wcache rollout resume {}', plan_id)} goes on, "
        f"{typed('ceph wcache rollout abort {}', plan_id)} ends it"
        for plan_id, touched in zip(paused, kept)
    ]


def _fine(drive: DriveSeen, seen: Seen) -> bool:
    """Whether a drive is as its drive model's verdict wants it."""
    verdict = seen.verdicts.get(drive.model_key)
    return verdict is Verdict.NO_DIFFERENCE or (
        verdict is not None and verdict.mode is not None and verdict.mode is drive.mode
    )


_WHY = {
    Purpose.CONFIRM: "a new drive of a drive model with a verdict is confirmed",
    Purpose.UNKNOWN: "a drive model without a verdict is measured",
    Purpose.AGAIN: "measured again with a longer settling, since it ended on a transient",
}
