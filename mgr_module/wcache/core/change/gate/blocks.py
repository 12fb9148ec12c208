"""Blocks of clients' load as the gate takes them: who is in them, and their log ratios."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import median
from typing import Dict, Iterable, List, Optional, Sequence, Tuple

from ...loads import COMMITS_PER_S_MAX, Block

# More add little: the noise of the treated OSDs stays.
CONTROLS_MAX = 12
# Fewer are no measure of what happened to all.
CONTROLS_MIN = 3
BLOCKS_MAX = 512
# A block counts where the OSDs told of their commits; so many of a stretch must.
SHARE_MIN = 0.75
# A control whose latency has moved by a larger ratio than the others' measures something else.
APART_LN = math.log(1.5)


def present(blocks: Sequence[Block], osd_ids: Iterable[int]) -> Tuple[int, ...]:
    """Those OSDs that have told enough in a stretch."""
    least = SHARE_MIN * len(blocks)
    logs = [block.logs for block in blocks]
    return tuple(
        osd_id for osd_id in osd_ids if blocks and sum(osd_id in each for each in logs) >= least
    )


def told_of(blocks: Sequence[Block], osd_ids: Sequence[int]) -> Tuple[Block, ...]:
    """The blocks from the first on that tells of all these OSDs."""
    for at, block in enumerate(blocks):
        if {*osd_ids} <= {osd.osd_id for osd in block.osds}:
            return tuple(blocks[at:])
    return ()


def only_of(blocks: Sequence[Block], osd_ids: Sequence[int]) -> Tuple[Block, ...]:
    """The same blocks without other OSDs."""
    kept = {*osd_ids}
    return tuple(
        replace(block, osds=tuple(osd for osd in block.osds if osd.osd_id in kept))
        for block in blocks
    )


def log_ratios(
    blocks: Sequence[Block], treated: Sequence[int], controls: Sequence[int]
) -> List[float]:
    """Of each block in which all of them are: the mean log latency of treated over controls.

    Without controls that of the treated alone.
    """
    found = []
    for block in blocks:
        logs = block.logs
        one, other = _mean(logs, treated), _mean(logs, controls)
        if one is not None and (other is not None or not controls):
            found.append(one - (other or 0.0))
    return found


def waited_s(blocks: Sequence[Block], osd_ids: Iterable[int]) -> float:
    """How long clients have waited for these OSDs, all of them together."""
    mine = {*osd_ids}
    return sum(
        1e-6 * osd.latency_us * min(osd.commits, COMMITS_PER_S_MAX * block.seconds)
        for block in blocks for osd in block.osds if osd.osd_id in mine
    )


def alike(
    before: Sequence[Block], after: Sequence[Block], controls: Sequence[int]
) -> Tuple[int, ...]:
    """Those controls whose latency moved as that of most: the others stall, or did before.

    One stalled control of a few would hide that the treated OSDs became worse.
    """
    moved = moves(before, after, controls)
    middle = median(moved.values()) if moved else 0.0
    return tuple(osd_id for osd_id, each in moved.items() if abs(each - middle) <= APART_LN)


def moves(
    before: Sequence[Block], after: Sequence[Block], osd_ids: Iterable[int]
) -> Dict[int, float]:
    """By how much the mean log latency of each OSD has moved; without those that told nothing."""
    moved: Dict[int, float] = {}
    for osd_id in osd_ids:
        first, later = (log_ratios(each, (osd_id,), ()) for each in (before, after))
        if first and later:
            moved[osd_id] = sum(later) / len(later) - sum(first) / len(first)
    return moved


def _mean(logs: Dict[int, float], osd_ids: Sequence[int]) -> Optional[float]:
    if not osd_ids or any(osd_id not in logs for osd_id in osd_ids):
        return None
    return sum(logs[osd_id] for osd_id in osd_ids) / len(osd_ids)
