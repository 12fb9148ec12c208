"""The level of a period, to plan what is next and to be shown; verdicts have their own."""

from __future__ import annotations

import math
import statistics
from typing import Sequence, Tuple

from ..loads import commit_latency
from ..record import Pair, Period


def commits(period: Period) -> Tuple[float, int]:
    """(seconds waited in sum, how many) of the commits of a period."""
    commit = commit_latency(period.counters)
    if commit is not None:
        return max(0.0, commit.sum_s), commit.count
    return sum(period.samples_ns) / 1e9, len(period.samples_ns)


def apart_ln(pairs: Sequence[Pair]) -> float:
    """How far the modes are apart in the mean over pairs, in ln of latency; no sign, no mode."""
    gaps = [
        math.log(level_ns(pair.write_back) / level_ns(pair.write_through)) for pair in pairs
    ]
    return abs(math.fsum(gaps)) / len(gaps) if gaps else 0.0


def level_ns(period: Period) -> float:
    """The median of the samples, or the mean of the commits, in ns; 1 at least."""
    if period.samples_ns:
        return max(1.0, statistics.median(period.samples_ns))
    waited_s, count = commits(period)
    return max(1.0, waited_s * 1e9 / max(1, count))
