"""Blocks of clients' load as the gate takes them: log ratios, with their noise.

The numbers of two stretches of correlated blocks: their difference and its standard error.

Blocks of time are correlated: a mean of n of them says less than n independent ones would.
They are taken for AR(1), whose lag-1 correlation is estimated from both stretches together.

Did a change make things worse?  Two measurements, before and after, and their noise.

This is not the experiment that decides (pairs in random order do that): it is the check
that an applied change did no harm.  Two stretches of time differ by more than their own
samples show, so a run-to-run spread is allowed for before a change is taken back.

On a large cluster PGs move all year, so an OSD begins or ends to send or get data while a step is
judged.  That makes it slower by as much as a harmful change does, and it is known of each block
(`OsdBlock.moved`).  What it costs is taken to be the same for all OSDs of a step and its controls:
the difference between blocks with and without, of one OSD on one side of the change, beside what
happened to all in the same block.  Of controls that from side to side counts too.  What is not
known of the cost makes the verdict less certain where the treated moved more than the controls.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, replace
from statistics import fmean, median, variance
from typing import Dict, Iterable, List, Optional, Sequence, Tuple

from ...events import LoadSamples
from ...figures.student_t import t_quantile
from ...loads import COMMITS_PER_S_MAX, MATERIAL_LN, Block, commit_latency

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


# Above this the stretches are too short to tell noise from drift; the error is wide then.
CORRELATION_MAX = 0.95


@dataclass(frozen=True)
class Difference:
    """Mean of the later blocks minus that of the earlier ones, with its standard error.

    `freedom` are the degrees of freedom of the error, less than blocks where they correlate.
    """

    mean: float
    error: float
    freedom: float

    def low(self, alpha: float) -> float:
        """One-sided lower limit, missed with probability `alpha`."""
        return self.mean - t_quantile(1.0 - alpha, self.freedom) * self.error

    def high(self, alpha: float) -> float:
        """One-sided upper limit, missed with probability `alpha`."""
        return self.mean + t_quantile(1.0 - alpha, self.freedom) * self.error


def difference(before: Sequence[float], after: Sequence[float]) -> Difference:
    """The difference of two stretches of at least four blocks each; both in one unit.

    The moment estimate of the correlation is too low in short stretches; what Marriott and
    Pope (1954) give as its bias, (1 + 4 phi) / n with the mean estimated, is added for each.
    """
    stretches = before, after
    residuals = [[value - fmean(each) for value in each] for each in stretches]
    squares = sum(value * value for each in residuals for value in each)
    products = sum(
        first * second for each in residuals for first, second in zip(each, each[1:])
    )
    count = len(before) + len(after)
    raw = products / squares if squares > 0 else 0.0
    bias = 2.0 * (1.0 + 4.0 * max(0.0, raw)) / count
    phi = min(CORRELATION_MAX, max(0.0, raw + bias))
    grown = [_inflation(len(each), phi) for each in stretches]
    # what the means take away of the spread around them
    left = sum(len(each) - more for each, more in zip(stretches, grown))
    variance = squares / max(left, 0.5)
    error = math.sqrt(
        variance * sum(more / len(each) for each, more in zip(stretches, grown))
    )
    effective = sum(len(each) / more for each, more in zip(stretches, grown))
    freedom = max(1.5, min(count - 2.0, effective - 2.0))
    return Difference(fmean(after) - fmean(before), error, freedom)


def mean_error(values: Sequence[float]) -> float:
    """The standard error of the mean of a stretch of at least eight correlated blocks."""
    half = len(values) // 2
    if half < 4:
        return math.inf
    return difference(values[:half], values[half:]).error / 2.0


def beside_moves(seen: Difference, moved: Sequence[float], treated: int) -> Difference:
    """The difference, as uncertain as what unchanged OSDs do among themselves in the same time.

    `moved`: by how much each control has moved.  OSDs drift, each by itself; blocks of one OSD
    do not show that as noise, and the spread of the controls' moves does.  What it is larger by
    is a component of its own, with the freedom of that spread (Satterthwaite, 1946).
    """
    if len(moved) < 2:
        return seen
    spread = variance(moved) * (1.0 / treated + 1.0 / len(moved))
    more = spread - seen.error**2
    if more <= 0.0:
        return seen
    parts = seen.error**4 / seen.freedom + more**2 / (len(moved) - 1)
    return replace(seen, error=math.sqrt(spread), freedom=max(1.5, spread**2 / parts))


def _inflation(count: int, phi: float) -> float:
    """By how much the variance of a mean of AR(1) values exceeds that of independent ones."""
    if phi <= 0.0:
        return 1.0
    tail = 2.0 * phi * (1.0 - phi**count) / (count * (1.0 - phi) ** 2)
    return max(1.0, (1.0 + phi) / (1.0 - phi) - tail)


# Spread of the logarithm between two runs of the same thing, beyond that of their samples.
RUN_SPREAD = 0.05
# A mean of counters brings no spread of its own along; this is taken for its logarithm.
COUNTER_ERROR = 0.1
# One-sided 99%.
_Z = 2.33


def latency_of(samples: LoadSamples) -> Optional[float]:
    """One latency in us: the median sample, or the mean of the commit counter."""
    if samples.samples_ns:
        return statistics.median(samples.samples_ns) / 1000.0
    commit = commit_latency(samples.counters)
    return None if commit is None else 1e6 * commit.sum_s / commit.count


def error_of(samples: LoadSamples) -> float:
    """Standard error of the logarithm of `latency_of`.

    For samples that of a median, sqrt(pi/2) s/sqrt(n), with s from the median absolute
    deviation, which a few stalls do not move.
    """
    logs = [math.log(ns) for ns in samples.samples_ns if ns > 0]
    if len(logs) < 2:
        return COUNTER_ERROR
    middle = statistics.median(logs)
    spread = 1.4826 * statistics.median(abs(value - middle) for value in logs)
    return math.sqrt(math.pi / 2) * spread / math.sqrt(len(logs))


def is_worse(
    before_us: float, before_error: float, after_us: float, after_error: float
) -> bool:
    """Whether the latency rose by a material ratio, and not by chance (1%)."""
    if before_us <= 0 or after_us <= 0:
        return False
    rise = math.log(after_us / before_us) - MATERIAL_LN
    noise = math.sqrt(before_error**2 + after_error**2 + 2 * RUN_SPREAD**2)
    return rise > _Z * noise


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
