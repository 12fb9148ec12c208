"""Plots of the page as geometry; a template draws them as SVG.

Latencies and ratios stand on logarithmic axes: the same distance is the same factor.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import Callable, List, Sequence, Tuple

from ..core.experiment.levels import level_ns
from ..core.figures import ecdf
from ..core.material import MATERIAL_RATIO
from ..core.model import CacheMode
from ..core.record import Pair, Record
from ..core.text import amount, latency
from ..core.verdict.boundaries import DECIDE_ALPHA, HORIZON, half_width

WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 14, 34
LEAST_PERCENT = 0.1  # the axis is logarithmic
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
    x_ticks: Tuple[Tuple[float, str], ...]
    y_ticks: Tuple[Tuple[float, str], ...]
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
class _Axes:
    """What maps values onto the frame: x as it is, y by its logarithm."""

    x_low: float
    x_high: float
    y_low: float
    y_high: float

    def x(self, value: float) -> float:
        part = (value - self.x_low) / (self.x_high - self.x_low)
        return LEFT + min(1.0, max(0.0, part)) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        part = math.log(max(value, 1e-9) / self.y_low) / math.log(self.y_high / self.y_low)
        return HEIGHT - BOTTOM - min(1.0, max(0.0, part)) * (HEIGHT - TOP - BOTTOM)

    def path(self, points: Sequence[Point]) -> Geometry:
        step = max(1, math.ceil(len(points) / POINTS_MAX))
        kept = [*points[::step], *([points[-1]] if (len(points) - 1) % step else [])]
        words = [f"{self.x(a):.1f} {self.y(b):.1f}" for a, b in kept]
        return Geometry("M" + "L".join(words))

    def crosses(self, points: Sequence[Point]) -> Geometry:
        at = [(self.x(a), self.y(b)) for a, b in points]
        return Geometry("".join(
            f"M{x - 4:.1f} {y - 4:.1f}l8 8M{x - 4:.1f} {y + 4:.1f}l8 -8" for x, y in at
        ))

    def whisker(self, x: float, low: float, high: float) -> str:
        at = self.x(x)
        return (
            f"M{at - 6:.1f} {self.y(low):.1f}h12m-6 0V{self.y(high):.1f}m-6 0h12"
        )

    def level(self, value: float) -> Geometry:
        return Geometry(f"M{LEFT} {self.y(value):.1f}H{WIDTH - RIGHT}")


def _axes(xs: Sequence[float], ys: Sequence[float]) -> _Axes:
    low, high = min(ys), max(ys)
    pad = max(1.08, (high / low) ** 0.06)
    x_low, x_high = min(xs), max(xs)
    return _Axes(x_low, x_high if x_high > x_low else x_low + 1.0, low / pad, high * pad)


def _y_ticks(axes: _Axes, said: Callable[[float], str]) -> Tuple[Tuple[float, str], ...]:
    """1, 2 and 5 of each power of ten within the axis; its ends where that is too few."""
    first = math.floor(math.log10(axes.y_low))
    last = math.ceil(math.log10(axes.y_high))
    powers = [10.0**power for power in range(first, last + 1)]
    ticks: List[float] = []
    for steps in ((1.0,), (1.0, 2.0, 5.0), tuple(1 + n / 4 for n in range(36))):
        ticks = [s * p for p in powers for s in steps if axes.y_low <= s * p <= axes.y_high]
        if len(ticks) >= 3:
            break
    step = max(1, math.ceil(len(ticks) / 7))
    ticks = ticks[::step] or [math.sqrt(axes.y_low * axes.y_high)]
    return tuple((round(axes.y(tick), 1), said(tick)) for tick in ticks)


def _time_ticks(axes: _Axes) -> Tuple[Tuple[float, str], ...]:
    """Moments in UTC: with the date where the axis is longer than a day."""
    span = axes.x_high - axes.x_low
    form = "%m-%d %H:%M" if span > 86400 else "%H:%M" if span > 600 else "%H:%M:%S"
    count = 4
    moments = [axes.x_low + span * index / count for index in range(count + 1)]
    return tuple(
        (round(axes.x(at), 1), time.strftime(form, time.gmtime(at))) for at in moments
    )


def ratio_text(value: float) -> str:
    """A ratio as a tick says it."""
    return f"{value:.3g}"


def distribution(record: Record) -> Plot:
    """The ECDFs of a record: which share of its latencies is below a latency."""
    drawn = ecdf.plot(record)
    looks = {CacheMode.WRITE_BACK.value: "back", CacheMode.WRITE_THROUGH.value: "through"}
    said = "; ".join(
        f"{curve.mode}: median {curve.median} of {curve.count} {drawn.unit}"
        for curve in drawn.curves
    )
    return Plot(
        "Distribution of the latencies", said,
        tuple(
            Line(f"{curve.mode}, median {curve.median}", looks[curve.mode], Geometry(curve.path))
            for curve in drawn.curves
        ),
        drawn.x_ticks, drawn.y_ticks, x_name=f"share of {drawn.unit} up to a latency",
        width=drawn.width, height=drawn.bottom + 24, left=drawn.left, right=drawn.right,
        top=drawn.top, bottom=drawn.bottom,
    )


def difference(pair: Pair) -> float:
    """ln of write back over write through, of one pair."""
    return math.log(level_ns(pair.write_back) / level_ns(pair.write_through))


@dataclass(frozen=True)
class Look:
    """What was known after so many pairs: the ratio, and its 99% interval."""

    pairs: int
    ratio: float
    low: float
    high: float


def looks(record: Record) -> List[Look]:
    """The looks of an experiment, from the first that has an interval.

    They are by the levels of its periods; the verdict's own interval also weighs their drift.
    """
    gaps = [difference(pair) for pair in record.pairs[:HORIZON]]
    found = []
    for count in range(2, len(gaps) + 1):
        mean = math.fsum(gaps[:count]) / count
        squares = math.fsum((gap - mean) ** 2 for gap in gaps[:count])
        half = half_width(count, math.sqrt(squares / (count - 1)), DECIDE_ALPHA)
        if math.isfinite(half) and half < 50.0:
            found.append(
                Look(count, math.exp(mean), math.exp(mean - half), math.exp(mean + half))
            )
    return found


def closing(record: Record) -> Plot:
    """Each pair's ratio, and the interval closing in look by look, beside what is material."""
    seen = looks(record)
    if not seen:
        return Plot("The interval, look by look", "", (), (), ())
    pairs = [(n, math.exp(difference(p))) for n, p in enumerate(record.pairs[:HORIZON], 1)]
    edges = (MATERIAL_RATIO, 1 / MATERIAL_RATIO)
    # a first interval can be absurdly wide: what is beyond the frame lies on its edge
    last = seen[-1]
    widest = 4.0 * max(last.high / last.low, 1.2)
    ys = [*edges, *(ratio for _, ratio in pairs), last.low, last.high]
    ys += [min(x.high, x.ratio * widest) for x in seen]
    ys += [max(x.low, x.ratio / widest) for x in seen]
    axes = _axes([0.5, len(pairs) + 0.5], ys)
    upper = axes.path([(x.pairs, x.high) for x in seen])
    lower = axes.path([(x.pairs, x.low) for x in reversed(seen)])
    step = max(1, math.ceil(len(pairs) / 10))
    return Plot(
        "The interval, look by look",
        f"after {last.pairs} pairs the ratio is {last.ratio:.2f}, its 99% interval {last.low:.2f} "
        f"to {last.high:.2f}; a difference is material beyond {edges[1]:.2f} and {edges[0]:.2f}",
        (
            Line("crosses: each pair, write back over write through", "pair", axes.crosses(pairs)),
            Line("their mean, and its 99% interval", "ratio", Geometry(
                axes.path([(x.pairs, x.ratio) for x in seen])
                + "".join(axes.whisker(x.pairs, x.low, x.high) for x in (seen[0], last))
            )),
            Line("material from here on", "edge", axes.level(edges[0])),
            Line("", "edge", axes.level(edges[1])),
        ),
        tuple((round(axes.x(n), 1), str(n)) for n, _ in pairs[::step]),
        _y_ticks(axes, ratio_text), Geometry(f"{upper}L{lower[1:]}Z"), x_name="pairs",
    )


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
    axes = _axes(moments, [us for item in shown for _, us in item.points])
    inside = [(at, number) for at, number in marks if axes.x_low <= at <= axes.x_high]
    said = "; ".join(
        f"{item.name}: {words(item.points[0][1])} first, {words(item.points[-1][1])} last"
        for item in shown
    )
    return Plot(
        title, said,
        tuple(Line(item.name, item.look, axes.path(item.points)) for item in shown),
        _time_ticks(axes), _y_ticks(axes, words),
        marks=tuple(Mark(round(axes.x(at), 1), f"{number:.0f}") for at, number in inside),
        x_name="time (UTC)",
    )


def levels(record: Record) -> Plot:
    """The level of each period over the time of the experiment, by mode."""
    found = []
    for mode, look in ((CacheMode.WRITE_BACK, "back"), (CacheMode.WRITE_THROUGH, "through")):
        points = [
            (period.started_at_s, level_ns(period) / 1e3)
            for pair in record.pairs for period in (pair.write_back, pair.write_through)
            if period.mode is mode
        ]
        found.append(Series(mode.value, look, tuple(sorted(points))))
    return over_time("The level of each period", found)


def in_words(plot: Plot, words: Callable[[str], str]) -> Plot:
    """A plot whose words are others: of two values of an option, and not of cache modes."""
    return replace(
        plot, title=words(plot.title), said=words(plot.said),
        lines=tuple(replace(line, name=words(line.name)) for line in plot.lines),
    )


def bcache(record: Record) -> List[Plot]:
    """What bcache above the drive was at over the time of the experiment; none without one."""
    readings = sorted(
        (
            one for pair in record.pairs for period in (pair.write_back, pair.write_through)
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
