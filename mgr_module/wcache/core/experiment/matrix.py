"""The write+sync matrix of scratch space: what a drive does with each way to write.

Two patterns, three ways to sync and two queue depths make twelve cells, each measured in
both cache modes.  It is evidence about a drive and never a verdict for an OSD: no cell of
it is what BlueStore does.  Version 1 is this file; a reader refuses what it does not know.
"""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar, Optional, Tuple

from ..model import CacheMode, DriveModel, DriveState, Transport

MATRIX_FORMAT = "wcache.matrix"
MATRIX_VERSION = 1
WRITE_BYTES = 4096
SAMPLES_MAX = 512  # of a cell in a period
PAIRS_MIN, PAIRS_MAX = 4, 40


class Pattern(str, Enum):
    """Where writes go."""

    SEQUENTIAL = "sequential"
    RANDOM = "random"


class Sync(str, Enum):
    """What makes a write durable: nothing, fdatasync(2) after it, or O_DSYNC on it."""

    NONE = "none"
    FDATASYNC = "fdatasync"
    DSYNC = "O_DSYNC"


DEPTHS = (1, 128)


@dataclass(frozen=True)
class Cell:
    """One way to write; at depth 1 a sample is a write with its sync."""

    pattern: Pattern
    sync: Sync
    depth: int


CELLS = tuple(
    Cell(pattern, sync, depth) for depth in DEPTHS for pattern in Pattern for sync in Sync
)


@dataclass(frozen=True)
class CellSamples:
    """A cell in one period: at depth 1 ns of each write with its sync.

    Deeper it is one sample, the time over the writes done in it: that is throughput.
    """

    cell: Cell
    samples_ns: Tuple[int, ...] = field(metadata={"max_items": SAMPLES_MAX})
    writes: int
    seconds: float


@dataclass(frozen=True)
class MatrixPeriod:
    """All cells in one cache mode, in the order of `cells_of`."""

    mode: CacheMode
    started_at_s: float  # wall clock
    seconds: float
    state_before: Tuple[DriveState, ...]
    state_after: Tuple[DriveState, ...]
    cells: Tuple[CellSamples, ...]


@dataclass(frozen=True)
class MatrixPair:
    """Two adjacent periods, one in each mode; `first` was chosen by the seeded coin."""

    index: int
    first: CacheMode
    write_back: MatrixPeriod
    write_through: MatrixPeriod


@dataclass(frozen=True)
class Skipped:
    """A cell that was not measured, and why."""

    cell: Cell
    why: str


@dataclass(frozen=True)
class Matrix:
    """One finished matrix: raw samples and all that deciding needs."""

    VERSION: ClassVar[int] = MATRIX_VERSION
    format: str
    version: int
    matrix_id: str
    hostname: str
    scratch: str
    domain_id: str
    drive_id: str
    drive_model: DriveModel
    transport: Transport
    rotational: Optional[bool]
    seed: int
    settle_s: float
    cell_s: float
    pairs_max: int
    pairs: Tuple[MatrixPair, ...]
    skipped: Tuple[Skipped, ...]
    bytes_written: int
    ended: str
    whole: bool = False  # in pieces over the whole device, and not in one stretch


def cells_of(seed: int, pair_index: int) -> Tuple[Cell, ...]:
    """The order of the cells in both periods of a pair: shuffled, the same in every release.

    A cell is affected by what was written before it; in another order each time, no cell
    always follows the same one, and within a pair both modes are treated alike.
    """
    digest = hashlib.sha256(f"wcache matrix {seed} {pair_index}".encode()).digest()
    cells = list(CELLS)
    # random.Random.random() is the same in all versions, shuffle() need not be
    draw = random.Random(int.from_bytes(digest[:8], "big"))
    keys = {cell: draw.random() for cell in cells}
    return tuple(sorted(cells, key=keys.__getitem__))
