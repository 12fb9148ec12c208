"""An experiment: pairs of periods in random order, looked at after each one.

Two adjacent periods, one in each cache mode, form a pair; which comes first is decided
by a coin that the recorded seed determines, so that drift cannot favour a mode.  The
pair is the unit of the statistics, since samples within a period are correlated.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Dict, Iterable, Optional, Tuple

from .model import CacheMode
from .record import (
    RECORD_FORMAT,
    RECORD_VERSION,
    ExperimentSetup,
    Pair,
    Period,
    Precondition,
    Record,
)

# The analysis looks after every pair from this one on: its boundaries are made for that
# (repeated confidence intervals, `analysis/sequential.py`), and a look costs milliseconds
# where a pair costs seconds.
FIRST_LOOK = 4
# Without numpy nobody can look: a fixed number is measured, for `wcache analyze` later.
PAIRS_WITHOUT_ANALYSIS = 8


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

    def mode(self, seed: int) -> CacheMode:
        """The cache mode this slot is measured in."""
        first = coin(seed, self.pair_index)
        return first.other if self.second else first


def next_slot(done: Iterable[Slot]) -> Slot:
    """The first slot that has no period yet."""
    taken = set(done)
    slot = Slot(0, False)
    while slot in taken:
        slot = slot.following
    return slot


def pairs_of(setup: ExperimentSetup, periods: Dict[Slot, Period]) -> Tuple[Pair, ...]:
    """The complete pairs among `periods`, in order; a half pair is left out."""
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


def is_look(pairs: int, pairs_max: int) -> bool:
    """Whether the analysis is asked after this many pairs."""
    return pairs >= min(FIRST_LOOK, pairs_max)


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
    return Record(
        RECORD_FORMAT, RECORD_VERSION, record_id, campaign_id, setup, pairs, started,
        ended_at_s, ended, waste.periods, waste.seconds, waste.bytes_written, missed, forced,
    )
