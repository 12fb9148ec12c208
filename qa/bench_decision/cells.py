"""Many experiments of one drive at one load point, summed up."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Dict, Optional, Sequence, Tuple

from wcache.analysis.decision import Options
from wcache.core.model import LoadPoint

from .baseline import Tally
from .loop import PLANS, Outcome
from .minimum import least_pairs
from .score import Score, count, wilson

MARGIN = Options().margin
CLEAR_SD = 2.5
CLEAR_PERIOD_S = 0.7
RIGHT_MIN = 0.95  # of a cell whose cost is held against the minimum


@dataclass(frozen=True)
class Cell:
    """One drive at one load point: all its experiments, and what they are held against."""

    drive: str
    load_point: LoadPoint
    outcomes: Tuple[Outcome, ...]
    stated_verdict: str
    recipe: Optional[Tally] = None
    rank_test: Optional[Tally] = None

    @property
    def measured(self) -> Tuple[Outcome, ...]:
        """Experiments that were not refused."""
        return tuple(item for item in self.outcomes if not item.refused)

    def share(self, wanted: Score) -> float:
        """Share of outcomes with a score."""
        return count(self.outcomes, wanted) / len(self.outcomes)

    def mean(self, field: str) -> float:
        """Mean of a numeric field over measured outcomes; 0 where there are none."""
        return _mean([float(getattr(item, field)) for item in self.measured])

    @property
    def ratio(self) -> float:
        """The true ratio, over all drives drawn (geometric mean)."""
        return math.exp(_mean([math.log(item.truth.ratio) for item in self.outcomes]))

    @property
    def size(self) -> float:
        """The true ratio or its inverse, whichever is above 1."""
        return max(self.ratio, 1 / self.ratio)

    @property
    def pair_sd(self) -> float:
        """Root mean square of the pair sd over experiments."""
        return math.sqrt(_mean([item.pair_sd**2 for item in self.measured]))

    @property
    def period_s(self) -> float:
        """Mean seconds of a period with its overhead."""
        pairs = sum(item.pairs for item in self.measured)
        return sum(item.seconds for item in self.measured) / (2 * pairs) if pairs else 0.0

    @property
    def is_clear(self) -> bool:
        """Whether this is a clear case at depth 1: far from the border, short periods."""
        gap = math.log(self.size) - MARGIN
        return (
            self.load_point is LoadPoint.OSD_BENCH_DEPTH1
            and bool(self.measured)
            and gap >= CLEAR_SD * self.pair_sd
            and self.period_s <= CLEAR_PERIOD_S
        )

    @property
    def used_pairs(self) -> float:
        """Mean pairs used; an undecided experiment is charged the whole budget."""
        budget = PLANS[self.load_point].pairs_max
        return _mean([
            budget if count([item], Score.UNDECIDED) else item.pairs for item in self.measured
        ])

    @property
    def least_pairs(self) -> float:
        """W of this cell; v by its formula, as observed where counters decide."""
        variance = self.mean("least_variance") or self.pair_sd**2
        return least_pairs(self.ratio, variance, MARGIN)

    @property
    def over_minimum(self) -> Optional[float]:
        """Pairs used, and so samples and seconds, over W.

        None where fewer than 95% are right, or where W is past the budget.
        """
        if not self.measured or self.share(Score.RIGHT) < RIGHT_MIN:
            return None
        least = self.least_pairs
        return self.used_pairs / least if least <= PLANS[self.load_point].pairs_max else None

    def as_json(self) -> Dict[str, Any]:
        """The cell's figures."""
        trials = len(self.outcomes)
        figures: Dict[str, Any] = {
            "drive": self.drive,
            "load_point": self.load_point.value,
            "stated_verdict": self.stated_verdict,
            "true_ratio": self.ratio,
            "trials": trials,
        }
        for wanted in Score:
            found = count(self.outcomes, wanted)
            low, high = wilson(found, trials)
            figures[wanted.value] = {
                "count": found, "share": found / trials, "low": low, "high": high,
            }
        for field in ("pairs", "samples", "seconds", "bytes_written"):
            figures[field] = self.mean(field)
        return {
            **figures,
            "refused": next((item.refused for item in self.outcomes if item.refused), ""),
            "pair_sd": self.pair_sd,
            "clear_case": self.is_clear,
            "over_minimum": self.over_minimum,
            "docs_recipe": asdict(self.recipe) if self.recipe else None,
            "mann_whitney": asdict(self.rank_test) if self.rank_test else None,
        }


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
