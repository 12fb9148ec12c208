"""Takes up the stored state, again and again until it can be read.

Right after a mgr has started the mons may have no quorum, and a store may be unreadable
until an admin has cured it: neither is a reason to do nothing for ever.
"""

from __future__ import annotations

from typing import Callable, List, Sequence, Tuple

from ..core.errors import WcacheError
from ..core.model import Finding, FindingCode, Severity

RETRY_MIN_S, RETRY_MAX_S = 1.0, 60.0


class Starter:
    """Steps that are each done once, in order; one that fails is tried again later."""

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
