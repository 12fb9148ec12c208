"""Keeps what plans have promised of hosts' memory, here and on the mons."""

from __future__ import annotations

import threading
from typing import Callable, Tuple

from ....engine.storing.archive import Archive, StoredKind
from ..promise import PROMISES_MAX, Promise, Promises

PROMISES = StoredKind("memory/promises", Promises)


class KeptPromises:
    """Guarded by a lock of its own, which is held for a moment."""

    def __init__(self, archive: Archive) -> None:
        self._lock = threading.Lock()
        self._archive = archive
        self.all: Tuple[Promise, ...] = ()

    def load(self) -> None:
        """Take up what was stored."""
        with self._lock:
            self.all = (self._archive.get(PROMISES) or Promises()).items

    def change(self, change: Callable[[Tuple[Promise, ...]], Tuple[Promise, ...]]) -> None:
        """Keep the newest of what `change` makes of them, and store it where it differs."""
        with self._lock:
            promises = change(self.all)[-PROMISES_MAX:]
            if promises != self.all:
                self.all = promises
                self._archive.put_later(PROMISES, Promises(promises))
