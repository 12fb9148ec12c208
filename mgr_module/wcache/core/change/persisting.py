"""A step that was judged well counts: read once more, and made to last where that has consent.

What was judged is what is there: a host may have been reset since, or somebody else has changed a
drive back.  So each drive is read before its change counts as applied.
To change now and to make it last are two consents.  The second may come when a plan is done;
where a drive does not keep it then, what is changed stays as it is, for it was judged well.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import List, Tuple

from .. import events
from ..codec import one_line
from ..record import Precondition
from .change import Change
from .change_status import ChangeStatus, Made
from .gate.gate_state import GateStep
from .phase import Phase
from .preconditions import words
from .rolling_back import RollingBack
from .rollout_state import Rollout, RolloutStatus

# Nothing is made to last where one of these does not hold.
MUST_STAND = (
    Precondition.NOT_FROZEN, Precondition.VERDICT_STANDS, Precondition.PLAN_STANDS,
)


def can_last(change: Change) -> bool:
    """Whether there is more to a change than making it, and that is not done yet."""
    return change.setting.CAN_LAST and change.real and not change.lasts


def not_lasting(rollout: Rollout) -> Tuple[int, ...]:
    """Changes of a plan that are in place and do not last.

    A drive that is only to keep its mode is unchanged where there was no consent to that.
    """
    return tuple(
        index for index, item in enumerate(rollout.changes)
        if can_last(item) and (
            item.status is ChangeStatus.APPLIED
            or (item.only_lasts and item.status is ChangeStatus.UNCHANGED)
        )
    )


@dataclass
class Persisting(RollingBack, ABC):
    """Makes changes last, one by one."""

    _reading: bool = False  # a look was asked for: what lasts is read before it is made to
    _looking: bool = False  # and then one at the cluster

    def make_last(self) -> List[events.Action]:
        """A plan that is done, and now has the consent to last."""
        indices = not_lasting(self.rollout)
        if self.rollout.status is not RolloutStatus.DONE or not indices:
            return []
        self._put({
            index: replace(self.rollout.changes[index], status=ChangeStatus.MADE)
            for index in indices
        })
        self._set(
            RolloutStatus.RUNNING, consent_persist=True, afterwards=True, reason="",
            step=GateStep(last=True),
        )
        return self._make_last()

    def _unjudged(self) -> Tuple[int, ...]:
        return self.rollout.all_in(ChangeStatus.MADE)

    def _make_last(self) -> List[events.Action]:
        """The step is judged well: each change is read, then made to last, one by one."""
        step, rollout = self.rollout.step, self.rollout
        if not step.last:
            self.rollout = replace(rollout, step=replace(step, last=True))
        done = {
            index: replace(rollout.changes[index], status=ChangeStatus.APPLIED)
            for index in self._unjudged()
            if not (self._lasts(rollout.changes[index]) or rollout.changes[index].setting.IS_READ)
        }
        self._put(done)
        change = self.current
        if change is None or change.status is not ChangeStatus.MADE:
            return self._left_as_made("") if rollout.afterwards else self._step_over()
        self._phase = Phase.LASTING
        # what lasts is set as well: unread, a drive that is not as judged would be set again
        self._reading, self._looking = not rollout.afterwards, False
        if self._reading:
            return [events.SaveRun(), self._ask(self.rollout.look(change))]
        return [events.SaveRun(), *self._before_lasting(change)]

    def _before_lasting(self, change: Change) -> List[events.Action]:
        """To make it last is a change of its own: what was true of the step may have fallen."""
        self._looking = True
        judged_on = change.judging_osds
        return [events.LookAtCluster((judged_on,) if judged_on else ())]

    def _seen_before_lasting(self, event: events.ClusterSeen) -> List[events.Action]:
        change = self.current
        if change is None or not self._looking:
            return []
        self._looking = False
        broken = tuple(item for item in event.missed if item in MUST_STAND)
        if not broken:
            return [self._ask(change.setting.apply(self.rollout.warrant(change)))]
        why = one_line(f"{change.name} is not made to last: {words(broken, moved=event.moved)}")
        if self.rollout.afterwards:
            return self._left_as_made(why)
        self._keep(replace(change, status=ChangeStatus.APPLIED))
        return [events.Note(why, "warning"), *self._make_last()]

    def _lasts(self, change: Change) -> bool:
        return self.rollout.consent_persist and change.setting.CAN_LAST

    def _lasted(self, outcome: object) -> List[events.Action]:
        change = self.current
        assert change is not None  # callers looked  # noqa: S101
        if self._reading:
            self._reading = False
            why = change.setting.is_still(outcome)
            if why:
                self.rollout = replace(self.rollout, undone=True)
                return self._take_back(f"{change.name}: {why}")
            if self._lasts(change):
                return self._before_lasting(change)
            self._keep(replace(change, status=ChangeStatus.APPLIED))
            return self._make_last()
        change, made, why = change.made(outcome, self.rollout.warrant(change), again=True)
        if made in (Made.YES, Made.ALREADY):
            self._keep(replace(change, status=ChangeStatus.APPLIED))
            return self._make_last()
        why = why or "it could not be made to last over a power cycle"
        if self.rollout.afterwards:
            return self._left_as_made(f"{change.name} does not last: {why}")
        return self._take_back(why)

    def _left_as_made(self, why: str) -> List[events.Action]:
        """The plan is done again: what lasts lasts, the rest is changed for now.

        The drive that was asked last may be touched; one after it that only keeps its mode is not.
        """
        rollout, asked = self.rollout, self.rollout.current_index
        self._put({
            index: replace(rollout.changes[index], status=(
                ChangeStatus.UNCHANGED if rollout.changes[index].only_lasts and index != asked
                else ChangeStatus.APPLIED
            ))
            for index in self._unjudged()
        })
        self._set(
            RolloutStatus.DONE, reason=one_line(why), afterwards=False, step=GateStep(),
            pausing="",
        )
        note = events.Note(why, "warning") if why else events.Note("made to last")
        return self._idle(note)

    @abstractmethod
    def _step_over(self) -> List[events.Action]:
        """The step is over; the next one begins."""
