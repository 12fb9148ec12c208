"""The sequential rule: intervals that hold at every look, and when to stop looking.

The boundaries of the intervals, and why they hold, are in `core/verdict/boundaries.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Optional, Sequence

from ..core.experiment.pairs import FIRST_LOOK
from ..core.model import Verdict
from ..core.options.trial import CACHE_MODES, Arms
from ..core.verdict.boundaries import C_N, DECIDE_ALPHA, HORIZON, SAME_ALPHA, SD_FLOOR, half_width

__all__ = ["C_N", "DECIDE_ALPHA", "HORIZON", "SAME_ALPHA", "SD_FLOOR", "half_width"]


@dataclass(frozen=True)
class Interval:
    """A mean log ratio with its repeated confidence interval; natural logs."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Spread:
    """What the pair differences say so far: n of them, their mean and their sd."""

    n: int
    mean: float
    sd: float


def moments(values: Sequence[float]) -> Spread:
    """Number, mean and sd (n - 1) of values; sd 0 where n < 2."""
    n = len(values)
    if n == 0:
        return Spread(0, 0.0, 0.0)
    mean = math.fsum(values) / n
    if n == 1:
        return Spread(1, mean, 0.0)
    squares = math.fsum((value - mean) ** 2 for value in values)
    return Spread(n, mean, math.sqrt(squares / (n - 1)))


def spread(differences: Sequence[float]) -> Spread:
    """Moments of at most the first HORIZON differences."""
    return moments(differences[:HORIZON])


def interval(seen: Spread, alpha: float) -> Interval:
    """The repeated confidence interval of the mean at level 1 - alpha (.99 or .95)."""
    half = half_width(seen.n, seen.sd, alpha)
    return Interval(seen.mean, seen.mean - half, seen.mean + half)


def differs(decide: Interval, margin: float) -> int:
    """+1 or -1 where the interval lies wholly beyond +-margin, else 0; margin is a log."""
    if decide.low > margin:
        return 1
    if decide.high < -margin:
        return -1
    return 0


def same(near: Interval, margin: float) -> bool:
    """Whether the interval lies wholly inside +-margin; margin is a log."""
    return -margin < near.low and near.high < margin


def verdict(far: Interval, near: Interval, margin: float) -> Verdict:
    """What the DECIDE_ALPHA interval and the SAME_ALPHA one say together; margin is a log.

    The logs are of write back over write through.
    """
    direction = differs(far, margin)
    if direction:
        return Verdict.WRITE_THROUGH if direction > 0 else Verdict.WRITE_BACK
    return Verdict.NO_DIFFERENCE if same(near, margin) else Verdict.INSUFFICIENT


def pairs_needed(seen: Spread, margin: float, pairs_max: int) -> Optional[int]:
    """Pairs (in all) that would decide if mean and sd stayed as they are.

    None where not even `pairs_max` (at most HORIZON) would do.
    """
    distance = abs(seen.mean) - margin
    alpha = DECIDE_ALPHA if distance > 0 else SAME_ALPHA
    for n in range(max(FIRST_LOOK, seen.n), min(pairs_max, HORIZON) + 1):
        if half_width(n, seen.sd, alpha) < abs(distance):
            return n
    return None


def verdict_text(
    verdict: Verdict, far: Interval, near: Interval, material_ratio: float, basis: str,
    arms: Arms = CACHE_MODES,
) -> str:
    """Why `verdict`: `far` is its 99% interval, `near` its 95% one; `basis` ends the line."""
    beyond = f"{material_ratio:g}x"
    if verdict is Verdict.NO_DIFFERENCE:
        return (
            f"the 95% interval of the ratio, {span(near)}, lies within {beyond} in either "
            f"direction {basis}; {arms.alike}"
        )
    if verdict.mode is not None:
        times = math.exp(min(abs(far.mean), 99))
        return (
            f"{arms.said(verdict)} is {times:.3g}x as fast: the 99% interval of the ratio, "
            f"{span(far)}, lies beyond {beyond} {basis}"
        )
    return (
        f"undecided: the 99% interval of the ratio, {span(far)}, straddles {beyond} in one "
        f"direction or both {basis}"
    )


def span(found: Interval) -> str:
    """An interval of log ratios as ratios."""
    return f"{math.exp(max(found.low, -99)):.4g} to {math.exp(min(found.high, 99)):.4g}"
