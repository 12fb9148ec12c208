"""What people do today, on the same simulated drives at depth 1.

The recipe of Ceph's documentation: fio for 300 s in each mode, then look which is
faster.  And the textbook: a fixed number of samples in each mode and a Mann-Whitney test
at 1%.  Neither takes turns between the modes, and neither knows what is material but
through the admin, who is taken to ignore what is under 10%.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any, Dict, List, Tuple

from wcache.core.loads import MATERIAL_RATIO
from wcache.core.model import Arm, LoadPoint, Verdict
from wcache_sim.drive_schema import DriveFile, DriveModelSpec

from .loop import PLANS, Bench, Plan
from .score import Score, Share, score

RECIPE_S = 300.0
RECIPE_TRIALS = 4
# A run is cut here to bound the time of the benchmark; it is charged in full.
RECIPE_SAMPLES_MAX = 10_000
FIXED_SAMPLES = 128
P_LIMIT = 0.01


@dataclass(frozen=True)
class Tally:
    """Scores of one method on one drive, and what one decision costs."""

    right: int = 0
    wrong: int = 0
    undecided: int = 0
    seconds: float = 0.0
    samples: float = 0.0

    @property
    def trials(self) -> int:
        """How many decisions were scored."""
        return self.right + self.wrong + self.undecided

    def share(self, wanted: Score) -> Share:
        """Share of decisions with a score."""
        found = {
            Score.RIGHT: self.right, Score.WRONG: self.wrong, Score.UNDECIDED: self.undecided,
        }
        return Share.of(found[wanted], self.trials)

    def plus(self, other: Tally) -> Tally:
        """Both together; a cost is the mean over all decisions."""
        trials = max(1, self.trials + other.trials)
        return Tally(
            self.right + other.right, self.wrong + other.wrong, self.undecided + other.undecided,
            (self.seconds * self.trials + other.seconds * other.trials) / trials,
            (self.samples * self.trials + other.samples * other.trials) / trials,
        )

    def as_json(self) -> Dict[str, Any]:
        """Shares with their intervals, and the costs."""
        return {
            **{wanted.value: asdict(self.share(wanted)) for wanted in Score},
            "seconds": self.seconds, "samples": self.samples,
        }


def docs_recipe(drives: DriveFile, spec: DriveModelSpec, seed: int) -> Tuple[Score, float]:
    """300 s in write back, then 300 s in write through; the faster mean wins.

    Also returns the samples that 600 s hold.
    """
    plan = replace(PLANS[LoadPoint.OSD_BENCH_DEPTH1], samples=RECIPE_SAMPLES_MAX,
                   period_s=RECIPE_S, settle_s=0.0)
    bench, back, through = _two_runs(drives, spec, seed, plan)
    ratio = (sum(back) / len(back)) / (sum(through) / len(through))
    verdict = Verdict.NO_DIFFERENCE
    if not 1 / MATERIAL_RATIO < ratio < MATERIAL_RATIO:
        verdict = Verdict.B if ratio > 1 else Verdict.A
    samples = (len(back) + len(through)) * 2 * RECIPE_S / (bench.now_ns / 1e9)
    return score(verdict, bench.truth(LoadPoint.OSD_BENCH_DEPTH1)), samples


def mann_whitney(drives: DriveFile, spec: DriveModelSpec, seed: int) -> Tuple[Score, float]:
    """128 samples in each mode and a test of their ranks; also returns the seconds."""
    from scipy.stats import mannwhitneyu

    plan = replace(PLANS[LoadPoint.OSD_BENCH_DEPTH1], samples=FIXED_SAMPLES)
    bench, back, through = _two_runs(drives, spec, seed, plan)
    verdict = Verdict.NO_DIFFERENCE
    if mannwhitneyu(back, through).pvalue < P_LIMIT:
        slower = sum(map(math.log, back)) / len(back) > sum(map(math.log, through)) / len(through)
        verdict = Verdict.B if slower else Verdict.A
    return score(verdict, bench.truth(LoadPoint.OSD_BENCH_DEPTH1)), bench.now_ns / 1e9


def _two_runs(
    drives: DriveFile, spec: DriveModelSpec, seed: int, plan: Plan
) -> Tuple[Bench, List[int], List[int]]:
    bench = Bench(drives, spec, seed)
    back = bench.period(Arm.A, LoadPoint.OSD_BENCH_DEPTH1, plan)
    through = bench.period(Arm.B, LoadPoint.OSD_BENCH_DEPTH1, plan)
    return bench, list(back.samples_ns), list(through.samples_ns)


def tally_recipe(
    drives: DriveFile, spec: DriveModelSpec, seeds: List[int]
) -> Tally:
    """The recipe's scores over seeds; it costs 600 s of drive time whatever it finds."""
    found = [docs_recipe(drives, spec, seed) for seed in seeds]
    return _tally([item[0] for item in found], 2 * RECIPE_S,
                  sum(item[1] for item in found) / len(found))


def tally_mann_whitney(
    drives: DriveFile, spec: DriveModelSpec, seeds: List[int]
) -> Tally:
    """The test's scores over seeds."""
    found = [mann_whitney(drives, spec, seed) for seed in seeds]
    return _tally([item[0] for item in found], sum(item[1] for item in found) / len(found),
                  2.0 * FIXED_SAMPLES)


def _tally(scores: List[Score], seconds: float, samples: float) -> Tally:
    return Tally(
        scores.count(Score.RIGHT), scores.count(Score.WRONG), scores.count(Score.UNDECIDED),
        seconds, samples,
    )
