"""Restores while the worker waits for a drive that does not answer.

The worker does the mgr's tasks, and a look at a drive that hangs takes it along, for minutes or
for ever.  A lease that runs out meanwhile, or that `restore --all` ends, must end all the same, so
a thread steps in.  It starts processes and asks no drive for anything.  What an admin asks for is
another thread's: its answer is a file, whose folder may hang too.
"""

from __future__ import annotations

import threading
import time
from typing import Callable

from .owed import Restoring

# A task that is well takes less, but for timers, in which no lease runs out.
BUSY_S = 2.0
EVERY_S = 0.5


class Guard:
    """Looks now and then; `start` begins the threads."""

    def __init__(
        self, restoring: Restoring, busy_s: Callable[[], float], *,
        look: Callable[[], None] = lambda: None,
    ) -> None:
        """`busy_s`: for how long the worker has been at what it does.

        `look` does what an admin asks for by a file.
        """
        self._restoring = restoring
        self._busy_s = busy_s
        self._look = look

    def start(self) -> None:
        """Begin; it ends with the process."""
        for turn in (self.turn, self.turn_of_requests):
            threading.Thread(target=_now_and_then, args=(turn,), name="guard", daemon=True).start()

    def turn(self) -> None:
        """Restore, where the worker has been busy for too long."""
        if self._busy_s() > BUSY_S:
            self._restoring.restore_owed()

    def turn_of_requests(self) -> None:
        """Do what an admin asks for, where the worker has been busy for too long."""
        if self._busy_s() > BUSY_S:
            self._look()


def _now_and_then(turn: Callable[[], None]) -> None:
    while True:
        time.sleep(EVERY_S)
        turn()
