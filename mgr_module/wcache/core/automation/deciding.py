"""What to begin next, if anything: one thing at a time, and why not where nothing.

A plan that waits, or is paused, is no such thing: what has nothing in common with it is begun
beside it.

In this order: what drifted or is not in its standing mode, an experiment that ended on a
transient, new drives of a known drive model, drive models that nobody knows, and memory that
was divided for other OSDs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Dict, Iterable, List, Optional, Tuple, Union

from ..text import many
from .dividing import PlanAnew, next_anew
from .drift import Key
from .modes import Mode, any_on, mode_of, with_mode
from .seen import DriveSeen, Ended, ModelKey, Seen
from .spending import Limits, charged, today
from .state import ASIDE_MAX, TOKENS_MAX, AutoState, Pending, PlannedAnew, Purpose, Tried
from .windows import is_open

# A drive model that could not be decided is measured again after this long.
RETRY_S = 7 * 86400.0
# Experiments that did not come to their end are begun again after this long.
RETRY_FAILED_S = 3600.0
CONFIRM_DRIVES = 2


@dataclass(frozen=True)
class Measure:
    """Measure these cache domains; `tokens` are all drives that are dealt with by it."""

    purpose: Purpose
    device_class: str
    drive_model: str
    keys: Tuple[Key, ...]
    tokens: Tuple[str, ...]


@dataclass(frozen=True)
class Apply:
    """Put these cache domains into the standing mode of their drive models."""

    device_class: str
    keys: Tuple[Key, ...]
    tokens: Tuple[str, ...]
    purpose: Purpose = Purpose.APPLY


Wish = Union[Measure, Apply, PlanAnew]


@dataclass(frozen=True)
class Decision:
    """The state after a look, what to begin, or why nothing is begun."""

    state: AutoState
    wish: Optional[Wish] = None
    waiting: str = ""


def turned(state: AutoState, seen: Seen, device_class: Optional[str], mode: Mode) -> AutoState:
    """After an admin has set a mode: what is there now is not new, and nothing is held."""
    modes = with_mode(state.modes, device_class, mode)
    mine = [item for item in seen.drives if device_class in (None, "", item.device_class)]
    added = [i.token for i in mine if mode_of(state.modes, i.device_class) is Mode.OFF]
    kept = tuple(item for item in state.tried if device_class not in (None, "", item.device_class))
    known = _tokens((*state.known, *added), seen)
    fresh = tuple(name for name in state.fresh if name not in set(known))
    anew = state.anew if device_class else ()
    return replace(state, modes=modes, known=known, fresh=fresh, tried=kept, anew=anew)


def decide(state: AutoState, seen: Seen, limits: Limits, now_s: float) -> Decision:
    """One look: settles what has ended, then finds what to begin."""
    state = replace(state, spent=today(state.spent, now_s))
    state = _noticed(state, seen, now_s)
    for item in state.begun:
        if item.owner in seen.ended:
            state = _settled(state, item, seen.ended[item.owner], seen, now_s)
    pending = state.pending
    if pending is not None and pending.owner in seen.waits and len(state.aside) < ASIDE_MAX:
        # the plan says what its drives are
        state = replace(state, pending=None, aside=(*state.aside, replace(pending, tokens=())))
    elif pending is not None:
        return Decision(state, waiting=f"{pending.owner} is under way")
    if not any_on(state.modes):
        return Decision(state)
    wish = _next(state, seen, now_s)
    if wish is None:
        return Decision(state)
    why = _not_now(state, seen, limits, now_s)
    return Decision(state, waiting=why) if why else Decision(state, wish)


def would_begin(
    before: AutoState, after: AutoState, seen: Seen, limits: Limits, now_s: float
) -> List[str]:
    """What turning it on or off would come to, each in words that go on from "would"."""
    lines = []
    if after.modes != before.modes:
        said = ", ".join(f"{m.device_class or 'all classes'} {m.mode.value}" for m in after.modes)
        lines.append(f"allow: {said}")
    decision = decide(after, seen, limits, now_s)
    wish = decision.wish
    names = ", ".join(" ".join(key) for key in wish.keys[:8]) if wish is not None else ""
    if isinstance(wish, Measure):
        lines.append(f"measure drive model {wish.drive_model} of class {wish.device_class} first, "
                     f"on drives of: {names}")
    elif isinstance(wish, PlanAnew):
        lines.append(wish.about.todo)
    elif wish is not None:
        drives = many(len(wish.keys), "drive")
        lines.append(f"change {drives} of class {wish.device_class} first: {names}")
    elif decision.waiting:
        lines.append(f"wait: {decision.waiting}")
    return lines


def begun(
    state: AutoState, wish: Wish, owner: str, seconds: float, bytes_written: int, changes: int
) -> AutoState:
    """After it was begun: it is charged in full until it ends."""
    if isinstance(wish, PlanAnew):
        pending = Pending(
            owner, wish.purpose, "", "", wish.tokens, seconds, bytes_written, changes,
            wish.about.knob, wish.about.host,
        )
    else:
        model = "" if isinstance(wish, Apply) else wish.drive_model
        pending = Pending(
            owner, wish.purpose, wish.device_class, model, wish.tokens, seconds, bytes_written,
            changes,
        )
    again = state.again
    if wish.purpose is Purpose.AGAIN:
        again = (*again, *wish.tokens)[-TOKENS_MAX:]
    return replace(
        state, pending=pending, again=again,
        spent=charged(state.spent, seconds, bytes_written, changes),
    )


def _not_now(state: AutoState, seen: Seen, limits: Limits, now_s: float) -> str:
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
    """New drives are noted; they begin the quiet time anew."""
    met = {*state.known, *state.fresh}
    came = [item.token for item in seen.drives if item.token not in met]
    on = [
        item.token for item in seen.drives
        if item.token in set(came) and mode_of(state.modes, item.device_class) is not Mode.OFF
    ]
    if on:
        state = replace(state, fresh=(*state.fresh, *on)[-TOKENS_MAX:], unquiet_at_s=now_s)
    return state


def _settled(
    state: AutoState, pending: Pending, ended: Ended, seen: Seen, now_s: float
) -> AutoState:
    """After what was begun has ended: charged what it took, and its drives are dealt with."""
    anew = pending.purpose is Purpose.DIVIDE  # charged by OSDs, and made in many steps
    spent = charged(
        state.spent, ended.seconds - pending.seconds,
        ended.bytes_written - pending.bytes_written,
        0 if anew else ended.changes - pending.changes,
    )
    state = replace(
        state, pending=None if state.pending is pending else state.pending, spent=spent,
        aside=tuple(item for item in state.aside if item is not pending),
    )
    if anew:
        why = "" if ended.good else ended.why or "its plan did not end well"
        host = (pending.knob, pending.host)
        others = [item for item in state.anew if (item.knob, item.host) != host]
        return replace(state, anew=(*others, PlannedAnew(*host, now_s, why)))
    if pending.purpose is Purpose.APPLY:
        return _after_plan(state, pending, ended, seen, now_s)
    key = (pending.device_class, pending.drive_model)
    one = Tried(*key, now_s, failed=not ended.good)
    before = next((x for x in state.tried if (x.device_class, x.drive_model) == key), None)
    if before is not None and before.held:
        one = replace(before, at_s=now_s)
    state = replace(state, tried=(*_others(state.tried, (one,)), one))
    if not ended.good:
        return state
    done = set(pending.tokens)  # what came meanwhile is still new
    return replace(
        state, known=_tokens((*state.known, *sorted(done - set(state.known))), seen),
        fresh=tuple(name for name in state.fresh if name not in done),
    )


def _after_plan(
    state: AutoState, pending: Pending, ended: Ended, seen: Seen, now_s: float
) -> AutoState:
    """A plan that went back holds its drive models.

    One that others undid, or that the mons did not store, is tried once more.

    The plan says which they are.  Drives that are seen do too, as a plan may be gone.
    """
    mine = set(pending.tokens)
    models = ended.drive_models | {d.drive_model for d in seen.drives if d.token in mine}
    again = {
        item.drive_model for item in state.tried
        if item.device_class == pending.device_class and item.undone
    }
    if ended.good:
        return replace(state, tried=tuple(
            replace(item, undone=False)
            if item.device_class == pending.device_class and item.drive_model in models else item
            for item in state.tried
        ))
    why = ended.why or "its plan did not end well"
    told = tuple(
        Tried(pending.device_class, model, now_s, undone=True)
        if ended.undone and model not in again
        else Tried(pending.device_class, model, now_s, why)
        for model in sorted(models)
    )
    return replace(state, tried=(*_others(state.tried, told), *told))


def _others(tried: Iterable[Tried], new: Iterable[Tried]) -> Tuple[Tried, ...]:
    keys = {(item.device_class, item.drive_model) for item in new}
    return tuple(item for item in tried if (item.device_class, item.drive_model) not in keys)


def _tokens(names: Iterable[str], seen: Seen) -> Tuple[str, ...]:
    """Names without repeats; where they are too many, of drives that are there."""
    found = tuple(dict.fromkeys(names))
    if len(found) <= TOKENS_MAX:
        return found
    there = {item.token for item in seen.drives}
    return tuple(name for name in found if name in there)[-TOKENS_MAX:]


def _next(state: AutoState, seen: Seen, now_s: float) -> Optional[Wish]:
    usable = [
        item for item in seen.drives
        if not item.refusal and item.key not in seen.of_plans
        and mode_of(state.modes, item.device_class) is not Mode.OFF
    ]
    return (
        _apply(state, seen, usable) or _measure(state, seen, usable, now_s)
        or next_anew(state, seen)
    )


def _apply(state: AutoState, seen: Seen, usable: List[DriveSeen]) -> Optional[Apply]:
    held = {(item.device_class, item.drive_model) for item in state.tried if item.held}
    held |= set(seen.went_back)
    fresh = set(state.fresh)
    by_class: Dict[str, List[DriveSeen]] = {}
    for item in usable:
        verdict = seen.verdicts.get(item.model_key)
        wanted = verdict.mode if verdict is not None else None
        ready = item.token not in fresh and item.key not in seen.contested
        if (
            wanted is not None and item.mode is not None and item.mode is not wanted and ready
            and item.model_key not in held
            and mode_of(state.modes, item.device_class) is Mode.APPLY
        ):
            by_class.setdefault(item.device_class, []).append(item)
    for device_class, items in sorted(by_class.items()):
        items.sort(key=lambda item: item.key not in seen.drifted)
        return Apply(
            device_class, tuple(item.key for item in items), tuple(item.token for item in items)
        )
    return None


def _measure(
    state: AutoState, seen: Seen, usable: List[DriveSeen], now_s: float
) -> Optional[Measure]:
    fresh, again = set(state.fresh), set(state.again)
    for item in usable:
        if item.transient and item.token not in again:
            return _of(Purpose.AGAIN, item.model_key, [item])
    wait_until_s = {
        (item.device_class, item.drive_model):
        item.at_s + (RETRY_FAILED_S if item.failed else RETRY_S) for item in state.tried
    }
    failed = {(item.device_class, item.drive_model) for item in state.tried if item.failed}
    models: Dict[ModelKey, List[DriveSeen]] = {}
    for item in usable:
        models.setdefault(item.model_key, []).append(item)
    for key, items in sorted(models.items()):
        new = [item for item in items if item.token in fresh]
        rests = now_s < wait_until_s.get(key, now_s)
        verdict = seen.verdicts.get(key)
        if verdict is not None and verdict.decided:
            if new and not (rests and key in failed):
                return _of(Purpose.CONFIRM, key, _spread(new)[:CONFIRM_DRIVES], new)
        elif not rests or (new and key not in failed):
            return _of(Purpose.UNKNOWN, key, items)
    return None


def _of(
    purpose: Purpose, key: ModelKey, items: List[DriveSeen],
    stand_for: Optional[List[DriveSeen]] = None,
) -> Measure:
    tokens = tuple(item.token for item in stand_for or items)
    return Measure(purpose, *key, tuple(item.key for item in items), tokens)


def _spread(items: List[DriveSeen]) -> List[DriveSeen]:
    """One of each host first."""
    seen_hosts: Dict[str, int] = {}
    ranked = []
    for item in items:
        hostname = item.key[0]
        seen_hosts[hostname] = seen_hosts.get(hostname, 0) + 1
        ranked.append((seen_hosts[hostname], item))
    return [item for _, item in sorted(ranked, key=lambda pair: pair[0])]
