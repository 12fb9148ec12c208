"""The steps of a rollout that are left: of which changes each is, how long it may take.

A step is a few changes of one wave: as many as this rollout has proven of their kind, so steps
grow with the evidence.

The gate's own lengths bound the time.  Where steps are over, what they took stands for the rest.
Time spent waiting for preconditions or for an admin is not in it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice, takewhile
from statistics import fmean
from typing import Dict, FrozenSet, Iterable, Iterator, Tuple

from ..record import Precondition
from ..text import roughly
from .change import GOING_BACK, OPEN, UNFINISHED, Change, ChangeStatus
from .gate.evidence import Proofs
from .rollout_state import Rollout, RolloutStatus

# Steps of one value that are judged together.
RAMP_MAX = 100
# Drives of one model in a row that refuse a change: the next ones would, too.
REFUSED_MAX = 3
# OSDs of one step: each is asked every second.
TREATED_MAX = 48
# OSDs of the steps to come that are in the blocks as well.
AHEAD_MAX = 48
# A change that looks worse is measured again this often: the load beside it may have grown.
DOUBTS_MAX = 2
# What a change takes besides its judgement: its look, its toggle, its read back.
CHANGE_LEAST_S, CHANGE_S = 1.0, 5.0
# A step takes so many times the least, where none is over that tells; else at most so many times
# the longest.
USUAL, LONGER = 1.5, 1.2
Touched = FrozenSet[Tuple[str, str]]
NOTHING: Touched = frozenset()


@dataclass(frozen=True)
class Step:
    """Changes that are made and judged together, and how many were proven before them."""

    indices: Tuple[int, ...]
    by_load: bool
    proven: int = 0
    under_way: bool = False


def gated(rollout: Rollout, change: Change, without_clients: Touched = NOTHING) -> bool:
    """Say whether clients' load judges it; else a bench does, or what is read back."""
    return (
        rollout.gate.by_load and not rollout.trial and change.has_clients
        and Precondition.CLIENT_LOAD not in rollout.overridden
        and bool(change.judging_osds) and not change.setting.only_lasts
        and change.setting.touches != without_clients
    )


def step_from(
    rollout: Rollout, first: int, proofs: Proofs, without_clients: Touched = NOTHING,
) -> Step:
    """Choose the changes of the step that begins with one: which of those after it join it."""
    one, wave = rollout.changes[first], rollout.wave_of(first)
    by_load = gated(rollout, one, without_clients)
    hosts = {one.pooled_as: {one.hostname}}
    found, proven = [first], proofs.least(hosts)
    in_its_place = first == rollout.canary_index and first  # of one that was not made
    if in_its_place or not by_load:
        return Step((first,), by_load, proven)
    apart, touched, osds = {one.setting.touches}, {*one.setting.touches}, {*one.judging_osds}
    for index in range(first + 1, len(rollout.changes)):
        item = rollout.changes[index]
        if rollout.wave_of(index) != wave:
            break
        if item.status is not ChangeStatus.PLANNED or index in rollout.put_off:
            continue
        if not gated(rollout, item, without_clients):
            break
        touches, mine = item.setting.touches, hosts.setdefault(item.pooled_as, set())
        osds.update(item.judging_osds)
        least = proven
        if item.hostname not in mine:
            mine.add(item.hostname)
            least = proofs.least(hosts)
        # one value in several steps: each alone is too small to be seen
        near = touches == one.setting.touches and index - first < RAMP_MAX
        ramp = item.setting.MAY_RAMP and near
        if not ramp and (
            len(osds) > TREATED_MAX or not touched.isdisjoint(touches)
            or len(apart) >= max(rollout.parallel_max, least)
        ):
            break
        found.append(index)
        apart.add(touches)
        touched |= touches
        proven = least
    return Step(tuple(found), by_load, proven)


def steps_left(
    rollout: Rollout, without_clients: Touched = NOTHING, together_max: int = 0,
) -> Iterator[Step]:
    """Play the choice of steps forward: the one under way and those after it, if all are proven.

    `together_max`: how many may be changed at the same time, where the mons have limited it.
    """
    proofs, at, step = Proofs(rollout.evidence), 0, None
    indices = rollout.step.indices
    if indices:
        one = rollout.changes[indices[0]]
        step = Step(indices, gated(rollout, one, without_clients), under_way=True)
        changes = list(rollout.changes)
        for index in indices:
            changes[index] = replace(changes[index], status=ChangeStatus.APPLIED)
        rollout = replace(rollout, changes=tuple(changes))
        yield step
    while step is None or not rollout.trial:
        if step is not None and step.by_load:
            proofs.add(drives_of(rollout.changes[index] for index in step.indices))
        while at < len(rollout.changes) and (
            rollout.changes[at].status not in OPEN or at in rollout.put_off
        ):
            at += 1
        if at == len(rollout.changes) and rollout.put_off:
            rollout, at = _but_later(rollout), 0
            continue
        if at == len(rollout.changes):
            return
        step = step_from(rollout, at, proofs, without_clients)
        step = replace(step, indices=step.indices[:together_max or None])
        yield step
        at = step.indices[-1] + 1


def _but_later(rollout: Rollout) -> Rollout:
    """Return the plan as it is when all but what is put off is made."""
    return replace(rollout, later=(), changes=tuple(
        item if index in rollout.put_off else replace(item, status=ChangeStatus.APPLIED)
        if item.status in OPEN else item
        for index, item in enumerate(rollout.changes)
    ))


def drives_of(changes: Iterable[Change]) -> Dict[str, Dict[str, int]]:
    """Count how many things are changed, by kind and host: the steps of one value are one."""
    found: Dict[str, Dict[str, int]] = {}
    apart = {(item.pooled_as, item.hostname, item.setting.touches) for item in changes}
    for kind, host, _ in apart:
        hosts = found.setdefault(kind, {})
        hosts[host] = hosts.get(host, 0) + 1
    return found


def why_so_large(rollout: Rollout, step: Step, together_max: int) -> str:
    """Say why a step is of as many changes as it is, and of no more."""
    indices, proven = step.indices, step.proven
    last = indices[-1]
    if not step.by_load:
        return "what clients' load does not judge is changed one by one"
    if indices[0] == rollout.canary_index:
        return "the canary is changed by itself"
    wave, more = rollout.wave_of(last), last + 1 < len(rollout.changes)
    if not more or rollout.wave_of(last + 1) != wave:
        return f"all that is left of {rollout.waves[wave].name or 'the plan'}"
    apart = rollout.apart(indices)
    if proven > rollout.parallel_max and apart >= proven:
        return f"as many as are proven of their kind so far ({proven})"
    if together_max and len(indices) >= together_max:
        return f"as many as `osd ok-to-stop` last let be changed together ({len(indices)})"
    if apart >= rollout.parallel_max >= proven:
        return f"rollout_parallel_max ({rollout.parallel_max}), until more are proven"
    return "the next change is of another kind or of the same drive, or 48 OSDs are together"


def osds_ahead(rollout: Rollout, steps: Iterable[Step]) -> Tuple[int, ...]:
    """The OSDs of the steps to come, the next first."""
    osds: Dict[int, None] = {}
    for step in islice((step for step in steps if not step.under_way), AHEAD_MAX):
        more = dict.fromkeys(rollout.judged_on(step.indices))
        if len({**osds, **more}) > AHEAD_MAX:
            break
        osds.update(more)
    return tuple(osds)


def refused_in_a_row(rollout: Rollout, index: int) -> int:
    """Count the changes of one kind that drives refused one after the other, up to this one."""
    kind = rollout.changes[index].pooled_as
    alike = (one for one in reversed(rollout.changes[: index + 1]) if one.pooled_as == kind)
    return len([*takewhile(lambda one: one.status is ChangeStatus.REFUSED, alike)])


@dataclass(frozen=True)
class TimeLeft:
    """Seconds from `least_s` to `most_s`, and the fraction of the time that is over.

    What is expected goes by the steps that are over; until then it is half more than the least.
    """

    least_s: float
    most_s: float
    fraction: float
    expected_s: float


def between(least_s: float, most_s: float) -> str:
    """The two in words, once where they are the same."""
    low, high = roughly(max(1.0, least_s)), roughly(max(1.0, most_s))
    return low if low == high else f"{low} to {high}"


def time_left(rollout: Rollout, steps: Iterable[Step], now_s: float) -> TimeLeft:
    """Of a rollout that runs or is paused; one that goes back takes seconds for each change.

    `steps` are those that its machine has still to make: see `steps_left`.
    """
    if rollout.status is RolloutStatus.ROLLING_BACK:
        back = [c for c in rollout.changes if c.status in GOING_BACK]
        seconds = CHANGE_S * len(back)
        share = len(back) / max(1, len(back) + sum(
            c.status is ChangeStatus.ROLLED_BACK for c in rollout.changes))
        return TimeLeft(seconds, seconds, 1.0 - share, seconds)
    least = most = expected = 0.0
    for step in steps:
        low, high, usual = _step_s(rollout, step)
        least, most, expected = least + low, most + high, expected + usual
    if rollout.afterwards:  # each is only made to last
        made = len(rollout.all_in(ChangeStatus.MADE))
        least, most, expected = made * CHANGE_LEAST_S, made * CHANGE_S, made * CHANGE_S
    spent = now_s - rollout.step_at_s if rollout.step.indices and rollout.step_at_s else 0.0
    least, most, expected = (max(1.0, each - spent) for each in (least, most, expected))
    if not any(item.status in UNFINISHED for item in rollout.changes):
        least = most = expected = 0.0
    gone = max(0.0, now_s - rollout.began_at_s) if rollout.began_at_s else 0.0
    whole = gone + expected
    return TimeLeft(least, most, min(0.99, gone / whole) if whole > 0 else 1.0, expected)


def _step_s(rollout: Rollout, step: Step) -> Tuple[float, float, float]:
    """The least, the most, and what is expected."""
    canary, size = step.indices[0] == rollout.canary_index, len(step.indices)
    change = rollout.changes[step.indices[0]]
    waits = size * change.wait_s
    if not step.by_load:
        # it is read back and no more, and then nothing else is done for a while
        least, most = size * CHANGE_LEAST_S + waits, size * CHANGE_S + waits
        if change.measured:
            settled_s = max(rollout.canary_wait_s if canary else 0.0, rollout.settle_s)
            # what looks worse is measured again before it counts
            again = DOUBTS_MAX * (rollout.settle_s + rollout.period_s)
            least += size * settled_s
            most += size * (settled_s + 2.0 * rollout.period_s + again)
        return least, most, min(USUAL * least, most)
    low, high = rollout.gate.range_s(canary)
    waits += rollout.settle_s
    least, most = low + size * CHANGE_LEAST_S + waits, high + size * CHANGE_S + waits
    expected = min(USUAL * least, most)
    judged_s = rollout.judged_s[1:]  # the canary's is longer
    if judged_s and not canary:
        expected = min(max(least, fmean(judged_s)), most)
        most = min(most, max(least, LONGER * max(judged_s) + size * CHANGE_S + waits))
    if not change.measured:
        # without clients' load it is only read back
        least = size * CHANGE_LEAST_S + waits - rollout.settle_s
    return least, most, expected
