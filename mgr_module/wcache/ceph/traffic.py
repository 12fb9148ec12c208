"""How busy an OSD is, by the counters that it sends to the mgr: nobody is asked for it."""

from __future__ import annotations

from typing import Any, Callable, List, Protocol, Sequence

from ..core.loads import TRANSACTION_COUNTERS

# Of a priority that reaches the mgr (BlueStore.cc, PRIO_CRITICAL).
_COUNTERS = tuple(f"bluestore.{name}" for name in TRANSACTION_COUNTERS)
# The mgr keeps points 5 s apart; older ones tell of another time of day.
POINTS = 7

Series = Callable[[int, str], Sequence[Sequence[float]]]
"""The points (time in s, sum, count) that the mgr has of an OSD's counter, oldest first."""


class Traffic(Protocol):
    """Port: how often OSDs commit."""

    def commits_per_s(self, osd_id: int) -> float:
        """Commits in a second, over the last half minute; 0 where that is not known."""


class CephTraffic:
    """The `Traffic` port over a mgr's own copies of the counters."""

    def __init__(self, series: Series) -> None:
        self._series = series

    def commits_per_s(self, osd_id: int) -> float:
        """See Traffic."""
        for name in _COUNTERS:
            rate = _rate(self._series(osd_id, name)[-POINTS:])
            if rate > 0.0:
                return rate
        return 0.0


def _rate(points: Sequence[Sequence[float]]) -> float:
    """Of a counter that only grows; an OSD that was restarted has begun anew."""
    whole: List[Any] = [point for point in points if len(point) == 3]
    if len(whole) < 2:
        return 0.0
    seconds, count = whole[-1][0] - whole[0][0], whole[-1][2] - whole[0][2]
    return float(count / seconds) if seconds > 0 and count > 0 else 0.0
