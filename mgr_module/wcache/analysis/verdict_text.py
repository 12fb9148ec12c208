"""A verdict in one sentence, with the figures it stands on."""

from __future__ import annotations

import math

from ..core.model import Verdict
from .sequential import Interval


def verdict_text(
    verdict: Verdict, far: Interval, near: Interval, material_ratio: float, basis: str
) -> str:
    """Why `verdict`: `far` is its 99% interval, `near` its 95% one; `basis` ends the line."""
    beyond = f"{material_ratio:g}x"
    if verdict is Verdict.NO_DIFFERENCE:
        return (
            f"the 95% interval of the ratio, {span(near)}, lies within {beyond} in either "
            f"direction {basis}; leave the mode as it is"
        )
    if verdict.mode is not None:
        times = math.exp(min(abs(far.mean), 99))
        return (
            f"{verdict.value} is {times:.3g}x as fast: the 99% interval of the ratio, "
            f"{span(far)}, lies beyond {beyond} {basis}"
        )
    return (
        f"undecided: the 99% interval of the ratio, {span(far)}, straddles {beyond} in one "
        f"direction or both {basis}"
    )


def span(found: Interval) -> str:
    """An interval of log ratios as ratios."""
    return f"{math.exp(max(found.low, -99)):.4g} to {math.exp(min(found.high, 99)):.4g}"
