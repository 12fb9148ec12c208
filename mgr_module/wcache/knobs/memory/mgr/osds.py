"""OSDs as memory sees them: what they use, what target they are leased for a while.

All of them are read again and again, in a thread of its own.  Rates need two readings.  After a
change of an OSD's target, a restart, or a bench that empties its caches, its age bins and rates
tell of that and not of the load, so for as long as its bins reach back it counts as settling.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from ....ceph.command import CommandFailed, Mgr, Osds, parse
from ....core.cluster import ClusterView, OsdInfo, of_metadata
from ....core.codec import as_object
from ....engine.config_watch import Repeating
from ..curve import Rates, between, restarted
from ..reading import (
    CACHES,
    EDGES_OPTION,
    TARGET,
    OsdReading,
    edges_of,
    read,
    tunable,
)
from ..trial import Leased, LeaseTarget, Read, ReadOsds

TIMEOUT_S = 10.0
Runner = Callable[[Callable[[], object]], None]


class CephMemory:
    """The memory of OSDs.  Its methods wait for an OSD."""

    def __init__(
        self, mgr: Mgr, *, is_up: Callable[[int], bool], clock: Callable[[], float] = time.time,
    ) -> None:
        self._mgr = mgr
        self._clock = clock
        self._osds = Osds(mgr, is_up)
        # what does not change while an OSD runs: its allocator and the edges of its age bins
        self._known: Dict[int, Tuple[int, float, str, Dict[str, Tuple[float, ...]]]] = {}

    def read(self, osd_id: int, up_from: int) -> Optional[OsdReading]:
        """What it uses now, by four commands; None where it gives no answer.

        The allocator and the bins' edges are asked for once an hour, and where another epoch than
        before is that since when it runs.
        """
        try:
            perf = self._json(osd_id, {"prefix": "perf dump"})
            at_s = self._clock()
            diff = self._json(osd_id, {"prefix": "config diff get", "var": TARGET})
            if TARGET not in as_object(as_object(diff).get("diff")):
                value = self._json(osd_id, {"prefix": "config get", "var": TARGET})
                diff = {"diff": {TARGET: {"default": as_object(value).get(TARGET),
                                          "final": as_object(value).get(TARGET)}}}
            pools = self._json(osd_id, {"prefix": "dump_mempools"})
        except CommandFailed:
            return None
        heap, edges = self._of_process(osd_id, up_from, at_s)
        return read(osd_id, at_s, perf, diff, pools, heap, edges)

    def leased(self, osd_id: int) -> Optional[int]:
        """What it was given by `ceph tell`, whoever did; None where nothing was."""
        found = as_object(as_object(self._json(
            osd_id, {"prefix": "config diff get", "var": TARGET})).get("diff"))
        value = as_object(found.get(TARGET)).get("override")
        return None if value is None else int(str(value))

    def lease(self, osd_id: int, target_bytes: Optional[int]) -> str:
        """Give it this target until it restarts (None: take that back); why not, or ""."""
        wanted = None if target_bytes is None else str(target_bytes)
        try:
            if wanted is None:
                self._ask(osd_id, {"prefix": "config unset", "var": TARGET})
            else:
                self._ask(osd_id, {"prefix": "config set", "var": TARGET, "val": [wanted]})
            found = as_object(as_object(self._json(
                osd_id, {"prefix": "config diff get", "var": TARGET})).get("diff"))
        except CommandFailed as failure:
            return str(failure)
        leased = as_object(found.get(TARGET)).get("override")
        if (None if leased is None else str(leased)) != wanted:
            return f"osd.{osd_id} has {leased or 'no'} leased target instead of {wanted or 'none'}"
        return ""

    def daemons(self) -> Dict[str, Dict[str, int]]:
        """How many daemons of each type run on each host, by what the mgr has heard."""
        found: Dict[str, Dict[str, int]] = {}
        for server in self._mgr.list_servers():
            counts = found.setdefault(of_metadata(server, "hostname"), {})
            for service in server.get("services", ()):
                kind = str(as_object(service).get("type", ""))[:40]
                counts[kind] = counts.get(kind, 0) + 1
        return found

    def _of_process(
        self, osd_id: int, up_from: int, now_s: float
    ) -> Tuple[str, Dict[str, Tuple[float, ...]]]:
        known = self._known.get(osd_id)
        # one that was started again may be of another release
        if known is not None and known[0] == up_from and now_s - known[1] < 3600.0:
            return known[2], known[3]
        heap = self._heap(osd_id)
        edges: Dict[str, Tuple[float, ...]] = {}
        for cache in CACHES:
            name = EDGES_OPTION.format(cache=cache)
            try:
                value = as_object(self._json(osd_id, {"prefix": "config get", "var": name}))
            except CommandFailed:
                break  # a release without age bins
            if isinstance(value.get(name), str):
                edges[cache] = edges_of(str(value[name]))
        if tunable(heap) is not None:
            self._known[osd_id] = up_from, now_s, heap, edges
        return heap, edges

    def _heap(self, osd_id: int) -> str:
        """The first words of `heap stats`; it refuses where there is no tcmalloc."""
        try:
            return self._ask(osd_id, {"prefix": "heap", "heapcmd": "stats"})[:200]
        except CommandFailed as failure:
            return str(failure)

    def _json(self, osd_id: int, command: Mapping[str, Any]) -> Any:
        return parse(self._ask(osd_id, command), str(command["prefix"]))

    def _ask(self, osd_id: int, command: Mapping[str, Any]) -> str:
        return self._osds.ask(osd_id, command, TIMEOUT_S)


def in_thread(what: Callable[[], object]) -> None:
    """Run something where it may wait."""
    threading.Thread(target=what, daemon=True, name="wcache-memory-trial").start()


@dataclass
class TrialOsds:
    """Asks the OSDs of a trial: the port `OsdWork`, in threads.

    Taking leases back waits for nobody but a lease that an OSD is being given at that moment, since
    what is taken back must stay back.
    """

    view: ClusterView
    log: logging.Logger
    reader: CephMemory
    run: Runner = in_thread
    _leasing: threading.Lock = field(default_factory=threading.Lock, init=False)

    def ask(
        self, request: object, goes_on: Callable[[], bool], done: Callable[[object], None]
    ) -> None:
        self.run(lambda: self._asked(request, goes_on, done))

    def close(self, owed: Iterable[int], given: Sequence[int]) -> None:
        """The mgr stops: every lease is taken back now, as far as Ceph lets it.

        Not waited for: the next mgr has the trial stored and takes them back again.
        """
        for osd_id in owed:
            self.run(partial(self._give_back, osd_id, given))

    def _asked(
        self, request: object, goes_on: Callable[[], bool], done: Callable[[object], None]
    ) -> None:
        if isinstance(request, LeaseTarget):
            others: List[int] = []
            with self._leasing:
                errors = {
                    osd_id: self._lease(osd_id, request.target_bytes, request.given_bytes, others)
                    if goes_on() else "the trial has ended"
                    for osd_id in request.osd_ids
                }
            osds = self.view.cluster().osds
            down = (i for i in request.osd_ids if i not in osds or not osds[i].up)
            done(Leased(errors, tuple(down), tuple(others)))
        elif isinstance(request, ReadOsds):
            read = {osd_id: self._read(osd_id) for osd_id in request.osd_ids}
            done(Read({i: reading for i, reading in read.items() if reading is not None}))

    def _read(self, osd_id: int) -> Optional[OsdReading]:
        try:
            return self.reader.read(osd_id, self.view.cluster().osds[osd_id].up_from)
        except Exception as error:
            # a thread's exception would go nowhere, and the lease stay for ever
            self.log.warning(f"reading the memory of osd.{osd_id} failed: {error!r}")
            return None

    def _give_back(self, osd_id: int, given: Sequence[int]) -> None:
        with self._leasing:
            pass  # what is being leased at this moment comes first, and nothing after it
        self._lease(osd_id, None, given, [])

    def _lease(
        self, osd_id: int, target_bytes: Optional[int], given: Sequence[int], others: List[int]
    ) -> str:
        """Why an OSD has it not; one that is not in the cluster any more owes nothing.

        Nor does one with a target that was not given by the trial: it keeps that.
        """
        if target_bytes is None and osd_id not in self.view.cluster().osds:
            return ""
        try:
            if target_bytes is None:
                now = self.reader.leased(osd_id)
                if now is not None and now not in given:
                    others.append(osd_id)
                    return ""
            return self.reader.lease(osd_id, target_bytes)
        except Exception as error:
            # a thread's exception would go nowhere, and the trial wait for ever
            return f"osd.{osd_id}: {error!r}"[:300]


EVERY_S = 120.0
READINGS_S = 2 * EVERY_S  # at most, until an OSD was read twice
# Shorter stretches say little; a reading that is asked for sooner is shown, and not counted.
STRETCH_S_MIN = 50.0


@dataclass
class Watched:
    """One OSD: its last reading, the one that rates are counted from, and when it settles."""

    last: OsdReading
    base: OsdReading
    rates: Optional[Rates] = None
    settled_at_s: float = float("-inf")

    def known_in_s(self, now_s: float) -> float:
        """At most how long until it has rates: it is to settle, and to be read twice then."""
        if self.rates is not None:
            return 0.0
        base_s = self.base.counters.at_s
        known_at_s = base_s + EVERY_S if base_s >= self.settled_at_s else (
            self.settled_at_s + READINGS_S
        )
        return max(0.0, known_at_s - now_s)


class MemoryWatch(Repeating):
    """Readings and rates by OSD.

    `emptied_at_s` tells when we ourselves have last emptied an OSD's caches, by the same clock.
    """

    def __init__(
        self, *, reader: CephMemory, osds: Callable[[], Iterable[OsdInfo]],
        log: Callable[[str], None], emptied_at_s: Optional[Callable[[int], float]] = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._reader = reader
        self._osds = osds
        self._log = log
        self._emptied_at_s = emptied_at_s or (lambda osd_id: float("-inf"))
        self._clock = clock
        self._lock = threading.Lock()
        self._watched: Dict[int, Watched] = {}
        self.daemons: Dict[str, Dict[str, int]] = {}
        self.read_at_s: Optional[float] = None
        super().__init__("wcache-memory", self.read, self._failed, lambda: EVERY_S)

    def by_osd(self) -> Dict[int, Watched]:
        """What is known of each OSD now."""
        with self._lock:
            return dict(self._watched)

    def read(self) -> None:
        """One reading of every OSD that is up."""
        up_from = {osd.osd_id: osd.up_from for osd in self._osds() if osd.up}
        self.daemons = self._reader.daemons()
        for osd_id in sorted(up_from):
            if self.stopped:
                return
            reading = self._reader.read(osd_id, up_from[osd_id])
            if reading is not None:
                self._take(reading)
        with self._lock:
            for osd_id in set(self._watched) - set(up_from):
                del self._watched[osd_id]
        self.read_at_s = self._clock()

    def _take(self, new: OsdReading) -> None:
        with self._lock:
            old = self._watched.get(new.osd_id) or Watched(new, new)
            rates, base = old.rates, old.base
            disturbed_at_s = self._emptied_at_s(new.osd_id)
            if new.target_bytes != old.last.target_bytes or restarted(
                old.last.counters, new.counters
            ):
                disturbed_at_s = new.counters.at_s
            settled_at_s = max(old.settled_at_s, disturbed_at_s + new.reach_s)
            if base.counters.at_s < max(settled_at_s, disturbed_at_s):
                rates, base = None, new  # what was counted until here tells of the change
            elif new.counters.at_s - base.counters.at_s >= min(
                STRETCH_S_MIN, new.reach_s or STRETCH_S_MIN  # as long as its bins reach back
            ):
                rates, base = between(base.counters, new.counters), new
            self._watched[new.osd_id] = Watched(new, base, rates, settled_at_s)

    def _failed(self, error: Exception) -> None:
        self._log(f"reading the memory of OSDs failed: {error!r}")
