"""What a knob planned for a host that is another one now: planned anew, without an admin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Tuple

from .drift import Key
from .modes import Mode, mode_of
from .seen import Outdated, Seen
from .state import AutoState, Purpose


@dataclass(frozen=True)
class PlanAnew:
    """Plan a host's values of a knob anew."""

    about: Outdated
    tokens: Tuple[str, ...] = ()
    purpose: Purpose = Purpose.DIVIDE

    @property
    def keys(self) -> Tuple[Key, ...]:
        """The host, with no cache domain."""
        return ((self.about.host, ""),)


def next_anew(state: AutoState, seen: Seen) -> Optional[PlanAnew]:
    """The first host of which all device classes may be changed without an admin."""
    held = {(item.knob, item.host) for item in state.anew if item.held}
    hosts = {hostname for hostname, _ in seen.of_plans}
    for item in seen.outdated:
        may = all(mode_of(state.modes, c) is Mode.APPLY for c in item.device_classes)
        may = may and item.knob not in seen.knobs and item.host not in hosts
        if may and (item.knob, item.host) not in held:
            return PlanAnew(item)
    return None
