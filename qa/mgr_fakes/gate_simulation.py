"""Simulated load of treated OSDs and controls: drift, correlated noise, a neighbour, stalls.

Each OSD's latency is its own level times what happens to all, times noise of its own (AR(1)).
A wave is judged by itself; a whole rollout by its steps together, where what was measured while
earlier steps were judged is the before of the next, beside the same controls.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import dataclass
from typing import Callable, Dict, List, Tuple

from wcache.core.change.gate.blocks import told_of
from wcache.core.change.gate.evidence import Sums
from wcache.core.change.gate.judge import (
    BLOCKS_BEFORE,
    LOOKS,
    LOOKS_BEFORE,
    Effect,
    judge,
    level_known,
)
from wcache.core.change.stepping import AHEAD_MAX
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


class Osd:
    """One OSD's latency, block after block, without what happens to all or by a change."""

    def __init__(self, scene: Scene, drawn: random.Random, blocks: int = 144) -> None:
        """`blocks` is the time over which it drifts by what the scene says."""
        self.scene, self.drawn = scene, drawn
        self.left = math.sqrt(1.0 - scene.correlation**2)
        self.level = drawn.gauss(7.0, 0.3)
        self.noise = drawn.gauss(0.0, scene.spread)
        self.slope = drawn.gauss(0.0, scene.own_drift) / blocks

    def next_us(self) -> float:
        """The latency of the next block."""
        scene, drawn = self.scene, self.drawn
        noise = self.left * drawn.gauss(0.0, scene.spread)
        self.noise = scene.correlation * self.noise + noise
        self.level += self.slope
        us = math.exp(self.level + self.noise)
        return 3.0 * us if scene.stalls and drawn.random() < scene.stalls else us


def taken_before(
    block: Callable[[], Block], treated: Tuple[int, ...], controls: Tuple[int, ...]
) -> List[Block]:
    """The blocks before the first step, as many as its noise asks for."""
    found: List[Block] = []
    while len(found) < LOOKS_BEFORE[-1]:
        found.append(block())
        if len(found) in LOOKS_BEFORE and level_known(found, treated, controls, False):
            break
    return found


def run(scene: Scene, ratio: float, seed: int, beside: bool = True) -> Effect:
    """The verdict on a wave whose latency changes by `ratio`; `beside` the controls or alone."""
    drawn = random.Random(f"{scene.name}/{ratio}/{seed}")
    count, changed = BLOCKS_BEFORE + LOOKS[-1], False
    treated = tuple(range(scene.treated))
    controls = tuple(range(scene.treated, scene.treated + scene.controls))
    osds = {osd_id: Osd(scene, drawn, count) for osd_id in (*treated, *controls)}
    at = 0

    def block() -> Block:
        nonlocal at
        at += 1
        found = []
        for osd_id, osd in osds.items():
            more = scene.drift * at / count + (scene.neighbour if changed else 0.0)
            if changed and osd_id in treated:
                more += math.log(ratio)
            if osd_id == controls[0] and changed == (scene.stalled > 0):
                more += abs(scene.stalled)
            found.append(OsdBlock(osd_id, osd.next_us() * math.exp(more), 100))
        return Block(5.0, tuple(found))

    others = controls if beside else ()
    before, after = taken_before(block, treated, others), []
    changed = True
    for number, look in enumerate(LOOKS, 1):
        after += [block() for _ in range(look - len(after))]
        found = judge(before, after, treated, others, look=number)
        if found.verdict is not Effect.UNDECIDED:
            return found.verdict
    return Effect.UNDECIDED


def rates(
    scene: Scene, ratio: float, count: int, beside: bool = True,
    verdict: Callable[..., Effect] = run,
) -> Dict[Effect, float]:
    """How often each verdict comes, of `count` waves."""
    found = Counter(verdict(scene, ratio, seed, beside) for seed in range(count))
    return {item: found[item] / count for item in Effect}


@dataclass(frozen=True)
class Whole:
    """How a rollout ended, after how many drives were changed, and in how many blocks."""

    verdict: Effect
    drives: int
    blocks: int


# A wave is a host of so many drives; a step is as large as what is proven.
HOST_DRIVES, PARALLEL = 10, 2


def whole(
    scene: Scene, ratio: float, seed: int, drives: int = 200, odd_from: int = -1,
    odd_ratio: float = 1.0, before_max: int = BLOCKS_BEFORE,
) -> Whole:
    """A rollout of so many drives; those of one host, from `odd_from` on, change by `odd_ratio`.

    Before each step but the canary are `before_max` blocks, as if there was a wait before each.
    """
    drawn = random.Random(f"{scene.name}/{ratio}/{seed}/{odd_from}/{odd_ratio}")
    controls = {-1 - n: Osd(scene, drawn) for n in range(max(scene.controls, 6))}
    at = looks = count = 0
    past = Sums()

    def sizes(done: int) -> int:
        most = 1 if done == 0 else max(PARALLEL, done)
        return min(most, HOST_DRIVES - done % HOST_DRIVES, drives - done)

    def block(treated: Dict[int, Osd]) -> Block:
        found = [(n, osd.next_us()) for n, osd in (*controls.items(), *ahead.items())]
        for n, osd in treated.items():
            mine = odd_ratio if 0 <= n - odd_from < HOST_DRIVES and odd_from >= 0 else ratio
            found.append((n, osd.next_us() * mine))
        return Block(5.0, tuple(OsdBlock(n, us, 100) for n, us in found))

    treated: Dict[int, Osd] = {}
    ahead = {n: Osd(scene, drawn) for n in range(min(AHEAD_MAX, drives))}
    seen = taken_before(lambda: block({}), (0,), tuple(controls))
    while True:
        treated = {n: ahead.pop(n) for n in range(at, at + sizes(at))}
        at += len(treated)
        while len(ahead) < AHEAD_MAX and at + len(ahead) < drives:
            ahead[at + len(ahead)] = Osd(scene, drawn)
        there = seen[-before_max:] if past.steps else seen
        before, after = told_of(there, tuple(treated)), []
        for look in LOOKS:
            after += [block(treated) for _ in range(look - len(after))]
            looks += 1
            found = judge(before, after, tuple(treated), tuple(controls), look=looks, past=past)
            if found.verdict is not Effect.UNDECIDED:
                break
        count += len(after)
        if not found.goes_on or at >= drives:
            return Whole(found.verdict, at, count)
        past, seen = found.together, [*seen, *after][-BLOCKS_BEFORE:]


def wholes(
    scene: Scene, ratio: float, count: int, odd_from: int = -1, odd_ratio: float = 1.0
) -> Tuple[Whole, ...]:
    """So many rollouts."""
    return tuple(
        whole(scene, ratio, seed, odd_from=odd_from, odd_ratio=odd_ratio) for seed in range(count)
    )
