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
SAMPLES_MIN = 3


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


def judge(
    told: TrialResult, periods: Sequence[Tuple[bool, Tuple[float, ...]]]
) -> TrialResult:
    """Return the result with what its periods say: whether each is raised, misses by OSD.

    A block of four periods (ABBA) of one OSD is one sample: the logarithm of the raised periods'
    mean over that of the others, so that an even drift cancels out.  The interval is Student's, at
    95%, over the samples.  It is `insufficient data` where too little was missed or samples
    disagree.
    """
    samples: List[float] = []
    before = 0.0
    for start in range(0, len(periods) - 3, 4):
        block = periods[start:start + 4]
        for index in range(len(told.osd_ids)):
            plain = [misses[index] for raised, misses in block if not raised]
            raised = [misses[index] for is_raised, misses in block if is_raised]
            base = fmean(plain)
            before += base
            if base >= MISSES_MIN:
                # one miss in a while keeps the logarithm finite where a cliff took all of them
                least = 0.01 * base
                samples.append(math.log(max(least, fmean(raised)) / base))
    blocks = max(1, len(periods) // 4)
    told = replace(told, misses_before=before / max(1, blocks * len(told.osd_ids)))
    if len(samples) < SAMPLES_MIN:
        return told
    middle = fmean(samples)
    reach = t95(len(samples) - 1) * stdev(samples) / math.sqrt(len(samples))
    low, high = math.exp(middle - reach), math.exp(middle + reach)
    verdict = TrialVerdict.VAGUE
    if high < 1 / MATERIAL_RATIO:
        verdict = TrialVerdict.GAIN
    elif low > 1 / MATERIAL_RATIO and high < MATERIAL_RATIO:
        verdict = TrialVerdict.NONE
    return replace(
        told, share=math.exp(middle), share_low=low, share_high=high, verdict=verdict
    )


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

    VERSION: ClassVar[int] = 1
    items: Tuple[TrialResult, ...] = field(default=(), metadata={"max_items": 1000})
