"""SIGTERM, SIGINT and SIGHUP as something that every wait of the probe can be woken by.

A pipe and not a threading.Event: an Event set inside a signal handler takes a lock that
the interrupted code may hold.
"""

from __future__ import annotations

import os
import select
import signal
import time
from typing import Any, Callable, Protocol


class Stop(Protocol):
    """Says when the probe has to end."""

    def is_set(self) -> bool:
        """Whether it has to end."""

    def wait(self, seconds: float) -> None:
        """Sleep, but not past the moment it has to end, or is asked for something."""


class StopSignal:
    """Set by a signal; `fd` becomes readable then and stays so.

    While it waits it calls `beat` every `beat_s` seconds, where that is not 0.
    """

    def __init__(self, beat: Callable[[], None] = lambda: None, beat_s: float = 0.0) -> None:
        self.fd, self._write_fd = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._woken_fd, self._wake_fd = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._beat = beat
        self._beat_s = beat_s
        self._set = False

    def install(self) -> None:
        """Take SIGTERM, SIGINT and SIGHUP (a terminal that goes); only in the main thread."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup(1) means it
            signal.signal(signal.SIGHUP, self._on_signal)

    def wake_on(self, number: signal.Signals) -> None:
        """Let a signal end the wait that is under way, or the next one."""
        signal.signal(number, self._on_wake)

    def _on_signal(self, _number: int, _frame: Any) -> None:
        self.set()

    def _on_wake(self, _number: int, _frame: Any) -> None:
        try:
            os.write(self._wake_fd, b".")
        except BlockingIOError:
            return  # woken often enough

    def set(self) -> None:
        """Ask the probe to end."""
        if not self._set:
            self._set = True
            os.write(self._write_fd, b".")

    def is_set(self) -> bool:
        """Whether the probe has to end."""
        return self._set

    def wait(self, seconds: float) -> None:
        """Sleep, but not past the moment it has to end or is woken."""
        until_s = time.monotonic() + max(0.0, seconds)
        while True:
            self._beat()
            left_s = max(0.0, until_s - time.monotonic())
            step_s = min(left_s, self._beat_s) if self._beat_s else left_s
            ready, _, _ = select.select([self.fd, self._woken_fd], [], [], step_s)
            if self._woken_fd in ready:
                os.read(self._woken_fd, 4096)
            if ready or step_s >= left_s:
                return
