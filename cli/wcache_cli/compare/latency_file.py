"""Latencies measured by somebody else: what a file told of them, and what it did not.

A file that keeps no samples has its distribution drawn as values.  Medians are taken from
those; what the file says itself (a mean, a maximum) is printed as it stands there, and what
it does not say is not printed at all.
"""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass, field
from typing import Any, Dict, FrozenSet, List, Mapping, Optional, Sequence, Tuple

from wcache.analysis import summary
from wcache.core.errors import MalformedError
from wcache.core.model import CacheMode
from wcache.core.verdict.sequential import rounded

LATENCY_MIN_US = 1e-6  # a picosecond
LATENCY_MAX_US = 86_400e6
# What a file may leave untold: columns, and the share of stalls.
COLUMN_SHARES = {"p25": 0.25, "p75": 0.75, "p90": 0.9, "p99": 0.99}
STALLS = "stalls"


@dataclass(frozen=True)
class Figures:
    """What a file says itself of n latencies, in us; None where it does not.

    `lowest_us` and `highest_us` are bounds of the minimum from below and of the maximum
    from below, where the file has both only in parts.
    """

    n: int
    mean_us: Optional[float] = None
    std_us: Optional[float] = None
    min_us: Optional[float] = None
    max_us: Optional[float] = None
    lowest_us: Optional[float] = None
    highest_us: Optional[float] = None


@dataclass(frozen=True)
class LatencyFile:
    """One file, or all logs that one run of fio wrote.

    Its latencies are in us, in order of time unless `ordered` is False.  `figures` stand where they
    were drawn from a distribution of more or fewer.
    `untold` are names out of COLUMN_SHARES and STALLS.  `settings` say how it was measured,
    as far as the file tells, and `doubts` are codes of comparison.ADVICE.  `grain` is the share
    of itself that a latency may lie off, either way, as in a histogram.
    """

    name: str
    latencies_us: Sequence[float]
    ordered: bool = True
    figures: Optional[Figures] = None
    untold: FrozenSet[str] = frozenset()
    settings: Mapping[str, str] = field(default_factory=dict)
    doubts: Tuple[str, ...] = ()
    grain: float = 0.0

    @property
    def n(self) -> int:
        """How many latencies the file told of."""
        return self.figures.n if self.figures else len(self.latencies_us)


def by_time(
    jobs: Sequence[Tuple[Sequence[float], Sequence[float]]]
) -> Sequence[float]:
    """The latencies of jobs that ran at once, each (times, latencies), as they came in time."""
    if len(jobs) == 1:
        return jobs[0][1]
    import numpy as np

    times, values = (np.concatenate([np.asarray(job[i]) for job in jobs]) for i in (0, 1))
    return array("d", values[np.argsort(times, kind="stable")].tobytes())


def check(files: Mapping[CacheMode, Sequence[LatencyFile]]) -> None:
    """Raise MalformedError where files cannot be compared with one another.

    That is a mode without a file, latencies out of bounds, the same latencies for both modes,
    and files that were not measured alike, which names the settings.
    """
    for mode in CacheMode:
        if not files.get(mode):
            raise MalformedError(f"no file was given for {mode.value}")
        for file in files[mode]:
            _check_latencies(file)
    every = [file for mode in CacheMode for file in files[mode]]
    _check_alike(every)
    for file in files[CacheMode.WRITE_BACK]:
        for other in files[CacheMode.WRITE_THROUGH]:
            if _same(file, other):
                both = file.name if file.name == other.name else f"{file.name} and {other.name}"
                raise MalformedError(
                    f"{both} gave the same latencies for both cache modes",
                    "one of the modes was not measured, or a file was copied",
                )


def _check_latencies(file: LatencyFile) -> None:
    if not file.latencies_us:
        raise MalformedError(f"{file.name} holds no latencies")
    lowest = min(file.latencies_us)
    if not lowest > 0:
        raise MalformedError(f"{file.name} holds a latency that is not above 0")
    if not lowest >= LATENCY_MIN_US:
        raise MalformedError(
            f"{file.name} holds a latency of less than a picosecond", "check --unit"
        )
    if not max(file.latencies_us) <= LATENCY_MAX_US:
        raise MalformedError(f"{file.name} holds a latency of more than a day", "check --unit")


def _check_alike(files: Sequence[LatencyFile]) -> None:
    """What one file does not tell is no difference; each field has its own first teller."""
    tellers: Dict[str, LatencyFile] = {}
    for file in files:
        unlike = []
        for name, value in file.settings.items():
            teller = tellers.setdefault(name, file)
            if teller.settings[name] != value:
                unlike.append((teller.name, f"{name} ({teller.settings[name]}, {value})"))
        if unlike:
            fields = ", ".join(text for _, text in unlike)
            raise MalformedError(
                f"{unlike[0][0]} and {file.name} were not measured in the same way: {fields}",
                "compare measurements that differ in the cache mode only",
            )


def _same(one: LatencyFile, other: LatencyFile) -> bool:
    return one.figures == other.figures and one.latencies_us == other.latencies_us


def distinct(files: Sequence[LatencyFile]) -> List[LatencyFile]:
    """The files of a mode without copies: who counts one twice has not measured twice."""
    kept: List[LatencyFile] = []
    for file in files:
        if not any(_same(file, other) for other in kept):
            kept.append(file)
    return kept


@dataclass(frozen=True)
class Side:
    """The files of a mode with all of their latencies, sorted, and the logs of those.

    Each file has the weight of its own n.
    """

    files: Sequence[LatencyFile]
    values_us: Sequence[float]
    logs: Sequence[float]


def side(files: Sequence[LatencyFile]) -> Side:
    """The files of a mode, put together."""
    import numpy as np

    from .longrun import logs, packed

    scale = max(file.n / len(file.latencies_us) for file in files)
    parts = []
    for file in files:
        count = max(1, round(file.n / scale))
        values = np.asarray(file.latencies_us, dtype=float)
        if count != len(values):
            places = ((np.arange(count) + 0.5) / count * len(values)).astype(int)
            values = np.sort(values)[places]
        parts.append(values)
    every = np.concatenate(parts)
    every.sort()
    latencies_us = packed(every)
    return Side(files, latencies_us, logs(latencies_us))


def table(found_side: Side) -> Dict[str, Any]:
    """A mode's row: summary.latencies, with the files' own figures; None for what none told."""
    files, values = found_side.files, found_side.values_us
    found = summary.latencies(values)
    found["n"] = sum(file.n for file in files)
    if any(file.figures for file in files):
        share = found[STALLS] / len(values)
        found[STALLS] = round(share * found["n"])
        found["stall_rate_below"] = rounded(
            summary.rate_below(found[STALLS], found["n"])
        )
        found.update(_own(together([file.figures or _measured(file) for file in files])))
    for name in untold(files):
        if name == STALLS:
            found.update(stalls=None, stall_rate=None, stall_rate_below=None)
        else:
            found[f"{name}_us"] = None
    if "p99" in untold(files):
        found.pop("p99_at_least_us", None)
    return found


def untold(files: Sequence[LatencyFile]) -> FrozenSet[str]:
    """What at least one of the files does not tell."""
    return frozenset().union(*(file.untold for file in files))


def together(parts: Sequence[Figures]) -> Figures:
    """Figures of several parts as those of one whole; None where a part does not tell."""
    n = sum(part.n for part in parts)
    means = _all([part.mean_us for part in parts])
    deviations = _all([part.std_us for part in parts])
    minima, maxima = _all([part.min_us for part in parts]), _all([part.max_us for part in parts])
    lowest = _all([_first(part.min_us, part.lowest_us) for part in parts])
    highest = _all([_first(part.max_us, part.highest_us) for part in parts])
    mean = std = None
    if means:
        mean = math.fsum(part.n * us for part, us in zip(parts, means)) / n
    if means and deviations and mean is not None:
        squares = math.fsum(
            part.n * (sd**2 + (us - mean) ** 2) for part, us, sd in zip(parts, means, deviations)
        )
        std = math.sqrt(squares / n)
    return Figures(
        n, mean, std, min(minima) if minima else None, max(maxima) if maxima else None,
        min(lowest) if lowest else None, max(highest) if highest else None,
    )


def _measured(file: LatencyFile) -> Figures:
    seen = summary.latencies(file.latencies_us)
    return Figures(file.n, seen["mean_us"], seen["std_us"], seen["min_us"], seen["max_us"])


def _own(figures: Figures) -> Dict[str, Optional[float]]:
    own = {
        f"{name}_us": None if value is None else rounded(value)
        for name, value in (
            ("mean", figures.mean_us), ("std", figures.std_us),
            ("min", figures.min_us), ("max", figures.max_us),
        )
    }
    for name, value, bound in (
        ("min", figures.min_us, figures.lowest_us), ("max", figures.max_us, figures.highest_us)
    ):
        if value is None and bound is not None:
            own[f"{name}_at_least_us"] = rounded(bound)
    return own


def _all(values: Sequence[Optional[float]]) -> List[float]:
    """The values if all are there, else none."""
    found = [value for value in values if value is not None]
    return found if len(found) == len(values) else []


def _first(*values: Optional[float]) -> Optional[float]:
    return next((value for value in values if value is not None), None)
