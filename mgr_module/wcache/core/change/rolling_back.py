"""The way back of a rollout: last change first, each read back, each tried though others fail."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import List, Tuple

from .. import events
from ..codec import one_line
from ..shell import typed
from ..text import many
from . import preconditions as holding
from .change import Change
from .change_status import TOUCHED, ChangeStatus
from .gate.gate_state import GateStep
from .phase import Phase
from .rollout_base import RolloutBase
from .rollout_state import BY_ADMIN, RolloutStatus, Worse

# A probe that is gone is asked for so long to take a change back.
PROBE_AWAITED_S = 3600.0


@dataclass
class RollingBack(RolloutBase):
    """Takes changes back: of a whole plan, or of the wave under way."""

    @property
    def waits_for(self) -> Tuple[str, ...]:
        """What keeps the plan from going on, in words."""
        change = self.current
        if self._not_yet and self._phase in (Phase.FINISHING, Phase.PAUSED_BACK):
            more = len(self.rollout.all_in(ChangeStatus.ENDING_BACK)) - 1
            return (self._not_yet + (f", and {many(more, 'more drive')}" if more > 0 else ""),)
        if change is None or self._silent_since_s is None:
            return tuple(item.value for item in self.rollout.missed)
        return (
            f"the probe on {change.hostname}, which is asked again for an hour; where the host is "
            f"gone for good: {typed('ceph wcache agent rm {} --force', change.hostname)}",
        )

    @property
    def would_go_back(self) -> Tuple[Change, ...]:
        """What an abort would take back now: the wave under way, where some of it is not judged."""
        if self.rollout.afterwards or not self._in_doubt():
            return ()
        return tuple(
            item for index, item in enumerate(self.rollout.changes) if self._goes_back(index, item)
        )

    def start_rollback(self) -> List[events.Action]:
        """Take back every change that touched its drive, last first: an admin wants it."""
        changes = tuple(
            replace(c, status=ChangeStatus.ROLLING_BACK) if c.status in TOUCHED else c
            for c in self.rollout.changes
        )
        self._set(
            RolloutStatus.ROLLING_BACK, changes=changes, reason=BY_ADMIN, by_will=True,
            step=GateStep(), pausing="", afterwards=False,
        )
        self._silent_since_s, self._not_yet = None, ""
        return self._next_back()

    def _worse(self, indices: Tuple[int, ...], why: str) -> List[events.Action]:
        """These changes made commits slower: that is kept, and their wave goes back."""
        worse = Worse(indices, one_line(why), self._now_s)
        self.rollout = replace(self.rollout, worse=worse)
        return self._take_back(why)

    def _take_back(self, why: str) -> List[events.Action]:
        """The wave under way goes back; what waves before it have changed stays."""
        self._doubts = 0
        why = one_line(why)
        self._resumed = False
        self._silent_since_s, self._not_yet = None, ""
        going = {
            index: replace(item, status=ChangeStatus.ROLLING_BACK, detail=why)
            for index, item in enumerate(self.rollout.changes) if self._goes_back(index, item)
        }
        self._put(going)
        self._set(
            RolloutStatus.ROLLING_BACK, reason=why, pausing="",
            step=replace(self.rollout.step, indices=(), before=()),
        )
        return [events.Note(f"rolling back: {why}", "warning"), *self._next_back()]

    def _goes_back(self, index: int, item: Change) -> bool:
        if item.status in (ChangeStatus.APPLYING, ChangeStatus.MADE):
            return True
        now = self._wave_under_way()
        return item.status in TOUCHED and self.rollout.wave_of(index) == now

    def _in_doubt(self) -> Tuple[int, ...]:
        return tuple(
            index for index, item in enumerate(self.rollout.changes)
            if item.status in (ChangeStatus.APPLYING, ChangeStatus.MADE)
        )

    def _wave_under_way(self) -> int:
        under_way = self._in_doubt()
        index = under_way[0] if under_way else self.rollout.current_index
        wave = -1 if index is None else self.rollout.wave_of(index)
        # what was put off comes after its wave, of which the rest was judged long ago
        return wave if wave == self.rollout.wave_begun else -1

    def _next_back(self) -> List[events.Action]:
        change = self.current
        if change is None:
            final = RolloutStatus.STOPPED if self.rollout.touched else RolloutStatus.ROLLED_BACK
            self._set(final)
            return self._idle(events.Note(final.value))
        self._phase = Phase.BACK
        return [events.SaveRun(), self._ask(change.setting.back(self.rollout.warrant(change)))]

    def _went_back(self, outcome: object) -> List[events.Action]:
        change = self.current
        assert change is not None  # callers looked  # noqa: S101
        self._silent_since_s = None
        change, found = change.went_back(outcome)
        if found.not_back:
            return self._not_back(change, found.not_back)
        if found.not_yet:
            self._keep(replace(change, status=ChangeStatus.ENDING_BACK))
            if self.rollout.all_in(ChangeStatus.ROLLING_BACK):
                return self._next_back()
            return self._again_later(found.not_yet, Phase.PAUSED_BACK)
        self._not_yet = ""
        if found.left_alone:
            said = one_line(f"{self.rollout.reason}; {found.left_alone}")
            self._set(RolloutStatus.ROLLING_BACK, reason=said)
        self._keep(replace(change, status=ChangeStatus.ROLLED_BACK))
        if not (change.back_wait_s and self.current is not None):
            return self._next_back()
        return self._wait(change.back_wait_s, Phase.PAUSED_BACK)

    def _not_back(self, change: Change, why: str) -> List[events.Action]:
        """This one is not back; the others are still tried, and it can be tried again."""
        self._silent_since_s = None
        said = one_line(f"rollback failed: {why}")
        self._keep(replace(change, status=ChangeStatus.ROLLBACK_FAILED, detail=said))
        return [events.Note(said, "error"), *self._next_back()]

    def _silent_back(self, change: Change, event: events.AgentSilent) -> List[events.Action]:
        """A probe that is gone may come back: it is asked again for a while.

        Of a host that was removed nobody expects that: an admin has given it up.
        """
        begun_s, detail = self._silent_since_s, one_line(event.detail)
        if event.removed:
            return self._not_back(change, f"given up: {detail}")
        if begun_s is None or self._now_s - begun_s < PROBE_AWAITED_S:
            self._wait_until_s = self._now_s + holding.LOOK_EVERY_S
            if begun_s is not None:
                return []
            self._silent_since_s = self._now_s
            return [events.Note(f"the rollback waits for a probe: {detail}", "warning")]
        unanswered, _ = change.went_back(None)
        return self._not_back(unanswered, detail)
