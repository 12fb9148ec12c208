"""Measures all cells in both cache modes, in pairs by a seeded coin, and puts back what was.

The journal, the order of steps and the lock are those of a lease: after a crash the next
start of the probe, or `wcache-probe restore --all`, brings back the prior state.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Callable, Dict, List, Optional, Tuple

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


class MatrixMeasurement:
    """One matrix on one scratch device."""

    def __init__(
        self, *, host: DriveHost, switcher: Switcher, scratch: Scratch, plan: Plan,
        stop: StopSignal, say: Callable[[str], None], fio_path: Optional[str],
    ) -> None:
        self._host = host
        self._switcher = switcher
        self._scratch = scratch
        self._plan = plan
        self._stop = stop
        self._say = say
        self._fio = fio_path
        self._skipped: Dict[Cell, str] = {}
        self._writes = 0
        self._skipped.update({cell: "not asked for" for cell in CELLS if cell not in plan.only})
        if fio_path is None:
            why = IN_PIECES if scratch.whole else NO_FIO
            self._skipped.update({cell: why for cell in plan.only if cell.depth > 1})

    def run(self) -> Matrix:
        """Measure until all pairs are done or it has to stop; the prior state is back then.

        Raises the WcacheError that ended it before a whole pair, or that kept it from
        restoring.
        """
        pairs: List[MatrixPair] = []
        ended = "done"
        try:
            # held read-only: other programs that write to a drive make it a shared one
            with self._scratch.held():
                self._scratch.claim()
                for index in range(self._plan.pairs):
                    pairs.append(self._pair(index))
        except WcacheError as error:
            if not pairs:
                raise
            ended = error.message
        finally:
            self._restore()
        drive, plan = self._scratch.drive, self._plan
        return Matrix(
            MATRIX_FORMAT, MATRIX_VERSION, plan.matrix_id, plan.hostname,
            self._scratch.device.name, drive.domain_id, drive.drive_id, drive.drive_model,
            drive.transport, drive.rotational, plan.seed, SETTLE_S, plan.cell_s, plan.pairs,
            tuple(pairs),
            tuple(Skipped(cell, why) for cell, why in self._skipped.items()),
            self._writes * WRITE_BYTES, ended, self._scratch.whole,
        )

    def run_long(self, seconds: float) -> Tuple[LongCell, ...]:
        """Single writes for so long in each mode, with as long a rest between.

        The prior state is back when it returns; a mode that was not ended is left out.
        """
        cells: List[LongCell] = []
        first = coin(self._plan.seed, 0)
        try:
            with self._scratch.held():
                self._scratch.claim()
                for mode in (first, first.other):
                    if cells:
                        self._say(f"resting {seconds:g} s, so that caches can empty")
                        self._stop.wait(seconds)
                    self._say(f"{mode.value}: {seconds:g} s of single writes")
                    before = self._set(mode)
                    found = self._long(mode, seconds)
                    if tuple(self._host.state(drive) for drive in self._drives()) != before:
                        raise RefusedError(CHANGED, FIND)
                    if self._stop.is_set():
                        break
                    cells.append(found)
        finally:
            self._restore()
        return tuple(sorted(cells, key=lambda cell: cell.mode.value))

    def _long(self, mode: CacheMode, seconds: float) -> LongCell:
        checked_at = time.monotonic()
        with single(self._scratch, self._plan.seed) as write:

            def one() -> None:
                nonlocal checked_at
                if time.monotonic() - checked_at > LONG_CHECK_S:
                    self._scratch.check()
                    checked_at = time.monotonic()
                write()

            return sustained.run(mode, seconds, one, self._stop.is_set)

    def _pair(self, index: int) -> MatrixPair:
        first = coin(self._plan.seed, index)
        found = {}
        for mode in (first, first.other):
            self._say(f"pair {index + 1} of {self._plan.pairs}: {mode.value}")
            found[mode] = self._period(index, mode)
        return MatrixPair(
            index, first, found[CacheMode.WRITE_BACK], found[CacheMode.WRITE_THROUGH]
        )

    def _period(self, index: int, mode: CacheMode) -> MatrixPeriod:
        started_at_s, begin = time.time(), time.monotonic()
        before = self._set(mode)
        self._stop.wait(SETTLE_S)
        cells: List[CellSamples] = []
        for number, cell in enumerate(cells_of(self._plan.seed, index)):
            if self._stop.is_set():
                raise NotReadyError("stopped")
            found = self._measure(cell, len(CELLS) * index + number)
            if found is not None:
                self._writes += found.writes
                cells.append(found)
        after = tuple(self._host.state(drive) for drive in self._drives())
        if after != before:
            raise RefusedError(CHANGED, FIND)
        return MatrixPeriod(
            mode, started_at_s, time.monotonic() - begin, before, after, tuple(cells)
        )

    def _measure(self, cell: Cell, seed: int) -> Optional[CellSamples]:
        if cell in self._skipped:
            return None
        self._scratch.check()
        if cell.depth == 1 or self._fio is None:
            return measure(self._scratch, cell, self._plan.cell_s, seed)
        try:
            return measure_deep(
                self._fio, self._scratch, cell, self._plan.cell_s, seed, self._stop
            )
        except WcacheError as error:
            if self._stop.is_set():
                raise
            # an older fio, or one without libaio: the other cells can still be measured
            self._skipped[cell] = error.message
            self._say(f"not measured: {cell.pattern.value}, {cell.sync.value}, depth "
                      f"{cell.depth}: {error.message}")
            return None

    # ---- the cache mode

    def _drives(self) -> Tuple[DriveReport, ...]:
        return self._host.domain(self._scratch.drive.domain_id)

    def _set(self, mode: CacheMode) -> Tuple[DriveState, ...]:
        """Put the drive into a mode; returns its state then."""
        domain_id = self._scratch.drive.domain_id
        surveyed = self._drives()
        with self._switcher.alone(domain_id):
            drives = self._host.anew(surveyed)
            entry = self._switcher.entry(EntryKind.LEASE, domain_id)
            if entry is not None and entry.owner_id != self._plan.matrix_id:
                raise ConflictError(
                    f"lease {entry.owner_id} still holds {domain_id}",
                    "restore it first: `wcache-probe restore --all`",
                )
            done = self._switcher.run(domain_id, toggle.lease_set(
                drives, entry, lease_id=self._plan.matrix_id, mode=mode, now_s=time.time(),
                throwaway=self._scratch.is_loop,
                consent_turn_on=self._plan.consent_turn_on,
            ))
        return done.after

    def _restore(self) -> None:
        """Bring back what was there before; raises where that fails."""
        if self._switcher.put_back(self._scratch.drive.domain_id, self._plan.matrix_id):
            self._say("prior cache mode restored")
