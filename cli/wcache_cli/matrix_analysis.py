"""Decide each cell of a write+sync matrix: evidence about a drive, never a verdict for an OSD."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Tuple

from wcache.analysis import summary
from wcache.analysis.decision import Materiality
from wcache.core.errors import MalformedError
from wcache.core.experiment.design import coin
from wcache.core.experiment.matrix import (
    CELLS,
    MATRIX_FORMAT,
    MATRIX_VERSION,
    PAIRS_MIN,
    Cell,
    CellSamples,
    Matrix,
    MatrixPeriod,
)
from wcache.core.model import CacheMode, Verdict
from wcache.core.options.entries import CACHE_MODES, mode_of_arm
from wcache.core.verdict import sequential
from wcache.core.verdict.sequential import DECIDE_ALPHA, SAME_ALPHA, Interval, ratio, rounded

MATRIX_RESULT_FORMAT = "wcache.matrix_result"
MATRIX_RESULT_VERSION = 1


def analyse(matrix: Matrix, options: Materiality) -> Dict[str, Any]:
    """Return the result of a matrix as plain data; MalformedError where it contradicts itself.

    The number of pairs was fixed beforehand, so the ordinary t interval holds.
    """
    _check(matrix)
    return {
        "format": MATRIX_RESULT_FORMAT,
        "version": MATRIX_RESULT_VERSION,
        "matrix_id": matrix.matrix_id,
        "hostname": matrix.hostname,
        "scratch": matrix.scratch,
        "drive_model": str(matrix.drive_model),
        "transport": matrix.transport.value,
        "pairs": len(matrix.pairs),
        "bytes_written": matrix.bytes_written,
        "ended": matrix.ended,
        "material_ratio": options.material_ratio,
        "cells": [found for cell in CELLS for found in _cell(matrix, cell, options)],
        "skipped": [
            {**_named(item.cell), "why": item.why} for item in matrix.skipped
        ],
    }


def _check(matrix: Matrix) -> None:
    if (matrix.format, matrix.version) != (MATRIX_FORMAT, MATRIX_VERSION):
        raise MalformedError(
            f"the matrix is {matrix.format!r} version {matrix.version}; "
            f"this reads {MATRIX_FORMAT!r} version {MATRIX_VERSION}"
        )
    if [pair.index for pair in matrix.pairs] != list(range(len(matrix.pairs))):
        raise MalformedError("the pairs of the matrix are not numbered from 0")
    for pair in matrix.pairs:
        if pair.first is not mode_of_arm(coin(matrix.seed, pair.index)):
            raise MalformedError(f"pair {pair.index} is not in the order of the matrix's seed")
        back, through = pair.write_back, pair.write_through
        if back.mode is not CacheMode.WRITE_BACK or through.mode is not CacheMode.WRITE_THROUGH:
            raise MalformedError(f"the periods of pair {pair.index} have the wrong modes")
        _check_cells(back)
        _check_cells(through)


def _check_cells(period: MatrixPeriod) -> None:
    cells = [item.cell for item in period.cells]
    if len(set(cells)) < len(cells) or not set(cells) <= set(CELLS):
        raise MalformedError("a period of the matrix has a duplicate or unknown cell")
    if any(not item.samples_ns or min(item.samples_ns) <= 0 for item in period.cells):
        raise MalformedError("a cell of the matrix has no samples above 0")


def _cell(matrix: Matrix, cell: Cell, options: Materiality) -> List[Dict[str, Any]]:
    """Return the result of a cell; nothing where it was not measured."""
    both = [
        (back, through) for pair in matrix.pairs
        for back in _of(pair.write_back, cell) for through in _of(pair.write_through, cell)
    ]
    if not both:
        return []
    levels = [(_log_median(back), _log_median(through)) for back, through in both]
    logs = [back - through for back, through in levels]
    better, far = _decide(logs, options)
    return [{
        **_named(cell),
        "pairs": len(logs),
        "better": CACHE_MODES.said(better),
        "ratio": ratio(far.mean),
        "ratio_low": ratio(far.low),
        "ratio_high": ratio(far.high),
        "per_mode": {
            mode.value: {
                **summary.latencies([ns / 1e3 for item in periods for ns in item.samples_ns]),
                # both have the ratio: the geometric mean of the periods' medians
                "level_us": rounded(math.exp(math.fsum(own) / len(own)) / 1e3),
            } for mode, periods, own in zip(CacheMode, zip(*both), zip(*levels))
        },
    }]


def _decide(logs: List[float], options: Materiality) -> Tuple[Verdict, Interval]:
    """Return what the cell shows, and the 99% interval of its log ratio."""
    far, near = (_interval(logs, alpha) for alpha in (DECIDE_ALPHA, SAME_ALPHA))
    if len(logs) < PAIRS_MIN:
        return Verdict.INSUFFICIENT, far
    return sequential.verdict(far, near, options.margin), far


def _interval(logs: List[float], alpha: float) -> Interval:
    """Return the t interval of the mean at level 1 - alpha; everything where there is one pair."""
    seen = sequential.moments(logs)
    if seen.n < 2:
        return Interval(seen.mean, -math.inf, math.inf)
    error = max(seen.sd, sequential.SD_FLOOR) / math.sqrt(seen.n)
    half = summary.student(seen.n - 1, alpha) * error
    return Interval(seen.mean, seen.mean - half, seen.mean + half)


def _of(period: MatrixPeriod, cell: Cell) -> List[CellSamples]:
    return [item for item in period.cells if item.cell == cell]


def _log_median(found: CellSamples) -> float:
    return math.log(summary.median(found.samples_ns))


def _named(cell: Cell) -> Dict[str, Any]:
    return {"pattern": cell.pattern.value, "sync": cell.sync.value, "depth": cell.depth}
