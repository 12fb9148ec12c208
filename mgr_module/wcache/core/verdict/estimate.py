"""A verdict and the interval that it stands on: what it leaves open, what it proves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Optional

from ..loads import MATERIAL_RATIO
from ..model import Verdict


@dataclass(frozen=True)
class Estimate:
    """What was measured at one load point; the ratio is write back over write through.

    Where there is no interval both of its ends are open: 0 and infinite.
    `finding`: a transient or a flush too fast was found: what was measured was no cache mode.
    """

    verdict: Verdict
    ratio_low: float = 0.0
    ratio_high: float = math.inf
    finding: bool = False
    ratio: Optional[float] = None

    @property
    def bounded(self) -> bool:
        """Whether there is an interval."""
        return self.ratio_low > 0.0 and self.ratio_high < math.inf

    @property
    def flagged(self) -> bool:
        """Whether its interval proves nothing.

        Also where no finding says why: what lies beyond the margin and is undecided all the
        same waits for something, such as a check for transients.
        """
        beyond = self.ratio_low > MATERIAL_RATIO or self.ratio_high < 1 / MATERIAL_RATIO
        return self.finding or (self.verdict is Verdict.INSUFFICIENT and beyond)

    @property
    def span(self) -> str:
        """The interval in words."""
        if not self.bounded:
            return "no interval yet"
        return f"ratio {self.ratio_low:.3g} to {self.ratio_high:.3g}"

    def allows(self, mode: Verdict) -> bool:
        """Whether the interval leaves room for a material gain in `mode`."""
        if mode is Verdict.WRITE_THROUGH:
            return self.ratio_high > MATERIAL_RATIO
        return self.ratio_low < 1 / MATERIAL_RATIO

    def loss(self, mode: Verdict) -> float:
        """How many times slower `mode` is proven to be here; 1 where it is not."""
        if mode is Verdict.WRITE_THROUGH:
            return max(1.0, 1 / self.ratio_high)
        return max(1.0, self.ratio_low)


def estimate(
    verdict: Verdict, ratio: Optional[float], low: Optional[float], high: Optional[float],
    finding: bool = False,
) -> Estimate:
    """What was measured, of stored fields: an interval counts where both of its ends are there."""
    if low is None or high is None or low <= 0 or high <= 0:
        return Estimate(verdict, finding=finding, ratio=ratio)
    return Estimate(verdict, low, high, finding, ratio)
