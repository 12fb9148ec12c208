"""What a run has spent, and whether that is all it may."""

from __future__ import annotations

from typing import List, Sequence

from .experiment import Slot, settled, watch_of, watch_slot
from .loads import ASSUMED_SAMPLE_S, WRITE_BYTES
from .record import ExperimentSetup, Period
from .run_state import Periods, RunState


def seconds_spent(state: RunState, periods: Sequence[Periods]) -> float:
    """Drive time spent so far, interrupted periods included."""
    measured = sum(p.seconds for p in _open(state, periods))
    return state.finished_seconds + measured + sum(waste.seconds for waste in state.waste)


def bytes_spent(state: RunState, periods: Sequence[Periods]) -> int:
    """Bytes written so far by measuring, interrupted periods included."""
    measured = sum(p.bytes_written for p in _open(state, periods))
    return state.finished_bytes + measured + sum(waste.bytes_written for waste in state.waste)


def exceeded(state: RunState, periods: Sequence[Periods]) -> str:
    """Which budget is spent, in words; empty where there is some of each left."""
    if seconds_spent(state, periods) >= state.spec.seconds_max:
        return f"budget of {state.spec.seconds_max:.0f} s is spent"
    if bytes_spent(state, periods) >= state.spec.bytes_max:
        return f"budget of {state.spec.bytes_max} bytes is spent"
    return ""


def cut_off_bytes_max(setup: ExperimentSetup, slot: Slot) -> int:
    """What a period that was cut off may have written."""
    samples = setup.samples_per_period
    if slot.watch:
        samples = max(samples, watch_of(setup, slot)[0])
    return samples * WRITE_BYTES[setup.load_point]


def cut_off_seconds(setup: ExperimentSetup, periods: Periods) -> float:
    """What a period that was cut off by a restart of the mgr may have taken."""
    slot = watch_slot(setup, periods)
    if slot is not None:
        return watch_of(setup, slot)[1]
    samples_s = setup.samples_per_period * ASSUMED_SAMPLE_S[setup.load_point]
    return settled(setup, periods).settle_s + max(setup.period_s, samples_s)


def _open(state: RunState, periods: Sequence[Periods]) -> List[Period]:
    """Measured periods of experiments that are not finished yet."""
    return [p for found in periods[len(state.finished) :] for p in found.values()]
