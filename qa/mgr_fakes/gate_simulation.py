"""Simulated load of treated OSDs and controls: drift, correlated noise, a neighbour, stalls.

Each OSD's latency is its own level times what happens to all, times noise of its own (AR(1)).
"""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import dataclass
from typing import Callable, Dict, List

from wcache.core.change.gate.judge import BLOCKS_BEFORE, LOOKS, Verdict, judge
from wcache.core.loads import Block, OsdBlock


@dataclass(frozen=True)
class Scene:
    """What one cluster is like; `spread` is the sd of a block's log latency of one OSD."""

    name: str
    spread: float = 0.1
    correlation: float = 0.0
    drift: float = 0.0  # of all, over the whole time, as a logarithm
    own_drift: float = 0.0  # sd of each OSD's own drift over the whole time
    neighbour: float = 0.0  # of all, from the change on
    stalls: float = 0.0  # share of blocks of an OSD that take three times as long
    stalled: float = 0.0  # of one control, from the change on; below 0: until the change
    treated: int = 1
    controls: int = 6


SCENES = (
    Scene("quiet"),
    Scene("drift of all", drift=0.7),
    Scene("drift of each", own_drift=0.05),
    Scene("AR(1) 0.3", correlation=0.3),
    Scene("AR(1) 0.6", correlation=0.6),
    Scene("a neighbour's load", neighbour=math.log(1.8)),
    Scene("stalls", stalls=0.02),
    Scene("a control that stalls", stalled=math.log(20.0), controls=4),
    Scene("a control that stalled before", stalled=-math.log(20.0), controls=4),
    Scene("three controls", controls=3),
    Scene("two treated", treated=2, correlation=0.3),
)


def _noise(scene: Scene, drawn: random.Random, count: int) -> List[float]:
    found = [drawn.gauss(0.0, scene.spread)]
    left = math.sqrt(1.0 - scene.correlation**2)
    for _ in range(count - 1):
        found.append(scene.correlation * found[-1] + left * drawn.gauss(0.0, scene.spread))
    return found


def run(scene: Scene, ratio: float, seed: int, beside: bool = True) -> Verdict:
    """The verdict on a wave whose latency changes by `ratio`; `beside` the controls or alone."""
    drawn = random.Random(f"{scene.name}/{ratio}/{seed}")
    count = BLOCKS_BEFORE + LOOKS[-1]
    treated = tuple(range(scene.treated))
    controls = tuple(range(scene.treated, scene.treated + scene.controls))
    series: Dict[int, List[float]] = {}
    for osd_id in (*treated, *controls):
        level, slope = drawn.gauss(7.0, 0.3), drawn.gauss(0.0, scene.own_drift)
        noise = _noise(scene, drawn, count)
        series[osd_id] = [
            level + noise[at] + (slope + scene.drift) * at / count
            + (scene.neighbour if at >= BLOCKS_BEFORE else 0.0)
            + (math.log(ratio) if at >= BLOCKS_BEFORE and osd_id in treated else 0.0)
            + (abs(scene.stalled) if osd_id == controls[0]
               and (at >= BLOCKS_BEFORE) == (scene.stalled > 0) else 0.0)
            + (math.log(3.0) if drawn.random() < scene.stalls else 0.0)
            for at in range(count)
        ]
    blocks = [
        Block(5.0, tuple(OsdBlock(o, math.exp(each[at]), 100) for o, each in series.items()))
        for at in range(count)
    ]
    before, after = blocks[:BLOCKS_BEFORE], blocks[BLOCKS_BEFORE:]
    for look in LOOKS:
        found = judge(before, after[:look], treated, controls if beside else ())
        if found.verdict is not Verdict.UNDECIDED:
            return found.verdict
    return Verdict.UNDECIDED


def rates(
    scene: Scene, ratio: float, count: int, beside: bool = True,
    verdict: Callable[..., Verdict] = run,
) -> Dict[Verdict, float]:
    """How often each verdict comes, of `count` waves."""
    found = Counter(verdict(scene, ratio, seed, beside) for seed in range(count))
    return {item: found[item] / count for item in Verdict}
