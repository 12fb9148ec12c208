"""An experiment: pairs of periods in random order, looked at after each one.

Two adjacent periods, one in each cache mode, form a pair; which comes first is decided
by a coin that the recorded seed determines, so that drift cannot favour a mode.  The
pair is the unit of the statistics, since samples within a period are correlated.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Dict, Iterable, Optional, Tuple

from ..material import MATERIAL_LN
from ..model import CacheMode
from ..record import (
    RECORD_FORMAT,
    RECORD_VERSION,
    ExperimentSetup,
    Pair,
    Period,
    Precondition,
    Record,
    Settling,
)
from . import factorial, settling
from .levels import apart_ln

# The analysis looks after every pair from this one on: its boundaries are made for that
# (repeated confidence intervals, `analysis/sequential.py`), and a look costs milliseconds
# where a pair costs seconds.
FIRST_LOOK = 4
# Without numpy nobody can look: a fixed number is measured, for `wcache analyze` later.
PAIRS_WITHOUT_ANALYSIS = 8
IN_PROGRESS = "in progress"  # what a record says whose experiment has not ended
# The slots of the watches, beyond those of any pair.
WATCH_INDEX, LONG_WATCH_INDEX = 1000, 1001
# Where nothing is decided after so many pairs, noise is such that the first watches may have
# missed what fades, and be it all that lies between the modes: the drive is watched again, where
# they lie apart at all.  A clear case has ended before.
LATE_WATCH_PAIRS = (12, 12, 36, 36)
LATE_WATCH_INDEX = 1002


def coin(seed: int, pair_index: int) -> CacheMode:
    """The mode measured first in a pair: fair, reproducible, the same in every release."""
    digest = hashlib.sha256(f"wcache pair {seed} {pair_index}".encode()).digest()
    return CacheMode.WRITE_BACK if digest[0] & 1 else CacheMode.WRITE_THROUGH


@dataclass(frozen=True)
class Slot:
    """The place of one period: its pair and whether it comes first or second in it."""

    pair_index: int
    second: bool

    @property
    def following(self) -> Slot:
        """The slot measured after this one."""
        return Slot(self.pair_index + 1, False) if self.second else Slot(self.pair_index, True)

    @property
    def number(self) -> int:
        """Its place in time among all slots, from 0."""
        return 2 * self.pair_index + int(self.second)

    def mode(self, seed: int) -> CacheMode:
        """The cache mode this slot is measured in, where one drive is toggled."""
        first = coin(seed, self.pair_index)
        return first.other if self.second else first

    @property
    def watch(self) -> bool:
        """Whether the drive is watched here, between pairs or before the first one."""
        return self.pair_index >= WATCH_INDEX


def watch_slot(setup: ExperimentSetup, periods: Dict[Slot, Period]) -> Optional[Slot]:
    """The next watch that is due, or None.

    Before the first pair one in each mode, from which the settling is chosen; two longer
    ones where those leave it open whether a toggle leaves anything behind.  Again after
    LATE_WATCH_PAIRS, where the modes lie apart; which one is faster has no part in it.
    """
    if not setup.watch_samples or setup.settle_s <= 0:
        return None
    if Slot(0, False) in periods:
        return _late_watch_slot(setup, periods)
    for index in (WATCH_INDEX, LONG_WATCH_INDEX):
        first = watches_of(periods)[: len(CacheMode)]
        if index == LONG_WATCH_INDEX and not settling.suspicious(first, setup.settle_s):
            return None
        missing = _missing(index, periods)
        if missing is not None:
            return missing
    return None


def _late_watch_slot(setup: ExperimentSetup, periods: Dict[Slot, Period]) -> Optional[Slot]:
    for index, after in enumerate(LATE_WATCH_PAIRS, LATE_WATCH_INDEX):
        between = Slot(after - 1, True) in periods and Slot(after, False) not in periods
        if after >= pairs_limit(setup) or not between:
            continue
        missing = _missing(index, periods)
        # of the two drives of a factorial either may be the one that differs
        if missing is not None and (
            setup.crossed is not None
            or apart_ln(pairs_of(setup, periods)) >= MATERIAL_LN
        ):
            return missing
    return None


def _missing(index: int, periods: Dict[Slot, Period]) -> Optional[Slot]:
    """The first slot of a pair of watches that has no period yet."""
    slots = (Slot(index, False), Slot(index, True))
    return next((slot for slot in slots if slot not in periods), None)


def watches_of(periods: Dict[Slot, Period]) -> Tuple[Period, ...]:
    """The finished watches before the first pair, in the order in which they were made."""
    return _at(range(WATCH_INDEX, LATE_WATCH_INDEX), periods)


def late_watches_of(periods: Dict[Slot, Period]) -> Tuple[Period, ...]:
    """The finished watches between pairs, in the order in which they were made."""
    first = LATE_WATCH_INDEX
    return _at(range(first, first + len(LATE_WATCH_PAIRS)), periods)


def _at(indexes: Iterable[int], periods: Dict[Slot, Period]) -> Tuple[Period, ...]:
    order = [Slot(index, second) for index in indexes for second in (False, True)]
    return tuple(periods[slot] for slot in order if slot in periods)


def watch_of(setup: ExperimentSetup, slot: Slot) -> Tuple[int, float]:
    """(samples, seconds) of a watch."""
    if slot.pair_index >= LATE_WATCH_INDEX:
        late_s = min(settling.LATE_TIMES * setup.settle_s, settling.LATE_MAX_S)
        return settling.LATE_SAMPLES * setup.watch_samples, late_s
    if slot.pair_index == LONG_WATCH_INDEX:
        long_s = min(settling.LONG_TIMES * setup.settle_s, settling.LONG_MAX_S)
        return settling.LONG_SAMPLES * setup.watch_samples, long_s
    return setup.watch_samples, min(settling.WATCH_TIMES * setup.settle_s, settling.SHORT_MAX_S)


def watches_at_most(setup: ExperimentSetup) -> Tuple[int, int, float]:
    """(watches, samples, seconds) of all watches there may be."""
    if not setup.watch_samples or setup.settle_s <= 0:
        return 0, 0, 0.0
    indexes = [WATCH_INDEX, LONG_WATCH_INDEX] + [
        index for index, after in enumerate(LATE_WATCH_PAIRS, LATE_WATCH_INDEX)
        if after < pairs_limit(setup)
    ]
    each = [watch_of(setup, Slot(index, False)) for index in indexes]
    return (
        len(CacheMode) * len(each),
        len(CacheMode) * sum(count for count, _ in each),
        len(CacheMode) * sum(seconds for _, seconds in each),
    )


def settled(setup: ExperimentSetup, periods: Dict[Slot, Period]) -> Settling:
    """How long periods settle; the same at every call once the watches are done."""
    if not setup.watch_samples:
        return Settling(setup.settle_s)
    return settling.choose(watches_of(periods), setup.settle_s)


def modes_of(setup: ExperimentSetup, slot: Slot) -> Tuple[CacheMode, ...]:
    """The modes of a slot: of the drive, and in a factorial of the other one."""
    mode = slot.mode(setup.seed)
    if setup.crossed is None:
        return (mode,)
    if slot.watch:
        return (mode, mode)  # what either toggle leaves behind shows
    return factorial.cell(setup.seed, slot.number)


def next_slot(done: Iterable[Slot]) -> Slot:
    """The first slot of a pair that has no period yet."""
    taken = set(done)
    slot = Slot(0, False)
    while slot in taken:
        slot = slot.following
    return slot


def pairs_of(setup: ExperimentSetup, periods: Dict[Slot, Period]) -> Tuple[Pair, ...]:
    """The complete pairs among `periods`, in order; a half pair is left out.

    In a factorial they come two by two: what is no whole replicate is left out.
    """
    if setup.crossed is not None:
        by_number = {slot.number: period for slot, period in periods.items()}
        return factorial.pairs(by_number, setup.pairs_max)
    pairs = []
    for index in range(setup.pairs_max):
        first, second = periods.get(Slot(index, False)), periods.get(Slot(index, True))
        if first is None or second is None:
            break
        by_mode = {first.mode: first, second.mode: second}
        pairs.append(
            Pair(
                index, first.mode, by_mode[CacheMode.WRITE_BACK],
                by_mode[CacheMode.WRITE_THROUGH],
            )
        )
    return tuple(pairs)


def pairs_limit(setup: ExperimentSetup) -> int:
    """Pairs after which an experiment gives up; in a factorial they come two by two."""
    unit = 1 if setup.crossed is None else factorial.PAIRS_PER_REPLICATE
    return setup.pairs_max - setup.pairs_max % unit


def is_look(setup: ExperimentSetup, next_one: Slot) -> bool:
    """Whether the analysis is asked when `next_one` is the first slot without a period."""
    if next_one.second or next_one.watch:
        return False
    unit = 1 if setup.crossed is None else factorial.PAIRS_PER_REPLICATE
    units, rest = divmod(next_one.pair_index, unit)
    return not rest and units >= min(FIRST_LOOK, setup.pairs_max // unit)


@dataclass(frozen=True)
class Waste:
    """What interrupted periods cost; their samples are not in the record."""

    periods: int = 0
    seconds: float = 0.0
    bytes_written: int = 0


def compose(
    setup: ExperimentSetup,
    periods: Dict[Slot, Period],
    *,
    record_id: str,
    campaign_id: str,
    ended: str,
    ended_at_s: float,
    waste: Optional[Waste] = None,
    missed: Tuple[Precondition, ...] = (),
    forced: bool = False,
) -> Record:
    """The record of what was measured so far."""
    pairs = pairs_of(setup, periods)
    started = min((period.started_at_s for period in periods.values()), default=ended_at_s)
    waste = waste or Waste()
    used = {id(p) for pair in pairs for p in (pair.write_back, pair.write_through)}
    # of a pair or replicate that is not whole: no evidence, but it has cost as much
    half = [p for slot, p in periods.items() if not slot.watch and id(p) not in used]
    return Record(
        RECORD_FORMAT, RECORD_VERSION, record_id, campaign_id, setup, pairs, started,
        ended_at_s, ended, waste.periods + len(half),
        waste.seconds + sum(p.seconds for p in half),
        waste.bytes_written + sum(p.bytes_written for p in half), missed, forced,
        watches_of(periods), settled(setup, periods) if setup.watch_samples else None,
        late_watches_of(periods),
    )
