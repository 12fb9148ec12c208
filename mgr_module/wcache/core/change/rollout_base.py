"""What every part of a rollout's machine works on: the stored plan, its phase and its tokens."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import AbstractSet, Iterable, List, Mapping, Optional, TypeVar

from .. import events
from ..codec import one_line
from ..config_database import ConfigRequest
from ..drive_kind import DriveKind
from ..record import Precondition
from . import preconditions
from .change import Change
from .change_status import GOING_BACK, ChangeStatus
from .phase import Phase
from .rollout_state import Rollout, RolloutStatus
from .setting import Ask
from .staleness import turned_on

Machine = TypeVar("Machine", bound="RolloutBase")

# Those in which nothing happens before a time has come.
TIMED = (
    Phase.WAITING, Phase.HELD, Phase.BLOCKS_BEFORE, Phase.BLOCKS_AFTER, Phase.PAUSED_BACK,
    Phase.FINISHING,
)
# Those in which a change was asked for and not yet proven, or is taken back.
MID_CHANGE = (
    Phase.LOOKING, Phase.CHANGING, Phase.FINISHING, Phase.WAITING, Phase.AFTER, Phase.LASTING,
    Phase.BACK,
)
# A change that is done by itself in a while is asked for again so often.
AGAIN_EVERY_S = 30.0


@dataclass
class RolloutBase:
    """The plan and its small changes."""

    rollout: Rollout
    epoch: str = "0"
    _phase: Phase = Phase.IDLE
    _token: str = ""
    _serial: int = 0
    _wait_until_s: float = 0.0
    _doubts: int = 0
    _resumed: bool = False
    _now_s: float = 0.0  # of the event that is handled
    _silent_since_s: Optional[float] = None
    _not_yet: str = ""  # what the change under way waits for, or its way back

    @property
    def over(self) -> bool:
        """Whether nothing is under way and nothing waits for an admin."""
        return not self.moving and not self.paused

    @property
    def moving(self) -> bool:
        """Whether something is under way."""
        return self.rollout.status in (RolloutStatus.RUNNING, RolloutStatus.ROLLING_BACK)

    @property
    def paused(self) -> bool:
        """Whether it waits for an admin: what is made stays applied."""
        return self.rollout.status is RolloutStatus.PAUSED

    @property
    def mid_change(self) -> bool:
        """Whether a change was asked for and is not yet proven, or is taken back."""
        return self.moving and self._phase in MID_CHANGE

    @property
    def phase(self) -> Phase:
        """What it waits for."""
        return self._phase

    @property
    def wake_at_s(self) -> Optional[float]:
        """When the machine wants its next Tick, or None."""
        if self.paused and self.rollout.pause_max_s:
            return self.rollout.paused_at_s + self.rollout.pause_max_s
        if not self.moving or self._phase is Phase.IDLE:
            return None
        waits = self._phase in TIMED or self._silent_since_s is not None
        return self._wait_until_s if waits else None

    @property
    def state(self) -> Rollout:
        """See Job."""
        return self.rollout

    @property
    def under_way(self) -> bool:
        """See Job."""
        return self.moving

    @property
    def waits_long(self) -> bool:
        """See Job: by design, until its time has come."""
        return self.wake_at_s is not None

    @property
    def hostnames(self) -> AbstractSet[str]:
        """See Job."""
        return {change.hostname for change in self.rollout.drive_changes}

    @property
    def may_turn_on(self) -> AbstractSet[DriveKind]:
        """See Job."""
        return turned_on(self.rollout)

    def stalled(self, said: str) -> events.Event:
        """See Job."""
        return events.AgentSilent(said)

    def abandoned(self: Machine, reason: str) -> Machine:
        """See Job: it stops where it is; what it was about to do is left for a rollback."""
        said = one_line(f"not checked: {reason}")

        def left(change: Change) -> Change:
            if change.status in GOING_BACK:
                return replace(change, status=ChangeStatus.ROLLBACK_FAILED, detail=said)
            if change.status is ChangeStatus.APPLYING:
                return replace(change, detail=said)
            return change

        return type(self)(replace(
            self.rollout, status=RolloutStatus.STOPPED, reason=one_line(reason), missed=(),
            changes=tuple(map(left, self.rollout.changes)),
        ), self.epoch)

    @property
    def current(self) -> Optional[Change]:
        """The change under way, if any."""
        index = self.rollout.current_index
        return None if index is None else self.rollout.changes[index]

    @property
    def waited_for(self) -> str:
        """The host whose probe must answer for the rollout to go on; "" for none."""
        current = self.current
        timed = self._phase in (Phase.BLOCKS_BEFORE, Phase.BLOCKS_AFTER)
        if current is None or not self.moving or timed:
            return ""
        return "" if self._phase in (Phase.HELD, Phase.CHECKING) else current.hostname

    def consent(
        self, *, trial: bool, persist: bool, writeback: bool = False
    ) -> List[events.Action]:
        """Take an admin's word before it begins: only to be tried, to last where it goes well.

        `writeback`: that what is acknowledged may be on a cache device alone.
        """
        self.rollout = replace(
            self.rollout, trial=trial or self.rollout.trial,
            consent_persist=persist,  # whatever it was planned with
            consent_writeback=writeback or self.rollout.consent_writeback,
        )
        return []

    def override(self, need_not: Iterable[Precondition]) -> List[events.Action]:
        """Go on without these preconditions; the next look knows."""
        self.rollout = preconditions.override(self.rollout, need_not)
        return [events.SaveRun()]

    def _change(self, **values: object) -> None:
        change = self.current
        if change is not None:
            self._keep(replace(change, **values))  # type: ignore[arg-type]

    def _keep(self, change: Change) -> None:
        index = self.rollout.current_index
        assert index is not None  # callers looked  # noqa: S101
        self._put({index: change})

    def _put(self, changed: Mapping[int, Change]) -> None:
        changes = [*self.rollout.changes]
        for index, change in changed.items():
            changes[index] = change
        self.rollout = replace(self.rollout, changes=tuple(changes))

    def _set(self, status: RolloutStatus, **values: object) -> None:
        """Where the plan stands now; only one that runs waits for anything."""
        if status is not RolloutStatus.RUNNING:
            values["missed"] = ()
        if status in (RolloutStatus.DONE, RolloutStatus.STOPPED, RolloutStatus.ROLLED_BACK):
            values["ended_at_s"] = self._now_s
        self.rollout = replace(self.rollout, status=status, **values)  # type: ignore[arg-type]

    def _new_token(self) -> str:
        self._serial += 1
        self._token = f"{self.rollout.plan_id}.{self.epoch}.{self._serial}"
        return self._token

    def _ask(self, request: Ask) -> events.Action:
        if isinstance(request, ConfigRequest):
            return events.AskConfig(self._new_token(), request)
        return events.GiveTask(self._new_token(), request)

    def _wait(self, seconds: float, phase: Phase = Phase.WAITING) -> List[events.Action]:
        self._phase, self._wait_until_s = phase, self._now_s + seconds
        return [events.SaveRun()]

    def _again_later(self, why: str, phase: Phase) -> List[events.Action]:
        """The change under way is done by itself, or its way back is: ask once more in a while."""
        said = [] if self._not_yet else [events.Note(f"waits for {why}")]
        self._not_yet = one_line(why)
        return [*said, *self._wait(AGAIN_EVERY_S, phase)]

    def _idle(self, note: events.Note) -> List[events.Action]:
        """Nothing is under way any more."""
        self._phase = Phase.IDLE
        self._silent_since_s = None
        return [events.SaveRun(), note]
