"""What an experiment has cost, and whether it may go on.

There is a budget for finding a difference, and a smaller one for showing that there is
none: where nothing differs, nothing has to be changed, and to prove it is worth less.
Both are in drive seconds, bytes written and seconds that clients waited.  What the next
pair will take is counted before it begins: its bytes exactly, its time by the longest
period so far.  A period that lasts longer than that is cut off where the budget ends.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import Callable, Dict, Iterable, List, Sequence, Tuple

from ..loads import ASSUMED_SAMPLE_S, WRITE_BYTES, commits
from ..model import CacheMode, DriveModel, LoadPoint
from ..record import ExperimentSetup, Period
from .design import design_of
from .pairs import FIRST_LOOK, Discarded, next_slot
from .run_state import RunSpec
from .settling_time.checks import check_size, due_check, pairs_limit, settled
from .slots import AnySlot, CheckSlot, Periods

FOR_SAME = " for showing that there is no difference"


@dataclass(frozen=True)
class Cost:
    """Drive seconds, bytes written, and seconds for which clients waited longer."""

    seconds: float = 0.0
    bytes_written: int = 0
    client_wait_s: float = 0.0


def cost_of(setup: ExperimentSetup, periods: Periods, discarded: Discarded) -> Cost:
    """What one experiment has cost, interrupted periods included."""
    seen = list(periods.values())
    # what was voided kept clients waiting as well; under their own traffic nobody knows how long
    voided_s = 0.0 if setup.load_point is LoadPoint.OSD_TRAFFIC else discarded.seconds
    return Cost(
        discarded.seconds + sum(p.seconds for p in seen),
        discarded.bytes_written + sum(p.bytes_written for p in seen),
        client_wait_s(setup, seen) + voided_s,
    )


def client_wait_s(setup: ExperimentSetup, periods: Sequence[Period]) -> float:
    """Seconds that clients waited longer because of the experiment, in sum over them.

    Under their own traffic it is what the slower mode added to each of their commits, at all
    OSDs on the drives, and as long as a bench made bcache's data dirty before.  A bench or a timer
    keeps the OSD's queue or its drive busy for as long as it measures; a bench sees besides what
    the slower mode adds at the other OSDs.
    """
    if setup.load_point is not LoadPoint.OSD_TRAFFIC:
        others = [(p.mode, p.beside.sum_s, p.beside.count) for p in periods if p.beside]
        return sum(p.loaded_s for p in periods) + _longer(others)[1]
    pairs = [period for period in periods if not period.at_ns]
    slower, longer_s = _longer([(p.mode, *commits(p)) for p in pairs])
    # a settling check counts no commits: clients wait in it as in a period that lasts as long
    measured_s = sum(p.loaded_s - p.written_s for p in pairs if p.mode is slower)
    checked_s = sum(p.seconds for p in periods if p.at_ns and p.mode is slower)
    # the bench that brought bcache where a period begins is one whatever is measured then
    benched_s = sum(p.written_s for p in pairs)
    return benched_s + longer_s * (1 + (checked_s / measured_s if measured_s > 0 else 0.0))


def _longer(seen: Iterable[Tuple[CacheMode, float, int]]) -> Tuple[CacheMode, float]:
    """The slower mode, and the seconds that it added; `seen` are sums and counts of commits."""
    waits: Dict[CacheMode, Tuple[float, int]] = dict.fromkeys(CacheMode, (0.0, 0))
    for mode, waited_s, count in seen:
        total_s, total = waits[mode]
        waits[mode] = (total_s + waited_s, total + count)
    if not all(count for _, count in waits.values()):
        return CacheMode.WRITE_BACK, 0.0
    means = {mode: total_s / count for mode, (total_s, count) in waits.items()}
    slower = max(CacheMode, key=lambda mode: means[mode])
    return slower, waits[slower][1] * (means[slower] - means[slower.other])


def spent(
    spec: RunSpec, setup: ExperimentSetup, periods: Periods, discarded: Discarded, *,
    same: bool = False,
) -> str:
    """Which budget does not hold what comes next, in words; empty where it goes on.

    `same`: the levels lie so near that it would go on to show that nothing differs.
    """
    have, more = cost_of(setup, periods, discarded), _next(setup, periods)
    share = spec.same_share if same else 1.0
    purpose = FOR_SAME if share < 1.0 else ""
    for needed, most, unit in (
        (have.seconds + more.seconds, spec.seconds_max * share, "s"),
        (have.bytes_written + more.bytes_written, spec.bytes_max * share, "bytes"),
        (have.client_wait_s + more.client_wait_s, spec.client_wait_max_s * share,
         "s of client waiting"),
    ):
        if needed > most:
            return f"budget of {most:.0f} {unit}{purpose} is spent"
    return ""


def cut_off_at_s(
    spec: RunSpec, setup: ExperimentSetup, cost: Cost, started_at_s: float,
    settled_at_s: float,
) -> float:
    """When the budget for finding a difference ends a period, at the latest.

    What clients wait under their own traffic is known only after the period; it lasts
    `period_s` whatever they wait.
    """
    if not spec.on_our_clock:
        return math.inf
    ends_at_s = started_at_s + spec.seconds_max - cost.seconds
    if setup.load_point is LoadPoint.OSD_TRAFFIC:
        return ends_at_s
    return min(ends_at_s, settled_at_s + spec.client_wait_max_s - cost.client_wait_s)


def _next(setup: ExperimentSetup, periods: Periods) -> Cost:
    """What the next settling check, or the rest of the pair or replicate, is expected to cost."""
    check = due_check(setup, periods)
    if check is not None:
        return Cost(cut_off_seconds(setup, periods), cut_off_bytes_max(setup, check))
    unit = design_of(setup).periods_per_unit
    done = {slot: p for slot, p in periods.items() if not isinstance(slot, CheckSlot)}
    left = unit - len(done) % unit
    longest = max((p.seconds for p in done.values()), default=cut_off_seconds(setup, periods))
    each = cut_off_bytes_max(setup, next_slot(done))
    # within a pair the slower mode may be over already
    waited = client_wait_s(setup, list(done.values())) / max(1, len(done)) if left == unit else 0.0
    return Cost(left * longest, left * each, left * waited)


def cut_off_bytes_max(setup: ExperimentSetup, slot: AnySlot) -> int:
    """What a period that was cut off may have written."""
    samples = setup.samples_per_period
    if isinstance(slot, CheckSlot):
        samples = max(samples, check_size(setup, slot)[0])
    return samples * WRITE_BYTES[setup.load_point]


def cut_off_seconds(setup: ExperimentSetup, periods: Periods) -> float:
    """What a period that was cut off by a restart of the mgr may have taken."""
    slot = due_check(setup, periods)
    if slot is not None:
        return check_size(setup, slot)[1]
    samples_s = setup.samples_per_period * ASSUMED_SAMPLE_S[setup.load_point]
    return settled(setup, periods).settle_s + max(setup.period_s, samples_s)


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
