"""Whether there is still room for a trial: by what a host's control groups and RAM have left now.

An OSD tells what it uses itself.  The kernel kills by what all processes of a control group
use, and a limit may be lowered at any time, so this is asked of the probe again and again.
"""

from __future__ import annotations

from typing import Sequence

from ...hardware.host_memory import HostMemory
from ...text import amount

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
