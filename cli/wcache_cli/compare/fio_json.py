"""fio's JSON: a histogram ("bins", in json+) or percentiles, and a few figures beside them.

A distribution is drawn through either, for medians to be taken from: through a histogram
with the latencies of each bucket spread over that bucket alone.  Where each write was
followed by its own fsync or fdatasync, fio reports the two apart; a commit is their sum, and
the distribution of the sum is taken as if they were independent.  (fio: stat.c
`add_ddir_status_json`.)
"""

from __future__ import annotations

import json
import math
from array import array
from dataclasses import dataclass
from typing import Any, FrozenSet, List, Mapping, Optional, Sequence, Tuple

from wcache.core.errors import MalformedError
from wcache.core.figures.latency_table import P99_SAMPLES_MIN

from .fio_settings import (
    AVERAGED,
    SYNCS_ADDED,
    UNSYNCED,
    UNTOLD_SYNCS,
    settings_of,
    unsynced,
    untold_syncs,
)
from .latency_file import (
    COLUMN_SHARES,
    LATENCY_MAX_US,
    STALLS,
    Figures,
    LatencyFile,
    together,
)

# A file's distributions are drawn as this many values, together: fine enough for the
# quantiles of a few latencies, and no more than what can be held of many.
DRAWN_MIN, DRAWN_MAX = 20_000, 200_000
COUNT_MAX = 10**12
DIGITS_MAX = 20
JOBS_MAX = 1024
SUM_POINTS = 400
# A bucket of fio's is the power of two below it over this many; below twice that it is 1
# wide (fio: stat.h `FIO_IO_U_PLAT_BITS`).  What a file tells lies in its bucket's middle.
BUCKETS_PER_OCTAVE = 64
GRAIN = 0.5 / BUCKETS_PER_OCTAVE
# Between percentiles this far apart, and no further, a third one may be drawn.
BRACKET_MAX = 0.1 + 1e-9
JSON_OPTION = "--output-format=json+"
MEDIAN_ADVICE = f"run fio with {JSON_OPTION}"


@dataclass(frozen=True)
class _Distribution:
    """A distribution, as points (share at or below, us), and what fio says of it itself.

    Between two points it rises evenly; two points of one share are a gap without latencies.
    """

    points: Tuple[Tuple[float, float], ...]
    figures: Figures
    untold: FrozenSet[str] = frozenset()
    summed: bool = False

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


def fio_json(path: str, text: str, drawn_max: int = DRAWN_MAX) -> LatencyFile:
    """The commits that a file tells of; MalformedError where it does not, or tells nonsense.

    A distribution is drawn as about `drawn_max` values at most, or DRAWN_MAX if that is fewer.
    """
    try:
        top, end = json.JSONDecoder(parse_int=_integer).raw_decode(text)
    except (ValueError, RecursionError) as error:
        raise MalformedError(f"{path} is not JSON: {str(error)[:80]}") from None
    if json_start(text[end:]) >= 0:
        raise MalformedError(
            f"{path} holds several JSON documents, as fio --status-interval writes them: each "
            "tells of all that was measured until then",
            "measure without --status-interval, or keep the last one: "
            "jq -s '.[-1]' OLD > NEW",
        )
    if isinstance(top, dict) and "client_stats" in top:
        raise MalformedError(
            f"{path} is the JSON of fio --client, which mixes the jobs of several hosts",
            f"run fio on the host of the drive, with {JSON_OPTION}",
        )
    jobs = top.get("jobs") if isinstance(top, dict) else None
    if not isinstance(jobs, list) or not jobs or not all(isinstance(job, dict) for job in jobs):
        raise MalformedError(f"{path} is not fio's JSON output: it has no list of jobs")
    if len(jobs) > JOBS_MAX:
        raise MalformedError(f"{path} has {len(jobs)} jobs; at most {JOBS_MAX} are read")
    wrote, commits = [], []
    for place, job in enumerate(jobs):
        if job.get("error"):
            raise MalformedError(
                f"{path}: job {place} ended with error {str(job['error'])[:30]!r}",
                "a failed measurement cannot be used: repeat it",
            )
        found = _commits(path, job)
        if found is not None:
            wrote.append(job)
            commits.append(found)
    if not commits:
        raise MalformedError(
            f"{path} has no write latencies with percentiles or bins", MEDIAN_ADVICE
        )
    figures = together([found.figures for found in commits])
    drawn = min(drawn_max, max(DRAWN_MIN, min(figures.n, DRAWN_MAX))) / figures.n
    summed = any(found.summed for found in commits)
    untold = {name for found in commits for name in found.untold}
    if figures.n < P99_SAMPLES_MIN:  # its bound from below is a sample, and there are none
        untold.add("p99")
    settings = {
        **settings_of(top, wrote), SYNCS_ADDED: "yes" if summed else "no", AVERAGED: "not set"
    }
    doubts = tuple(code for code, holds in (
        ("summed", summed), (UNSYNCED, unsynced(settings)), (UNTOLD_SYNCS, untold_syncs(settings)),
    ) if holds)
    return LatencyFile(
        path,
        array("d", (
            us for found in commits
            for us in found.values(max(1, round(found.figures.n * drawn)))
        )),
        ordered=False,
        figures=figures,
        untold=frozenset(untold),
        settings=settings,
        doubts=doubts,
        grain=GRAIN,
    )


def json_start(text: str) -> int:
    """Where a JSON object begins; fio may print warnings in front of it.  -1: no JSON."""
    if text.lstrip().startswith("{"):
        return text.index("{")
    return text.find("\n{") + 1 or -1


def number(path: str, value: Any) -> float:
    """A finite number, or MalformedError."""
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if isinstance(value, bool) or not math.isfinite(found):
        raise MalformedError(f"{path}: {str(value)[:30]!r} is not a number")
    return found


def _integer(digits: str) -> float:
    """An int, but of absurd length a float: those would take long, and may overflow."""
    return int(digits) if len(digits) <= DIGITS_MAX else float(digits)


def _commits(path: str, job: Mapping[str, Any]) -> Optional[_Distribution]:
    """The distribution of a job's commits: writes, each with its sync where it had one."""
    writes = _distribution(path, job.get("write"))
    syncs = _distribution(path, job.get("sync"))
    if writes is None or syncs is None:
        return writes or syncs
    if syncs.figures.n * 2 < writes.figures.n:
        raise MalformedError(
            f"{path} syncs only once per {writes.figures.n // max(syncs.figures.n, 1)} writes",
            "measure with --fdatasync=1 or --sync=1: an OSD syncs each commit",
        )
    after = syncs.values(SUM_POINTS)
    sums = sorted(a + b for a in writes.values(SUM_POINTS) for b in after)
    count = len(sums)
    points = tuple(((i + 0.5) / count, value) for i, value in enumerate(sums))
    return _Distribution(
        points, _summed(writes.figures, syncs.figures),
        writes.untold | syncs.untold | {STALLS}, summed=True,
    )


def _summed(writes: Figures, syncs: Figures) -> Figures:
    """Only means can be added; of the extremes there is a bound."""
    mean = lowest = None
    if writes.mean_us is not None and syncs.mean_us is not None:
        mean = writes.mean_us + syncs.mean_us
    if writes.min_us is not None and syncs.min_us is not None:
        lowest = writes.min_us + syncs.min_us
    highest = [us for us in (writes.max_us, syncs.max_us) if us is not None]
    return Figures(
        min(writes.n, syncs.n), mean, lowest_us=lowest,
        highest_us=max(highest) if highest else None,
    )


def _distribution(path: str, side: Any) -> Optional[_Distribution]:
    """The latencies of one direction as fio reports them; None where there are none."""
    if not isinstance(side, dict):
        return None
    for key, factor in (("lat_ns", 1e-3), ("clat_ns", 1e-3), ("lat", 1.0), ("clat", 1.0)):
        found = side.get(key)
        if not isinstance(found, dict):
            continue
        n = _count(path, found.get("N", side.get("total_ios")))
        if n and isinstance(found.get("bins"), dict) and found["bins"]:
            return _from_bins(path, found, n, factor)
        if n and isinstance(found.get("percentile"), dict) and found["percentile"]:
            return _from_percentiles(path, found, n, factor)
    return None


def _count(path: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return 0
    if not value <= COUNT_MAX:
        raise MalformedError(f"{path} holds more than {COUNT_MAX} latencies")
    return value if isinstance(value, int) and value > 0 else 0


def _figures(path: str, found: Mapping[str, Any], n: int, factor: float) -> Figures:
    values = {}
    for name, key in (("mean_us", "mean"), ("std_us", "stddev"), ("min_us", "min"),
                      ("max_us", "max")):
        if found.get(key) is not None:
            values[name] = number(path, found[key]) * factor
            if not 0 <= values[name] <= LATENCY_MAX_US:
                raise MalformedError(f"{path}: its {key} is below 0 or more than a day")
    return Figures(n, **values)


def _from_bins(path: str, found: Mapping[str, Any], n: int, factor: float) -> _Distribution:
    bins = sorted((number(path, value), number(path, k)) for value, k in found["bins"].items())
    total = sum(k for _, k in bins)
    if total <= 0 or any(k < 0 for _, k in bins):
        raise MalformedError(f"{path}: its latency bins are empty")
    if bins[0][0] < 0:
        raise MalformedError(f"{path}: it has a bin of {bins[0][0]:g}; latencies must be above 0")
    n = max(1, min(n, _count(path, int(total) if total <= COUNT_MAX else total)))
    figures = _figures(path, found, n, factor)
    points = []
    seen = 0.0
    for edges, (_, k) in zip(_buckets([value for value, _ in bins]), bins):
        low_us, high_us = (max(edge, 0.5) * factor for edge in edges)
        # the outermost buckets are filled no further than the file's own minimum and maximum
        if low_us < (figures.min_us or 0.0) < high_us:
            low_us = figures.min_us or low_us
        if low_us < (figures.max_us or math.inf) < high_us:
            high_us = figures.max_us or high_us
        points.append((seen / total, low_us))
        seen += k
        points.append((seen / total, high_us))
    return _Distribution(tuple(points), figures)


def _buckets(middles: Sequence[float]) -> List[Tuple[float, float]]:
    """The edges of fio's buckets around their middles, which rise (stat.c `plat_idx_to_val`).

    Where another program wrote finer ones, two that would overlap meet halfway.
    """
    edges = []
    for middle in middles:
        width = max(1.0, math.ldexp(0.5, math.frexp(middle)[1]) / BUCKETS_PER_OCTAVE)
        edges.append((middle - width / 2, middle + width / 2))
    for i in range(1, len(edges)):
        if edges[i][0] < edges[i - 1][1]:
            halfway = (middles[i - 1] + middles[i]) / 2
            edges[i - 1], edges[i] = (edges[i - 1][0], halfway), (halfway, edges[i][1])
    return edges


def _from_percentiles(
    path: str, found: Mapping[str, Any], n: int, factor: float
) -> _Distribution:
    inner = sorted(
        (number(path, share) / 100, number(path, value))
        for share, value in found["percentile"].items()
    )
    shares = [share for share, _ in inner]
    if not _told(shares, 0.5):
        raise MalformedError(f"{path} has no percentiles around the median", MEDIAN_ADVICE)
    ends = [(0.0, number(path, found.get("min", inner[0][1])))]
    tail = [(1.0, number(path, found.get("max", inner[-1][1])))]
    points = []
    highest = 0.5
    for share, value in (*ends, *inner, *tail):
        highest = max(highest, value)  # percentiles are bucket edges and may pass the maximum
        points.append((min(max(share, 0.0), 1.0), highest * factor))
    untold = {name for name, share in COLUMN_SHARES.items() if not _told(shares, share)}
    return _Distribution(
        tuple(points), _figures(path, found, n, factor), frozenset({*untold, STALLS})
    )


def _told(shares: List[float], wanted: float) -> bool:
    """Whether percentiles close by on both sides, or one itself, tell of a quantile."""
    below = [share for share in shares if share <= wanted + 1e-9]
    above = [share for share in shares if share >= wanted - 1e-9]
    return bool(below and above) and above[0] - below[-1] <= BRACKET_MAX
