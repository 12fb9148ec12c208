"""Keeps what plans have promised of hosts' memory, here and on the mons."""

from __future__ import annotations

import threading
from typing import Callable, Tuple

from ....engine.storing.archive import Archive
from ..promise import PROMISES_MAX, Promise, Promises
from .archive import MemoryArchive


class KeptPromises:
    """Guarded by a lock of its own, which is held for a moment."""

    def __init__(self, archive: Archive) -> None:
        self._lock = threading.Lock()
        self._archive = MemoryArchive(archive)
        self.all: Tuple[Promise, ...] = ()

    def load(self) -> None:
        """Take up what was stored."""
        with self._lock:
            self.all = self._archive.promises()

    def change(self, change: Callable[[Tuple[Promise, ...]], Tuple[Promise, ...]]) -> None:
        """Keep the newest of what `change` makes of them, and store it where it differs."""
        with self._lock:
            promises = change(self.all)[-PROMISES_MAX:]
            if promises != self.all:
                self.all = promises
                self._archive.put_promises(Promises(promises))
