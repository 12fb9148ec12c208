"""Percentiles of latencies, from samples or from histograms of client writes.

Buckets of these histograms are a factor of two wide, and within its bucket a percentile is
interpolated in the log of latency.  That is no measurement: a shift of a tenth can move it by
more, or not at all, depending on where the bucket's edge lies.  Two modes are therefore only told
apart beyond `sequential.SLACK` on top of the material ratio.  Where the modes do not differ
neither do their histograms, whatever the edges are.
"""

from __future__ import annotations

import math
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..core.experiment.observed import bucket_of, log_quantile
from ..core.figures.latency_table import P99_SAMPLES_MIN, quantile
from ..core.record import LatencyHistogram, Pair, Period
from ..core.verdict.sequential import moments, rounded

# A sample this many times the median of its mode is a stall.
STALL_FACTOR = 10.0
DIGITS = 9  # of a log latency; beyond them libraries differ, and the verdict must not


def median(values: Sequence[float]) -> float:
    """Median; values need not be sorted."""
    return quantile(sorted(values), 0.5)


def latencies(values_us: Sequence[float]) -> Dict[str, Any]:
    """n, mean, std, min, p25, p50, p75, p90, max in us, p99 or its bound, and stalls.

    `p99_us` only where n allows; else `p99_at_least_us`, which lies under the true one
    with 95% confidence (None for n so small that even that cannot be said).
    """
    seen, n = moments(values_us), len(values_us)
    if n == 0:
        return {"n": 0}
    ordered = sorted(values_us)
    result: Dict[str, Any] = {"n": n, "mean_us": rounded(seen.mean), "std_us": rounded(seen.sd)}
    for name, part in (
        ("min_us", 0.0), ("p25_us", 0.25), ("p50_us", 0.5), ("p75_us", 0.75),
        ("p90_us", 0.9), ("max_us", 1.0),
    ):
        result[name] = rounded(quantile(ordered, part))
    if n >= P99_SAMPLES_MIN:
        result["p99_us"] = rounded(quantile(ordered, 0.99))
    else:
        result["p99_at_least_us"] = _p99_lower(ordered)
    limit = STALL_FACTOR * quantile(ordered, 0.5)
    stalls = sum(1 for value in ordered if value > limit)
    result["stalls"] = stalls
    result["stall_rate"] = rounded(stalls / n)
    result["stall_rate_below"] = rounded(rate_below(stalls, n))
    return result


def rate_below(count: int, n: int) -> float:
    """95% upper bound of a rate (Clopper and Pearson, Biometrika 1934)."""
    from scipy.special import betaincinv

    return 1.0 if count >= n else float(betaincinv(count + 1, n - count, 0.95))


def student(degrees: float, alpha: float) -> float:
    """Two-sided critical value of Student's t."""
    from scipy.special import stdtrit

    return -float(stdtrit(degrees, alpha / 2))


def fixed_interval(values: Sequence[float], alpha: float) -> Tuple[float, float]:
    """The ordinary t interval of a mean: right for one look that was planned beforehand."""
    seen = moments(values)
    if seen.n < 2:
        return -math.inf, math.inf
    half = student(seen.n - 1, alpha) * seen.sd / math.sqrt(seen.n)
    return seen.mean - half, seen.mean + half


def _p99_lower(ordered: Sequence[float]) -> Optional[float]:
    """The highest order statistic that lies under the 99th percentile with 95% confidence.

    P(x_(r) <= q99) = P(Binomial(n, .99) >= r).
    """
    n = len(ordered)
    chance = 0.0  # P(Binomial >= r), from r = n down
    for r in range(n, 0, -1):
        chance += math.comb(n, r) * 0.99**r * 0.01 ** (n - r)
        if chance >= 0.95:
            return rounded(ordered[r - 1])
    return None


WRITES_MIN = 100  # per period: ten of them lie beyond its 90th percentile
_PARTS = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))


def differences(pairs: Sequence[Pair]) -> Tuple[float, ...]:
    """Arm A less arm B of the log p90s; () unless every period counts enough."""
    found: List[float] = []
    for pair in pairs:
        a, b = pair.a.histogram, pair.b.histogram
        if a is None or b is None:
            return ()
        if min(sum(a.counts), sum(b.counts)) < WRITES_MIN:
            return ()
        found.append(round(log_quantile(a, 0.9) - log_quantile(b, 0.9), DIGITS))
    return tuple(found)


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
        low, high = bucket_of(whole, part)
        result[f"{name}_about_us"] = rounded(math.exp(log_quantile(whole, part)) / 1e3)
        result[f"{name}_between_us"] = [rounded(low / 1e3), rounded(high / 1e3)]
    return result


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
