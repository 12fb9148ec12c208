"""What systemd is told: that the loop goes on (sd_notify(3), WatchdogSec=)."""

from __future__ import annotations

import os
import socket
import threading
import time
from typing import Callable, Mapping

BEATS_PER_INTERVAL = 4


class Heartbeat:
    """Tells the service manager now and then that the loop makes progress.

    `beat` is called wherever the loop is known to go on; what other threads do is no
    progress of it.  A loop that hangs falls silent and is ended.
    Without a service manager that asks for it, it does nothing.
    """

    def __init__(
        self, environment: Mapping[str, str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._address = environment.get("NOTIFY_SOCKET", "")
        microseconds = environment.get("WATCHDOG_USEC", "")
        pid = environment.get("WATCHDOG_PID", "") or str(os.getpid())
        asked = microseconds.isascii() and microseconds.isdigit() and len(microseconds) <= 18
        known = self._address[:1] in ("/", "@") and pid == str(os.getpid())
        self.every_s = int(microseconds) / 1e6 / BEATS_PER_INTERVAL if asked and known else 0.0
        self._next_s = 0.0
        self._thread = threading.get_ident()

    def beat(self) -> None:
        """The loop goes on."""
        now_s = self._clock()
        mine = threading.get_ident() == self._thread
        if not self.every_s or now_s < self._next_s or not mine:
            return
        self._next_s = now_s + self.every_s / 2
        address = self._address
        if address.startswith("@"):
            address = "\0" + address[1:]
        try:
            with socket.socket(
                socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
            ) as door:
                door.sendto(b"WATCHDOG=1", address)
        except OSError:
            return  # a service manager that is busy is told the next time
