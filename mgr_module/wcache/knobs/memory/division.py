"""Divides the memory that a host can give among its device classes.

The sum of what all OSDs wait is made smallest.  Curves have cliffs and plateaus, so the
local slope says nothing: every point where a curve falls is tried with every one of the
others, and combinations that cost more and wait more than another are dropped.  What is
left is exact on the grid of STEP_BYTES.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Dict, List, Optional, Sequence, Tuple

from .curve import Curve
from .knob import STEP_BYTES

# So little is held against a change of all the memory of a class: among divisions that wait
# the same, the one that changes least.
_CHANGE_WEIGHT = 1e-6


@dataclass(frozen=True)
class Share:
    """The OSDs of one device class on one host, which have one target: `osds` of them."""

    device_class: str
    osds: int
    now_bytes: int
    curve: Curve


def divide(
    shares: Sequence[Share], room_bytes: float, *, floor_bytes: int, ceiling_bytes: int
) -> Optional[Dict[str, int]]:
    """The target of each device class; None where not even the floors fit into the room."""
    steps = int(room_bytes // STEP_BYTES)
    # (steps used, weight) to the chosen targets; the weight is the wait and a little for change
    front: List[Tuple[int, float, Tuple[int, ...]]] = [(0, 0.0, ())]
    scale = sum(share.curve.points[0].wait for share in shares) or 1.0
    for share in shares:
        merged: Dict[int, Tuple[float, Tuple[int, ...]]] = {}
        for target in _candidates(share, floor_bytes, ceiling_bytes):
            cost = share.osds * (target // STEP_BYTES)
            change = abs(target - share.now_bytes) / max(share.now_bytes, STEP_BYTES)
            weight = share.curve.at(target).wait + scale * _CHANGE_WEIGHT * change
            for used, before, chosen in front:
                total = used + cost
                if total > steps:
                    break  # the front is sorted by what is used
                now = merged.get(total)
                if now is None or before + weight < now[0]:
                    merged[total] = (before + weight, (*chosen, target))
        front = _undominated(merged)
        if not front:
            return None
    best = min(front, key=lambda item: item[1])
    return _handed_back(shares, best[2], steps - best[0])


def _handed_back(
    shares: Sequence[Share], chosen: Sequence[int], steps_left: int
) -> Dict[str, int]:
    """What nobody needs goes back to those who lose something, up to what they have now.

    Between two points of a curve it may well help: only how much is not known.
    """
    targets = {share.device_class: target for share, target in zip(shares, chosen)}

    def loses(share: Share) -> float:
        return share.curve.at(targets[share.device_class]).wait - share.curve.at(
            share.now_bytes).wait

    for share in sorted(shares, key=loses, reverse=True):
        missing = (share.now_bytes - targets[share.device_class]) // STEP_BYTES
        more = min(missing, steps_left // share.osds)
        if more > 0 and loses(share) > 0:
            targets[share.device_class] += more * STEP_BYTES
            steps_left -= more * share.osds
    return targets


def _undominated(
    merged: Dict[int, Tuple[float, Tuple[int, ...]]]
) -> List[Tuple[int, float, Tuple[int, ...]]]:
    front: List[Tuple[int, float, Tuple[int, ...]]] = []
    least = math.inf
    for used in sorted(merged):
        weight, chosen = merged[used]
        if weight < least:
            least = weight
            front.append((used, weight, chosen))
    return front


def _candidates(share: Share, floor_bytes: int, ceiling_bytes: int) -> List[int]:
    """Targets that are worth a try: where the curve falls, what is there now, the floor.

    Rounded up to a step, so that none lies before the point where the curve falls.
    """
    wanted = {floor_bytes, min(max(share.now_bytes, floor_bytes), ceiling_bytes)}
    wanted |= {
        point.target_bytes for point in share.curve.points
        if floor_bytes < point.target_bytes <= ceiling_bytes
    }
    stepped = {math.ceil(target / STEP_BYTES) * STEP_BYTES for target in wanted}
    return sorted(
        target for target in stepped if target <= ceiling_bytes or target - STEP_BYTES < floor_bytes
    )
