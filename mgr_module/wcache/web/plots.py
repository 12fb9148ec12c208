"""Plots of the page: of drive models now or in the better mode, of the parts of an experiment."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ..commands.tables import model_of
from ..core.experiment.design import design_of
from ..core.figures.geometry import (
    TICKS_APART_PX,
    Gain,
    GainPlot,
    Geometry,
    Line,
    Plot,
    Series,
    axes_of,
    gain_plot,
    over_time,
)
from ..core.loads import MATERIAL_RATIO, level_ns
from ..core.model import Arm, CacheMode, load_name
from ..core.options.entries import CACHE_MODES, arms_of
from ..core.record import Pair, Record
from ..core.text import latency, relative
from ..core.verdict.sequential import DECIDE_ALPHA, HORIZON, half_width

MODELS_DRAWN = 20
_ON_OFF = {CacheMode.WRITE_BACK: "on", CacheMode.WRITE_THROUGH: "off"}


def drive_models(
    rows: Sequence[Mapping[str, Any]], counted: Sequence[Mapping[str, Any]]
) -> GainPlot:
    """Each drive model now, and in the better mode: rows of `recommend`, and of `status`."""
    modes = {mode.value: mode for mode in CacheMode}
    most: Dict[str, CacheMode] = {}  # the mode of most drives: the last one stands
    for row in sorted(counted, key=lambda row: int(row["drives"])):
        if row["device_cache"] in modes:
            most[row["drive_model"]] = modes[row["device_cache"]]
    return gain_plot([_drive_model(row, most.get(model_of(row))) for row in rows], MODELS_DRAWN)


def _drive_model(row: Mapping[str, Any], most: Optional[CacheMode]) -> Gain:
    label = f"{row['device_class']} {model_of(row)}{' (simulated)' if row['simulated'] else ''}"
    levels_us = dict(zip(CacheMode, (row["expected_on_us"], row["expected_off_us"])))
    better = CacheMode(row["mode"]) if row["mode"] else None
    load = next((one for one in row["loads"] if one["verdict"] == row["verdict"]), None)
    if better is None or not row["to_change"] or load is None:
        now = better or most
        us = levels_us[now] if now else None
        word = "right as it is" if better else row["verdict"]
        told = f"{word}: {latency(us)} with the cache {_ON_OFF[now]}" if now and us else word
        known = CACHE_MODES.meant(row["verdict"]).decided
        return Gain(label, told, None if known else us, us if known else None)
    before_us, after_us = levels_us[better.other], levels_us[better]
    ends = [load["ratio"], load["ratio_low"], load["ratio_high"]]
    if better is CacheMode.WRITE_BACK:  # of turning it on
        ends = [1 / end if end else None for end in (ends[0], ends[2], ends[1])]
    gain = dict(zip(("ratio", "ratio_low", "ratio_high"), ends), interval=load["interval"])
    told = f"{latency(before_us)} -> {latency(after_us)}" if before_us else ""
    told = f"{load_name(load['load_point'])}, cache {_ON_OFF[better]}: " + (
        told + relative(gain)).strip()
    if not before_us or not ends[1] or not ends[2]:
        return Gain(label, told, before_us, after_us)
    return Gain(label, told, before_us, after_us, before_us / ends[2], before_us / ends[1])


def percent(times: float) -> str:
    """A change of latency to so many times as much, in percent."""
    change = 100 * (times - 1)
    return f"{change:+.2g}%" if abs(change) < 10 else f"{change:+.0f}%"


def difference(pair: Pair) -> float:
    """ln of arm B over arm A, of one pair."""
    return math.log(level_ns(pair.b) / level_ns(pair.a))


@dataclass(frozen=True)
class Look:
    """After so many pairs: how many times as long arm B takes, and its 99% interval."""

    pairs: int
    times: float
    low: float
    high: float


def looks(record: Record) -> List[Look]:
    """The looks of an experiment, from the first that has an interval.

    They are by the levels of all its periods; the verdict leaves out what it cannot use.  Each
    look is after one more unit: a pair, or the pairs of a replicate.
    """
    unit, each = design_of(record.setup).pairs_per_unit, list(map(difference, record.pairs))
    gaps = [math.fsum(each[i:i + unit]) / unit for i in range(0, len(each) - unit + 1, unit)]
    gaps = gaps[:HORIZON]
    found = []
    for count in range(2, len(gaps) + 1):
        mean = math.fsum(gaps[:count]) / count
        squares = math.fsum((gap - mean) ** 2 for gap in gaps[:count])
        half = half_width(count, math.sqrt(squares / (count - 1)), DECIDE_ALPHA)
        if math.isfinite(half) and half < 50.0:
            found.append(
                Look(unit * count, math.exp(mean), math.exp(mean - half), math.exp(mean + half))
            )
    return found


def closing(record: Record) -> Plot:
    """Each pair's change, and the interval closing in look by look, beside what is material."""
    seen = looks(record)
    if not seen:
        return Plot("The interval, look by look", "", (), (), ())
    pairs = [(n, math.exp(difference(p))) for n, p in enumerate(record.pairs[:seen[-1].pairs], 1)]
    edges = (MATERIAL_RATIO, 1 / MATERIAL_RATIO)
    arms = arms_of(record.setup.option)
    # a first interval can be absurdly wide: what is beyond the frame lies on its edge
    last = seen[-1]
    widest = 4.0 * max(last.high / last.low, 1.2)
    ys = [*edges, *(times for _, times in pairs), last.low, last.high]
    ys += [min(x.high, x.times * widest) for x in seen]
    ys += [max(x.low, x.times / widest) for x in seen]
    axes = axes_of([0.5, len(pairs) + 0.5], ys)
    upper = axes.path([(x.pairs, x.high) for x in seen])
    lower = axes.path([(x.pairs, x.low) for x in reversed(seen)])
    step = max(1, math.ceil(len(pairs) / 10))
    return Plot(
        "The interval, look by look",
        f"after {last.pairs} pairs {arms.a} -> {arms.b} is {percent(last.times)} of latency, its "
        f"99% interval {percent(last.low)} to {percent(last.high)}; a difference is material "
        f"beyond {percent(edges[1])} and {percent(edges[0])}",
        (
            Line(f"crosses: each pair, {arms.a} -> {arms.b}", "pair", axes.crosses(pairs)),
            Line("their mean, and its 99% interval", "ratio", Geometry(
                axes.path([(x.pairs, x.times) for x in seen])
                + "".join(axes.whisker(x.pairs, x.low, x.high) for x in (seen[0], last))
            )),
            Line("material from here on", "edge", axes.level(edges[0])),
            Line("", "edge", axes.level(edges[1])),
        ),
        tuple((round(axes.x.at(n), 1), str(n)) for n, _ in pairs[::step]),
        axes.y.ticks(TICKS_APART_PX, percent), Geometry(f"{upper}L{lower[1:]}Z"), x_name="pairs",
    )


def levels(record: Record) -> Plot:
    """The level of each period over the time of the experiment, by arm."""
    found, arms = [], arms_of(record.setup.option)
    for arm, look in zip(Arm, ("back", "through")):
        points = [
            (period.started_at_s, level_ns(period) / 1e3)
            for pair in record.pairs for period in pair.periods
            if period.arm is arm
        ]
        found.append(Series(arms.name(arm), look, tuple(sorted(points))))
    return over_time("The level of each period", found)
