"""Whether a record can be what it says it is: what follows from its setup must be so.

A record is read from files too.  What contradicts its own seed, settling or budget was
altered or put together by hand, and no statistics of it would mean anything.
"""

from __future__ import annotations

from collections import Counter
from typing import List, Tuple

from ..core.errors import MalformedError
from ..core.experiment.design import design_of
from ..core.experiment.settling_time import settling
from ..core.experiment.settling_time.checks import RECHECK_PAIRS
from ..core.record import RECORDED, Period, Record

SETTLE_TOLERANCE_S = 1e-6
SECONDS_MAX = 1e9
SUM_TOLERANCE_S = 1e-6  # running sums of seconds are subtracted from one another


def check(record: Record) -> None:
    """Raises MalformedError that names what contradicts the record's own setup."""
    if record.settling is not None:
        chosen = settling.choose(record.watches, record.setup.settle_s)
        if record.settling != chosen:
            raise MalformedError(
                "the record's settling time does not follow from its settling checks"
            )
    periods = _periods(record)
    _check_pairs(record)
    _check_late_watches(record)
    _check_conditions(record)
    for period in record.periods:
        _check_amounts(record, period)
    design = design_of(record.setup)
    design.check_turns(record.pairs)
    _check_times(record, periods)
    for period in (*record.watches, *record.late_watches, *(period for _, period in periods)):
        design.check_period(period)
        _check_halves(period)
    design.check_order(record.setup.seed, record.pairs)


def _check_late_watches(record: Record) -> None:
    if record.late_watches and len(record.pairs) < RECHECK_PAIRS[0]:
        raise MalformedError(
            f"the record has late settling checks, but fewer than {RECHECK_PAIRS[0]} pairs"
        )


def _periods(record: Record) -> List[Tuple[int, Period]]:
    return [
        (pair.index, period) for pair in record.pairs
        for period in pair.periods
    ]


def _check_pairs(record: Record) -> None:
    indexes = Counter(pair.index for pair in record.pairs)
    twice = sorted(index for index, count in indexes.items() if count > 1)
    if twice:
        raise MalformedError(f"pair {twice[0]} is in the record {indexes[twice[0]]} times")
    missing = sorted(set(range(len(record.pairs))) - set(indexes))
    if missing:
        raise MalformedError(
            f"pair {missing[0]} is missing from the record, but later pairs are there"
        )
    most = record.setup.pairs_max
    if most and len(indexes) > most:
        raise MalformedError(f"the record has more pairs than the {most} of its setup")


def _check_conditions(record: Record) -> None:
    """What a campaign does not measure under unless it is forced to."""
    missed = [item for item in record.missed_preconditions if item not in RECORDED]
    if missed and record.setup.real and not record.forced:
        raise MalformedError(
            f"the record misses {missed[0].value!r} but is not marked as forced"
        )


def _check_amounts(record: Record, period: Period) -> None:
    times_s = (
        period.seconds, period.settle_s, record.interrupted_seconds,
        *(item.sum_s for item in period.counters + period.later_counters),
    )
    if not all(0 <= seconds <= SECONDS_MAX for seconds in times_s):
        raise MalformedError("a period of the record has an impossible duration")
    most = record.setup.samples_per_period
    if period in record.watches or period in record.late_watches:
        most = max(settling.LONG_SAMPLES, settling.RECHECK_SAMPLES) * record.setup.watch_samples
    if most and len(period.samples_ns) > most:
        raise MalformedError(
            f"a period of the record has {len(period.samples_ns)} samples, but its setup allows "
            f"{most}"
        )


def _check_times(record: Record, periods: List[Tuple[int, Period]]) -> None:
    """Periods follow one another, and each settled for as long as was chosen."""
    began = Counter(period.started_at_s for _, period in periods)
    chosen_s = record.setup.settle_s if record.settling is None else record.settling.settle_s
    for index, period in periods:
        if began[period.started_at_s] > 1:
            raise MalformedError(
                f"a period of pair {index} started at the same time as another one"
            )
        if abs(period.settle_s - chosen_s) > SETTLE_TOLERANCE_S:
            raise MalformedError(
                f"a period of pair {index} settled for {period.settle_s:g} s, but the record's "
                f"settling time is {chosen_s:g} s"
            )


def _check_halves(period: Period) -> None:
    """A part of a period holds no more than the whole."""
    whole = {item.name: item for item in period.counters}
    for part in period.later_counters:
        of = whole.get(part.name)
        if of is None or part.count > of.count or part.sum_s > of.sum_s + SUM_TOLERANCE_S:
            raise MalformedError(
                f"half a period counts more of {part.name[:60]} than the whole period"
            )
