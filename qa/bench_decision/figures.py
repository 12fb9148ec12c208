"""The figures the decisions are held to, over all cells of a benchmark."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import List, Optional, Sequence

from .cells import Cell
from .score import CLEAR_RATIO, SAME_RATIO, Score, count, score

CLEAR_SECONDS, CLEAR_SAMPLES, CLEAR_SHARE = 15.0, 256, 0.99
QUARTER_SD, QUARTER_SHARE = 0.2, 0.95
WRONG_SHARE_MAX = 12 / 2000
OVER_MINIMUM_MAX = 3.0
OVER_MINIMUM_SECONDS_MAX = 4.0


@dataclass(frozen=True)
class Figure:
    """One figure: what must hold, what was found, on how much."""

    name: str
    found: Optional[float]  # None: no cell of the benchmark shows it
    limit: Optional[float]  # None: told, and not held to anything
    at_most: bool
    experiments: int

    @property
    def held(self) -> Optional[bool]:
        """Whether it holds; None where nothing shows it or nothing is asked."""
        if self.found is None or self.limit is None:
            return None
        return self.found <= self.limit if self.at_most else self.found >= self.limit


def figures(cells: Sequence[Cell]) -> List[Figure]:
    """All figures, in the order in which they are printed."""
    same = [item for cell in cells if cell.size <= SAME_RATIO for item in cell.measured]
    wrong = sum(
        score(item.verdict, item.truth) is Score.WRONG and item.verdict.mode is not None
        for item in same
    )
    clear = [item for cell in cells if cell.is_clear for item in cell.measured]
    cheap = [
        item for item in clear
        if item.seconds <= CLEAR_SECONDS and item.samples <= CLEAR_SAMPLES
    ]
    quarter = [
        item for cell in cells
        if cell.size >= CLEAR_RATIO and cell.pair_sd <= QUARTER_SD for item in cell.measured
    ]
    costs = [cell for cell in cells if cell.over_minimum is not None]
    trials = sum(len(cell.measured) for cell in costs)
    least = sum(cell.least_pairs for cell in costs)
    least_seconds = sum(cell.least_pairs * cell.mean("pair_seconds") for cell in costs)
    over = [cell.over_minimum or 0.0 for cell in costs]
    return [
        Figure(
            "wrong \"differs\" where the modes do not differ, share",
            wrong / len(same) if same else None, WRONG_SHARE_MAX, True, len(same),
        ),
        Figure(
            f"clear cases right within {CLEAR_SECONDS:.0f} s and {CLEAR_SAMPLES} samples, share",
            count(cheap, Score.RIGHT) / len(clear) if clear else None, CLEAR_SHARE, False,
            len(clear),
        ),
        Figure(
            f"right from a ratio of {CLEAR_RATIO} where the pair sd is <= {QUARTER_SD}, share",
            count(quarter, Score.RIGHT) / len(quarter) if quarter else None, QUARTER_SHARE,
            False, len(quarter),
        ),
        Figure(
            "samples over the minimum W, all cells",
            sum(cell.used_pairs for cell in costs) / least if least else None,
            OVER_MINIMUM_MAX, True, trials,
        ),
        Figure(
            "samples over the minimum W, median cell", median(over) if over else None, None,
            True, trials,
        ),
        Figure(
            "samples over the minimum W, worst cell", max(over, default=None), None, True, trials,
        ),
        Figure(
            "seconds over those of the minimum W, all cells",
            sum(cell.used_seconds for cell in costs) / least_seconds if costs else None,
            OVER_MINIMUM_SECONDS_MAX, True, trials,
        ),
    ]
