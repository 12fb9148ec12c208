"""Many drive models, and those that are picked out of them.

Each verdict errs once in a hundred by its own account.  Who measures fifty drive models
and acts on the one that differs has picked the likeliest error.  So where few of many
are recommended a change, their intervals are widened until the share of false ones
among them is at most 5% (Benjamini and Yekutieli 2005: the level of a selected interval
is 1 - q R / m, with R selected of m).  Records keep their verdicts; this acts on
recommendations alone.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Optional, Sequence, Tuple, Union

from ..material import MATERIAL_RATIO
from ..model import Verdict
from .estimate import Estimate
from .pooling import DriveVerdict, LoadVerdict

FALSE_SHARE_MAX = 0.05
LEVEL_ALPHA = 0.01  # of the intervals as they come
# Student's t with f degrees of freedom: its two-sided quantile grows at most by
# (a / b)^(1 / e) from level 1 - a to 1 - b, a <= .01.  f = 2 is a pool of three drives,
# f = 3 the first look of an experiment and any pool from four on.
_POOL_OF_THREE_EXPONENT, _EXPONENT = 1.96, 2.8


def alpha_of(selected: int, among: int) -> float:
    """The level at which `selected` of `among` drive models have to be proven."""
    if selected <= 0 or among <= 0:
        return LEVEL_ALPHA
    return min(LEVEL_ALPHA, FALSE_SHARE_MAX * selected / among)


def widened(load: LoadVerdict, drives: Sequence[DriveVerdict], alpha: float) -> LoadVerdict:
    """The load with its interval at level 1 - alpha; undecided where that proves too little.

    `drives` are those it was pooled of: where they were not pooled, each is widened about
    its own estimate, and the widest of them is the load's.
    """
    if alpha >= LEVEL_ALPHA or load.verdict.mode is None:
        return load
    found: Sequence[Union[LoadVerdict, DriveVerdict]] = [load] if load.pooled else drives
    logs = [_logs(item.estimate) for item in found]
    three = load.pooled and load.drives <= 3
    times = (LEVEL_ALPHA / alpha) ** (1 / (_POOL_OF_THREE_EXPONENT if three else _EXPONENT))
    lows = [middle - times * (middle - low) for middle, low, _ in filter(None, logs)]
    highs = [middle + times * (high - middle) for middle, _, high in filter(None, logs)]
    if not lows:
        return load
    low, high = math.exp(max(-99.0, min(lows))), math.exp(min(99.0, max(highs)))
    proven = low > MATERIAL_RATIO or high < 1 / MATERIAL_RATIO
    return replace(
        load, ratio_low=low, ratio_high=high,
        verdict=load.verdict if proven else Verdict.INSUFFICIENT,
        interval=load.interval.replace("99%", f"{1 - alpha:.3%}"),
    )


def _logs(found: Estimate) -> Optional[Tuple[float, float, float]]:
    """Logarithms of an estimate and its interval; None where there is no interval."""
    if not found.ratio or found.ratio <= 0 or not found.bounded:
        return None
    return math.log(found.ratio), math.log(found.ratio_low), math.log(found.ratio_high)


def why_not(selected: int, among: int) -> str:
    """Why a recommendation that stood alone does not stand here, with what would settle it."""
    return (
        f"not significant after correcting for multiple comparisons ({selected} of {among} drive "
        "models seem to differ); measure more drives of this model"
    )
