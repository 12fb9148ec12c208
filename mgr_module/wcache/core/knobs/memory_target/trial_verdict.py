"""What the periods of a trial say: misses with the larger target as a share, with its interval.

A block of four periods (ABBA) of one OSD is one sample: the logarithm of the raised periods'
mean over that of the others, so that an even drift cancels out.  The interval is Student's,
at 95%, over the samples.
"""

from __future__ import annotations

import math
from typing import List, Sequence, Tuple

from .trial_result import GAIN, NONE, VAGUE, TrialResult

# Fewer misses per second in a period are noise.
MISSES_MIN = 1.0
SAMPLES_MIN = 3
# What leaves more of the misses is no gain that matters.
MATERIAL = 0.9
# Student's t at 97.5%, by degrees of freedom; beyond the table its limit from above.
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179,
      2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086)


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
                           mean_before, verdict=VAGUE)
    mean = sum(samples) / len(samples)
    freedom = len(samples) - 1
    spread = math.sqrt(sum((x - mean) ** 2 for x in samples) / freedom / len(samples))
    reach = _T[min(freedom, len(_T)) - 1] * spread
    share, low, high = math.exp(mean), math.exp(mean - reach), math.exp(mean + reach)
    verdict = VAGUE
    if high < MATERIAL:
        verdict = GAIN
    elif low > MATERIAL and high < 1.0 / MATERIAL:
        verdict = NONE
    return TrialResult(trial_id, device_class, now_s, low_bytes, high_bytes, osd_ids,
                       mean_before, share, low, high, verdict)
