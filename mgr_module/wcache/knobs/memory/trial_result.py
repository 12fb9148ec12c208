"""What a trial of a larger target has told."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar, Iterable, List, Tuple

# Loads drift: what is older tells of another time.
AGE_S_MAX = 60 * 86400.0
# A target this far from the one that was tried is another one.
SAME_TARGET = 0.05


class TrialVerdict(str, Enum):
    """What came out of a trial."""

    GAIN = "gain"
    NONE = "no material difference"
    VAGUE = "insufficient data"


@dataclass(frozen=True)
class TrialResult:
    """Misses with a larger target, as a share of those without it, with its 95% interval.

    `low_bytes` and `high_bytes` are the two targets; `verdict` is what came out.
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
    verdict: TrialVerdict = TrialVerdict.VAGUE

    def tells_of(self, target_bytes: int, now_s: float) -> bool:
        """Whether it is evidence for OSDs with this target now."""
        known = self.verdict is not TrialVerdict.VAGUE and now_s - self.ended_at_s <= AGE_S_MAX
        return known and _near(target_bytes, self.low_bytes)


def gains(
    trials: Iterable[TrialResult], device_class: str, target_bytes: int, now_s: float
) -> Tuple[TrialResult, ...]:
    """What OSDs with this target would gain; of trials of one larger target the last one tells."""
    last: List[TrialResult] = []
    for trial in sorted(trials, key=lambda item: item.ended_at_s):
        if trial.device_class == device_class and trial.tells_of(target_bytes, now_s):
            last = [item for item in last if not _near(item.high_bytes, trial.high_bytes)]
            last.append(trial)
    return tuple(item for item in last if item.verdict is TrialVerdict.GAIN)


def _near(target_bytes: int, other_bytes: int) -> bool:
    return abs(target_bytes - other_bytes) <= SAME_TARGET * other_bytes


@dataclass(frozen=True)
class TrialResults:
    """All of them, as they are stored."""

    VERSION: ClassVar[int] = 1
    items: Tuple[TrialResult, ...] = field(default=(), metadata={"max_items": 1000})
