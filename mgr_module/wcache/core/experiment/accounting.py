"""What a run has cost in all, with the periods that were discarded.

They are part of what is stored of a run: a mgr that takes over must not get anew what
was spent before, be it by experiments that ended, by periods that were voided, or by the
one that went under with the mgr before it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Iterable, List, Sequence

from ..record import Period
from .budget import Experiment, cut_off_bytes_max
from .pairs import Discarded
from .period import PeriodUnderWay, Stage
from .run_state import RunState
from .slots import Periods


def seconds_spent(state: RunState, periods: Sequence[Periods]) -> float:
    """Drive time a run has spent so far, interrupted periods included."""
    measured = sum(p.seconds for p in _open(state, periods))
    return state.finished_seconds + measured + sum(lost.seconds for lost in state.waste)


def bytes_spent(state: RunState, periods: Sequence[Periods]) -> int:
    """Bytes a run has written so far by measuring, interrupted periods included."""
    measured = sum(p.bytes_written for p in _open(state, periods))
    measured += sum(load.bytes_written for load in state.observed)
    return state.finished_bytes + measured + sum(lost.bytes_written for lost in state.waste)


def with_recorded(state: RunState, periods: Periods, record_id: str) -> RunState:
    """The experiment under way is over: keep what it cost, since its periods will be dropped."""
    seen = periods.values()
    return replace(
        state, finished=(*state.finished, record_id), starting_bytes=0, starting_open=0,
        finished_seconds=state.finished_seconds + sum(p.seconds for p in seen),
        finished_bytes=state.finished_bytes + sum(p.bytes_written for p in seen),
    )


def with_voided(state: RunState, now: PeriodUnderWay, now_s: float) -> RunState:
    """Count what the period under way has cost; its samples are not used."""
    samples = now.samples
    spent_s = max(0.0, now_s - now.started_at_s) if state.spec.on_our_clock else 0.0
    written = now.written_bytes + (samples.bytes_written if samples else 0)
    if samples is None and now.phase is Stage.MEASURING:
        # a bench under way is not called back
        written += cut_off_bytes_max(state.spec.experiments[state.index], now.slot)
    state = replace(state, starting_open=0)
    return with_discarded(state, max(spent_s, samples.seconds if samples else 0.0), written)


def with_thrown_away(state: RunState, lost: Iterable[Period]) -> RunState:
    """Count finished periods that are not used: they have cost as much."""
    for period in lost:
        state = with_discarded(state, period.seconds, period.bytes_written)
    return state


def with_cut_off(state: RunState, periods: Sequence[Periods], now_s: float) -> RunState:
    """Count what a period may have cost that went under with the last mgr."""
    spec, index = state.spec, state.index
    if index >= len(spec.experiments):
        return with_discarded(state, 0.0, 0)
    experiment = Experiment(state, index, periods[index])
    seconds = experiment.cut_off_seconds
    if spec.on_our_clock:
        # nobody knows how much of the time since then it was measured for
        ends = [p.started_at_s + p.seconds for p in experiment.periods.values()]
        seconds = max(seconds, now_s - max([state.began_at_s, *ends]))
        seconds = min(seconds, max(0.0, spec.seconds_max - experiment.cost.seconds))
    written = cut_off_bytes_max(experiment.setup, experiment.next_slot) + state.starting_open
    return with_discarded(replace(state, starting_open=0), seconds, written)


def with_written(state: RunState, bytes_written: int) -> RunState:
    """Count what is about to be written for a period to begin where it should."""
    return replace(
        state, starting_bytes=state.starting_bytes + bytes_written,
        starting_open=state.starting_open + bytes_written,
    )


def with_discarded(state: RunState, seconds: float, bytes_written: int) -> RunState:
    """One more interrupted period of the experiment under way, or else of the last one."""
    discarded = list(state.waste)
    index = min(state.index, len(discarded) - 1)
    old = discarded[index]
    discarded[index] = Discarded(
        old.periods + 1, old.seconds + seconds, old.bytes_written + bytes_written
    )
    return replace(state, waste=tuple(discarded))


def _open(state: RunState, periods: Sequence[Periods]) -> List[Period]:
    """Measured periods of experiments that are not finished yet."""
    return [p for found in periods[state.index:] for p in found.values()]
