"""How long to wait after a toggle before measuring, as checks of the drive show it.

Before its first pair an experiment checks the drive after a toggle in either
direction, and for longer where that leaves it open whether a toggle leaves something
behind: looking for nothing costs time, what is missed costs honesty.  What a toggle
leaves behind shows as a level that fades while the mode stays the same, so each check is
compared with its own end only.  Its mode, its order and its scale have no part in the
choice: that the two are swapped changes nothing, and a choice of this kind cannot favour
a mode.

The model of what fades is ln latency = level + amplitude * exp(-t / fading), fitted with
Huber's loss (1964), so that stalls count little.  The experiment then waits, in every
period, until what is left of the largest one is immaterial.

In a settling check a drive is toggled there and back, and its latency is sampled densely from
then on.  Before the first pair there is one in each mode, from which the settling time is chosen
(`choose`), and two longer ones where those leave it open whether there is a transient.  There are
others between pairs where noise may hide one.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import median
from typing import Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from ..loads import MATERIAL_LN
from ..model import Arm
from ..record import ExperimentSetup, Period, Settling
from .design import FIRST_CHECK, LONG_CHECK, RECHECK, Periods, Slot, design_of

# The first two checks last this many times the shortest settling allowed; where they
# leave it open whether anything fades, two more last LONG_TIMES of it.
CHECK_TIMES = 2.5
LONG_TIMES = 5.0
LONG_SAMPLES = 2  # times those of a short one
# Rechecks look for what those missed: longer, for what fades slowly.
RECHECK_TIMES = 10.0
RECHECK_SAMPLES = 2
# Whoever sets a long settling knows of something; a check need not last for minutes.
SHORT_MAX_S, LONG_MAX_S, RECHECK_MAX_S = 2.0, 4.0, 8.0
# What may be left of the effect, in ln of latency: a fifth of what is material.
LEFT_LN = 0.02
SETTLE_MAX_S = 8.0
MATTERS_TIMES = 3.0
CLOSE_LN = math.log(1.3)
# Gain in squared residuals, in units of the noise, from which an effect is suspected,
# and from which it is believed.
SUSPECTED = 10.0
BELIEVED = 15.0
# The same of rechecks, with the correlation of the samples taken off: a verdict waits
# for more of them, or falls.
RECHECK_SUSPECTED, RECHECK_BELIEVED, RECHECK_CERTAIN = 5.0, 9.0, 12.0
CORRELATION_MAX = 0.95
LEFT_LN_MAX = 20.0  # what is more was never measured
HUBER_K = 1.345
HUBER_LIMIT = 3.0
SAMPLES_MIN = 5
ROUNDS = 6
FADING_STEPS = 12
SCALE_MIN_LN = 0.01

Series = Tuple[Tuple[float, ...], Tuple[float, ...]]  # seconds since the toggle, ln of latency


def suspicious(checks: Sequence[Period], least_s: float) -> bool:
    """Whether the first two checks leave it open if anything that matters fades.

    Always where their levels lie close, since little may be all there is then; else where
    something seems to fade that, left alone, could amount to a good part of the distance
    of the levels from the border of a material difference.  Of that distance only the
    size has a say, never its sign.
    """
    series = [_series(check) for check in checks]
    apart = _apart(series)
    if apart < CLOSE_LN:
        return True
    gap = apart - MATERIAL_LN
    for item in series:
        found = _fit((item,))
        if found is not None and found.gain >= SUSPECTED:
            left = abs(found.amplitude) * math.exp(-least_s / found.fading_s)
            # what one period and the next, as long again, would differ by
            if MATTERS_TIMES * left * -math.expm1(-least_s / found.fading_s) > gap:
                return True
    return False


def _apart(series: Sequence[Series]) -> float:
    """How far the ends of checks lie from one another, in ln; no sign, no arm."""
    ends = [median(logs[len(logs) // 4:]) for _, logs in series if logs]
    return max(ends) - min(ends) if ends else 0.0


def choose(checks: Sequence[Period], least_s: float) -> Settling:
    """How long every period settles: at least `least_s`, at most SETTLE_MAX_S.

    The same for the same checks with the two arms swapped.
    """
    chosen = Settling(least_s)
    if len(checks) <= len(Arm):
        return chosen  # nothing was suspected
    for arm in Arm:
        found = _fit(tuple(_series(check) for check in checks if check.arm is arm))
        if found is None or found.gain < BELIEVED:
            continue
        needed_s = found.fading_s * math.log(max(abs(found.amplitude) / LEFT_LN, 1.0))
        needed_s = max(least_s, min(needed_s, SETTLE_MAX_S))
        settle_s = max(least_s, math.ceil(needed_s * 20 - 1e-6) / 20)
        other = Settling(settle_s, round(found.fading_s, 3), round(found.amplitude, 3))
        if _order(other) > _order(chosen):
            chosen = other
    return chosen


def left_ln(checks: Sequence[Period], settle_s: float, gain_min: float) -> Dict[Arm, float]:
    """What a toggle to each arm leaves behind after `settle_s`, in ln of latency.

    Arms whose checks do not show it are left out, and so are those whose checks were over
    by then.  Samples hang together, so each counts for what their correlation leaves of it.
    """
    found = {}
    for arm in Arm:
        series = tuple(_series(check) for check in checks if check.arm is arm)
        fit = _fit(series)
        if fit is None or fit.gain / fit.inflation < gain_min:
            continue
        if 0 <= settle_s <= max(times[-1] for times, _ in series if times):
            left = fit.amplitude * math.exp(-settle_s / fit.fading_s)
            found[arm] = max(-LEFT_LN_MAX, min(LEFT_LN_MAX, left))
    return found


def _order(settling: Settling) -> Tuple[float, float, float]:
    return settling.settle_s, settling.fading_s, settling.amplitude_ln


def _series(check: Period) -> Series:
    count = min(len(check.at_ns), len(check.samples_ns))
    return (
        tuple(ns / 1e9 for ns in check.at_ns[:count]),
        tuple(math.log(max(ns, 1)) for ns in check.samples_ns[:count]),
    )


class Fit(NamedTuple):
    """What fades: its size at the toggle in ln of latency, its time constant, how sure it is.

    `gain` is in squared residuals, in units of the noise; residuals that hang together make
    it `inflation` times as large as independent ones would.
    """

    amplitude: float
    fading_s: float
    gain: float
    inflation: float


@lru_cache(maxsize=256)
def _fit(series: Tuple[Series, ...]) -> Optional[Fit]:
    """What fits checks of one mode best; None where they are too short to say.

    Each check has a level of its own; amplitude and time constant are shared.  Kept, since
    every step of an experiment asks for its settling and a fit takes milliseconds.
    """
    series = tuple(item for item in series if len(item[0]) >= SAMPLES_MIN)
    length_s = max((times[-1] for times, _ in series), default=0.0)
    if length_s <= 0:
        return None
    best: Optional[Tuple[float, float, float, List[float]]] = None
    for step in range(FADING_STEPS):
        fading_s = length_s / 16 * 2 ** (step / 2)
        amplitude, residuals = _line(series, fading_s)
        size = sum(abs(item) for item in residuals)
        if best is None or size < best[0]:
            best = (size, fading_s, amplitude, residuals)
    assert best is not None  # there is at least one step  # noqa: S101
    _, fading_s, amplitude, residuals = best
    spare = len(residuals) - len(series) - 2
    scale = max(_mad(residuals) * math.sqrt(len(residuals) / spare), SCALE_MIN_LN)
    flat = _line(series, math.inf)[1]
    gain = _loss(flat, scale) - _loss(residuals, scale)
    return Fit(amplitude, fading_s, gain, _inflation(series, residuals, scale))


def _inflation(series: Sequence[Series], residuals: Sequence[float], scale: float) -> float:
    """By how much chance exceeds what it would be of many independent residuals; 1 at least.

    (1 + r) / (1 - r), r the correlation of neighbours as of an AR(1), without what a fitted
    level and trend take off it (Marriott and Pope 1954); and as Student's t exceeds the
    normal where residuals are few.
    """
    bent = [max(-HUBER_LIMIT * scale, min(HUBER_LIMIT * scale, item)) for item in residuals]
    products, start = 0.0, 0
    for times, _ in series:
        own = bent[start:start + len(times)]
        products += sum(a * b for a, b in zip(own, own[1:]))
        start += len(times)
    squares = sum(item * item for item in bent)
    seen = products / squares if squares > 0 else 0.0
    correlation = min(seen + (2 + 4 * seen) * len(series) / len(residuals), CORRELATION_MAX)
    spare = len(residuals) - len(series) - 2
    return max(1.0, (1 + correlation) / (1 - correlation)) * (1 + 6 / spare)


def _line(series: Sequence[Series], fading_s: float) -> Tuple[float, List[float]]:
    """(amplitude, residuals) of a robust regression on what fades with `fading_s`."""
    amplitude = 0.0
    bases = [[math.exp(-t / fading_s) for t in times] for times, _ in series]
    weights = [[1.0] * len(times) for times, _ in series]
    residuals: List[List[float]] = []
    for _ in range(ROUNDS):
        xx = xy = 0.0
        middles = []
        for (_, logs), basis, own in zip(series, bases, weights):
            total = sum(own)
            x_mean = sum(w * x for w, x in zip(own, basis)) / total
            y_mean = sum(w * y for w, y in zip(own, logs)) / total
            xx += sum(w * (x - x_mean) ** 2 for w, x in zip(own, basis))
            xy += sum(
                w * (x - x_mean) * (y - y_mean) for w, x, y in zip(own, basis, logs)
            )
            middles.append((x_mean, y_mean))
        amplitude = xy / xx if xx > 1e-9 else 0.0
        residuals = [
            [y - y_mean - amplitude * (x - x_mean) for x, y in zip(basis, logs)]
            for (_, logs), basis, (x_mean, y_mean) in zip(series, bases, middles)
        ]
        scale = max(_mad([item for own in residuals for item in own]), SCALE_MIN_LN)
        weights = [
            [min(1.0, HUBER_K * scale / max(abs(item), 1e-12)) for item in own]
            for own in residuals
        ]
    return amplitude, [item for own in residuals for item in own]


def _loss(residuals: Sequence[float], scale: float) -> float:
    total = 0.0
    for item in residuals:
        z = abs(item) / scale
        total += z * z if z <= HUBER_K else HUBER_K * (2 * z - HUBER_K)
    return total


def _mad(residuals: Sequence[float]) -> float:
    return 1.4826 * median([abs(item) for item in residuals])


# Where nothing is decided after so many pairs, noise is such that the first checks may have
# missed a transient, and it may be all that lies between the modes: settling is checked again,
# where they lie apart at all.  A clear case has ended before.
RECHECK_PAIRS = (12, 12, 36, 36)


def due_check(setup: ExperimentSetup, periods: Periods) -> Optional[Slot]:
    """The next settling check that is due, or None.  Which arm is faster has no part in it."""
    if not setup.watch_samples or setup.settle_s <= 0:
        return None
    if Slot(0, False) in periods:
        return _due_recheck(setup, periods)
    for check in (FIRST_CHECK, LONG_CHECK):
        first = checks_of(periods)[: len(Arm)]
        if check == LONG_CHECK and not suspicious(first, setup.settle_s):
            return None
        missing = _missing(check, periods)
        if missing is not None:
            return missing
    return None


def _due_recheck(setup: ExperimentSetup, periods: Periods) -> Optional[Slot]:
    design = design_of(setup)
    for check, after in enumerate(RECHECK_PAIRS, RECHECK):
        between = Slot(after - 1, True) in periods and Slot(after, False) not in periods
        if after >= pairs_limit(setup) or not between:
            continue
        missing = _missing(check, periods)
        if missing is not None and design.wants_recheck(setup, periods):
            return missing
    return None


def pairs_limit(setup: ExperimentSetup) -> int:
    """Pairs after which an experiment gives up; in a factorial they come two by two."""
    return setup.pairs_max - setup.pairs_max % design_of(setup).pairs_per_unit


def _missing(check: int, periods: Periods) -> Optional[Slot]:
    """The first slot of a settling check that has no period yet."""
    slots = (Slot(check, False), Slot(check, True))
    return next((slot for slot in slots if slot not in periods), None)


def checks_of(periods: Periods) -> Tuple[Period, ...]:
    """The finished settling checks before the first pair, in the order they were made."""
    return _at(range(FIRST_CHECK, RECHECK), periods)


def rechecks_of(periods: Periods) -> Tuple[Period, ...]:
    """The finished settling checks between pairs, in the order they were made."""
    return _at(range(RECHECK, RECHECK + len(RECHECK_PAIRS)), periods)


def _at(checks: Iterable[int], periods: Periods) -> Tuple[Period, ...]:
    order = [Slot(check, second) for check in checks for second in (False, True)]
    return tuple(periods[slot] for slot in order if slot in periods)


def check_size(setup: ExperimentSetup, slot: Slot) -> Tuple[int, float]:
    """(samples, seconds) of a settling check in one arm."""
    if slot.index >= RECHECK:
        again_s = min(RECHECK_TIMES * setup.settle_s, RECHECK_MAX_S)
        return RECHECK_SAMPLES * setup.watch_samples, again_s
    if slot.index == LONG_CHECK:
        long_s = min(LONG_TIMES * setup.settle_s, LONG_MAX_S)
        return LONG_SAMPLES * setup.watch_samples, long_s
    return setup.watch_samples, min(CHECK_TIMES * setup.settle_s, SHORT_MAX_S)


def checks_at_most(setup: ExperimentSetup) -> Tuple[int, int, float]:
    """(periods, samples, seconds) of all settling checks there may be."""
    if not setup.watch_samples or setup.settle_s <= 0:
        return 0, 0, 0.0
    checks = [FIRST_CHECK, LONG_CHECK] + [
        check for check, after in enumerate(RECHECK_PAIRS, RECHECK) if after < pairs_limit(setup)
    ]
    each = [check_size(setup, Slot(check, False)) for check in checks]
    return (
        len(Arm) * len(each),
        len(Arm) * sum(count for count, _ in each),
        len(Arm) * sum(seconds for _, seconds in each),
    )


def settled(setup: ExperimentSetup, periods: Periods) -> Settling:
    """How long periods settle; the same at every call once the first checks are done."""
    if not setup.watch_samples:
        return Settling(setup.settle_s)
    return choose(checks_of(periods), setup.settle_s)
