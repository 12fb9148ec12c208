"""What moving PGs' data does to an OSD's latency in blocks: it is estimated, and taken out.

On a large cluster PGs move all year, so an OSD begins or ends to send or get data while a step is
judged.  That makes it slower by as much as a harmful change does, and it is known of each block
(`OsdBlock.moved`).  What it costs is taken to be the same for all OSDs of a step and its controls:
the difference between blocks with and without, of one OSD on one side of the change, beside what
happened to all in the same block.  Of controls that from side to side counts too.  What is not
known of the cost makes the verdict less certain where the treated moved more than the controls.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Iterable, List, Sequence, Tuple

from ...loads import Block

# What is believed before anything is seen: the standard deviation of the cost as a logarithm.
USUAL_LN = math.log(1.5)
# Blocks of one OSD correlate: the variance of the cost is taken to be so many times that of
# independent ones, which is right up to a correlation of 0.6.
CORRELATED = 4.0
# The noise of a block is never taken to be less: few can look alike by chance.
VARIANCE_MIN = 0.001


def evened(
    before: Sequence[Block], after: Sequence[Block], treated: Sequence[int],
    controls: Sequence[int],
) -> Tuple[Sequence[Block], Sequence[Block], float]:
    """Both sides as if nothing had been moved, and the standard error that this adds.

    Where nothing was moved they are what they were.
    """
    osd_ids = (*treated, *controls)
    if all(block.movers.isdisjoint(osd_ids) for block in (*before, *after)):
        return before, after, 0.0
    cost, error = moving_cost(before, after, treated, controls)
    doubt = error * abs(_uneven(before, after, treated, controls)) if after else 0.0
    return _without(before, cost), _without(after, cost), doubt


def moving_cost(
    before: Sequence[Block], after: Sequence[Block], treated: Sequence[int],
    controls: Sequence[int],
) -> Tuple[float, float]:
    """How much slower OSDs are while they move data, as a logarithm, and its standard error.

    By the blocks in which all of these are: least squares, drawn towards none.
    """
    sides = [_table(each, (*treated, *controls)) for each in (before, after)]
    over = under = squares = freedom = 0.0
    for logs, moved in sides:
        if len(logs) < 2:
            continue
        for row, shares in zip(_centred(logs), _centred(moved)):
            over += sum(a * b for a, b in zip(row, shares))
            under += sum(b * b for b in shares)
            squares += sum(a * a for a in row)
        freedom += (len(logs) - 1) * max(1, len(logs[0]) - 1)
    for weight, shift, share in _between(sides, len(treated)):
        over += weight * shift * share
        under += weight * share * share
    if under <= 0.0 or freedom <= 0.0:
        return 0.0, USUAL_LN
    variance = CORRELATED * max(VARIANCE_MIN, (squares - over * over / under) / freedom)
    told = under + variance / USUAL_LN**2
    return over / told, math.sqrt(variance / told)


def _without(blocks: Iterable[Block], cost: float) -> Tuple[Block, ...]:
    factor = math.exp(-cost)
    return tuple(
        replace(block, osds=tuple(
            replace(osd, latency_us=factor * osd.latency_us) if osd.moved else osd
            for osd in block.osds
        )) if block.movers else block
        for block in blocks
    )


def _uneven(
    before: Sequence[Block], after: Sequence[Block], treated: Sequence[int],
    controls: Sequence[int],
) -> float:
    """By how much more the share of blocks with moves has changed of the treated than of others."""
    changes = [
        _share(after, osd_ids) - _share(before, osd_ids) for osd_ids in (treated, controls)
    ]
    return changes[0] - changes[1]


def _share(blocks: Sequence[Block], osd_ids: Sequence[int]) -> float:
    told = [osd_id in block.movers for block in blocks for osd_id in osd_ids]
    return sum(told) / len(told) if told else 0.0


Rows = List[List[float]]


def _table(blocks: Sequence[Block], osd_ids: Sequence[int]) -> Tuple[Rows, Rows]:
    """(log latencies, 1.0 where data was moved) by block and OSD."""
    logs, moved = [], []
    for block in blocks:
        mine = block.logs
        if all(osd_id in mine for osd_id in osd_ids):
            logs.append([mine[osd_id] for osd_id in osd_ids])
            moved.append([float(osd_id in block.movers) for osd_id in osd_ids])
    return logs, moved


def _centred(rows: Rows) -> Rows:
    """Without what each OSD is by itself; nor what happened to all in a block, of several."""
    width = len(rows[0])
    means = [sum(column) / len(rows) for column in zip(*rows)]
    whole = sum(means) / width
    if width == 1:
        return [[row[0] - whole] for row in rows]
    return [
        [value - mean - sum(row) / width + whole for value, mean in zip(row, means)]
        for row in rows
    ]


def _between(
    sides: Sequence[Tuple[Rows, Rows]], treated: int
) -> List[Tuple[float, float, float]]:
    """Of each control: (weight, shift of its log latency, shift of its share), beside the others'.

    Of the treated the change is in it.
    """
    (first, first_moved), (later, later_moved) = sides
    controls = range(treated, len(first[0])) if first and later else range(0)
    if len(controls) < 2:
        return []
    shifts, shares = (
        [sum(row[i] for row in b) / len(b) - sum(row[i] for row in a) / len(a) for i in controls]
        for a, b in ((first, later), (first_moved, later_moved))
    )
    weight = len(first) * len(later) / (len(first) + len(later))
    shift, share = (sum(each) / len(each) for each in (shifts, shares))
    return [(weight, a - shift, b - share) for a, b in zip(shifts, shares)]
