"""What an OSD would miss with another target: its miss-ratio curve, as far as it is known.

Downwards the age bins say it.  A smaller cache loses its oldest bytes first, over all kinds
of caches alike (PriorityCache hands out by age).  The bytes per second that cross an age are
the miss rate of an LRU whose residence time is that age.  In a bin they are at most its mean
density, and at least that of the next older bin, since fewer bytes live longer.

A cache holds a little more than it was granted for its bins (`AgeBins.reserved_bytes`), with any
target.  So it keeps what is younger than an age with that much less.

Upwards nothing is known until a trial has told; there the curve stays flat.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Dict, Iterable, List, Optional, Sequence, Tuple

from .rates import MissCost, Rates
from .reading import AgeBins, OsdReading
from .trial_result import TrialResult

# Of each byte of target the caches get this much; what they have at least (osd_memory_expected_
# fragmentation, osd_memory_base and osd_memory_cache_min, src/common/options/global.yaml.in).
CACHE_SHARE = 0.85
BASE_BYTES = 768 * 2**20
CACHE_BYTES_MIN = 128 * 2**20
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


def cache_bytes(target_bytes: float) -> float:
    """What the caches of an OSD with this target get in all."""
    return max(float(CACHE_BYTES_MIN), CACHE_SHARE * target_bytes - BASE_BYTES)


def curve_of(reading: OsdReading, rates: Rates, usual: MissCost) -> Optional[Curve]:
    """The curve of one OSD up to its present target; None where it has no age bins.

    A miss costs what it costs others (`usual`) where the OSD has missed nothing.
    """
    target, misses = reading.target_bytes, rates.onode_misses
    if not reading.bins or target is None or misses is None:
        return None
    read_s = rates.read_s if rates.read_s is not None else usual.read_s
    miss_s = rates.miss_s if rates.miss_s is not None else usual.miss_s
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


def gained(curve: Curve, trials: Iterable[TrialResult]) -> Curve:
    """The curve with what trials found of larger targets: a share of what is missed now is left.

    More memory never misses more: what looks so is noise of the trials.
    """
    now = curve.points[-1]
    points = list(curve.points)
    for trial in sorted(trials, key=lambda item: item.high_bytes):
        last = points[-1]
        if trial.high_bytes > last.target_bytes:
            points.append(Point(
                trial.high_bytes, min(last.wait, now.wait * trial.share),
                min(last.misses, now.misses * trial.share),
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
