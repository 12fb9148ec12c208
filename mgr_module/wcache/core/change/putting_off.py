"""Which changes of a rollout come later: those whose OSDs are not well now, or move data.

A plan of a large cluster always has some.  A change that is put off comes back in its own wave,
where its OSDs are well again before that ends, else after all others.
"""

from __future__ import annotations

from typing import Dict, FrozenSet, List, Optional, Set, Tuple

from ..cluster import ClusterState
from ..record import Precondition
from .change import Change, ChangeStatus
from .gate.evidence import Proofs
from .preconditions import illness_of
from .rollout_state import Rollout
from .stepping import NOTHING, Touched, step_from
from .waves import Says, comes_last

Key = Tuple[str, ...]
# Values are told of that many, as each is about many OSDs.
VALUES_TOLD_MAX = 20


def put_off(
    rollout: Rollout, cluster: ClusterState, without_clients: Touched = NOTHING
) -> Tuple[int, ...]:
    """Say which changes come later, by a look before a step; what is left of them is well."""
    if Precondition.OSDS_WELL in rollout.overridden:
        return ()
    look = _PutOff(rollout, lambda change: bool(illness_of(change, cluster)))
    look.take_back()
    after_others, proofs = comes_last(rollout.changes, cluster), Proofs(rollout.evidence)
    while True:
        first = look.first()
        if first is None:
            return look.later
        step = step_from(look.rollout, first, proofs, without_clients)
        if not look.leave_ill(step.indices) and not look.leave_busy(step.indices, after_others):
            return look.later


class _PutOff:
    """What is put off so far in one look."""

    def __init__(self, rollout: Rollout, ill: Says) -> None:
        self.rollout = rollout
        self._ill = ill
        self._known: Dict[int, bool] = {}
        self._off: Set[int] = set()
        self._held: Set[Key] = set()

    @property
    def later(self) -> Tuple[int, ...]:
        """The indices, in order."""
        return tuple(sorted(self._off))

    def take_back(self) -> None:
        """Of what was put off before, what is of the wave under way and well is so no more.

        All of it is looked at where nothing else is left.
        """
        rollout, wave = self.rollout, self.rollout.wave_begun
        others_left = rollout.current_index not in rollout.put_off
        for index in sorted(rollout.put_off):
            if rollout.changes[index].status is not ChangeStatus.PLANNED:
                continue
            stays = others_left and wave >= 0 and rollout.wave_of(index) != wave
            if stays or self._waits(index):
                self._leave(index)
        self.rollout = self.rollout.putting_off(self.later)

    def first(self) -> Optional[int]:
        """The change that comes next; None where all that is left is put off."""
        index = self.rollout.current_index
        return None if index is None or index in self._off else index

    def leave_ill(self, indices: Tuple[int, ...]) -> bool:
        """Put off what is ill of a step, and what follows it in its wave and is; whether any is."""
        gone = [index for index in indices if self._waits(index) and self._leave(index)]
        index, wave = indices[-1] + 1, self.rollout.wave_of(indices[-1])
        while gone and self._is_open(index, wave) and self._waits(index):
            self._leave(index)
            index += 1
        self.rollout = self.rollout.putting_off(self.later)
        return bool(gone)

    def leave_busy(self, indices: Tuple[int, ...], after_others: Says) -> bool:
        """The same of OSDs that move data, where others of the wave can go before them."""
        changes = self.rollout.changes
        busy = [index for index in indices if after_others(changes[index])]
        index, wave = indices[0], self.rollout.wave_of(indices[0])
        found = False
        while busy and not found and index < len(changes) and self.rollout.wave_of(index) == wave:
            found = (
                self._is_open(index, wave) and index not in self._off
                and not after_others(changes[index]) and not self._waits(index)
            )
            index += 1
        if found:
            self._off.update(busy)
            self.rollout = self.rollout.putting_off(self.later)
        return found

    def _is_open(self, index: int, wave: int) -> bool:
        changes = self.rollout.changes
        return (
            index < len(changes) and self.rollout.wave_of(index) == wave
            and changes[index].status is ChangeStatus.PLANNED
        )

    def _waits(self, index: int) -> bool:
        """Whether it is ill itself, or what must go before it waits."""
        change = self.rollout.changes[index]
        if index not in self._known:
            self._known[index] = self._ill(change)
        return self._known[index] or not self._held.isdisjoint(_waits_for(change))

    def _leave(self, index: int) -> bool:
        self._off.add(index)
        self._held.update(_holds_back(self.rollout.changes[index]))
        return True


def _waits_for(change: Change) -> FrozenSet[Key]:
    """By what a change knows those of which it keeps the order.

    Changes of one drive keep it, and values of one failure domain: memory is taken from one OSD
    before another gets it.  A value of no domain comes after, or before, all others.
    """
    if change.domain_id:
        return frozenset({("drive", change.hostname, change.domain_id)})
    where = change.failure_domain
    return frozenset({*change.touches, ("in", where), ("everywhere",) if where else ("value",)})


def _holds_back(change: Change) -> FrozenSet[Key]:
    if change.domain_id:
        return _waits_for(change)
    where = change.failure_domain
    more: Tuple[Key, ...] = (("value",),) if where else (("value",), ("everywhere",))
    return frozenset({*change.touches, ("in", where), *more})


def later_words(rollout: Rollout, cluster: ClusterState) -> List[str]:
    """Say which changes are put off, or would be now, and why: a line each."""
    if Precondition.OSDS_WELL in rollout.overridden:
        return []
    found, values = [], 0
    for index, change in enumerate(rollout.changes):
        if change.status is not ChangeStatus.PLANNED:
            continue
        values += not change.domain_id
        if not change.domain_id and values > VALUES_TOLD_MAX and index not in rollout.put_off:
            continue
        why = illness_of(change, cluster)
        if why:
            found.append(f"{change.name}: {why}")
    return found
