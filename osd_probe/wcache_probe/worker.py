"""The one thread that touches drives, beside the loop that calls the mgr.

The kernel lets nobody out of an fsync, or of the opening of a device, before the device has
answered; a process with a thread in there cannot even be killed.  So the loop does nothing of
that kind: it hands it over, goes on calling, and can tell what is waited for and since when.
One thing after the other: no two of them ever work on one drive.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from contextlib import suppress
from typing import Callable, Optional

from wcache.core.host_report import WAITING_CHARS_MAX, Waiting

from .mgr_link import printable

Job = Callable[[], object]
POLL_S = 0.05


class Worker:
    """Does jobs one after the other, in a thread of its own, which ends with the process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._given = self._done = 0
        self._began_at_s: Optional[float] = None
        self._name = ""
        self._at = ("", 0.0)
        self._failure: Optional[BaseException] = None
        self._thread = threading.Thread(target=self._run, name="worker", daemon=True)
        self._thread.start()

    @property
    def busy(self) -> bool:
        """Whether something that was given is not done yet; raises what a job has raised."""
        if self._failure is not None:
            raise self._failure
        return self._done < self._given

    def give(self, job: Job) -> None:
        """Have it done, after what was given before."""
        self._given += 1
        self._jobs.put(job)

    def begin(self, name: str) -> None:
        """Tell what the job under way is."""
        self._name = name
        self._at = (name, self._clock())

    def at(self, what: str) -> None:
        """Tell of its step from now on; what other threads do is no news of it."""
        if threading.current_thread() is self._thread:
            self._at = (f"{self._name}: {what}", self._clock())

    def fsync(self, fd: int) -> None:
        """fsync(2), told by the name of the file."""
        with suppress(OSError):
            self.at(f"fsync of {os.readlink(f'/proc/self/fd/{fd}')}")
        os.fsync(fd)

    def busy_s(self) -> float:
        """How long the job under way has taken so far; 0 where there is none."""
        began_at_s = self._began_at_s
        return 0.0 if began_at_s is None else self._clock() - began_at_s

    def waiting(self, over_s: float) -> Optional[Waiting]:
        """What it is at, where it has been at that for longer; else None."""
        what, since_s = self._at
        seconds = self._clock() - since_s
        if self._began_at_s is None or seconds <= over_s:
            return None
        return Waiting(printable(what)[:WAITING_CHARS_MAX], round(seconds, 1))

    def wait(self, seconds: float) -> bool:
        """Wait until all is done; False where it is not by then."""
        until_s = self._clock() + seconds
        while self.busy:
            if self._clock() >= until_s:
                return False
            time.sleep(POLL_S)
        return True

    def _run(self) -> None:
        while self._failure is None:
            job = self._jobs.get()
            self.begin("restoring, and looking around")
            self._began_at_s = self._clock()
            try:
                job()
            except BaseException as error:
                self._failure = error  # the loop raises it: nothing may go on without us
            self._began_at_s = None
            self._done += 1
