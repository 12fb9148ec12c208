"""Where a period of bcache begins: its controller has settled, with dirty data where it is to be.

Where there is too little of it, the OSD is benched until there is enough.  Where it is to be
clean, the least rate of writeback is raised under the run's own lease until it is, and put back.
What is next follows from what was read last, so a mgr that takes over finds the same.
"""

from __future__ import annotations

from typing import List, NamedTuple, Optional, Tuple, Union

from .. import events
from ..drive.prior import Prior
from ..hardware.bcache import BcacheState, Dirty, moves
from ..loads import WRITE_BYTES
from ..model import LoadPoint
from ..options.entries import DRAINS, option
from ..protocol import MeasureRequest, StateOutcome
from ..record import ExperimentSetup
from ..text import amount
from .design import design_of
from .period import PeriodUnderWay
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
        setup.osd_id, load, setup.role, count, setup.period_s, spec.latency_limit_ms,
        beside=spec.beside,
    ))


def left_high(
    spec: RunSpec, setup: ExperimentSetup, now: PeriodUnderWay, prior: Prior,
    outcome: StateOutcome,
) -> str:
    """Return the rate that is put back before a settling check; empty where it is there.

    A period that was cut off may have left it high, and a check waits for no controller.
    """
    waits = spec.waits_for_controller and isinstance(now.slot, CheckSlot)
    if not waits or spec.option is None or spec.option.name == DRAINS:
        return ""
    own = _own_rate(spec, setup, now, prior)
    return "" if own is None or _rate(outcome) in (None, own) else own


def has_rate(outcome: StateOutcome, value: str) -> bool:
    """Say whether it was read to have that rate."""
    return bool(outcome.after) and all(one.option(DRAINS) == value for one in outcome.after)


def _own_rate(
    spec: RunSpec, setup: ExperimentSetup, now: PeriodUnderWay, prior: Prior
) -> Optional[str]:
    """Return the least rate of writeback that the period itself is to have."""
    if spec.option is not None and spec.option.name == DRAINS:
        return spec.option.value(design_of(setup).modes(setup.seed, now.slot)[0])
    return next(iter(_had(prior)), None)


def _had(prior: Prior) -> List[str]:
    return [one.value for drive in prior.drives for one in drive.options if one.name == DRAINS]


def _rate(outcome: StateOutcome) -> Optional[str]:
    return outcome.after[0].option(DRAINS) if outcome.after else None
