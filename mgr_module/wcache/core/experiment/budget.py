"""An experiment by its saved periods: what is next, what it has cost, when it ends, its record.

There is a budget for finding a difference, and a smaller one for showing that there is
none: where nothing differs, nothing has to be changed, and to prove it is worth less.
Both are in drive seconds, bytes written and seconds that clients waited.  What the next
pair will take is counted before it begins: its bytes exactly, its time by the longest
period so far.  A period that lasts longer than that is cut off where the budget ends.

What discarded periods have cost is part of what is stored of a run: a mgr that takes over must
not get anew what was spent before, be it by experiments that ended, by periods that were voided,
or by the one that went under with the mgr before it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Dict, Iterable, Sequence, Tuple

from .. import events
from ..loads import ASSUMED_SAMPLE_S, WRITE_BYTES, commits
from ..model import Arm, LoadPoint
from ..record import RECORD_FORMAT, RECORD_VERSION, ExperimentSetup, Period, Record
from .design import Periods, Slot, design_of
from .period import PeriodUnderWay, Stage
from .run_state import (
    PAIRS_WITHOUT_ANALYSIS,
    Discarded,
    RunSpec,
    RunState,
    is_look,
    next_slot,
    pairs_of,
)
from .settling import check_size, checks_of, due_check, pairs_limit, rechecks_of, settled

FOR_SAME = " for showing that there is no difference"


@dataclass(frozen=True)
class Cost:
    """Drive seconds, bytes written, and seconds for which clients waited longer."""

    seconds: float = 0.0
    bytes_written: int = 0
    client_wait_s: float = 0.0


@dataclass(frozen=True)
class Experiment:
    """The experiment of a run at `index`, with its saved periods.

    What is next, when it ends, and its record are worked out from what is saved alone, so a
    mgr that takes over finds the same.
    """

    state: RunState
    index: int
    periods: Periods

    @property
    def spec(self) -> RunSpec:
        """What its run is to do."""
        return self.state.spec

    @property
    def setup(self) -> ExperimentSetup:
        """What is measured."""
        return self.spec.experiments[self.index]

    @property
    def discarded(self) -> Discarded:
        """What interrupted periods have cost."""
        waste = self.state.waste
        return waste[self.index] if self.index < len(waste) else Discarded()

    @property
    def next_slot(self) -> Slot:
        """Where the first settling check or period is missing; beyond the last pair, if none is."""
        return due_check(self.setup, self.periods) or next_slot(self.periods)

    @property
    def all_measured(self) -> bool:
        """Whether there are as many pairs as there may be."""
        slot = self.next_slot
        return not slot.checks and slot.index >= pairs_limit(self.setup)

    @property
    def look_is_due(self) -> bool:
        """Whether the analysis is asked before anything else is measured."""
        return is_look(self.setup, next_slot(self.periods))

    @property
    def cost(self) -> Cost:
        """What it has cost, interrupted periods included."""
        seen = list(self.periods.values())
        lost = self.discarded
        # what was voided kept clients waiting as well; under their own traffic nobody knows how
        # long
        voided_s = 0.0 if self.setup.load_point is LoadPoint.OSD_TRAFFIC else lost.seconds
        return Cost(
            lost.seconds + sum(p.seconds for p in seen),
            lost.bytes_written + sum(p.bytes_written for p in seen),
            client_wait_s(self.setup, seen) + voided_s,
        )

    def settle_s(self, slot: Slot) -> float:
        """How long a period settles; a settling check begins at once."""
        return 0.0 if slot.checks else settled(self.setup, self.periods).settle_s

    def spent(self, *, same: bool = False) -> str:
        """Which budget does not hold what comes next, in words; empty where it goes on.

        `same`: the levels lie so near that it would go on to show that nothing differs.
        """
        spec, have, more = self.spec, self.cost, self._next_cost
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

    @property
    def _next_cost(self) -> Cost:
        """What the next check, or the rest of the pair or replicate, is expected to cost."""
        setup, slot = self.setup, self.next_slot
        if slot.checks:
            return Cost(self.cut_off_seconds, cut_off_bytes_max(setup, slot))
        unit = design_of(setup).periods_per_unit
        done = [p for at, p in self.periods.items() if not at.checks]
        left = unit - len(done) % unit
        longest = max((p.seconds for p in done), default=self.cut_off_seconds)
        each = cut_off_bytes_max(setup, slot)
        # within a pair the slower mode may be over already
        waited = client_wait_s(setup, done) / max(1, len(done)) if left == unit else 0.0
        return Cost(left * longest, left * each, left * waited)

    @property
    def cut_off_seconds(self) -> float:
        """What a period that was cut off by a restart of the mgr may have taken."""
        setup, slot = self.setup, self.next_slot
        if slot.checks:
            return check_size(setup, slot)[1]
        samples_s = setup.samples_per_period * ASSUMED_SAMPLE_S[setup.load_point]
        return self.settle_s(slot) + max(setup.period_s, samples_s)

    def cut_off_at_s(self, now: PeriodUnderWay) -> float:
        """When the budget for finding a difference ends this period, at the latest.

        Before it has settled it ends by time alone.  What clients wait under their own traffic is
        known only after the period; it lasts `period_s` whatever they wait.
        """
        spec, cost = self.spec, self.cost
        if not spec.on_our_clock:
            return math.inf
        ends_at_s = now.started_at_s + spec.seconds_max - cost.seconds
        settles = spec.waits_for_controller and now.phase is not Stage.MEASURING
        if settles or self.setup.load_point is LoadPoint.OSD_TRAFFIC:
            return ends_at_s
        # what was written before has kept clients waiting as well
        settled_at_s = (now.settled_at_s or math.inf) - now.written_s
        return min(ends_at_s, settled_at_s + spec.client_wait_max_s - cost.client_wait_s)

    @property
    def starting_left(self) -> Tuple[int, float]:
        """Bytes it may still write for a period to begin where it should, and for how long."""
        left_s = self.spec.client_wait_max_s - self.cost.client_wait_s
        return self.spec.starting_bytes - self.state.starting_bytes, left_s

    def ends_after(self, look: events.Decided) -> str:
        """Why it ends with what this look of the analysis found; empty where it goes on."""
        pairs = len(pairs_of(self.setup, self.periods))
        most = pairs_limit(self.setup)
        if look.failed and pairs >= min(PAIRS_WITHOUT_ANALYSIS, most):
            return f"not analysed: {look.failed}"
        if look.stop:
            return "decided"
        if pairs >= most:
            return f"budget of {pairs} pairs is spent"
        return self.spent(same=True) if look.same else ""

    def record(self, ended: str, now_s: float) -> Record:
        """The record of what was measured so far; `ended` says why no more was."""
        spec, setup, periods, lost = self.spec, self.setup, self.periods, self.discarded
        pairs = pairs_of(setup, periods)
        used = {id(p) for pair in pairs for p in pair.periods}
        # of a pair or replicate that is not whole: no evidence, but it has cost as much
        half = [p for slot, p in periods.items() if not slot.checks and id(p) not in used]
        return Record(
            RECORD_FORMAT, RECORD_VERSION, f"{spec.run_id}.{self.index}", spec.campaign_id, setup,
            pairs, min((p.started_at_s for p in periods.values()), default=now_s), now_s, ended,
            lost.periods + len(half), lost.seconds + sum(p.seconds for p in half),
            lost.bytes_written + sum(p.bytes_written for p in half), self.state.missed,
            spec.forced, checks_of(periods),
            settled(setup, periods) if setup.watch_samples else None, rechecks_of(periods),
            self.state.checks,
        )


def client_wait_s(setup: ExperimentSetup, periods: Sequence[Period]) -> float:
    """Seconds that clients waited longer because of the experiment, in sum over them.

    Under their own traffic it is what the slower arm added to each of their commits, at all
    OSDs on the drives, and as long as a bench made bcache's data dirty before.  A bench or a timer
    keeps the OSD's queue or its drive busy for as long as it measures; a bench sees besides what
    the slower arm adds at the other OSDs.
    """
    if setup.load_point is not LoadPoint.OSD_TRAFFIC:
        others = [(p.arm, p.beside.sum_s, p.beside.count) for p in periods if p.beside]
        return sum(p.loaded_s for p in periods) + _longer(others)[1]
    pairs = [period for period in periods if not period.at_ns]
    slower, longer_s = _longer([(p.arm, *commits(p)) for p in pairs])
    # a settling check counts no commits: clients wait in it as in a period that lasts as long
    measured_s = sum(p.loaded_s - p.written_s for p in pairs if p.arm is slower)
    checked_s = sum(p.seconds for p in periods if p.at_ns and p.arm is slower)
    # the bench that brought bcache where a period begins is one whatever is measured then
    benched_s = sum(p.written_s for p in pairs)
    return benched_s + longer_s * (1 + (checked_s / measured_s if measured_s > 0 else 0.0))


def _longer(seen: Iterable[Tuple[Arm, float, int]]) -> Tuple[Arm, float]:
    """The slower arm, and the seconds that it added; `seen` are sums and counts of commits."""
    waits: Dict[Arm, Tuple[float, int]] = dict.fromkeys(Arm, (0.0, 0))
    for arm, waited_s, count in seen:
        total_s, total = waits[arm]
        waits[arm] = (total_s + waited_s, total + count)
    if not all(count for _, count in waits.values()):
        return Arm.A, 0.0
    means = {arm: total_s / count for arm, (total_s, count) in waits.items()}
    slower = max(Arm, key=lambda arm: means[arm])
    return slower, waits[slower][1] * (means[slower] - means[slower.other])


def cut_off_bytes_max(setup: ExperimentSetup, slot: Slot) -> int:
    """What a period that was cut off may have written."""
    samples = setup.samples_per_period
    if slot.checks:
        samples = max(samples, check_size(setup, slot)[0])
    return samples * WRITE_BYTES[setup.load_point]


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
