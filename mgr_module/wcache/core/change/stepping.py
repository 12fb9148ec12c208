"""Which changes the next step of a rollout is made of, and those of the steps after it.

A step is a few changes of one wave: as many as this rollout has proven of their kind, so steps
grow with the evidence.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice, takewhile
from typing import Dict, FrozenSet, Iterable, Iterator, Tuple

from ..codec import one_line
from ..record import Precondition
from .change import Change
from .change_status import OPEN, ChangeStatus
from .gate.evidence import Proofs
from .gate.gate_state import GateStep
from .persisting import Persisting
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
        and bool(change.judging_osds) and not change.only_lasts
        and change.touches != without_clients
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
    apart, touched, osds = {one.touches}, {*one.touches}, {*one.judging_osds}
    for index in range(first + 1, len(rollout.changes)):
        item = rollout.changes[index]
        if rollout.wave_of(index) != wave:
            break
        if item.status is not ChangeStatus.PLANNED or index in rollout.put_off:
            continue
        if not gated(rollout, item, without_clients):
            break
        touches, mine = item.touches, hosts.setdefault(item.pooled_as, set())
        osds.update(item.judging_osds)
        least = proven
        if item.hostname not in mine:
            mine.add(item.hostname)
            least = proofs.least(hosts)
        # one value in several steps: each alone is too small to be seen
        ramp = item.setting.MAY_RAMP and touches == one.touches and index - first < RAMP_MAX
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
    for kind, host, _ in {(item.pooled_as, item.hostname, item.touches) for item in changes}:
        hosts = found.setdefault(kind, {})
        hosts[host] = hosts.get(host, 0) + 1
    return found


@dataclass
class Stepping(Persisting):
    """What is in the next step, by what is proven so far."""

    # what the change touches whose OSDs have no clients' load: it is read back and no more
    _without_clients: Touched = NOTHING
    # how many may be changed together, where the last look has limited it
    _together_max: int = 0

    def _gated(self, change: Change) -> bool:
        return gated(self.rollout, change, self._without_clients)

    @property
    def wants_controls(self) -> bool:
        """Whether a step may begin with the next look at the cluster."""
        return not (self._in_step() and self.rollout.step.before) or bool(self.rollout.missed)

    def _in_step(self) -> bool:
        return self.rollout.current_index in self.rollout.step.indices

    def _candidates(self) -> Tuple[int, ...]:
        """The changes that the next step may be made of."""
        first, rollout = self.rollout.current_index, self.rollout
        if first is None:
            return ()
        return step_from(rollout, first, Proofs(rollout.evidence), self._without_clients).indices

    def _apart(self, indices: Iterable[int]) -> int:
        """How many things are changed: the steps of one value are one."""
        return len({self.rollout.changes[index].touches for index in indices})

    @property
    def groups_next(self) -> Tuple[Tuple[int, ...], ...]:
        """The OSDs of each change that the next step may be made of, for `osd ok-to-stop`."""
        return tuple(
            change.judging_osds
            for change in (self.rollout.changes[index] for index in self._candidates())
            if change.has_clients
        )

    @property
    def coming(self) -> Tuple[Change, ...]:
        """The changes that are made next, or made to last: what was begun is not among them."""
        step, changes = self.rollout.step, self.rollout.changes
        change = self.current
        if change is None or change.status is ChangeStatus.APPLYING:
            return ()
        if step.last:
            return (change,)
        indices = step.indices if self._in_step() else self._candidates()
        return tuple(
            changes[index] for index in indices if changes[index].status is ChangeStatus.PLANNED
        )

    def steps_left(self) -> Iterator[Step]:
        """The step under way and those after it, as they will be if all are proven."""
        return steps_left(self.rollout, self._without_clients, self._together_max)

    def _steps_ahead(self) -> Iterator[Step]:
        ahead = (step for step in self.steps_left() if not step.under_way)
        return islice(ahead, AHEAD_MAX)

    def next_step(self) -> Tuple[int, str]:
        """Of how many changes the next step is, if the one under way is proven, and why."""
        for step in self._steps_ahead():
            return len(step.indices), self._why_so_large(step)
        return 0, ""

    def _why_so_large(self, step: Step) -> str:
        rollout, indices, proven = self.rollout, step.indices, step.proven
        last = indices[-1]
        if not self._gated(rollout.changes[indices[0]]):
            return "what clients' load does not judge is changed one by one"
        if indices[0] == rollout.canary_index:
            return "the canary is changed by itself"
        wave, more = rollout.wave_of(last), last + 1 < len(rollout.changes)
        if not more or rollout.wave_of(last + 1) != wave:
            return f"all that is left of {rollout.waves[wave].name or 'the plan'}"
        if proven > rollout.parallel_max and self._apart(indices) >= proven:
            return f"as many as are proven of their kind so far ({proven})"
        if self._together_max and len(indices) >= self._together_max:
            return f"as many as `osd ok-to-stop` last let be changed together ({len(indices)})"
        if self._apart(indices) >= rollout.parallel_max >= proven:
            return f"rollout_parallel_max ({rollout.parallel_max}), until more are proven"
        return "the next change is of another kind or of the same drive, or 48 OSDs are together"

    def _ahead(self) -> Tuple[int, ...]:
        """The OSDs of the steps to come, the next first."""
        osds: Dict[int, None] = {}
        for step in self._steps_ahead():
            more = dict.fromkeys(self._judged_on(step.indices))
            if len({**osds, **more}) > AHEAD_MAX:
                break
            osds.update(more)
        return tuple(osds)

    def _judged_on(self, indices: Tuple[int, ...]) -> Tuple[int, ...]:
        found = {o for i in indices for o in self.rollout.changes[i].judging_osds}
        return tuple(sorted(found))

    def _is_canary(self) -> bool:
        return self.rollout.canary_index in self.rollout.step.indices

    def _set_aside(self, change: Change, why: str) -> str:
        """Take a change that its drive refused out of the step; why to go no further, or "".

        It is as it was, so what else is made of the step is judged without it.
        """
        index, rollout = self.rollout.current_index, self.rollout
        assert index is not None  # callers looked  # noqa: S101
        self._keep(replace(change, status=ChangeStatus.REFUSED, detail=one_line(why)))
        rest = tuple(i for i in rollout.step.indices if i != index)
        step = replace(rollout.step, indices=rest, treated=self._judged_on(rest))
        self.rollout = replace(self.rollout, step=step if rest else GateStep())
        alike = (
            item for item in reversed(self.rollout.changes[: index + 1])
            if item.pooled_as == change.pooled_as
        )
        many = len([*takewhile(lambda item: item.status is ChangeStatus.REFUSED, alike)])
        if many % REFUSED_MAX:
            return ""
        return (
            f"{many} drives of one model in a row refused it ({change.pooled_as}), the last one: "
            f"{why}"
        )

    def _reads_too(self) -> bool:
        """Whether a change of the step may concern clients' reads."""
        rollout = self.rollout
        return any(rollout.changes[index].setting.READS_TOO for index in rollout.step.indices)
