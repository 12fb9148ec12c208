"""Hosts whose memory was divided for other OSDs and daemons than they have now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Tuple

from .drift import Key
from .modes import Mode, mode_of
from .seen import Seen
from .state import AutoState, Purpose

# In the place of a device class, where something is kept of a host's memory.
MEMORY = "memory"


@dataclass(frozen=True)
class Divide:
    """Divide the memory of a host anew, which stands in the place of a drive model."""

    drive_model: str
    device_class: str = MEMORY
    tokens: Tuple[str, ...] = ()
    purpose: Purpose = Purpose.DIVIDE

    @property
    def keys(self) -> Tuple[Key, ...]:
        """The host, with no cache domain."""
        return ((self.drive_model, ""),)


def next_division(state: AutoState, seen: Seen) -> Optional[Divide]:
    """The first host of which all device classes may be changed without an admin."""
    held = {item.drive_model for item in state.tried if item.device_class == MEMORY and item.held}
    for host, classes in seen.divide:
        if host not in held and all(mode_of(state.modes, c) is Mode.APPLY for c in classes):
            return Divide(host)
    return None
