"""What the steps of a rollout say together, each against its controls.

A record of a kind stays small however many steps there are: sums of what each step has shown.
A step weighs by its OSDs and blocks, not by what its noise seems to be: a step that was quiet by
chance would count too much.  Steps that share blocks, since what was measured after one is
before the next ones, have errors of opposite signs: the controls' noise enters the one with a
plus and the others with minuses.  So the pooled error is too large rather than too small.

A host's figures are its own OSDs' claims: of one host no more counts for the drives of others
than of all others together.

Which OSDs are the controls of a step: of the same kind, unchanged, and not about to change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from heapq import nlargest
from typing import Collection, Dict, FrozenSet, Iterable, List, Mapping, Sequence, Tuple

from ...cluster import ClusterState
from ...host_report import HostReport
from ...loads import MATERIAL_LN
from ...model import DriveModel
from .blocks import CONTROLS_MAX, CONTROLS_MIN, Difference

HOSTS_MAX = 12_000  # of one plan, or OSDs where a change is of several hosts

# Which latency of clients something is about.
COMMITS, READS = "commit", "read"
# The first looks of a rollout get the most: as much as if there had been so many before them.
_LOOKS_AHEAD = 3


def share(look: int) -> float:
    """The part of an error rate that look number `look` of a rollout may spend, from 1 on.

    All parts add up to 1, however many looks there are, so nothing has to be known of how long
    a rollout is, and nothing of how its looks depend on each other (Bonferroni).
    """
    count = look + _LOOKS_AHEAD
    return (_LOOKS_AHEAD + 1.0) / (count * (count + 1.0))


@dataclass(frozen=True)
class HostShare:
    """What the steps of one host have of the sums; "" for changes that are of no single host."""

    host: str
    weight: float = 0.0
    moved: float = 0.0
    squares: float = 0.0
    fourths: float = 0.0
    drives: int = 0

    def beside(self, other: HostShare) -> HostShare:
        """With more of the same host."""
        return HostShare(
            self.host, self.weight + other.weight, self.moved + other.moved,
            self.squares + other.squares, self.fourths + other.fourths,
            self.drives + other.drives,
        )

    def limited(self, weight: float, moved: float) -> HostShare:
        """What it counts for the drives of others, who have this weight and have moved so much.

        No more than they do together, and as better than they are by a material ratio at most:
        a host may claim any figures.
        """
        if self.weight <= 0.0 or weight <= 0.0:
            return replace(self, weight=0.0, moved=0.0, squares=0.0, fourths=0.0)
        part = min(1.0, weight / self.weight)
        mean = max(self.moved / self.weight, moved / weight - MATERIAL_LN)
        return replace(
            self, weight=part * self.weight, moved=part * self.weight * mean,
            squares=part**2 * self.squares, fourths=part**4 * self.fourths,
        )


@dataclass(frozen=True)
class Sums:
    """All steps of one kind: sums over steps of w, w d, (w e)^2 and (w e)^4 / freedom.

    w is a step's weight, d its difference of log ratios, e its standard error.  `drives` are the
    changes that were judged and went on.  `hosts` has what each host has of all that.
    """

    kind: str = ""
    of: str = COMMITS
    weight: float = 0.0
    moved: float = 0.0
    squares: float = 0.0
    fourths: float = 0.0
    steps: int = 0
    drives: int = 0
    hosts: Tuple[HostShare, ...] = field(default=(), metadata={"max_items": HOSTS_MAX})

    def beside(
        self, seen: Difference, weight: float, means: Mapping[str, Tuple[float, float]]
    ) -> Sums:
        """With one more step; `means`: by host, its part of the step and by how much it moved."""
        square = (weight * seen.error) ** 2
        fourth = square**2 / seen.freedom
        return replace(
            self, weight=self.weight + weight, moved=self.moved + weight * seen.mean,
            squares=self.squares + square, fourths=self.fourths + fourth, steps=self.steps + 1,
            hosts=self._with(
                HostShare(host, part * weight, part * weight * mean, part * square, part * fourth)
                for host, (part, mean) in means.items()
            ),
        )

    def having_proven(self, by_host: Mapping[str, int]) -> Sums:
        """With so many more drives, by host; "" for changes that are of no single host."""
        return replace(
            self, drives=self.drives + sum(by_host.values()),
            hosts=self._with(HostShare(host, drives=more) for host, more in by_host.items()),
        )

    def _with(self, more: Iterable[HostShare]) -> Tuple[HostShare, ...]:
        found = {item.host: item for item in self.hosts}
        for item in more:
            found[item.host] = found.get(item.host, HostShare(item.host)).beside(item)
        return tuple(found.values())[-HOSTS_MAX:]

    @property
    def difference(self) -> Difference:
        """The mean over steps, whoever said it."""
        return _mean_of((HostShare("", self.weight, self.moved, self.squares, self.fourths),))

    def for_others(self, hosts: Collection[str], step: Sums) -> Difference:
        """What it says of a step on some hosts, with what that `step` says by itself.

        A host alone decides for itself.  For other hosts it counts no more than all others, the
        step among them, do together.
        """
        own = HostShare("", step.weight, step.moved, step.squares, step.fourths)
        (alone,) = hosts if len(hosts) == 1 else ("",)
        others: List[HostShare] = []
        for item in self.hosts:
            if item.host == alone:
                own = own.beside(item)
            else:
                others.append(item)
        weight = own.weight + sum(item.weight for item in others)
        moved = own.moved + sum(item.moved for item in others)
        return _mean_of((own, *(
            item.limited(weight - item.weight, moved - item.moved) for item in others
        )))


class _Proven:
    """Drives that are proven, and the two hosts that have proven most of them."""

    def __init__(self, drives: int, by_host: Mapping[str, int]) -> None:
        self._drives = drives
        self._hosts: Dict[str, int] = {}
        self._most: List[str] = []
        self._count(by_host)

    def add(self, by_host: Mapping[str, int]) -> None:
        """Count so many more, by host; "" for changes that are of no single host."""
        self._drives += sum(by_host.values())
        self._count(by_host)

    def _count(self, by_host: Mapping[str, int]) -> None:
        for host, more in by_host.items():
            self._hosts[host] = self._hosts.get(host, 0) + more
            if host:
                self._most = nlargest(2, {*self._most, host}, self._hosts.__getitem__)

    def for_hosts(self, hosts: Collection[str]) -> int:
        """How many count for a step on some hosts: of one other host half at most."""
        (alone,) = hosts if len(hosts) == 1 else ("",)
        most = next((self._hosts[host] for host in self._most if host != alone), 0)
        left = self._drives - most
        return left + min(most, left)


class Proofs:
    """How many drives are proven of each kind, whose count may grow as if steps went well.

    The answer takes as long for a thousand hosts as for one.
    """

    def __init__(self, evidence: Iterable[Sums]) -> None:
        self._of: Dict[str, List[_Proven]] = {}
        for item in evidence:
            hosts = {one.host: one.drives for one in item.hosts}
            self._of.setdefault(item.kind, []).append(_Proven(item.drives, hosts))

    def add(self, by_kind: Mapping[str, Mapping[str, int]]) -> None:
        """Count so many more drives as proven, by kind and host."""
        for kind, by_host in by_kind.items():
            for item in self._of.setdefault(kind, [_Proven(0, {})]):
                item.add(by_host)

    def least(self, hosts: Mapping[str, Collection[str]]) -> int:
        """How many are proven of the kind of which the fewest are; `hosts`: of each kind's drives.

        What one other host has shown counts as half of that at most.
        """
        return min(
            max((item.for_hosts(mine) for item in self._of.get(kind, ())), default=0)
            for kind, mine in hosts.items()
        )


def _mean_of(parts: Sequence[HostShare]) -> Difference:
    """The mean of sums; the freedom of its error is Satterthwaite's (1946)."""
    weight = sum(item.weight for item in parts)
    squares = sum(item.squares for item in parts)
    fourths = sum(item.fourths for item in parts)
    freedom = squares**2 / fourths if fourths > 0 else 1e6
    return Difference(
        sum(item.moved for item in parts) / weight, math.sqrt(squares) / weight,
        max(1.5, freedom),
    )


Kind = Tuple[str, FrozenSet[DriveModel]]
"""Device class, and the models of all drives under the OSD."""


def controls_for(
    treated: Collection[int], touched: Collection[int], reports: Iterable[HostReport],
    cluster: ClusterState, turns: Mapping[int, int],
) -> Tuple[int, ...]:
    """OSDs of the treated ones' device classes and drive models, spread over hosts.

    `touched` are OSDs that some plan has changed and may yet take back, or changes beside
    these.  `turns` says when the plan comes to an OSD: those that it never comes to, or last,
    are taken, so they stay the same from step to step.  Neither an ill OSD nor one that had slow
    operations in BlueStore is one.  As large a share of them moves data as of the treated, as far
    as there are such.  At least three, or none: the treated then stand alone.
    """
    models: Dict[int, FrozenSet[DriveModel]] = {}
    neither = {*touched, *cluster.ill, *cluster.slow_op_osds}
    neither = (neither | {one.osd_id for one in cluster.slow_osds}) - {*treated}
    hosts: Dict[int, str] = {}
    for report in reports:
        for drive in report.drives:
            for osd_id in {use.osd_id for use in drive.uses} - neither:
                osd = cluster.osds.get(osd_id)
                if osd is not None and osd.up:
                    models[osd_id] = models.get(osd_id, frozenset()) | {drive.drive_model}
                    hosts[osd_id] = report.hostname
    kinds: Dict[int, Kind] = {
        osd_id: (cluster.osds[osd_id].device_class, each) for osd_id, each in models.items()
    }
    wanted = {kind for osd_id, kind in kinds.items() if osd_id in treated}
    able = [
        osd_id for osd_id in sorted(kinds)
        if osd_id not in treated and osd_id not in touched and kinds[osd_id] in wanted
    ]
    busy = cluster.busy or frozenset()
    share = sum(osd_id in busy for osd_id in treated) / max(1, len(treated))
    moving = [osd_id for osd_id in able if osd_id in busy]
    calm = [osd_id for osd_id in able if osd_id not in busy]
    found = _spread(moving, hosts, turns, round(share * CONTROLS_MAX))
    found += _spread(calm, hosts, turns, CONTROLS_MAX - round(share * CONTROLS_MAX))
    if len(found) < CONTROLS_MIN:
        found += _spread(
            [osd_id for osd_id in able if osd_id not in found], hosts, turns,
            CONTROLS_MIN - len(found),
        )
    return tuple(found) if len(found) >= CONTROLS_MIN else ()


def _spread(
    osd_ids: Iterable[int], hosts: Mapping[int, str], turns: Mapping[int, int], most: int
) -> List[int]:
    """At most so many, over many hosts, the last to be changed first."""
    by_host: Dict[str, List[int]] = {}
    for osd_id in osd_ids:
        by_host.setdefault(hosts[osd_id], []).append(osd_id)
    for members in by_host.values():
        members.sort(key=lambda osd_id: -turns.get(osd_id, math.inf))
    latest = {name: turns.get(each[0], math.inf) for name, each in by_host.items()}
    found: List[int] = []
    while by_host and len(found) < most:
        for hostname in sorted(by_host, key=lambda name: (-latest[name], name)):
            if len(found) < most:
                found.append(by_host[hostname].pop(0))
            if not by_host[hostname]:
                del by_host[hostname]
    return found
