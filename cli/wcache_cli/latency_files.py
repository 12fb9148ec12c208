"""Latencies out of what other tools write: fio JSON, fio latency logs, plain text.

fio's JSON has a module of its own; its logs say for each write when, how long, which
direction and how much (fio: iolog.c `flush_samples`).
"""

from __future__ import annotations

import math
from typing import Dict, List, Set

from wcache.analysis.runs import COLUMN_SHARES, LATENCY_MIN_US, STALLS, Figures, Run
from wcache.core.errors import MalformedError

from .files import read_text
from .fio_json import SAMPLES_MAX, fio_json, number
from .fio_settings import AVERAGED, BLOCK_SIZE, SYNCS_ADDED

UNITS: Dict[str, float] = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}
FILE_BYTES_MAX = 512 * 2**20
WRITE_DIRECTION = 1  # fio logs: 0 read, 1 write, 2 trim


def read_latencies(path: str, unit: str) -> Run:
    """The write latencies in a file; MalformedError says what is wrong and where."""
    text = read_text(path, FILE_BYTES_MAX)
    start = _json_start(text)
    if start >= 0:
        return fio_json(path, text[start:])
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            return _fio_log(path, text) if "," in line else _plain(path, text, UNITS[unit])
    raise MalformedError(f"{path} holds no latencies")


def _json_start(text: str) -> int:
    """Where a JSON object begins; fio may print warnings in front of it.  -1: no JSON."""
    if text.lstrip().startswith("{"):
        return text.index("{")
    place = text.find("\n{", 0, 65_536)
    return place + 1 if place >= 0 else -1


def _plain(path: str, text: str, factor: float) -> Run:
    values = []
    for line_number, line in enumerate(text.splitlines(), 1):
        word = line.strip()
        if not word or word.startswith("#"):
            continue
        values.append(_latency(word, path, line_number, factor))
        _bounded(path, len(values))
    return Run(path, values)


def _fio_log(path: str, text: str) -> Run:
    """`msec, latency in ns, direction, block size, offset[, priority...]`, writes only."""
    values: List[float] = []
    ordered, last_ms = True, -math.inf
    sizes: Set[str] = set()
    for line_number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        fields = [field.strip() for field in line.split(",")]
        if len(fields) < 4:
            raise MalformedError(
                f"{path}, line {line_number}: a fio latency log has 4 or more fields, "
                f"this {len(fields)}"
            )
        if fields[2] == str(WRITE_DIRECTION):
            at_ms = number(path, fields[0])
            ordered, last_ms = ordered and at_ms >= last_ms, at_ms  # several jobs may follow
            values.append(_latency(fields[1], path, line_number, 1e-3))
            if len(sizes) < 2:
                sizes.add(fields[3])
            _bounded(path, len(values))
    if not values:
        raise MalformedError(f"{path} is a fio log without writes")
    # what a log has for a period instead of a write has no size (stat.c `__add_stat_to_log`)
    averaged = sizes == {"0"}
    settings = {SYNCS_ADDED: "no", AVERAGED: "set" if averaged else "not set"}
    if averaged:
        return Run(
            path, values, ordered, Figures(len(values)), frozenset({*COLUMN_SHARES, STALLS}),
            settings, ("averaged",),
        )
    if len(sizes) == 1:
        settings[BLOCK_SIZE] = sizes.pop()
    return Run(path, values, ordered, settings=settings)


def _latency(word: str, path: str, line_number: int, factor: float) -> float:
    try:
        value = float(word)
    except ValueError:
        raise MalformedError(f"{path}, line {line_number}: {word[:30]!r} is no number") from None
    if not (math.isfinite(value) and value > 0):
        raise MalformedError(f"{path}, line {line_number}: a latency must be above 0")
    if value * factor < LATENCY_MIN_US:
        raise MalformedError(
            f"{path}, line {line_number}: a latency of less than a picosecond", "check --unit"
        )
    return value * factor


def _bounded(path: str, count: int) -> None:
    if count > SAMPLES_MAX:
        raise MalformedError(f"{path} holds more than {SAMPLES_MAX} latencies")
