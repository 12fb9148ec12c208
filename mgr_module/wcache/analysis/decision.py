"""The verdict of one experiment, with its reasons."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Dict, List, Optional, Sequence, Tuple

from ..core.experiment import settling
from ..core.experiment.design import design_of
from ..core.experiment.run_state import FIRST_LOOK, IN_PROGRESS
from ..core.experiment.settling import RECHECK_PAIRS, pairs_limit
from ..core.hardware import Dirty, crossed_target
from ..core.loads import MATERIAL_RATIO
from ..core.model import Arm, FindingCode, Verdict
from ..core.options.entries import Arms, arms_of
from ..core.record import Pair, Record
from ..core.text import gained
from ..core.verdict import sequential
from ..core.verdict.sequential import DECIDE_ALPHA, SAME_ALPHA, Spread, verdict_of
from . import summary
from .flushes import too_fast
from .pairs import Differences

LOOK_ALPHA = 0.05  # of each test for a transient, when a verdict is about to be given
CERTAIN_ALPHA = 0.0005  # then there is no point in going on
CERTAIN_STAYS = 4  # a drive that stalls now and then makes one or two of them look like it
# What fades by f from one period to the next may amount to more than f in the one after
# the toggle; twice that where it halves in a period or faster.
FADING_FACTOR = 2.0
LARGE_RATIO = 3.0
CHECKED_PAIRS_MAX = 9  # a coin that has not given the chance by then need not be waited for


@dataclass(frozen=True)
class Materiality:
    """`material_ratio`: smaller differences are not worth a change."""

    material_ratio: float = MATERIAL_RATIO

    def __post_init__(self) -> None:
        if not 1.01 <= self.material_ratio <= 10.0:
            raise ValueError("material_ratio must be from 1.01 to 10")

    @property
    def margin(self) -> float:
        """The material ratio as a log."""
        return math.log(self.material_ratio)


@dataclass(frozen=True)
class Decision:
    """A verdict, why, and what was found on the way.

    `hopeless`: more pairs of the same kind would not lift the doubt.
    """

    verdict: Verdict
    why: str
    findings: Tuple[Tuple[FindingCode, str], ...] = ()
    hopeless: bool = False


def decide(
    record: Record, pairs: Sequence[Pair], seen: Differences, measured: Spread,
    options: Materiality, warnings: List[str], trusted: bool = False,
) -> Decision:
    """The decision on one drive; `trusted`: as if its power-loss protection were proven."""
    if measured.n < FIRST_LOOK:
        return Decision(
            Verdict.INSUFFICIENT,
            f"{measured.n} usable {design_of(record.setup).unit}; nothing is decided on fewer than "
            f"{FIRST_LOOK}",
        )
    verdict = verdict_of(measured, options.margin)
    if verdict is Verdict.INSUFFICIENT:
        return Decision(verdict, _said(verdict, record, measured, options))
    trial = record.setup.option
    arms = arms_of(trial)
    # where each period was begun in the same place, the ways there and from there do not count
    crossed = () if trial is not None and trial.dirty is not Dirty.ANY else crossed_target(
        one for pair in pairs for period in pair.periods
        for one in period.bcache
    )
    if crossed:
        return Decision(
            Verdict.INSUFFICIENT,
            f"the dirty data of {', '.join(crossed)} crossed its target while this was measured, "
            "so the periods are not alike; measure when it stays on one side (bcache's "
            "writeback_rate_debug shows both, writeback_percent sets the target)",
        )
    carried = _carried(record, pairs, seen, verdict, measured.mean, options.margin)
    if carried is not None:
        may_lie = verdict is Verdict.A and not trusted
        doubt = too_fast(record, pairs) if may_lie else ""
        if doubt and carried.findings:  # it holds for the drive whatever else is in doubt
            found = (FindingCode.FLUSH_TOO_FAST, doubt)
            carried = replace(carried, findings=(*carried.findings, found))
        return carried
    if verdict.arm is not None and measured.n < CHECKED_PAIRS_MAX:
        waiting = _unchecked(seen, measured.mean, arms)
        if waiting:
            return Decision(Verdict.INSUFFICIENT, waiting)
    if not seen.later and not seen.stays:
        warnings.append("transients were not checked: the periods hold too few samples")
    if verdict is Verdict.A:
        doubt = "" if trusted else too_fast(record, pairs)
        if doubt:
            return Decision(
                Verdict.INSUFFICIENT, doubt, ((FindingCode.FLUSH_TOO_FAST, doubt),), True
            )
    if seen.tail:
        tail = verdict_of(sequential.spread(seen.tail), options.margin + seen.tail_slack)
        name = "mean" if seen.tail_slack else "median"
        contradiction = sequential.contradicted_by_tail(verdict, tail, name, arms)
        if contradiction:
            return Decision(
                Verdict.CONFLICTING, f"{contradiction}; measure the load that matters for longer"
            )
    return Decision(verdict, _said(verdict, record, measured, options))


def _carried(
    record: Record, pairs: Sequence[Pair], seen: Differences, verdict: Verdict, mean: float,
    margin: float,
) -> Optional[Decision]:
    """What becomes of a verdict that what a toggle leaves behind endangers, or None."""
    arms = arms_of(record.setup.option)
    why = _carryover(seen, verdict, margin, LOOK_ALPHA, arms)
    certain = bool(why) and bool(
        _carryover(seen, verdict, margin, CERTAIN_ALPHA, arms, stays_min=CERTAIN_STAYS)
    )
    measured = max(len(record.pairs), len(pairs))  # whether they could be used or not
    faded = None if certain else _fading(record, measured, verdict, mean, margin)
    if faded is not None or not why:
        return faded
    return Decision(Verdict.INSUFFICIENT, why, ((FindingCode.CARRYOVER, why),), certain)


def _fading(
    record: Record, measured: int, verdict: Verdict, mean: float, margin: float
) -> Optional[Decision]:
    """What becomes of a verdict where rechecks show that something fades after a toggle.

    Unlike the periods they see it from its beginning, and for seconds.  While more rechecks
    are to come, a suspicion makes the verdict wait for them.
    """
    if record.settling is None:
        return None
    settle_s = record.settling.settle_s
    more = (
        record.ended == IN_PROGRESS and measured <= RECHECK_PAIRS[-1] < pairs_limit(record.setup)
    )
    believed = settling.RECHECK_CERTAIN if more else settling.RECHECK_BELIEVED
    for gain_min in (believed, settling.RECHECK_SUSPECTED):
        left = settling.left_ln(record.late_watches, settle_s, gain_min)
        a, b = (left.get(arm, 0.0) for arm in Arm)
        # one that is seen in error must not make up for another one
        if all(holds(verdict, mean - of, margin) for of in (a, -b, a - b)):
            continue
        if gain_min == believed:
            why = (
                f"transient: {settle_s:g} s after a toggle, commit latency may still be "
                f"{math.expm1(max(map(abs, left.values()))):.0%} off steady state; increase "
                "settle_s"
            )
            return Decision(
                Verdict.INSUFFICIENT, why, ((FindingCode.CARRYOVER, why),), True
            )
        if more:
            return Decision(
                Verdict.INSUFFICIENT,
                "a toggle may have a longer transient; this is checked again after "
                f"{RECHECK_PAIRS[-1]} pairs",
            )
    return None


def _carryover(
    seen: Differences, verdict: Verdict, margin: float, alpha: float, arms: Arms,
    stays_min: int = 1,
) -> str:
    """Why what a toggle leaves behind endangers the verdict, or ''.

    Each test is at `alpha` for this one look, and only against a verdict that would not
    survive what it found.  Without the first half of every period the ratio has
    moved to where the verdict does not hold; or periods that follow one in the same
    arm, with no toggle between, differ from it (in either arm, or over both): then the
    toggle before was still fading.
    """
    whole = sequential.spread(seen.whole)
    if seen.later:
        later = sequential.spread(seen.later)
        moved = [a - b for a, b in zip(seen.later, seen.whole)]
        low, high = summary.fixed_interval(moved, alpha)
        if (low > 0 or high < 0) and not holds(verdict, later.mean, margin):
            return (
                f"transient: without the first half of every period {arms.a} -> {arms.b} changes "
                f"latency by {gained(math.exp(later.mean))}, so {arms.said(verdict)!r} does not "
                "hold; increase settle_s"
            )
    if verdict.arm is None:
        return ""
    sd, degrees = _sd_within_orders(seen, whole)
    for among in ((Arm.A,), (Arm.B,), tuple(Arm)):
        changes = [change for stayed, change in seen.stays if stayed in among]
        if len(changes) < stays_min:
            continue
        fading = math.fsum(changes) / len(changes)
        error = max(sd, sequential.SD_FLOOR) / math.sqrt(len(changes))
        sure = abs(fading) > summary.student(degrees, alpha) * error
        if sure and abs(whole.mean) - FADING_FACTOR * abs(fading) < margin:
            names = " and ".join(map(arms.name, among))
            return (
                f"transient: latency in {names} still changes by {math.expm1(fading):+.0%} from "
                "one period to the next with no toggle in between; increase settle_s"
            )
    return ""


def _sd_within_orders(seen: Differences, whole: Spread) -> Tuple[float, int]:
    """Sd of the differences within pairs of one order, with its degrees of freedom.

    A transient shifts pairs by their order: the plain sd would hide it in itself.
    """
    if seen.stay_sd is not None:
        return seen.stay_sd
    groups: Dict[Tuple[Arm, bool], List[float]] = {}
    for order, value in zip(seen.orders, seen.whole):
        groups.setdefault(order, []).append(value)
    degrees = len(seen.whole) - len(groups)
    if degrees < FIRST_LOOK:
        return whole.sd, whole.n - 1
    squares = math.fsum(
        (value - math.fsum(values) / len(values)) ** 2
        for values in groups.values() for value in values
    )
    return math.sqrt(squares / degrees), degrees


def holds(verdict: Verdict, log_ratio: float, margin: float) -> bool:
    """Whether a log ratio lies where the verdict says; never for one that says nothing."""
    if verdict is Verdict.NO_DIFFERENCE:
        return abs(log_ratio) < margin
    return log_ratio > margin if verdict is Verdict.B else log_ratio < -margin


def _unchecked(seen: Differences, mean: float, arms: Arms) -> str:
    """Why a moderate difference has to wait, or ''.

    Until each arm was once measured twice without a toggle between, what a toggle
    leaves behind and what the arm does cannot be told apart.  Differences beyond
    LARGE_RATIO are not left behind by a toggle.
    """
    stayed = {arm for arm, _ in seen.stays}
    if abs(mean) > math.log(LARGE_RATIO) or len(stayed) == len(Arm):
        return ""
    missing = " and ".join(arms.name(arm) for arm in Arm if arm not in stayed)
    return f"transients are not checked yet: no two consecutive periods in {missing}"


def _said(verdict: Verdict, record: Record, seen: Spread, options: Materiality) -> str:
    return sequential.verdict_text(
        verdict, sequential.interval(seen, DECIDE_ALPHA), sequential.interval(seen, SAME_ALPHA),
        options.material_ratio, f"after {seen.n} {design_of(record.setup).unit}",
        arms_of(record.setup.option),
    )
