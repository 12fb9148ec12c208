"""Whether there is still room for a trial: by what a host's control groups and RAM have left now.

An OSD tells what it uses itself.  The kernel kills by what all processes of a control group
use, and a limit may be lowered at any time, so this is asked of the probe again and again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import List, Sequence, Tuple

from ...core.hardware.readings import HostMemory
from ...core.text import amount
from .facts import HostFacts, OsdFacts
from .knob import STEP_BYTES
from .room import Limits

# A trial ends where so much of a limit is used, ...
LIMIT_SHARE = 0.9
# ... or where so little of the host's RAM is available.
AVAILABLE_SHARE_MIN = 0.05


def crowded(osd_ids: Sequence[int], high_bytes: int, memory: HostMemory) -> str:
    """Why a trial of these OSDs, all of one host, must end; "" where it may go on.

    `high_bytes` is the larger target.
    """
    for limit in memory.limits:
        mine = sorted(set(limit.osd_ids) & set(osd_ids))
        if not mine:
            continue
        group = f"the control group of osd.{mine[0]}"
        if limit.used_bytes > LIMIT_SHARE * limit.bytes_max:
            return f"{group} uses {amount(limit.used_bytes)} of {amount(limit.bytes_max)}"
        if high_bytes * len(limit.osd_ids) > LIMIT_SHARE * limit.bytes_max:
            return (
                f"the limit of {group} is {amount(limit.bytes_max)} now: too little for the "
                "trial"
            )
    # nothing available at all is not told
    if 0 < memory.available_bytes < AVAILABLE_SHARE_MIN * memory.total_bytes:
        return (
            f"the host of osd.{osd_ids[0]} has {amount(memory.available_bytes)} of "
            f"{amount(memory.total_bytes)} available"
        )
    return ""


@dataclass(frozen=True)
class Most:
    """The largest target that a trial's OSDs have room for, and what keeps out a larger one.

    `fewer`: a trial of fewer of them would have room for more.
    """

    target_bytes: int
    why: str
    fewer: bool = False


def most_of_trial(
    chosen: Sequence[Tuple[HostFacts, OsdFacts]], low_bytes: int, limits: Limits
) -> Most:
    """Of OSDs that all go by `low_bytes` now, with the hosts that they are on."""
    found: List[Most] = [
        Most(limits.ceiling_bytes, f"memory_ceiling is {amount(limits.ceiling_bytes)}")
    ]
    for host in dict.fromkeys(where for where, _ in chosen):
        ids = [item.osd.osd_id for where, item in chosen if where is host]
        own = [limit for limit in map(host.limit_of, ids) if limit is not None]
        if own:
            found.append(Most(
                int(min(own) * (1.0 - limits.headroom)),
                f"the cgroup limit of an OSD on host {host.name} is {amount(min(own))}, of which "
                f"{limits.headroom:.0%} stays free (memory_headroom)",
            ))
        room = host.room(limits)
        free = room.osds_bytes - host.given_bytes if room is not None else 0
        found.append(Most(
            low_bytes + free // len(ids), f"host {host.name} does not have the memory for it",
            free >= STEP_BYTES and len(ids) > 1,
        ))
    least = min(found, key=lambda item: item.target_bytes)
    return Most(least.target_bytes // STEP_BYTES * STEP_BYTES, least.why, least.fewer)
