"""Rules that choose what to begin next: one thing at a time, or why nothing is begun.

Beside a plan that waits or is paused, what has nothing in common with it is begun.

In this order: what drifted or is not in its standing mode, an experiment that ended on a
transient, new drives of a known drive model, drive models that nobody knows, and what knobs
planned for a host that is another one now.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import Dict, FrozenSet, Iterable, List, Mapping, Optional, Sequence, Tuple

from ..cluster import in_turns
from ..model import CacheMode, Verdict
from ..options.entries import better_mode
from ..text import many
from .state import (
    ASIDE_MAX,
    TOKENS_MAX,
    Allowance,
    AutoState,
    ClassMode,
    Ended,
    Key,
    Mode,
    ModelKey,
    Pending,
    PlannedAnew,
    Purpose,
    Tried,
    Turned,
    any_on,
    is_open,
    mode_of,
)

# A drive model that could not be decided is measured again after this long.
RETRY_S = 7 * 86400.0
# Experiments that did not come to their end are begun again after this long.
RETRY_FAILED_S = 3600.0
CONFIRM_DRIVES = 2
NAMED_MAX = 8


@dataclass(frozen=True)
class DriveSeen:
    """A cache domain now.  `refusal` is why it is left alone."""

    key: Key
    token: str
    device_class: str
    drive_model: str
    mode: Optional[CacheMode]
    refusal: str = ""
    transient: bool = False

    @property
    def model_key(self) -> ModelKey:
        """By what verdicts stand."""
        return self.device_class, self.drive_model


@dataclass(frozen=True)
class Wish:
    """A campaign, or a plan of a knob, that is to be begun.

    `keys` are its cache domains, or a host with no domain; `tokens` are all drives that are
    dealt with by it.  `todo` goes on from "would", and `why` is for the history.
    """

    purpose: Purpose
    device_classes: Tuple[str, ...]
    keys: Tuple[Key, ...]
    todo: str
    why: str = ""
    tokens: Tuple[str, ...] = ()
    drive_model: str = ""
    knob: str = ""  # of a host that is planned anew

    @staticmethod
    def of_host(
        knob: str, host: str, device_classes: Tuple[str, ...], todo: str, why: str
    ) -> Wish:
        """Wish that a host, which is not what a knob's plan was made for, is planned anew."""
        return Wish(Purpose.DIVIDE, device_classes, ((host, ""),), todo, why, knob=knob)

    @property
    def device_class(self) -> str:
        """The one of its drives, "" where a host is planned anew."""
        return "" if self.knob else self.device_classes[0]

    @property
    def host(self) -> str:
        """The host that is planned anew, or ""."""
        return self.keys[0][0] if self.knob else ""


@dataclass(frozen=True)
class Seen:
    """Everything at one moment; `blocked` is why nothing can be begun.

    `without`: hosts that go on to call and have not reported for too long; none of their drives
    is among these.  `ended` has what was begun and has ended, by its id, and `waits` are plans
    that go on only when others have mended something, or an admin resumes them.  `of_plans` are
    the domains that plans and trials which are not over have for themselves, and `knobs` those of
    which plans set values.  `wishes` are those of knobs.  `went_back`: plans that found a drive
    model to be worse for clients in the mode of its verdict.  `taken_back`: plans that gave it
    that mode and an admin took back, and when.
    """

    drives: Tuple[DriveSeen, ...]
    verdicts: Mapping[ModelKey, Verdict] = field(default_factory=dict)
    contested: FrozenSet[Key] = frozenset()
    drifted: FrozenSet[Key] = frozenset()
    blocked: str = ""
    ended: Mapping[str, Ended] = field(default_factory=dict)
    waits: FrozenSet[str] = frozenset()
    of_plans: FrozenSet[Key] = frozenset()
    knobs: FrozenSet[str] = frozenset()
    under_way: str = ""
    wishes: Tuple[Wish, ...] = ()
    went_back: Mapping[ModelKey, str] = field(default_factory=dict)
    taken_back: Mapping[ModelKey, Tuple[str, float]] = field(default_factory=dict)
    without: Tuple[str, ...] = ()


@dataclass(frozen=True)
class Conclusion:
    """The state after a look, what to begin, or why nothing is begun."""

    state: AutoState
    wish: Optional[Wish] = None
    waiting: str = ""


def turned(
    state: AutoState, seen: Seen, device_class: Optional[str], mode: Mode, now_s: float
) -> AutoState:
    """Set a mode as an admin says: what is there now is not new, and nothing is held."""
    kept = [item for item in state.modes if device_class and item.device_class != device_class]
    before = [item for item in state.turned if device_class and item.device_class != device_class]
    mine = [item for item in seen.drives if device_class in (None, "", item.device_class)]
    hosts = {item.key[0] for item in mine}
    added = [i.token for i in mine if mode_of(state.modes, i.device_class) is Mode.OFF]
    known = _tokens((*state.known, *added), seen)
    return replace(
        state, modes=(*kept, ClassMode(device_class or "", mode)), known=known,
        fresh=tuple(name for name in state.fresh if name not in set(known)),
        tried=tuple(t for t in state.tried if device_class not in (None, "", t.device_class)),
        anew=tuple(item for item in state.anew if device_class and item.host not in hosts),
        turned=(*before, Turned(device_class or "", now_s)),
    )


def decide(state: AutoState, seen: Seen, limits: Allowance, now_s: float) -> Conclusion:
    """Settle what has ended, then find what to begin."""
    state = _noticed(replace(state, spent=state.spent.today(now_s)), seen, now_s)
    for item in state.begun:
        if item.owner in seen.ended:
            state = _settled(state, item, seen.ended[item.owner], seen, now_s)
    pending = state.pending
    if pending is not None and pending.owner in seen.waits and len(state.aside) < ASIDE_MAX:
        # the plan says what its drives are
        state = replace(state, pending=None, aside=(*state.aside, replace(pending, tokens=())))
    elif pending is not None:
        return Conclusion(state, waiting=f"{pending.owner} is under way")
    if not any_on(state.modes):
        return Conclusion(state)
    usable = [
        item for item in seen.drives
        if not item.refusal and item.key not in seen.of_plans
        and mode_of(state.modes, item.device_class) is not Mode.OFF
    ]
    wish = (
        _apply(state, seen, usable) or _measure(state, seen, usable, now_s) or _anew(state, seen)
    )
    if wish is None:
        return Conclusion(state)
    why = _not_now(state, seen, limits, now_s)
    return Conclusion(state, waiting=why) if why else Conclusion(state, wish)


def not_anew(
    state: AutoState, taken_back: Mapping[ModelKey, Tuple[str, float]]
) -> Dict[ModelKey, str]:
    """Of plans that an admin took back, those since the automation was last turned."""
    return {
        key: plan_id for key, (plan_id, at_s) in taken_back.items()
        if at_s >= state.turned_at_s(key[0])
    }


def begun(
    state: AutoState, wish: Wish, owner: str, seconds: float, bytes_written: int, changes: int
) -> AutoState:
    """Keep what was begun: it is charged in full until it ends."""
    again = wish.tokens if wish.purpose is Purpose.AGAIN else ()
    return replace(
        state, again=(*state.again, *again)[-TOKENS_MAX:],
        pending=Pending(
            owner, wish.purpose, wish.device_class, wish.drive_model, wish.tokens, seconds,
            bytes_written, changes, wish.knob, wish.host,
        ),
        spent=state.spent.plus(seconds, bytes_written, changes),
    )


def _not_now(state: AutoState, seen: Seen, limits: Allowance, now_s: float) -> str:
    if not is_open(limits.windows, now_s):
        return "outside the maintenance windows (auto_windows)"
    if seen.under_way:
        return f"{seen.under_way} is under way"
    if seen.blocked:
        return seen.blocked
    left_s = state.unquiet_at_s + limits.quiet_s - now_s
    if left_s > 0:
        return f"quiet for {left_s:.0f} s more after an expansion (auto_quiet_s)"
    return ""


def _noticed(state: AutoState, seen: Seen, now_s: float) -> AutoState:
    """Note new drives; they begin the quiet time anew."""
    met = {*state.known, *state.fresh}
    came = [
        item.token for item in seen.drives
        if item.token not in met and mode_of(state.modes, item.device_class) is not Mode.OFF
    ]
    if not came:
        return state
    return replace(state, fresh=(*state.fresh, *came)[-TOKENS_MAX:], unquiet_at_s=now_s)


def _settled(
    state: AutoState, pending: Pending, ended: Ended, seen: Seen, now_s: float
) -> AutoState:
    """Charge what it took, now that it has ended, and count its drives as dealt with."""
    anew = pending.purpose is Purpose.DIVIDE  # charged by OSDs, and made in many steps
    state = replace(
        state, pending=None if state.pending is pending else state.pending,
        aside=tuple(item for item in state.aside if item is not pending),
        spent=state.spent.plus(
            ended.seconds - pending.seconds, ended.bytes_written - pending.bytes_written,
            0 if anew and ended.begun else ended.changes - pending.changes,
        ),
    )
    if not ended.begun:
        return state
    why = "" if ended.good else ended.why or "its plan did not end well"
    if anew:
        host = (pending.knob, pending.host)
        others = [item for item in state.anew if (item.knob, item.host) != host]
        return replace(state, anew=(*others, PlannedAnew(*host, why)))
    if pending.purpose is Purpose.APPLY:
        return _after_plan(state, pending, ended, why, seen, now_s)
    one = Tried(pending.device_class, pending.drive_model, now_s, failed=not ended.good)
    before = next((item for item in state.tried if item.model_key == one.model_key), None)
    if before is not None and before.held:
        one = replace(before, at_s=now_s)
    state = replace(state, tried=_with(state.tried, [one]))
    if not ended.good:
        return state
    done = set(pending.tokens)  # what came meanwhile is still new
    return replace(
        state, known=_tokens((*state.known, *sorted(done - set(state.known))), seen),
        fresh=tuple(name for name in state.fresh if name not in done),
    )


def _after_plan(
    state: AutoState, pending: Pending, ended: Ended, why: str, seen: Seen, now_s: float
) -> AutoState:
    """Hold the drive models of a plan that went back.

    One that others undid, or that the mons did not store, is tried once more.

    The plan says which they are.  Drives that are seen do too, as a plan may be gone.
    """
    mine, device_class = set(pending.tokens), pending.device_class
    models = ended.drive_models | {d.drive_model for d in seen.drives if d.token in mine}
    before = [
        item for item in state.tried
        if item.device_class == device_class and item.drive_model in models
    ]
    if not why:
        return replace(state, tried=tuple(
            replace(item, undone=False) if item in before else item for item in state.tried
        ))
    again = {item.drive_model for item in before if item.undone}
    return replace(state, tried=_with(state.tried, [
        Tried(device_class, model, now_s, undone=True)
        if ended.undone and model not in again else Tried(device_class, model, now_s, why)
        for model in sorted(models)
    ]))


def _with(tried: Iterable[Tried], new: Sequence[Tried]) -> Tuple[Tried, ...]:
    keys = {item.model_key for item in new}
    return (*(item for item in tried if item.model_key not in keys), *new)


def _tokens(names: Iterable[str], seen: Seen) -> Tuple[str, ...]:
    """Drop repeats; of too many names keep those of drives that are there."""
    found = tuple(dict.fromkeys(names))
    if len(found) <= TOKENS_MAX:
        return found
    there = {item.token for item in seen.drives}
    return tuple(name for name in found if name in there)[-TOKENS_MAX:]


def _apply(state: AutoState, seen: Seen, usable: List[DriveSeen]) -> Optional[Wish]:
    """Put drives of one device class into the standing mode; those that drifted come first."""
    held = {item.model_key for item in state.tried if item.held} | set(seen.went_back)
    held |= set(not_anew(state, seen.taken_back))
    fresh = set(state.fresh)
    by_class: Dict[str, List[DriveSeen]] = defaultdict(list)
    for item in usable:
        verdict = seen.verdicts.get(item.model_key)
        wanted = better_mode(verdict) if verdict is not None else None
        ready = item.token not in fresh and item.key not in seen.contested
        if (
            wanted is not None and item.mode is not None and item.mode is not wanted and ready
            and item.model_key not in held
            and mode_of(state.modes, item.device_class) is Mode.APPLY
        ):
            by_class[item.device_class].append(item)
    if not by_class:
        return None
    device_class, items = min(by_class.items())
    items.sort(key=lambda item: item.key not in seen.drifted)
    return Wish(
        Purpose.APPLY, (device_class,), tuple(item.key for item in items),
        f"change {many(len(items), 'drive')} of class {device_class} first: {_names(items)}",
        tokens=tuple(item.token for item in items),
    )


def _measure(
    state: AutoState, seen: Seen, usable: List[DriveSeen], now_s: float
) -> Optional[Wish]:
    fresh, again = set(state.fresh), set(state.again)
    for item in usable:
        if item.transient and item.token not in again:
            return _of(Purpose.AGAIN, [item], [item])
    tried = {item.model_key: item for item in state.tried}
    models: Dict[ModelKey, List[DriveSeen]] = defaultdict(list)
    for item in usable:
        models[item.model_key].append(item)
    for key, items in sorted(models.items()):
        new = [item for item in items if item.token in fresh]
        last = tried.get(key)
        failed = last is not None and last.failed
        rests = last is not None and now_s < last.at_s + (RETRY_FAILED_S if failed else RETRY_S)
        verdict = seen.verdicts.get(key)
        if verdict is not None and verdict.decided:
            if new and not (rests and failed):
                spread = in_turns(new, lambda item: item.key[0])
                return _of(Purpose.CONFIRM, spread[:CONFIRM_DRIVES], new)
        elif not rests or (new and not failed):
            return _of(Purpose.UNKNOWN, items, items)
    return None


_WHY = {
    Purpose.CONFIRM: "a new drive of a drive model with a verdict is confirmed",
    Purpose.UNKNOWN: "a drive model without a verdict is measured",
    Purpose.AGAIN: "measured again with a longer settling, since it ended on a transient",
}


def _of(purpose: Purpose, items: List[DriveSeen], stand_for: List[DriveSeen]) -> Wish:
    device_class, drive_model = items[0].model_key
    return Wish(
        purpose, (device_class,), tuple(item.key for item in items),
        f"measure drive model {drive_model} of class {device_class} first, on drives of: "
        f"{_names(items)}",
        f"{_WHY[purpose]}: class {device_class}, drive model {drive_model}",
        tuple(item.token for item in stand_for), drive_model,
    )


def _names(items: List[DriveSeen]) -> str:
    return ", ".join(" ".join(item.key) for item in items[:NAMED_MAX])


def _anew(state: AutoState, seen: Seen) -> Optional[Wish]:
    """Take the first host of knobs of which all device classes may be changed without an admin."""
    held = {(item.knob, item.host) for item in state.anew if item.held}
    hosts = {hostname for hostname, _ in seen.of_plans}
    return next((
        wish for wish in seen.wishes
        if all(mode_of(state.modes, name) is Mode.APPLY for name in wish.device_classes)
        and wish.knob not in seen.knobs and wish.host not in hosts
        and (wish.knob, wish.host) not in held
    ), None)
