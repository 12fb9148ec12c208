"""What the steps of a rollout say together: pooled by kind of change, and one error rate for all.

A record of a kind stays small however many steps there are: sums of what each step has shown.
A step weighs by its OSDs and blocks, not by what its noise seems to be: a step that was quiet by
chance would count too much.  Steps that share blocks, since what was measured after one is
before the next ones, have errors of opposite signs: the controls' noise enters the one with a
plus and the others with minuses.  So the pooled error is too large rather than too small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from .numbers import Difference

# Which latency of clients something is about.
COMMITS, READS = "commit", "read"
# The first looks of a rollout get the most: as much as if there had been so many before them.
_LOOKS_AHEAD = 3


def share(look: int) -> float:
    """The part of an error rate that look number `look` of a rollout may spend, from 1 on.

    All parts add up to 1, however many looks there are, so nothing has to be known of how long
    a rollout is, and nothing of how its looks depend on each other (Bonferroni).
    """
    count = look + _LOOKS_AHEAD
    return (_LOOKS_AHEAD + 1.0) / (count * (count + 1.0))


@dataclass(frozen=True)
class Evidence:
    """All steps of one kind: sums over steps of w, w d, (w e)^2 and (w e)^4 / freedom.

    w is a step's weight, d its difference of log ratios, e its standard error.  `drives` are the
    changes that were judged and went on.
    """

    kind: str = ""
    of: str = COMMITS
    weight: float = 0.0
    moved: float = 0.0
    squares: float = 0.0
    fourths: float = 0.0
    steps: int = 0
    drives: int = 0

    def beside(self, seen: Difference, weight: float) -> Evidence:
        """With one more step."""
        square = (weight * seen.error) ** 2
        return replace(
            self, weight=self.weight + weight, moved=self.moved + weight * seen.mean,
            squares=self.squares + square, fourths=self.fourths + square**2 / seen.freedom,
            steps=self.steps + 1,
        )

    @property
    def difference(self) -> Difference:
        """The mean over steps; the freedom of its error is Satterthwaite's (1946)."""
        freedom = self.squares**2 / self.fourths if self.fourths > 0 else 1e6
        return Difference(
            self.moved / self.weight, math.sqrt(self.squares) / self.weight,
            max(1.5, freedom), 0.0,
        )
