"""What the gate of a rollout promises, by simulation with fixed seeds: thousands of waves."""

from concurrent.futures import ProcessPoolExecutor

import pytest
from mgr_fakes.gate_simulation import SCENES, Scene, rates
from wcache.core.change.gate.judge import Verdict

SAME, WORSE = 1000, 400
NEIGHBOUR = next(scene for scene in SCENES if scene.neighbour)


def _same(scene: Scene):
    return rates(scene, 1.0, SAME)


def _worse(scene: Scene):
    return rates(scene, 1.3, WORSE)


@pytest.fixture(scope="module")
def simulated():
    with ProcessPoolExecutor(2) as pool:
        same, worse = pool.map(_same, SCENES), pool.map(_worse, SCENES)
        return dict(zip((scene.name for scene in SCENES), zip(same, worse)))


@pytest.mark.parametrize("name", [scene.name for scene in SCENES])
def test_a_wave_that_changes_nothing_is_called_worse_at_most_once_in_a_hundred(simulated, name):
    assert simulated[name][0][Verdict.WORSE] <= 0.01


@pytest.mark.parametrize("name", [scene.name for scene in SCENES])
def test_a_wave_that_is_1_3_times_worse_is_missed_at_most_once_in_twenty(simulated, name):
    found = simulated[name][1]
    assert found[Verdict.NO_WORSE] + found[Verdict.BETTER] + found[Verdict.UNDECIDED] <= 0.05


def test_a_neighbours_load_fools_before_and_after_and_does_not_fool_the_gate(simulated):
    alone = rates(NEIGHBOUR, 1.0, 100, beside=False)
    assert alone[Verdict.WORSE] > 0.95
    assert simulated[NEIGHBOUR.name][0][Verdict.WORSE] <= 0.01
