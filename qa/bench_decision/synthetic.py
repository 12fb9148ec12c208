"""Records made of chosen log-normal latencies, where a test needs to know the truth."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Callable, Sequence, Tuple

from wcache.core.experiment.design import coin
from wcache.core.model import Arm, DriveModel, LoadPoint, Role, Transport
from wcache.core.record import (
    RECORD_FORMAT,
    RECORD_VERSION,
    CounterDelta,
    ExperimentSetup,
    Pair,
    Period,
    Record,
)

SETUP = ExperimentSetup(
    fsid="f", ceph_version="20.2.4", hostname="h1", osd_id=0, device_class="hdd",
    role=Role.BLOCK, load_point=LoadPoint.OSD_BENCH_DEPTH1, domain_id="d0", drive_id="d0",
    drive_model=DriveModel("ACME", "HD1", "1"), transport=Transport.SIMULATED,
    samples_per_period=16, period_s=0.7, settle_s=0.0, seed=1, pairs_max=80, rotational=True,
    simulated=True,
)

Draw = Callable[[Arm, int, int], Sequence[float]]
"""(arm, pair, samples) -> latencies in us, in order of time."""


def lognormal(
    rng: random.Random, *, ratio: float, base_us: float = 10_000.0, sample_sd: float = 0.2,
    period_sd: float = 0.05,
) -> Draw:
    """Latencies around base_us in arm B and ratio * base_us in arm A.

    `sample_sd` and `period_sd` are of the log, within and between periods.
    """

    def draw(arm: Arm, pair: int, count: int) -> Sequence[float]:
        middle = math.log(base_us) + rng.gauss(0.0, period_sd)
        if arm is Arm.A:
            middle += math.log(ratio)
        return [math.exp(rng.gauss(middle, sample_sd)) for _ in range(count)]

    return draw


def record(
    draw: Draw, pairs: int, *, setup: ExperimentSetup = SETUP, record_id: str = "r1",
) -> Record:
    """A finished record of `pairs` pairs of samples, ordered by the setup's coin."""
    made = []
    for index in range(pairs):
        periods = {}
        first = coin(setup.seed, index)
        for second, arm in enumerate((first, first.other)):
            samples = draw(arm, index, setup.samples_per_period)
            periods[arm] = _period(
                arm, 2 * index + second, tuple(round(us * 1e3) for us in samples)
            )
        made.append(Pair(index, first, periods[Arm.A], periods[Arm.B]))
    return Record(
        RECORD_FORMAT, RECORD_VERSION, record_id, "c1", setup, tuple(made), 0.0, 1.0, "made"
    )


def counter_record(draw: Draw, pairs: int, names: Sequence[str]) -> Record:
    """A record of the OSD's own traffic: 100 commits a period, under each counter name.

    Half of them in the later half.
    """
    setup = replace(SETUP, load_point=LoadPoint.OSD_TRAFFIC, samples_per_period=0)
    made = []
    for index in range(pairs):
        periods = {}
        first = coin(setup.seed, index)
        for second, arm in enumerate((first, first.other)):
            drawn = draw(arm, index, 100)
            whole_s, later_s = sum(drawn) / 1e6, sum(drawn[50:]) / 1e6
            periods[arm] = replace(
                _period(arm, 2 * index + second, ()),
                counters=tuple(CounterDelta(name, whole_s, 100) for name in names),
                later_counters=tuple(CounterDelta(name, later_s, 50) for name in names),
            )
        made.append(Pair(index, first, periods[Arm.A], periods[Arm.B]))
    return Record(
        RECORD_FORMAT, RECORD_VERSION, "r1", "c1", setup, tuple(made), 0.0, 1.0, "made"
    )


def altered(
    found: Record, a: Callable[[Period], Period],
    b: Callable[[Period], Period] = lambda period: period,
) -> Record:
    """The record with its periods changed by a function for each arm."""
    return replace(found, pairs=tuple(
        replace(pair, a=a(pair.a), b=b(pair.b)) for pair in found.pairs
    ))


def _period(arm: Arm, started_at_s: float, samples_ns: Tuple[int, ...]) -> Period:
    return Period(
        arm=arm, started_at_s=started_at_s, settle_s=0.0, seconds=sum(samples_ns) / 1e9,
        samples_ns=samples_ns, bytes_written=4096 * len(samples_ns),
    )
