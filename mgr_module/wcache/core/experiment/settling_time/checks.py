"""When settling is checked: before the first pair, and again where noise may hide a transient.

In a settling check a drive is toggled there and back, and its latency is sampled densely from
then on.  Before the first pair there is one in each mode, from which the settling time is chosen
(`settling.choose`), and two longer ones where those leave it open whether there is a transient.
"""

from __future__ import annotations

from typing import Iterable, Optional, Tuple

from ...model import CacheMode
from ...record import ExperimentSetup, Period, Settling
from ..design import design_of
from ..slots import FIRST_CHECK, LONG_CHECK, RECHECK, CheckSlot, Periods, Slot
from . import settling

# Where nothing is decided after so many pairs, noise is such that the first checks may have
# missed a transient, and it may be all that lies between the modes: settling is checked again,
# where they lie apart at all.  A clear case has ended before.
RECHECK_PAIRS = (12, 12, 36, 36)


def due_check(setup: ExperimentSetup, periods: Periods) -> Optional[CheckSlot]:
    """The next settling check that is due, or None.  Which mode is faster has no part in it."""
    if not setup.watch_samples or setup.settle_s <= 0:
        return None
    if Slot(0, False) in periods:
        return _due_recheck(setup, periods)
    for check in (FIRST_CHECK, LONG_CHECK):
        first = checks_of(periods)[: len(CacheMode)]
        if check == LONG_CHECK and not settling.suspicious(first, setup.settle_s):
            return None
        missing = _missing(check, periods)
        if missing is not None:
            return missing
    return None


def _due_recheck(setup: ExperimentSetup, periods: Periods) -> Optional[CheckSlot]:
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


def _missing(check: int, periods: Periods) -> Optional[CheckSlot]:
    """The first slot of a settling check that has no period yet."""
    slots = (CheckSlot(check, False), CheckSlot(check, True))
    return next((slot for slot in slots if slot not in periods), None)


def checks_of(periods: Periods) -> Tuple[Period, ...]:
    """The finished settling checks before the first pair, in the order they were made."""
    return _at(range(RECHECK), periods)


def rechecks_of(periods: Periods) -> Tuple[Period, ...]:
    """The finished settling checks between pairs, in the order they were made."""
    return _at(range(RECHECK, RECHECK + len(RECHECK_PAIRS)), periods)


def _at(checks: Iterable[int], periods: Periods) -> Tuple[Period, ...]:
    order = [CheckSlot(check, second) for check in checks for second in (False, True)]
    return tuple(periods[slot] for slot in order if slot in periods)


def check_size(setup: ExperimentSetup, slot: CheckSlot) -> Tuple[int, float]:
    """(samples, seconds) of a settling check in one mode."""
    if slot.check >= RECHECK:
        again_s = min(settling.RECHECK_TIMES * setup.settle_s, settling.RECHECK_MAX_S)
        return settling.RECHECK_SAMPLES * setup.watch_samples, again_s
    if slot.check == LONG_CHECK:
        long_s = min(settling.LONG_TIMES * setup.settle_s, settling.LONG_MAX_S)
        return settling.LONG_SAMPLES * setup.watch_samples, long_s
    return setup.watch_samples, min(settling.CHECK_TIMES * setup.settle_s, settling.SHORT_MAX_S)


def checks_at_most(setup: ExperimentSetup) -> Tuple[int, int, float]:
    """(periods, samples, seconds) of all settling checks there may be."""
    if not setup.watch_samples or setup.settle_s <= 0:
        return 0, 0, 0.0
    checks = [FIRST_CHECK, LONG_CHECK] + [
        check for check, after in enumerate(RECHECK_PAIRS, RECHECK) if after < pairs_limit(setup)
    ]
    each = [check_size(setup, CheckSlot(check, False)) for check in checks]
    return (
        len(CacheMode) * len(each),
        len(CacheMode) * sum(count for count, _ in each),
        len(CacheMode) * sum(seconds for _, seconds in each),
    )


def settled(setup: ExperimentSetup, periods: Periods) -> Settling:
    """How long periods settle; the same at every call once the first checks are done."""
    if not setup.watch_samples:
        return Settling(setup.settle_s)
    return settling.choose(checks_of(periods), setup.settle_s)
