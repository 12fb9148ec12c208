"""A long run of single writes: how fast they are over time, where a cache of the drive ends.

A media cache or an SLC cache takes writes until it is full; what a drive does then is what it
does under a lasting load.  Short cells do not see it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median
from typing import Callable, ClassVar, List, Optional, Tuple

from wcache.core.experiment.matrix import WRITE_BYTES
from wcache.core.loads import MATERIAL_RATIO
from wcache.core.model import CacheMode
from wcache.core.text import amount, duration, table

SLICES = 60
# A fall to less than this part is where a cache ends, and no noise.
FALL = 0.7
BEFORE_MIN = AFTER_MIN = 5  # slices on either side of it
SUSTAINED_FORMAT = "wcache.sustained"
SUSTAINED_VERSION = 1


@dataclass(frozen=True)
class Slice:
    """Writes that ended in one stretch of time, and how long that took."""

    seconds: float
    writes: int

    @property
    def rate(self) -> float:
        """Writes per second."""
        return self.writes / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True)
class LongCell:
    """One mode: its slices in order, and the one from which on it is slower (None: nowhere)."""

    mode: CacheMode
    slices: Tuple[Slice, ...]
    falls_at: Optional[int]

    @property
    def early(self) -> float:
        """Writes per second before it falls; of all where it does not."""
        return median(one.rate for one in self.slices[: self.falls_at])

    @property
    def late(self) -> float:
        """Writes per second after it fell; of all where it does not."""
        return median(one.rate for one in self.slices[self.falls_at or 0 :])

    @property
    def until_s(self) -> float:
        """How long it was fast."""
        return sum(one.seconds for one in self.slices[: self.falls_at])

    @property
    def until_bytes(self) -> int:
        """How much it took while it was fast."""
        return WRITE_BYTES * sum(one.writes for one in self.slices[: self.falls_at])


@dataclass(frozen=True)
class Sustained:
    """Both modes of a drive; JSON-ready with `codec`."""

    VERSION: ClassVar[int] = SUSTAINED_VERSION
    format: str
    version: int
    hostname: str
    scratch: str
    drive_id: str
    drive_model: str
    seconds: float
    cells: Tuple[LongCell, ...]


def run(
    mode: CacheMode, seconds: float, write: Callable[[], None], stopped: Callable[[], bool],
    clock: Callable[[], float] = time.monotonic,
) -> LongCell:
    """Write for so long, or until it is stopped."""
    each_s = seconds / SLICES
    found: List[Slice] = []
    begin = now = clock()
    while now - begin < seconds and len(found) < SLICES and not stopped():
        start, writes = now, 0
        while now - start < each_s and not stopped():
            write()
            writes += 1
            now = clock()
        found.append(Slice(now - start, writes))
    return LongCell(mode, tuple(found), falls_at(found))


def falls_at(slices: List[Slice]) -> Optional[int]:
    """The slice from which on the rate stays below FALL of what it was; the largest fall."""
    rates = [one.rate for one in slices]
    best: Optional[int] = None
    deepest = FALL
    for at in range(BEFORE_MIN, len(rates) - AFTER_MIN + 1):
        before, after = median(rates[:at]), median(rates[at:])
        # a stall in between is none: all of the rest has to be slow
        if before > 0 and max(rates[at:]) < before and after / before < deepest:
            best, deepest = at, after / before
    return best


def lines(cells: Tuple[LongCell, ...]) -> List[str]:
    """What was found, in a table and in words."""
    rows = [
        (
            cell.mode.value, f"{cell.early:.4g}", f"{cell.late:.4g}",
            "-" if cell.falls_at is None else duration(cell.until_s),
            "-" if cell.falls_at is None else amount(cell.until_bytes),
        )
        for cell in cells
    ]
    heads = ("MODE", "FIRST writes/s", "LATER writes/s", "FALLS AFTER", "WRITTEN BY THEN")
    said = [table(heads, rows)]
    if len(cells) < len(CacheMode):
        return said
    early, late = (_better([(cell.mode, rate) for cell, rate in zip(cells, rates)]) for rates in (
        [cell.early for cell in cells], [cell.late for cell in cells]
    ))
    if all(cell.falls_at is None for cell in cells):
        return [*said, f"no cache of the drive ended in this time; faster: {early}"]
    turned = "; the faster mode changes" if early != late else ""
    return [*said, f"faster at first: {early}; faster after a cache of the drive is full: {late}"
            + turned]


def _better(rates: List[Tuple[CacheMode, float]]) -> str:
    (mode, best), (_, other) = sorted(rates, key=lambda item: -item[1])
    return mode.value if best > MATERIAL_RATIO * other else "neither"
