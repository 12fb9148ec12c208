"""An experiment: pairs of periods in random order, looked at after each one.

Two adjacent periods, one in each cache mode, form a pair; which comes first is decided
by a coin that the recorded seed determines, so that drift cannot favour a mode.  The
pair is the unit of the statistics, since samples within a period are correlated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterable, Optional, Tuple

from ..record import (
    RECORD_FORMAT,
    RECORD_VERSION,
    ExperimentSetup,
    Pair,
    Period,
    Precondition,
    Record,
)
from .design import design_of
from .settling_time.checks import checks_of, rechecks_of, settled
from .slots import AnySlot, CheckSlot, Periods, Slot

# The analysis looks after every pair from this one on: fewer say too little of their spread.  Its
# boundaries are made for that (repeated confidence intervals, `core/verdict/sequential.py`), and a
# look costs milliseconds where a pair costs seconds.
FIRST_LOOK = 4
# Without numpy nobody can look: a fixed number is measured, for `wcache analyze` later.
PAIRS_WITHOUT_ANALYSIS = 8
IN_PROGRESS = "in progress"  # what a record says whose experiment has not ended


def next_slot(done: Iterable[AnySlot]) -> Slot:
    """The first slot of a pair that has no period yet."""
    taken = set(done)
    slot = Slot(0, False)
    while slot in taken:
        slot = slot.following
    return slot


def pairs_of(setup: ExperimentSetup, periods: Periods) -> Tuple[Pair, ...]:
    """The complete pairs among `periods`, in order; a half pair is left out.

    In a factorial they come two by two: what is no whole replicate is left out.
    """
    return design_of(setup).pairs(setup, periods)


def whole(setup: ExperimentSetup, periods: Periods, before_s: float) -> Periods:
    """The periods without those of a pair or settling check that was cut off at `before_s`."""
    used = {
        id(period) for pair in pairs_of(setup, periods)
        for period in pair.periods
    }

    def counts(slot: AnySlot, period: Period) -> bool:
        if isinstance(slot, CheckSlot):
            both = {CheckSlot(slot.check, False), CheckSlot(slot.check, True)} <= periods.keys()
        else:
            both = id(period) in used
        return both or period.started_at_s >= before_s

    return {slot: period for slot, period in periods.items() if counts(slot, period)}


def is_look(setup: ExperimentSetup, next_one: Slot) -> bool:
    """Whether the analysis is asked when `next_one` is the first slot without a period."""
    if next_one.second:
        return False
    unit = design_of(setup).pairs_per_unit
    units, rest = divmod(next_one.pair_index, unit)
    return not rest and units >= min(FIRST_LOOK, setup.pairs_max // unit)


@dataclass(frozen=True)
class Discarded:
    """What interrupted periods cost; their samples are not in the record."""

    periods: int = 0
    seconds: float = 0.0
    bytes_written: int = 0


def compose(
    setup: ExperimentSetup,
    periods: Periods,
    *,
    record_id: str,
    campaign_id: str,
    ended: str,
    ended_at_s: float,
    discarded: Optional[Discarded] = None,
    missed: Tuple[Precondition, ...] = (),
    forced: bool = False,
    checks: Tuple[str, ...] = (),
) -> Record:
    """The record of what was measured so far."""
    pairs = pairs_of(setup, periods)
    started = min((period.started_at_s for period in periods.values()), default=ended_at_s)
    discarded = discarded or Discarded()
    used = {id(p) for pair in pairs for p in pair.periods}
    # of a pair or replicate that is not whole: no evidence, but it has cost as much
    half = [
        period for slot, period in periods.items()
        if not isinstance(slot, CheckSlot) and id(period) not in used
    ]
    return Record(
        RECORD_FORMAT, RECORD_VERSION, record_id, campaign_id, setup, pairs, started,
        ended_at_s, ended, discarded.periods + len(half),
        discarded.seconds + sum(p.seconds for p in half),
        discarded.bytes_written + sum(p.bytes_written for p in half), missed, forced,
        checks_of(periods), settled(setup, periods) if setup.watch_samples else None,
        rechecks_of(periods), checks,
    )
