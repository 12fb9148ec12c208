"""Plots of lines as geometry, of values over time for one; `plot.html.j2` draws them as SVG.

Values stand on logarithmic axes: the same distance is the same factor.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Callable, List, Sequence, Tuple

from ..record import Record
from ..text import amount, latency
from .axis import Axis, Ticks

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
