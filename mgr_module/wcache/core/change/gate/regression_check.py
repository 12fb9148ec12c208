"""Did a change make things worse?  Two measurements, before and after, and their noise.

This is not the experiment that decides (pairs in random order do that): it is the check
that an applied change did no harm.  Two stretches of time differ by more than their own
samples show, so a run-to-run spread is allowed for before a change is taken back.
"""

from __future__ import annotations

import math
import statistics
from typing import Optional

from ...events import LoadSamples
from ...loads import MATERIAL_LN, commit_latency

# Spread of the logarithm between two runs of the same thing, beyond that of their samples.
RUN_SPREAD = 0.05
# A mean of counters brings no spread of its own along; this is taken for its logarithm.
COUNTER_ERROR = 0.1
# One-sided 99%.
_Z = 2.33


def latency_of(samples: LoadSamples) -> Optional[float]:
    """One latency in us: the median sample, or the mean of the commit counter."""
    if samples.samples_ns:
        return statistics.median(samples.samples_ns) / 1000.0
    commit = commit_latency(samples.counters)
    return None if commit is None else 1e6 * commit.sum_s / commit.count


def error_of(samples: LoadSamples) -> float:
    """Standard error of the logarithm of `latency_of`.

    For samples that of a median, sqrt(pi/2) s/sqrt(n), with s from the median absolute
    deviation, which a few stalls do not move.
    """
    logs = [math.log(ns) for ns in samples.samples_ns if ns > 0]
    if len(logs) < 2:
        return COUNTER_ERROR
    middle = statistics.median(logs)
    spread = 1.4826 * statistics.median(abs(value - middle) for value in logs)
    return math.sqrt(math.pi / 2) * spread / math.sqrt(len(logs))


def is_worse(
    before_us: float, before_error: float, after_us: float, after_error: float
) -> bool:
    """Whether the latency rose by a material ratio, and not by chance (1%)."""
    if before_us <= 0 or after_us <= 0:
        return False
    rise = math.log(after_us / before_us) - MATERIAL_LN
    noise = math.sqrt(before_error**2 + after_error**2 + 2 * RUN_SPREAD**2)
    return rise > _Z * noise
