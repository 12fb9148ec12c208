"""What a plan has promised of a host, and whether it came true.

It is stored when the plan is made, and watched once the plan is done.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar, Optional, Tuple

from .facts import HostFacts

PROMISES_MAX = 1000
# Loads swing, and a cache goes on to settle for long: bins and trials tell of minutes, a promise
# is for later.  It is wider by this on both sides, and by so many misses a second.
SWING = 1.25
MISSES_MIN = 5.0


def widened(low: float, high: float) -> Tuple[float, float]:
    """What is promised where bins or a trial say from `low` to `high` misses per second."""
    return max(0.0, low / SWING - MISSES_MIN), SWING * high + MISSES_MIN


class Outcome(str, Enum):
    """What became of a promise."""

    KEPT = "kept"
    BROKEN = "broken"
    SETTLING = "not known yet"  # the caches settle, or too little was watched since
    RULE = "by a rule"  # nothing was measured, so nothing was promised
    GONE = "other targets since"


@dataclass(frozen=True)
class Promise:
    """Onode misses per second of all OSDs of a device class on a host: from `low` to `high`.

    Less than `low` is no harm.
    """

    plan_id: str
    host: str
    device_class: str
    target_bytes: int
    shape: str
    misses_before: float = 0.0
    high: float = 0.0
    measured: bool = False
    low: float = 0.0

    def outcome(self, host: HostFacts) -> Tuple[Outcome, Optional[float]]:
        """Whether it came true, and the misses that there are now."""
        mine = [item for item in host.osds if item.osd.device_class == self.device_class]
        if any(item.target_bytes != self.target_bytes for item in mine) or not mine:
            return Outcome.GONE, None
        if any(item.settling_s > 0 or item.rates is None for item in mine):
            return Outcome.SETTLING, None
        misses = sum(item.rates.onode_misses or 0.0 for item in mine if item.rates)
        if not self.measured:
            return Outcome.RULE, misses
        kept = misses <= self.high
        return (Outcome.KEPT if kept else Outcome.BROKEN), misses


@dataclass(frozen=True)
class Promises:
    """All of them, as they are stored."""

    VERSION: ClassVar[int] = 1
    items: Tuple[Promise, ...] = field(default=(), metadata={"max_items": PROMISES_MAX})
