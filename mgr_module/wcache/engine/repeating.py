"""What is done again and again: until it works, or for as long as the module runs."""

from __future__ import annotations

import threading
from typing import Callable, List, Optional, Sequence, Tuple

from ..core.errors import WcacheError
from ..core.model import Finding, FindingCode, Severity

CLOSE_S = 2.0  # what is under way is not waited for longer
RETRY_MIN_S, RETRY_MAX_S = 1.0, 60.0


class Repeating:
    """A thread that calls `turn` at once, and again after `wait_s()` or when asked to.

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


class Starter:
    """Takes up the stored state, by steps that are each done once, in order.

    One that fails is tried again later: right after a mgr has started the mons may have no quorum,
    and a store may be unreadable until an admin has cured it.
    """

    def __init__(self, steps: Sequence[Callable[[], None]]) -> None:
        self._left: List[Callable[[], None]] = list(steps)
        self.retry_s = RETRY_MIN_S
        self.error = ""

    @property
    def ready(self) -> bool:
        """Whether every step is done."""
        return not self._left

    def go_on(self) -> bool:
        """Do what is left; whether that was all.  After a failure `retry_s` says when to try."""
        while self._left:
            try:
                self._left[0]()
            except WcacheError as error:
                self._failed(error.line())
                return False
            except Exception as error:
                # whatever it is, a later try costs nothing, and giving up everything
                self._failed(f"the stored state could not be taken up: {error!r}"[:300])
                return False
            self._left.pop(0)
        self.error, self.retry_s = "", RETRY_MIN_S
        return True

    def _failed(self, line: str) -> None:
        self.retry_s = RETRY_MIN_S if line != self.error else min(RETRY_MAX_S, 2 * self.retry_s)
        self.error = line

    def findings(self) -> Tuple[Finding, ...]:
        """That the module has not started, and why."""
        if not self.error:
            return ()
        said = f"wcache cannot start yet, and keeps trying: {self.error}"
        return (Finding(FindingCode.STORE_FAILED, Severity.ERROR, "mgr", said),)
