"""What runs will cost: at most, or where experiments end as others have ended."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import median
from typing import Callable, Dict, Iterable, List, Sequence, Set, Tuple

from ..cluster import ClusterState
from ..hardware import CONTROLLER_S, Dirty
from ..loads import ASSUMED_SAMPLE_S, WRITE_BYTES
from ..model import DriveModel, LoadPoint
from ..record import ExperimentSetup
from .design import design_of
from .observing_plan import OVERHEAD_S, LoadCost, cost_of
from .period import START_WAIT_S
from .run_state import FIRST_LOOK, RunSpec
from .settling import checks_at_most, pairs_limit

CALLS_S = 40.0  # until an idle probe has called (poll_idle_s and its jitter)

# Drive model, load point and pairs of an experiment that has ended.
Ended = Tuple[DriveModel, LoadPoint, int]
ExpectedPairs = Callable[[ExperimentSetup], int]

# Where nothing has been measured yet: a clear case is decided at one of the first looks.
PAIRS_EXPECTED = 2 * FIRST_LOOK


def expected_pairs(ended: Iterable[Ended]) -> ExpectedPairs:
    """What drives of the same model took at the same load, else what others took at it."""
    known = [row for row in ended if row[2] > 0]

    def pairs(setup: ExperimentSetup) -> int:
        alike = [row for row in known if row[1] is setup.load_point]
        same = [row for row in alike if row[0] == setup.drive_model]
        counts: List[int] = [row[2] for row in same or alike]
        return min(pairs_limit(setup), round(median(counts)) if counts else PAIRS_EXPECTED)

    return pairs


def periods_expected(expected: ExpectedPairs, setup: ExperimentSetup, done: int) -> int:
    """Periods at its end; one that has gone on for longer is expected to end with the next pair."""
    return min(2 * pairs_limit(setup), max(2 * expected(setup), done + 2))


@dataclass(frozen=True)
class Forecast:
    """What a campaign will cost at most, before it starts, and how long it is expected to take."""

    drives: int
    experiments: int
    factorials: int  # of these, such as toggle two drives of an OSD
    seconds: float  # wall clock, one domain per host at a time
    seconds_expected: float  # the same where experiments end as others have
    drive_seconds: float
    bytes_written: int
    osds_emptied: Tuple[int, ...]
    bench_calls: int
    skipped: Tuple[str, ...]
    strict_pools: Tuple[str, ...] = ()  # take no writes while a drive that is toggled hangs


def forecast(
    runs: Sequence[RunSpec], cluster: ClusterState, skipped: Tuple[str, ...],
    expected: ExpectedPairs = pairs_limit,
) -> Forecast:
    """The cost of runs if every experiment needs its whole budget.

    Seconds are an assumption until drives were measured; bytes and calls are exact bounds.
    """
    by_host: Dict[str, float] = defaultdict(float)
    expected_by_host: Dict[str, float] = defaultdict(float)
    total = 0.0
    written = calls = 0
    emptied: Set[int] = set()
    for run in runs:
        run_s = expected_s = 1.0
        if run.option is not None:
            run_s += CALLS_S
        if run.dirty is not Dirty.ANY:
            run_s += START_WAIT_S * len(run.experiments)
        for setup in run.experiments:
            cost = cost_of(setup) if run.observes else _of_experiment(run, setup, expected)
            run_s += cost.seconds
            expected_s += cost.seconds_expected
            written += cost.bytes_written
            calls += cost.bench_calls
            if cost.bench_calls and not run.measured_by_probe:
                emptied.add(setup.osd_id)
        by_host[run.hostname] += run_s
        expected_by_host[run.hostname] += min(run_s, expected_s)
        total += run_s
    drives = {(run.hostname, name) for run in runs for name in run.domain_ids}
    return Forecast(
        len(drives), sum(len(run.experiments) for run in runs),
        sum(design_of(setup).crosses for run in runs for setup in run.experiments),
        max(by_host.values(), default=0.0),
        max(expected_by_host.values(), default=0.0),
        total, written, tuple(sorted(emptied)) if cluster.bench_empties_caches else (),
        calls, skipped,
        cluster.strict_pools if any(run.has_clients and run.toggles for run in runs) else (),
    )


def _of_experiment(run: RunSpec, setup: ExperimentSetup, expected: ExpectedPairs) -> LoadCost:
    sample_s = max(ASSUMED_SAMPLE_S[setup.load_point], setup.period_s)
    period_s = CONTROLLER_S if run.waits_for_controller else 0.0
    period_s += setup.settle_s + OVERHEAD_S + setup.samples_per_period * sample_s
    checks, checked, checked_s = checks_at_most(setup)
    checked_s += 2 * checks * OVERHEAD_S  # there and back before each
    samples = 2 * setup.pairs_max * setup.samples_per_period + checked
    each = WRITE_BYTES[setup.load_point]
    calls = 0
    if not run.measured_by_probe:
        calls = -(-run.starting_bytes // WRITE_BYTES[LoadPoint.OSD_BENCH_BATCH])
        calls += samples if each else 0
    most_s, written_max = run.seconds_max + 10.0, run.bytes_max - run.starting_bytes
    # what a value does to a sample is not known before: then only the budget ends it for sure
    sure_s = checked_s + 2 * setup.pairs_max * period_s if run.option is None else most_s
    return LoadCost(
        min(sure_s, most_s),
        min(checked_s + 2 * expected(setup) * period_s, most_s),
        run.starting_bytes + min(samples * each, written_max), calls,
    )
