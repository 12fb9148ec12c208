"""Changes of mClock's capacities as they were stored before they were plans."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Tuple

from ...change.change_status import ChangeStatus
from ...change.config_change import ConfigChange
from ...change.rollout_state import ROLLOUT_VERSION, Rollout, RolloutStatus
from ...config_database import EDITS_MAX, ConfigEdit
from .knob import MCLOCK

# One that was stopped may have made some of its edits: a rollback looks which.
_STATUS = {
    RolloutStatus.RUNNING: ChangeStatus.APPLYING,
    RolloutStatus.DONE: ChangeStatus.APPLIED,
    RolloutStatus.STOPPED: ChangeStatus.APPLIED,
    RolloutStatus.ROLLING_BACK: ChangeStatus.ROLLING_BACK,
    RolloutStatus.ROLLED_BACK: ChangeStatus.ROLLED_BACK,
    RolloutStatus.PLANNED: ChangeStatus.PLANNED,
}


@dataclass(frozen=True)
class ConfigRollout:
    """Edits that were made together, all or in part."""

    change_id: str
    created_at_s: float
    changes: Tuple[ConfigEdit, ...] = field(metadata={"max_items": EDITS_MAX})
    status: RolloutStatus = RolloutStatus.RUNNING
    reason: str = ""


def as_plan(old: ConfigRollout) -> Rollout:
    """The same as a plan of one change, which goes on or back as the rollout does it."""
    change = ConfigChange(
        f"{old.change_id}.0", MCLOCK.name, old.changes, "", "of an older version",
        "mclock apply", status=_STATUS[old.status],
    )
    return Rollout(
        old.change_id, old.created_at_s, (change,) if old.changes else (), old.status, old.reason,
        version=ROLLOUT_VERSION,
    )
