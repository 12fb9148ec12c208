"""The numbers of two stretches of correlated blocks: their difference and its standard error.

Blocks of time are correlated: a mean of n of them says less than n independent ones would.
They are taken for AR(1), whose lag-1 correlation is estimated from both stretches together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import fmean, variance
from typing import Sequence

from ...figures.student_t import t_quantile

# Above this the stretches are too short to tell noise from drift; the error is wide then.
CORRELATION_MAX = 0.95


@dataclass(frozen=True)
class Difference:
    """Mean of the later blocks minus that of the earlier ones, with its standard error.

    `freedom` are the degrees of freedom of the error, less than blocks where they correlate.
    """

    mean: float
    error: float
    freedom: float
    correlation: float

    def low(self, alpha: float) -> float:
        """One-sided lower limit, missed with probability `alpha`."""
        return self.mean - t_quantile(1.0 - alpha, self.freedom) * self.error

    def high(self, alpha: float) -> float:
        """One-sided upper limit, missed with probability `alpha`."""
        return self.mean + t_quantile(1.0 - alpha, self.freedom) * self.error


def difference(before: Sequence[float], after: Sequence[float]) -> Difference:
    """The difference of two stretches of at least four blocks each; both in one unit.

    The moment estimate of the correlation is too low in short stretches; what Marriott and
    Pope (1954) give as its bias, (1 + 4 phi) / n with the mean estimated, is added for each.
    """
    stretches = before, after
    residuals = [[value - fmean(each) for value in each] for each in stretches]
    squares = sum(value * value for each in residuals for value in each)
    products = sum(
        first * second for each in residuals for first, second in zip(each, each[1:])
    )
    count = len(before) + len(after)
    raw = products / squares if squares > 0 else 0.0
    bias = 2.0 * (1.0 + 4.0 * max(0.0, raw)) / count
    phi = min(CORRELATION_MAX, max(0.0, raw + bias))
    grown = [_inflation(len(each), phi) for each in stretches]
    # what the means take away of the spread around them
    left = sum(len(each) - more for each, more in zip(stretches, grown))
    variance = squares / max(left, 0.5)
    error = math.sqrt(
        variance * sum(more / len(each) for each, more in zip(stretches, grown))
    )
    effective = sum(len(each) / more for each, more in zip(stretches, grown))
    freedom = max(1.5, min(count - 2.0, effective - 2.0))
    return Difference(fmean(after) - fmean(before), error, freedom, phi)


def mean_error(values: Sequence[float]) -> float:
    """The standard error of the mean of a stretch of at least eight correlated blocks."""
    half = len(values) // 2
    if half < 4:
        return math.inf
    return difference(values[:half], values[half:]).error / 2.0


def beside_moves(seen: Difference, moved: Sequence[float], treated: int) -> Difference:
    """The difference, as uncertain as what unchanged OSDs do among themselves in the same time.

    `moved`: by how much each control has moved.  OSDs drift, each by itself; blocks of one OSD
    do not show that as noise, and the spread of the controls' moves does.  What it is larger by
    is a component of its own, with the freedom of that spread (Satterthwaite, 1946).
    """
    if len(moved) < 2:
        return seen
    spread = variance(moved) * (1.0 / treated + 1.0 / len(moved))
    more = spread - seen.error**2
    if more <= 0.0:
        return seen
    parts = seen.error**4 / seen.freedom + more**2 / (len(moved) - 1)
    return replace(seen, error=math.sqrt(spread), freedom=max(1.5, spread**2 / parts))


def _inflation(count: int, phi: float) -> float:
    """By how much the variance of a mean of AR(1) values exceeds that of independent ones."""
    if phi <= 0.0:
        return 1.0
    tail = 2.0 * phi * (1.0 - phi**count) / (count * (1.0 - phi) ** 2)
    return max(1.0, (1.0 + phi) / (1.0 - phi) - tail)
