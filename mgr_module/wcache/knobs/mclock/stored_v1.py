"""What was stored of mClock before its changes were plans, and its measurements campaigns."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar, Tuple

from ...core.change.change_status import ChangeStatus
from ...core.change.config_change import ConfigChange
from ...core.change.rollout_state import Rollout, RolloutStatus
from ...core.config_database import EDITS_MAX, ConfigEdit
from .capacity import CALLS_MAX, CALLS_MIN
from .select import Target

# One that was stopped may have made some of its edits: a rollback looks which.
_STATUS = {
    RolloutStatus.RUNNING: ChangeStatus.APPLYING,
    RolloutStatus.DONE: ChangeStatus.APPLIED,
    RolloutStatus.STOPPED: ChangeStatus.APPLIED,
    RolloutStatus.ROLLING_BACK: ChangeStatus.ROLLING_BACK,
    RolloutStatus.ROLLED_BACK: ChangeStatus.ROLLED_BACK,
    RolloutStatus.PLANNED: ChangeStatus.PLANNED,
}


TARGETS_MAX = 2000


class JobStatus(str, Enum):
    """Where a measurement stood."""

    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"


@dataclass(frozen=True)
class Job:
    """A measurement of capacities; what it measured is stored by OSD, as it still is."""

    VERSION: ClassVar[int] = 1
    READS: ClassVar[Tuple[int, ...]] = (0,)
    job_id: str
    created_at_s: float
    targets: Tuple[Target, ...] = field(metadata={"max_items": TARGETS_MAX})
    calls: int = field(metadata={"min": CALLS_MIN, "max": CALLS_MAX})
    forced: bool = False
    status: JobStatus = JobStatus.RUNNING
    reason: str = ""
    done: int = 0
    bytes_written: int = 0

    @property
    def words(self) -> str:
        """How it ends, for the audit log; empty where it had ended before."""
        if self.status is not JobStatus.RUNNING:
            return ""
        return (
            f"this measurement of capacities was begun by an older version and ends here: "
            f"{self.done} of {len(self.targets)} OSDs measured; for the others, "
            "`ceph wcache campaign start --loads=capacity`"
        )


@dataclass(frozen=True)
class ConfigRollout:
    """Edits that were made together, all or in part."""

    VERSION: ClassVar[int] = 1
    READS: ClassVar[Tuple[int, ...]] = (0,)
    STORED_BY: ClassVar[str] = "change_id"
    change_id: str
    created_at_s: float
    changes: Tuple[ConfigEdit, ...] = field(metadata={"max_items": EDITS_MAX})
    status: RolloutStatus = RolloutStatus.RUNNING
    reason: str = ""


def as_plan(old: ConfigRollout) -> Rollout:
    """The same as a plan of one change, which goes on or back as the rollout does it."""
    change = ConfigChange(
        f"{old.change_id}.0", "mclock", old.changes, "", "of an older version",
        "mclock apply", status=_STATUS[old.status],
    )
    return Rollout(
        old.change_id, old.created_at_s, (change,) if old.changes else (), old.status, old.reason,
    )
