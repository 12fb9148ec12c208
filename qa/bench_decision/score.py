"""Right, wrong or undecided: a verdict against the truth of a simulated drive.

With r the ratio or its inverse, whichever is above 1:

    r <= 1.05        right is "no material difference", wrong is "differs"
    1.05 < r <= 1.10 "differs" is wrong, anything else is fine
    1.10 < r < 1.25  "differs" the right way round or undecided is fine, the rest is wrong
    r >= 1.25        only the right direction is right, undecided is undecided

Where flushes are ignored, write back is wrong and holding back is right.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Sequence, Tuple

from wcache.core.loads import MATERIAL_RATIO
from wcache.core.model import Verdict

from .loop import Outcome
from .truth import LoadTruth

SAME_RATIO = 1.05
CLEAR_RATIO = 1.25


class Score(str, Enum):
    """How a verdict compares with the truth."""

    RIGHT = "right"
    WRONG = "wrong"
    UNDECIDED = "undecided"


def score(verdict: Verdict, truth: LoadTruth) -> Score:
    """The score of one verdict; see above."""
    if truth.verdict is Verdict.INSUFFICIENT:
        return Score.RIGHT if verdict is Verdict.INSUFFICIENT else Score.WRONG
    size = max(truth.ratio, 1 / truth.ratio)
    if verdict.arm is not None:
        better = Verdict.B if truth.ratio > 1 else Verdict.A
        return Score.RIGHT if size > MATERIAL_RATIO and verdict is better else Score.WRONG
    if verdict is Verdict.NO_DIFFERENCE:
        return Score.RIGHT if size <= MATERIAL_RATIO else Score.WRONG
    return Score.RIGHT if SAME_RATIO < size < CLEAR_RATIO else Score.UNDECIDED


def has_better(truth: LoadTruth) -> bool:
    """Whether one mode is better by more than the margin, for a reason that counts."""
    size = max(truth.ratio, 1 / truth.ratio)
    return truth.verdict is not Verdict.INSUFFICIENT and size > MATERIAL_RATIO


def backwards(verdict: Verdict, truth: LoadTruth) -> bool:
    """Whether a verdict names the mode that is slower by more than the margin."""
    slower = Verdict.A if truth.ratio > 1 else Verdict.B
    return has_better(truth) and verdict is slower


@dataclass(frozen=True)
class Share:
    """A share, 0 to 1, with its 95% interval."""

    count: int
    share: float
    low: float
    high: float

    @staticmethod
    def of(count: int, n: int) -> Share:
        """`count` of `n`."""
        return Share(count, count / n if n else 0.0, *wilson(count, n))


def wilson(count: int, n: int, z: float = 1.959964) -> Tuple[float, float]:
    """95% interval of a share (Wilson, JASA 1927)."""
    if n == 0:
        return 0.0, 1.0
    share = count / n
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return max(0.0, middle - half), min(1.0, middle + half)


def count(outcomes: Sequence[Outcome], wanted: Score) -> int:
    """How many outcomes have a score; one that was rightly refused counts as right."""
    found = 0
    for outcome in outcomes:
        scored = Score.RIGHT if outcome.refused else score(outcome.verdict, outcome.truth)
        found += scored is wanted
    return found
