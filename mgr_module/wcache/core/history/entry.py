"""A line of the audit log, and what it is about beside its words."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar, Optional, Tuple

ADMIN = "admin"  # somebody who called a command
AUTO = "auto"  # what `ceph wcache auto` allows the module to begin by itself
PROBE_PREFIX = "probe "
OSDS_MAX = 64


class Kind(str, Enum):
    """What sort of thing a line tells of; `ceph wcache history --what` takes these names."""

    COMMAND = "command"  # an admin asked for something
    AUTOMATION = "automation"  # the module began or left something by itself
    CHANGE = "change"  # a plan changed something, or took it back
    PROBE = "probe"  # a probe restored something, or said something
    STEP = "step"  # a campaign or plan went a step further


@dataclass(frozen=True)
class About:
    """The drive or setting that a line is about, and for a change all of it.

    `drive` is a cache domain, `dev_names` are its drives; both are empty for a setting.
    `outcome` is empty where nothing was changed.
    """

    hostname: str = ""
    osd_ids: Tuple[int, ...] = field(default=(), metadata={"max_items": OSDS_MAX})
    drive: str = ""
    dev_names: Tuple[str, ...] = ()
    before: str = ""
    after: str = ""
    evidence: str = ""
    outcome: str = ""


NOTHING = About()


@dataclass(frozen=True)
class HistoryEntry:
    """One line of the audit log; `what` is a campaign, run, plan, host or drive."""

    VERSION: ClassVar[int] = 1
    at_s: float
    who: str
    what: str
    text: str
    about: Optional[About] = None

    @property
    def kind(self) -> Kind:
        """What sort of thing it tells of."""
        if self.about is not None and self.about.outcome:
            return Kind.CHANGE
        if self.who == ADMIN:
            return Kind.COMMAND
        if self.who == AUTO:
            return Kind.AUTOMATION
        return Kind.PROBE if self.who.startswith(PROBE_PREFIX) else Kind.STEP
