"""Benches OSDs by the recipe by which they bench themselves for mClock."""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Protocol, Tuple

from ..core.knobs.mclock.capacity import COUNT_BYTES, OBJECT_BYTES, OBJECTS, SCHEDULER, WRITE_BYTES
from ..core.knobs.mclock.config import QUEUE
from ..core.knobs.mclock.job import Bench, BenchSamples
from .command import CommandFailed, SendsCommands, ask_osd, parse

# 3,000 writes on a drive that makes 25 in a second, and 400 MiB before them.
CALL_TIMEOUT_S = 150.0

Done = Callable[[Optional[BenchSamples], str], None]


class CapacityBench(Protocol):
    """Port: benches an OSD in the background."""

    def start(self, bench: Bench, forced: bool, done: Done) -> None:
        """Make the calls; `done(samples, error)` is called once, from another thread."""

    def cancel(self, token: str) -> None:
        """Stop after the call under way; one that is over is fine."""


class CephCapacity:
    """The `CapacityBench` port over a mgr module."""

    def __init__(
        self, mgr: SendsCommands, *, is_up: Callable[[int], bool],
        bench_seconds: Callable[[str], Optional[Tuple[float, int]]],
    ) -> None:
        self._mgr = mgr
        self._is_up = is_up
        self._bench_seconds = bench_seconds
        self._cancels: Dict[str, threading.Event] = {}

    def start(self, bench: Bench, forced: bool, done: Done) -> None:
        """Bench in a thread."""
        cancel = self._cancels[bench.token] = threading.Event()
        threading.Thread(
            target=self._run, args=(bench, forced, done, cancel), daemon=True,
            name=f"wcache-capacity-osd.{bench.target.osd_id}",
        ).start()

    def cancel(self, token: str) -> None:
        """A call cannot be interrupted: it ends after the one under way."""
        cancel = self._cancels.get(token)
        if cancel is not None:
            cancel.set()

    def _run(self, bench: Bench, forced: bool, done: Done, cancel: threading.Event) -> None:
        samples, error = None, ""
        try:
            samples = self._bench(bench, forced, cancel)
        except CommandFailed as failure:
            error = str(failure)
        except Exception as failure:
            # a thread's exception would go nowhere, and the job wait for ever
            error = f"benching osd.{bench.target.osd_id} failed: {failure!r}"[:300]
        self._cancels.pop(bench.token, None)
        done(samples, error)

    def _bench(self, bench: Bench, forced: bool, cancel: threading.Event) -> BenchSamples:
        osd_id = bench.target.osd_id
        scheduler = self._option(osd_id, QUEUE)
        if scheduler != SCHEDULER and not forced:
            raise CommandFailed(f"osd.{osd_id} schedules by {scheduler}, not by mClock")
        kind = "hdd" if bench.target.rotational else "ssd"
        limits = [
            self._number(osd_id, f"osd_mclock_iops_capacity_{which}threshold_{kind}")
            for which in ("low_", "")
        ]
        iops: List[float] = []
        begin_s = time.monotonic()
        while len(iops) < bench.calls:
            if cancel.is_set():
                raise CommandFailed("stopped")
            iops.append(self._call(osd_id))
        seconds = time.monotonic() - begin_s
        return BenchSamples(tuple(iops), seconds, scheduler, limits[0], limits[1])

    def _call(self, osd_id: int) -> float:
        text = self._ask(osd_id, {
            "prefix": "bench", "count": COUNT_BYTES, "size": WRITE_BYTES,
            "object_size": OBJECT_BYTES, "object_num": OBJECTS,
        })
        parsed = self._bench_seconds(text)
        if parsed is None or parsed[1] < WRITE_BYTES:
            raise CommandFailed(f"osd.{osd_id} refused to bench: {text.strip()[:200]}")
        seconds, written = parsed
        return written / WRITE_BYTES / seconds

    def _option(self, osd_id: int, name: str) -> str:
        """The value that the OSD uses; empty where its release has no such option."""
        try:
            plain = parse(self._ask(osd_id, {"prefix": "config get", "var": name}), name)
        except CommandFailed:
            return ""
        value = plain.get(name) if isinstance(plain, Mapping) else None
        return value[:100] if isinstance(value, str) else ""

    def _number(self, osd_id: int, name: str) -> float:
        try:
            number = float(self._option(osd_id, name))
        except ValueError:
            return 0.0
        return number if 0 < number < 1e12 else 0.0

    def _ask(self, osd_id: int, command: Mapping[str, Any]) -> str:
        return ask_osd(self._mgr, osd_id, command, is_up=self._is_up, timeout_s=CALL_TIMEOUT_S)
