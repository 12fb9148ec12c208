"""Worse, no worse, better or undecided: what the blocks before and after a change say.

The unit is a block's log ratio of treated over control OSDs.  What happens to all (a load
that grows, a neighbour, the time of day) is in both and cancels.  The stretch before the
change gives level, variance and correlation; the blocks after it are looked at four times,
with the error rates divided over the looks (Bonferroni).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum
from typing import List, Sequence, Tuple

from ...loads import Block
from ...material import MATERIAL_LN
from .blocks import CONTROLS_MIN, alike, log_ratios, present
from .numbers import difference

BLOCKS_BEFORE = 48
# Blocks after the change at which it is judged.
LOOKS = (16, 32, 64, 96)
# One-sided, over all looks: a wave that is as good as before is called worse at most this
# often.  0.01 is promised; what the estimated correlation costs in short stretches is between.
FALSE_WORSE = 0.006
FALSE_NO_WORSE = 0.05
# Which latency of clients a judgement is about.
COMMITS, READS = "commit", "read"
# So few usable blocks say nothing.
USABLE_MIN = 8


class Verdict(str, Enum):
    """What a step has done to clients."""

    WORSE = "worse"
    NO_WORSE = "no worse"
    BETTER = "better"
    UNDECIDED = "undecided"


# Of writes and reads the graver one counts; better only where neither is otherwise.
_GRAVEST = (Verdict.WORSE, Verdict.UNDECIDED, Verdict.NO_WORSE, Verdict.BETTER)


@dataclass(frozen=True)
class Judgement:
    """A verdict with its figures: after over before, above 1 is slower.

    `low` and `high` are the limits that decided, 0 where nothing could be compared.
    `controls` 0: before and after alone.  `settle` says what would decide it, where it is
    undecided.
    """

    verdict: Verdict
    ratio: float = 1.0
    low: float = 0.0
    high: float = 0.0
    blocks_before: int = 0
    blocks_after: int = 0
    treated: int = 0
    controls: int = 0
    why: str = ""
    settle: str = ""
    of: str = COMMITS  # which latency

    @property
    def goes_on(self) -> bool:
        """Whether the next step may begin."""
        return self.verdict in (Verdict.NO_WORSE, Verdict.BETTER)

    @property
    def words(self) -> str:
        """The verdict for people."""
        if not self.treated:
            return f"{self.verdict.value}: {self.why}"
        beside = (
            f"beside {self.controls} unchanged OSDs" if self.controls
            else "compared with itself before the change, since no unchanged OSD of its kind is "
                 "left: a load that changed meanwhile looks like an effect of the change"
        )
        return (
            f"{self.verdict.value}: {self.of} latency {self.ratio:.2f} times that before "
            f"({self.low:.2f} to {self.high:.2f}), {beside}"
        )


def load_of(
    before: Sequence[Block], treated: Sequence[int], controls: Sequence[int]
) -> Tuple[Tuple[int, ...], Tuple[int, ...], str]:
    """Treated OSDs and controls that carry load, and why a change cannot be judged by them."""
    mine, others = present(before, treated), present(before, controls)
    if not mine:
        names = ", ".join(f"osd.{osd_id}" for osd_id in treated[:8])
        return (), (), f"clients write too little to {names} to judge by"
    if controls and len(others) < CONTROLS_MIN:
        return mine, others, (
            f"only {len(others)} of {len(controls)} unchanged OSDs carry load, "
            f"{CONTROLS_MIN} are needed"
        )
    return mine, others, ""


def look_at(blocks_after: int) -> bool:
    """Whether it is judged after so many blocks."""
    return blocks_after in LOOKS


def judge_all(
    before: Sequence[Block], after: Sequence[Block], treated: Sequence[int],
    controls: Sequence[int],
) -> Judgement:
    """By writes and by reads, as far as clients did either before; the worse of the two counts.

    Two judgements share the error rates of one.
    """
    found = [(COMMITS, before, after)]
    found += [(READS, _of_reads(before), _of_reads(after))]
    told = [item for item in found if not load_of(item[1], treated, controls)[2]] or found[:1]
    judged = [
        replace(judge(first, later, treated, controls, parts=len(told)), of=of)
        for of, first, later in told
    ]
    return min(judged, key=lambda item: _GRAVEST.index(item.verdict))


def _of_reads(blocks: Sequence[Block]) -> List[Block]:
    return [block.of_reads for block in blocks]


def load_of_any(
    before: Sequence[Block], treated: Sequence[int], controls: Sequence[int]
) -> str:
    """Why neither writes nor reads can judge a change; "" where one of them can."""
    why = load_of(before, treated, controls)[2]
    return why and (load_of(_of_reads(before), treated, controls)[2] and why)


def judge(
    before: Sequence[Block], after: Sequence[Block], treated: Sequence[int],
    controls: Sequence[int], parts: int = 1,
) -> Judgement:
    """What is known after so many blocks; UNDECIDED where it may be known later.

    `parts`: so many judgements are made beside each other, of which one is believed.
    """
    mine, others, why = load_of(before, treated, controls)
    if not why:
        left = present(after, mine)
        if len(left) < len(mine):
            gone = ", ".join(f"osd.{item}" for item in mine if item not in left)
            why = f"{gone} carried too little load since"
        beside = present(after, others)
        if controls and len(beside) < CONTROLS_MIN:
            why = why or f"only {len(beside)} unchanged OSDs are left, {CONTROLS_MIN} are needed"
        others = alike(before, after, beside)
        if controls and len(others) < CONTROLS_MIN:
            why = why or (
                f"only {len(others)} of {len(beside)} unchanged OSDs still behave alike, "
                f"{CONTROLS_MIN} are needed"
            )
    if why:
        return Judgement(
            Verdict.UNDECIDED, why=why, settle="writes of clients to these OSDs",
            blocks_before=len(before), blocks_after=len(after),
        )
    first, later = log_ratios(before, mine, others), log_ratios(after, mine, others)
    if min(len(first), len(later)) < USABLE_MIN:
        return Judgement(
            Verdict.UNDECIDED, why="too few blocks in which all these OSDs carried load",
            settle="steadier writes of clients", blocks_before=len(first),
            blocks_after=len(later),
        )
    return _decide(first, later, len(mine), len(others), parts)


def _decide(
    first: Sequence[float], later: Sequence[float], treated: int, controls: int, parts: int
) -> Judgement:
    seen = difference(first, later)
    low = seen.low(FALSE_WORSE / len(LOOKS) / parts)
    high = seen.high(FALSE_NO_WORSE / len(LOOKS))
    verdict = Verdict.UNDECIDED
    if low > 0.0 and seen.mean > MATERIAL_LN:
        verdict = Verdict.WORSE
    elif high < 0.0:
        verdict = Verdict.BETTER
    elif high < MATERIAL_LN:
        verdict = Verdict.NO_WORSE
    settle = ""
    if verdict is Verdict.UNDECIDED:
        spread = max(1e-9, high - seen.mean)
        room = max(0.02, abs(MATERIAL_LN - seen.mean))
        times = min(99.0, max(1.5, (spread / room) ** 2))
        settle = f"about {times:.0f} times as many blocks, or a steadier load"
    return Judgement(
        verdict, _exp(seen.mean), _exp(low), _exp(high), len(first), len(later), treated,
        controls, "" if verdict is not Verdict.UNDECIDED else "the blocks vary too much",
        settle,
    )


def _exp(value: float) -> float:
    return round(math.exp(min(20.0, max(-20.0, value))), 4)
