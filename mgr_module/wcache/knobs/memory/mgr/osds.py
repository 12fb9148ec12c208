"""Asks OSDs for what they use of memory, and leases them another target for a while."""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Protocol, Tuple

from ....ceph.command import CommandFailed, Osds, SendsCommands, parse
from ....core.cluster import of_metadata
from ..knob import TARGET
from ..reading import (
    CACHES,
    EDGES_OPTION,
    OsdReading,
    edges_of,
    read,
    tunable,
)

TIMEOUT_S = 10.0


class OsdMemory(Protocol):
    """Port: the memory of OSDs.  Both methods wait for an OSD."""

    def read(self, osd_id: int) -> Optional[OsdReading]:
        """What it uses now; None where it gives no answer."""

    def lease(self, osd_id: int, target_bytes: Optional[int]) -> str:
        """Give it this target until it restarts (None: take that back); why not, or ""."""

    def daemons(self) -> Dict[str, Dict[str, int]]:
        """How many daemons of each type run on each host, by what the mgr has heard."""


class MgrMemory(SendsCommands, Protocol):
    """The part of MgrModule that is used here."""

    def list_servers(self) -> List[Dict[str, Any]]:
        """Hosts with their daemons."""


class CephMemory:
    """The port over a mgr module."""

    def __init__(
        self, mgr: MgrMemory, *, is_up: Callable[[int], bool],
        up_from: Callable[[int], int] = lambda osd_id: 0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._mgr = mgr
        self._clock = clock
        self._osds = Osds(mgr, is_up)
        self._up_from = up_from  # the epoch since when it runs
        # what does not change while an OSD runs: its allocator and the edges of its age bins
        self._known: Dict[int, Tuple[int, float, str, Dict[str, Tuple[float, ...]]]] = {}

    def read(self, osd_id: int) -> Optional[OsdReading]:
        """Four commands; the allocator and the bins' edges are asked for once an hour."""
        try:
            perf = self._json(osd_id, {"prefix": "perf dump"})
            at_s = self._clock()
            diff = self._json(osd_id, {"prefix": "config diff get", "var": TARGET})
            if TARGET not in _object(_object(diff).get("diff")):
                value = self._json(osd_id, {"prefix": "config get", "var": TARGET})
                diff = {"diff": {TARGET: {"default": _object(value).get(TARGET),
                                          "final": _object(value).get(TARGET)}}}
            pools = self._json(osd_id, {"prefix": "dump_mempools"})
        except CommandFailed:
            return None
        heap, edges = self._of_process(osd_id, at_s)
        return read(osd_id, at_s, perf, diff, pools, heap, edges)

    def lease(self, osd_id: int, target_bytes: Optional[int]) -> str:
        """`ceph tell osd.N config set`, or `unset`; read back."""
        command: Dict[str, Any] = {"prefix": "config unset", "var": TARGET}
        if target_bytes is not None:
            command = {"prefix": "config set", "var": TARGET, "val": [str(target_bytes)]}
        try:
            self._ask(osd_id, command)
            found = _object(_object(self._json(
                osd_id, {"prefix": "config diff get", "var": TARGET})).get("diff"))
        except CommandFailed as failure:
            return str(failure)
        leased = _object(found.get(TARGET)).get("override")
        wanted = None if target_bytes is None else str(target_bytes)
        if (None if leased is None else str(leased)) != wanted:
            return f"osd.{osd_id} has {leased or 'no'} leased target instead of {wanted or 'none'}"
        return ""

    def daemons(self) -> Dict[str, Dict[str, int]]:
        """By the mgr's own list."""
        found: Dict[str, Dict[str, int]] = {}
        for server in self._mgr.list_servers():
            counts = found.setdefault(of_metadata(server, "hostname"), {})
            for service in server.get("services", ()):
                kind = str(_object(service).get("type", ""))[:40]
                counts[kind] = counts.get(kind, 0) + 1
        return found

    def _of_process(
        self, osd_id: int, now_s: float
    ) -> Tuple[str, Dict[str, Tuple[float, ...]]]:
        known, up_from = self._known.get(osd_id), self._up_from(osd_id)
        # one that was started again may be of another release
        if known is not None and known[0] == up_from and now_s - known[1] < 3600.0:
            return known[2], known[3]
        heap = self._heap(osd_id)
        edges: Dict[str, Tuple[float, ...]] = {}
        for cache in CACHES:
            name = EDGES_OPTION.format(cache=cache)
            try:
                value = _object(self._json(osd_id, {"prefix": "config get", "var": name}))
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


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
