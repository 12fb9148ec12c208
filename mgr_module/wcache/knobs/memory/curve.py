"""Miss-ratio curves of OSDs: a host's memory is divided by them.

Downwards the age bins say it.  A smaller cache loses its oldest bytes first, over all kinds
of caches alike (PriorityCache hands out by age).  The bytes per second that cross an age are
the miss rate of an LRU whose residence time is that age.  In a bin they are at most its mean
density, and at least that of the next older bin, since fewer bytes live longer.

A cache holds a little more than it was granted for its bins (`AgeBins.reserved_bytes`), with any
target.  So it keeps what is younger than an age with that much less.

Upwards nothing is known until a trial has told; there the curve stays flat.

Where memory is divided, the sum of what all OSDs wait is made smallest.  Curves have cliffs and
plateaus, so the local slope says nothing: every point where a curve falls is tried with every one
of the others, and combinations that cost more and wait more than another are dropped.  What is left
is exact on the grid of STEP_BYTES.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from .reading import STEP_BYTES, AgeBins, Counters, OsdReading
from .trial_result import TrialResult

SECONDS_MIN = 0.5
READ_S = {True: 8e-3, False: 2e-4}  # of a read nobody has seen: rotational or not


@dataclass(frozen=True)
class Rates:
    """Per second, between two readings of one process; None where it was not counted."""

    seconds: float
    onode_hits: Optional[float]
    onode_misses: Optional[float]
    buffer_hit_bytes: Optional[float]
    buffer_miss_bytes: Optional[float]
    miss_s: Optional[float]  # what an onode miss costs: rocksdb's get
    read_s: Optional[float]  # what a read from the device costs
    read_bytes: Optional[float]  # bytes of one read from the device


class MissCost(NamedTuple):
    """Seconds that an onode miss takes, and a read from the device."""

    miss_s: float
    read_s: float

    def of(self, rates: Rates) -> MissCost:
        """What it costs an OSD: what that told, and this of what it did not miss or read."""
        return MissCost(
            self.miss_s if rates.miss_s is None else rates.miss_s,
            self.read_s if rates.read_s is None else rates.read_s,
        )


def usual_costs(told: Iterable[Tuple[bool, Rates]]) -> Dict[bool, MissCost]:
    """By whether a drive is rotational: the median of what OSDs told, else what is assumed.

    It is for OSDs that missed or read nothing, and so have not told.
    """
    reads: Dict[bool, List[float]] = {True: [], False: []}
    misses: Dict[bool, List[float]] = {True: [], False: []}
    for rotational, rates in told:
        reads[rotational] += [] if rates.read_s is None else [rates.read_s]
        misses[rotational] += [] if rates.miss_s is None else [rates.miss_s]
    found = {}
    for rotational, assumed_s in READ_S.items():
        read_s = median(reads[rotational] or [assumed_s])
        found[rotational] = MissCost(median(misses[rotational] or [read_s]), read_s)
    return found


def ratio(hits: Optional[float], misses: Optional[float]) -> Optional[float]:
    """Hits of all; None where there were none at all."""
    if hits is None or misses is None or hits + misses <= 0:
        return None
    return hits / (hits + misses)


def restarted(before: Counters, after: Counters) -> bool:
    """Whether counters that only grow have fallen: they are of two processes."""
    pairs = (
        (before.gets, after.gets), (before.read_waits, after.read_waits),
        (before.onode_hits, after.onode_hits), (before.onode_misses, after.onode_misses),
    )
    return any(
        first is not None and last is not None and last < first for first, last in pairs
    )


def between(before: Counters, after: Counters) -> Optional[Rates]:
    """What was counted between; None where the OSD was restarted or too little time passed."""
    seconds = after.at_s - before.at_s
    if seconds < SECONDS_MIN or restarted(before, after):
        return None

    def each(first: Optional[float], last: Optional[float]) -> Optional[float]:
        if first is None or last is None or last < first:
            return None
        return (last - first) / seconds

    gets, waits = after.gets - before.gets, after.read_waits - before.read_waits
    missed = each(before.buffer_miss_bytes, after.buffer_miss_bytes)
    return Rates(
        seconds, each(before.onode_hits, after.onode_hits),
        each(before.onode_misses, after.onode_misses),
        each(before.buffer_hit_bytes, after.buffer_hit_bytes), missed,
        (after.get_s - before.get_s) / gets if gets > 0 else None,
        (after.read_wait_s - before.read_wait_s) / waits if waits > 0 else None,
        missed * seconds / waits if missed and waits > 0 else None,
    )


# Of each byte of target the caches get this much (osd_memory_expected_fragmentation,
# src/common/options/global.yaml.in).
CACHE_SHARE = 0.85
# One block of RocksDB, and what an onode takes where no OSD has told.
BLOCK_BYTES = 4096.0
ONODE_BYTES = 1500.0


@dataclass(frozen=True)
class Point:
    """With this target: seconds of waiting in a second, and onode misses per second.

    `low` and `high` bound the misses.  A point holds up to the next larger one.
    """

    target_bytes: int
    wait: float
    misses: float
    low: float
    high: float


@dataclass(frozen=True)
class Curve:
    """Points with rising targets and falling waits; flat above the last and below the first."""

    points: Tuple[Point, ...]

    def at(self, target_bytes: float) -> Point:
        """What holds with a target."""
        found = self.points[0]
        for point in self.points:
            if point.target_bytes > target_bytes:
                break
            found = point
        return found


def curve_of(reading: OsdReading, rates: Rates, usual: MissCost) -> Optional[Curve]:
    """The curve of one OSD up to its present target; None where it has no age bins.

    A miss costs what it costs others (`usual`) where the OSD has missed nothing.
    """
    target, misses = reading.target_bytes, rates.onode_misses
    if not reading.bins or target is None or misses is None:
        return None
    miss_s, read_s = usual.of(rates)
    wait = misses * miss_s
    if rates.buffer_miss_bytes and rates.read_bytes:
        wait += rates.buffer_miss_bytes / rates.read_bytes * read_s
    # of each cache, how many bytes one miss brings in, and the seconds that it takes
    costs = {
        "meta": (reading.onode_bytes or ONODE_BYTES, miss_s),
        "data": (max(BLOCK_BYTES, rates.read_bytes or 16 * BLOCK_BYTES), read_s),
    }
    have = sum(b.must_bytes + sum(b.bin_bytes) + b.rest_bytes for b in reading.bins)
    points: List[Point] = [Point(target, wait, misses, misses, misses)]
    for age_s in sorted({age for bins in reading.bins for age in bins.edges_s}, reverse=True):
        kept = sum(b.must_bytes + _needed(b, age_s) for b in reading.bins)
        larger, wait, low, high = points[-1], 0.0, 0.0, 0.0
        for bins in reading.bins:
            least, most = _crossing(bins, age_s)
            bytes_each, seconds_each = costs.get(bins.cache, (BLOCK_BYTES, read_s))
            wait += 0.5 * (least + most) / bytes_each * seconds_each
            if bins.cache == "meta":
                low, high = least / bytes_each, most / bytes_each
        # a smaller target never misses less: what looks so is noise of the bins
        points.append(Point(
            min(max(0, int(target - (have - kept) / CACHE_SHARE)), larger.target_bytes),
            max(wait, larger.wait), max(0.5 * (low + high), larger.misses),
            max(low, larger.low), max(high, larger.high),
        ))
    return Curve(_rising(points))


def _crossing(bins: AgeBins, age_s: float) -> Tuple[float, float]:
    """At least and at most how many bytes a second get older than `age_s`."""
    most, least, edge_before = 0.0, 0.0, 0.0
    told_s = _told_until_s(bins)
    for edge, held in zip(bins.edges_s, bins.bin_bytes):
        density = held / (edge - edge_before)
        if edge <= age_s:
            # where a bin is cut off there are more, though no denser than in the one before
            most = max(density, most) if edge == told_s else density
        elif edge_before <= age_s:
            least = density
        edge_before = edge
    return min(least, most), most


def _told_until_s(bins: AgeBins) -> float:
    """Up to which age its bins are there: the edge of the oldest one, where the rest is cut off."""
    if bins.rest_bytes or not bins.reserved_bytes:
        return math.inf
    return max((edge for edge, held in zip(bins.edges_s, bins.bin_bytes) if held), default=0.0)


def _needed(bins: AgeBins, age_s: float) -> int:
    """What a cache must be granted to keep all that is younger."""
    younger = sum(held for edge, held in zip(bins.edges_s, bins.bin_bytes) if edge <= age_s)
    if age_s > _told_until_s(bins):
        return younger  # how old the rest of it gets nobody knows
    return max(0, younger - bins.reserved_bytes)


def _rising(points: Iterable[Point]) -> Tuple[Point, ...]:
    """By target, one for each: the one that waits least."""
    best: Dict[int, Point] = {}
    for point in points:
        before = best.get(point.target_bytes)
        if before is None or point.wait < before.wait:
            best[point.target_bytes] = point
    return tuple(best[target] for target in sorted(best))


def gained(curve: Curve, trials: Iterable[TrialResult], miss_s: float) -> Curve:
    """The curve with what trials found of larger targets: a share of what is missed now is left.

    A trial counts onode misses, which cost `miss_s` each.  What data reads wait stays as it is: of
    them it tells nothing.  More memory never misses more: what looks so is noise of the trials.
    """
    now = curve.points[-1]
    points = list(curve.points)
    for trial in sorted(trials, key=lambda item: item.high_bytes):
        last = points[-1]
        if trial.high_bytes > last.target_bytes:
            misses = now.misses * trial.share
            points.append(Point(
                trial.high_bytes, min(last.wait, now.wait - (now.misses - misses) * miss_s),
                min(last.misses, misses),
                min(last.low, now.low * trial.share_low),
                min(last.high, now.high * trial.share_high),
            ))
    return Curve(tuple(points))


def summed(curves: Sequence[Curve], share: float = 1.0) -> Curve:
    """What OSDs that all have one target wait and miss together, times `share`."""
    targets = sorted({point.target_bytes for curve in curves for point in curve.points})
    points = []
    for target in targets:
        each = [curve.at(target) for curve in curves]
        points.append(Point(
            target, share * sum(p.wait for p in each), share * sum(p.misses for p in each),
            share * sum(p.low for p in each), share * sum(p.high for p in each),
        ))
    return Curve(tuple(points))


# So little is held against a change of all the memory of a class: among divisions that wait
# the same, the one that changes least.
_CHANGE_WEIGHT = 1e-6


@dataclass(frozen=True)
class Share:
    """The OSDs of one device class on one host, which have one target: `osds` of them."""

    device_class: str
    osds: int
    now_bytes: int
    curve: Curve


def divide(
    shares: Sequence[Share], room_bytes: float, *, floor_bytes: int, ceiling_bytes: int
) -> Optional[Dict[str, int]]:
    """The target of each device class; None where not even the floors fit into the room."""
    steps = int(room_bytes // STEP_BYTES)
    # (steps used, weight) to the chosen targets; the weight is the wait and a little for change
    front: List[Tuple[int, float, Tuple[int, ...]]] = [(0, 0.0, ())]
    scale = sum(share.curve.points[0].wait for share in shares) or 1.0
    for share in shares:
        merged: Dict[int, Tuple[float, Tuple[int, ...]]] = {}
        for target in _candidates(share, floor_bytes, ceiling_bytes):
            cost = share.osds * (target // STEP_BYTES)
            change = abs(target - share.now_bytes) / max(share.now_bytes, STEP_BYTES)
            weight = share.curve.at(target).wait + scale * _CHANGE_WEIGHT * change
            for used, before, chosen in front:
                total = used + cost
                if total > steps:
                    break  # the front is sorted by what is used
                now = merged.get(total)
                if now is None or before + weight < now[0]:
                    merged[total] = (before + weight, (*chosen, target))
        front = _undominated(merged)
        if not front:
            return None
    best = min(front, key=lambda item: item[1])
    return _handed_back(shares, best[2], steps - best[0], ceiling_bytes)


def _handed_back(
    shares: Sequence[Share], chosen: Sequence[int], steps_left: int, ceiling_bytes: int
) -> Dict[str, int]:
    """What nobody needs goes back to those who lose something, up to what they have and may have.

    Between two points of a curve it may well help: only how much is not known.
    """
    targets = {share.device_class: target for share, target in zip(shares, chosen)}

    def loses(share: Share) -> float:
        return share.curve.at(targets[share.device_class]).wait - share.curve.at(
            share.now_bytes).wait

    for share in sorted(shares, key=loses, reverse=True):
        most = min(share.now_bytes, ceiling_bytes)
        missing = (most - targets[share.device_class]) // STEP_BYTES
        more = min(missing, steps_left // share.osds)
        if more > 0 and loses(share) > 0:
            targets[share.device_class] += more * STEP_BYTES
            steps_left -= more * share.osds
    return targets


def _undominated(
    merged: Dict[int, Tuple[float, Tuple[int, ...]]]
) -> List[Tuple[int, float, Tuple[int, ...]]]:
    front: List[Tuple[int, float, Tuple[int, ...]]] = []
    least = math.inf
    for used in sorted(merged):
        weight, chosen = merged[used]
        if weight < least:
            least = weight
            front.append((used, weight, chosen))
    return front


def _candidates(share: Share, floor_bytes: int, ceiling_bytes: int) -> List[int]:
    """Targets that are worth a try: where the curve falls, what is there now, the floor.

    Rounded up to a step, so that none lies before the point where the curve falls.
    """
    wanted = {floor_bytes, min(max(share.now_bytes, floor_bytes), ceiling_bytes)}
    wanted |= {
        point.target_bytes for point in share.curve.points
        if floor_bytes < point.target_bytes <= ceiling_bytes
    }
    stepped = {math.ceil(target / STEP_BYTES) * STEP_BYTES for target in wanted}
    return sorted(
        target for target in stepped if target <= ceiling_bytes or target - STEP_BYTES < floor_bytes
    )
