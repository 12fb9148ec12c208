"""A plan and how far its rollout has come: what is stored of it after every step."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Optional, Tuple

from .model import CacheMode, LoadPoint, Transport


class ChangeStatus(str, Enum):
    """Where one planned change stands."""

    PLANNED = "planned"
    APPLYING = "applying"  # from here on the drive may have been touched
    APPLIED = "applied"
    UNCHANGED = "unchanged"
    FAILED = "failed"
    ROLLING_BACK = "rolling back"
    ROLLED_BACK = "rolled back"
    ROLLBACK_FAILED = "rollback failed"  # the drive is not known to be as it was before


# The drive may be in another mode than before the plan: what a rollback is for.
TOUCHED = (
    ChangeStatus.APPLYING, ChangeStatus.APPLIED, ChangeStatus.ROLLING_BACK,
    ChangeStatus.ROLLBACK_FAILED,
)


@dataclass(frozen=True)
class Change:
    """One cache domain to be put into another mode."""

    action_id: str
    hostname: str
    domain_id: str
    dev_names: Tuple[str, ...]
    osd_id: int
    device_class: str
    transport: Transport
    expected: CacheMode
    mode: CacheMode
    why: str
    manual: Tuple[str, ...]
    load_point: LoadPoint
    simulated: bool = False
    status: ChangeStatus = ChangeStatus.PLANNED
    detail: str = ""
    before_us: Optional[float] = None
    before_error: float = 0.0  # standard error of its logarithm
    after_us: Optional[float] = None
    seconds: float = 0.0
    bytes_written: int = 0

    @property
    def ratio(self) -> Optional[float]:
        """Latency before over latency after: above 1, the change helped."""
        if not self.before_us or not self.after_us:
            return None
        return self.before_us / self.after_us


class RolloutStatus(str, Enum):
    """Where a plan stands."""

    PLANNED = "planned"
    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    ROLLING_BACK = "rolling back"
    ROLLED_BACK = "rolled back"


@dataclass(frozen=True)
class Rollout:
    """A plan and how far it has come; stored after every step."""

    plan_id: str
    created_at_s: float
    changes: Tuple[Change, ...] = field(metadata={"max_items": 4096})
    status: RolloutStatus = RolloutStatus.PLANNED
    reason: str = ""
    consent_turn_on: bool = False
    consent_persist: bool = False
    throwaway: bool = False
    settle_s: float = 1.0
    canary_wait_s: float = 0.0
    latency_limit_ms: float = 2000.0
    count: int = 25
    period_s: float = 4.0

    @property
    def touched(self) -> Tuple[Change, ...]:
        """The changes a rollback would take back."""
        return tuple(change for change in self.changes if change.status in TOUCHED)
