"""One period under way: the steps that set it up, what measures it, and what was seen of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum
from typing import List, NamedTuple, Optional, Sequence, Tuple, Union

from .. import events
from ..drive.prior import Prior
from ..hardware.bcache import WRITTEN_FOR, BcacheState
from ..loads import WRITE_BYTES, BlocksRequest
from ..model import CacheMode, DriveState, KernelView, LoadPoint, Transport
from ..options.entries import names_of
from ..protocol import (
    CountersRequest,
    MeasureRequest,
    OptionsRequest,
    SamplesOutcome,
    SetModeRequest,
    SetOptionRequest,
    StateOutcome,
    TimerRequest,
)
from ..record import CrossedPeriod, ExperimentSetup, Period
from .design import design_of
from .run_state import RunSpec
from .settling_time.checks import check_size
from .slots import FIRST, AnySlot, CheckSlot

TIMER_SECONDS_MAX = 10.0
WATCH_S = 86400.0  # as long as an experiment may take: its watch ends with it


class Stage(Enum):
    IDLE = "idle"
    LOOKING = "looking"  # at a domain that was not touched yet
    RESUMING = "resuming"  # an OSD has its own value back, which the last mgr had no time for
    SETTING = "setting"
    SETTLING = "settling"
    READING = "reading"  # what bcache's controller is at
    WRITING = "writing"  # until enough of bcache is dirty
    DRAINING = "draining"  # bcache's least rate of writeback is being set
    MEASURING = "measuring"
    CLOSING = "closing"
    DECIDING = "deciding"
    RELEASING = "releasing"


class Toggle(NamedTuple):
    """One cache domain and the mode it is to be in."""

    domain_id: str
    mode: CacheMode
    transport: Transport


@dataclass
class PeriodUnderWay:
    """The period under way; lost with the mgr, and measured again then."""

    slot: AnySlot = FIRST
    attempt: int = 0
    phase: Stage = Stage.IDLE
    token: str = ""
    started_at_s: float = 0.0
    settled_at_s: float = 0.0
    cut_off_at_s: float = math.inf  # where the experiment's budget ends
    before: Tuple[StateOutcome, ...] = ()  # of each step of setting that is done
    after: Tuple[StateOutcome, ...] = ()
    samples: Optional[events.LoadSamples] = None
    released: Tuple[bool, ...] = ()  # whether each cache domain is as it was, as far as asked
    looked_at: str = ""  # the cache domain that is looked at
    bcache: Tuple[BcacheState, ...] = ()  # each reading so far
    waited_from_s: float = 0.0  # since when bcache's controller is waited for; 0: not yet
    waited_s: float = 0.0  # for how long, once it has settled, but for `written_s`
    written_bytes: int = 0  # for dirty data to be where the period begins; as asked for
    written_s: float = 0.0  # how long that took in all
    written_at_s: float = 0.0  # when the last of it began
    looks_from: int = 0  # of `bcache`: the first look since it was set, or last written to
    rate: str = ""  # bcache's least rate of writeback that is being set
    drained: bool = False

    @property
    def under_way(self) -> bool:
        """Whether it takes time of the drive."""
        return self.phase in (
            Stage.SETTING, Stage.SETTLING, Stage.READING, Stage.WRITING, Stage.DRAINING,
            Stage.MEASURING, Stage.CLOSING,
        )

    @property
    def wake_at_s(self) -> Optional[float]:
        """When time alone takes it further, or None."""
        if self.phase is Stage.SETTLING:
            return min(self.settled_at_s, self.cut_off_at_s)
        if self.under_way and self.cut_off_at_s < math.inf:
            return self.cut_off_at_s
        return None


def sides(spec: RunSpec, setup: ExperimentSetup, slot: AnySlot) -> List[Toggle]:
    """What a period toggles: the drive, and in a factorial the other one."""
    design = design_of(setup)
    modes, transports = design.modes(setup.seed, slot), design.transports(setup)
    return [Toggle(*item) for item in zip(spec.domain_ids, modes, transports)]


def steps(spec: RunSpec, setup: ExperimentSetup, slot: AnySlot) -> List[Toggle]:
    """What is set before measuring; a settling check begins with a toggle, so there and back."""
    found = sides(spec, setup, slot)
    if not isinstance(slot, CheckSlot):
        return found
    return [step._replace(mode=step.mode.other) for step in found] + found


def set_request(
    spec: RunSpec, step: Toggle, prior: Prior
) -> Union[SetModeRequest, SetOptionRequest]:
    """The task of a step; it changes nothing where the mode, or the option, is set already."""
    trial = spec.option
    if trial is not None:
        return SetOptionRequest(step.domain_id, trial.name, trial.value(step.mode), prior)
    return SetModeRequest(
        step.domain_id, step.mode, spec.consent_turn_on, spec.throwaway, prior
    )


def closing_request(
    spec: RunSpec, domain_id: str
) -> Union[CountersRequest, OptionsRequest]:
    """The task that reads what a period ended in."""
    return CountersRequest(domain_id) if spec.option is None else OptionsRequest(domain_id)


def in_place(spec: RunSpec, step: Toggle, states: Tuple[DriveState, ...]) -> bool:
    """Whether every drive of the domain was read to be as a step wants it."""
    trial = spec.option
    if trial is None:
        return all_in(step.mode.value, states, step.transport)
    wanted = trial.value(step.mode)
    return bool(states) and all(state.option(trial.name) == wanted for state in states)


def load_of(
    spec: RunSpec, setup: ExperimentSetup, slot: AnySlot, seconds_left: float
) -> Union[TimerRequest, MeasureRequest, events.LoadRequest]:
    """What measures a period: a task of the probe, or a load on the OSD."""
    count, seconds = setup.samples_per_period, setup.period_s
    spread_s = 0.0
    if isinstance(slot, CheckSlot):
        count, seconds = check_size(setup, slot)
        spread_s = seconds
    if setup.load_point is LoadPoint.FDATASYNC_TIMER:
        return TimerRequest(
            spec.domain_id, setup.osd_id, setup.role, count,
            min(TIMER_SECONDS_MAX, seconds_left), spec.latency_limit_ms, spread_s,
        )
    if spec.measured_by_probe:
        return MeasureRequest(spec.domain_id, setup.osd_id, setup.load_point, count, spread_s)
    return events.LoadRequest(
        setup.osd_id, setup.load_point, setup.role, count, seconds, spec.latency_limit_ms,
        isinstance(slot, CheckSlot), beside=spec.beside,
    )


def watch_of(spec: RunSpec, setup: ExperimentSetup) -> BlocksRequest:
    """A watch of all OSDs on what is toggled, but for one whose queue a bench fills."""
    benched = WRITE_BYTES[setup.load_point] > 0 or spec.dirty in WRITTEN_FOR
    osd_ids = spec.beside if benched else (setup.osd_id, *spec.beside)
    return BlocksRequest(osd_ids, (), WATCH_S, 1, spec.latency_limit_ms)


BCACHES_MAX = 16  # readings of bcache that are kept with a period


def samples_of(outcome: SamplesOutcome) -> events.LoadSamples:
    """What a task of the probe measured, as if a load on the OSD had."""
    return events.LoadSamples(
        max(0.0, outcome.seconds), outcome.samples_ns, (), outcome.bytes_written,
        outcome.aborted, at_ns=outcome.at_ns,
    )


def period_of(
    spec: RunSpec, setup: ExperimentSetup, now: PeriodUnderWay, settle_s: float, now_s: float
) -> Period:
    """The finished period; both drives of a factorial were read before and after."""
    assert now.samples is not None  # set on the way here  # noqa: S101
    samples = now.samples
    modes = design_of(setup).modes(setup.seed, now.slot)
    set_up = now.before[-len(modes):]
    seen = [
        CrossedPeriod(
            mode, _kept(spec, before.after), _kept(spec, after.after),
            # a side without counters says nothing of the other
            before.counters + after.counters if before.counters and after.counters else (),
        )
        for mode, before, after in zip(modes, set_up, now.after)
    ]
    return Period(
        seen[0].mode, now.started_at_s, settle_s,
        max(now_s - now.started_at_s, samples.seconds)
        if spec.on_our_clock
        else settle_s + samples.seconds,
        samples.samples_ns, samples.counters, samples.bytes_written + now.written_bytes,
        seen[0].state_before, seen[0].state_after, seen[0].flush_counters,
        seen[1] if len(seen) > 1 else None, samples.at_ns, samples.later_counters,
        samples.histogram, some_of(now.bcache), samples.beside, now.waited_s, now.written_s,
    )


def read_at(outcome: StateOutcome, now_s: float) -> Tuple[BcacheState, ...]:
    """What an outcome tells of bcache, with the time."""
    return tuple(replace(one, at_s=now_s) for one in outcome.bcache)


def some_of(readings: Sequence[BcacheState]) -> Tuple[BcacheState, ...]:
    """At most BCACHES_MAX readings, evenly in time, the first and the last two among them.

    The last but one is where the measuring began.
    """
    if len(readings) <= BCACHES_MAX:
        return tuple(readings)
    last, parts = len(readings) - 2, BCACHES_MAX - 2
    return (*(readings[last * at // parts] for at in range(parts + 1)), readings[-1])


def _kept(spec: RunSpec, states: Tuple[DriveState, ...]) -> Tuple[DriveState, ...]:
    """States as a record has them: of options the one that is compared, and what it resets."""
    names = () if spec.option is None else names_of(spec.option.name)
    return tuple(
        replace(state, options=tuple(one for one in state.options if one.name in names))
        for state in states
    )


def all_in(mode: str, states: Tuple[DriveState, ...], transport: Transport) -> bool:
    """Whether the switch of every drive of the domain is in `mode`; no state proves nothing."""
    if not states:
        return False
    if transport is Transport.LOOP:
        return all(
            state.kernel_view is not KernelView.UNKNOWN and state.kernel_view.value == mode
            for state in states
        )
    return all(state.device_cache.value == mode for state in states)
