"""How far a log ratio of two quantiles may lie from its estimate, side by side.

Each mode's quantile has an interval of its own, which need not be symmetric: where half of
the samples take 1 ms and half 10 ms, the median may be either.  The interval of the
difference is put together of the four reaches (Zou and Donner, Statistics in Medicine 2008):
down by the reach of write back below and of write through above, up by the other two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Tuple

from .sequential import DECIDE_ALPHA, Interval


@dataclass(frozen=True)
class Reach:
    """What each mode adds to an interval, downwards and upwards: (write back, write through)."""

    down: Tuple[float, float]
    up: Tuple[float, float]


@dataclass(frozen=True)
class Estimate:
    """The log ratio at one quantile, write back over write through.

    `far` and `near` reach as far as the 99% and the 95% interval, by chance.  `step` is what
    the steps of the clock leave open on top, `grain` what the buckets of histograms do, either
    way; no number of samples makes those smaller.
    """

    mean: float
    far: Reach
    near: Reach
    step: Reach = Reach((0.0, 0.0), (0.0, 0.0))
    grain: float = 0.0

    def interval(self, alpha: float, widen: float = 0.0) -> Interval:
        """The interval at level 1 - alpha (.99 or .95), `widen` longer at both ends."""
        chance = self.far if alpha == DECIDE_ALPHA else self.near
        down = math.hypot(*chance.down) + sum(self.step.down) + self.grain + widen
        up = math.hypot(*chance.up) + sum(self.step.up) + self.grain + widen
        return Interval(self.mean, self.mean - down, self.mean + up)


def clock_reach(back_us: float, through_us: float, steps_us: Tuple[float, float]) -> Reach:
    """What the clocks' steps leave open at two quantiles, as logs.

    Who knows whether a clock rounds or cuts off?  From half a step below to a whole one
    above the value covers both.
    """
    below = [
        -math.log1p(-step / 2 / us) for us, step in zip((back_us, through_us), steps_us)
    ]
    above = [math.log1p(step / us) for us, step in zip((back_us, through_us), steps_us)]
    return Reach((below[0], above[1]), (above[0], below[1]))


def times_needed(found: Estimate, margin: float, widen: float) -> Tuple[float, float]:
    """How many times the samples of each mode would decide at this spread; 1 is enough.

    The mode that adds little to the interval keeps what it has where that is possible.
    Infinite where no number would decide: the ratio is too close to the border.
    """
    outside = abs(found.mean) > margin
    chance = found.far if outside else found.near
    # outside, the near end of the interval has to clear the border; inside, the far end
    downwards = (found.mean > 0) is outside
    parts = chance.down if downwards else chance.up
    room = abs(abs(found.mean) - margin) - found.grain - widen
    room -= sum(found.step.down if downwards else found.step.up)
    if room <= 0 and math.isfinite(math.hypot(*parts)):
        return math.inf, math.inf
    small, large = sorted(part**2 for part in parts)
    if not math.isfinite(large):  # too few to tell
        return 1.0, 1.0
    if 2 * small <= room**2:
        times = max(1.0, large / (room**2 - small))
        return (times, 1.0) if parts[0] ** 2 == large else (1.0, times)
    back, through = (max(1.0, 2 * part**2 / room**2) for part in parts)
    return back, through
