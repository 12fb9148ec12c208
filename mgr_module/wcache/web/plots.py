"""Plots of one experiment on the page: its distributions, its interval, the level of its periods.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import List

from ..core.figures import geometry
from ..core.figures.geometry import TICKS_APART_PX, Geometry, Line, Plot, Series, axes_of, over_time
from ..core.loads import MATERIAL_RATIO, level_ns
from ..core.model import CacheMode
from ..core.options.entries import arms_of
from ..core.record import Pair, Record
from ..core.verdict.sequential import DECIDE_ALPHA, HORIZON, half_width


def ratio_text(value: float) -> str:
    """A ratio as a tick says it."""
    return f"{value:.3g}"


def distribution(record: Record) -> Plot:
    """The ECDFs of a record: which share of its latencies is below a latency."""
    drawn, arms = geometry.plot(record), arms_of(record.setup.option)
    looks = {CacheMode.WRITE_BACK.value: "back", CacheMode.WRITE_THROUGH.value: "through"}
    curves = [(arms.name(CacheMode(curve.mode)), curve) for curve in drawn.curves]
    said = "; ".join(
        f"{name}: median {curve.median} of {curve.count} {drawn.unit}" for name, curve in curves
    )
    return Plot(
        "Distribution of the latencies", said,
        tuple(
            Line(f"{name}, median {curve.median}", looks[curve.mode], Geometry(curve.path))
            for name, curve in curves
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
    arms = arms_of(record.setup.option)
    # a first interval can be absurdly wide: what is beyond the frame lies on its edge
    last = seen[-1]
    widest = 4.0 * max(last.high / last.low, 1.2)
    ys = [*edges, *(ratio for _, ratio in pairs), last.low, last.high]
    ys += [min(x.high, x.ratio * widest) for x in seen]
    ys += [max(x.low, x.ratio / widest) for x in seen]
    axes = axes_of([0.5, len(pairs) + 0.5], ys)
    upper = axes.path([(x.pairs, x.high) for x in seen])
    lower = axes.path([(x.pairs, x.low) for x in reversed(seen)])
    step = max(1, math.ceil(len(pairs) / 10))
    return Plot(
        "The interval, look by look",
        f"after {last.pairs} pairs the ratio is {last.ratio:.2f}, its 99% interval {last.low:.2f} "
        f"to {last.high:.2f}; a difference is material beyond {edges[1]:.2f} and {edges[0]:.2f}",
        (
            Line(f"crosses: each pair, {arms.a} over {arms.b}", "pair", axes.crosses(pairs)),
            Line("their mean, and its 99% interval", "ratio", Geometry(
                axes.path([(x.pairs, x.ratio) for x in seen])
                + "".join(axes.whisker(x.pairs, x.low, x.high) for x in (seen[0], last))
            )),
            Line("material from here on", "edge", axes.level(edges[0])),
            Line("", "edge", axes.level(edges[1])),
        ),
        tuple((round(axes.x.at(n), 1), str(n)) for n, _ in pairs[::step]),
        axes.y.ticks(TICKS_APART_PX, ratio_text), Geometry(f"{upper}L{lower[1:]}Z"), x_name="pairs",
    )


def levels(record: Record) -> Plot:
    """The level of each period over the time of the experiment, by arm."""
    found, arms = [], arms_of(record.setup.option)
    for mode, look in ((CacheMode.WRITE_BACK, "back"), (CacheMode.WRITE_THROUGH, "through")):
        points = [
            (period.started_at_s, level_ns(period) / 1e3)
            for pair in record.pairs for period in pair.periods
            if period.mode is mode
        ]
        found.append(Series(arms.name(mode), look, tuple(sorted(points))))
    return over_time("The level of each period", found)
