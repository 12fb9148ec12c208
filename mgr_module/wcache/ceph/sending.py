"""The thread that hands all commands to the mgr; it lives as long as the process.

A completion runs on the Python thread state of the thread that sent its command, to its very end
(MonCommandCompletion in src/mgr/BaseMgrModule.cc keeps PyThreadState_Get(), and Gil::~Gil releases
through it after `complete` has returned).  A thread that sent a command, took its answer and ended
could be gone by then: the mgr died of a segmentation fault.
"""

from __future__ import annotations

import queue
import threading
from typing import Any, Callable, Optional

EINVAL = 22


class Sender:
    """Sends in one thread, which begins with the first command and does not end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._due: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._thread: Optional[threading.Thread] = None

    def send(self, mgr: Any, reply: Any, kind: str, who: str, command: str) -> None:
        """As MgrModule.send_command; what it raises completes the reply as a failure."""

        def once() -> None:
            try:
                mgr.send_command(reply, kind, who, command, "")
            except Exception as error:  # the thread must live on
                reply.complete(-EINVAL, "", repr(error))

        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, daemon=True, name="wcache-sender"
                )
                self._thread.start()
        self._due.put(once)

    def _work(self) -> None:
        while True:
            self._due.get()()


_SENDER = Sender()


def send(mgr: Any, reply: Any, kind: str, who: str, command: str) -> None:
    """Send a command by the thread of this process; returns at once."""
    _SENDER.send(mgr, reply, kind, who, command)
