"""Faults in every state of `auto` and of what it has begun, made from the machines themselves."""

import pytest
from auto_world import FAULTS, GOES_ON, at, states
from examples import ALL
from module_world import WB, WT

pytestmark = pytest.mark.slow  # whole rollouts

STATES = states()


def test_the_states_have_every_purpose_and_every_way_a_campaign_and_a_rollout_stand():
    words = {word for state in STATES for word in state}
    for purpose in ("unknown", "confirm", "apply"):
        assert purpose in words
    assert {"running, lease", "new drives"} <= words
    assert any(word.startswith("running, changing") for word in words)
    assert len(STATES) >= 15


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_any_state_ends_well_and_all_can_be_taken_back(fault):
    steps = sorted(STATES.items(), key=lambda item: item[1])
    # `make test-all` tries every third, `make test` every ninth, each fault others
    apart = 3 if ALL else 9
    chosen = steps[FAULTS.index(fault) % apart::apart]
    for state, step in chosen:
        world = at(step)
        assert world.state == state
        world.fault(fault)
        world.to_the_end()
        if fault in GOES_ON:
            assert world.modes == {WT}, (fault, state, world.mgr.service.auto.status())
        assert world.all_back() == {WB}, (fault, state)


def test_what_others_change_back_twice_while_it_is_judged_is_left_to_them():
    judged = ("apply", "running, after, 0", "")
    world = at(STATES[judged])
    world.fault("drift")
    tried = []
    for _ in range(4000):
        world.step()
        (first,) = world.mgr.service.auto.state.tried[-1:]
        tried.append((first.undone, bool(first.held)))
        drives = world.mgr.probes["h1"]
        if world.state[1:2] == judged[1:2] and drives.modes()["domain-sda"] is WT:
            world.fault("drift")
        if tried[-1][1]:
            break
    assert (True, False) in tried
    assert "is no longer in write through" in first.held
