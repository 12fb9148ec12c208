"""Many experiments of one drive at one load point, summed up."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Dict, Optional, Sequence, Tuple

from wcache.analysis.decision import Materiality
from wcache.core.model import LoadPoint, Verdict

from .baseline import Tally
from .loop import PLANS, Outcome
from .minimum import least_pairs
from .score import Score, Share, count

MARGIN = Materiality().margin
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
    flushes_nothing: bool = False  # the drive ignores flushes and no capacitor makes up for it

    @property
    def ignores_flushes(self) -> bool:
        """Whether this drive, or one beside it in its OSD, must never get `write back`."""
        return self.flushes_nothing or any(
            item.truth.verdict is Verdict.INSUFFICIENT for item in self.outcomes
        )

    @property
    def measured(self) -> Tuple[Outcome, ...]:
        """Experiments that were not refused."""
        return tuple(item for item in self.outcomes if not item.refused)

    def share(self, wanted: Score) -> Share:
        """Share of outcomes with a score."""
        return Share.of(count(self.outcomes, wanted), len(self.outcomes))

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
        return self.mean("pair_seconds") / 2

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
        """Mean pairs used; giving up is charged the whole budget."""
        budget = PLANS[self.load_point].pairs_max
        return _mean([budget if gave_up(item) else item.pairs for item in self.measured])

    @property
    def least_pairs(self) -> float:
        """W of this cell, with v by its formula or as observed, whichever is less.

        Observed it is where counters decide, where stalls widen the samples and not their
        median, and where the noise between periods is only in a part of the time.
        """
        variance = min(self.mean("least_variance") or math.inf, self.pair_sd**2)
        return least_pairs(self.ratio, variance, MARGIN)

    @property
    def over_minimum(self) -> Optional[float]:
        """Pairs used, and so samples, over W.

        None where fewer than 95% are right, or where W is past the budget.
        """
        if not self.measured or self.share(Score.RIGHT).share < RIGHT_MIN:
            return None
        least = self.least_pairs
        return self.used_pairs / least if least <= PLANS[self.load_point].pairs_max else None

    @property
    def used_seconds(self) -> float:
        """Mean seconds used, with all that is beside the pairs; charged as above."""
        plan = PLANS[self.load_point]
        return _mean([
            min(plan.seconds_max, plan.pairs_max * item.pair_seconds)
            if gave_up(item) else item.seconds
            for item in self.measured
        ])

    @property
    def over_minimum_seconds(self) -> Optional[float]:
        """Seconds used over those of W pairs as long as this drive's; None as above."""
        if self.over_minimum is None:
            return None
        return self.used_seconds / (self.least_pairs * self.mean("pair_seconds"))

    def as_json(self) -> Dict[str, Any]:
        """The cell's figures."""
        figures: Dict[str, Any] = {
            "drive": self.drive,
            "load_point": self.load_point.value,
            "stated_verdict": self.stated_verdict,
            "true_ratio": self.ratio,
            "trials": len(self.outcomes),
        }
        for wanted in Score:
            figures[wanted.value] = asdict(self.share(wanted))
        for field in ("pairs", "samples", "seconds", "bytes_written"):
            figures[field] = self.mean(field)
        return {
            **figures,
            "refused": next((item.refused for item in self.outcomes if item.refused), ""),
            "pair_sd": self.pair_sd,
            "clear_case": self.is_clear,
            "ignores_flushes": self.ignores_flushes,
            "over_minimum": self.over_minimum,
            "over_minimum_seconds": self.over_minimum_seconds,
            "docs_recipe": self.recipe.as_json() if self.recipe else None,
            "mann_whitney": self.rank_test.as_json() if self.rank_test else None,
        }


def gave_up(outcome: Outcome) -> bool:
    """Whether there is no verdict, on a drive that does not ask for holding back."""
    return (
        not outcome.verdict.decided and outcome.truth.verdict is not Verdict.INSUFFICIENT
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
