"""Where a period of bcache begins: its controller has settled, with dirty data where it is to be.

Where there is too little of it, the OSD is benched until there is enough.  Where it is to be
clean, the least rate of writeback is raised under the run's own lease until it is, and put back.
What is next follows from what was read last, so a mgr that takes over finds the same.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from enum import Enum
from typing import List, NamedTuple, Optional, Tuple, Union

from .. import events
from ..drive.prior import Prior
from ..hardware.bcache import CONTROLLER_S, BcacheState, Dirty, moves
from ..loads import WRITE_BYTES
from ..model import LoadPoint
from ..options.entries import DRAINS, option
from ..protocol import (
    MeasureRequest,
    OptionsRequest,
    SamplesOutcome,
    SetOptionRequest,
    StateOutcome,
)
from ..record import ExperimentSetup
from ..text import amount
from . import run_priors
from .design import design_of
from .period import PeriodUnderWay, Stage, read_at, samples_of
from .run_held import HeldRun
from .run_state import RunSpec
from .slots import CheckSlot

# So long bcache's rate controller is waited for, beyond what its option takes to settle.
CONTROLLER_WAIT_S = 300.0
# The same where dirty data is to be brought somewhere first.
START_WAIT_S = 1800.0
# In parts of the target: how much dirty data there is to be when nothing is written any more.
AIMS = {Dirty.TARGET: 1.0, Dirty.BEYOND: 1.25}
_SHORT = {
    Dirty.TARGET: (Dirty.CLEAN, Dirty.BELOW),
    Dirty.BEYOND: (Dirty.CLEAN, Dirty.BELOW, Dirty.TARGET),
}
# Bench calls between two looks.
_CALLS_MAX = 16
# 4 MiB/s, in sectors: a disk is busy with that where what is dirty is scattered.
DRAIN_SECTORS_S = "8192"


class Do(Enum):
    """What is next for a period that is to begin."""

    MEASURE = "measure"
    WAIT = "wait"
    WRITE = "write"
    DRAIN = "drain"
    LET_GO = "let go"  # writeback has its own least rate again
    GIVE_UP = "give up"


class Start(NamedTuple):
    """What is next, and why a period does not begin."""

    do: Do
    why: str = ""


def next_of(
    spec: RunSpec, setup: ExperimentSetup, now: PeriodUnderWay, prior: Prior,
    outcome: StateOutcome, left: Tuple[int, float], now_s: float,
) -> Start:
    """Return what is next after a look; `left` are bytes and seconds that may still be written."""
    since = now.bcache[now.looks_from:]
    why = moves(since, spec.dirty)
    last = next((one for one in reversed(since) if not one.is_cache), None)
    limit_s = CONTROLLER_WAIT_S if spec.dirty is Dirty.ANY else START_WAIT_S
    late = now_s - now.waited_from_s >= limit_s
    draining = _drains(outcome)
    if draining is not None and draining != own_rate(spec, setup, now, prior):
        clean = last is not None and last.dirty is Dirty.CLEAN
        return Start(Do.LET_GO if clean or late else Do.WAIT)
    if not why:
        return Start(Do.MEASURE)
    if late or last is None:
        return Start(Do.GIVE_UP if late else Do.WAIT, f"within {limit_s:.0f} s: {why}")
    if spec.dirty in AIMS and last.dirty in _SHORT[spec.dirty] and last.target_bytes:
        return _write(spec, setup, now, last, left)
    dirty = last.dirty in (Dirty.BELOW, Dirty.TARGET, Dirty.BEYOND)
    if spec.dirty is Dirty.CLEAN and dirty and draining is not None:
        if now.drained:
            return Start(Do.GIVE_UP, f"after it was written back: {why}")
        if _may_raise(draining, prior):
            return Start(Do.DRAIN)
    return Start(Do.WAIT)


def _write(
    spec: RunSpec, setup: ExperimentSetup, now: PeriodUnderWay, last: BcacheState,
    left: Tuple[int, float],
) -> Start:
    bytes_left, left_s = left
    if not spec.starting_bytes:
        return Start(Do.GIVE_UP, "without writing, and bcache told no target when it was planned")
    if now.written_s >= left_s:
        return Start(Do.GIVE_UP, "before the budget of client waiting was spent by writing for it")
    if _bytes_of(spec, setup, last) <= bytes_left:
        return Start(Do.WRITE)
    written = amount(spec.starting_bytes - bytes_left)
    return Start(
        Do.GIVE_UP,
        f"with {written} of at most {amount(spec.starting_bytes)} written for it: dirty data of "
        f"{last.name} is {amount(last.dirty_bytes or 0)} of {amount(last.target_bytes or 0)}. "
        "bcache passes by what is beyond its sequential_cutoff, or what a slow cache device would "
        "take",
    )


def writes(
    spec: RunSpec, setup: ExperimentSetup, last: BcacheState
) -> Union[events.LoadRequest, MeasureRequest]:
    """Return the load that makes more of it dirty."""
    missing = AIMS[spec.dirty] * (last.target_bytes or 0) - (last.dirty_bytes or 0)
    # a stream of large writes is passed by wherever there is a cutoff
    large = last.sequential_cutoff_bytes == 0 and missing >= WRITE_BYTES[LoadPoint.OSD_BENCH_4M]
    load = LoadPoint.OSD_BENCH_4M if large else LoadPoint.OSD_BENCH_BATCH
    count = min(_CALLS_MAX, max(1, int(missing / WRITE_BYTES[load])))
    if spec.measured_by_probe:
        return MeasureRequest(spec.domain_id, setup.osd_id, load, count)
    return events.LoadRequest(
        setup.osd_id, load, setup.role, count, setup.period_s, spec.latency_limit_ms,
        beside=spec.beside,
    )


def _bytes_of(spec: RunSpec, setup: ExperimentSetup, last: BcacheState) -> int:
    load = writes(spec, setup, last)
    return load.count * WRITE_BYTES[load.load_point]


def own_rate(
    spec: RunSpec, setup: ExperimentSetup, now: PeriodUnderWay, prior: Prior
) -> Optional[str]:
    """Return the least rate of writeback that the period itself is to have."""
    if spec.option is not None and spec.option.name == DRAINS:
        return spec.option.value(design_of(setup).modes(setup.seed, now.slot)[0])
    known = [one.value for drive in prior.drives for one in drive.options if one.name == DRAINS]
    return known[0] if known else None


def _may_raise(rate: str, prior: Prior) -> bool:
    """Whether a high rate is more than it has, and what its drives had can be put back."""
    had = {one.value for drive in prior.drives for one in drive.options if one.name == DRAINS}
    return (
        option(DRAINS).allows(rate) and int(rate) < int(DRAIN_SECTORS_S) and len(had) == 1
    )


def has_rate(outcome: StateOutcome, value: str) -> bool:
    """Say whether it was read to have that rate."""
    return bool(outcome.after) and all(one.option(DRAINS) == value for one in outcome.after)


def _drains(outcome: StateOutcome) -> Optional[str]:
    return outcome.after[0].option(DRAINS) if outcome.after else None


class StartingRun(HeldRun):
    """The part of a run's machine that brings a period of bcache to where it begins."""

    def _start(self, now_s: float) -> List[events.Action]:
        """Measure; of bcache once its controller has settled, by what is read of it first."""
        if not self.spec.waits_for_controller or isinstance(self._now.slot, CheckSlot):
            return self._measure(now_s)
        self._now.phase = Stage.READING
        if not self._now.waited_from_s:
            self._now.waited_from_s, self._now.looks_from = now_s, len(self._now.bcache)
        return [self._task(OptionsRequest(self.spec.domain_id))]

    def _let_go_before(self, outcome: StateOutcome) -> List[events.Action]:
        """Put back the rate before a settling check; nothing where it is there.

        A period that was cut off may have left it high, and a check waits for no controller.
        """
        trial, now = self.spec.option, self._now
        waits = self.spec.waits_for_controller and isinstance(now.slot, CheckSlot)
        if not waits or trial is None or trial.name == DRAINS:
            return []
        own = own_rate(self.spec, self._setup, now, self._prior)
        if own is None or _drains(outcome) in (None, own):
            return []
        now.phase, now.drained, now.before = Stage.DRAINING, True, ()
        return [self._task(SetOptionRequest(self.spec.domain_id, DRAINS, own, self._prior))]

    def _answered_at_start(self, outcome: object, now_s: float) -> Optional[List[events.Action]]:
        """Go on with what was asked for before a period begins; None for another answer."""
        phase = self._now.phase
        if phase is Stage.WRITING and isinstance(outcome, SamplesOutcome):
            return self._written(samples_of(outcome), now_s)
        if phase is Stage.READING and isinstance(outcome, StateOutcome):
            return self._looked_at_start(outcome, now_s)
        if phase is Stage.DRAINING and isinstance(outcome, StateOutcome):
            return self._rate_set(outcome, now_s)
        return None

    def _looked_at_start(self, outcome: StateOutcome, now_s: float) -> List[events.Action]:
        now = self._now
        now.bcache += read_at(outcome, now_s)
        next_ = next_of(
            self.spec, self._setup, now, self._prior, outcome, self._experiment.starting_left, now_s
        )
        if next_.do is Do.GIVE_UP:
            self._void(now_s)
            return self._finish_experiment(f"bcache did not settle {next_.why}", now_s)
        if next_.do is Do.MEASURE:
            now.waited_s = max(0.0, now_s - now.waited_from_s - now.written_s)
            now.settled_at_s = now_s
            return self._measure(now_s)
        if next_.do is Do.WRITE:
            now.phase, now.written_at_s = Stage.WRITING, now_s
            load = writes(self.spec, self._setup, now.bcache[-1])
            more = load.count * WRITE_BYTES[load.load_point]
            now.written_bytes += more
            # saved first: a mgr that takes over must know what was written
            self.state = replace(
                self.state, starting_bytes=self.state.starting_bytes + more,
                starting_open=self.state.starting_open + more,
            )
            if isinstance(load, events.LoadRequest):
                return [events.SaveRun(), events.MeasureLoad(self._new_token(), load)]
            return [events.SaveRun(), self._task(load)]
        if next_.do is Do.WAIT:
            return self._look_again_later(now_s)
        now.phase = Stage.DRAINING
        now.drained = next_.do is Do.LET_GO
        return [self._task(SetOptionRequest(
            self.spec.domain_id, DRAINS, self._rate_wanted, self._prior
        ))]

    @property
    def _prior(self) -> Prior:
        return run_priors.prior_of(self.state, self.spec.domain_id)

    @property
    def _rate_wanted(self) -> str:
        """The least rate of writeback that is set next: the period's own, or a high one."""
        own = own_rate(self.spec, self._setup, self._now, self._prior)
        return own if self._now.drained and own else DRAIN_SECTORS_S

    def _rate_set(self, outcome: StateOutcome, now_s: float) -> List[events.Action]:
        if not has_rate(outcome, self._rate_wanted):
            return self._halt(f"{DRAINS} is not {self._rate_wanted} after it was set", now_s)
        if isinstance(self._now.slot, CheckSlot):  # it begins with a toggle, so anew
            self._now.phase = Stage.SETTING
            return self._set_next()
        return self._look_again_later(now_s)

    def _written(self, samples: events.LoadSamples, now_s: float) -> List[events.Action]:
        self._now.written_s += max(0.0, now_s - self._now.written_at_s)
        self._now.looks_from = len(self._now.bcache)
        return self._halt(samples.aborted, now_s) if samples.aborted else self._start(now_s)

    def _look_again_later(self, now_s: float) -> List[events.Action]:
        self._now.phase = Stage.SETTLING
        self._now.settled_at_s = now_s + CONTROLLER_S
        return []

    # ---- what the run's machine does next

    @abstractmethod
    def _measure(self, now_s: float) -> List[events.Action]:
        """Begin to measure."""

    @abstractmethod
    def _set_next(self) -> List[events.Action]:
        """Set what the period under way is to have."""

    @abstractmethod
    def _void(self, now_s: float) -> None:
        """Use nothing of the period under way."""

    @abstractmethod
    def _finish_experiment(self, ended: str, now_s: float) -> List[events.Action]:
        """Keep the experiment as it is, and begin the next."""

    @abstractmethod
    def _halt(
        self, reason: str, now_s: float, unfit: bool = False, by_will: bool = False
    ) -> List[events.Action]:
        """Stop measuring and release."""
