"""A thread that does something again and again for as long as the module runs."""

from __future__ import annotations

import threading
from typing import Callable, Optional

CLOSE_S = 2.0  # what is under way is not waited for longer


class Repeating:
    """Calls `turn` at once, and again after `wait_s()` or when asked to.

    `failed` takes what `turn` raises: the thread lives on.
    """

    def __init__(
        self, name: str, turn: Callable[[], object], failed: Callable[[Exception], None],
        wait_s: Callable[[], float],
    ) -> None:
        self._name = name
        self._turn = turn
        self._failed = failed
        self._wait_s = wait_s
        self._wake = threading.Event()
        self._thread: Optional[threading.Thread] = None
        self.stopped = False

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self._work, daemon=True, name=self._name)
        self._thread.start()

    def soon(self) -> None:
        """Have the next turn begin at once."""
        self._wake.set()

    def close(self) -> None:
        """Begin no other turn, and wait a moment for the one under way."""
        self.stopped = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout=CLOSE_S)

    def _work(self) -> None:
        while not self.stopped:
            try:
                self._turn()
            except Exception as error:
                self._failed(error)
            self._wake.wait(self._wait_s())
            self._wake.clear()
