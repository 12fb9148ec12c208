"""The verdict of one experiment, with the reasons and the doubts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import List, Sequence, Tuple

from ..core.model import FindingCode, LoadPoint, Transport, Verdict
from ..core.record import Pair, Record
from . import sequential, summary
from .pairs import Differences
from .sequential import DECIDE_ALPHA, SAME_ALPHA, Interval, Spread

# Write back this fast, without proof of power-loss protection, is too good to be true:
# a disk has to turn, and flash without capacitors has to program a page.
FLUSH_FLOOR_ROTATIONAL_US = 1000.0
FLUSH_FLOOR_FLASH_US = 100.0
# Only where a sample is one commit; batches share theirs.
ONE_COMMIT_EACH = (LoadPoint.OSD_BENCH_DEPTH1, LoadPoint.FDATASYNC_TIMER)


@dataclass(frozen=True)
class Options:
    """`material_ratio`: smaller differences are not worth a change."""

    material_ratio: float = 1.1

    def __post_init__(self) -> None:
        if not 1.01 <= self.material_ratio <= 10.0:
            raise ValueError("material_ratio must be from 1.01 to 10")

    @property
    def margin(self) -> float:
        """The material ratio as a log."""
        return math.log(self.material_ratio)


@dataclass(frozen=True)
class Decision:
    """A verdict, why, and what was found on the way."""

    verdict: Verdict
    why: str
    findings: Tuple[Tuple[FindingCode, str], ...] = ()

    def hopeless(self, pairs: int) -> bool:
        """Whether there is a doubt that more pairs of the same kind would not lift."""
        codes = {code for code, _ in self.findings}
        return FindingCode.FLUSH_TOO_FAST in codes or (
            FindingCode.CARRYOVER in codes and pairs >= 2 * sequential.FIRST_LOOK
        )


def verdict_of(seen: Spread, margin: float) -> Verdict:
    direction = sequential.differs(sequential.interval(seen, DECIDE_ALPHA), margin)
    if direction:
        return Verdict.WRITE_THROUGH if direction > 0 else Verdict.WRITE_BACK
    if sequential.same(sequential.interval(seen, SAME_ALPHA), margin):
        return Verdict.NO_DIFFERENCE
    return Verdict.INSUFFICIENT


def decide(
    record: Record, pairs: Sequence[Pair], seen: Differences, measured: Spread,
    options: Options, warnings: List[str],
) -> Decision:
    if measured.n < sequential.FIRST_LOOK:
        return Decision(
            Verdict.INSUFFICIENT,
            f"{measured.n} usable pairs; nothing is decided on fewer than "
            f"{sequential.FIRST_LOOK}",
        )
    verdict = verdict_of(measured, options.margin)
    if verdict is Verdict.INSUFFICIENT:
        return Decision(verdict, _undecided(measured, options))
    carried = _carryover(seen, verdict, options.margin)
    if carried:
        return Decision(Verdict.INSUFFICIENT, carried, ((FindingCode.CARRYOVER, carried),))
    if not seen.later:
        warnings.append("carryover not checked: the periods cannot be halved")
    if verdict is Verdict.WRITE_BACK:
        doubt = _too_fast(record, pairs)
        if doubt:
            return Decision(Verdict.INSUFFICIENT, doubt, ((FindingCode.FLUSH_TOO_FAST, doubt),))
    if verdict.mode is not None and seen.tail:
        tail = verdict_of(sequential.spread(seen.tail), options.margin)
        if tail.mode is not None and tail is not verdict:
            return Decision(
                Verdict.CONFLICTING,
                f"the median is better in {verdict.value}, the 90th percentile is proven "
                f"better in {tail.value}; measure the load that counts for longer",
            )
    return Decision(verdict, _because(measured, verdict, options))


def _carryover(seen: Differences, verdict: Verdict, margin: float) -> str:
    """Why the verdict does not outlast dropping the first half of every period, or ''.

    Half the samples are noisier, so they need not prove the verdict a second time: they
    must point the same way, and must not have moved for certain while proving nothing.
    """
    if not seen.later:
        return ""
    later = sequential.spread(seen.later)
    if verdict is Verdict.NO_DIFFERENCE:
        agrees = abs(later.mean) < margin
    else:
        agrees = later.mean > margin if verdict is Verdict.WRITE_THROUGH else later.mean < -margin
    moved = sequential.interval(
        sequential.spread([a - b for a, b in zip(seen.later, seen.whole)]), SAME_ALPHA
    )
    surely_moved = moved.low > 0 or moved.high < 0
    if agrees and not (surely_moved and verdict_of(later, margin) is not verdict):
        return ""
    return (
        f"carryover: without the first half of every period the ratio is "
        f"{math.exp(later.mean):.3g} and {verdict.value!r} does not hold; settle for longer"
    )


def _too_fast(record: Record, pairs: Sequence[Pair]) -> str:
    """Doubt where write back wins by flushes faster than a drive can do, or ''."""
    setup = record.setup
    if setup.transport is Transport.LOOP or setup.load_point not in ONE_COMMIT_EACH:
        return ""
    times_us = [ns / 1e3 for pair in pairs for ns in pair.write_back.samples_ns]
    if not times_us:
        return ""
    rotational = bool(setup.rotational)
    floor_us = FLUSH_FLOOR_ROTATIONAL_US if rotational else FLUSH_FLOOR_FLASH_US
    middle_us = summary.median(times_us)
    if middle_us >= floor_us:
        return ""
    return (
        f"a commit in write back takes {middle_us:.3g} us, faster than a drive without "
        "power-loss protection can flush: it may be ignoring flushes"
    )


def _percent(seen: Spread) -> str:
    if seen.mean >= 0:
        return f"write through is {math.exp(seen.mean):.3g}x as fast"
    return f"write back is {math.exp(-seen.mean):.3g}x as fast"


def _because(seen: Spread, verdict: Verdict, options: Options) -> str:
    if verdict is Verdict.NO_DIFFERENCE:
        near = sequential.interval(seen, SAME_ALPHA)
        return (
            f"the 95% interval of the ratio, {_span(near)}, lies within "
            f"{options.material_ratio:g}x either way after {seen.n} pairs; leave it as it is"
        )
    decide = sequential.interval(seen, DECIDE_ALPHA)
    return (
        f"{_percent(seen)}: the 99% interval of the ratio, {_span(decide)}, lies beyond "
        f"{options.material_ratio:g}x after {seen.n} pairs"
    )


def _undecided(seen: Spread, options: Options) -> str:
    decide = sequential.interval(seen, DECIDE_ALPHA)
    return (
        f"after {seen.n} pairs the 99% interval of the ratio, {_span(decide)}, neither clears "
        f"nor stays within {options.material_ratio:g}x either way"
    )


def _span(found: Interval) -> str:
    return f"{math.exp(max(found.low, -99)):.4g} to {math.exp(min(found.high, 99)):.4g}"
