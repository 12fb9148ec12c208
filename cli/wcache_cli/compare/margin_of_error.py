"""How far a log ratio of two quantiles may lie from its estimate, side by side.

Each mode's quantile has an interval of its own, which need not be symmetric: where half of
the samples take 1 ms and half 10 ms, the median may be either.  The interval of the
difference is put together of the four margins (Zou and Donner, Statistics in Medicine 2008):
down by the margin of write back below and of write through above, up by the other two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Optional, Sequence, Tuple

from wcache.analysis.summary import student
from wcache.core.verdict.sequential import DECIDE_ALPHA, SAME_ALPHA, SD_FLOOR, Interval, moments

REPLICATES_MIN = 4  # files per mode; from there on the file is the unit
FILES_NEEDED_MAX = 1000


@dataclass(frozen=True)
class MarginOfError:
    """What each mode adds to an interval, downwards and upwards: (write back, write through)."""

    down: Tuple[float, float]
    up: Tuple[float, float]


@dataclass(frozen=True)
class FileSpread:
    """The log ratio out of one quantile per file, with the spread of files within a mode.

    The spread is taken to be the same in both modes, so that a mode of one file can borrow
    it: two-sample t with the pooled variance (Student, Biometrika 1908).
    """

    mean: float
    sd: float
    n: Tuple[int, int]

    def half(self, alpha: float, n: Optional[Tuple[int, int]] = None) -> float:
        """Half the width of the interval at level 1 - alpha, with these files or with `n`."""
        back, through = n or self.n
        error = max(self.sd, SD_FLOOR) * math.sqrt(1 / back + 1 / through)
        return student(back + through - 2, alpha) * error

    def files_needed(self, room: float, alpha: float) -> Optional[int]:
        """The files in each mode whose interval would reach `room` at this spread, or None."""
        for n in range(REPLICATES_MIN, FILES_NEEDED_MAX + 1):
            if self.half(alpha, (n, n)) < room:
                return n
        return None


def file_spread(logs: Sequence[Sequence[float]]) -> Optional[FileSpread]:
    """Of one log quantile per file in write back, and in write through.

    None where no mode has two files.
    """
    back, through = (moments(side) for side in logs)
    degrees = back.n + through.n - 2
    if degrees < 1:
        return None
    squares = (back.n - 1) * back.sd**2 + (through.n - 1) * through.sd**2
    return FileSpread(back.mean - through.mean, math.sqrt(squares / degrees), (back.n, through.n))


@dataclass(frozen=True)
class LogRatio:
    """The log ratio at one quantile, write back over write through.

    `by_files` is what the files' own spread says, where there are two in a mode or more but too
    few to be the unit: no interval is narrower at either end.
    `far` and `near` reach as far as the 99% and the 95% interval, by chance.  `step` is what
    the steps of the clock leave open on top, `grain` what the buckets of histograms do, either
    way; no number of samples makes those smaller.
    """

    mean: float
    far: MarginOfError
    near: MarginOfError
    step: MarginOfError = MarginOfError((0.0, 0.0), (0.0, 0.0))
    grain: float = 0.0
    by_files: Optional[FileSpread] = None

    def interval(self, alpha: float, widen: float = 0.0) -> Interval:
        """The interval at level 1 - alpha (.99 or .95), `widen` longer at both ends."""
        chance = self.far if alpha == DECIDE_ALPHA else self.near
        down, up = math.hypot(*chance.down) + widen, math.hypot(*chance.up) + widen
        if self.by_files is not None:
            half, aside = self.by_files.half(alpha), self.by_files.mean - self.mean
            down, up = max(down, half - aside), max(up, half + aside)
        down += sum(self.step.down) + self.grain
        up += sum(self.step.up) + self.grain
        return Interval(self.mean, self.mean - down, self.mean + up)


def clock_margin(back_us: float, through_us: float, steps_us: Tuple[float, float]) -> MarginOfError:
    """What the clocks' steps leave open at two quantiles, as logs.

    Who knows whether a clock rounds or cuts off?  From half a step below to a whole one
    above the value covers both.
    """
    below = [
        -math.log1p(-step / 2 / us) for us, step in zip((back_us, through_us), steps_us)
    ]
    above = [math.log1p(step / us) for us, step in zip((back_us, through_us), steps_us)]
    return MarginOfError((below[0], above[1]), (above[0], below[1]))


def times_needed(found: LogRatio, margin: float, widen: float) -> Tuple[float, float]:
    """How many times the samples of each mode would decide at this spread; 1 is enough.

    The mode that adds little to the interval keeps what it has where that is possible.
    Infinite where no number would decide: the ratio is too close to the border.
    """
    outside = abs(found.mean) > margin
    chance = found.far if outside else found.near
    # outside, the near end of the interval has to clear the border; inside, the far end
    downwards = (found.mean > 0) is outside
    parts = chance.down if downwards else chance.up
    room = _room(found, margin, downwards) - widen
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


def files_needed(found: LogRatio, margin: float, widen: float) -> Tuple[bool, Optional[int]]:
    """Whether it is the files' own spread that leaves it open, and how many would do.

    They are files per mode, None where no number would: the ratio is too close to the border.
    """
    spread = found.by_files
    if spread is None:
        return False, None
    outside = abs(found.mean) > margin
    alpha = DECIDE_ALPHA if outside else SAME_ALPHA
    downwards = (found.mean > 0) is outside
    chance = found.far if outside else found.near
    by_samples = math.hypot(*(chance.down if downwards else chance.up)) + widen
    aside = spread.mean - found.mean if downwards else found.mean - spread.mean
    if spread.half(alpha) - aside <= by_samples:
        return False, None
    return True, spread.files_needed(_room(found, margin, downwards) + aside, alpha)


def _room(found: LogRatio, margin: float, downwards: bool) -> float:
    """How far the interval may reach by chance before it touches the border that counts."""
    step = sum(found.step.down if downwards else found.step.up)
    return abs(abs(found.mean) - margin) - found.grain - step
