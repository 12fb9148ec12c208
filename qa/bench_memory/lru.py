"""An LRU of onodes that is given a trace of accesses, and its bins by age as an OSD has them."""

from __future__ import annotations

import math
import random
from collections import OrderedDict
from dataclasses import dataclass
from typing import Callable, Iterator, List, Tuple

from mgr_fakes.memory import BASE_BYTES
from wcache.knobs.memory.curve import CACHE_SHARE, Curve, MissCost, Rates, curve_of
from wcache.knobs.memory.reading import AgeBins, Counters, OsdReading

EDGES_S = (1.0, 2.0, 6.0, 24.0, 120.0, 720.0)
ONODE_BYTES = 1500
MISS_S = 5e-5
Access = Tuple[float, int]
"""When, in seconds, and which object."""
Trace = Callable[[random.Random, int, int, float], Iterator[Access]]


@dataclass(frozen=True)
class Outcome:
    """Misses per second in the counted part of a trace, and what was cached at its end, by age."""

    misses_per_s: float
    ages_s: Tuple[float, ...]


def run(trace: Iterator[Access], onodes_max: int, warm_s: float, end_s: float) -> Outcome:
    """The whole trace through an LRU of so many onodes; what comes before `warm_s` is not counted.

    Ages are taken at `end_s`.
    """
    cached: OrderedDict[int, float] = OrderedDict()
    misses = 0
    for at_s, name in trace:
        if name in cached:
            cached.move_to_end(name)
        else:
            misses += at_s >= warm_s
            if len(cached) >= onodes_max:
                cached.popitem(last=False)
        cached[name] = at_s
    return Outcome(misses / (end_s - warm_s), tuple(end_s - at_s for at_s in cached.values()))


def target_of(onodes_max: int) -> int:
    """The target with which an OSD's caches hold so many onodes."""
    return int((onodes_max * ONODE_BYTES + BASE_BYTES) / CACHE_SHARE)


def predicted(outcome: Outcome, onodes_max: int) -> Curve:
    """What the product makes of the bins of a cache of that size."""
    held: List[int] = [0] * len(EDGES_S)
    rest = 0
    for age_s in outcome.ages_s:
        index = next((i for i, edge in enumerate(EDGES_S) if age_s < edge), None)
        if index is None:
            rest += ONODE_BYTES
        else:
            held[index] += ONODE_BYTES
    spare = onodes_max * ONODE_BYTES - sum(held) - rest
    reading = OsdReading(
        0, Counters(0.0), target_of(onodes_max), onode_bytes=ONODE_BYTES,
        bins=(AgeBins("meta", EDGES_S, 0, tuple(held), rest + max(0, spare)),),
    )
    rates = Rates(
        60.0, 0.0, outcome.misses_per_s, 0.0, 0.0, MISS_S, None, None
    )
    curve = curve_of(reading, rates, MissCost(MISS_S, MISS_S))
    assert curve is not None  # it has bins and misses
    return curve


# ---- traces: `objects` in all, `per_s` accesses a second, for `seconds`


def uniform(rng: random.Random, objects: int, per_s: int, seconds: float) -> Iterator[Access]:
    """Every object alike."""
    for number in range(int(per_s * seconds)):
        yield number / per_s, rng.randrange(objects)


def zipf(rng: random.Random, objects: int, per_s: int, seconds: float) -> Iterator[Access]:
    """Few objects get most: the density falls with the rank."""
    for number in range(int(per_s * seconds)):
        yield number / per_s, int(math.exp(rng.random() * math.log(objects)))


def two_sets(rng: random.Random, objects: int, per_s: int, seconds: float) -> Iterator[Access]:
    """A tenth of the objects gets nine of ten accesses."""
    hot = objects // 10
    for number in range(int(per_s * seconds)):
        chosen = rng.randrange(hot) if rng.random() < 0.9 else rng.randrange(hot, objects)
        yield number / per_s, chosen


def in_turn(rng: random.Random, objects: int, per_s: int, seconds: float) -> Iterator[Access]:
    """A scan, again and again: all is missed until all of it fits."""
    start = rng.randrange(objects)
    for number in range(int(per_s * seconds)):
        yield number / per_s, (start + number) % objects


def drifting(rng: random.Random, objects: int, per_s: int, seconds: float) -> Iterator[Access]:
    """A window over the objects that moves on, a twentieth of itself in a minute."""
    window = objects // 2
    for number in range(int(per_s * seconds)):
        at_s = number / per_s
        yield at_s, (int(at_s / 60.0 * window / 20) + rng.randrange(window)) % objects


TRACES = {
    "uniform": uniform, "zipf": zipf, "two sets": two_sets, "scan": in_turn, "drift": drifting,
}
