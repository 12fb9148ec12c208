"""The way back of a rollout: last change first, each read back, each tried though others fail."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import List, Tuple

from .. import events
from ..codec import one_line
from .change import TOUCHED, Change, ChangeStatus
from .gate.gate_state import GateStep
from .preconditions import LOOK_EVERY_S
from .rollout_base import Phase, RolloutBase
from .rollout_state import BY_ADMIN, RolloutStatus, Worse

# A probe that is gone is asked for so long to take a change back.
PROBE_AWAITED_S = 3600.0


@dataclass
class RollingBack(RolloutBase):
    """Takes changes back: of a whole plan, or of the wave under way."""

    @property
    def _in_doubt(self) -> Tuple[int, ...]:
        """What is asked for, or made and not judged."""
        rollout = self.rollout
        return (*rollout.all_in(ChangeStatus.APPLYING), *rollout.unjudged)

    @property
    def would_go_back(self) -> Tuple[Change, ...]:
        """What an abort would take back now: the wave under way, where some of it is not judged."""
        if self.rollout.afterwards or not self._in_doubt:
            return ()
        return tuple(self.rollout.changes[index] for index in self._goes_back())

    def _goes_back(self) -> List[int]:
        """What is in doubt, and what else the wave under way has touched."""
        rollout, doubted = self.rollout, self._in_doubt
        index = min(doubted) if doubted else rollout.current_index
        wave = -1 if index is None else rollout.wave_of(index)
        # what was put off comes after its wave, of which the rest was judged long ago
        wave = wave if wave == self.rollout.wave_begun else -1
        return [
            index for index, item in enumerate(rollout.changes) if index in doubted
            or (item.status in TOUCHED and rollout.wave_of(index) == wave)
        ]

    def start_rollback(self) -> List[events.Action]:
        """Take back every change that touched its drive, last first: an admin wants it."""
        changes = enumerate(self.rollout.changes)
        touched = [index for index, item in changes if item.status in TOUCHED]
        self._put_all(touched, status=ChangeStatus.ROLLING_BACK)
        self._set(
            RolloutStatus.ROLLING_BACK, reason=BY_ADMIN, by_will=True, step=GateStep(),
            pausing="", afterwards=False,
        )
        self._silent_since_s, self._not_yet = None, ""
        return self._next_back()

    def _worse(self, indices: Tuple[int, ...], why: str) -> List[events.Action]:
        """These changes made commits slower: that is kept, and their wave goes back."""
        self._have(worse=Worse(indices, one_line(why), self._now_s))
        return self._take_back(why)

    def _take_back_unjudged(self, why: str) -> List[events.Action]:
        """It goes back, and says nothing of its drive model."""
        self._have(undone=True)
        return self._take_back(why)

    def _take_back(self, why: str) -> List[events.Action]:
        """The wave under way goes back; what waves before it have changed stays."""
        why = one_line(why)
        self._doubts, self._resumed = 0, False
        self._silent_since_s, self._not_yet = None, ""
        self._put_all(self._goes_back(), status=ChangeStatus.ROLLING_BACK, detail=why)
        self._set(
            RolloutStatus.ROLLING_BACK, reason=why, pausing="",
            step=replace(self.rollout.step, indices=(), before=()),
        )
        return [events.Note(f"rolling back: {why}", "warning"), *self._next_back()]

    def _next_back(self) -> List[events.Action]:
        change = self.current
        if change is None:
            final = RolloutStatus.STOPPED if self.rollout.touched else RolloutStatus.ROLLED_BACK
            self._set(final)
            return self._idle(events.Note(final.value))
        back = change.setting.back(self.rollout.warrant(change))
        return [events.SaveRun(), self._ask(back, Phase.BACK)]

    def _went_back(self, outcome: object) -> List[events.Action]:
        self._silent_since_s = None
        change, found = self._one.went_back(outcome)
        if found.not_back:
            return self._not_back(change, found.not_back)
        if found.not_yet:
            self._keep(replace(change, status=ChangeStatus.ENDING_BACK))
            if self.rollout.all_in(ChangeStatus.ROLLING_BACK):
                return self._next_back()
            return self._again_later(found.not_yet, Phase.PAUSED_BACK)
        self._not_yet = ""
        if found.left_alone:
            self._have(reason=one_line(f"{self.rollout.reason}; {found.left_alone}"))
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

    def _silent_back(self, change: Change, detail: str, removed: bool) -> List[events.Action]:
        """A probe that is gone may come back: it is asked again for a while.

        Of a host that was removed nobody expects that: an admin has given it up.
        """
        begun_s = self._silent_since_s
        if removed:
            return self._not_back(change, f"given up: {detail}")
        if begun_s is not None and self._now_s - begun_s >= PROBE_AWAITED_S:
            unanswered, _ = change.went_back(None)
            return self._not_back(unanswered, detail)
        self._wait_until_s = self._now_s + LOOK_EVERY_S
        if begun_s is not None:
            return []
        self._silent_since_s = self._now_s
        return [events.Note(f"the rollback waits for a probe: {detail}", "warning")]
