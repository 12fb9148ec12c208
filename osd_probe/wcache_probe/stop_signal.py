"""SIGTERM, SIGINT and SIGHUP as something that every wait of the probe can be woken by.

A pipe and not a threading.Event: an Event set inside a signal handler takes a lock that
the interrupted code may hold.
"""

from __future__ import annotations

import os
import select
import signal
from typing import Any, Protocol


class Stop(Protocol):
    """Says when the probe has to end."""

    def is_set(self) -> bool:
        """Whether it has to end."""

    def wait(self, seconds: float) -> None:
        """Sleep, but not past the moment it has to end."""


class StopSignal:
    """Set by a signal; `fd` becomes readable then and stays so."""

    def __init__(self) -> None:
        self.fd, self._write_fd = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._set = False

    def install(self) -> None:
        """Take SIGTERM, SIGINT and SIGHUP (a terminal that goes); only in the main thread."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup(1) means it
            signal.signal(signal.SIGHUP, self._on_signal)

    def _on_signal(self, _number: int, _frame: Any) -> None:
        self.set()

    def set(self) -> None:
        """Ask the probe to end."""
        if not self._set:
            self._set = True
            os.write(self._write_fd, b".")

    def is_set(self) -> bool:
        """Whether the probe has to end."""
        return self._set

    def wait(self, seconds: float) -> None:
        """Sleep, but not past the moment it has to end."""
        select.select([self.fd], [], [], max(0.0, seconds))
