"""A trial of a larger target on some OSDs of a device class, as a sans-I/O machine.

Periods come in the order ABBA: as it is, raised, raised, as it is.  So a load that drifts
evenly cancels out.  The larger target is a lease (`ceph tell osd.N config set`): it is gone
when the OSD restarts, and whoever has it stored takes it back.  After a change of target
nothing is measured until the age bins have forgotten it; down it goes by 5% in a step.
The trial ends at once where an OSD's memory grows past its limit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Dict, List, Optional, Tuple, Union

from ...core.codec import one_line
from .knob import STEP_SHARE
from .reading import Counters, OsdReading
from .trial_result import TrialResult
from .trial_verdict import judge

OSDS_MAX = 64
BLOCKS_MAX = 16
ORDER = (False, True, True, False)  # whether it is raised
CHECK_EVERY_S = 10.0


class TrialStatus(str, Enum):
    """Where a trial stands; while it is ending, leases are being taken back."""

    RUNNING = "running"
    ENDING = "ending"
    DONE = "done"
    STOPPED = "stopped"


@dataclass(frozen=True)
class PeriodRates:
    """Onode misses of each OSD in a period, in the order of the trial's OSDs."""

    raised: bool
    seconds: float
    misses: Tuple[float, ...] = field(metadata={"max_items": OSDS_MAX})


@dataclass(frozen=True)
class Trial:
    """What is tried and how far it is; stored before anything is asked of an OSD.

    `limit_bytes` is, for each OSD, what its process may use before the trial is ended.
    """

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


# ---- events


@dataclass(frozen=True)
class Leased:
    """What OSDs said to new targets: by OSD why not, "" where it has it."""

    token: str
    errors: Dict[int, str]


@dataclass(frozen=True)
class Read:
    """Readings of the trial's OSDs; one that gave no answer is missing."""

    token: str
    readings: Dict[int, OsdReading]


Event = Union[Leased, Read]

# ---- actions


@dataclass(frozen=True)
class SaveTrial:
    """Store it; what comes after waits until the mons have it."""


@dataclass(frozen=True)
class Lease:
    """Give OSDs this target, or take it back (None)."""

    token: str
    osd_ids: Tuple[int, ...]
    target_bytes: Optional[int]


@dataclass(frozen=True)
class ReadOsds:
    """Read these OSDs."""

    token: str
    osd_ids: Tuple[int, ...]


@dataclass(frozen=True)
class Keep:
    """Store what came out."""

    result: TrialResult


@dataclass(frozen=True)
class Say:
    """A line for the audit log."""

    text: str


Action = Union[SaveTrial, Lease, ReadOsds, Keep, Say]


@dataclass
class TrialMachine:
    """The machine of one trial.

    A mgr that takes over does not go on with it: `begin` of a trial that was under way takes
    all leases back.
    """

    trial: Trial
    epoch: str = "0"
    wake_at_s: Optional[float] = None
    _serial: int = 0
    _token: str = ""
    _step: int = 0  # steps made on the way down
    _raised: bool = False
    _quiet_until_s: float = 0.0
    _first: Dict[int, Counters] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        """Whether nothing is leased and nothing under way."""
        return self.trial.status in (TrialStatus.DONE, TrialStatus.STOPPED)

    def expects(self, token: str) -> bool:
        """Whether an action is still to be done; what was asked for before the last one is not."""
        return not self.over and token == self._token

    def start(self, now_s: float) -> List[Action]:
        """Begin a new trial: all its OSDs count as leased from here on."""
        self.trial = replace(self.trial, owed=self.trial.osd_ids)
        self._quiet_until_s = now_s  # they are as they have been
        return [SaveTrial(), self._read()]

    def begin(self, now_s: float) -> List[Action]:
        """Take up a stored trial: whatever it had leased goes back."""
        if self.over:
            return []
        if self.trial.status is TrialStatus.RUNNING:
            return self.halt("the mgr was restarted", now_s)
        return self._give_back()

    def halt(self, reason: str, now_s: float) -> List[Action]:
        """End it now."""
        if self.trial.status is not TrialStatus.RUNNING:
            return []
        self.trial = replace(
            self.trial, status=TrialStatus.ENDING, reason=one_line(reason), owed=self.trial.osd_ids
        )
        self.wake_at_s = None
        return [SaveTrial(), Say(f"ending: {self.trial.reason}"), *self._give_back()]

    def tick(self, now_s: float) -> List[Action]:
        """Time has passed."""
        if self.over or self.wake_at_s is None or now_s < self.wake_at_s:
            return []
        self.wake_at_s = None
        if self.trial.status is TrialStatus.ENDING:
            return self._give_back()
        return [self._read()]

    def handle(self, event: Event, now_s: float) -> List[Action]:
        """Take one event; return what is to be done, in order."""
        if self.over or event.token != self._token:
            return []
        if isinstance(event, Leased):
            return self._leased(event.errors, now_s)
        if self.trial.status is not TrialStatus.RUNNING:
            return []
        return self._read_back(event.readings, now_s)

    # ---- forwards

    def _read_back(self, readings: Dict[int, OsdReading], now_s: float) -> List[Action]:
        for osd_id, limit in zip(self.trial.osd_ids, self.trial.limit_bytes):
            reading = readings.get(osd_id)
            if reading is None:
                return self.halt(f"osd.{osd_id} gave no answer", now_s)
            if reading.mapped_bytes > limit:
                return self.halt(
                    f"osd.{osd_id} uses {reading.mapped_bytes} bytes, past its limit of {limit}",
                    now_s,
                )
            if not self._going_down and reading.target_bytes != self._wanted_bytes:
                return self.halt(
                    f"osd.{osd_id} has a target of {reading.target_bytes} bytes instead of "
                    f"{self._wanted_bytes}: it was restarted, or somebody has set another one",
                    now_s,
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

    def _period_done(self, readings: Dict[int, OsdReading], now_s: float) -> List[Action]:
        misses = []
        seconds = 0.0
        for osd_id in self.trial.osd_ids:
            before, after = self._first[osd_id], readings[osd_id].counters
            seconds = after.at_s - before.at_s
            if before.onode_misses is None or after.onode_misses is None or seconds <= 0:
                return self.halt(f"osd.{osd_id} does not count its misses", now_s)
            if after.onode_misses < before.onode_misses:
                return self.halt(f"osd.{osd_id} was restarted", now_s)
            misses.append((after.onode_misses - before.onode_misses) / seconds)
        self._first = {}
        done = PeriodRates(self._raised, seconds, tuple(misses))
        self.trial = replace(self.trial, periods=(*self.trial.periods, done))
        if len(self.trial.periods) == 4 * self.trial.blocks:
            return self._all_done(now_s)
        raised = ORDER[len(self.trial.periods) % 4]
        if raised == self._raised:
            return [SaveTrial(), self._read()]
        self._raised = raised
        if raised:
            return [SaveTrial(), self._lease(self.trial.high_bytes)]
        self._step = 0
        return [SaveTrial(), *self._down()]

    def _all_done(self, now_s: float) -> List[Action]:
        result = judge(self.trial.trial_id, self.trial.device_class, now_s, self.trial.low_bytes,
                       self.trial.high_bytes, self.trial.osd_ids,
                       [(p.raised, p.misses) for p in self.trial.periods])
        self.trial = replace(self.trial, status=TrialStatus.ENDING, reason=result.verdict)
        return [Keep(result), SaveTrial(), Say(result.verdict), *self._give_back()]

    # ---- leases

    @property
    def _wanted_bytes(self) -> int:
        return self.trial.high_bytes if self._raised else self.trial.low_bytes

    @property
    def _going_down(self) -> bool:
        return not self._raised and 0 < self._step <= self.trial.steps_down

    def _down(self) -> List[Action]:
        """One step less; the last one takes the lease back."""
        self._step += 1
        trial = self.trial
        if self._step >= trial.steps_down:
            self._step = trial.steps_down + 1
            return [self._lease(None)]
        ratio = trial.low_bytes / trial.high_bytes
        return [self._lease(int(trial.high_bytes * ratio ** (self._step / trial.steps_down)))]

    def _leased(self, errors: Dict[int, str], now_s: float) -> List[Action]:
        if self.trial.status is TrialStatus.ENDING:
            before = self.trial.owed
            owed = tuple(osd_id for osd_id in before if errors.get(osd_id))
            self.trial = replace(self.trial, owed=owed)
            if owed:
                self.wake_at_s = now_s + CHECK_EVERY_S
                return [SaveTrial()] if owed != before else []
            whole = len(self.trial.periods) == 4 * self.trial.blocks
            self.trial = replace(
                self.trial, status=TrialStatus.DONE if whole else TrialStatus.STOPPED
            )
            return [SaveTrial(), Say("over: every target is as it was before")]
        failed = sorted(error for error in errors.values() if error)
        if failed:
            return self.halt(failed[0], now_s)
        if self._going_down:
            self._quiet_until_s = now_s + self.trial.step_s
        else:
            self._quiet_until_s = now_s + self.trial.settle_s
        return self._wait(now_s, self._quiet_until_s)

    def _give_back(self) -> List[Action]:
        return [Lease(self._new_token(), self.trial.owed, None)]

    def _lease(self, target_bytes: Optional[int]) -> Lease:
        return Lease(self._new_token(), self.trial.osd_ids, target_bytes)

    def _read(self) -> ReadOsds:
        return ReadOsds(self._new_token(), self.trial.osd_ids)

    def _wait(self, now_s: float, until_s: float) -> List[Action]:
        self.wake_at_s = min(until_s, now_s + CHECK_EVERY_S)
        return []

    def _new_token(self) -> str:
        self._serial += 1
        self._token = f"{self.trial.trial_id}.{self.epoch}.{self._serial}"
        return self._token
