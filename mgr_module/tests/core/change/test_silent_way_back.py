"""A way back whose probe is silent for a while goes on when the probe is heard again."""

from __future__ import annotations

from rollout_world import change, plan_of
from wcache.core import events
from wcache.core.change.change import ChangeStatus
from wcache.core.change.rollout import RolloutMachine
from wcache.core.change.rollout_state import RolloutStatus


def test_a_probe_that_is_heard_again_is_asked_once_and_its_answer_is_waited_for():
    rollout = plan_of(
        change(0, status=ChangeStatus.ROLLING_BACK), status=RolloutStatus.ROLLING_BACK
    )
    machine = RolloutMachine(rollout, "0")
    first = machine.handle(events.Begin(), 1000.0)
    assert isinstance(first[-1], events.GiveTask)
    machine.handle(events.AgentSilent("the probe on h0 has not responded"), 1060.0)
    again_s = machine.wake_at_s
    assert again_s is not None
    assert again_s > 1060.0
    again = machine.handle(events.Tick(), again_s)
    assert isinstance(again[-1], events.GiveTask)
    # each further question would be a write that the mons have not answered: no task passes that
    assert machine.wake_at_s is None
    assert machine.waits_for == ()
