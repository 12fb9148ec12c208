"""What the gate of a rollout promises, by simulation with fixed seeds: thousands of waves."""

from concurrent.futures import ProcessPoolExecutor
from itertools import repeat

import pytest
from mgr_fakes.gate_simulation import SCENES, rates
from wcache.core.change.gate.judge import Verdict

NEIGHBOUR = next(scene for scene in SCENES if scene.neighbour)


@pytest.fixture(
    scope="module",
    params=[(300, 120), pytest.param((1000, 400), marks=pytest.mark.long)], ids=["few", "many"],
)
def simulated(request):
    """By scene the rates of waves that change nothing, and of waves that are 1.3 times worse."""
    waves_same, waves_worse = request.param
    with ProcessPoolExecutor(2) as pool:
        same = pool.map(rates, SCENES, repeat(1.0), repeat(waves_same))
        worse = pool.map(rates, SCENES, repeat(1.3), repeat(waves_worse))
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
