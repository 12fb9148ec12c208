"""What a rollout has made clients wait longer, over all steps, by what was measured of each."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Iterable

from .judge import Judgement

# So many standard errors above nothing it is more than noise, at any of a rollout's looks.
BEYOND_NOISE = 3.5


@dataclass(frozen=True)
class Harm:
    """Seconds of extra wait over all clients: after less before, times commits and reads.

    Before is what the unchanged OSDs say it would be now.  What was gained counts against it.
    `squares` is the square of its standard error.
    """

    extra_s: float = 0.0
    squares: float = 0.0

    def beside(self, judged: Iterable[Judgement]) -> Harm:
        """With one more stretch of blocks, judged by writes and perhaps by reads."""
        found = self
        for item in judged:
            found = replace(
                found, extra_s=found.extra_s + item.extra_s,
                squares=found.squares + item.extra_error_s**2,
            )
        return found

    @property
    def spent_s(self) -> float:
        """What is spent of a budget: nothing below noise, and never less than nothing."""
        return self.extra_s if self.extra_s > BEYOND_NOISE * math.sqrt(self.squares) else 0.0

    def too_large(self, now: Harm, limit_s: float, grows: float) -> str:
        """Why a step that brought it to `now` is the last one of a budget; "" where it is not.

        The next one is of `grows` times as many drives, and may cost as much for each.
        """
        next_s = grows * max(0.0, now.extra_s - self.extra_s)
        if not limit_s or not now.spent_s or now.spent_s + next_s <= limit_s:
            return ""
        return (
            f"clients have waited {now.spent_s:.0f} s longer, and {limit_s:.0f} s are allowed "
            "(rollout_harm_max_s): resume to allow as much again, or abort to take this step back"
        )
