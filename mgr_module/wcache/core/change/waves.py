"""Which changes go together: the canary, its host, then one failure domain after another.

A wave lies in one failure domain: whatever it does, the copies in the others are as they
were.  Where pools' rules spread copies over different types of buckets, the narrowest
counts: it is inside of one bucket of every wider type.
"""

from __future__ import annotations

import math
from typing import (
    AbstractSet,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Sequence,
    Set,
    Tuple,
    TypeVar,
)

from ..cluster import ClusterState
from .change import Change
from .rollout_state import Wave, WaveKind

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
        (item for item in changes if item.domain_id),
        key=lambda item: (item.hostname, item.domain_id) in last,
    )
    others = [item for item in changes if not item.domain_id]
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
        return bool(change.domain_id) and any(
            change.pooled_as not in usual and not osds.isdisjoint(change.treated)
            for osds, usual in groups
        )

    return says


def _usual(changes: Sequence[Change], osds: AbstractSet[int]) -> Set[str]:
    """Say of which kinds of changes most are on such OSDs."""
    alike: Dict[str, List[bool]] = {}
    for change in changes:
        if change.domain_id:
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
