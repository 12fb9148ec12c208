"""Which changes a plan is asked for: of a device class, a host, an OSD, or a drive model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from .cache_mode_change import CacheModeChange
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
        if isinstance(change, CacheModeChange):
            model = "" if change.drive_model is None else str(change.drive_model)
            return (
                (self.osd_id is None or self.osd_id in change.treated)
                and self.hostname in (None, "", change.hostname)
                and (self.drive_model or "").lower() in model.lower()
            )
        # a change of values goes with the scope only where it concerns nothing else
        at_home = change.failure_domain.rpartition(", ")[2] == f"host {self.hostname}"
        return (
            (self.osd_id is None or change.treated == (self.osd_id,))
            and (not self.hostname or at_home) and not self.drive_model
        )

    @property
    def words(self) -> str:
        """For people; "" for everything."""
        named = (
            ("device class", self.device_class), ("host", self.hostname),
            ("OSD", None if self.osd_id is None else f"osd.{self.osd_id}"),
            ("drive model", self.drive_model),
        )
        return ", ".join(f"{what} {value}" for what, value in named if value)
