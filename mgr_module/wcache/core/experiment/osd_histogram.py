"""How an OSD's client writes spread over latencies, from `perf histogram dump`.

Releases 16, 18 and 20 answer alike: `op_w_latency_in_bytes_histogram` counts by latency and
size.  Its latency axis is called "usec", its ranges are nanoseconds (axis in
src/osd/osd_perf_counters.cc; PrimaryLogPG's log_op_stats adds `to_nsec()`): up to 100 us,
then each bucket twice as wide as the one before.  A write is counted by its primary when
it is answered, so what its replicas took is in it.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import Any, Dict, List, Mapping, Optional

from ..codec import INT_MAX, parse_json
from ..errors import MalformedError
from ..record import BUCKETS_MAX, LatencyHistogram

_LOGGER, _COUNTER = "osd", "op_w_latency_in_bytes_histogram"
COMMAND: Dict[str, str] = {
    "prefix": "perf histogram dump", "logger": _LOGGER, "counter": _COUNTER,
}
ANSWER_BYTES_MAX = 1_000_000  # 32 by 32 counts with their ranges are 34 kB


def parse(text: str) -> Optional[LatencyHistogram]:
    """All writes since the OSD started; None where the answer is not such a histogram."""
    try:
        plain = parse_json(text, bytes_max=ANSWER_BYTES_MAX, what="a histogram")
        return _parsed(plain[_LOGGER][_COUNTER])
    except (MalformedError, ValueError, KeyError, IndexError, TypeError):
        return None


def gained(
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


def _parsed(plain: Mapping[str, Any]) -> LatencyHistogram:
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
