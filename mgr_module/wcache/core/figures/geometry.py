"""Plots as geometry, lines and distributions; `plot.html.j2` draws them as SVG.

Values stand on logarithmic axes: the same distance is the same factor.

An axis of a plot: where values lie on it, and its ticks.

Empirical distributions as geometry for an inline SVG plot; no drawing library needed.

The x axis is logarithmic: latencies of the two modes can differ fifty-fold.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Callable, Dict, List, Sequence, Tuple

from ..loads import commit_latency
from ..model import CacheMode
from ..record import Period, Record
from ..text import amount, latency

Ticks = Tuple[Tuple[float, str], ...]
# Multiples of powers of ten, and of every how many powers: from many ticks to few.
_STEPS = (
    (tuple(1 + n / 4 for n in range(36)), 1), ((1.0, 1.5, 2.0, 3.0, 5.0, 7.0), 1),
    ((1.0, 2.0, 5.0), 1), ((1.0,), 1), ((1.0,), 2), ((1.0,), 3),
)


@dataclass(frozen=True)
class Axis:
    """Maps values from `low` to `high` onto pixels; those beyond lie on its ends.

    On a logarithmic axis the same distance is the same factor.
    """

    low: float
    high: float
    start_px: float
    end_px: float
    is_log: bool = False

    def at(self, value: float) -> float:
        """Where a value lies, in pixels."""
        if self.is_log:
            part = math.log(max(value, 1e-9) / self.low) / math.log(self.high / self.low)
        else:
            part = (value - self.low) / (self.high - self.low)
        return self.start_px + min(1.0, max(0.0, part)) * (self.end_px - self.start_px)

    def ticks(self, apart_px: float, label: Callable[[float], str]) -> Ticks:
        """Round values of a logarithmic axis, as many as stand apart; its middle where none do."""
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        for steps, every in _STEPS:
            powers = [10.0**power for power in range(first, last + 1) if power % every == 0]
            values = [s * p for p in powers for s in steps if self.low <= s * p <= self.high]
            places = [self.at(value) for value in values]
            if values and all(abs(b - a) >= apart_px for a, b in zip(places, places[1:])):
                break
        else:
            values = [math.sqrt(self.low * self.high)]
        return tuple((round(self.at(value), 1), label(value)) for value in values)


WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 14, 34
LEAST_PERCENT = 0.1  # the axis is logarithmic
TICKS_APART_PX = 34  # of the y axis
POINTS_MAX = 600  # of one line: more than pixels show nothing more
Point = Tuple[float, float]


class Geometry(str):
    """An SVG path made of our own numbers: it is not cut short as names are."""


@dataclass(frozen=True)
class Line:
    """One line and its name in the legend; `look` is its class in the style sheet."""

    name: str
    look: str
    path: Geometry


@dataclass(frozen=True)
class Mark:
    """A moment on the x axis, with the number that a list below explains."""

    x: float
    label: str


@dataclass(frozen=True)
class Plot:
    """A plot; `said` tells in words what it shows, for those who do not see it."""

    title: str
    said: str
    lines: Tuple[Line, ...]
    x_ticks: Ticks
    y_ticks: Ticks
    band: str = ""
    marks: Tuple[Mark, ...] = ()
    x_name: str = ""
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    bottom: int = HEIGHT - BOTTOM


@dataclass(frozen=True)
class Axes:
    """What maps points onto the frame: x as it is, y by its logarithm."""

    x: Axis
    y: Axis

    def path(self, points: Sequence[Point]) -> Geometry:
        """A line through points."""
        step = max(1, math.ceil(len(points) / POINTS_MAX))
        kept = [*points[::step], *([points[-1]] if (len(points) - 1) % step else [])]
        words = [f"{self.x.at(a):.1f} {self.y.at(b):.1f}" for a, b in kept]
        return Geometry("M" + "L".join(words))

    def crosses(self, points: Sequence[Point]) -> Geometry:
        """A cross at each point."""
        at = [(self.x.at(a), self.y.at(b)) for a, b in points]
        return Geometry("".join(
            f"M{x - 4:.1f} {y - 4:.1f}l8 8M{x - 4:.1f} {y + 4:.1f}l8 -8" for x, y in at
        ))

    def whisker(self, x: float, low: float, high: float) -> str:
        """An interval of y at one x."""
        at = self.x.at(x)
        return f"M{at - 6:.1f} {self.y.at(low):.1f}h12m-6 0V{self.y.at(high):.1f}m-6 0h12"

    def level(self, value: float) -> Geometry:
        """A level line over the whole width."""
        return Geometry(f"M{LEFT} {self.y.at(value):.1f}H{WIDTH - RIGHT}")


def axes_of(xs: Sequence[float], ys: Sequence[float]) -> Axes:
    """Axes that hold these values, with a margin above and below."""
    low, high = min(ys), max(ys)
    pad = max(1.08, (high / low) ** 0.06)
    x_low, x_high = min(xs), max(xs)
    return Axes(
        Axis(x_low, x_high if x_high > x_low else x_low + 1.0, LEFT, WIDTH - RIGHT),
        Axis(low / pad, high * pad, HEIGHT - BOTTOM, TOP, is_log=True),
    )


def _time_ticks(x: Axis) -> Ticks:
    """Moments in UTC: with the date where the axis is longer than a day."""
    span = x.high - x.low
    form = "%m-%d %H:%M" if span > 86400 else "%H:%M" if span > 600 else "%H:%M:%S"
    count = 4
    moments = [x.low + span * index / count for index in range(count + 1)]
    return tuple((round(x.at(at), 1), time.strftime(form, time.gmtime(at))) for at in moments)


@dataclass(frozen=True)
class Series:
    """Values over time of what `name` says; latencies in us."""

    name: str
    look: str
    points: Tuple[Point, ...]


def over_time(
    title: str, series: Sequence[Series], marks: Sequence[Point] = (),
    words: Callable[[float], str] = latency,
) -> Plot:
    """Values over time, `words` for one; `marks` are (when, number) of changes.

    Empty where nothing is.
    """
    shown = [item for item in series if item.points]
    if not shown:
        return Plot(title, "", (), (), ())
    moments = [at for item in shown for at, _ in item.points]
    axes = axes_of(moments, [us for item in shown for _, us in item.points])
    inside = [(at, number) for at, number in marks if axes.x.low <= at <= axes.x.high]
    said = "; ".join(
        f"{item.name}: {words(item.points[0][1])} first, {words(item.points[-1][1])} last"
        for item in shown
    )
    return Plot(
        title, said,
        tuple(Line(item.name, item.look, axes.path(item.points)) for item in shown),
        _time_ticks(axes.x), axes.y.ticks(TICKS_APART_PX, words),
        marks=tuple(Mark(round(axes.x.at(at), 1), f"{number:.0f}") for at, number in inside),
        x_name="time (UTC)",
    )


def bcache(record: Record) -> List[Plot]:
    """What bcache above the drive was at over the time of the experiment; none without one."""
    readings = sorted(
        (
            one for pair in record.pairs for period in pair.periods
            for one in period.bcache if not one.is_cache and one.at_s > 0
        ),
        key=lambda one: one.at_s,
    )
    readings = [one for one in readings if one.name == readings[0].name]
    dirty = [
        (one.at_s, max(LEAST_PERCENT, 100.0 * one.dirty_bytes / one.target_bytes))
        for one in readings if one.dirty_bytes is not None and one.target_bytes
    ]
    busy = [
        (now.at_s, max(LEAST_PERCENT, min(100.0, (now.busy_ms - before.busy_ms) / 10.0 / seconds)))
        for before, now in zip(readings, readings[1:])
        if before.busy_ms is not None and now.busy_ms is not None
        and (seconds := now.at_s - before.at_s) > 0
    ]
    rate = [
        (one.at_s, float(max(1, one.rate_bytes_s)))
        for one in readings if one.rate_bytes_s is not None
    ]
    found = [
        over_time("bcache: dirty data, and the backing disk", (
            Series("dirty data, in percent of its target", "back", tuple(dirty)),
            Series("how busy the backing disk was", "through", tuple(busy)),
        ), words=lambda value: f"{value:.3g}%"),
        over_time("bcache: the rate of writeback", (
            Series("bytes a second", "ratio", tuple(rate)),
        ), words=lambda value: f"{amount(round(value))}/s"),
    ]
    return [plot for plot in found if plot.lines]


RECORD_WIDTH, RECORD_HEIGHT = 480, 260
RECORD_LEFT, RECORD_RIGHT, RECORD_TOP, RECORD_BOTTOM = 44, 36, 14, 60
LABEL_PX = 54  # of a label of the x axis, with its space
STEPS_MAX = 400  # more steps than pixels show nothing more
PERCENT_TICKS = (0, 25, 50, 75, 90, 100)
_SHARE = Axis(0.0, 100.0, RECORD_HEIGHT - RECORD_BOTTOM, RECORD_TOP)


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
    width: int = RECORD_WIDTH
    height: int = RECORD_HEIGHT
    left: int = RECORD_LEFT
    right: int = RECORD_WIDTH - RECORD_RIGHT
    top: int = RECORD_TOP
    bottom: int = RECORD_HEIGHT - RECORD_BOTTOM


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
    x = Axis(
        low / 1.15, max(high, low * 1.5) * 1.15, RECORD_LEFT, RECORD_WIDTH - RECORD_RIGHT,
        is_log=True,
    )
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
    words = [f"M{RECORD_LEFT} {_SHARE.at(0):.1f}"]
    for index in kept:
        share = _SHARE.at(100 * (index + 1) / count)
        words.append(f"H{x.at(values[index]):.1f}V{share:.1f}")
    words.append(f"H{RECORD_WIDTH - RECORD_RIGHT}")
    middle = count // 2
    median = values[middle] if count % 2 else (values[middle - 1] + values[middle]) / 2
    return StepLine(mode.value, "".join(words), count, round(x.at(median), 1), latency(median))
