"""The design of an experiment: what it toggles, in which order periods come.

`design_of` is the one place that asks whether it toggles one drive or two.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Dict, List, Sequence, Tuple

from ..errors import MalformedError
from ..loads import MATERIAL_LN, level_ns
from ..model import Arm
from ..record import ExperimentSetup, Pair, Period
from . import factorial

# The settling checks, in the order in which they may come; rechecks are numbered from here on.
FIRST_CHECK, LONG_CHECK, RECHECK = 1000, 1001, 1002


def coin(seed: int, pair_index: int) -> Arm:
    """The arm measured first in a pair: fair, reproducible, the same in every release."""
    digest = hashlib.sha256(f"wcache pair {seed} {pair_index}".encode()).digest()
    return Arm.A if digest[0] & 1 else Arm.B


@dataclass(frozen=True)
class Slot:
    """The place of one period: its pair and whether it comes first or second in it.

    `index` is that of the pair, or of a settling check, which has one period in each arm.
    """

    index: int
    second: bool

    @property
    def checks(self) -> bool:
        """Whether it is of a settling check."""
        return self.index >= FIRST_CHECK

    @property
    def following(self) -> Slot:
        """The slot measured after this one."""
        return Slot(self.index + 1, False) if self.second else Slot(self.index, True)

    @property
    def number(self) -> int:
        """Its place in time among all slots, from 0."""
        return 2 * self.index + int(self.second)

    def arm(self, seed: int) -> Arm:
        """The arm that it is measured in, or that a settling check begins with a toggle to.

        Of pairs that is so where one drive is toggled.
        """
        first = coin(seed, self.index)
        return first.other if self.second else first


FIRST = Slot(0, False)
Periods = Dict[Slot, Period]
"""The finished periods of one experiment."""


def apart_ln(pairs: Sequence[Pair]) -> float:
    """How far the arms are apart in the mean over pairs, in ln of latency; no sign, no arm."""
    gaps = [math.log(level_ns(pair.a) / level_ns(pair.b)) for pair in pairs]
    return abs(math.fsum(gaps)) / len(gaps) if gaps else 0.0


class Design:
    """How periods are arranged.  Of one drive two adjacent ones, one in each arm, are the unit."""

    unit = "pairs"  # what the statistics count, in words
    crosses = False  # whether two drives are toggled
    pairs_per_unit = 1
    periods_per_unit = len(Arm)

    def arms(self, seed: int, slot: Slot) -> Tuple[Arm, ...]:
        """The arms of a slot: of the drive, and in a factorial of the other one."""
        return (slot.arm(seed),)

    def pairs(self, setup: ExperimentSetup, periods: Periods) -> Tuple[Pair, ...]:
        """The complete pairs among `periods`, in order; what is not whole is left out."""
        found: List[Pair] = []
        for index in range(setup.pairs_max):
            first, second = periods.get(Slot(index, False)), periods.get(Slot(index, True))
            if first is None or second is None:
                break
            by_arm = {first.arm: first, second.arm: second}
            found.append(Pair(index, first.arm, by_arm[Arm.A], by_arm[Arm.B]))
        return tuple(found)

    def wants_recheck(self, setup: ExperimentSetup, periods: Periods) -> bool:
        """Whether the arms lie so far apart that a transient may be what does it."""
        return apart_ln(self.pairs(setup, periods)) >= MATERIAL_LN

    def check_period(self, period: Period) -> None:
        """Raise MalformedError for a period of another design."""
        if period.crossed is not None:
            raise MalformedError("the record's periods are from a factorial, but its setup is not")

    def check_turns(self, pairs: Sequence[Pair]) -> None:
        """Raise MalformedError where a period began before its turn."""
        last_s = float("-inf")
        for pair in sorted(pairs, key=lambda pair: pair.index):
            in_turn = list(pair.periods)
            if pair.first is Arm.B:
                in_turn.reverse()
            for period in in_turn:
                if period.started_at_s < last_s:
                    raise MalformedError(f"a period of pair {pair.index} started out of order")
                last_s = period.started_at_s

    def check_order(self, seed: int, pairs: Sequence[Pair]) -> None:
        """Raise MalformedError where periods came in another order than the seed gives."""
        for pair in pairs:
            if pair.first is not coin(seed, pair.index):
                raise MalformedError(f"pair {pair.index} is not in the order of the record's seed")


class Factorial(Design):
    """Two drives of one OSD: four periods, one in each combination of modes, are the unit."""

    unit = "replicates of 4 periods"
    crosses = True
    pairs_per_unit = factorial.PAIRS_PER_REPLICATE
    periods_per_unit = len(factorial.CELLS)

    def arms(self, seed: int, slot: Slot) -> Tuple[Arm, ...]:
        """Give both drives their arms, equal in a settling check: either transient shows."""
        if slot.checks:
            return (slot.arm(seed), slot.arm(seed))
        replicate, place = divmod(slot.number, self.periods_per_unit)
        return factorial.order(seed, replicate)[place]

    def pairs(self, setup: ExperimentSetup, periods: Periods) -> Tuple[Pair, ...]:
        """Make pairs of periods that need not be neighbours.

        Of a replicate first the pair in which the other drive was in write back, then the one in
        which it was in write through.
        """
        found: List[Pair] = []
        for index in range(0, setup.pairs_max - 1, self.pairs_per_unit):
            four = [Slot(at, second) for at in (index, index + 1) for second in (False, True)]
            if any(slot not in periods for slot in four):
                break
            at = {
                (periods[slot].arm, factorial.crossed_arm(periods[slot])): slot for slot in four
            }
            for number, other in enumerate(Arm, index):
                a, b = (at[(arm, other)] for arm in Arm)
                first = Arm.A if a.number < b.number else Arm.B
                found.append(Pair(number, first, periods[a], periods[b]))
        return tuple(found)

    def wants_recheck(self, setup: ExperimentSetup, periods: Periods) -> bool:
        """Ask for it always: either of the two drives may be the one that differs."""
        return True

    def check_period(self, period: Period) -> None:
        factorial.crossed_arm(period)

    def check_turns(self, pairs: Sequence[Pair]) -> None:
        """Check nothing: turns are part of the order here."""

    def check_order(self, seed: int, pairs: Sequence[Pair]) -> None:
        """Compare with the seed's order; the record may be about either drive of the factorial."""
        for first, second in factorial.replicates(pairs):
            four = sorted(
                (p for pair in (first, second) for p in pair.periods),
                key=lambda period: period.started_at_s,
            )
            found = tuple((period.arm, factorial.crossed_arm(period)) for period in four)
            wanted = factorial.order(seed, first.index // len(Arm))
            if found not in (wanted, tuple((other, arm) for arm, other in wanted)):
                raise MalformedError(
                    f"the periods of pairs {first.index} and {second.index} are not in the order "
                    "of the record's seed"
                )


_PAIRED, _CROSSED = Design(), Factorial()


def design_of(setup: ExperimentSetup) -> Design:
    """The design of an experiment."""
    return _PAIRED if setup.crossed is None else _CROSSED
