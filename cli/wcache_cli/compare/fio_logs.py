"""fio's latency logs: --write_lat_log=PREFIX leaves a file for each job.

A job's file says for each write when, how long, which direction and how much (fio: iolog.c
`flush_samples`).  The jobs of one fio run wrote at the same time to the same drive, so they are
one measurement, its latencies in the order in which they were logged.
"""

from __future__ import annotations

import math
import os
import re
from array import array
from dataclasses import dataclass
from typing import Dict, FrozenSet, Iterable, List, Sequence, Set, Tuple

from wcache.core.errors import MalformedError

from .fio_json import number
from .fio_settings import AVERAGED, BLOCK_SIZE, JOBS_LOGGED, LATENCIES, SYNCS_ADDED, UNTOLD_SYNCS
from .latency_file import COLUMN_SHARES, LATENCY_MIN_US, STALLS, Figures, LatencyFile, by_time

# Of all files of a comparison together: they are held in memory, and that often twice.
LATENCIES_MAX = 10_000_000
WRITE_DIRECTION = 1  # 0 read, 1 write, 2 trim
# PREFIX_lat.N.log of job N; without the number where per_job_logs=0 (fio: backend.c, iolog.c)
NAME = re.compile(r"(.+)_(lat|clat|slat)(?:\.[0-9]+)?\.log", re.DOTALL)
WHOLE = "lat"
SUBMISSION = "slat"


@dataclass(frozen=True)
class Log:
    """One job's writes: when in ms, how long in us, and the sizes seen, at most two."""

    path: str
    at_ms: Sequence[float]
    latencies_us: Sequence[float]
    ordered: bool
    sizes: FrozenSet[str]


def by_measurement(paths: Sequence[str]) -> List[List[str]]:
    """The paths of one mode, those together that one run of fio wrote.

    MalformedError where a fio run is given by two kinds of its logs, or by its submissions.
    """
    groups: Dict[Tuple[str, str], List[str]] = {}
    kinds: Dict[Tuple[str, str], str] = {}
    for place, path in enumerate(paths):
        found = NAME.fullmatch(os.path.basename(path))
        if not found:
            groups["", str(place)] = [path]
            continue
        key, kind = (os.path.realpath(os.path.dirname(path)), found[1]), found[2]
        if kinds.setdefault(key, kind) != kind:
            raise MalformedError(
                f"{groups[key][0]} and {path} hold two kinds of latency of one fio run",
                f"give only its _{WHOLE} logs",
            )
        if kind == SUBMISSION:
            raise MalformedError(
                f"{path} holds submission latencies, not those of writes",
                f"give the _{WHOLE} logs",
            )
        groups.setdefault(key, []).append(path)
    return [sorted(group) for group in groups.values()]


def parse_log(path: str, lines: Iterable[Tuple[int, str]], room: int) -> Log:
    """A job's log: `msec, latency in ns, direction, block size, ...`, of which the writes.

    MalformedError where a line is none of a log's, or there are more than `room` writes.
    """
    at_ms, values = array("d"), array("d")
    ordered, last_ms = True, -math.inf
    sizes: Set[str] = set()
    for line_number, line in lines:
        if not line.strip():
            continue
        fields = [field.strip() for field in line.split(",")]
        if len(fields) < 4:
            raise MalformedError(
                f"{path}, line {line_number}: a fio latency log has 4 or more fields, "
                f"this {len(fields)}"
            )
        if fields[2] == str(WRITE_DIRECTION):
            at = number(path, fields[0])
            ordered, last_ms = ordered and at >= last_ms, at  # several jobs may follow
            at_ms.append(at)
            values.append(latency(fields[1], path, line_number, 1e-3))
            if len(sizes) < 2:
                sizes.add(fields[3])
            bounded(path, len(values), room)
    return Log(path, at_ms, values, ordered, frozenset(sizes))


def measurement_of(logs: Sequence[Log]) -> LatencyFile:
    """The measurement that these jobs were; a job's log and its copies are taken once."""
    kept: List[Log] = []
    for log in logs:
        if log.latencies_us and not any(log.latencies_us == other.latencies_us for other in kept):
            kept.append(log)
    if not kept:
        raise MalformedError(f"{logs[0].path} is a fio log with no writes")
    told = [log for log in logs if log.latencies_us]
    # a sync after a write is in no log (stat.c: `add_sync_clat_sample` writes none)
    doubts = [UNTOLD_SYNCS, *(["repeated"] if len(kept) < len(told) else [])]
    sizes = {size for log in kept for size in log.sizes}
    # what a log has for a period instead of a write has no size (stat.c `__add_stat_to_log`)
    averaged = sizes == {"0"}
    settings = {SYNCS_ADDED: "no", AVERAGED: "set" if averaged else "not set"}
    found = NAME.fullmatch(os.path.basename(kept[0].path))
    if found:
        settings.update({LATENCIES: found[2], JOBS_LOGGED: str(len(kept))})
    name = kept[0].path if len(kept) == 1 else f"{kept[0].path} and {len(kept) - 1} more jobs"
    values = by_time([(log.at_ms, log.latencies_us) for log in kept])
    ordered = all(log.ordered for log in kept)
    if averaged:
        return LatencyFile(
            name, values, ordered, Figures(len(values)), frozenset({*COLUMN_SHARES, STALLS}),
            settings, ("averaged", *doubts),
        )
    if len(sizes) == 1:
        settings[BLOCK_SIZE] = sizes.pop()
    return LatencyFile(name, values, ordered, settings=settings, doubts=tuple(doubts))


def latency(word: str, path: str, line_number: int, factor: float) -> float:
    """The latency in us that a word tells, `factor` us a unit; MalformedError names the line."""
    try:
        value = float(word)
    except ValueError:
        raise MalformedError(f"{path}, line {line_number}: {word[:30]!r} is not a number") from None
    if not (math.isfinite(value) and value > 0):
        raise MalformedError(f"{path}, line {line_number}: a latency must be above 0")
    if value * factor < LATENCY_MIN_US:
        raise MalformedError(
            f"{path}, line {line_number}: a latency of less than a picosecond", "check --unit"
        )
    return value * factor


def bounded(path: str, count: int, room: int) -> None:
    """Raise MalformedError where a file holds more latencies than there is room for."""
    if count > room:
        raise MalformedError(
            f"with {path} the files hold more latencies than can be compared at once",
            f"{LATENCIES_MAX:,} is the limit: give fewer or shorter files, or fio's json+, "
            "whose size does not grow with the time",
        )
