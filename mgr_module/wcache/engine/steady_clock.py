"""The time of day as the engine counts it."""

from __future__ import annotations

import time
from typing import Callable


def steady_clock() -> Callable[[], float]:
    """Wall-clock time that never steps: a set clock must not end or prolong a period."""
    offset_s = time.time() - time.monotonic()
    return lambda: offset_s + time.monotonic()
