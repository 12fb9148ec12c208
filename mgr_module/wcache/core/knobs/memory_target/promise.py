"""What a plan has promised of a host, and whether it came true.

It is stored when the plan is made, and watched once the plan is done.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, Tuple

from .facts import Facts, HostFacts

PROMISES_MAX = 1000
# What is counted swings: so much beyond the interval, and that many a second, is tolerated.
TOLERANCE = 1.25
MISSES_MIN = 5.0


@dataclass(frozen=True)
class Promise:
    """Onode misses per second of all OSDs of a device class on a host, at most `high`."""

    plan_id: str
    host: str
    device_class: str
    target_bytes: int
    shape: str
    misses_before: float = 0.0
    high: float = 0.0
    measured: bool = False

    @staticmethod
    def shape_of(host: HostFacts, own: int) -> str:
        """What a division was made for: OSDs by class, daemons, RAM."""
        counts: Dict[str, int] = {}
        for item in host.osds:
            counts[item.osd.device_class] = counts.get(item.osd.device_class, 0) + 1
        parts = [f"{count} {name}" for name, count in sorted(counts.items())]
        parts += [f"{count} {kind}" for kind, count in host.daemons]
        parts += [f"{own} with keys of their own"] if own else []
        gib = round(host.memory.total_bytes / 2**30) if host.memory else 0
        return ", ".join((*parts, f"{gib} GiB"))

    def broken(self, facts: Facts, host: HostFacts) -> str:
        """What did not come true, in one line; "" where it did or nothing is known yet."""
        mine = [i for i in host.osds if i.osd.device_class == self.device_class]
        if not self.measured or not mine:
            return ""
        if any(i.settling_s > 0 or i.rates is None for i in mine):
            return ""
        if any(i.target_bytes != self.target_bytes for i in mine):
            return ""  # the plan is not done, or was rolled back
        misses = sum(i.rates.onode_misses or 0.0 for i in mine if i.rates)
        if misses <= TOLERANCE * self.high + MISSES_MIN:
            return ""
        return (
            f"plan {self.plan_id} promised at most {self.high:.0f} onode misses/s for class "
            f"{self.device_class}, and there are {misses:.0f}/s: plan again, or roll it back"
        )


@dataclass(frozen=True)
class Promises:
    """All of them, as they are stored."""

    items: Tuple[Promise, ...] = field(default=(), metadata={"max_items": PROMISES_MAX})
