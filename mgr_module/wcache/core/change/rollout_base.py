"""What every part of a rollout's machine works on: the plan, its phase, what was asked last."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import (
    AbstractSet,
    Collection,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Tuple,
    TypeVar,
)

from .. import events
from ..cluster import ClusterState
from ..codec import one_line
from ..config_database import ConfigRequest
from ..host_report import DriveKind
from ..model import CacheMode
from ..record import Precondition
from ..setting.setting import Ask
from ..text import many, named, typed
from . import preconditions
from .change import GOING_BACK, UNFINISHED, Change, ChangeStatus
from .gate.blocks import CONTROLS_MIN
from .gate.evidence import Proofs
from .rollout_state import Rollout, RolloutStatus
from .stepping import NOTHING, Step, Touched, gated, step_from, steps_left, why_so_large

Machine = TypeVar("Machine", bound="RolloutBase")


class Phase(Enum):
    """What a rollout waits for; not stored, a mgr that takes over begins with what is."""

    IDLE = "idle"
    BEFORE = "before"
    CHECKING = "checking"  # whether the preconditions hold
    HELD = "held"  # until they do
    BLOCKS_BEFORE = "blocks before"  # of clients' load, before a step
    LOOKING = "looking"
    CHANGING = "changing"
    FINISHING = "finishing"  # until a change that was asked for is done by itself
    WAITING = "waiting"
    AFTER = "after"
    BLOCKS_AFTER = "blocks after"
    READING = "reading"  # a step that is judged, once more
    LASTING_CHECK = "checking what is to last"
    LASTING = "lasting"  # until it is made to last
    BACK = "back"
    PAUSED_BACK = "paused back"  # until the next may be taken back


# A change that is done by itself in a while is asked for again so often.
AGAIN_EVERY_S = 30.0
# Those in which nothing happens before a time has come.
TIMED = (
    Phase.WAITING, Phase.HELD, Phase.BLOCKS_BEFORE, Phase.BLOCKS_AFTER, Phase.PAUSED_BACK,
    Phase.FINISHING,
)
# Those in which a change was asked for and not yet proven, or is taken back.
MID_CHANGE = (
    Phase.LOOKING, Phase.CHANGING, Phase.FINISHING, Phase.WAITING, Phase.AFTER, Phase.READING,
    Phase.LASTING_CHECK, Phase.LASTING, Phase.BACK,
)


@dataclass
class RolloutBase:
    """The plan and its small changes."""

    rollout: Rollout
    epoch: str = "0"
    phase: Phase = Phase.IDLE
    _token: str = ""
    _serial: int = 0
    _wait_until_s: float = 0.0
    _doubts: int = 0
    _resumed: bool = False
    _now_s: float = 0.0  # of the event that is handled
    _silent_since_s: Optional[float] = None
    _not_yet: str = ""  # what the change under way waits for, or its way back
    # what the change touches whose OSDs have no clients' load: it is read back and no more
    _without_clients: Touched = NOTHING
    # how many may be changed together, where the last look has limited it
    _together_max: int = 0

    # ---- see Job

    @property
    def over(self) -> bool:
        """Whether nothing is under way and nothing waits for an admin."""
        return not self.under_way and not self.paused

    @property
    def under_way(self) -> bool:
        return self.rollout.status in (RolloutStatus.RUNNING, RolloutStatus.ROLLING_BACK)

    @property
    def wake_at_s(self) -> Optional[float]:
        """When the machine wants its next Tick, or None."""
        if self.paused and self.rollout.pause_max_s:
            return self.rollout.paused_at_s + self.rollout.pause_max_s
        if not self.under_way or self.phase is Phase.IDLE:
            return None
        waits = self.phase in TIMED or self._silent_since_s is not None
        return self._wait_until_s if waits else None

    @property
    def waits_long(self) -> bool:
        """Whether it waits by design, until its time has come."""
        return self.wake_at_s is not None

    @property
    def waited_for(self) -> str:
        """The host whose probe must answer for the rollout to go on; "" for none."""
        current = self.current
        of_probe = self.under_way and self.phase not in (
            Phase.BLOCKS_BEFORE, Phase.BLOCKS_AFTER, Phase.HELD, Phase.CHECKING,
        )
        return current.hostname if current is not None and of_probe else ""

    @property
    def hostnames(self) -> AbstractSet[str]:
        return {change.hostname for change in self.rollout.drive_changes}

    @property
    def may_turn_on(self) -> AbstractSet[DriveKind]:
        """The models it may yet turn on, now or at each power-on from now on."""
        return {
            change.kind.in_any_class for change, mode in self.rollout.mode_changes
            if change.status in UNFINISHED and mode is CacheMode.WRITE_BACK
        }

    def stalled(self, said: str) -> events.Event:
        return events.AgentSilent(said)

    def abandoned(self: Machine, reason: str) -> Machine:
        """Stop it where it is; what it was about to do is left for a rollback."""
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

    # ---- where it stands

    @property
    def paused(self) -> bool:
        """Whether it waits for an admin: what is made stays applied."""
        return self.rollout.status is RolloutStatus.PAUSED

    @property
    def mid_change(self) -> bool:
        """Whether a change was asked for and is not yet proven, or is taken back."""
        return self.under_way and self.phase in MID_CHANGE

    @property
    def current(self) -> Optional[Change]:
        """The change under way, if any."""
        index = self.rollout.current_index
        return None if index is None else self.rollout.changes[index]

    @property
    def _index(self) -> int:
        """Which one is under way, where callers know that one is."""
        index = self.rollout.current_index
        assert index is not None  # noqa: S101
        return index

    @property
    def _one(self) -> Change:
        return self.rollout.changes[self._index]

    # ---- what the next steps are made of

    def _gated(self, change: Change) -> bool:
        return gated(self.rollout, change, self._without_clients)

    def _candidates(self) -> Tuple[int, ...]:
        """The changes that the next step may be made of."""
        first, rollout = self.rollout.current_index, self.rollout
        if first is None:
            return ()
        return step_from(rollout, first, Proofs(rollout.evidence), self._without_clients).indices

    @property
    def wants_controls(self) -> bool:
        """Whether a step may begin with the next look at the cluster."""
        rollout = self.rollout
        return not (rollout.in_step and rollout.step.before) or bool(rollout.missed)

    @property
    def groups_next(self) -> Tuple[Tuple[int, ...], ...]:
        """The OSDs of each change that the next step may be made of, for `osd ok-to-stop`."""
        return tuple(
            change.judging_osds
            for change in (self.rollout.changes[index] for index in self._candidates())
            if change.has_clients
        )

    @property
    def coming(self) -> Tuple[Change, ...]:
        """The changes that are made next, or made to last: what was begun is not among them."""
        rollout, change = self.rollout, self.current
        if change is None or change.status is ChangeStatus.APPLYING:
            return ()
        if rollout.step.last:
            return (change,)
        indices = rollout.step.indices if rollout.in_step else self._candidates()
        changes = (rollout.changes[index] for index in indices)
        return tuple(item for item in changes if item.status is ChangeStatus.PLANNED)

    def steps_left(self) -> Iterator[Step]:
        """The step under way and those after it, as they will be if all are proven."""
        return steps_left(self.rollout, self._without_clients, self._together_max)

    def next_step(self) -> Tuple[int, str]:
        """Of how many changes the next step is, if the one under way is proven, and why."""
        step = next((one for one in self.steps_left() if not one.under_way), None)
        if step is None:
            return 0, ""
        return len(step.indices), why_so_large(self.rollout, step, self._together_max)

    # ---- small changes of it

    def consent(
        self, *, trial: bool, persist: bool, writeback: bool = False
    ) -> List[events.Action]:
        """Take an admin's word before it begins: only to be tried, to last where it goes well.

        `writeback`: that what is acknowledged may be on a cache device alone.
        """
        self._have(
            trial=trial or self.rollout.trial,
            consent_persist=persist,  # whatever it was planned with
            consent_writeback=writeback or self.rollout.consent_writeback,
        )
        return []

    def override(self, need_not: Iterable[Precondition]) -> List[events.Action]:
        """Go on without these preconditions; the next look knows."""
        self.rollout = preconditions.override(self.rollout, need_not)
        return [events.SaveRun()]

    def _have(self, **values: object) -> None:
        self.rollout = replace(self.rollout, **values)  # type: ignore[arg-type]

    def _set(self, status: RolloutStatus, **values: object) -> None:
        """Where the plan stands now; only one that runs waits for anything."""
        if status is not RolloutStatus.RUNNING:
            values["missed"] = ()
        if status in (RolloutStatus.DONE, RolloutStatus.STOPPED, RolloutStatus.ROLLED_BACK):
            values["ended_at_s"] = self._now_s
        self._have(status=status, **values)

    def _change(self, **values: object) -> None:
        """Of the change under way, if any."""
        if self.current is not None:
            self._keep(replace(self.current, **values))  # type: ignore[arg-type]

    def _keep(self, change: Change) -> None:
        self._put({self._index: change})

    def _put(self, changed: Mapping[int, Change]) -> None:
        changes = [*self.rollout.changes]
        for index, change in changed.items():
            changes[index] = change
        self._have(changes=tuple(changes))

    def _put_all(self, indices: Iterable[int], **values: object) -> None:
        changes = self.rollout.changes
        self._put({
            index: replace(changes[index], **values)  # type: ignore[arg-type]
            for index in indices
        })

    def _new_token(self) -> str:
        self._serial += 1
        self._token = f"{self.rollout.plan_id}.{self.epoch}.{self._serial}"
        return self._token

    def _ask(self, request: Ask, phase: Phase) -> events.Action:
        self.phase = phase
        # the one or the other answers, whatever the setting
        if isinstance(request, ConfigRequest):
            return events.AskConfig(self._new_token(), request)
        return events.GiveTask(self._new_token(), request)

    # ---- to wait, or for nothing more

    def _wait(self, seconds: float, phase: Phase = Phase.WAITING) -> List[events.Action]:
        self.phase, self._wait_until_s = phase, self._now_s + seconds
        return [events.SaveRun()]

    def _hold(self, missed: Precondition, why: str) -> List[events.Action]:
        """Wait for something; the next look at the cluster says whether it is there."""
        since_s = self.rollout.held_since_s if self.rollout.missed else self._now_s
        reason = one_line(f"waiting: {why}")
        self._have(missed=(missed,), held_since_s=since_s, reason=reason)
        return [*self._wait(preconditions.LOOK_EVERY_S, Phase.HELD), events.Note(reason, "warning")]

    def _again_later(self, why: str, phase: Phase) -> List[events.Action]:
        """The change under way is done by itself, or its way back is: ask once more in a while."""
        said = [] if self._not_yet else [events.Note(f"waits for {why}")]
        self._not_yet = one_line(why)
        return [*said, *self._wait(AGAIN_EVERY_S, phase)]

    def _idle(self, note: events.Note) -> List[events.Action]:
        """Nothing is under way any more."""
        self.phase = Phase.IDLE
        self._silent_since_s = None
        return [events.SaveRun(), note]

    @property
    def waits_for(self) -> Tuple[str, ...]:
        """What keeps the plan from going on, in words."""
        change = self.current
        if self._not_yet and self.phase in (Phase.FINISHING, Phase.PAUSED_BACK):
            more = len(self.rollout.all_in(ChangeStatus.ENDING_BACK)) - 1
            return (self._not_yet + (f", and {many(more, 'more drive')}" if more > 0 else ""),)
        if change is None or self._silent_since_s is None:
            return tuple(item.value for item in self.rollout.missed)
        return (
            f"the probe on {change.hostname}, which is asked again for an hour; where the host is "
            f"gone for good: {typed('ceph wcache agent rm {} --host-is-gone', change.hostname)}",
        )

    # ---- who is well

    def take_later(self, later: Tuple[int, ...]) -> None:
        """Put changes off, and take them out of the step.

        What was measured before them is of another load when they come back.
        """
        rollout, step = self.rollout, self.rollout.step
        new = {*later} - rollout.put_off
        self._put_all((
            index for index in new if rollout.changes[index].before_us is not None
        ), before_us=None)
        rest = tuple(index for index in step.indices if index not in new)
        self.rollout = self.rollout.putting_off(tuple(sorted({*later})))
        if rest != step.indices:
            self.rollout = self.rollout.with_step_of(rest)

    @property
    def waits_to_judge(self) -> bool:
        """Whether a step is made, and not judged as too few of its OSDs were well."""
        held = self.phase in (Phase.HELD, Phase.CHECKING)
        return held and bool(self.rollout.unjudged) and not self.rollout.in_step

    def illness_of_step(self, cluster: ClusterState) -> str:
        """Say why the step cannot be judged now; "" where it can."""
        step = self.rollout.step
        ill = cluster.illness((*step.treated, *step.controls))
        words = named([f"osd.{osd_id} {why}" for osd_id, why in ill.items()])
        return words if self._too_ill(ill) else ""

    def _too_ill(self, ill: Collection[int]) -> bool:
        """Whether so few OSDs of the step are well that nothing is known of it."""
        step = self.rollout.step
        beside = sum(osd_id not in ill for osd_id in step.controls)
        return all(osd_id in ill for osd_id in step.treated) or (
            bool(step.controls) and beside < CONTROLS_MIN
        )
