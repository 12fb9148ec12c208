"""Whether OSDs commit within the latency limit, by their own counters, look after look."""

from __future__ import annotations

import time
from typing import Callable, Dict, Mapping, Optional, Sequence, Tuple

from ..core.loads import (
    COMMIT_COUNTERS,
    LATENCY_SUM_MAX_S,
    SUBMIT_COUNTERS,
    TRANSACTION_COUNTERS,
)

Counters = Mapping[str, Tuple[float, int]]


class CommitLimit:
    """Looks at some OSDs, one after the other, against one limit.

    What was committed since the last look has a mean.  An OSD that commits nothing has none:
    there the limit counts from the look at which writes were in flight first.  Nothing was
    committed since, so the oldest of them takes that long already, and is not over.
    """

    def __init__(self, limit_ms: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit_ms = limit_ms
        self._clock = clock
        self._last: Dict[int, Counters] = {}
        self._stuck: Dict[int, Tuple[int, float]] = {}  # commits then, and when

    def look(self, osd_id: int, now: Counters, asked_s: float) -> str:
        """Why it is past the limit, or "".  `asked_s`: the clock before the OSD was asked."""
        before = self._last.get(osd_id)
        self._last[osd_id] = now
        mean = None if before is None else mean_ms(before, now)
        if mean is not None and mean > self._limit_ms:
            return (
                f"osd.{osd_id} took {mean:.0f} ms, past the limit of {self._limit_ms:.0f} ms"
            )
        return self._stalled(osd_id, now, asked_s)

    def _stalled(self, osd_id: int, now: Counters, asked_s: float) -> str:
        committed, flying = _commits(now), in_flight(now)
        since = self._stuck.get(osd_id)
        if committed is None or flying <= 0:
            self._stuck.pop(osd_id, None)
            return ""
        if since is None or since[0] != committed:
            # told after it was asked: what is in flight may have begun only then
            self._stuck[osd_id] = committed, self._clock()
            return ""
        stalled_ms = 1e3 * (asked_s - since[1])
        if stalled_ms <= self._limit_ms:
            return ""
        return (
            f"osd.{osd_id} committed nothing for {stalled_ms:.0f} ms with {flying} writes in "
            f"flight, past the limit of {self._limit_ms:.0f} ms"
        )


def in_flight(counters: Counters) -> int:
    """Transactions that were begun and are not committed; 0 where the OSD does not tell."""
    begun, committed = counters.get(SUBMIT_COUNTERS[0]), _commits(counters)
    return 0 if begun is None or committed is None else begun[1] - committed


def mean_ms(before: Counters, after: Counters) -> Optional[float]:
    """The mean of what was committed between two looks; None where nothing was."""
    found = gained(before, after)
    return None if found is None else 1e3 * found[0] / found[1]


def gained(
    before: Counters, after: Counters, names: Sequence[str] = COMMIT_COUNTERS
) -> Optional[Tuple[float, int]]:
    """(seconds, commits) since; None where it did not commit, was restarted or its clock set.

    `names` are counters of something else, best first.
    """
    for name in names:
        if name in before and name in after:
            seconds, count = (now - then for now, then in zip(after[name], before[name]))
            tells = count > 0 and 0 <= seconds <= LATENCY_SUM_MAX_S
            return (seconds, int(count)) if tells else None
    return None


def _commits(counters: Counters) -> Optional[int]:
    pair = counters.get(TRANSACTION_COUNTERS[0])
    return None if pair is None else pair[1]
