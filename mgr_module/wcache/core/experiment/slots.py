"""Where a period stands in its experiment: in a pair, or in a settling check beside the pairs."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Dict, Union

from ..model import CacheMode
from ..record import Period

# The settling checks, in the order in which they may come; rechecks are numbered from here on.
FIRST_CHECK, LONG_CHECK, RECHECK = 0, 1, 2
# Stored periods are numbered: those of pairs by their pair, those of settling checks from here on.
_CHECKS_STORED_FROM = 1000


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
        return _mode(seed, self)

    @property
    def stored_index(self) -> int:
        """The number under which its period is stored."""
        return self.pair_index


FIRST = Slot(0, False)


@dataclass(frozen=True)
class CheckSlot:
    """The place of one period of a settling check, which has one in each mode."""

    check: int
    second: bool

    def mode(self, seed: int) -> CacheMode:
        """The cache mode that it begins with a toggle to."""
        return _mode(seed, self)

    @property
    def stored_index(self) -> int:
        """The number under which its period is stored."""
        return _CHECKS_STORED_FROM + self.check


AnySlot = Union[Slot, CheckSlot]
Periods = Dict[AnySlot, Period]
"""The finished periods of one experiment."""


def slot_at(stored_index: int, second: bool) -> AnySlot:
    """The slot whose period is stored under that number."""
    if stored_index >= _CHECKS_STORED_FROM:
        return CheckSlot(stored_index - _CHECKS_STORED_FROM, second)
    return Slot(stored_index, second)


def _mode(seed: int, slot: AnySlot) -> CacheMode:
    first = coin(seed, slot.stored_index)
    return first.other if slot.second else first
