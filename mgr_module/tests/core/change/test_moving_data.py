"""An OSD that begins or ends to move PGs while a step is judged is not taken for a worse one."""

import math
import random
from collections import Counter
from dataclasses import replace

import pytest
from wcache.core.change.gate.blocks import evened, moving_cost
from wcache.core.change.gate.judge import LOOKS, Effect, judge, level_known
from wcache.core.loads import Block, OsdBlock

SLOWED = 1.3
CONTROLS = tuple(range(1, 9))


class Osd:
    """Moves data for minutes, then does not for minutes."""

    def __init__(self, drawn, often):
        self.drawn, self.often = drawn, often
        self.level = drawn.gauss(7.0, 0.3)
        self.moved = drawn.random() < 0.5

    def next(self, ratio, moved=None):
        self.moved ^= self.drawn.random() < self.often
        now = self.moved if moved is None else moved
        us = math.exp(self.level + self.drawn.gauss(0.0, 0.1)) * ratio
        return us * (SLOWED if now else 1.0), now


def stretch(osds, count, ratio=1.0, treated_moves=None):
    found = []
    for _ in range(count):
        told = []
        for osd_id, osd in osds.items():
            mine = osd_id == 0
            us, moved = osd.next(ratio if mine else 1.0, treated_moves if mine else None)
            told.append(OsdBlock(osd_id, us, 100, moved=moved))
        found.append(Block(5.0, tuple(told)))
    return found


def untold(blocks):
    """As if OSDs did not say that they move data."""
    return [replace(one, osds=tuple(replace(o, moved=False) for o in one.osds)) for one in blocks]


def verdict(before, after):
    """As a rollout comes to it, look by look."""
    for number, look in enumerate(LOOKS[:5], 1):
        found = judge(before, after[:look], (0,), CONTROLS, look=number)
        if found.verdict is not Effect.UNDECIDED:
            break
    return found.verdict


def verdicts(ratio, count=30, told=True, often=0.02):
    """The treated OSD moves nothing before the change, and all of the time after it."""
    found = Counter()
    for seed in range(count):
        drawn = random.Random(seed)
        osds = {osd_id: Osd(drawn, often) for osd_id in (0, *CONTROLS)}
        before = stretch(osds, 96, treated_moves=False)
        after = stretch(osds, LOOKS[4], ratio, treated_moves=True)
        if not told:
            before, after = untold(before), untold(after)
        found[verdict(before, after)] += 1
    return found


@pytest.mark.slow
def test_who_moves_data_since_the_change_is_called_worse_where_that_is_not_known():
    assert verdicts(1.0, told=False, often=0.0)[Effect.WORSE] >= 25
    assert verdicts(1.2, told=False)[Effect.WORSE] <= 10, "nor is what is worse found"


@pytest.mark.slow
def test_and_is_not_where_it_is_known():
    found = verdicts(1.0)
    assert found[Effect.WORSE] == 0
    assert found[Effect.NO_WORSE] + found[Effect.BETTER] >= 27


@pytest.mark.slow
def test_a_change_that_is_worse_is_found_beside_it():
    found = verdicts(1.2)
    assert found[Effect.WORSE] >= 27
    assert found[Effect.NO_WORSE] + found[Effect.BETTER] == 0


@pytest.mark.parametrize("ratio", [1.0, 1.2])
def test_where_nobody_else_shows_what_moving_costs_nothing_is_decided(ratio):
    drawn = random.Random(5)
    osds = {osd_id: Osd(drawn, 0.0) for osd_id in (0, *CONTROLS)}
    for osd in osds.values():
        osd.moved = False
    before = stretch(osds, 96, treated_moves=False)
    after = stretch(osds, LOOKS[4], ratio, treated_moves=True)
    assert verdict(before, after) is Effect.UNDECIDED


@pytest.mark.slow
def test_the_cost_is_found_and_its_error_is_honest():
    apart = []
    for seed in range(40):
        drawn = random.Random(seed)
        osds = {osd_id: Osd(drawn, 0.02) for osd_id in (0, *CONTROLS)}
        cost, error = moving_cost(stretch(osds, 96), stretch(osds, 40, 1.2), (0,), CONTROLS)
        apart.append((cost - math.log(SLOWED)) / error)
        assert error < 0.05
    assert max(map(abs, apart)) < 3.0


def test_blocks_without_moves_stay_what_they_are():
    drawn = random.Random(1)
    blocks = untold(stretch({osd_id: Osd(drawn, 0.0) for osd_id in (0, *CONTROLS)}, 20))
    before, after, doubt = evened(blocks[:10], blocks[10:], (0,), CONTROLS)
    assert (before, after, doubt) == (blocks[:10], blocks[10:], 0.0)
    alone, _, _ = evened(blocks, (), (0,), ())
    assert alone == blocks


def test_a_level_is_known_as_soon_as_without_moves():
    drawn = random.Random(2)
    osds = {osd_id: Osd(drawn, 0.05) for osd_id in (0, *CONTROLS)}
    blocks = stretch(osds, 192)
    assert level_known(blocks, (0,), CONTROLS, False)
    assert not level_known(untold(blocks), (0,), CONTROLS, False)


def test_one_osd_by_itself_and_blocks_that_few_told_of_are_no_trouble():
    drawn = random.Random(3)
    blocks = stretch({0: Osd(drawn, 0.1)}, 60)
    steady, _, _ = evened(blocks, (), (0,), ())
    assert len(steady) == 60
    assert moving_cost(blocks[:1], (), (0,), (1, 2))[1] == pytest.approx(math.log(1.5))
