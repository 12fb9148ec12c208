"""What ends or wakes the waits of the probe, with what systemd hears of its loop.

SIGTERM, SIGINT and SIGHUP are something that every wait can be woken by: a pipe and not a
threading.Event, which set inside a signal handler takes a lock that the interrupted code may hold.
Of systemd see sd_notify(3), WatchdogSec=.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import threading
import time
from typing import Callable, Mapping, Optional

from .changes import HostWatch

# Events that come in a storm are taken this often.
EVENTS_EVERY_S = 0.2
# Why a wait is woken: by a signal, by an end that somebody waits for, to be measured anew.
_ASKED, _END, _ANEW = b".", b"e", b"n"


class StopSignal:
    """Set by a signal; `fd` becomes readable then and stays so.

    While it waits it calls `beat` every `beat_s` seconds, where that is not 0, takes what
    `watch` has, and calls `tend` as often as that is to glance.
    """

    watch: Optional[HostWatch] = None

    def __init__(self, beat: Callable[[], None] = lambda: None, beat_s: float = 0.0) -> None:
        self.fd, self._write_fd = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._woken_fd, self._wake_fd = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._beat = beat
        self._beat_s = beat_s
        self.tend: Callable[[], None] = lambda: None
        self._set = False

    def install(self) -> StopSignal:
        """Take SIGTERM, SIGINT and SIGHUP (a terminal that goes); only in the main thread."""
        numbers = [signal.SIGTERM, signal.SIGINT]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup(1) means it
            numbers.append(signal.SIGHUP)
        for number in numbers:
            signal.signal(number, lambda _number, _frame: self.set())
        return self

    def wake_on(self, number: signal.Signals) -> None:
        """Let a signal end the wait that is under way, or the next one."""
        signal.signal(number, lambda _number, _frame: self._write(_ASKED))

    def wake(self, end: bool) -> None:
        """From another thread: end the wait, or have it look anew at how long it is to be."""
        self._write(_END if end else _ANEW)

    def _write(self, word: bytes) -> None:
        try:
            os.write(self._wake_fd, word)
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
        listen_at_s = 0.0
        while True:
            self._beat()
            now_s, watch = time.monotonic(), self.watch
            self.tend()
            early_s = watch.wake_in_s() if watch is not None else None
            left_s = max(0.0, until_s - now_s)
            left_s = left_s if early_s is None else min(left_s, early_s)
            step_s = min(left_s, self._beat_s) if self._beat_s else left_s
            step_s = step_s if watch is None else min(step_s, watch.glance_every_s)
            fds, listens = [self.fd, self._woken_fd], watch is not None and watch.fd >= 0
            if watch is not None and listens and now_s >= listen_at_s:
                fds.append(watch.fd)
            elif listens:
                step_s = min(step_s, listen_at_s - now_s)
            ready, _, _ = select.select(fds, [], [], step_s)
            woken = os.read(self._woken_fd, 4096) if self._woken_fd in ready else b""
            if _ASKED in woken and watch is not None:
                watch.hurry()
            if self.fd in ready or woken.strip(_ANEW) or (not ready and step_s >= left_s):
                return
            if watch is not None and watch.fd in ready:
                watch.drain()
                listen_at_s = time.monotonic() + EVENTS_EVERY_S


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
