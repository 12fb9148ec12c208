"""Which changes the next step of a rollout is made of, and those of the steps after it.

A step is a few changes of one wave: as many as this rollout has proven of their kind, so steps
grow with the evidence.
"""

from __future__ import annotations

from collections import Counter
from copy import copy
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Dict, FrozenSet, Iterable, Iterator, List, Tuple, TypeVar

from ..codec import one_line
from ..record import Precondition
from ..simulation import has_clients, real
from .change_status import ChangeStatus
from .gate.evidence import COMMITS, Evidence
from .gate.gate_state import GateStep
from .persisting import Persisting
from .rollout_state import Change

# Steps of one value that are judged together.
RAMP_MAX = 100
# Drives of one model in a row that refuse a change: the next ones would, too.
REFUSED_MAX = 3
# OSDs of one step: each is asked every second.
TREATED_MAX = 48
# OSDs of the steps to come that are in the blocks as well.
AHEAD_MAX = 48

Machine = TypeVar("Machine", bound="Stepping")


@dataclass
class Stepping(Persisting):
    """What is in the next step, by what is proven so far."""

    # what the change touches whose OSDs have no clients' load: it is read back and no more
    _without_clients: FrozenSet[Tuple[str, str]] = frozenset()

    def copied(self: Machine) -> Machine:
        """As it stands now, whatever it does later."""
        return copy(self)

    def _gated(self, change: Change) -> bool:
        """Whether clients' load judges it; else a bench before and after, or what is read back."""
        rollout = self.rollout
        return (
            rollout.gate is not None and rollout.gate.by_load
            and not rollout.trial and has_clients(change)
            and Precondition.CLIENT_LOAD not in rollout.overridden
            and bool(change.judging_osds) and not change.only_lasts
            and change.touches != self._without_clients
        )

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
        found = [first]
        if first == rollout.canary_index and first:
            return (first,)  # in the place of one that its drive refused
        for index in range(first + 1, len(rollout.changes)):
            item = rollout.changes[index]
            if self._is_ramp(first, index):
                # one value in several steps: each alone is too small to be seen
                found.append(index)
                continue
            if (
                self._apart(found) >= self._together_max(found, index)
                or rollout.wave_of(index) != rollout.wave_of(first) or not self._gated(item)
                or item.status is not ChangeStatus.PLANNED
                or any(item.touches & rollout.changes[other].touches for other in found)
            ):
                break
            found.append(index)
        return tuple(found) if self._gated(rollout.changes[first]) else (first,)

    def _apart(self, indices: Iterable[int]) -> int:
        """How many things are changed: the steps of one value are one."""
        return len({self.rollout.changes[index].touches for index in indices})

    def _drives_of(self, indices: Iterable[int], kind: str) -> Dict[str, int]:
        """How many things of a kind are changed, by host."""
        changes = [self.rollout.changes[index] for index in indices]
        touched = {(item.hostname, item.touches) for item in changes if item.pooled_as == kind}
        return Counter(hostname for hostname, _ in touched)

    def _together_max(self, found: List[int], more: int) -> int:
        """How many changes a step may be made of: as many as are proven of each kind in it."""
        rollout = self.rollout
        members = [*(rollout.changes[index] for index in found), rollout.changes[more]]
        if len({o for item in members for o in item.judging_osds}) > TREATED_MAX:
            return 0
        return max(rollout.parallel_max, rollout.proven_least((*found, more)))

    def _is_ramp(self, first: int, index: int) -> bool:
        """Whether a change is a further step of the values that the first one changes."""
        one, item, rollout = (*(self.rollout.changes[i] for i in (first, index)), self.rollout)
        return (
            item.MAY_RAMP and self._gated(item)
            and item.status is ChangeStatus.PLANNED and item.touches == one.touches
            and rollout.wave_of(index) == rollout.wave_of(first) and index - first < RAMP_MAX
        )

    @property
    def groups_next(self) -> Tuple[Tuple[int, ...], ...]:
        """The OSDs of each change that the next step may be made of, for `osd ok-to-stop`.

        Of an older version's plan no more is asked than it was planned with.
        """
        if self.rollout.gate is None:
            return ()
        return tuple(
            change.judging_osds
            for change in real(self.rollout.changes[index] for index in self._candidates())
        )

    def next_step(self) -> Tuple[int, str]:
        """Of how many changes the next step is, if the one under way is proven, and why."""
        for machine, indices in self._steps_ahead():
            return len(indices), machine._why_so_large(indices)
        return 0, ""

    def _why_so_large(self, indices: Tuple[int, ...]) -> str:
        rollout, last = self.rollout, indices[-1]
        if not self._gated(rollout.changes[indices[0]]):
            return "what clients' load does not judge is changed one by one"
        if indices[0] == rollout.canary_index:
            return "the canary is changed by itself"
        wave = rollout.waves[rollout.wave_of(last)].name if rollout.waves else ""
        more = last + 1 < len(rollout.changes)
        if not more or rollout.wave_of(last + 1) != rollout.wave_of(last):
            return f"all that is left of {wave or 'the plan'}"
        proven = rollout.proven_least(indices)
        if proven > rollout.parallel_max and self._apart(indices) >= proven:
            return f"as many as are proven of their kind so far ({proven})"
        if self._apart(indices) >= rollout.parallel_max >= proven:
            return f"rollout_parallel_max ({rollout.parallel_max}), until more are proven"
        return "the next change is of another kind or of the same drive, or 48 OSDs are together"

    def _steps_ahead(self: Machine) -> Iterator[Tuple[Machine, Tuple[int, ...]]]:
        """The steps after the one under way, if all are proven, with the machine before each."""
        found, mine = self.copied(), self.rollout.step.indices
        for _ in range(AHEAD_MAX):
            rollout = found.rollout
            changes = list(rollout.changes)
            for index in mine:
                changes[index] = replace(changes[index], status=ChangeStatus.APPLIED)
            known = {(item.kind, item.of): item for item in rollout.evidence}
            for kind in {changes[index].pooled_as for index in mine}:
                known[kind, COMMITS] = known.get((kind, COMMITS), Evidence(kind)).having_proven(
                    self._drives_of(mine, kind)
                )
            found.rollout = replace(
                rollout, changes=tuple(changes), evidence=tuple(known.values()), step=GateStep()
            )
            mine = found._candidates()
            if not mine:
                return
            yield found, mine

    def _ahead(self) -> Tuple[int, ...]:
        """The OSDs of the steps to come, the next first."""
        osds: Dict[int, None] = {}
        for machine, indices in self._steps_ahead():
            more = dict.fromkeys(machine._judged_on(indices))
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
        return any(self.rollout.changes[index].READS_TOO for index in self.rollout.step.indices)
