"""Which changes the next step of a rollout is made of, and those of the steps after it.

A step is a few changes of one wave: as many as this rollout has proven of their kind, so steps
grow with the evidence.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice, takewhile
from typing import Dict, FrozenSet, Iterable, Iterator, Tuple

from ..record import Precondition
from .change import OPEN, Change, ChangeStatus
from .gate.evidence import Proofs
from .rollout_state import Rollout

# Steps of one value that are judged together.
RAMP_MAX = 100
# Drives of one model in a row that refuse a change: the next ones would, too.
REFUSED_MAX = 3
# OSDs of one step: each is asked every second.
TREATED_MAX = 48
# OSDs of the steps to come that are in the blocks as well.
AHEAD_MAX = 48
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
    in_its_place = first == rollout.canary_index and first  # of one that its drive refused
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


def why_so_large(rollout: Rollout, step: Step, by_load: bool, together_max: int) -> str:
    """Say why a step is of as many changes as it is, and of no more."""
    indices, proven = step.indices, step.proven
    last = indices[-1]
    if not by_load:
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
