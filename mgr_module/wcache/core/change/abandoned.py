"""How a machine ends that met an error of its own code: touched drives count as not restored."""

from __future__ import annotations

from dataclasses import replace

from ..codec import one_line
from ..experiment.run_state import RunState, RunStatus
from .change_status import ChangeStatus
from .rollout_state import Change, Rollout, RolloutStatus


def abandoned_run(state: RunState, reason: str) -> RunState:
    """The run is over; whether its domains are as before, only the probe can say."""
    never_held = state.status is RunStatus.WAITING or state.spec.observes
    return replace(
        state, status=RunStatus.ABORTED, reason=one_line(reason), restored=never_held,
        owed=() if never_held else state.spec.domain_ids,
    )


def abandoned_rollout(rollout: Rollout, reason: str) -> Rollout:
    """The rollout stops where it is; what it was about to do is left for a rollback."""
    said = one_line(f"not checked: {reason}")

    def left(change: Change) -> Change:
        if change.status is ChangeStatus.ROLLING_BACK:
            return replace(change, status=ChangeStatus.ROLLBACK_FAILED, detail=said)
        if change.status is ChangeStatus.APPLYING:
            return replace(change, detail=said)
        return change

    return replace(
        rollout, status=RolloutStatus.STOPPED, reason=one_line(reason), missed=(),
        changes=tuple(left(change) for change in rollout.changes),
    )
