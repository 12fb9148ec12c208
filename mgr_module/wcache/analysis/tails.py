"""Percentiles of client writes from histograms whose buckets are a factor of two wide.

Within its bucket a percentile is interpolated in the log of latency.  That is no
measurement: a shift of a tenth can move it by more, or not at all, depending on where the
bucket's edge lies.  Two modes are therefore only told apart beyond SLACK on top of the
material ratio.  Where the modes do not differ neither do their histograms, whatever the
edges are.
"""

from __future__ import annotations

import math
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ..core.figures.latency_table import P99_SAMPLES_MIN
from ..core.model import LoadPoint
from ..core.record import LatencyHistogram, Pair, Period
from . import summary

WRITES_MIN = 100  # per period: ten of them lie beyond its 90th percentile
# Half a bucket, as a log ratio.
SLACK = math.log(2.0) / 2
# The first bucket begins at 0, which has no log.
_FIRST_WIDTH = 2.0
_PARTS = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))


def slack_of(alike: Mapping[str, Any]) -> float:
    """What the tail of results must clear beyond the margin: SLACK where buckets told it.

    Simulated traffic gives single latencies.
    """
    traffic = alike.get("load_point") == LoadPoint.OSD_TRAFFIC.value
    return SLACK if traffic and alike.get("simulated") is False else 0.0


def differences(pairs: Sequence[Pair]) -> Tuple[float, ...]:
    """Write back less write through of the log p90s; () unless every period counts enough."""
    found: List[float] = []
    for pair in pairs:
        back, through = pair.write_back.histogram, pair.write_through.histogram
        if back is None or through is None:
            return ()
        if min(sum(back.counts), sum(through.counts)) < WRITES_MIN:
            return ()
        found.append(round(log_quantile(back, 0.9) - log_quantile(through, 0.9), summary.DIGITS))
    return tuple(found)


def log_quantile(found: LatencyHistogram, part: float) -> float:
    """Log of a percentile in ns, interpolated in its bucket; something must be counted."""
    index, share = _place(found, part)
    low, high = _edges(found, index)
    return math.log(low) + share * math.log(high / low)


def client_writes(periods: Sequence[Period]) -> Optional[Dict[str, Any]]:
    """Percentiles over all periods together, in us; None where none has a histogram.

    `n` writes; `p50_about_us`, `p90_about_us` and, where n allows, `p99_about_us` are
    interpolated; `*_between_us` are the edges of the bucket, which are certain.
    """
    whole = _sum([period.histogram for period in periods if period.histogram is not None])
    n = sum(whole.counts) if whole is not None else 0
    if whole is None or not n:
        return None
    result: Dict[str, Any] = {"n": n}
    for name, part in _PARTS:
        if part == 0.99 and n < P99_SAMPLES_MIN:
            continue
        low, high = _edges(whole, _place(whole, part)[0])
        result[f"{name}_about_us"] = summary.rounded(math.exp(log_quantile(whole, part)) / 1e3)
        result[f"{name}_between_us"] = [summary.rounded(low / 1e3), summary.rounded(high / 1e3)]
    return result


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


def _sum(found: Sequence[LatencyHistogram]) -> Optional[LatencyHistogram]:
    """All as one; None where their buckets are not the same."""
    longest = max((item.upper_ns for item in found), key=len, default=())
    if not longest or any(item.upper_ns != longest[: len(item.upper_ns)] for item in found):
        return None
    counts = [0] * len(longest)
    for item in found:
        for index, count in enumerate(item.counts):
            counts[index] += count
    return LatencyHistogram(longest, tuple(counts))
