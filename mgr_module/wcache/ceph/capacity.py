"""Benches an OSD by the recipe by which it benches itself for mClock."""

from __future__ import annotations

import time
from typing import Any, Callable, Mapping

from ..core.events import LoadRequest, LoadSamples
from ..core.loads import (
    CAPACITY_BYTES,
    CAPACITY_CALL_BYTES,
    CAPACITY_OBJECT_BYTES,
    CAPACITY_OBJECTS,
    QUEUE,
    SCHEDULER,
    CapacityCall,
    CapacityRecipe,
    capacity_limits,
)
from .command import CommandFailed, Osds
from .compat import bench_seconds

# 3,000 writes on a drive that makes 25 in a second, and 400 MiB before them.
CALL_TIMEOUT_S = 150.0
_WRITE_BYTES = 4096


class CapacityBench:
    """One call at a time; it cannot be interrupted."""

    def __init__(self, osds: Osds, ask: Callable[[int, Mapping[str, Any], float], str]) -> None:
        """`ask` gives an OSD its bench."""
        self._osds = osds
        self._ask = ask

    def call(self, request: LoadRequest) -> LoadSamples:
        """Bench the OSD once; raises CommandFailed, also where mClock does not serve it."""
        osd_id = request.osd_id
        recipe = request.recipe or CapacityRecipe(rotational=True)
        scheduler = self._option(osd_id, QUEUE)
        if scheduler != SCHEDULER and not recipe.forced:
            raise CommandFailed(f"osd.{osd_id} schedules by {scheduler}, not by mClock")
        low, high = (self._number(osd_id, name) for name in capacity_limits(recipe.rotational))
        begin_s = time.monotonic()
        iops = self._bench(osd_id)
        return LoadSamples(
            time.monotonic() - begin_s, (int(1e9 / iops),), (), CAPACITY_CALL_BYTES,
            capacity=CapacityCall(iops, scheduler, low, high),
        )

    def _bench(self, osd_id: int) -> float:
        text = self._ask(osd_id, {
            "prefix": "bench", "count": CAPACITY_BYTES, "size": _WRITE_BYTES,
            "object_size": CAPACITY_OBJECT_BYTES, "object_num": CAPACITY_OBJECTS,
        }, CALL_TIMEOUT_S)
        parsed = bench_seconds(text)
        if parsed is None or parsed[1] < _WRITE_BYTES:
            raise CommandFailed(f"osd.{osd_id} refused to bench: {text.strip()[:200]}")
        seconds, written = parsed
        return written / _WRITE_BYTES / seconds

    def _option(self, osd_id: int, name: str) -> str:
        """The value that the OSD uses; empty where its release has no such option."""
        try:
            return self._osds.option(osd_id, name, CALL_TIMEOUT_S) or ""
        except CommandFailed:
            return ""

    def _number(self, osd_id: int, name: str) -> float:
        try:
            number = float(self._option(osd_id, name))
        except ValueError:
            return 0.0
        return number if 0 < number < 1e12 else 0.0
