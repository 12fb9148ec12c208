"""Which changes a plan is asked for: of a device class, a host, an OSD, or a drive model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from .rollout_state import Change


@dataclass(frozen=True)
class Scope:
    """What is None is any.  `drive_model` is a part of vendor, model or firmware."""

    device_class: Optional[str] = None
    hostname: Optional[str] = None
    osd_id: Optional[int] = None
    drive_model: Optional[str] = None

    def holds(self, change: Change) -> bool:
        """Whether the change is asked for; all that is given must fit."""
        return change.is_within(self)

    @property
    def words(self) -> str:
        """For people; "" for everything."""
        named = (
            ("device class", self.device_class), ("host", self.hostname),
            ("OSD", None if self.osd_id is None else f"osd.{self.osd_id}"),
            ("drive model", self.drive_model),
        )
        return ", ".join(f"{what} {value}" for what, value in named if value)
