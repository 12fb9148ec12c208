"""The theoretical minimum of an experiment, stated in pairs."""

from __future__ import annotations

import math

from wcache.core.experiment.run_state import FIRST_LOOK

# The errors it is for: a wrong "differs", and a difference not found.
FALSE_ALARM, MISS = 0.01, 0.05


def pair_variance(
    between_sd: float, sample_sd: float, autocorrelation: float, samples: int
) -> float:
    """v = 2 [tau^2 + sigma^2 (1 + phi) / (k - (k - 2) phi)], of a difference of two means.

    tau is the sd between periods, sigma that of samples, phi their AR(1) coefficient,
    k how many of them a period has; all of log latencies.
    """
    k, phi = samples, autocorrelation
    within = sample_sd**2 * (1 + phi) / (k - (k - 2) * phi)
    return 2 * (between_sd**2 + within)


def least_pairs(ratio: float, variance: float, margin: float) -> float:
    """W = max(4, 2 A v / gap^2) pairs, after Wald's bound on sequential tests.

    A = (1-b) ln((1-b)/a) + b ln(b/(1-a)); gap is how far the log ratio is from the
    border of a material difference, `margin`.
    """
    a, b = FALSE_ALARM, MISS
    information = (1 - b) * math.log((1 - b) / a) + b * math.log(b / (1 - a))
    gap = abs(abs(math.log(ratio)) - margin)
    if gap == 0.0:
        return math.inf
    return max(float(FIRST_LOOK), 2 * information * variance / gap**2)
