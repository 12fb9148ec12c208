"""Whether what was measured says enough to set a value by it.

mClock shares out the value it is told.  Its default profile reserves one half of it for
clients and the other for recovery ("balanced", src/osd/scheduler/mClockScheduler.cc): told
twice of what there is, one half is all of it; told half, the reservations are quarters.
An interval that reaches that far supports no value.
"""

from __future__ import annotations

from typing import List, Mapping, Sequence

from ...core.text import named
from .capacity import CALLS_MIN, Capacity, Measurement, of_model, of_one

# OSDs and drive models whose capacities are this close share one value.
ONE_CLASS = 1.25
VAGUE = 2.0
NAMED_MAX = 4


def uncertain(
    current: Sequence[Measurement], given: Mapping[str, int], osds: Mapping[str, int]
) -> List[str]:
    """Why nothing may be set, a line for each reason; none where the values are supported.

    `given` is the value that the OSDs on a stack of drive models would get, `osds` how many
    there are of it, measured or not.
    """
    lines: List[str] = []
    for stack, value in sorted(given.items()):
        mine = [m for m in current if m.stack == stack and len(m.iops) >= CALLS_MIN]
        lines += _contradicted(stack, value, mine)
        # where all were measured, nothing is concluded from some of them about others
        whole = len(mine) > 1 and len(mine) >= osds.get(stack, 0)
        lines += _vague_each(mine) if whole or len(mine) == 1 else _vague_model(stack, mine)
    return lines


def _contradicted(stack: str, value: int, mine: Sequence[Measurement]) -> List[str]:
    apart = []
    for item in mine:
        one = of_one(item.iops)
        if one is not None and not (one.low <= value * ONE_CLASS and value <= one.high * ONE_CLASS):
            apart.append(f"osd.{item.osd_id} ({one.low:.0f} to {one.high:.0f} IOPS)")
    if not apart:
        return []
    return [
        f"{stack}: {named(apart, NAMED_MAX)} would be set to {value}, which is more "
        "than a quarter off; find out why these OSDs differ (their load, a failing drive), "
        "measure again, or set them by hand"
    ]


def _vague_each(mine: Sequence[Measurement]) -> List[str]:
    lines = []
    for item in mine:
        one = of_one(item.iops)
        if one is not None and one.high > VAGUE * one.iops:
            lines.append(
                f"osd.{item.osd_id}: {_too_wide(one)}; repeat it with more --calls, while the OSD "
                "is quiet"
            )
    return lines[:NAMED_MAX]


def _vague_model(stack: str, mine: Sequence[Measurement]) -> List[str]:
    found = of_model(mine)
    if found is None or found.high <= VAGUE * found.iops:
        return []
    return [
        f"{stack}, {found.drives} OSDs: {_too_wide(found)}; measure more of its OSDs "
        "(--drives-per-model)"
    ]


def _too_wide(found: Capacity) -> str:
    return f"interval {found.low:.0f}-{found.high:.0f} IOPS is too wide to set a value"
