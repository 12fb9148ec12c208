"""What a trial of a larger target has told: misses with it as a share, with its interval."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import Enum
from statistics import fmean, stdev
from typing import ClassVar, Iterable, List, Sequence, Tuple

from ...core.figures.student_t import t95
from ...core.loads import MATERIAL_RATIO

# Loads drift: what is older tells of another time.
AGE_S_MAX = 60 * 86400.0
# A target this far from the one that was tried is another one.
SAME_TARGET = 0.05
# Fewer misses per second in a period are noise.
MISSES_MIN = 1.0
# Fewer pairs give no interval that says anything.
PAIRS_MIN = 3
# One OSD does not say how much others of its class differ.
OSDS_MIN = 2
OSDS_MAX = 64


@dataclass(frozen=True)
class PeriodRates:
    """Onode misses and hits per second in a period, of each OSD in the order of the trial."""

    raised: bool
    seconds: float
    misses: Tuple[float, ...] = field(metadata={"max_items": OSDS_MAX})
    hits: Tuple[float, ...] = field(metadata={"max_items": OSDS_MAX})


class TrialVerdict(str, Enum):
    """What came out of a trial."""

    GAIN = "gain"
    NONE = "no material difference"
    VAGUE = "insufficient data"


@dataclass(frozen=True)
class TrialResult:
    """Misses with a larger target, as a share of those without it, with its 95% interval.

    `low_bytes` and `high_bytes` are the two targets; `verdict` is what came out.
    """

    trial_id: str
    device_class: str
    ended_at_s: float
    low_bytes: int
    high_bytes: int
    osd_ids: Tuple[int, ...] = ()
    misses_before: float = 0.0  # per second and OSD
    share: float = 1.0
    share_low: float = 0.0
    share_high: float = 1.0
    verdict: TrialVerdict = TrialVerdict.VAGUE

    def is_of(self, device_class: str, target_bytes: int, now_s: float) -> bool:
        """Whether it was of OSDs of this class with this target, and is not too old."""
        young = now_s - self.ended_at_s <= AGE_S_MAX
        return young and device_class == self.device_class and _near(target_bytes, self.low_bytes)


def judge(told: TrialResult, periods: Sequence[PeriodRates]) -> TrialResult:
    """Return the result with what its periods say.

    What is compared is the part of all lookups that missed, so that a load that all OSDs have in
    common divides out.  Two adjacent periods (a pair) give a logarithm for each OSD, raised over
    not; a drift that is even gives pairs in turn too much and too little.  What changes from
    period to period is common to the OSDs, and what an OSD is like is common to its pairs: so the
    error is that of the mean over pairs and that of the mean over OSDs, together.  With Student's
    t for each the interval covers 95% at least (Banerjee, Biometrika 1960).  It is `insufficient
    data` where fewer than two OSDs missed enough, or pairs or OSDs disagree.
    """
    numbers = range(len(told.osd_ids))
    before = [fmean(p.misses[i] for p in periods if not p.raised) for i in numbers]
    told = replace(told, misses_before=fmean(before))
    by_osd = [_logs(periods, i) for i in numbers if before[i] >= MISSES_MIN]
    by_osd = [logs for logs in by_osd if len(logs) >= PAIRS_MIN]
    if len(by_osd) < OSDS_MIN:
        return told
    by_pair = [fmean(logs) for logs in zip(*by_osd)]
    middle = fmean(by_pair)
    reach = math.hypot(_reach(by_pair), _reach([fmean(logs) for logs in by_osd]))
    low, high = math.exp(middle - reach), math.exp(middle + reach)
    verdict = TrialVerdict.VAGUE
    if high < 1 / MATERIAL_RATIO:
        verdict = TrialVerdict.GAIN
    elif low > 1 / MATERIAL_RATIO and high < MATERIAL_RATIO:
        verdict = TrialVerdict.NONE
    return replace(
        told, share=math.exp(middle), share_low=low, share_high=high, verdict=verdict
    )


def _logs(periods: Sequence[PeriodRates], index: int) -> List[float]:
    """Of one OSD, a logarithm for each pair; none where nothing was looked up in some period."""
    if any(p.hits[index] + p.misses[index] <= 0 for p in periods):
        return []
    parts = [p.misses[index] / (p.hits[index] + p.misses[index]) for p in periods]
    # one miss in a while keeps the logarithm finite where a cliff took all of them
    least = 0.01 * fmean(part for part, p in zip(parts, periods) if not p.raised)
    logs = [math.log(max(least, part)) * (1 if p.raised else -1)
            for part, p in zip(parts, periods)]
    return [first + second for first, second in zip(logs[::2], logs[1::2])]


def _reach(values: Sequence[float]) -> float:
    """How far the mean of two values and more may be from the true one, at 95%."""
    n = len(values)
    return t95(n - 1) * stdev(values) / math.sqrt(n)


def last_told(
    trials: Iterable[TrialResult], device_class: str, target_bytes: int, now_s: float
) -> Tuple[TrialResult, ...]:
    """What trials of OSDs with this target say; of those of one larger target the last one counts.

    It counts where it says nothing, too: else trying until one says `gain` would do.
    """
    last: List[TrialResult] = []
    for trial in sorted(trials, key=lambda item: item.ended_at_s):
        if trial.is_of(device_class, target_bytes, now_s):
            last = [item for item in last if not _near(item.high_bytes, trial.high_bytes)]
            last.append(trial)
    return tuple(item for item in last if item.verdict is not TrialVerdict.VAGUE)


def gains(
    trials: Iterable[TrialResult], device_class: str, target_bytes: int, now_s: float
) -> Tuple[TrialResult, ...]:
    """What OSDs with this target would gain, by what counts of trials."""
    told = last_told(trials, device_class, target_bytes, now_s)
    return tuple(item for item in told if item.verdict is TrialVerdict.GAIN)


def _near(target_bytes: int, other_bytes: int) -> bool:
    return abs(target_bytes - other_bytes) <= SAME_TARGET * other_bytes


@dataclass(frozen=True)
class TrialResults:
    """All of them, as they are stored."""

    VERSION: ClassVar[int] = 2
    items: Tuple[TrialResult, ...] = field(default=(), metadata={"max_items": 1000})
