"""A record's pairs of periods: checked, then the log difference of each.

The statistic of a pair is the difference, arm A (write back) minus arm B (write through), of
the two periods' median log latencies; for an OSD's counters, which keep only sums, of their
log means.  Above 0 arm B is faster.

A record is read from files too.  What contradicts its own seed, settling or budget was
altered or put together by hand, and no statistics of it would mean anything.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

from ..core.errors import MalformedError
from ..core.experiment import settling
from ..core.experiment.design import design_of
from ..core.experiment.factorial import as_of_each
from ..core.experiment.settling import RECHECK_PAIRS
from ..core.figures.latency_table import quantile
from ..core.loads import COMMIT_COUNTERS
from ..core.model import Arm, Transport
from ..core.options.entries import Arms, arms_of, mode_of_arm
from ..core.record import RECORDED, CounterDelta, Pair, Period, Record
from ..core.verdict import sequential
from ..core.verdict.sequential import ratio, rounded
from . import summary
from .summary import DIGITS

# Which counter decides, best first: a transaction's whole way to its commit, then the
# kv commit alone.  The others are reported beside it.
DECIDING_COUNTERS = (*COMMIT_COUNTERS, "op_w_process_latency", "kv_sync_lat")
TAIL_SAMPLES_MIN = 10  # per period, for a p90 that is more than the maximum
HALVES_SAMPLES_MIN = 4


@dataclass(frozen=True)
class Differences:
    """What the usable pairs say: one log difference each, with their record indexes.

    `later` has the first half of every period dropped, `tail` is of the 90th
    percentiles; each is empty where a period holds too little to say.
    `stays` are the changes from one period to the next where a pair began in the arm
    the one before it ended in: no toggle lies between, so that on average nothing
    changes unless the toggle before still does something.  `orders` says of each pair
    which arm came first and whether that was such a stay.
    """

    indexes: Tuple[int, ...]
    whole: Tuple[float, ...]
    later: Tuple[float, ...]
    tail: Tuple[float, ...]
    stays: Tuple[Tuple[Arm, float], ...] = ()
    orders: Tuple[Tuple[Arm, bool], ...] = ()
    # of one of `stays` with its degrees of freedom, where the orders cannot tell it
    stay_sd: Optional[Tuple[float, int]] = None
    # what the tail must clear beyond the margin: histograms are coarse
    tail_slack: float = 0.0


def by_counters(record: Record) -> bool:
    """Whether the periods hold an OSD's counters; simulated traffic has samples instead."""
    return any(period.counters for pair in record.pairs for period in pair.periods)


def usable(record: Record, warnings: List[str]) -> List[Pair]:
    """Pairs that hold data of both arms, and whose drive was in the one it should be.

    What is left out is named in `warnings`.  Raises MalformedError where the periods of
    a pair stand under the wrong arms.
    """
    kept = []
    counted, arms = by_counters(record), arms_of(record.setup.option)
    for pair in record.pairs:
        periods = pair.periods
        if tuple(period.arm for period in periods) != tuple(Arm):
            raise MalformedError(f"pair {pair.index} has its periods under the wrong arms")
        strayed = next((period for period in periods if not _held(record, period)), None)
        if strayed is not None:
            warnings.append(
                f"pair {pair.index} not used: the drive was not in {arms.name(strayed.arm)} "
                "for its whole period"
            )
        elif not all(_means(period) if counted else period.samples_ns for period in periods):
            warnings.append(f"pair {pair.index} not used: one of its periods has no data")
        else:
            kept.append(pair)
    most = sequential.HORIZON * design_of(record.setup).pairs_per_unit
    if len(kept) > most:
        warnings.append(f"only the first {most} pairs are used")
    return kept[:most]


def deciding_counter(pairs: Sequence[Pair]) -> str:
    """The counter of DECIDING_COUNTERS that decides; MalformedError where none is there."""
    shared = _shared_counters(pairs)
    known = [name for name in DECIDING_COUNTERS if name in shared]
    if pairs and not known:
        raise MalformedError(
            "no counter that can decide is in every period; needed is one of "
            + ", ".join(DECIDING_COUNTERS)
        )
    return known[0] if known else DECIDING_COUNTERS[0]


def differences(
    pairs: Sequence[Pair], counter: str, late_watches: Sequence[Period] = ()
) -> Differences:
    """One difference per pair, of `counter` or, where that is empty, of the samples.

    `late_watches` are those made between pairs; each begins with toggles.
    """
    indexes = tuple(pair.index for pair in pairs)
    levels = [(level(pair.a, counter), level(pair.b, counter)) for pair in pairs]
    whole = tuple(round(a - b, DIGITS) for a, b in levels)
    orders = tuple(
        (pair.first, _stayed(before, pair, late_watches))
        for before, pair in zip((None, *pairs), pairs)
    )
    stays = _stays(orders, levels)
    if counter:
        return Differences(
            indexes, whole, _later_of_counter(pairs, counter), summary.differences(pairs), stays,
            orders, tail_slack=sequential.SLACK,
        )
    logs = [(_logs(pair.a), _logs(pair.b)) for pair in pairs]
    fewest = min((min(len(a), len(b)) for a, b in logs), default=0)
    later: Tuple[float, ...] = ()
    tail: Tuple[float, ...] = ()
    if fewest >= HALVES_SAMPLES_MIN:
        later = tuple(_gap(_later(a), _later(b), 0.5) for a, b in logs)
    if fewest >= TAIL_SAMPLES_MIN:
        tail = tuple(_gap(a, b, 0.9) for a, b in logs)
    return Differences(indexes, whole, later, tail, stays, orders)


def per_arm(pairs: Sequence[Pair], counter: str, arms: Arms) -> Dict[str, Any]:
    """Summary of all samples per arm, by its name; of the per-period means where counters decide.

    `level_us` is the geometric mean of the arm's periods: the two have the pairs' ratio.
    `client_writes` where an OSD's histogram tells of them (`summary.client_writes`).
    """
    result = {}
    for arm in Arm:
        periods = [pair.period(arm) for pair in pairs]
        if counter:
            values = [_means(period)[counter] for period in periods]
        else:
            values = [ns / 1e3 for period in periods for ns in period.samples_ns]
        found = result[arms.name(arm)] = summary.latencies(values)
        if periods:
            log = math.fsum(level(period, counter) for period in periods) / len(periods)
            level_us = math.exp(log) / (1 if counter else 1e3)
            found["level_us"] = rounded(level_us)
        writes = summary.client_writes(periods)
        if writes is not None:
            found["client_writes"] = writes
    return result


def counter_ratios(pairs: Sequence[Pair]) -> Dict[str, Dict[str, Optional[float]]]:
    """For each counter that is in every period: the ratio with its 99% interval."""
    result = {}
    for name in _shared_counters(pairs):
        seen = sequential.spread(differences(pairs, name).whole)
        found = sequential.interval(seen, sequential.DECIDE_ALPHA)
        result[name] = {
            "ratio": ratio(found.mean), "ratio_low": ratio(found.low),
            "ratio_high": ratio(found.high),
        }
    return result


def _held(record: Record, period: Period) -> bool:
    trial = record.setup.option
    if trial is not None:
        return all(
            state.option(trial.name) == trial.value(period.arm)
            for state in period.state_before + period.state_after
        )
    return all(
        state.device_cache.mode in (None, mode_of_arm(one.arm))
        for setup, one in as_of_each(record.setup, period)
        # a loop device has no cache of its own; its kernel view is what was switched
        if setup.transport is not Transport.LOOP
        for state in one.state_before + one.state_after
    )


def _means(period: Period) -> Dict[str, float]:
    return _means_us(period.counters)


def _means_us(counters: Sequence[CounterDelta]) -> Dict[str, float]:
    """Counter name without its section -> mean latency in us, where anything was counted."""
    return {
        item.name.rsplit(".", 1)[-1]: item.sum_s / item.count * 1e6
        for item in counters
        if item.count > 0 and item.sum_s > 0
    }


def _later_of_counter(pairs: Sequence[Pair], counter: str) -> Tuple[float, ...]:
    """Differences of the second halves' log means; () where one was not read."""
    halves = [
        (
            _means_us(pair.a.later_counters).get(counter),
            _means_us(pair.b.later_counters).get(counter),
        )
        for pair in pairs
    ]
    found = [
        round(math.log(a) - math.log(b), DIGITS)
        for a, b in halves
        if a is not None and b is not None
    ]
    return tuple(found) if len(found) == len(pairs) else ()


def _shared_counters(pairs: Sequence[Pair]) -> List[str]:
    """Counters that every period of every pair holds, in order of name."""
    shared: Optional[Set[str]] = None
    for pair in pairs:
        for period in pair.periods:
            names = set(_means(period))
            shared = names if shared is None else shared & names
    return sorted(shared or ())


def level(period: Period, counter: str) -> float:
    """The one log latency that stands for a period: of ns, of a counter's mean in us."""
    if counter:
        return math.log(_means(period)[counter])
    return quantile(sorted(_logs(period)), 0.5)


def _stayed(before: Optional[Pair], pair: Pair, late_watches: Sequence[Period]) -> bool:
    """Whether a pair began in the arm that the one before it ended in."""
    return (
        before is not None
        and before.index + 1 == pair.index
        and before.first is pair.first.other
        and not toggled_between(late_watches, before.period(pair.first), pair.period(pair.first))
    )


def toggled_between(late_watches: Sequence[Period], earlier: Period, later: Period) -> bool:
    """Whether a recheck was made between two periods, and so toggles."""
    return any(
        earlier.started_at_s < check.started_at_s < later.started_at_s for check in late_watches
    )


def _stays(
    orders: Sequence[Tuple[Arm, bool]], levels: Sequence[Tuple[float, float]]
) -> Tuple[Tuple[Arm, float], ...]:
    stays = []
    for i, (arm, stayed) in enumerate(orders):
        if stayed:
            side = 0 if arm is Arm.A else 1
            stays.append((arm, round(levels[i][side] - levels[i - 1][side], DIGITS)))
    return tuple(stays)


def _logs(period: Period) -> List[float]:
    """Log latencies in order of time; a clock that saw nothing pass reads as 1 ns."""
    return [math.log(max(value, 1)) for value in period.samples_ns]


def _later(logs: List[float]) -> List[float]:
    return logs[len(logs) // 2:]


def _gap(a: Sequence[float], b: Sequence[float], part: float) -> float:
    return round(quantile(sorted(a), part) - quantile(sorted(b), part), DIGITS)


SETTLE_TOLERANCE_S = 1e-6
SECONDS_MAX = 1e9
SUM_TOLERANCE_S = 1e-6  # running sums of seconds are subtracted from one another


def check(record: Record) -> None:
    """Raises MalformedError that names what contradicts the record's own setup."""
    if record.settling is not None:
        chosen = settling.choose(record.watches, record.setup.settle_s)
        if record.settling != chosen:
            raise MalformedError(
                "the record's settling time does not follow from its settling checks"
            )
    periods = [(pair.index, period) for pair in record.pairs for period in pair.periods]
    _check_pairs(record)
    _check_late_watches(record)
    _check_conditions(record)
    for period in record.periods:
        _check_amounts(record, period)
    design = design_of(record.setup)
    design.check_turns(record.pairs)
    _check_times(record, periods)
    for period in (*record.watches, *record.late_watches, *(period for _, period in periods)):
        design.check_period(period)
        _check_halves(period)
    design.check_order(record.setup.seed, record.pairs)


def _check_late_watches(record: Record) -> None:
    if record.late_watches and len(record.pairs) < RECHECK_PAIRS[0]:
        raise MalformedError(
            f"the record has late settling checks, but fewer than {RECHECK_PAIRS[0]} pairs"
        )


def _check_pairs(record: Record) -> None:
    indexes = Counter(pair.index for pair in record.pairs)
    twice = sorted(index for index, count in indexes.items() if count > 1)
    if twice:
        raise MalformedError(f"pair {twice[0]} is in the record {indexes[twice[0]]} times")
    missing = sorted(set(range(len(record.pairs))) - set(indexes))
    if missing:
        raise MalformedError(
            f"pair {missing[0]} is missing from the record, but later pairs are there"
        )
    most = record.setup.pairs_max
    if most and len(indexes) > most:
        raise MalformedError(f"the record has more pairs than the {most} of its setup")


def _check_conditions(record: Record) -> None:
    """What a campaign does not measure under unless it is forced to."""
    missed = [item for item in record.missed_preconditions if item not in RECORDED]
    if missed and record.setup.real and not record.forced:
        raise MalformedError(
            f"the record misses {missed[0].value!r} but is not marked as forced"
        )


def _check_amounts(record: Record, period: Period) -> None:
    times_s = (
        period.seconds, period.settle_s, record.interrupted_seconds,
        *(item.sum_s for item in period.counters + period.later_counters),
    )
    if not all(0 <= seconds <= SECONDS_MAX for seconds in times_s):
        raise MalformedError("a period of the record has an impossible duration")
    most = record.setup.samples_per_period
    if period in record.watches or period in record.late_watches:
        most = max(settling.LONG_SAMPLES, settling.RECHECK_SAMPLES) * record.setup.watch_samples
    if most and len(period.samples_ns) > most:
        raise MalformedError(
            f"a period of the record has {len(period.samples_ns)} samples, but its setup allows "
            f"{most}"
        )


def _check_times(record: Record, periods: List[Tuple[int, Period]]) -> None:
    """Periods follow one another, and each settled for as long as was chosen."""
    began = Counter(period.started_at_s for _, period in periods)
    chosen_s = record.setup.settle_s if record.settling is None else record.settling.settle_s
    for index, period in periods:
        if began[period.started_at_s] > 1:
            raise MalformedError(
                f"a period of pair {index} started at the same time as another one"
            )
        if abs(period.settle_s - chosen_s) > SETTLE_TOLERANCE_S:
            raise MalformedError(
                f"a period of pair {index} settled for {period.settle_s:g} s, but the record's "
                f"settling time is {chosen_s:g} s"
            )


def _check_halves(period: Period) -> None:
    """A part of a period holds no more than the whole."""
    whole = {item.name: item for item in period.counters}
    for part in period.later_counters:
        of = whole.get(part.name)
        if of is None or part.count > of.count or part.sum_s > of.sum_s + SUM_TOLERANCE_S:
            raise MalformedError(
                f"half a period counts more of {part.name[:60]} than the whole period"
            )
