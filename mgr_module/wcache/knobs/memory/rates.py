"""What an OSD did between two readings: hits, misses, and what a miss cost."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Dict, Iterable, List, NamedTuple, Optional, Tuple

from .reading import Counters

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

    @property
    def onode_hit_ratio(self) -> Optional[float]:
        """Between 0 and 1; None where nothing was asked for."""
        return ratio(self.onode_hits, self.onode_misses)


class MissCost(NamedTuple):
    """Seconds that an onode miss takes, and a read from the device."""

    miss_s: float
    read_s: float


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
