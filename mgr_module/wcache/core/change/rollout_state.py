"""A plan with the state of its rollout: what is stored of it after every step."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from itertools import accumulate
from typing import ClassVar, Dict, FrozenSet, Iterable, Optional, Sequence, Set, Tuple

from ..loads import OSDS_MAX
from ..model import CacheMode
from ..record import Precondition
from ..setting.setting import Ask, Warrant
from .change import GOING_BACK, TOUCHED, Change, ChangeStatus
from .gate.evidence import Proofs, Sums
from .gate.gate_state import GateSettings, GateStep, Harm

# Changes of one plan.
CHANGES_MAX = 16_384


class RolloutStatus(str, Enum):
    """Where a plan stands."""

    PLANNED = "planned"
    RUNNING = "running"
    PAUSED = "paused"  # what is made stays, nothing is persisted, an admin decides
    DONE = "done"
    STOPPED = "stopped"
    ROLLING_BACK = "rolling back"
    ROLLED_BACK = "rolled back"


BY_ADMIN = "rolled back by an admin"

# A machine carries it out, or waits for an admin in the middle of it.
UNDER_WAY = (RolloutStatus.RUNNING, RolloutStatus.PAUSED, RolloutStatus.ROLLING_BACK)


class WaveKind(str, Enum):
    """What a wave is for."""

    CANARY = "canary"
    HOST = "the canary's host"
    DOMAIN = "failure domain"


@dataclass(frozen=True)
class Wave:
    """So many changes in a row, in one failure domain."""

    kind: WaveKind
    name: str
    size: int


@dataclass(frozen=True)
class Worse:
    """Changes of a plan that went back, since they made commits slower: which, why and when."""

    indices: Tuple[int, ...] = field(default=(), metadata={"max_items": OSDS_MAX})
    why: str = ""
    at_s: float = 0.0


@dataclass(frozen=True)
class Rollout:
    """A plan and how far it has come; stored after every step.

    `overridden` are the preconditions that an admin said need not hold, `forced` those of
    them that did not when a change was made.  `missed` are those that it waits for now, since
    `held_since_s`.  A `trial` makes the first change, measures it, and takes it back.

    `waves` divide `changes`.  By its `gate` the real load of clients judges each step of at most
    `parallel_max` changes, or a bench before and after each change.  `consent_persist` takes
    effect for a step when it is judged; before it is begun it is no consent, and says what is
    planned to last.  `consent_writeback`: bcache may hold alone what was acknowledged.
    `judged_s` is how long steps that are over have taken; `pausing` why it pauses once the change
    under way is made.  After `pause_max_s` of a pause what is not judged goes back (0: it waits
    for an admin).  `afterwards`: it was done, and what it changed is made to last.  `worse` is
    what went back because clients, or a bench, were worse off.  `by_will`: an admin had it go
    back.
    `undone`: its end says nothing of its drive models, as a drive was changed by others or an OSD
    went silent while it was judged, the mons did not store it, or it was paused to its end as
    clients wrote too little.  `evidence` is what its judged steps say together, by kind of
    change, and `looks` how often it was judged.  `harm` is what clients have waited longer; at
    `harm_max_s` it pauses, and `harm_spent` says so.
    """

    STORED_BY: ClassVar[str] = "plan_id"
    plan_id: str
    created_at_s: float
    changes: Tuple[Change, ...] = field(metadata={"max_items": CHANGES_MAX})
    waves: Tuple[Wave, ...] = field(metadata={"max_items": CHANGES_MAX})
    gate: GateSettings
    status: RolloutStatus = RolloutStatus.PLANNED
    reason: str = ""
    consent_turn_on: bool = False
    consent_persist: bool = False
    consent_writeback: bool = False
    throwaway: bool = False
    settle_s: float = 1.0
    canary_wait_s: float = 0.0
    latency_limit_ms: float = 2000.0
    count: int = 25
    period_s: float = 4.0
    overridden: Tuple[Precondition, ...] = ()
    forced: Tuple[Precondition, ...] = ()
    missed: Tuple[Precondition, ...] = ()
    held_since_s: float = 0.0
    cluster_fsid: str = ""
    trial: bool = False
    by: str = "admin"  # who asked for it: an admin, or "auto"
    parallel_max: int = 1
    step: GateStep = GateStep()  # noqa: RUF009  frozen
    step_at_s: float = 0.0
    pausing: str = ""
    paused_at_s: float = 0.0
    began_at_s: float = 0.0
    ended_at_s: float = 0.0
    judged_s: Tuple[float, ...] = field(default=(), metadata={"max_items": CHANGES_MAX})
    pause_max_s: float = 0.0
    afterwards: bool = False
    worse: Worse = Worse()
    undone: bool = False
    by_will: bool = False
    # a kind has writes and reads
    evidence: Tuple[Sums, ...] = field(
        default=(), metadata={"max_items": 2 * CHANGES_MAX}
    )
    looks: int = 0
    harm_max_s: float = 0.0  # 0: no budget
    harm: Harm = Harm()  # noqa: RUF009  frozen
    harm_spent: bool = False
    # changes that are put off, as their OSDs were ill: they come after all others
    later: Tuple[int, ...] = field(default=(), metadata={"max_items": CHANGES_MAX})

    @property
    def mode_changes(self) -> Tuple[Tuple[Change, CacheMode], ...]:
        """The changes of drives' cache modes, each with the mode that it sets."""
        wanted = ((item, item.setting.mode_wanted) for item in self.changes)
        return tuple((item, mode) for item, mode in wanted if mode is not None)

    @property
    def drive_changes(self) -> Tuple[Change, ...]:
        """All that probes make."""
        return tuple(item for item in self.changes if item.hostname)

    @property
    def config_changes(self) -> Tuple[Change, ...]:
        return tuple(item for item in self.changes if item.edits)

    # ---- what is asked for a change

    def warrant(self, change: Change) -> Warrant:
        """Return on whose behalf a change is made: nothing lasts before it is judged.

        There is nothing to judge where a drive is in its mode and is only to keep it.
        """
        lasts = self.consent_persist and change.setting.CAN_LAST and (
            self.step.last or change.setting.only_lasts
        )
        return Warrant(
            change.action_id, change.prior, self.cluster_fsid, self.consent_turn_on, lasts,
            self.consent_persist, self.consent_writeback, self.throwaway,
        )

    def look(self, change: Change) -> Ask:
        """Say what reads what is there before a change."""
        return change.setting.look(
            edit for item in self.changes
            if item.status is ChangeStatus.PLANNED and item.action_id != change.action_id
            for edit in item.edits
        )

    def wave_of(self, index: int) -> int:
        return bisect_right(self._wave_ends, index)

    @cached_property
    def _wave_ends(self) -> Sequence[int]:
        return tuple(accumulate(wave.size for wave in self.waves))

    def proven_least(self, indices: Iterable[int]) -> int:
        """Return how many changes are proven of the kind of which the fewest are, of these."""
        hosts: Dict[str, Set[str]] = {}
        for change in (self.changes[index] for index in indices):
            hosts.setdefault(change.pooled_as, set()).add(change.hostname)
        return Proofs(self.evidence).least(hosts)

    @property
    def touched(self) -> Tuple[Change, ...]:
        """The changes a rollback would take back."""
        return tuple(change for change in self.changes if change.status in TOUCHED)

    @cached_property
    def current_index(self) -> Optional[int]:
        """Which change is under way or next: forwards the first, backwards the last.

        What is put off comes after the others.
        """
        if self.status is RolloutStatus.ROLLING_BACK:
            # what happens by itself is looked at when all others have been asked to go back
            going = (self.all_in(status) for status in GOING_BACK)
            return next((max(indices) for indices in going if indices), None)
        if self.step.last:
            return min(self.all_in(ChangeStatus.MADE), default=None)
        if ChangeStatus.APPLYING in self._statuses:
            return self._statuses.index(ChangeStatus.APPLYING)
        first = at = self._planned_from(0)
        while at is not None and at in self.put_off:
            at = self._planned_from(at + 1)
        return first if at is None else at

    def _planned_from(self, index: int) -> Optional[int]:
        try:
            return self._statuses.index(ChangeStatus.PLANNED, index)
        except ValueError:
            return None

    @cached_property
    def put_off(self) -> FrozenSet[int]:
        """The changes that come after all others."""
        return frozenset(self.later)

    def putting_off(self, later: Tuple[int, ...]) -> Rollout:
        """Return the plan with these put off, and no others."""
        return self if later == self.later else replace(self, later=later)

    @cached_property
    def wave_begun(self) -> int:
        """The last wave of which something was begun; -1 where nothing was."""
        for index in range(len(self.changes) - 1, -1, -1):
            if self._statuses[index] is not ChangeStatus.PLANNED:
                return self.wave_of(index)
        return -1

    @cached_property
    def canary_index(self) -> int:
        """Which change is made by itself and watched longest: the first that is made at all.

        Not one that is refused, or was there already.  One that is put off is not it, as long as
        it is.
        """
        asked = (
            i for i, item in enumerate(self._statuses)
            if item not in (ChangeStatus.REFUSED, ChangeStatus.UNCHANGED)
            and not (item is ChangeStatus.PLANNED and i in self.put_off)
        )
        return next(asked, 0)

    @cached_property
    def _statuses(self) -> Sequence[ChangeStatus]:
        return [item.status for item in self.changes]

    # ---- the step under way

    @property
    def in_step(self) -> bool:
        """Whether the change under way, or the next one, is of the step."""
        return self.current_index in self.step.indices

    @property
    def of_step(self) -> Tuple[Change, ...]:
        return tuple(self.changes[index] for index in self.step.indices)

    @property
    def is_canary(self) -> bool:
        return self.canary_index in self.step.indices

    @property
    def unjudged(self) -> Tuple[int, ...]:
        """What is made, and not judged or not yet kept."""
        return self.all_in(ChangeStatus.MADE)

    def with_step_of(self, indices: Tuple[int, ...]) -> Rollout:
        """Return the plan with nothing else in its step, or with no step."""
        treated = self.judged_on(indices)
        step = replace(self.step, indices=indices, treated=treated) if indices else GateStep()
        return replace(self, step=step)

    def judged_on(self, indices: Iterable[int]) -> Tuple[int, ...]:
        """Return the OSDs that changes are judged on."""
        return tuple(sorted({o for i in indices for o in self.changes[i].judging_osds}))

    def apart(self, indices: Iterable[int]) -> int:
        """Count the things that are changed: the steps of one value are one."""
        return len({self.changes[index].setting.touches for index in indices})

    @property
    def to_last(self) -> bool:
        """Whether it is planned to last; what makes it last is a consent as it is applied."""
        return self.status is RolloutStatus.PLANNED and self.consent_persist

    @property
    def may_last(self) -> bool:
        """Whether what is judged well is made to last."""
        return self.status is not RolloutStatus.PLANNED and self.consent_persist

    @property
    def judged_by(self) -> str:
        """How its steps are judged, in words."""
        gate = self.gate
        why_not = (
            "" if gate.by_load else "gate_by_load was off when it was planned"
        ) or ("client_load is overridden" if Precondition.CLIENT_LOAD in self.overridden else "")
        without = [one for one in self.changes if why_not or one.setting.READS_TOO]
        measured = {one.measured for one in without}
        by = ", or ".join(words for kind, words in (
            (True, "a bench before and after each change"), (False, "what is read back alone"),
        ) if kind in measured)
        if why_not or not any(one.judging_osds for one in self.changes):
            return "; ".join(filter(None, (by, why_not)))
        beside = f"in blocks of {gate.block_s:g} s, beside OSDs that are not changed"
        return f"clients' reads and writes {beside}; where clients do too little, by {by}" \
            if without else f"clients' writes {beside}"

    def all_in(self, status: ChangeStatus) -> Tuple[int, ...]:
        """Which changes have a status; asked many times of a plan, which may be long."""
        found, at = [], -1
        for _ in range(self._statuses.count(status)):
            at = self._statuses.index(status, at + 1)
            found.append(at)
        return tuple(found)


def not_lasting(rollout: Rollout) -> Tuple[int, ...]:
    """Return the changes of a plan that are in place and do not last.

    A drive that is only to keep its mode is unchanged where there was no consent to that.
    """
    return tuple(
        index for index, item in enumerate(rollout.changes)
        if item.can_last and (
            item.status is ChangeStatus.APPLIED
            or (item.setting.only_lasts and item.status is ChangeStatus.UNCHANGED)
        )
    )
