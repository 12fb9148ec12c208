"""Empirical distributions as geometry for an inline SVG plot; no drawing library needed.

The x axis is logarithmic: latencies of the two modes can differ fifty-fold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Dict, List, Sequence, Tuple

from ..loads import commit_latency
from ..model import CacheMode
from ..record import Period, Record
from ..text import latency
from .axis import Axis, Ticks

WIDTH, HEIGHT = 480, 260
LEFT, RIGHT, TOP, BOTTOM = 44, 36, 14, 60
LABEL_PX = 54  # of a label of the x axis, with its space
STEPS_MAX = 400  # more steps than pixels show nothing more
PERCENT_TICKS = (0, 25, 50, 75, 90, 100)
_SHARE = Axis(0.0, 100.0, HEIGHT - BOTTOM, TOP)


@dataclass(frozen=True)
class StepLine:
    """The distribution of one cache mode: a step line and where its median is."""

    mode: str
    path: str  # an SVG path
    count: int
    median_x: float
    median: str


@dataclass(frozen=True)
class RecordPlot:
    """One plot: both modes of one record."""

    record_id: str
    title: str
    unit: str  # what one step of the curve is
    curves: Tuple[StepLine, ...]
    x_ticks: Ticks
    y_ticks: Ticks
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    bottom: int = HEIGHT - BOTTOM


def latencies_us(record: Record) -> Dict[CacheMode, List[float]]:
    """Sorted latencies of each mode, in us: samples, or one mean per period of traffic."""
    found: Dict[CacheMode, List[float]] = {mode: [] for mode in CacheMode}
    for pair in record.pairs:
        for period in pair.periods:
            found[period.mode] += [ns / 1e3 for ns in period.samples_ns] or _means_us(period)
    return {mode: sorted(value for value in values if value > 0) for mode, values in found.items()}


def _means_us(period: Period) -> List[float]:
    commit = commit_latency(period.counters)
    return [] if commit is None or commit.sum_s <= 0 else [1e6 * commit.sum_s / commit.count]


def plot(record: Record) -> RecordPlot:
    """The plot of a record; it has no curves where the record holds no latencies."""
    by_mode = latencies_us(record)
    values = [value for mode in by_mode.values() for value in mode]
    sampled = any(p.samples_ns for pair in record.pairs for p in (pair.write_back,))
    setup = record.setup
    title = f"osd.{setup.osd_id} {setup.load_point.short} ({setup.role.value})"
    unit = "samples" if sampled else "periods' mean commit latencies"
    if not values:
        return RecordPlot(record.record_id, title, unit, (), (), ())
    # a margin at both ends; never an empty range
    low, high = min(values), max(values)
    x = Axis(low / 1.15, max(high, low * 1.5) * 1.15, LEFT, WIDTH - RIGHT, is_log=True)
    curves = tuple(_curve(mode, values, x) for mode, values in by_mode.items() if values)
    y_ticks = tuple((round(_SHARE.at(percent), 1), f"{percent}%") for percent in PERCENT_TICKS)
    return RecordPlot(record.record_id, title, unit, curves, x.ticks(LABEL_PX, _label), y_ticks)


def _label(tick_us: float) -> str:
    """A round latency in as few characters as it takes."""
    for unit, size_us in (("us", 1.0), ("ms", 1e3)):
        if tick_us < 1e3 * size_us:
            return f"{tick_us / size_us:.4g} {unit}"
    return f"{tick_us / 1e6:.4g} s"


def _curve(mode: CacheMode, values: Sequence[float], x: Axis) -> StepLine:
    count = len(values)
    step = max(1, math.ceil(count / STEPS_MAX))
    kept = sorted({*range(0, count, step), count - 1})
    words = [f"M{LEFT} {_SHARE.at(0):.1f}"]
    for index in kept:
        share = _SHARE.at(100 * (index + 1) / count)
        words.append(f"H{x.at(values[index]):.1f}V{share:.1f}")
    words.append(f"H{WIDTH - RIGHT}")
    middle = count // 2
    median = values[middle] if count % 2 else (values[middle - 1] + values[middle]) / 2
    return StepLine(mode.value, "".join(words), count, round(x.at(median), 1), latency(median))
