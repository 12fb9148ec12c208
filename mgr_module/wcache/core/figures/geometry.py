"""Plots as geometry; `plot.html.j2` draws them as SVG.

Values stand on logarithmic axes: the same distance is the same factor.

An axis of a plot: where values lie on it, and its ticks.

Empirical distributions as geometry for an inline SVG plot; no drawing library needed.

The x axis is logarithmic: latencies of the two modes can differ fifty-fold.

Latencies before and after as shares of a width, which `gain.html.j2` draws on any screen.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from statistics import median
from typing import Callable, Dict, List, Optional, Sequence, Tuple

from ..loads import commit_latency
from ..model import Arm
from ..options.entries import arms_of
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
GAIN_LABEL_PERCENT = 25.0  # of a label of the axis of gains on a phone, with its space
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
    """A plot; `said` tells in words what its lines' names do not."""

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


@dataclass(frozen=True)
class Gain:
    """A latency in us before and after, with its interval; None where there is none.

    With nothing before, what is now is right; with nothing after, nothing is known to be better.
    In a GainPlot these are places on the axis, in percent of its width.
    """

    label: str
    told: str
    before: Optional[float] = None
    after: Optional[float] = None
    low: Optional[float] = None
    high: Optional[float] = None

    @property
    def better(self) -> bool:
        """Whether it is not slower after than before."""
        return self.before is None or self.after is None or self.after <= self.before


@dataclass(frozen=True)
class GainPlot:
    """The first gains, on one logarithmic axis."""

    rows: Tuple[Gain, ...] = ()
    ticks: Ticks = ()
    left_out: int = 0


def gain_plot(gains: Sequence[Gain], most: int) -> GainPlot:
    """The plot of the first `most`; it has no rows where there is nothing to show."""
    shown = gains[:most]
    ends = [us for one in shown for us in (one.before, one.after, one.low, one.high) if us]
    if not ends:
        return GainPlot()
    x = Axis(min(ends) / 1.2, max(ends) * 1.2, 0.0, 100.0, is_log=True)

    def at(us: Optional[float]) -> Optional[float]:
        return None if us is None else round(x.at(us), 1)

    return GainPlot(
        tuple(
            replace(one, before=at(one.before), after=at(one.after), low=at(one.low),
                    high=at(one.high)) for one in shown
        ),
        x.ticks(GAIN_LABEL_PERCENT, _label), len(gains) - len(shown),
    )


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


RECORD_WIDTH, RECORD_HEIGHT = 480, 224
RECORD_LEFT, RECORD_RIGHT, RECORD_TOP, RECORD_BOTTOM = 44, 36, 20, 200
LABEL_PX = 64  # of a label of the x axis, with its space
STEPS_MAX = 400  # more steps than pixels show nothing more
PERCENT_TICKS = (0, 25, 50, 75, 90, 100)
_SHARE = Axis(0.0, 100.0, RECORD_BOTTOM, RECORD_TOP)


def latencies_us(record: Record) -> Dict[Arm, List[float]]:
    """Sorted latencies of each arm, in us: samples, or one mean per period of traffic."""
    found: Dict[Arm, List[float]] = {arm: [] for arm in Arm}
    for pair in record.pairs:
        for period in pair.periods:
            found[period.arm] += [ns / 1e3 for ns in period.samples_ns] or _means_us(period)
    return {arm: sorted(value for value in values if value > 0) for arm, values in found.items()}


def _means_us(period: Period) -> List[float]:
    commit = commit_latency(period.counters)
    return [] if commit is None or commit.sum_s <= 0 else [1e6 * commit.sum_s / commit.count]


def distribution(record: Record, title: str = "Distribution of the latencies") -> Plot:
    """The ECDFs of a record; it has no lines where the record holds no latencies."""
    by_arm, arms = latencies_us(record), arms_of(record.setup.option)
    values = [value for found in by_arm.values() for value in found]
    if not values:
        return Plot(title, "", (), (), ())
    sampled = any(p.samples_ns for pair in record.pairs for p in (pair.a,))
    unit = "samples" if sampled else "periods' mean commit latencies"
    # a margin at both ends; never an empty range
    low, high = min(values), max(values)
    x = Axis(
        low / 1.15, max(high, low * 1.5) * 1.15, RECORD_LEFT, RECORD_WIDTH - RECORD_RIGHT,
        is_log=True,
    )
    lines = tuple(
        Line(f"{arms.name(arm)}, median {latency(median(found))}, n {len(found)}", look,
             _steps(found, x))
        for (arm, found), look in zip(by_arm.items(), ("back", "through")) if found
    )
    return Plot(
        title, "", lines, x.ticks(LABEL_PX, _label),
        tuple((round(_SHARE.at(percent), 1), f"{percent}%") for percent in PERCENT_TICKS),
        x_name=f"share of {unit} up to a latency", width=RECORD_WIDTH, height=RECORD_HEIGHT,
        left=RECORD_LEFT, right=RECORD_WIDTH - RECORD_RIGHT, top=RECORD_TOP, bottom=RECORD_BOTTOM,
    )


def _label(tick_us: float) -> str:
    """A round latency in as few characters as it takes."""
    for unit, size_us in (("us", 1.0), ("ms", 1e3)):
        if tick_us < 1e3 * size_us:
            return f"{tick_us / size_us:.4g} {unit}"
    return f"{tick_us / 1e6:.4g} s"


def _steps(values: Sequence[float], x: Axis) -> Geometry:
    """The share of sorted values that are up to each, as a step line."""
    count = len(values)
    step = max(1, math.ceil(count / STEPS_MAX))
    kept = sorted({*range(0, count, step), count - 1})
    words = [f"M{RECORD_LEFT} {_SHARE.at(0):.1f}"]
    for index in kept:
        share = _SHARE.at(100 * (index + 1) / count)
        words.append(f"H{x.at(values[index]):.1f}V{share:.1f}")
    return Geometry("".join([*words, f"H{RECORD_WIDTH - RECORD_RIGHT}"]))
