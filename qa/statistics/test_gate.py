"""What the gate of a rollout promises, by simulation with fixed seeds.

Thousands of waves by themselves, and whole rollouts of 200 drives whose steps are pooled.
"""

from concurrent.futures import ProcessPoolExecutor
from itertools import repeat

import pytest
from mgr_fakes.gate_simulation import HOST_DRIVES, SCENES, rates, whole, wholes
from scipy.stats import binom
from wcache.core.change.gate.judge import BLOCKS_AGAIN, Effect

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
    assert simulated[name][0][Effect.WORSE] <= 0.01


@pytest.mark.parametrize("name", [scene.name for scene in SCENES])
def test_a_wave_that_is_1_3_times_worse_is_missed_at_most_once_in_twenty(simulated, name):
    found = simulated[name][1]
    assert found[Effect.NO_WORSE] + found[Effect.BETTER] + found[Effect.UNDECIDED] <= 0.05


def test_a_neighbours_load_fools_before_and_after_and_does_not_fool_the_gate(simulated):
    alone = rates(NEIGHBOUR, 1.0, 100, beside=False)
    assert alone[Effect.WORSE] > 0.95
    assert simulated[NEIGHBOUR.name][0][Effect.WORSE] <= 0.01


@pytest.fixture(scope="module", params=[12, pytest.param(150, marks=pytest.mark.long)])
def rollouts(request):
    """By scene: rollouts that gain a tenth, that change nothing, and that are 1.2 times worse."""
    with ProcessPoolExecutor(2) as pool:
        told = [pool.map(wholes, SCENES, repeat(r), repeat(request.param)) for r in RATIOS]
        return dict(zip((scene.name for scene in SCENES), zip(*told)))


RATIOS = (0.9, 1.0, 1.2)


@pytest.mark.parametrize("name", [scene.name for scene in SCENES])
def test_a_rollout_that_does_good_is_stopped_at_most_once_in_a_hundred(rollouts, name):
    found = rollouts[name][0]
    assert sum(item.verdict is not Effect.BETTER for item in found) <= 0.01 * len(found)


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_one_that_does_good_goes_on_after_waits_with_fewer_blocks_before(scene):
    found = [whole(scene, 0.9, seed, drives=50, before_max=BLOCKS_AGAIN) for seed in range(4)]
    assert {item.verdict for item in found} <= {Effect.BETTER, Effect.NO_WORSE}
    assert {item.drives for item in found} == {50}


@pytest.mark.parametrize("name", [scene.name for scene in SCENES])
def test_a_rollout_that_changes_nothing_is_called_worse_at_most_once_in_a_hundred(rollouts, name):
    found = rollouts[name][1]
    assert called_worse(found) <= most_of(len(found))


def test_so_it_is_over_all_scenes(rollouts):
    found = [item for name in rollouts for item in rollouts[name][1]]
    assert called_worse(found) <= max(2, 0.01 * len(found))


def called_worse(found):
    return sum(item.verdict is Effect.WORSE for item in found)


def most_of(count):
    """How many of so many a rate of 1% gives in 99 of 100 cases: 1 of 12, 5 of 150."""
    return binom.ppf(0.99, count, 0.01)


@pytest.mark.parametrize("name", [scene.name for scene in SCENES])
def test_one_that_is_1_2_times_worse_goes_no_further_than_its_first_drives(rollouts, name):
    found = rollouts[name][2]
    assert all(item.verdict in (Effect.WORSE, Effect.UNDECIDED) for item in found)
    assert sum(item.drives > 3 for item in found) <= 0.01 * len(found)


def test_one_hosts_firmware_that_is_1_3_times_worse_is_seen_beside_good_steps():
    scene = next(scene for scene in SCENES if scene.name == "AR(1) 0.3")
    found = wholes(scene, 0.9, 20, 100, 1.3)
    assert all(item.verdict is Effect.WORSE for item in found)
    assert {item.drives for item in found} == {100 + HOST_DRIVES}
