"""The statistics of a 2x2 factorial, for one of its two drives.

Three statistics of each replicate (four periods, one in each combination of modes): the
drive's difference while the other one was in write back, the same in write through, and
from these their mean (the main effect) and what one is above the other (the interaction;
Box, Hunter and Hunter, Statistics for Experimenters, chapter 5).  Replicates are
independent, the pairs within one are not: they share its place in time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Dict, List, Sequence, Tuple

from ..core.experiment.factorial import PROVEN, Cell, crossed_arm, replicates
from ..core.experiment.run_state import FIRST_LOOK
from ..core.model import Arm, Verdict
from ..core.options.entries import CACHE_MODES
from ..core.record import CrossedDrive, Pair, Period
from ..core.text import gained
from ..core.verdict import sequential
from ..core.verdict.sequential import DECIDE_ALPHA, SAME_ALPHA, ratios, rounded, verdict_of
from .decision import Decision, Materiality, holds
from .pairs import Differences, differences, level, toggled_between
from .summary import DIGITS


class Interaction(str, Enum):
    """Whether what one drive's mode does depends materially on the other's."""

    NONE = "none that matters"
    PROVEN = PROVEN
    OPEN = "open"


@dataclass(frozen=True)
class Effects:
    """A drive's log differences, write back minus write through, one per replicate.

    `main` is over both modes of the other drive, `at` while that was in each, and
    `interaction` the one in write back less the one in write through.
    """

    main: Differences
    at: Dict[Arm, Tuple[float, ...]]
    interaction: Tuple[float, ...]

    def standing(self, margin: float) -> Interaction:
        """Proven where the 99% interval clears the margin, none where the 95% is inside."""
        seen = sequential.spread(self.interaction)
        if sequential.differs(sequential.interval(seen, DECIDE_ALPHA), margin):
            return Interaction.PROVEN
        if sequential.same(sequential.interval(seen, SAME_ALPHA), margin):
            return Interaction.NONE
        return Interaction.OPEN


def complete(pairs: Sequence[Pair]) -> List[Pair]:
    """The pairs that belong to complete replicates."""
    return [pair for both in replicates(pairs) for pair in both]


def effects(
    pairs: Sequence[Pair], counter: str, late_watches: Sequence[Period] = ()
) -> Effects:
    """The effects from usable pairs; the rest as `pairs.differences` takes it."""
    both = replicates(pairs)
    halves = [differences([half[i] for half in both], counter) for i in range(len(Arm))]
    stays, stay_sd = _unmoved(both, counter, late_watches)
    main = Differences(
        tuple(first.index // len(Arm) for first, _ in both),
        _mean(halves[0].whole, halves[1].whole), _mean(halves[0].later, halves[1].later),
        _mean(halves[0].tail, halves[1].tail), stays, (), stay_sd, halves[0].tail_slack,
    )
    return Effects(
        main, {arm: half.whole for arm, half in zip(Arm, halves)},
        tuple(round(a - b, DIGITS) for a, b in zip(halves[0].whole, halves[1].whole)),
    )


def decide(
    decision: Decision, seen: Effects, crossed: CrossedDrive, options: Materiality
) -> Decision:
    """The decision on the main effect, in the light of the interaction.

    A main effect is a mean: where the drive's effect depends on the other's mode it speaks
    for neither, and each has to be decided by itself.
    """
    margin, other = options.margin, f"the {crossed.role.value} drive"
    standing = seen.standing(margin)
    told = f"interaction with the mode of {other}: {_told(seen, standing)}"
    kept = replace(decision, why=f"{decision.why}; {told}")
    one_way = decision.verdict.decided
    if standing is not Interaction.PROVEN:
        means = [sequential.spread(values).mean for values in seen.at.values()]
        if one_way and not all(holds(decision.verdict, mean, margin) for mean in means):
            return Decision(
                Verdict.INSUFFICIENT,
                f"{CACHE_MODES.said(decision.verdict)} on average over both modes of {other}, but "
                f"not in each; {told}",
            )
        return kept
    verdicts = {
        arm: verdict_of(sequential.spread(values), margin) for arm, values in seen.at.items()
    }
    each = ", ".join(
        f"{CACHE_MODES.said(verdict)} while it is in {CACHE_MODES.name(arm)}"
        for arm, verdict in verdicts.items()
    )
    if len(set(verdicts.values())) == 1:
        return kept
    if Verdict.INSUFFICIENT in verdicts.values():
        return Decision(Verdict.INSUFFICIENT, f"{told}; {each}", decision.findings)
    return Decision(
        Verdict.CONFLICTING,
        f"the result depends on {other}: {each}; {told}; decide that drive first, then measure "
        "this one again", decision.findings,
    )


def as_plain(
    seen: Effects, pairs: Sequence[Pair], counter: str, options: Materiality
) -> Dict[str, Any]:
    """The interaction, the effects in each mode of the other drive, and the four cells."""
    cells: Dict[Cell, List[float]] = {}
    for pair in pairs:
        for period in pair.periods:
            cells.setdefault((period.arm, crossed_arm(period)), []).append(level(period, counter))
    to_us = 1.0 if counter else 1e-3
    return {
        "standing": seen.standing(options.margin).value,
        **ratios(seen.interaction),
        "while_other_in": {
            CACHE_MODES.name(arm): ratios(values) for arm, values in seen.at.items()
        },
        "cells": [
            {
                "mode": CACHE_MODES.name(arm), "other_mode": CACHE_MODES.name(other),
                "periods": len(levels),
                "level_us": rounded(math.exp(math.fsum(levels) / len(levels)) * to_us),
            }
            for (arm, other), levels in sorted(cells.items(), key=str)
        ],
    }


def _told(seen: Effects, standing: Interaction) -> str:
    # the other way round, as latency is told: below 0 is faster in write through
    found = sequential.spread([-each for each in seen.interaction])
    alpha = SAME_ALPHA if standing is Interaction.NONE else DECIDE_ALPHA
    span = sequential.span(sequential.interval(found, alpha))
    return (
        f"{standing.value} (turning the other drive's cache off changes that factor by "
        f"{gained(math.exp(found.mean))}, {1 - alpha:.0%}: {span})"
    )


def _mean(first: Sequence[float], second: Sequence[float]) -> Tuple[float, ...]:
    return tuple(round((a + b) / 2, DIGITS) for a, b in zip(first, second))


def _unmoved(
    both: Sequence[Tuple[Pair, Pair]], counter: str, late_watches: Sequence[Period]
) -> Tuple[Tuple[Tuple[Arm, float], ...], Tuple[float, int]]:
    """How periods before which this drive was not toggled differ from those after a toggle.

    On average by nothing, unless a toggle goes on doing something: (arm, log difference)
    for each such period, and the sd of one with its degrees of freedom.  Each
    level is taken without its replicate's and its combination's mean; what is left of a
    period has a mean that includes unmoved ones, so it is scaled up by their share.
    """
    periods: List[Tuple[float, int, Period]] = []
    levels: List[List[float]] = []
    for number, halves in enumerate(both):
        four = [p for pair in halves for p in pair.periods]
        levels.append([level(period, counter) for period in four])
        periods += [(p.started_at_s, 4 * number + i, p) for i, p in enumerate(four)]
    count = len(levels)
    if count < FIRST_LOOK:
        return (), (0.0, 0)
    grand = math.fsum(value for row in levels for value in row) / (4 * count)
    columns = [math.fsum(row[i] for row in levels) / count for i in range(4)]
    rows = [math.fsum(row) / 4 for row in levels]
    left = [
        value - rows[number] - columns[i] + grand
        for number, row in enumerate(levels) for i, value in enumerate(row)
    ]
    degrees = 3 * (count - 1)
    sd = math.sqrt(math.fsum(value * value for value in left) / degrees)
    in_time = sorted(periods)
    index = [first.index // len(Arm) for first, _ in both]
    unmoved = [
        (period.arm, left[place])
        for (_, earlier, before), (_, place, period) in zip(in_time, in_time[1:])
        if before.arm is period.arm
        # where a replicate was left out, a toggle may lie between
        and index[place // 4] - index[earlier // 4] <= 1
        and not toggled_between(late_watches, before, period)
    ]
    stays = []
    for arm in Arm:
        values = [value for of, value in unmoved if of is arm]
        share = 1 - len(values) / (2 * count)
        stays += [(arm, round(value / share, DIGITS)) for value in values] if share > 0 else []
    return tuple(stays), (sd / max(1e-9, 1 - len(unmoved) / (4 * count)), degrees)
