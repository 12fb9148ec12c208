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

from .joining import LoadVerdict
from .model import Verdict
from .weighing import MATERIAL_RATIO

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


def widened(load: LoadVerdict, alpha: float) -> LoadVerdict:
    """The load with its interval at level 1 - alpha; undecided where that proves too little."""
    if (
        alpha >= LEVEL_ALPHA or load.verdict.mode is None or load.ratio is None
        or not load.ratio_low or not load.ratio_high or load.ratio <= 0
    ):
        return load
    three = load.pooled and load.drives <= 3
    times = (LEVEL_ALPHA / alpha) ** (1 / (_POOL_OF_THREE_EXPONENT if three else _EXPONENT))
    middle = math.log(load.ratio)
    low = math.exp(max(-99.0, middle - times * (middle - math.log(load.ratio_low))))
    high = math.exp(min(99.0, middle + times * (math.log(load.ratio_high) - middle)))
    proven = low > MATERIAL_RATIO or high < 1 / MATERIAL_RATIO
    return replace(
        load, ratio_low=low, ratio_high=high,
        verdict=load.verdict if proven else Verdict.INSUFFICIENT,
        interval=load.interval.replace("99%", f"{1 - alpha:.3%}"),
    )


def why_not(selected: int, among: int) -> str:
    """Why a recommendation that stood alone does not stand here, with what would settle it."""
    return (
        f"{selected} of {among} drive models seem to differ, and that few may be chance: at the "
        "level this asks for, it is not proven here; measure more drives of this drive model"
    )
