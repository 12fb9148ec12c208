"""Restores while the probe's loop waits for a drive that does not answer.

The loop does the mgr's tasks itself, and a look at a drive that hangs takes it along, for
minutes or for ever.  A lease that runs out meanwhile, or that `restore --all` ends, must
end all the same, so a thread steps in.  It starts processes and asks no drive for anything,
so nothing can hang it.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import Callable, Iterator, Optional

from .owed import Restoring

# A task that is well takes less, but for timers, in which no lease runs out.
BUSY_S = 2.0
EVERY_S = 0.5


class Guard:
    """`watching` goes around whatever may hang; `start` begins the thread."""

    def __init__(
        self, restoring: Restoring, *, look: Callable[[], None] = lambda: None,
        busy_s: float = BUSY_S, every_s: float = EVERY_S,
    ) -> None:
        """`look` does what an admin asks for by a file."""
        self._restoring = restoring
        self._look = look
        self._busy_s = busy_s
        self._every_s = every_s
        self._since_s: Optional[float] = None

    def start(self) -> None:
        """Begin; it ends with the process."""
        threading.Thread(target=self._run, name="guard", daemon=True).start()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """The loop is busy with a drive."""
        self._since_s = time.monotonic()
        try:
            yield
        finally:
            self._since_s = None

    def _run(self) -> None:
        while True:
            time.sleep(self._every_s)
            self.turn()

    def turn(self) -> None:
        """Step in, where the loop has been busy for too long."""
        since_s = self._since_s
        if since_s is not None and time.monotonic() - since_s > self._busy_s:
            self._look()
            self._restoring.restore_owed()
