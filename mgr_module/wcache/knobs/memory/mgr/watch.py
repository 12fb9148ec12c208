"""Reads the memory of all OSDs again and again, in a thread of its own.

Rates need two readings.  After a change of an OSD's target, a restart, or a bench that empties
its caches, its age bins and rates tell of that and not of the load, so for as long as its bins
reach back it counts as settling.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Callable, Dict, Iterable, Optional

from ....engine.repeating import Repeating
from ..rates import Rates, between, restarted
from ..reading import OsdReading
from .osds import OsdMemory

EVERY_S = 120.0
# Shorter stretches say little; a reading that is asked for sooner is shown, and not counted.
STRETCH_S_MIN = 50.0


@dataclass
class Watched:
    """One OSD: its last reading, the one that rates are counted from, and when it settles."""

    last: OsdReading
    base: OsdReading
    rates: Optional[Rates] = None
    settled_at_s: float = float("-inf")


class MemoryWatch:
    """Readings and rates by OSD.

    `emptied_at_s` tells when we ourselves have last emptied an OSD's caches, by the same clock.
    """

    def __init__(
        self, *, reader: OsdMemory, osd_ids: Callable[[], Iterable[int]],
        log: Callable[[str], None], emptied_at_s: Optional[Callable[[int], float]] = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._reader = reader
        self._osd_ids = osd_ids
        self._log = log
        self._emptied_at_s = emptied_at_s or (lambda osd_id: float("-inf"))
        self._clock = clock
        self._lock = threading.Lock()
        self._watched: Dict[int, Watched] = {}
        self.daemons: Dict[str, Dict[str, int]] = {}
        self.read_at_s: Optional[float] = None
        self._repeating = Repeating("wcache-memory", self.read, self._failed, lambda: EVERY_S)
        self.start, self.close = self._repeating.start, self._repeating.close
        self.read_soon = self._repeating.soon  # somebody looks

    def by_osd(self) -> Dict[int, Watched]:
        """What is known of each OSD now."""
        with self._lock:
            return dict(self._watched)

    def read(self) -> None:
        """One reading of every OSD that is up."""
        ids = set(self._osd_ids())
        self.daemons = self._reader.daemons()
        for osd_id in sorted(ids):
            if self._repeating.stopped:
                return
            reading = self._reader.read(osd_id)
            if reading is not None:
                self._take(reading)
        with self._lock:
            for osd_id in set(self._watched) - ids:
                del self._watched[osd_id]
        self.read_at_s = self._clock()

    def _take(self, new: OsdReading) -> None:
        with self._lock:
            old = self._watched.get(new.osd_id) or Watched(new, new)
            rates, base = old.rates, old.base
            reach_s = max((b.edges_s[-1] for b in new.bins), default=0.0)
            disturbed_at_s = self._emptied_at_s(new.osd_id)
            if new.target_bytes != old.last.target_bytes or restarted(
                old.last.counters, new.counters
            ):
                disturbed_at_s = new.counters.at_s
            settled_at_s = max(old.settled_at_s, disturbed_at_s + reach_s)
            if base.counters.at_s < max(settled_at_s, disturbed_at_s):
                rates, base = None, new  # what was counted until here tells of the change
            elif new.counters.at_s - base.counters.at_s >= min(
                STRETCH_S_MIN, reach_s or STRETCH_S_MIN  # as long as its bins reach back
            ):
                rates, base = between(base.counters, new.counters), new
            self._watched[new.osd_id] = Watched(new, base, rates, settled_at_s)

    def _failed(self, error: Exception) -> None:
        self._log(f"reading the memory of OSDs failed: {error!r}")
