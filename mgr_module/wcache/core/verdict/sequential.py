"""The sequential rule: intervals that hold at every look, their verdict, pairs to come.

A repeated confidence interval mean +- c_n s/sqrt(n) covers the truth at *all* looks
together with its stated chance, so an experiment may stop at any pair without cheating.
The boundaries are exact (qa/bench_decision/boundaries.py), for a look after each pair from the
fourth to the eightieth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Dict, Optional, Sequence, Tuple

from ..experiment.run_state import FIRST_LOOK
from ..figures.latency_table import quantile
from ..model import Verdict
from ..options.entries import CACHE_MODES, Arms
from ..text import gained

HORIZON = 80  # pairs; the error is spent by then, later pairs are not looked at
DECIDE_ALPHA = 0.01  # "differs" is decided on the 99% interval
SAME_ALPHA = 0.05  # "no material difference" on the 95% interval
# A spread between periods below this is finer than a host's clocks and caches can
# promise; it keeps equal readings (a coarse clock) from passing as certainty.
SD_FLOOR = 0.002
# Half a bucket of an OSD's histogram, as a log ratio: what tails must clear beyond the margin.
SLACK = math.log(2.0) / 2
ODD_Z = 3.5

# c_n for n = 4..80, printed by `python3 -m bench_decision.boundaries` in qa/.
C_N: Dict[float, Tuple[float, ...]] = {
    0.01: (
        9.83292, 9.60859, 8.19744, 7.10583, 6.36898, 5.85971, 5.49228, 5.21645, 5.00237,
        4.83158, 4.69219, 4.57624, 4.47823, 4.39423, 4.32139, 4.25758, 4.20117, 4.15090,
        4.10580, 4.06506, 4.02807, 3.99430, 3.96334, 3.93481, 3.90844, 3.88398, 3.86120,
        3.83994, 3.82002, 3.80133, 3.78374, 3.76715, 3.75147, 3.73662, 3.72252, 3.70913,
        3.69638, 3.68422, 3.67261, 3.66150, 3.65087, 3.64068, 3.63089, 3.62149, 3.61245,
        3.60374, 3.59534, 3.58724, 3.57942, 3.57186, 3.56454, 3.55746, 3.55060, 3.54395,
        3.53750, 3.53124, 3.52515, 3.51924, 3.51349, 3.50789, 3.50244, 3.49712, 3.49195,
        3.48690, 3.48197, 3.47716, 3.47247, 3.46788, 3.46339, 3.45901, 3.45472, 3.45052,
        3.44641, 3.44239, 3.43845, 3.43458, 3.43080,
    ),
    0.05: (
        5.61256, 5.83273, 5.39266, 4.94587, 4.60193, 4.34450, 4.14836, 3.99503, 3.87216,
        3.77152, 3.68751, 3.61624, 3.55493, 3.50154, 3.45457, 3.41286, 3.37551, 3.34184,
        3.31128, 3.28339, 3.25781, 3.23422, 3.21238, 3.19209, 3.17317, 3.15546, 3.13885,
        3.12321, 3.10845, 3.09449, 3.08127, 3.06870, 3.05674, 3.04534, 3.03445, 3.02403,
        3.01405, 3.00447, 2.99527, 2.98642, 2.97790, 2.96968, 2.96175, 2.95409, 2.94668,
        2.93950, 2.93255, 2.92581, 2.91927, 2.91291, 2.90674, 2.90073, 2.89489, 2.88919,
        2.88365, 2.87824, 2.87296, 2.86781, 2.86278, 2.85786, 2.85305, 2.84835, 2.84375,
        2.83925, 2.83483, 2.83051, 2.82628, 2.82212, 2.81805, 2.81405, 2.81013, 2.80627,
        2.80249, 2.79877, 2.79511, 2.79152, 2.78799,
    ),
}


@dataclass(frozen=True)
class Interval:
    """A mean log ratio with its repeated confidence interval; natural logs."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Spread:
    """What the pair differences say so far: n of them, their mean and their sd."""

    n: int
    mean: float
    sd: float


def half_width(n: int, sd: float, alpha: float) -> float:
    """Half the width of the repeated confidence interval; infinite before FIRST_LOOK."""
    if n < FIRST_LOOK:
        return math.inf
    n = min(n, HORIZON)
    return C_N[alpha][n - FIRST_LOOK] * max(sd, SD_FLOOR) / math.sqrt(n)


def moments(values: Sequence[float]) -> Spread:
    """Number, mean and sd (n - 1) of values; sd 0 where n < 2."""
    n = len(values)
    if n == 0:
        return Spread(0, 0.0, 0.0)
    mean = math.fsum(values) / n
    if n == 1:
        return Spread(1, mean, 0.0)
    squares = math.fsum((value - mean) ** 2 for value in values)
    return Spread(n, mean, math.sqrt(squares / (n - 1)))


def spread(differences: Sequence[float]) -> Spread:
    """Moments of at most the first HORIZON differences."""
    return moments(differences[:HORIZON])


def interval(seen: Spread, alpha: float) -> Interval:
    """The repeated confidence interval of the mean at level 1 - alpha (.99 or .95)."""
    half = half_width(seen.n, seen.sd, alpha)
    return Interval(seen.mean, seen.mean - half, seen.mean + half)


def differs(decide: Interval, margin: float) -> int:
    """+1 or -1 where the interval lies wholly beyond +-margin, else 0; margin is a log."""
    if decide.low > margin:
        return 1
    if decide.high < -margin:
        return -1
    return 0


def same(near: Interval, margin: float) -> bool:
    """Whether the interval lies wholly inside +-margin; margin is a log."""
    return -margin < near.low and near.high < margin


def verdict(far: Interval, near: Interval, margin: float) -> Verdict:
    """What the DECIDE_ALPHA interval and the SAME_ALPHA one say together; margin is a log.

    The logs are of arm A over arm B.
    """
    direction = differs(far, margin)
    if direction:
        return Verdict.B if direction > 0 else Verdict.A
    return Verdict.NO_DIFFERENCE if same(near, margin) else Verdict.INSUFFICIENT


def verdict_of(seen: Spread, margin: float) -> Verdict:
    """What all differences so far say; margin is a log."""
    far, near = (interval(seen, alpha) for alpha in (DECIDE_ALPHA, SAME_ALPHA))
    return verdict(far, near, margin)


def pairs_needed(seen: Spread, margin: float, pairs_max: int) -> Optional[int]:
    """Pairs (in all) that would decide if mean and sd stayed as they are.

    None where not even `pairs_max` (at most HORIZON) would do.
    """
    distance = abs(seen.mean) - margin
    alpha = DECIDE_ALPHA if distance > 0 else SAME_ALPHA
    for n in range(max(FIRST_LOOK, seen.n), min(pairs_max, HORIZON) + 1):
        if half_width(n, seen.sd, alpha) < abs(distance):
            return n
    return None


def verdict_text(
    verdict: Verdict, far: Interval, near: Interval, material_ratio: float, basis: str,
    arms: Arms = CACHE_MODES,
) -> str:
    """Why `verdict`: `far` is its 99% interval, `near` its 95% one; `basis` ends the line."""
    less, more = gained(material_ratio), gained(1 / material_ratio)
    changes = f"{arms.a} -> {arms.b} changes latency by"
    if verdict is Verdict.NO_DIFFERENCE:
        return f"{changes} {span(near)} (95%), within {less} and {more} {basis}; {arms.alike}"
    if verdict.arm is not None:
        edge = less if verdict is Verdict.B else more
        return (
            f"{arms.said(verdict)} is faster: {changes} {gained(_times(far.mean))} "
            f"(99%: {span(far)}), beyond {edge} {basis}"
        )
    return f"undecided: {changes} {span(far)} (99%), across {less}, {more} or both {basis}"


def contradicted_by_tail(
    middle: Verdict, tail: Verdict, name: str = "median", arms: Arms = CACHE_MODES
) -> str:
    """Why the tail contradicts the verdict on the median (or what `name` says), or ''."""
    if middle is Verdict.INSUFFICIENT or tail.arm is None or tail is middle:
        return ""
    of_middle = "does not differ" if middle.arm is None else f"is better in {arms.said(middle)}"
    return f"the {name} {of_middle}, but the 90th percentile is proven better in {arms.said(tail)}"


def span(found: Interval) -> str:
    """An interval of log ratios as changes of latency, in percent."""
    return f"{gained(_times(found.high))} to {gained(_times(found.low))}"


def _times(log_ratio: float) -> float:
    return math.exp(max(-99, min(log_ratio, 99)))


def rounded(value: float) -> Optional[float]:
    """Seven significant digits, None where not finite: the same bytes on any machine."""
    return float(f"{value:.7g}") if math.isfinite(value) else None


def ratio(log_value: float) -> Optional[float]:
    """exp() of a log ratio, rounded; None where it is infinite."""
    return rounded(math.exp(log_value)) if abs(log_value) < 700 else None


def ratios(values: Sequence[float]) -> Dict[str, Optional[float]]:
    """The ratio of log differences with its 99% and its 95% interval, JSON-ready."""
    seen = spread(values)
    far, near = interval(seen, DECIDE_ALPHA), interval(seen, SAME_ALPHA)
    return {
        "ratio": ratio(seen.mean) if seen.n else None, "ratio_low": ratio(far.low),
        "ratio_high": ratio(far.high), "ratio_low_95": ratio(near.low),
        "ratio_high_95": ratio(near.high),
    }


def odd_ones(values: Sequence[float], variances: Sequence[float] = ()) -> Tuple[int, ...]:
    """Indexes of values far from the rest, on either side; at least 5 values are needed.

    Robust z = (x - median) / (1.4826 MAD) (Iglewicz and Hoaglin, 1993).  Where the variance of
    each is known it adds to that scale, so that equal ones measured well don't make each other
    odd.
    """
    if len(values) < 5:
        return ()
    centre = quantile(sorted(values), 0.5)
    scale = 1.4826 * quantile(sorted(abs(value - centre) for value in values), 0.5)
    scales = [math.hypot(scale, math.sqrt(own)) for own in variances or [0.0] * len(values)]
    return tuple(
        i for i, (value, own) in enumerate(zip(values, scales))
        if own > 0.0 and abs(value - centre) > ODD_Z * own
    )
