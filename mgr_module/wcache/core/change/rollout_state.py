"""A plan and how far its rollout has come: what is stored of it after every step."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Optional, Tuple

from ..drive.prior import UNKNOWN, Prior, PriorDoubt
from ..model import CacheMode, LoadPoint, Transport
from ..record import Precondition


class ChangeStatus(str, Enum):
    """Where one planned change stands."""

    PLANNED = "planned"
    APPLYING = "applying"  # from here on the drive may have been touched
    APPLIED = "applied"
    UNCHANGED = "unchanged"
    FAILED = "failed"
    ROLLING_BACK = "rolling back"
    ROLLED_BACK = "rolled back"
    ACCEPTED = "accepted as it is"  # an admin gave up what was there before it
    ROLLBACK_FAILED = "rollback failed"  # the drive is not known to be as it was before


# The drive may be in another mode than before the plan: what a rollback is for.
TOUCHED = (
    ChangeStatus.APPLYING, ChangeStatus.APPLIED, ChangeStatus.ROLLING_BACK,
    ChangeStatus.ROLLBACK_FAILED,
)


@dataclass(frozen=True)
class Change:
    """One cache domain to be put into another mode.

    `failure_domain` names the CRUSH buckets that the plan goes by, the widest first.
    """

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
    failure_domain: str = ""
    # what was there, stored before the request goes out; unknown where an older version made it
    prior: Prior = UNKNOWN
    doubt: PriorDoubt = PriorDoubt.NONE  # why it cannot be gone back to

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
    """A plan and how far it has come; stored after every step.

    `overridden` are the preconditions that an admin said need not hold, `forced` those of
    them that did not when a change was made.  `missed` are those that it waits for now, since
    `held_since_s`.
    """

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
    overridden: Tuple[Precondition, ...] = ()
    forced: Tuple[Precondition, ...] = ()
    missed: Tuple[Precondition, ...] = ()
    held_since_s: float = 0.0
    cluster_fsid: str = ""

    @property
    def touched(self) -> Tuple[Change, ...]:
        """The changes a rollback would take back."""
        return tuple(change for change in self.changes if change.status in TOUCHED)

    @property
    def current_index(self) -> Optional[int]:
        """Which change is under way or next: forwards the first, backwards the last."""
        if self.status is RolloutStatus.ROLLING_BACK:
            back = [
                i for i, c in enumerate(self.changes) if c.status is ChangeStatus.ROLLING_BACK
            ]
            return back[-1] if back else None
        for index, change in enumerate(self.changes):
            if change.status in (ChangeStatus.PLANNED, ChangeStatus.APPLYING):
                return index
        return None
