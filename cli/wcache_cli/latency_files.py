"""Latencies out of what other tools write: fio JSON, fio latency logs, plain text.

fio's JSON keeps no samples: `json+` has the histogram ("bins"), `json` only percentiles,
through which a distribution is drawn.  Where each write was followed by its own fsync or
fdatasync, fio reports the two apart; a commit is their sum, and the distribution of the
sum is taken as if they were independent.  (fio: stat.c `add_ddir_status_json`,
iolog.c `flush_samples`.)
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from wcache.core.errors import MalformedError

from .files import read_text

UNITS: Dict[str, float] = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}
FILE_BYTES_MAX = 512 * 2**20
SAMPLES_MAX = 10_000_000
# A distribution without samples is drawn as at most this many values.
DRAWN_MAX = 200_000
JOBS_MAX = 1024
SUM_POINTS = 400
WRITE_DIRECTION = 1  # fio logs: 0 read, 1 write, 2 trim


@dataclass(frozen=True)
class Latencies:
    """What a file holds, in us; `ordered` says whether it is in order of time."""

    latencies_us: Sequence[float]
    ordered: bool
    count: int = 0  # how many they stand for, where they were drawn from a distribution


@dataclass(frozen=True)
class _Distribution:
    """A distribution of n latencies, as points (share at or below, us)."""

    n: int
    points: Tuple[Tuple[float, float], ...]

    def values(self, count: int) -> List[float]:
        """`count` values at the middles of equal shares."""
        found = []
        index = 0
        for i in range(count):
            share = (i + 0.5) / count
            while index < len(self.points) - 1 and self.points[index][0] < share:
                index += 1
            (low, from_us), (high, to_us) = self.points[max(index - 1, 0)], self.points[index]
            part = min(1.0, (share - low) / (high - low)) if high > low else 1.0
            found.append(from_us + part * (to_us - from_us))
        return found


def read_latencies(path: str, unit: str) -> Latencies:
    """The write latencies in a file; MalformedError says what is wrong and where."""
    text = read_text(path, FILE_BYTES_MAX)
    start = _json_start(text)
    if start >= 0:
        return _fio_json(path, text[start:])
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


def _plain(path: str, text: str, factor: float) -> Latencies:
    values = []
    for number, line in enumerate(text.splitlines(), 1):
        word = line.strip()
        if not word or word.startswith("#"):
            continue
        values.append(_latency(word, path, number) * factor)
        _bounded(path, len(values))
    return Latencies(values, True)


def _fio_log(path: str, text: str) -> Latencies:
    """`msec, latency in ns, direction, block size, offset[, priority...]`, writes only."""
    values: List[float] = []
    ordered, last_ms = True, -math.inf
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        fields = [field.strip() for field in line.split(",")]
        if len(fields) < 4:
            raise MalformedError(
                f"{path}, line {number}: a fio latency log has 4 or more fields, this {len(fields)}"
            )
        if fields[2] == str(WRITE_DIRECTION):
            at_ms = _number(path, fields[0])
            ordered, last_ms = ordered and at_ms >= last_ms, at_ms  # several jobs may follow
            values.append(_latency(fields[1], path, number) * 1e-3)
            _bounded(path, len(values))
    if not values:
        raise MalformedError(f"{path} is a fio log without writes")
    return Latencies(values, ordered)


def _latency(word: str, path: str, number: int) -> float:
    try:
        value = float(word)
    except ValueError:
        raise MalformedError(f"{path}, line {number}: {word[:30]!r} is no number") from None
    if not (math.isfinite(value) and value > 0):
        raise MalformedError(f"{path}, line {number}: a latency must be above 0")
    return value


def _bounded(path: str, count: int) -> None:
    if count > SAMPLES_MAX:
        raise MalformedError(f"{path} holds more than {SAMPLES_MAX} latencies")


def _fio_json(path: str, text: str) -> Latencies:
    try:
        top, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError) as error:
        raise MalformedError(f"{path} is not JSON: {str(error)[:80]}") from None
    jobs = top.get("jobs") if isinstance(top, dict) else None
    if not isinstance(jobs, list) or not jobs or not all(isinstance(job, dict) for job in jobs):
        raise MalformedError(f"{path} is no output of fio: it has no list of jobs")
    if len(jobs) > JOBS_MAX:
        raise MalformedError(f"{path} has {len(jobs)} jobs, {JOBS_MAX} are the most")
    values: List[float] = []
    count = 0
    for number, job in enumerate(jobs):
        if job.get("error"):
            raise MalformedError(
                f"{path}: job {number} ended with error {str(job['error'])[:30]}",
                "a run that failed says nothing; measure again",
            )
        commits = _commits(path, job)
        if commits is not None:
            values += commits.values(min(commits.n, DRAWN_MAX))
            count += commits.n
            _bounded(path, len(values))
    if not values:
        raise MalformedError(
            f"{path} has no write latencies with percentiles or bins",
            "run fio with --output-format=json+",
        )
    return Latencies(values, False, count)


def _commits(path: str, job: Mapping[str, Any]) -> Optional[_Distribution]:
    """The distribution of a job's commits: writes, each with its sync where it had one."""
    writes = _distribution(path, job.get("write"))
    syncs = _distribution(path, job.get("sync"))
    if writes is None or syncs is None:
        return writes or syncs
    if syncs.n * 2 < writes.n:
        raise MalformedError(
            f"{path} syncs only once in {writes.n // max(syncs.n, 1)} writes",
            "measure with --fdatasync=1 or --sync=1: what counts is a commit",
        )
    sums = sorted(
        a + b for a in writes.values(SUM_POINTS) for b in syncs.values(SUM_POINTS)
    )
    count = len(sums)
    points = tuple(((i + 0.5) / count, value) for i, value in enumerate(sums))
    return _Distribution(min(writes.n, syncs.n), points)


def _distribution(path: str, side: Any) -> Optional[_Distribution]:
    """The latencies of one direction as fio reports them; None where there are none."""
    if not isinstance(side, dict):
        return None
    for key, factor in (("lat_ns", 1e-3), ("clat_ns", 1e-3), ("lat", 1.0), ("clat", 1.0)):
        found = side.get(key)
        if not isinstance(found, dict):
            continue
        n = _count(found.get("N", side.get("total_ios")))
        if n and isinstance(found.get("bins"), dict) and found["bins"]:
            return _from_bins(path, found, n, factor)
        if n and isinstance(found.get("percentile"), dict) and found["percentile"]:
            return _from_percentiles(path, found, n, factor)
    return None


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _from_bins(path: str, found: Mapping[str, Any], n: int, factor: float) -> _Distribution:
    bins = sorted((_number(path, value), _number(path, k)) for value, k in found["bins"].items())
    total = sum(k for _, k in bins)
    if total <= 0 or any(k < 0 for _, k in bins):
        raise MalformedError(f"{path}: its bins hold no counts")
    if bins[0][0] < 0:
        raise MalformedError(f"{path}: it has a bin of {bins[0][0]:g}; a latency is above 0")
    points = []
    seen = 0.0
    for value, k in bins:
        seen += k
        points.append((seen / total, max(value, 0.5) * factor))
    return _Distribution(n, ((0.0, points[0][1]), *points))


def _from_percentiles(
    path: str, found: Mapping[str, Any], n: int, factor: float
) -> _Distribution:
    inner = sorted(
        (_number(path, share) / 100, _number(path, value))
        for share, value in found["percentile"].items()
    )
    ends = [(0.0, _number(path, found.get("min", inner[0][1])))]
    tail = [(1.0, _number(path, found.get("max", inner[-1][1])))]
    points = []
    highest = 0.5
    for share, value in (*ends, *inner, *tail):
        highest = max(highest, value)  # percentiles are bucket edges and may pass the maximum
        points.append((min(max(share, 0.0), 1.0), highest * factor))
    return _Distribution(n, tuple(points))


def _number(path: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if isinstance(value, bool) or not math.isfinite(number):
        raise MalformedError(f"{path}: {str(value)[:30]!r} is no number")
    return number
