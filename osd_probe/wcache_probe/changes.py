"""When the mgr should hear that this host is not as it was last reported.

Events of the kernel end a wait; a glance at files is taken now and then, and when another
command of ours sends its signal; by the worker, since the sysfs of a drive that hangs may have
to be waited for.  The mgr then asks for a report, as it does every ten minutes.  A storm of
events makes no storm of reports: there is a pause after each, and a longer one after each that
follows closely.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Callable, Optional

# udev's rules for a drive that appears run meanwhile, and several events come for one change.
SETTLE_S = 1.0
# From one report that a change has caused to the next, and how far that doubles.
PAUSE_S, PAUSE_MAX_S = 5.0, 60.0
# A glance reads some hundred small files and one of each process: of 170 in about 10 ms.
GLANCE_EVERY_S = 10.0


@dataclass
class HostWatch:
    """What has changed since the last report began.

    `fd` is readable where events are; -1 where none come.  `events` takes them and tells whether
    one of them matters.  The probe's loop listens and tells; `look` and `reporting` are the
    worker's.
    """

    glance_every_s = GLANCE_EVERY_S
    fd: int = -1
    events: Callable[[], bool] = bool
    glance: Callable[[], object] = lambda: None
    clock: Callable[[], float] = time.monotonic
    _seen: object = None
    _glanced_at_s: float = float("-inf")
    _reported_at_s: float = float("-inf")
    _caused: bool = False  # whether a change caused the last report
    _pause_s: float = PAUSE_S
    _since_s: Optional[float] = None
    _told: bool = False

    def drain(self) -> None:
        """Take the events that have come."""
        if self.events():
            self._changed()

    def hurry(self) -> None:
        """Another command of ours has done something: the next glance is due now."""
        self._glanced_at_s = float("-inf")

    def look(self) -> None:
        """Glance, now and then."""
        now_s = self.clock()
        if now_s < self._glanced_at_s + GLANCE_EVERY_S:
            return
        self._glanced_at_s = now_s
        seen = self.glance()
        if seen != self._seen and self._seen is not None:
            self._changed()
        self._seen = seen

    def _changed(self) -> None:
        if self._since_s is None:
            self._since_s = self.clock()

    @property
    def due(self) -> bool:
        """Whether the mgr should ask for a report now."""
        at_s = self.due_at_s
        return at_s is not None and self.clock() >= at_s

    def wake_in_s(self) -> Optional[float]:
        """In how long the mgr should be called for it; None where it need not, or was."""
        at_s = None if self._told else self.due_at_s
        return None if at_s is None else max(0.0, at_s - self.clock())

    def told(self) -> None:
        """The mgr has been told; it asks when it can."""
        self._told = self.due

    def reporting(self) -> None:
        """A report begins: what changes from now on is not in it."""
        now_s = self.clock()
        caused = self._since_s is not None
        if caused and self._caused and now_s < self._reported_at_s + PAUSE_MAX_S + PAUSE_S:
            self._pause_s = min(PAUSE_MAX_S, 2.0 * self._pause_s)
        elif caused:
            self._pause_s = PAUSE_S
        self._caused = caused
        self._reported_at_s = now_s
        self._since_s, self._told = None, False
        self.hurry()
        self.look()
        self._since_s = None

    @property
    def due_at_s(self) -> Optional[float]:
        """When the mgr should ask for a report; None where nothing has changed."""
        since_s = self._since_s
        if since_s is None:
            return None
        return max(since_s + SETTLE_S, self._reported_at_s + self._pause_s)
