"""Quantiles of Student's t, where scipy is not at hand: nothing in the mgr itself imports it."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

# Two-sided 95%, for 1 to 30 degrees of freedom.
_T95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
)


def t95(freedom: int) -> float:
    """Student's t for a two-sided 95% interval; Cornish-Fisher beyond the table."""
    if freedom <= len(_T95):
        return _T95[freedom - 1]
    z = 1.959964
    return z + (z**3 + z) / (4 * freedom)


def t_quantile(probability: float, freedom: float) -> float:
    """Quantile of Student's t: Hill's expansion (1970, CACM algorithm 396), from 1 on.

    Within 1% of the exact one from two degrees of freedom on, for probabilities to 0.9995.
    """
    if probability < 0.5:
        return -t_quantile(1.0 - probability, freedom)
    p = 2.0 * (1.0 - probability)  # of both tails together
    if freedom <= 1.0:
        return 1.0 / math.tan(p * math.pi / 2.0)
    a = 1.0 / (freedom - 0.5)
    b = 48.0 / a**2
    c = ((20700.0 * a / b - 98.0) * a - 16.0) * a + 96.36
    d = ((94.5 / (b + c) - 3.0) / b + 1.0) * math.sqrt(a * math.pi / 2.0) * freedom
    y = (d * p) ** (2.0 / freedom)
    if y > 0.05 + a:
        x = NormalDist().inv_cdf(p / 2.0)
        y = x * x
        if freedom < 5.0:
            c += 0.3 * (freedom - 4.5) * (x + 0.6)
        c += (((0.05 * d * x - 5.0) * x - 7.0) * x - 2.0) * x + b
        y = (((((0.4 * y + 6.3) * y + 36.0) * y + 94.5) / c - y - 3.0) / b + 1.0) * x
        y = a * y * y
        y = y + y * y / 2.0 if y <= 0.002 else math.expm1(y)
    else:
        y = (
            (1.0 / (((freedom + 6.0) / (freedom * y) - 0.089 * d - 0.822) * (freedom + 2.0) * 3.0)
             + 0.5 / (freedom + 4.0)) * y - 1.0
        ) * (freedom + 1.0) / (freedom + 2.0) + 1.0 / y
    return math.sqrt(freedom * y)


@lru_cache(maxsize=1024)
def t_exact(freedom: int, alpha: float) -> float:
    """Student's t for a two-sided interval at level 1 - alpha.

    For whole degrees of freedom its distribution is a finite sum in the angle whose tangent is
    t / sqrt(freedom) (Abramowitz and Stegun, 26.7.3 and 26.7.4).
    """
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        angle = (low + high) / 2
        if _within(angle, freedom) < 1 - alpha:
            low = angle
        else:
            high = angle
    return math.sqrt(freedom) * math.tan(low)


def _within(angle: float, freedom: int) -> float:
    odd, square = freedom % 2 == 1, math.cos(angle) ** 2
    term, total = math.cos(angle) if odd else 1.0, 0.0
    for k in range(2 if odd else 1, freedom, 2):
        total += term
        term *= square * k / (k + 1)
    total *= math.sin(angle)
    return 2 / math.pi * (angle + total) if odd else total
