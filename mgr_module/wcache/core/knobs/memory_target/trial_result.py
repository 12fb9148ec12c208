"""What a trial of a larger target has told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Tuple

# Loads drift: what is older tells of another time.
AGE_S_MAX = 60 * 86400.0
# A target this far from the one that was tried is another one.
SAME_TARGET = 0.05


@dataclass(frozen=True)
class TrialResult:
    """Misses with a larger target, as a share of those without it, with its 95% interval.

    `low_bytes` and `high_bytes` are the two targets; `verdict` says in words what came out.
    """

    trial_id: str
    device_class: str
    ended_at_s: float
    low_bytes: int
    high_bytes: int
    osd_ids: Tuple[int, ...] = ()
    misses_before: float = 0.0  # per second and OSD
    share: float = 1.0
    share_low: float = 0.0
    share_high: float = 1.0
    verdict: str = "insufficient data"

    def tells_of(self, target_bytes: int, now_s: float) -> bool:
        """Whether it is evidence for OSDs with this target now."""
        near = abs(target_bytes - self.low_bytes) <= SAME_TARGET * self.low_bytes
        return near and self.verdict == "gain" and now_s - self.ended_at_s <= AGE_S_MAX


@dataclass(frozen=True)
class TrialResults:
    """All of them, as they are stored."""

    items: Tuple[TrialResult, ...] = field(default=(), metadata={"max_items": 1000})
