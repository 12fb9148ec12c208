"""The waves of a rollout: which changes go together, which are put off.

A plan of a large cluster always has some.  A change that is put off comes back in its own wave,
where its OSDs are well again before that ends, else after all others.

Which changes go together: the canary, its host, then one failure domain after another.

A wave lies in one failure domain: whatever it does, the copies in the others are as they
were.  Where pools' rules spread copies over different types of buckets, the narrowest
counts: it is inside of one bucket of every wider type.
"""

from __future__ import annotations

import math
from itertools import chain
from typing import (
    AbstractSet,
    Callable,
    Dict,
    FrozenSet,
    Iterable,
    Iterator,
    List,
    Optional,
    Sequence,
    Set,
    Tuple,
    TypeVar,
)

from ..cluster import ClusterState
from ..config_database import mask_of
from ..record import Precondition
from .change import Change, ChangeStatus
from .gate.evidence import Proofs
from .preconditions import illness_of
from .rollout_state import Rollout, Wave, WaveKind
from .stepping import NOTHING, Touched, step_from

Item = TypeVar("Item")
Says = Callable[[Change], bool]


def growing(items: Sequence[Item], share: int) -> Iterator[Sequence[Item]]:
    """Return them in groups: the first alone, then as many as all before, `1 / share` at most.

    Each group is judged before the next begins, so what is worse is found while few have it.
    """
    most = math.ceil(len(items) / share)
    start = 0
    while start < len(items):
        end = start + min(max(1, start), most)
        yield items[start:end]
        start = end


def arranged(
    changes: Sequence[Change], cluster: ClusterState
) -> Tuple[Tuple[Change, ...], Tuple[Wave, ...]]:
    """The changes in the order of their waves.

    Those of drives come first to last by wave; one whose OSDs move data, or had slow operations,
    is no canary where there is another.  Those of the config database keep the order in which
    their knob wants them, one after another where they stand in one domain.
    """
    says = comes_last(changes, cluster)
    last = {(item.hostname, item.domain_id) for item in changes if says(item)}
    drives = sorted(
        (item for item in changes if not item.setting.IN_ORDER),
        key=lambda item: (item.hostname, item.domain_id) in last,
    )
    others = [item for item in changes if item.setting.IN_ORDER]
    groups = [*_drive_waves(drives, cluster), *_config_waves(others, first=not drives)]
    ordered = tuple(item for _, _, members in groups for item in members)
    return ordered, tuple(Wave(kind, name, len(members)) for kind, name, members in groups)


def comes_last(changes: Sequence[Change], cluster: ClusterState) -> Says:
    """Say of drives whether they come last in their wave.

    Their OSDs move data, or had slow operations in BlueStore.  Where most drives of a model do, or
    had, they are as any other: a wave would be made in two parts, and nothing is gained.
    """
    slow = {one.osd_id for one in cluster.slow_osds}
    groups = [(osds, _usual(changes, osds)) for osds in (cluster.busy or frozenset(), slow) if osds]

    def says(change: Change) -> bool:
        return not change.setting.IN_ORDER and any(
            change.pooled_as not in usual and not osds.isdisjoint(change.treated)
            for osds, usual in groups
        )

    return says


def _usual(changes: Sequence[Change], osds: AbstractSet[int]) -> Set[str]:
    """Say of which kinds of changes most are on such OSDs."""
    alike: Dict[str, List[bool]] = {}
    for change in changes:
        if not change.setting.IN_ORDER:
            alike.setdefault(change.pooled_as, []).append(not osds.isdisjoint(change.treated))
    return {kind for kind, each in alike.items() if 2 * sum(each) > len(each)}


Group = Tuple[WaveKind, str, List[Change]]


def _drive_waves(drives: Sequence[Change], cluster: ClusterState) -> Iterable[Group]:
    if not drives:
        return []
    canary = drives[0]
    home = [item for item in drives[1:] if item.hostname == canary.hostname]
    domains: Dict[str, List[Change]] = {}
    # where single OSDs are the failure domain, the canary's host is no wave of its own
    kind = _narrowest(cluster)
    narrow = kind == "osd"
    for item in drives[1:]:
        if narrow or item.hostname != canary.hostname:
            domains.setdefault(_domain_of(item, cluster, kind), []).append(item)
    found: List[Group] = [(WaveKind.CANARY, canary.name, [canary])]
    if home and not narrow:
        found.append((WaveKind.HOST, f"host {canary.hostname}", list(home)))
    found += [(WaveKind.DOMAIN, name, members) for name, members in domains.items()]
    return found


def _config_waves(changes: Sequence[Change], first: bool) -> Iterable[Group]:
    found: List[Group] = []
    for item in changes:
        if first and not found:
            found.append((WaveKind.CANARY, item.failure_domain or item.name, [item]))
        elif found and found[-1][0] is WaveKind.DOMAIN and found[-1][1] == item.failure_domain:
            found[-1][2].append(item)
        else:
            found.append((WaveKind.DOMAIN, item.failure_domain, [item]))
    return found


def _narrowest(cluster: ClusterState) -> str:
    """The narrowest type of failure domain: `osd`, or the type nearest to the OSDs."""
    if "osd" in cluster.failure_types:
        return "osd"
    ranks: Dict[str, int] = {}
    for osd in cluster.osds.values():
        for rank, (kind, _) in enumerate(osd.location):
            if kind in cluster.failure_types:
                ranks[kind] = min(rank, ranks.get(kind, rank))
    return min(ranks, key=lambda kind: ranks[kind], default="host")


def _domain_of(change: Change, cluster: ClusterState, kind: str) -> str:
    """The failure domain of a drive: the bucket of the narrowest type that rules choose."""
    osd = cluster.osd_of(change, change.osd_id)
    if osd is None:
        return f"host {change.hostname}"
    if kind == "osd":
        return f"osd {','.join(str(item) for item in change.treated)}"
    for bucket, name in osd.location:
        if bucket == kind:
            return f"{kind} {name}"
    return f"host {osd.hostname or change.hostname}"


Key = Tuple[str, ...]
# Values are told of that many, as each is about many OSDs.
VALUES_TOLD_MAX = 20


def put_off(
    rollout: Rollout, cluster: ClusterState, without_clients: Touched = NOTHING,
    unseen: AbstractSet[int] = frozenset(),
) -> Tuple[int, ...]:
    """Say which changes come later, by a look before a step; what is left of them is well.

    So do those of `unseen` indices, which nothing would judge.
    """
    forced = Precondition.OSDS_WELL in rollout.overridden
    if forced and not unseen:
        return ()
    look = _PutOff(rollout, lambda item: not forced and bool(illness_of(item, cluster)), unseen)
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

    def __init__(self, rollout: Rollout, ill: Says, unseen: AbstractSet[int]) -> None:
        self.rollout = rollout
        self._ill = ill
        self._known: Dict[int, bool] = dict.fromkeys(unseen, True)
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
        return self._known[index] or not self._held.isdisjoint(waits_for(change))

    def _leave(self, index: int) -> bool:
        self._off.add(index)
        self._held.update(holds_back(self.rollout.changes[index]))
        return True


def waits_for(change: Change) -> FrozenSet[Key]:
    """By what a change knows those of which it keeps the order.

    Changes of one drive keep it, and values of one failure domain.  A value of no domain comes
    after, or before, all others.  So do values of device classes, on the hosts that they name:
    memory is taken from the OSDs of one class before those of another get it.
    """
    if not change.setting.IN_ORDER:
        return frozenset({("drive", change.hostname, change.domain_id)})
    where = change.failure_domain
    own: Tuple[Key, ...] = (("in", where), ("everywhere",) if where else ("value",))
    places = (
        (("at", *place), ("of all hosts",)) if place else (("section",),)
        for place in _places(change)
    )
    return change.setting.touches.union(_of_class(change, own, *places))


def holds_back(change: Change) -> FrozenSet[Key]:
    """What waits for such a change: what waits for one of these keys."""
    if not change.setting.IN_ORDER:
        return waits_for(change)
    where = change.failure_domain
    # an OSD whose own capacity is removed before its class has one benches itself
    widely = not where or (_alone(change) and bool(_places(change)))
    own: Tuple[Key, ...] = (("in", where), ("value",), *((("everywhere",),) if widely else ()))
    places = (
        (("at", *place) if place else ("of all hosts",), ("section",))
        for place in _places(change)
    )
    return change.setting.touches.union(_of_class(change, own, *places))


def _of_class(change: Change, *keys: Iterable[Key]) -> Iterator[Key]:
    """What is an option of hdds or of ssds alone keeps its order within its device class."""
    return ((*key, change.device_class if _alone(change) else "") for key in chain(*keys))


def _alone(change: Change) -> bool:
    return all(edit.name.endswith(("_hdd", "_ssd")) for edit in change.edits)


def _places(change: Change) -> Set[Optional[Tuple[str, str]]]:
    """The hosts whose values it sets, None for all; nothing of values of single OSDs."""
    masks = (mask_of(edit.who) for edit in change.edits if not edit.who.startswith("osd."))
    return {mask.place for mask in masks}


def later_words(rollout: Rollout, cluster: ClusterState) -> List[str]:
    """Say which changes are put off, or would be now, and why: a line each."""
    if Precondition.OSDS_WELL in rollout.overridden:
        return []
    found, values = [], 0
    for index, change in enumerate(rollout.changes):
        if change.status is not ChangeStatus.PLANNED:
            continue
        values += change.setting.IN_ORDER
        if change.setting.IN_ORDER and values > VALUES_TOLD_MAX and index not in rollout.put_off:
            continue
        why = illness_of(change, cluster)
        if why:
            found.append(f"{change.name}: {why}")
    return found
