"""What was observed of one load on one OSD: a table of latencies, no verdict."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ..codec import INT_MAX, parse_json
from ..errors import MalformedError
from ..figures.latency_table import P99_SAMPLES_MIN, LatencyTable
from ..hardware import BcacheState, FlushCounters
from ..model import CacheMode, KernelView, LoadPoint, Role
from ..record import BUCKETS_MAX, LatencyHistogram, Precondition

# So few samples are kept as they are: those of bench calls, which each cost something.
SAMPLES_KEPT_MAX = 128
# What an idle OSD writes by itself stays below: 4 KiB writes a second.
IDLE_WRITES_PER_S = 5.0


# Readings of bcache devices that are kept, of each load.
BCACHES_MAX = 32
# Bench calls on one OSD for its capacity.
CAPACITY_CALLS_MAX = 20

_LOGGER, _COUNTER = "osd", "op_w_latency_in_bytes_histogram"
HISTOGRAM_COMMAND: Dict[str, str] = {
    "prefix": "perf histogram dump", "logger": _LOGGER, "counter": _COUNTER,
}
HISTOGRAM_BYTES_MAX = 1_000_000  # 32 by 32 counts with their ranges are 34 kB


@dataclass(frozen=True)
class ObservedCapacity:
    """What an OSD's bench calls gave, with all its drives in one setting before and after.

    `setting` and `stack` are what `osd_drives` says of the OSD's drives; a threshold of 0 means
    that the release has none.
    """

    setting: str
    stack: str
    iops: Tuple[float, ...] = field(metadata={"max_items": CAPACITY_CALLS_MAX})
    scheduler: str
    iops_min: float
    iops_max: float
    ended_at_s: float


@dataclass(frozen=True)
class Observed:
    """One load as it was seen; what made it useless stands in `note`.

    `table` is of latencies of the load: a flush, a bench write, or the mean commit of a part of
    the OSD's own traffic.  `client_writes` is of client writes one by one, where the OSD counts
    them.  `beside` is a load of ours that was kept up meanwhile.  `mode` is None where it is
    unknown or not the same on all drives of the domain.  Writes are those with data, per second,
    of the whole drive; None where the kernel does not count flushes apart.
    """

    load_point: LoadPoint
    osd_id: int
    role: Role
    table: LatencyTable
    mode: Optional[CacheMode] = None
    kernel_view: KernelView = KernelView.UNKNOWN
    beside: Optional[LoadPoint] = None
    client_writes: Optional[LatencyTable] = None
    writes_per_s: Optional[float] = None
    flushes_per_s: Optional[float] = None
    started_at_s: float = 0.0
    seconds: float = 0.0
    bytes_written: int = 0
    note: str = ""
    samples_ns: Tuple[int, ...] = field(default=(), metadata={"max_items": SAMPLES_KEPT_MAX})
    capacity: Optional[ObservedCapacity] = None  # of mClock's bench, where it came to its end
    # of the bcache devices above the drives: before the load, then after it
    bcache: Tuple[BcacheState, ...] = field(default=(), metadata={"max_items": BCACHES_MAX})
    # what did not hold at some time of the run until then
    unmet: Tuple[Precondition, ...] = ()


def rates(
    before: Sequence[FlushCounters], after: Sequence[FlushCounters]
) -> Tuple[Optional[float], Optional[float]]:
    """(writes with data, flushes) per second, in sum over drives; (None, None) where unknown.

    The kernel counts a flush without data as a write as well (block/blk-flush.c).
    """
    if not before or len(before) != len(after):
        return None, None
    seconds = (after[0].at_ns - before[0].at_ns) / 1e9
    writes = sum(b.writes - a.writes for a, b in zip(before, after))
    flushes = sum(b.flushes - a.flushes for a, b in zip(before, after))
    if seconds <= 0 or writes < 0 or flushes < 0:
        return None, None
    return max(0.0, (writes - flushes) / seconds), flushes / seconds


# The first bucket begins at 0, which has no log.
_FIRST_WIDTH = 2.0


def log_quantile(found: LatencyHistogram, part: float) -> float:
    """Log of a percentile in ns, interpolated in its bucket; something must be counted."""
    index, share = _place(found, part)
    low, high = _edges(found, index)
    return math.log(low) + share * math.log(high / low)


def bucket_of(found: LatencyHistogram, part: float) -> Tuple[float, float]:
    """The edges in ns of the bucket that a percentile is in, which are certain."""
    return _edges(found, _place(found, part)[0])


def _place(found: LatencyHistogram, part: float) -> Tuple[int, float]:
    """The bucket of a percentile, and how much of the bucket lies under it."""
    wanted = part * sum(found.counts)
    under = 0
    last = 0
    for index, count in enumerate(found.counts):
        if count:
            last = index
            if under + count >= wanted:
                return index, (wanted - under) / count
        under += count
    return last, 1.0


def _edges(found: LatencyHistogram, index: int) -> Tuple[float, float]:
    high = float(found.upper_ns[index])
    return (float(found.upper_ns[index - 1]) if index else high / _FIRST_WIDTH), high


def of_histogram(histogram: LatencyHistogram) -> LatencyTable:
    """The table of a histogram: percentiles as everywhere (`log_quantile`), p99 where n allows.

    `min` and `max` are the edges of the outermost buckets with a count.  For `mean` and `std`
    latencies are taken to lie evenly within a bucket.
    """
    lows = (0, *histogram.upper_ns[:-1])
    buckets = [
        (low / 1e3, high / 1e3, count)
        for low, high, count in zip(lows, histogram.upper_ns, histogram.counts) if count
    ]
    n = sum(count for _, _, count in buckets)
    if not n:
        return LatencyTable(0)
    mean = math.fsum(count * (low + high) / 2 for low, high, count in buckets) / n
    # the spread within a bucket is that of an even distribution
    squares = math.fsum(
        count * (((low + high) / 2 - mean) ** 2 + (high - low) ** 2 / 12)
        for low, high, count in buckets
    )

    p25, p50, p75, p90, p99 = (
        math.exp(log_quantile(histogram, part)) / 1e3 for part in (0.25, 0.5, 0.75, 0.9, 0.99)
    )
    return LatencyTable(
        n, mean, math.sqrt(squares / (n - 1)) if n > 1 else None, buckets[0][0],
        p25, p50, p75, p90, p99 if n >= P99_SAMPLES_MIN else None, buckets[-1][1],
    )


def parse_histogram(text: str) -> Optional[LatencyHistogram]:
    """All writes since the OSD started; None where the answer is not such a histogram.

    Releases 16, 18 and 20 answer alike: `op_w_latency_in_bytes_histogram` counts by latency and
    size.  Its latency axis is called "usec", its ranges are nanoseconds (axis in
    src/osd/osd_perf_counters.cc; PrimaryLogPG's log_op_stats adds `to_nsec()`): up to 100 us,
    then each bucket twice as wide as the one before.  A write is counted by its primary when
    it is answered, so what its replicas took is in it.
    """
    try:
        plain = parse_json(text, bytes_max=HISTOGRAM_BYTES_MAX, what="a histogram")
        return _histogram(plain[_LOGGER][_COUNTER])
    except (MalformedError, ValueError, KeyError, IndexError, TypeError):
        return None


def histogram_gained(
    before: Optional[LatencyHistogram], after: Optional[LatencyHistogram]
) -> Optional[LatencyHistogram]:
    """The writes between two readings; None without any, or where the OSD began anew."""
    if before is None or after is None:
        return None
    short, long = sorted((before.upper_ns, after.upper_ns), key=len)
    counts = [b - a for a, b in zip_longest(before.counts, after.counts, fillvalue=0)]
    if long[: len(short)] != short or min(counts) < 0 or not any(counts):
        return None
    return _trimmed(list(long), counts)


def _histogram(plain: Mapping[str, Any]) -> LatencyHistogram:
    """Raises ValueError, or what a wrong shape raises."""
    ranges, values = plain["axes"][0]["ranges"], plain["values"]
    if not (isinstance(ranges, list) and isinstance(values, list)):
        raise ValueError("no lists")
    if not 2 <= len(ranges) == len(values) <= BUCKETS_MAX:
        raise ValueError("the buckets do not match the axis")
    rows = [_count(sum(_count(value) for value in row)) for row in values]
    if ranges[0] != {"max": -1} or rows[0]:
        raise ValueError("latencies below 0")
    upper_ns: List[int] = []
    for index, item in enumerate(ranges[1:], 2):
        low = _count(item["min"])
        if low != (upper_ns[-1] if upper_ns else 0):
            raise ValueError("the ranges leave a gap")
        # the last one, from 15 hours on, has no end
        upper_ns.append(_count(2 * low if index == len(ranges) else item["max"] + 1))
    return _trimmed(upper_ns, rows[1:])


def _trimmed(upper_ns: List[int], counts: List[int]) -> LatencyHistogram:
    """Without the empty buckets at the slow end: a period's record is kept by the mons."""
    kept = max((i for i, count in enumerate(counts, 1) if count), default=1)
    return LatencyHistogram(tuple(upper_ns[:kept]), tuple(counts[:kept]))


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= INT_MAX:
        raise ValueError("no count")
    return int(value)
