"""A trial of a larger target on some OSDs of a device class, as a sans-I/O machine.

Periods come in the order ABBA: as it is, raised, raised, as it is.  So what drifts evenly
cancels out.  The larger target is a lease (`ceph tell osd.N config set`): it is gone
when the OSD restarts, and whoever has it stored takes it back.  After a change of target
nothing is measured until the age bins have forgotten it; down it goes by 5% in a step.
The trial ends at once where an OSD's memory grows past its limit.  Where OSDs or the cluster fall
ill it waits as long as a run does; then the period is measured anew.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import ClassVar, Dict, List, Optional, Tuple, Union

from ...core import events, jobs
from ...core.codec import one_line
from ...core.experiment.run import ILL_TIMES_MAX, ILL_WAIT_S
from ...core.jobs import Holding, Touched
from ...core.text import amount, command, named, roughly
from .curve import between, restarted
from .reading import MEMORY, STEP_SHARE, Counters, OsdReading
from .trial_result import OSDS_MAX, PeriodRates, TrialResult, judge

BLOCKS_MAX = 16
# One block has two pairs of periods, of which nothing can be said.
BLOCKS_MIN = BLOCKS_DEFAULT = 2
ORDER = (False, True, True, False)  # whether it is raised
CHECK_EVERY_S = 10.0
KEY = "memory/trial"  # where the last one is stored


class TrialStatus(str, Enum):
    """Where a trial stands; while it is ending, leases are being taken back."""

    RUNNING = "running"
    ENDING = "ending"
    DONE = "done"
    STOPPED = "stopped"


@dataclass(frozen=True)
class TargetTrial:
    """What is tried and how far it is; stored before anything is asked of an OSD.

    `limit_bytes` is, for each OSD, what its process may use before the trial is ended.  `plan_id`
    is the plan whose larger target it tries, "" where it was asked for by itself.
    """

    VERSION: ClassVar[int] = 3
    trial_id: str
    created_at_s: float
    device_class: str
    osd_ids: Tuple[int, ...] = field(metadata={"max_items": OSDS_MAX})
    limit_bytes: Tuple[int, ...] = field(metadata={"max_items": OSDS_MAX})
    low_bytes: int
    high_bytes: int
    period_s: float
    settle_s: float
    step_s: float
    blocks: int = field(default=1, metadata={"min": 1, "max": BLOCKS_MAX})
    status: TrialStatus = TrialStatus.RUNNING
    reason: str = ""
    periods: Tuple[PeriodRates, ...] = field(default=(), metadata={"max_items": 4 * BLOCKS_MAX})
    owed: Tuple[int, ...] = field(default=(), metadata={"max_items": OSDS_MAX})
    plan_id: str = ""

    @property
    def seconds(self) -> float:
        """How long it takes: periods, settling after each change, and the ways down."""
        return 4 * self.blocks * self.period_s + (2 * self.blocks + 1) * self.settle_s + (
            self.blocks * self.steps_down * self.step_s
        )

    @property
    def steps_down(self) -> int:
        """How many steps it takes from the larger target to the smaller one."""
        ratio = self.high_bytes / self.low_bytes
        return max(1, math.ceil(math.log(ratio) / -math.log(1.0 - STEP_SHARE)))

    @property
    def given_bytes(self) -> Tuple[int, ...]:
        """The targets that it gives: the larger one, and those on the way down."""
        down = (self.step_bytes(step) for step in range(1, self.steps_down))
        return (self.high_bytes, *down)

    def step_bytes(self, step: int) -> int:
        """The target after so many steps down."""
        ratio = self.low_bytes / self.high_bytes
        return int(self.high_bytes * ratio ** (step / self.steps_down))

    @property
    def touched(self) -> Touched:
        """What it has for itself: its OSDs, and the targets."""
        return Touched(osds=frozenset(self.osd_ids), knobs=frozenset({MEMORY.name}))

    @property
    def measured(self) -> bool:
        """Whether it has all of its periods."""
        return len(self.periods) == 4 * self.blocks

    def result(self, now_s: float) -> TrialResult:
        """What the periods say."""
        told = TrialResult(
            self.trial_id, self.device_class, now_s, self.low_bytes, self.high_bytes, self.osd_ids
        )
        return judge(told, self.periods)


# ---- what is asked of OSDs, and what they answer


@dataclass(frozen=True)
class LeaseTarget:
    """Give OSDs this target, or take it back (None).

    Back goes what is among `given_bytes` alone: what else an OSD has is an admin's.
    """

    osd_ids: Tuple[int, ...]
    target_bytes: Optional[int]
    given_bytes: Tuple[int, ...] = ()


@dataclass(frozen=True)
class Leased:
    """What OSDs said to new targets: by OSD why not, "" where it has it; and which are down.

    `others` keep a target that somebody else has given them.
    """

    errors: Dict[int, str]
    down: Tuple[int, ...] = ()
    others: Tuple[int, ...] = ()


@dataclass(frozen=True)
class ReadOsds:
    """Read these OSDs."""

    osd_ids: Tuple[int, ...]


@dataclass(frozen=True)
class Read:
    """Readings of the trial's OSDs; one that gave no answer is missing."""

    readings: Dict[int, OsdReading]


@dataclass
class TrialMachine(jobs.Trial):
    """The machine of one trial.

    A mgr that takes over does not go on with it: one that was under way takes all leases back.
    """

    trial: TargetTrial
    epoch: str = "0"
    wake_at_s: Optional[float] = None
    _only_down: bool = False  # all that is left to be taken back is at OSDs that are down
    _others: Tuple[int, ...] = ()  # OSDs with a target of somebody else
    _serial: int = 0
    _token: str = ""
    _step: int = 0  # steps made on the way down
    _raised: bool = False
    _quiet_until_s: float = 0.0
    _first: Dict[int, Counters] = field(default_factory=dict)
    _ill_since_s: float = 0.0
    _ill_times: int = 0

    # ---- what others ask: see core/jobs.py

    key = KEY
    shown_by = command("ceph wcache memory trial show")

    @property
    def state(self) -> TargetTrial:
        return self.trial

    @property
    def over(self) -> bool:
        """Whether nothing is leased and nothing under way."""
        return self.trial.status in (TrialStatus.DONE, TrialStatus.STOPPED)

    @property
    def waits_long(self) -> bool:
        return self.wake_at_s is not None

    @property
    def holds(self) -> Optional[Holding]:
        """The OSDs that it leases to; None where those that it owes a way back are all down."""
        if self.over or self._only_down:
            return None
        words = f"memory trial {self.trial.trial_id}"
        abort = command("ceph wcache rollout abort {}", self.trial.trial_id)
        return Holding(words, self.trial.touched, self.shown_by, abort)

    @property
    def failed(self) -> str:
        stopped = self.trial.status is TrialStatus.STOPPED
        return (self.trial.reason or "stopped") if stopped else ""

    def progress(self, now_s: float) -> Tuple[str, float]:
        trial = self.trial
        said = f"wcache memory trial {trial.trial_id}"
        if trial.status is not TrialStatus.RUNNING:
            return f"{said}: targets go back", 1.0
        left_s = min(trial.seconds, max(0.0, trial.created_at_s + trial.seconds - now_s))
        return f"{said}, about {roughly(left_s)} left", 1.0 - left_s / trial.seconds

    def abandoned(self, reason: str) -> TrialMachine:
        """Return it as it ends where its own code raised; at `Begin` it takes all leases back."""
        return self if self.over else TrialMachine(self._ending(reason), self.epoch)

    def handle(self, event: events.Event, now_s: float) -> List[events.Action]:
        running = self.trial.status is TrialStatus.RUNNING
        if self.over:
            return []
        if isinstance(event, events.Begin):
            return self._begin(now_s) if running else self._give_back()
        if isinstance(event, events.Halt) and running:
            return self._end(event.reason)
        if isinstance(event, events.Ill) and running:
            return self._ill(event.why, now_s)
        if isinstance(event, events.Tick) and self.wake_at_s is not None:
            if now_s < self.wake_at_s:
                return []
            self.wake_at_s = None
            return [self._read()] if running else self._give_back()
        if isinstance(event, events.Answered) and event.token == self._token:
            answer = event.answer
            if isinstance(answer, Leased):
                return self._leased(answer, now_s) if running else self._gave_back(answer, now_s)
            if isinstance(answer, Read) and running:
                return self._read_back(answer.readings, now_s)
        return []

    def _begin(self, now_s: float) -> List[events.Action]:
        """Begin a new trial; of a stored one goes back whatever it had leased."""
        if self.trial.owed:
            return self._end("the mgr was restarted")
        # all its OSDs count as leased from here on
        self.trial = replace(self.trial, owed=self.trial.osd_ids)
        self._quiet_until_s = now_s  # they are as they have been
        return [events.SaveRun(), self._read()]

    def _ending(self, reason: str) -> TargetTrial:
        return replace(
            self.trial, status=TrialStatus.ENDING, reason=one_line(reason), owed=self.trial.osd_ids
        )

    def _end(self, reason: str, word: str = "ending: ") -> List[events.Action]:
        """All leases go back now."""
        self.trial, self.wake_at_s = self._ending(reason), None
        said = events.Note(word + self.trial.reason)
        return [events.SaveRun(), said, *self._give_back()]

    # ---- forwards

    def _ill(self, why: str, now_s: float) -> List[events.Action]:
        """Wait while somebody is ill; caches settle afterwards, and the period begins anew."""
        was, reason = self.trial.reason, one_line(f"waiting: {why}") if why else ""
        self.trial = replace(self.trial, reason=reason)
        if why:
            if not was:
                self._ill_since_s, self._ill_times = now_s, self._ill_times + 1
            if now_s >= self._ill_since_s + ILL_WAIT_S or self._ill_times > ILL_TIMES_MAX:
                return self._end(why)
            self._first, self._quiet_until_s = {}, now_s + self.trial.settle_s
        return [events.Note(reason or "goes on: all are well")] if bool(was) != bool(why) else []

    def _read_back(self, readings: Dict[int, OsdReading], now_s: float) -> List[events.Action]:
        wanted_bytes = self.trial.high_bytes if self._raised else self.trial.low_bytes
        if self._going_down:
            wanted_bytes = self.trial.step_bytes(self._step)
        for osd_id, limit in zip(self.trial.osd_ids, self.trial.limit_bytes):
            reading = readings.get(osd_id)
            if reading is None:
                return self._end(f"osd.{osd_id} gave no answer")
            if reading.mapped_bytes > limit:
                return self._end(
                    f"osd.{osd_id} uses {amount(reading.mapped_bytes)}, past its limit of "
                    f"{amount(limit)}"
                )
            if reading.target_bytes != wanted_bytes:
                return self._end(
                    f"osd.{osd_id} has a target of {reading.target_bytes} bytes instead of "
                    f"{wanted_bytes}: it was restarted, or somebody has set another one"
                )
        if now_s < self._quiet_until_s:
            return self._wait(now_s, self._quiet_until_s)
        if self._going_down:
            return self._down()
        if not self._first:
            self._first = {osd_id: r.counters for osd_id, r in readings.items()}
            self._quiet_until_s = now_s + self.trial.period_s
            return self._wait(now_s, self._quiet_until_s)
        return self._period_done(readings, now_s)

    def _period_done(self, readings: Dict[int, OsdReading], now_s: float) -> List[events.Action]:
        misses, hits, seconds = [], [], 0.0
        for osd_id in self.trial.osd_ids:
            before, after = self._first[osd_id], readings[osd_id].counters
            if restarted(before, after):
                return self._end(f"osd.{osd_id} was restarted")
            told = between(before, after)
            if told is None or told.onode_misses is None or told.onode_hits is None:
                return self._end(f"osd.{osd_id} does not count its misses")
            misses.append(told.onode_misses)
            hits.append(told.onode_hits)
            seconds = told.seconds
        self._first = {}
        done = PeriodRates(self._raised, seconds, tuple(misses), tuple(hits))
        self.trial = replace(self.trial, periods=(*self.trial.periods, done))
        if self.trial.measured:
            return self._end(self.trial.result(now_s).verdict.value, "")
        raised = ORDER[len(self.trial.periods) % 4]
        if raised == self._raised:
            return [events.SaveRun(), self._read()]
        self._raised = raised
        if raised:
            return [events.SaveRun(), self._lease(self.trial.high_bytes)]
        self._step = 0
        return [events.SaveRun(), *self._down()]

    # ---- leases

    @property
    def _going_down(self) -> bool:
        return not self._raised and 0 < self._step <= self.trial.steps_down

    def _down(self) -> List[events.Action]:
        """One step less; the last one takes the lease back."""
        self._step += 1
        trial = self.trial
        if self._step >= trial.steps_down:
            self._step = trial.steps_down + 1
            return [self._lease(None)]
        return [self._lease(trial.step_bytes(self._step))]

    def _leased(self, answer: Leased, now_s: float) -> List[events.Action]:
        failed = sorted(error for error in answer.errors.values() if error)
        if failed:
            return self._end(failed[0])
        rest_s = self.trial.step_s if self._going_down else self.trial.settle_s
        self._quiet_until_s = now_s + rest_s
        return self._wait(now_s, self._quiet_until_s)

    def _gave_back(self, answer: Leased, now_s: float) -> List[events.Action]:
        before = self.trial.owed
        self._others = tuple(sorted({*self._others, *answer.others}))
        owed = tuple(osd_id for osd_id in before if answer.errors.get(osd_id))
        self.trial = replace(self.trial, owed=owed)
        if owed:
            self._only_down = set(owed) <= set(answer.down)
            self.wake_at_s = now_s + CHECK_EVERY_S
            return [events.SaveRun()] if owed != before else []
        self.trial = replace(
            self.trial,
            status=TrialStatus.DONE if self.trial.measured else TrialStatus.STOPPED,
        )
        left = named([f"osd.{osd_id}" for osd_id in self._others], 3)
        but = f", but that of {left}, which somebody else has set" if left else ""
        return [events.SaveRun(), events.Note(f"over: every target is as it was before{but}")]

    def _give_back(self) -> List[events.Action]:
        return [self._ask(LeaseTarget(self.trial.owed, None, self.trial.given_bytes))]

    def _lease(self, target_bytes: Optional[int]) -> events.AskOsds:
        return self._ask(
            LeaseTarget(self.trial.osd_ids, target_bytes, self.trial.given_bytes)
        )

    def _read(self) -> events.AskOsds:
        return self._ask(ReadOsds(self.trial.osd_ids))

    def _ask(self, request: Union[LeaseTarget, ReadOsds]) -> events.AskOsds:
        self._serial += 1
        self._token = f"{self.trial.trial_id}.{self.epoch}.{self._serial}"
        back = isinstance(request, LeaseTarget) and request.target_bytes is None
        return events.AskOsds(self._token, MEMORY.name, request, back)

    def _wait(self, now_s: float, until_s: float) -> List[events.Action]:
        self.wake_at_s = min(until_s, now_s + CHECK_EVERY_S)
        return []
