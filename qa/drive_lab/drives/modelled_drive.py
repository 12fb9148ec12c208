"""A drive as the backend of the lab plays it: true data, modelled time, counted commands."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import Callable, Protocol

from .counters import Counters
from .medium import Medium


class Physics(Protocol):
    """How long each command takes, in ns, when it arrives at ``now_ns``; queueing included."""

    def read(self, now_ns: int, size: int) -> int: ...

    def write(self, now_ns: int, size: int, fua: bool = False) -> int: ...

    def flush(self, now_ns: int) -> int: ...

    def power_cut(self) -> int: ...


class ModelledDrive:
    """Thread-safe.

    ``flush_lies`` is a drive that acknowledges flushes and keeps the data volatile;
    ``protected`` one whose capacitors save the cache when the power goes.
    """

    def __init__(
        self,
        *,
        medium: Medium,
        physics: Physics,
        publish: Callable[[Counters], None],
        flush_lies: bool = False,
        protected: bool = False,
        now_ns: Callable[[], int] = time.monotonic_ns,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._medium = medium
        self._physics = physics
        self._publish = publish
        self._flush_lies = flush_lies
        self._protected = protected
        self._now_ns = now_ns
        self._sleep = sleep
        self._lock = threading.Lock()
        self._counters = Counters()
        self._powered = True
        self.size_bytes = medium.size_bytes

    def read(self, offset: int, size_bytes: int) -> bytearray:
        start_ns = self._now_ns()
        with self._lock:
            latency_ns = self._physics.read(start_ns, size_bytes)
        self._sleep_until(start_ns + latency_ns)
        with self._lock:
            self._count(read=1)
            return self._medium.read(offset, size_bytes)

    def write(self, offset: int, data: bytes | memoryview, *, fua: bool) -> None:
        """With ``fua`` the data is on the medium when this returns, without it in the cache."""
        start_ns = self._now_ns()
        with self._lock:
            latency_ns = self._physics.write(start_ns, len(data), fua)
        self._sleep_until(start_ns + latency_ns)
        with self._lock:
            if not self._powered:
                return
            if fua or self._protected:
                self._medium.write_through(offset, data)
            else:
                self._medium.write_cached(offset, data)
            if fua:
                self._count(fua=1, bytes_written=len(data))
            else:
                self._count(write=1, bytes_written=len(data))

    def flush(self) -> None:
        start_ns = self._now_ns()
        with self._lock:
            dirty = self._medium.dirty_blocks
            latency_ns = self._physics.flush(start_ns)
        self._sleep_until(start_ns + latency_ns)
        with self._lock:
            if not self._flush_lies and self._powered:
                self._medium.flush()
            self._count(flush=1, flush_dirty=1 if dirty else 0)

    def power_cut(self) -> int:
        """Lose what is not on the medium; return how many blocks that were."""
        with self._lock:
            lost = self._medium.power_cut()
            self._physics.power_cut()
            self._count(lost=lost)
            return lost

    def power_off(self) -> int:
        """A power cut after which writes go nowhere, as if nobody had sent them.

        They are answered all the same, so that the guest needs no error recovery; reads show
        what is on the medium.
        """
        with self._lock:
            self._powered = False
        return self.power_cut()

    def power_on(self) -> int:
        """Take writes again; return the blocks that are volatile."""
        with self._lock:
            self._powered = True
            return self._medium.dirty_blocks

    def _sleep_until(self, end_ns: int) -> None:
        left_ns = end_ns - self._now_ns()
        if left_ns > 0:
            self._sleep(left_ns / 1e9)

    def _count(self, **added: int) -> None:
        values = {name: getattr(self._counters, name) + count for name, count in added.items()}
        self._counters = replace(self._counters, dirty=self._medium.dirty_blocks, **values)
        self._publish(self._counters)
