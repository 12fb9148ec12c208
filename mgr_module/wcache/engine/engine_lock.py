"""The one lock of the engine."""

from __future__ import annotations

import threading


class EngineLock:
    """A plain lock; whoever has it already is told so, and does not wait for itself for ever."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder = 0

    @property
    def is_mine(self) -> bool:
        """Whether this thread has it."""
        return self._holder == threading.get_ident()

    def __enter__(self) -> None:
        if self.is_mine:
            raise RuntimeError("the engine's lock is taken twice")
        self._lock.acquire()
        self._holder = threading.get_ident()

    def __exit__(self, *_: object) -> None:
        self._holder = 0
        self._lock.release()
