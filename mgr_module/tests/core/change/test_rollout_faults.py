"""Faults in every state of a gated rollout, made from the state machine itself."""

from copy import deepcopy

import pytest
from examples import examples
from gated_plan import CHANGES, FAULTS, GatedMgr, states
from hypothesis import given
from hypothesis import strategies as st
from rollout_world import WB, WT
from wcache.core import events
from wcache.core.change.change import ChangeStatus
from wcache.core.change.rollout_base import Phase
from wcache.core.change.rollout_state import RolloutStatus

GOES_ON = ("failover", "answer lost", "lost between actions", "probe silent", "unhealthy",
           "watch ends", "pause")


@pytest.mark.slow
def test_the_states_are_all_that_a_rollout_has():
    phases = {state[1] for state in states()}
    # a look at the cluster is answered at once here, and these need a fault, a bench or bcache
    never = {Phase.IDLE, Phase.BEFORE, Phase.AFTER, Phase.HELD, Phase.CHECKING, Phase.BACK,
             Phase.PAUSED_BACK, Phase.FINISHING, Phase.LASTING_CHECK}
    assert phases == {phase.value for phase in Phase if phase not in never}
    assert len(states()) > 25


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_any_state_ends_well_and_can_be_taken_back(fault):
    for state, known in states().items():
        mgr = deepcopy(known)
        mgr.fault(fault)
        for _ in range(3):
            mgr.step()
        assert mgr.to_the_end(), (fault, state)
        rollout = mgr.machine.rollout
        if fault in GOES_ON:
            assert rollout.status is RolloutStatus.DONE, (fault, state, rollout.reason)
            assert set(mgr.modes.values()) == {WT}
        applied = [c.domain_id for c in rollout.changes if c.status is ChangeStatus.APPLIED]
        assert {mgr.modes[name] for name in applied} <= {WT}, (fault, state)
        touched = {c.domain_id for c in rollout.touched}
        assert all(mode is WB or name in touched for name, mode in mgr.modes.items())
        mgr.run(mgr.machine.start_rollback())
        assert mgr.to_the_end()
        assert set(mgr.modes.values()) == {WB}, (fault, state)


@pytest.mark.parametrize("persist", [False, True])
def test_a_drive_that_was_reset_while_it_was_judged_is_not_kept_as_if_it_had_been(persist):
    mgr = GatedMgr(1.5, persist)
    mgr.give(events.Begin())
    while mgr.machine.rollout.changes[0].status is not ChangeStatus.MADE:
        assert mgr.step()
    mgr.fault("host reset")
    assert mgr.to_the_end()
    rollout = mgr.machine.rollout
    assert (rollout.status, rollout.undone) == (RolloutStatus.ROLLED_BACK, True)
    assert set(mgr.modes.values()) == {WB}


@pytest.mark.slow
@examples(60)
@given(st.data())
def test_any_faults_in_any_states_never_touch_two_domains_and_always_end(data):
    ratio = data.draw(st.sampled_from([0.5, 1.0, 1.5]))
    mgr = GatedMgr(ratio, data.draw(st.booleans()), data.draw(st.integers(1, 4)))
    mgr.give(events.Begin())
    for _ in range(data.draw(st.integers(1, 4))):
        for _ in range(data.draw(st.integers(0, 160))):
            if not mgr.step():
                break
        mgr.fault(data.draw(st.sampled_from(FAULTS)), data.draw(st.integers(0, 3)))
        if data.draw(st.booleans()):
            mgr.heal()
    ended = mgr.to_the_end()
    if not ended:
        mgr.give(events.Halt("aborted"))
        assert mgr.to_the_end()
    if ratio == 1.5:
        kept = [c for c in mgr.machine.rollout.changes if c.status.value == "applied"]
        assert not kept, "what is worse was kept"
    mgr.run(mgr.machine.start_rollback())
    assert mgr.to_the_end()
    assert set(mgr.modes.values()) == {WB}
    assert len(mgr.modes) == CHANGES


@pytest.mark.slow
def test_a_paused_rollout_stays_as_it_is_over_failovers_until_somebody_decides():
    for known in states().values():
        mgr = deepcopy(known)
        mgr.fault("pause")
        assert mgr.to_the_end(resume=False) is False or mgr.machine.over
        modes = dict(mgr.modes)
        mgr.restart()
        assert not mgr.step()
        assert mgr.modes == modes
