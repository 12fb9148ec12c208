"""One period under way: the steps that set it up, what measures it, what was seen of it.

One of bcache begins when its controller has settled, with dirty data where it is to be.
Where there is too little of it, the OSD is benched until there is enough.  Where it is to be
clean, the least rate of writeback is raised under the run's own lease until it is, and put back.
What is next follows from what was read last, so a mgr that takes over finds the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum
from typing import List, NamedTuple, Optional, Sequence, Tuple, Union

from .. import events
from ..drive.prior import Prior
from ..hardware import WRITTEN_FOR, BcacheState, Dirty, moves
from ..loads import WRITE_BYTES, BlocksRequest
from ..model import Arm, DriveState, LoadPoint, Transport
from ..options.entries import DRAINS, mode_of_arm, names_of, option
from ..protocol import MeasureRequest, SamplesOutcome, StateOutcome, TimerRequest
from ..record import CrossedPeriod, ExperimentSetup, Period
from ..setting.domain_settings import CacheModeSetting, OptionSetting
from ..setting.drive_setting import DriveSetting
from ..setting.setting import CacheDomain
from ..text import amount
from .design import FIRST, Slot, design_of
from .run_state import RunSpec
from .settling import check_size

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


@dataclass
class PeriodUnderWay:
    """The period under way; lost with the mgr, and measured again then."""

    slot: Slot = FIRST
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
    rate: Optional[OptionSetting] = None  # bcache's least rate of writeback, being set
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


def sides(
    spec: RunSpec, setup: ExperimentSetup, slot: Slot, other: bool = False
) -> List[DriveSetting]:
    """What a period sets: of the drive, and in a factorial of the other one.

    An arm of an experiment goes from the other arm's value to its own; `other`: that one.
    """
    design, trial = design_of(setup), spec.option

    def side(domain_id: str, its: Arm, transport: Transport) -> DriveSetting:
        domain = CacheDomain(spec.hostname, domain_id, (), transport, (), ())
        arm = its.other if other else its
        if trial is None:
            mode = mode_of_arm(arm)
            return CacheModeSetting(domain, mode.other, mode)
        return OptionSetting(domain, trial.name, trial.value(arm.other), trial.value(arm))

    transports = [one.transport for one in (setup, setup.crossed) if one is not None]
    return [
        side(*item) for item in zip(spec.domain_ids, design.arms(setup.seed, slot), transports)
    ]


def load_of(
    spec: RunSpec, setup: ExperimentSetup, slot: Slot, seconds_left: float
) -> Union[TimerRequest, MeasureRequest, events.LoadRequest]:
    """What measures a period: a task of the probe, or a load on the OSD."""
    count, seconds = setup.samples_per_period, setup.period_s
    spread_s = 0.0
    if slot.checks:
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
        setup.osd_id, setup.load_point, count, seconds, spec.latency_limit_ms,
        slot.checks, beside=spec.beside,
    )


def watch_of(spec: RunSpec, setup: ExperimentSetup) -> BlocksRequest:
    """A watch of all OSDs on what is toggled, but for one whose queue a bench fills."""
    benched = WRITE_BYTES[setup.load_point] > 0 or spec.dirty in WRITTEN_FOR
    osd_ids = spec.beside if benched else (setup.osd_id, *spec.beside)
    return BlocksRequest(osd_ids, (), WATCH_S, 1, spec.latency_limit_ms)


BCACHES_MAX = 16  # readings of bcache that are kept with a period


def samples_of(outcome: Union[events.LoadSamples, SamplesOutcome]) -> events.LoadSamples:
    """What a task of the probe measured, as if a load on the OSD had."""
    if isinstance(outcome, events.LoadSamples):
        return outcome
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
    arms = design_of(setup).arms(setup.seed, now.slot)
    set_up = now.before[-len(arms):]
    seen = [
        (
            _kept(spec, before.after), _kept(spec, after.after),
            # a side without counters says nothing of the other
            before.counters + after.counters if before.counters and after.counters else (),
        )
        for before, after in zip(set_up, now.after)
    ]
    return Period(
        arms[0], now.started_at_s, settle_s,
        max(now_s - now.started_at_s, samples.seconds)
        if spec.on_our_clock
        else settle_s + samples.seconds,
        samples.samples_ns, samples.counters, samples.bytes_written + now.written_bytes,
        *seen[0], CrossedPeriod(mode_of_arm(arms[1]), *seen[1]) if len(seen) > 1 else None,
        samples.at_ns, samples.later_counters, samples.histogram, some_of(now.bcache),
        samples.beside, now.waited_s, now.written_s,
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


class Start(NamedTuple):
    """What is next for a period that is to begin; to look again later where it is nothing."""

    measures: bool = False
    gives_up: str = ""  # why it never begins
    load: Union[events.LoadRequest, MeasureRequest, None] = None  # makes more of it dirty
    rate: str = ""  # bcache's least rate of writeback, which is to be set
    drains: bool = False  # by that rate


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
    rate, own = _rate(outcome), _own_rate(spec, setup, now, prior)
    if rate is not None and rate != own:
        clean = last is not None and last.dirty is Dirty.CLEAN
        return Start(rate=own or DRAIN_SECTORS_S) if clean or late else Start()
    if not why:
        return Start(measures=True)
    if late or last is None:
        return Start(gives_up=f"within {limit_s:.0f} s: {why}" if late else "")
    if spec.dirty in AIMS and last.dirty in _SHORT[spec.dirty] and last.target_bytes:
        return _write(spec, setup, now, last, left)
    dirty = last.dirty in (Dirty.BELOW, Dirty.TARGET, Dirty.BEYOND)
    if spec.dirty is Dirty.CLEAN and dirty and rate is not None:
        if now.drained:
            return Start(gives_up=f"after it was written back: {why}")
        # more than it has, and what its drives had can be put back
        lower = option(DRAINS).allows(rate) and int(rate) < int(DRAIN_SECTORS_S)
        if lower and len(set(_had(prior))) == 1:
            return Start(rate=DRAIN_SECTORS_S, drains=True)
    return Start()


def _write(
    spec: RunSpec, setup: ExperimentSetup, now: PeriodUnderWay, last: BcacheState,
    left: Tuple[int, float],
) -> Start:
    bytes_left, left_s = left
    if not spec.starting_bytes:
        return Start(gives_up="without writing, and bcache told no target when it was planned")
    if now.written_s >= left_s:
        return Start(
            gives_up="before the budget of client waiting was spent by writing for it"
        )
    missing = AIMS[spec.dirty] * (last.target_bytes or 0) - (last.dirty_bytes or 0)
    # a stream of large writes is passed by wherever there is a cutoff
    large = last.sequential_cutoff_bytes == 0 and missing >= WRITE_BYTES[LoadPoint.OSD_BENCH_4M]
    load = LoadPoint.OSD_BENCH_4M if large else LoadPoint.OSD_BENCH_BATCH
    count = min(_CALLS_MAX, max(1, int(missing / WRITE_BYTES[load])))
    if count * WRITE_BYTES[load] > bytes_left:
        written = amount(spec.starting_bytes - bytes_left)
        return Start(gives_up=(
            f"with {written} of at most {amount(spec.starting_bytes)} written for it: dirty data "
            f"of {last.name} is {amount(last.dirty_bytes or 0)} of "
            f"{amount(last.target_bytes or 0)}. bcache passes by what is beyond its "
            "sequential_cutoff, or what a slow cache device would take"
        ))
    if spec.measured_by_probe:
        return Start(load=MeasureRequest(spec.domain_id, setup.osd_id, load, count))
    return Start(load=events.LoadRequest(
        setup.osd_id, load, count, setup.period_s, spec.latency_limit_ms,
        beside=spec.beside,
    ))


def left_high(
    spec: RunSpec, setup: ExperimentSetup, now: PeriodUnderWay, prior: Prior,
    outcome: StateOutcome,
) -> str:
    """Return the rate that is put back before a settling check; empty where it is there.

    A period that was cut off may have left it high, and a check waits for no controller.
    """
    waits = spec.waits_for_controller and now.slot.checks
    if not waits or spec.option is None or spec.option.name == DRAINS:
        return ""
    own = _own_rate(spec, setup, now, prior)
    return "" if own is None or _rate(outcome) in (None, own) else own


def _own_rate(
    spec: RunSpec, setup: ExperimentSetup, now: PeriodUnderWay, prior: Prior
) -> Optional[str]:
    """Return the least rate of writeback that the period itself is to have."""
    if spec.option is not None and spec.option.name == DRAINS:
        return spec.option.value(design_of(setup).arms(setup.seed, now.slot)[0])
    return next(iter(_had(prior)), None)


def _had(prior: Prior) -> List[str]:
    return [one.value for drive in prior.drives for one in drive.options if one.name == DRAINS]


def _rate(outcome: StateOutcome) -> Optional[str]:
    return outcome.after[0].option(DRAINS) if outcome.after else None
