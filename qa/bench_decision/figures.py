"""The figures the decisions are held to, over all cells of a benchmark."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Dict, List, Optional, Sequence

from wcache.core.loads import MATERIAL_RATIO
from wcache.core.model import Verdict

from .cells import RIGHT_MIN, Cell
from .score import (
    CLEAR_RATIO,
    SAME_RATIO,
    Score,
    Share,
    backwards,
    count,
    has_better,
    score,
)

CLEAR_SECONDS, CLEAR_SAMPLES, CLEAR_SHARE = 15.0, 256, 0.99
QUARTER_SD, QUARTER_SHARE = 0.2, 0.95
# What is right at ten times says nothing of a quarter, so the border has a figure of its own.
BAND_RATIO_MAX = 1.35
WRONG_SHARE_MAX = 12 / 2000
OVER_MINIMUM_MAX = 3.0
OVER_MINIMUM_SECONDS_MAX = 4.0
# What is undecided in more of its trials would be charged its whole budget again and again.
COSTED = f"cells right in {RIGHT_MIN:.0%} or more"


@dataclass(frozen=True)
class Figure:
    """One figure: what must hold, what was found, on how much."""

    name: str
    found: Optional[float]  # None: no cell of the benchmark shows it
    limit: Optional[float]  # None: told, and not held to anything
    at_most: bool
    experiments: int
    share: Optional[Share] = None  # with its interval, where it is one

    @property
    def held(self) -> Optional[bool]:
        """Whether it holds; None where nothing shows it or nothing is asked."""
        return None if self.found is None else self._meets(self.found)

    @property
    def shown(self) -> Optional[bool]:
        """Whether it holds at the worse end of its interval, None where it has none."""
        if self.share is None or self.found is None:
            return None
        return self._meets(self.share.high if self.at_most else self.share.low)

    def _meets(self, value: float) -> Optional[bool]:
        if self.limit is None:
            return None
        return value <= self.limit if self.at_most else value >= self.limit

    def as_json(self) -> Dict[str, Any]:
        """The figure, and whether it holds."""
        return {**asdict(self), "held": self.held, "shown": self.shown}


def figures(cells: Sequence[Cell]) -> List[Figure]:
    """All figures, in the order in which they are printed."""
    same = [item for cell in cells if cell.size <= SAME_RATIO for item in cell.measured]
    wrong = sum(
        score(item.verdict, item.truth) is Score.WRONG and item.verdict.arm is not None
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
    band = [
        item for cell in cells
        if CLEAR_RATIO <= cell.size <= BAND_RATIO_MAX and cell.pair_sd <= QUARTER_SD
        and not cell.ignores_flushes for item in cell.measured
    ]
    differing = [item for cell in cells for item in cell.measured if has_better(item.truth)]
    reversed_count = sum(backwards(item.verdict, item.truth) for item in differing)
    lying = [item for cell in cells if cell.ignores_flushes for item in cell.measured]
    trusted = sum(item.verdict is Verdict.A for item in lying)
    costs = [cell for cell in cells if cell.over_minimum is not None]
    trials = sum(len(cell.measured) for cell in costs)
    least = sum(cell.least_pairs for cell in costs)
    least_seconds = sum(cell.least_pairs * cell.mean("pair_seconds") for cell in costs)
    over = [cell.over_minimum or 0.0 for cell in costs]
    return [
        _share(
            "wrong \"differs\" where the modes do not differ, share",
            Share.of(wrong, len(same)), len(same), WRONG_SHARE_MAX, at_most=True,
        ),
        _share(
            f"clear cases right within {CLEAR_SECONDS:.0f} s and {CLEAR_SAMPLES} samples, share",
            Share.of(count(cheap, Score.RIGHT), len(clear)), len(clear), CLEAR_SHARE,
            at_most=False,
        ),
        _share(
            f"right from a ratio of {CLEAR_RATIO} where the pair sd is <= {QUARTER_SD}, share",
            Share.of(count(quarter, Score.RIGHT), len(quarter)), len(quarter), QUARTER_SHARE,
            at_most=False,
        ),
        _share(
            f"right from {CLEAR_RATIO} to {BAND_RATIO_MAX} where the pair sd is <= {QUARTER_SD}, "
            "share",
            Share.of(count(band, Score.RIGHT), len(band)), len(band), QUARTER_SHARE,
            at_most=False,
        ),
        _share(
            f"for the slower mode where a ratio is beyond {MATERIAL_RATIO}, share",
            Share.of(reversed_count, len(differing)), len(differing), WRONG_SHARE_MAX,
            at_most=True,
        ),
        # not a share: none may be, however many were tried
        Figure(
            "verdicts `write back` on drives that ignore flushes",
            float(trusted) if lying else None, 0.0, True, len(lying),
        ),
        Figure(
            f"samples over the minimum W, {COSTED}",
            sum(cell.used_pairs for cell in costs) / least if least else None,
            OVER_MINIMUM_MAX, True, trials,
        ),
        Figure(
            f"samples over the minimum W, {COSTED}, median", median(over) if over else None, None,
            True, trials,
        ),
        Figure(
            f"samples over the minimum W, {COSTED}, worst", max(over, default=None), None, True,
            trials,
        ),
        Figure(
            f"seconds over those of the minimum W, {COSTED}",
            sum(cell.used_seconds for cell in costs) / least_seconds if costs else None,
            OVER_MINIMUM_SECONDS_MAX, True, trials,
        ),
    ]


def _share(name: str, share: Share, n: int, limit: float, *, at_most: bool) -> Figure:
    return Figure(name, share.share if n else None, limit, at_most, n, share if n else None)
