"""The 2x2 factorial: both drives of one OSD, each in both cache modes, in all combinations.

An OSD whose DB or WAL lies on another drive has two switches, and what one does may hang
on the other.  A *replicate* is four adjacent periods, one in each combination, in one of
their 24 orders, which the recorded seed determines: no drift favours a combination.  The
replicate is the unit of the statistics here, as the pair is where one drive is toggled.

A record of it tells of one of the two drives; transposed it tells of the other.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from itertools import permutations
from typing import Iterator, List, Sequence, Tuple

from ..errors import MalformedError
from ..model import Arm
from ..options.entries import arm_of, mode_of_arm
from ..record import CrossedDrive, CrossedPeriod, ExperimentSetup, Pair, Period, Record

Cell = Tuple[Arm, Arm]
"""The arm of the drive that the record is about, then that of the other one: cache modes."""

CELLS: Tuple[Cell, ...] = tuple((arm, other) for arm in Arm for other in Arm)
ORDERS: Tuple[Tuple[Cell, ...], ...] = tuple(permutations(CELLS))
# Of the drive that the record is about: one pair for each mode of the other.
PAIRS_PER_REPLICATE = len(Arm)
# What the analysis calls an interaction that it has proven.
PROVEN = "proven"
# What the id of a record has behind it that tells of the other drive.
OTHER = ".other"
SILENT = "a period of a factorial has no data on the other drive"


def order(seed: int, replicate: int) -> Tuple[Cell, ...]:
    """The four combinations in the order of time: fair, reproducible, in every release."""
    digest = hashlib.sha256(f"wcache replicate {seed} {replicate}".encode()).digest()
    return ORDERS[int.from_bytes(digest[:8], "big") % len(ORDERS)]


def replicates(found: Sequence[Pair]) -> List[Tuple[Pair, Pair]]:
    """The pairs two by two, the other drive's write back first; incomplete ones left out.

    Raises MalformedError where a pair's periods do not say so of the other drive.
    """
    by_index = {pair.index: pair for pair in found}
    whole = []
    for index in sorted(by_index):
        if index % PAIRS_PER_REPLICATE == 0 and index + 1 in by_index:
            both = (by_index[index], by_index[index + 1])
            for pair, arm in zip(both, Arm):
                if {crossed_arm(period) for period in pair.periods} != {arm}:
                    raise MalformedError(
                        f"pair {pair.index} does not hold the other drive in "
                        f"{mode_of_arm(arm).value}"
                    )
            whole.append(both)
    return whole


def crossed_arm(period: Period) -> Arm:
    """The arm the other drive was in; raises MalformedError where the period has none."""
    return arm_of(_other_side(period).mode)


def other_drive(setup: ExperimentSetup) -> CrossedDrive:
    """The second drive of a factorial; raises MalformedError where there is one drive only."""
    if setup.crossed is None:
        raise MalformedError("the record is of one drive only")
    return setup.crossed


def both_sides(record: Record) -> Tuple[Record, ...]:
    """The record, and where it is of a factorial the same measurements of the other drive."""
    if record.setup.crossed is None:
        return (record,)
    return record, transposed(record)


def measured_in(record_id: str) -> str:
    """The record that a record was transposed from; '' where it is one of its own."""
    return record_id[: -len(OTHER)] if record_id.endswith(OTHER) else ""


def transposed(record: Record) -> Record:
    """The same measurements as a record of the other drive; it costs nothing a second time.

    Raises MalformedError where the record is of no factorial.
    """
    setup, other = record.setup, other_drive(record.setup)
    found: List[Pair] = []
    for first, second in replicates(record.pairs):
        index = first.index
        for arm in Arm:  # of what was the first drive, and is the other now
            a, b = (_swapped(pair.period(arm)) for pair in (first, second))
            sooner = Arm.A if a.started_at_s < b.started_at_s else Arm.B
            found.append(Pair(index, sooner, a, b))
            index += 1
    return replace(
        record, record_id=record.record_id + OTHER, setup=_swapped_setup(setup, other),
        pairs=tuple(found), watches=tuple(_swapped(watch) for watch in record.watches),
        late_watches=tuple(_swapped(watch) for watch in record.late_watches),
        interrupted_periods=0, interrupted_seconds=0.0, interrupted_bytes=0,
    )


def as_of_each(
    setup: ExperimentSetup, period: Period
) -> Iterator[Tuple[ExperimentSetup, Period]]:
    """A period as each drive that it toggled has it."""
    yield setup, period
    if setup.crossed is not None:
        yield _swapped_setup(setup, setup.crossed), _swapped(period)


def _other_side(period: Period) -> CrossedPeriod:
    if period.crossed is None:
        raise MalformedError(SILENT)
    return period.crossed


def _swapped(period: Period) -> Period:
    crossed = _other_side(period)
    return replace(
        period, arm=arm_of(crossed.mode), state_before=crossed.state_before,
        state_after=crossed.state_after, flush_counters=crossed.flush_counters,
        crossed=CrossedPeriod(
            mode_of_arm(period.arm), period.state_before, period.state_after,
            period.flush_counters,
        ),
    )


def _swapped_setup(setup: ExperimentSetup, crossed: CrossedDrive) -> ExperimentSetup:
    return replace(
        setup, domain_id=crossed.domain_id, drive_id=crossed.drive_id,
        drive_model=crossed.drive_model, transport=crossed.transport, role=crossed.role,
        rotational=crossed.rotational,
        crossed=CrossedDrive(
            setup.domain_id, setup.drive_id, setup.drive_model, setup.transport, setup.role,
            setup.rotational,
        ),
    )
