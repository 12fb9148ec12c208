"""Measures all cells of a matrix in both cache modes, in pairs by a seeded coin.

The journal, the order of steps and the lock are those of a lease: after a crash the next
start of the probe, or `wcache-probe restore --all`, brings back the prior state.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Callable, List, Optional, Tuple

from wcache.core.drive.journal import EntryKind
from wcache.core.errors import ConflictError, NotReadyError, RefusedError, WcacheError
from wcache.core.experiment.design import coin
from wcache.core.experiment.matrix import (
    CELLS,
    MATRIX_FORMAT,
    MATRIX_VERSION,
    WRITE_BYTES,
    Cell,
    CellSamples,
    Matrix,
    MatrixPair,
    MatrixPeriod,
    Skipped,
    cells_of,
)
from wcache.core.model import CacheMode, DriveReport, DriveState
from wcache.core.options.entries import mode_of_arm
from wcache.core.ports import DriveHost

from ..stop_signal import StopSignal
from ..switcher import Switcher
from ..switching import toggle
from . import sustained
from .cells import measure, measure_deep, single
from .scratch import Scratch
from .sustained import LongCell

SETTLE_S = 0.5
NO_FIO = "fio is not installed, and deep queues need it"
IN_PIECES = "with --span the space lies in pieces, which fio does not fill a queue over"
CHANGED = "something else changed the cache mode"
FIND = "look for a udev rule, tuned or a cron job that sets write caches; then start again"
LONG_CHECK_S = 1.0  # how often it is looked whether somebody else has taken the device


@dataclass(frozen=True)
class Plan:
    """What is measured, and what was consented to."""

    matrix_id: str
    hostname: str
    pairs: int
    cell_s: float
    seed: int
    consent_turn_on: bool
    only: Tuple[Cell, ...] = CELLS


@dataclass
class MatrixMeasurement:
    """One matrix on one scratch device."""

    host: DriveHost
    switcher: Switcher
    scratch: Scratch
    plan: Plan
    stop: StopSignal
    say: Callable[[str], None]
    fio_path: Optional[str]
    _writes: int = 0

    def __post_init__(self) -> None:
        self._skipped = {cell: "not asked for" for cell in CELLS if cell not in self.plan.only}
        if self.fio_path is None:
            why = IN_PIECES if self.scratch.whole else NO_FIO
            self._skipped.update({cell: why for cell in self.plan.only if cell.depth > 1})

    def run(self) -> Matrix:
        """Measure until all pairs are done or it has to stop; the prior state is back then.

        Raises the WcacheError that ended it before a whole pair, or that kept it from
        restoring.
        """
        pairs: List[MatrixPair] = []
        ended = "done"
        try:
            # held read-only: other programs that write to a drive make it a shared one
            with self.scratch.held():
                self.scratch.claim()
                for index in range(self.plan.pairs):
                    pairs.append(self._pair(index))
        except WcacheError as error:
            if not pairs:
                raise
            ended = error.message
        finally:
            self._restore()
        drive, plan = self.scratch.drive, self.plan
        return Matrix(
            MATRIX_FORMAT, MATRIX_VERSION, plan.matrix_id, plan.hostname,
            self.scratch.device.name, drive.domain_id, drive.drive_id, drive.drive_model,
            drive.transport, drive.rotational, plan.seed, SETTLE_S, plan.cell_s, plan.pairs,
            tuple(pairs),
            tuple(Skipped(cell, why) for cell, why in self._skipped.items()),
            self._writes * WRITE_BYTES, ended, self.scratch.whole,
        )

    def run_long(self, seconds: float) -> Tuple[LongCell, ...]:
        """Single writes for so long in each mode, with as long a rest between.

        The prior state is back when it returns; a mode that was not ended is left out.
        """
        cells: List[LongCell] = []
        first = mode_of_arm(coin(self.plan.seed, 0))
        try:
            with self.scratch.held():
                self.scratch.claim()
                for mode in (first, first.other):
                    if cells:
                        self.say(f"resting {seconds:g} s, so that caches can empty")
                        self.stop.wait(seconds)
                    self.say(f"{mode.value}: {seconds:g} s of single writes")
                    before = self._set(mode)
                    found = self._long(mode, seconds)
                    if tuple(self.host.state(drive) for drive in self._drives()) != before:
                        raise RefusedError(CHANGED, FIND)
                    if self.stop.is_set():
                        break
                    cells.append(found)
        finally:
            self._restore()
        return tuple(sorted(cells, key=lambda cell: cell.mode.value))

    def _long(self, mode: CacheMode, seconds: float) -> LongCell:
        checked_at = time.monotonic()
        with single(self.scratch, self.plan.seed) as write:

            def one() -> None:
                nonlocal checked_at
                if time.monotonic() - checked_at > LONG_CHECK_S:
                    self.scratch.check()
                    checked_at = time.monotonic()
                write()

            return sustained.run(mode, seconds, one, self.stop.is_set)

    def _pair(self, index: int) -> MatrixPair:
        first = mode_of_arm(coin(self.plan.seed, index))
        found = {}
        for mode in (first, first.other):
            self.say(f"pair {index + 1} of {self.plan.pairs}: {mode.value}")
            found[mode] = self._period(index, mode)
        return MatrixPair(
            index, first, found[CacheMode.WRITE_BACK], found[CacheMode.WRITE_THROUGH]
        )

    def _period(self, index: int, mode: CacheMode) -> MatrixPeriod:
        started_at_s, begin = time.time(), time.monotonic()
        before = self._set(mode)
        self.stop.wait(SETTLE_S)
        cells: List[CellSamples] = []
        for number, cell in enumerate(cells_of(self.plan.seed, index)):
            if self.stop.is_set():
                raise NotReadyError("stopped")
            found = self._measure(cell, len(CELLS) * index + number)
            if found is not None:
                self._writes += found.writes
                cells.append(found)
        after = tuple(self.host.state(drive) for drive in self._drives())
        if after != before:
            raise RefusedError(CHANGED, FIND)
        return MatrixPeriod(
            mode, started_at_s, time.monotonic() - begin, before, after, tuple(cells)
        )

    def _measure(self, cell: Cell, seed: int) -> Optional[CellSamples]:
        if cell in self._skipped:
            return None
        self.scratch.check()
        if cell.depth == 1 or self.fio_path is None:
            return measure(self.scratch, cell, self.plan.cell_s, seed)
        try:
            return measure_deep(
                self.fio_path, self.scratch, cell, self.plan.cell_s, seed, self.stop
            )
        except WcacheError as error:
            if self.stop.is_set():
                raise
            # an older fio, or one without libaio: the other cells can still be measured
            self._skipped[cell] = error.message
            self.say(f"not measured: {cell.pattern.value}, {cell.sync.value}, depth "
                      f"{cell.depth}: {error.message}")
            return None

    # ---- the cache mode

    def _drives(self) -> Tuple[DriveReport, ...]:
        return self.host.domain(self.scratch.drive.domain_id)

    def _set(self, mode: CacheMode) -> Tuple[DriveState, ...]:
        """Put the drive into a mode; returns its state then."""
        domain_id = self.scratch.drive.domain_id
        surveyed = self._drives()
        with self.switcher.alone(domain_id):
            drives = self.host.anew(surveyed)
            entry = self.switcher.entry(EntryKind.LEASE, domain_id)
            if entry is not None and entry.owner_id != self.plan.matrix_id:
                raise ConflictError(
                    f"lease {entry.owner_id} still holds {domain_id}",
                    "restore it first: `wcache-probe restore --all`",
                )
            done = self.switcher.run(domain_id, toggle.lease_set(
                drives, entry, lease_id=self.plan.matrix_id, mode=mode, now_s=time.time(),
                throwaway=self.scratch.is_loop,
                consent_turn_on=self.plan.consent_turn_on, lost=self.host.lost_writes(),
            ))
        return done.after

    def _restore(self) -> None:
        """Bring back what was there before; raises where that fails."""
        if self.switcher.put_back(self.scratch.drive.domain_id, self.plan.matrix_id):
            self.say("prior cache mode restored")
