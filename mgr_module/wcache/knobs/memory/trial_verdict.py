"""What the periods of a trial say: misses with the larger target as a share, with its interval.

A block of four periods (ABBA) of one OSD is one sample: the logarithm of the raised periods'
mean over that of the others, so that an even drift cancels out.  The interval is Student's,
at 95%, over the samples.
"""

from __future__ import annotations

import math
from typing import List, Sequence, Tuple

from ...core.figures.student_t import t95
from ...core.loads import MATERIAL_RATIO
from .trial_result import TrialResult, TrialVerdict

# Fewer misses per second in a period are noise.
MISSES_MIN = 1.0
SAMPLES_MIN = 3


def judge(
    trial_id: str, device_class: str, now_s: float, low_bytes: int, high_bytes: int,
    osd_ids: Tuple[int, ...], periods: Sequence[Tuple[bool, Tuple[float, ...]]],
) -> TrialResult:
    """The result; `insufficient data` where too little was missed or samples disagree."""
    samples: List[float] = []
    before = 0.0
    for start in range(0, len(periods) - 3, 4):
        block = periods[start:start + 4]
        for index in range(len(osd_ids)):
            plain = [misses[index] for raised, misses in block if not raised]
            raised = [misses[index] for is_raised, misses in block if is_raised]
            base = sum(plain) / len(plain)
            before += base
            if base >= MISSES_MIN:
                # one miss in a while keeps the logarithm finite where a cliff took all of them
                least = 0.01 * base
                samples.append(math.log(max(least, sum(raised) / len(raised)) / base))
    blocks = max(1, len(periods) // 4)
    mean_before = before / max(1, blocks * len(osd_ids))
    if len(samples) < SAMPLES_MIN:
        return TrialResult(trial_id, device_class, now_s, low_bytes, high_bytes, osd_ids,
                           mean_before, verdict=TrialVerdict.VAGUE)
    mean = sum(samples) / len(samples)
    freedom = len(samples) - 1
    spread = math.sqrt(sum((x - mean) ** 2 for x in samples) / freedom / len(samples))
    reach = t95(freedom) * spread
    share, low, high = math.exp(mean), math.exp(mean - reach), math.exp(mean + reach)
    verdict = TrialVerdict.VAGUE
    if high < 1 / MATERIAL_RATIO:
        verdict = TrialVerdict.GAIN
    elif low > 1 / MATERIAL_RATIO and high < MATERIAL_RATIO:
        verdict = TrialVerdict.NONE
    return TrialResult(trial_id, device_class, now_s, low_bytes, high_bytes, osd_ids,
                       mean_before, share, low, high, verdict)
