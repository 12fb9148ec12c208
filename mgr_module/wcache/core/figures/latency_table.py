"""The full table of latencies: n, mean, std, min, p25, p50, p75, p90, p99, max."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Optional, Sequence, Tuple

from ..text import latency

HEADINGS = ("N", "MEAN", "STD", "MIN", "P25", "P50", "P75", "P90", "P99", "MAX")
# Below this many samples there is no 95% upper bound of the 99th percentile at all:
# the largest of n samples exceeds it with chance 1 - .99^n (David & Nagaraja, Order
# Statistics, 7.1), which reaches 95% at n = 299.
P99_SAMPLES_MIN = 299


@dataclass(frozen=True)
class LatencyTable:
    """In us; None where n does not allow a number."""

    n: int
    mean: Optional[float] = None
    std: Optional[float] = None
    min: Optional[float] = None
    p25: Optional[float] = None
    p50: Optional[float] = None
    p75: Optional[float] = None
    p90: Optional[float] = None
    p99: Optional[float] = None
    max: Optional[float] = None


def of_samples(samples_ns: Sequence[int]) -> LatencyTable:
    """The table of latencies in ns."""
    n = len(samples_ns)
    if not n:
        return LatencyTable(0)
    us = sorted(ns / 1e3 for ns in samples_ns)
    mean = math.fsum(us) / n
    std = math.sqrt(math.fsum((one - mean) ** 2 for one in us) / (n - 1)) if n > 1 else None
    p25, p50, p75, p90, p99 = (quantile(us, part) for part in (0.25, 0.5, 0.75, 0.9, 0.99))
    return LatencyTable(
        n, mean, std, us[0], p25, p50, p75, p90, p99 if n >= P99_SAMPLES_MIN else None, us[-1]
    )


def quantile(ordered: Sequence[float], part: float) -> float:
    """Quantile of sorted values, linear between neighbours (Hyndman and Fan, type 7)."""
    place = part * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def row(found: LatencyTable) -> Tuple[object, ...]:
    """A row below HEADINGS."""
    values = (
        found.mean, found.std, found.min, found.p25, found.p50, found.p75, found.p90, found.p99,
        found.max,
    )
    return (found.n, *(latency(value) for value in values))
