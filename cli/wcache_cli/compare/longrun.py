"""What one measurement of many correlated samples says of its quantiles.

The samples of one measurement hang together, so n of them are worth less than n.  How much less
follows from the long-run variance of the indicator "above the quantile": its integrated
autocorrelation time, summed up to the first lag pair whose sum is not positive any more
(Geyer's initial monotone sequence, Statistical Science 1992).  The interval of a quantile
is then that of Woodruff (JASA 1952): the quantiles at p +- t sqrt(p (1-p) / n_eff).
"""

from __future__ import annotations

import bisect
import math
from array import array
from typing import Sequence, Tuple

import numpy as np
from wcache.analysis import summary
from wcache.core.figures.latency_table import quantile

# Without their order nothing is known of how samples hang together: they are taken for
# AR(1) with 0.9, as slow drives show, whose n is worth 1/19 of itself.
UNORDERED_TIME = 19.0
LAGS_MAX = 20_000
# Covariances are summed over stretches this long: what they need does not grow with the file.
STRETCH = 1 << 17
GAP_LIMIT = 2.0  # standard deviations


def autocorrelation_time(values: Sequence[float], centre: float) -> float:
    """Integrated autocorrelation time (>= 1) of the indicator `value > centre`."""
    above = np.asarray(values, dtype=float) > centre
    n = len(above)
    x = above - above.mean()
    variance = float(x @ x) / n
    if n < 4 or variance == 0.0:
        return 1.0
    # the mean was estimated from the same data, which lowers every covariance
    rho = _covariances(x, min(n, LAGS_MAX)) / variance
    total, least = -1.0, math.inf
    for k in range(0, len(rho) - 1, 2):
        pair = float(rho[k] + rho[k + 1])
        if pair <= 0.0:
            break
        least = min(least, pair)
        total += 2.0 * least
    # first-order correction of that bias: the truth is about tau (1 + 2 tau / n)
    return max(1.0, total * (1.0 + 2.0 * max(total, 1.0) / n))


def _covariances(x: np.ndarray, lags: int) -> np.ndarray:
    """mean(x[t] x[t + k]) for each lag k below `lags`, with 0 past the end."""
    stretch = min(len(x), STRETCH)
    size = 1 << (stretch + lags - 1).bit_length()
    total = np.zeros(lags)
    for start in range(0, len(x), stretch):
        ahead = np.fft.rfft(x[start:start + stretch + lags - 1], size)
        spectrum = np.conj(np.fft.rfft(x[start:start + stretch], size)) * ahead
        total += np.fft.irfft(spectrum, size)[:lags]
    return total / len(x)


def effective_n(files: Sequence[Sequence[float]], centre: float) -> float:
    """What the samples of all files, in order of time, are worth in independent ones."""
    return math.fsum(len(file) / autocorrelation_time(file, centre) for file in files if file)


def log_quantile(
    ordered_logs: Sequence[float], part: float, n_effective: float, alpha: float
) -> Tuple[float, float, float]:
    """The log quantile at `part`, and how far its interval reaches below and above it.

    The interval is Woodruff's, at level 1 - alpha; a margin past the samples is infinite.
    Where samples have a gap at the quantile, one margin is far longer than the other.  Two
    that differ no more than the spacings of that many samples do by chance are the same.
    """
    value = quantile(ordered_logs, part)
    if n_effective < 2:
        return value, math.inf, math.inf
    margin = summary.student(max(1.0, n_effective - 1), alpha) * math.sqrt(
        part * (1 - part) / n_effective
    )
    low = quantile(ordered_logs, part - margin) if part > margin else -math.inf
    high = quantile(ordered_logs, part + margin) if part + margin < 1 else math.inf
    below, above = value - low, high - value
    if min(below, above) > 0 and math.isfinite(below + above):
        # the log of a sum of k spacings has the standard deviation 1 / sqrt(k), about
        by_chance = GAP_LIMIT * math.sqrt(2 / (margin * n_effective))
        if abs(math.log(above / below)) < by_chance:
            below = above = (below + above) / 2
    return value, below, above


def step_us(ordered_logs: Sequence[float], part: float) -> float:
    """How coarse the clock was at a quantile, us; 0 where nothing says that it was.

    Where two samples or more have the quantile's value, the clock's step is taken for the
    way to the nearest other value.  No step is longer than the value itself, or a clock that
    was rounded would have shown 0.
    """
    place = round(part * (len(ordered_logs) - 1))
    log = ordered_logs[place]
    first, past = bisect.bisect_left(ordered_logs, log), bisect.bisect_right(ordered_logs, log)
    if past - first < 2:
        return 0.0
    value = math.exp(log)
    below = value - math.exp(ordered_logs[first - 1]) if first else value
    above = math.exp(ordered_logs[past]) - value if past < len(ordered_logs) else value
    return min(value, below, above)


def logs(values: Sequence[float]) -> Sequence[float]:
    """The logs of positive values, sorted; 8 bytes for each."""
    return packed(np.log(np.sort(np.asarray(values, dtype=float))))


def packed(values: np.ndarray) -> Sequence[float]:
    """The values of an array as plain floats, 8 bytes for each."""
    return array("d", np.asarray(values, dtype=float).tobytes())
