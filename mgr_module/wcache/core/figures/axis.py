"""An axis of a plot: where values lie on it, and its ticks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Callable, Tuple

Ticks = Tuple[Tuple[float, str], ...]
# Multiples of powers of ten, and of every how many powers: from many ticks to few.
_STEPS = (
    (tuple(1 + n / 4 for n in range(36)), 1), ((1.0, 1.5, 2.0, 3.0, 5.0, 7.0), 1),
    ((1.0, 2.0, 5.0), 1), ((1.0,), 1), ((1.0,), 2), ((1.0,), 3),
)


@dataclass(frozen=True)
class Axis:
    """Maps values from `low` to `high` onto pixels; those beyond lie on its ends.

    On a logarithmic axis the same distance is the same factor.
    """

    low: float
    high: float
    start_px: float
    end_px: float
    is_log: bool = False

    def at(self, value: float) -> float:
        """Where a value lies, in pixels."""
        if self.is_log:
            part = math.log(max(value, 1e-9) / self.low) / math.log(self.high / self.low)
        else:
            part = (value - self.low) / (self.high - self.low)
        return self.start_px + min(1.0, max(0.0, part)) * (self.end_px - self.start_px)

    def ticks(self, apart_px: float, label: Callable[[float], str]) -> Ticks:
        """Round values of a logarithmic axis, as many as stand apart; its middle where none do."""
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        for steps, every in _STEPS:
            powers = [10.0**power for power in range(first, last + 1) if power % every == 0]
            values = [s * p for p in powers for s in steps if self.low <= s * p <= self.high]
            places = [self.at(value) for value in values]
            if values and all(abs(b - a) >= apart_px for a, b in zip(places, places[1:])):
                break
        else:
            values = [math.sqrt(self.low * self.high)]
        return tuple((round(self.at(value), 1), label(value)) for value in values)
