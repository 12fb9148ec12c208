"""Changes of stored capacities that were made together, and the way back."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import List, Optional, Tuple

from .advice import CHANGES_MAX, ConfigChange
from .config import Config, Entry


class ConfigStatus(str, Enum):
    """Where the changes stand."""

    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    ROLLING_BACK = "rolling back"
    ROLLED_BACK = "rolled back"


@dataclass(frozen=True)
class ConfigRollout:
    """Changes with what stood there before; stored before the first is made."""

    change_id: str
    created_at_s: float
    changes: Tuple[ConfigChange, ...] = field(metadata={"max_items": CHANGES_MAX})
    status: ConfigStatus = ConfigStatus.RUNNING
    reason: str = ""

    @property
    def over(self) -> bool:
        """Whether nothing is under way."""
        return self.status not in (ConfigStatus.RUNNING, ConfigStatus.ROLLING_BACK)

    @property
    def in_place(self) -> bool:
        """Whether there is something to roll back."""
        return self.status in (ConfigStatus.DONE, ConfigStatus.STOPPED)


def same(one: Optional[str], other: Optional[str]) -> bool:
    """Whether two values are the same number: the mons print 310 as 310.000000."""
    if one is None or other is None:
        return one is other
    numbers = Entry("", "", one).iops, Entry("", "", other).iops
    return one == other or (numbers[0] is not None and numbers[0] == numbers[1])


def _value(config: Config, change: ConfigChange) -> Optional[str]:
    entry = config.at(change.who, change.name)
    return entry.value if entry is not None else None


def forwards(rollout: ConfigRollout, config: Config) -> Tuple[List[ConfigChange], List[str]]:
    """What is left to be made, and what somebody else has changed since it was planned."""
    left, moved = [], []
    for change in rollout.changes:
        now = _value(config, change)
        if same(now, change.value):
            continue
        if same(now, change.prior):
            left.append(change)
        else:
            moved.append(change.who)
    return left, moved


def backwards(rollout: ConfigRollout, config: Config) -> Tuple[List[ConfigChange], List[str]]:
    """The changes that bring back what was there, last first; others' values are left alone."""
    left, moved = [], []
    for change in reversed(rollout.changes):
        now = _value(config, change)
        if same(now, change.prior):
            continue
        if same(now, change.value):
            left.append(ConfigChange(change.who, change.name, change.prior, now))
        else:
            moved.append(change.who)
    return left, moved
