"""How busy and how fast an OSD is, by counters that it sends to the mgr: nobody is asked."""

from __future__ import annotations

from typing import Any, Callable, Optional, Protocol, Sequence, Tuple

from ..core.loads import TRANSACTION_COUNTERS

# Of a priority that reaches the mgr (BlueStore.cc, PRIO_CRITICAL).
_COUNTERS = tuple(f"bluestore.{name}" for name in TRANSACTION_COUNTERS)
# The mgr keeps points 5 s apart; older ones tell of another time of day.
POINTS = 7
# Sums come as the OSD counts them (mgr_module.py, _perfvalue_to_value).
NS_PER_MS = 1e6

Series = Callable[[int, str], Sequence[Sequence[float]]]
"""The points that the mgr has of an OSD's counter, oldest first.

Each is (time in s, sum in ns, count) of a latency, and (time in s, value) of anything else.
"""


class Traffic(Protocol):
    """Port: how often OSDs commit, and how fast."""

    def commits_per_s(self, osd_id: int) -> float:
        """Commits in a second, over the last half minute; 0 where that is not known."""

    def commit_ms(self, osd_id: int) -> Optional[float]:
        """What one of these takes; None where that is not known, or nothing was committed."""


class CephTraffic:
    """The `Traffic` port over a mgr's own copies of the counters."""

    def __init__(self, series: Series) -> None:
        self._series = series

    def commits_per_s(self, osd_id: int) -> float:
        """See Traffic."""
        seconds, _, count = self._gained(osd_id)
        return count / seconds if seconds > 0.0 else 0.0

    def commit_ms(self, osd_id: int) -> Optional[float]:
        """See Traffic."""
        _, total_ns, count = self._gained(osd_id)
        # where a clock was set back, a sum may have shrunk
        return total_ns / count / NS_PER_MS if count > 0.0 and total_ns > 0.0 else None

    def _gained(self, osd_id: int) -> Tuple[float, float, float]:
        """The seconds, ns of latency and commits between the first point and the last."""
        for name in _COUNTERS:
            found = _gain(self._series(osd_id, name)[-POINTS:])
            if found[2] > 0.0:
                return found
        return 0.0, 0.0, 0.0


def _gain(points: Sequence[Sequence[float]]) -> Tuple[float, float, float]:
    """Of a counter that only grows; an OSD that was restarted has begun anew."""
    whole: Any = [point for point in points if len(point) == 3]
    if len(whole) < 2:
        return 0.0, 0.0, 0.0
    seconds, total_ns, count = (float(b - a) for a, b in zip(whole[0], whole[-1]))
    return (seconds, total_ns, count) if seconds > 0.0 else (0.0, 0.0, 0.0)
