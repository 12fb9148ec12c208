"""Faults in every state of `auto` and of what it has begun, made from the machines themselves."""

import pytest
from auto_world import FAULTS, GOES_ON, at, states
from examples import ALL
from module_world import WB, WT, all_modes, fine, ok, said, taken_over
from test_auto import a_mgr, campaigns, go_on

pytestmark = pytest.mark.slow  # whole rollouts


def test_the_states_have_every_purpose_and_every_way_a_campaign_and_a_rollout_stand():
    words = {word for state in states() for word in state}
    for purpose in ("unknown", "confirm", "apply"):
        assert purpose in words
    assert {"running, lease", "new drives"} <= words
    assert any(word.startswith("running, changing") for word in words)
    assert len(states()) >= 15


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_any_state_ends_well_and_all_can_be_taken_back(fault):
    steps = sorted(states().items(), key=lambda item: item[1])
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
    world = at(states()[judged])
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


@pytest.mark.parametrize("step", range(0, 60, 7))
def test_a_mgr_lost_at_any_step_goes_on_and_begins_nothing_twice(step):
    mgr = a_mgr()
    ok(mgr.command("auto", mode="apply"))
    for number in range(60):
        if number == step:
            taken_over(mgr)
        mgr.step(3.0)
    go_on(mgr)
    assert all_modes(mgr) == {WT}
    assert len(campaigns(mgr)) == 1
    assert len(said(mgr, "plan ls")["plans"]) == 1
    fine(mgr)


def test_what_an_admin_aborted_is_not_applied_again_however_late_its_hosts_report(monkeypatch):
    mgr = a_mgr()
    ok(mgr.command("auto", mode="apply"))
    while not (all_modes(mgr) - {WB} and mgr.inside.rollouts):
        mgr.step(2.0)
    with monkeypatch.context() as late:
        late.setattr(mgr.inside.hosts, "reported", lambda *_: None)
        ok(mgr.command("rollout abort", plan_id="p1"))
        while not mgr.inside.rollouts["p1"].over:
            mgr.step(1.0)
        mgr.steps(9, 5.0)
    go_on(mgr)
    assert (list(mgr.inside.rollouts), all_modes(mgr)) == (["p1"], {WB})
    assert "aborted by an admin" in ok(mgr.command("auto status"))
    fine(mgr)
