"""After how many pairs an experiment is expected to end: most end long before their maximum."""

from __future__ import annotations

from statistics import median
from typing import Callable, Iterable, List, Tuple

from ..model import DriveModel, LoadPoint
from ..record import ExperimentSetup
from .pairs import FIRST_LOOK
from .settling_time.checks import pairs_limit

# Drive model, load point and pairs of an experiment that has ended.
Ended = Tuple[DriveModel, LoadPoint, int]
ExpectedPairs = Callable[[ExperimentSetup], int]

# Where nothing has been measured yet: a clear case is decided at one of the first looks.
PAIRS_EXPECTED = 2 * FIRST_LOOK


def expected_pairs(ended: Iterable[Ended]) -> ExpectedPairs:
    """What drives of the same model took at the same load, else what others took at it."""
    known = [row for row in ended if row[2] > 0]

    def pairs(setup: ExperimentSetup) -> int:
        alike = [row for row in known if row[1] is setup.load_point]
        same = [row for row in alike if row[0] == setup.drive_model]
        counts: List[int] = [row[2] for row in same or alike]
        return min(pairs_limit(setup), round(median(counts)) if counts else PAIRS_EXPECTED)

    return pairs


def periods_expected(expected: ExpectedPairs, setup: ExperimentSetup, done: int) -> int:
    """Periods at its end; one that has gone on for longer is expected to end with the next pair."""
    return min(2 * pairs_limit(setup), max(2 * expected(setup), done + 2))
