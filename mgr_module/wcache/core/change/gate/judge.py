"""Worse, no worse, better or undecided: what blocks say of a change that lies between them.

The unit is a block's log ratio of treated over control OSDs.  What happens to all (a load
that grows, a neighbour, the time of day) is in both and cancels.  The stretch before the
change gives level, variance and correlation, and is longer where these hide the level; the
blocks after it are looked at six times.
What an OSD's moving of PGs adds to its latency is taken out before (`moving`).
What earlier steps of the rollout have shown of the same kind counts (`evidence`), and each look
of the whole rollout spends its part of the same error rates.

What one host claims decides for its own drives; for those of others it counts no more than all
others do together (`evidence`), and its gains make good no harm of theirs (`gate_state`).

A step goes on where all steps together are proven no worse, and where it does not look worse by
itself.  It goes back where all together are proven worse, or it is by itself: one host may have
another firmware.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import Enum
from statistics import median
from typing import Dict, List, Mapping, Sequence, Tuple

from ...loads import MATERIAL_LN, OSDS_MAX, Block
from ...text import risen, since
from .blocks import (
    CONTROLS_MIN,
    Difference,
    alike,
    beside_moves,
    difference,
    evened,
    log_ratios,
    mean_error,
    moves,
    present,
    waited_s,
)
from .evidence import COMMITS, READS, Sums, share

BLOCKS_BEFORE = 96
# Where noise hides the level after so many blocks, there are more, up to the last of these.
LOOKS_BEFORE = (BLOCKS_BEFORE, 144, 192, 256)
# The standard error of that level as a logarithm, below which more blocks before add little.
LEVEL_ERROR = 0.0125
# After a wait, where steps of the same kind were judged well: those count as well.
BLOCKS_AGAIN = 32
# Blocks after the change at which it is judged.  Correlated noise and stalls take the later ones.
LOOKS = (8, 20, 40, 96, 192, 384)
# A canary that is to be watched for long has so many blocks, which are longer then.
WATCHED = 96
# Of so few blocks two that stall by chance make a mean that looks proven: half of the blocks
# must be slower as well.
FEW = 40
# One-sided, over all looks of a rollout: one whose changes do no harm is called worse at most
# this often, half of it by all steps together, half by a step by itself.  0.01 is promised; what
# the estimated correlation costs in short stretches is between.
FALSE_WORSE = 0.006
# And one whose changes make commits slower by a material ratio is called no worse.
FALSE_NO_WORSE = 0.05
NOTHING_PAST = Sums()
Hosts = Mapping[int, str]
NO_HOSTS: Hosts = {}
# No quantile is asked for beyond this: the differences of two probabilities end there.
ALPHA_MIN = 1e-12
# So few usable blocks say nothing.
USABLE_MIN = 8


class Effect(str, Enum):
    """What a step has done to clients."""

    WORSE = "worse"
    NO_WORSE = "no worse"
    BETTER = "better"
    UNDECIDED = "undecided"


# Of writes and reads the graver one counts; better only where neither is otherwise.
_GRAVEST = (Effect.WORSE, Effect.UNDECIDED, Effect.NO_WORSE, Effect.BETTER)


@dataclass(frozen=True)
class HostHarm:
    """What clients have waited longer for one host's OSDs, and the square of its error."""

    host: str
    extra_s: float = 0.0
    squares: float = 0.0


@dataclass(frozen=True)
class Judgement:
    """A verdict with its figures: after over before, above 1 is slower.

    `ratio`, `low` and `high` are what decided, 0 where nothing could be compared: of all steps
    `together`, or of the step by itself, whose own ratio is `alone`.  `controls` 0: before and
    after alone.  `settle` says what would decide it, where it is undecided.
    """

    verdict: Effect
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
    alone: float = 1.0
    together: Sums = NOTHING_PAST
    # what clients have waited longer for these OSDs since the change, and its standard error
    extra_s: float = 0.0
    extra_error_s: float = 0.0
    by_host: Tuple[HostHarm, ...] = field(default=(), metadata={"max_items": OSDS_MAX})

    @property
    def goes_on(self) -> bool:
        """Whether the next step may begin."""
        return self.verdict in (Effect.NO_WORSE, Effect.BETTER)

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
        steps = self.together.steps
        pooled = f", {steps} steps together, this one {risen(self.alone)}" if steps > 1 else ""
        changed = since(self.ratio, self.low, self.high)
        return f"{self.verdict.value}: {self.of} latency {changed}{pooled}, {beside}"


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


def level_known(
    before: Sequence[Block], treated: Sequence[int], controls: Sequence[int], reads: bool
) -> bool:
    """Whether more blocks before the change would add little to what they can tell of it.

    By writes, and with `reads` by those as well.  What has no load is not waited for.
    """
    known = True
    for each in (before, *([_of_reads(before)] if reads else [])):
        mine, others, why = load_of(each, treated, controls)
        if not why:
            steady, _, _ = evened(each, (), mine, others)
            known = known and mean_error(log_ratios(steady, mine, others)) <= LEVEL_ERROR
    return known


def judge_all(
    before: Sequence[Block], after: Sequence[Block], kinds: Mapping[str, Sequence[int]],
    controls: Sequence[int], *, reads: bool = False, look: int = 1,
    past: Sequence[Sums] = (), hosts: Hosts = NO_HOSTS,
) -> Tuple[Judgement, ...]:
    """Each kind's OSDs by writes, and by reads where these may change; the gravest first.

    What clients did not do before is left out.  All judgements share the error rates of one.
    `hosts` has the host of each OSD; one that is not in it stands for itself.
    """
    found = [
        (kind, of, each[0], each[1], tuple(osd_ids)) for kind, osd_ids in kinds.items()
        for of, each in (
            (COMMITS, (before, after)),
            *([(READS, (_of_reads(before), _of_reads(after)))] if reads else []),
        )
    ]
    told = [item for item in found if not load_of(item[2], item[4], controls)[2]] or found[:1]
    known = {(item.kind, item.of): item for item in past}
    judged = [
        replace(judge(
            first, later, osd_ids, controls, look=look,
            past=known.get((kind, of), Sums(kind, of)), parts=len(told), hosts=hosts,
        ), of=of)
        for kind, of, first, later, osd_ids in told
    ]
    return tuple(sorted(judged, key=lambda item: _GRAVEST.index(item.verdict)))


def _of_reads(blocks: Sequence[Block]) -> List[Block]:
    return [block.of_reads for block in blocks]


def judge(
    before: Sequence[Block], after: Sequence[Block], treated: Sequence[int],
    controls: Sequence[int], *, look: int = 1, past: Sums = NOTHING_PAST, parts: int = 1,
    hosts: Hosts = NO_HOSTS,
) -> Judgement:
    """What is known after so many blocks; UNDECIDED where it may be known later.

    It is look number `look` of the rollout, whose earlier steps have shown `past`.  `parts`: so
    many judgements are made beside each other, of which one is believed.
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
            Effect.UNDECIDED, why=why, settle="writes of clients to these OSDs",
            blocks_before=len(before), blocks_after=len(after), together=past,
        )
    before, after, doubt = evened(before, after, mine, others)
    first, later = log_ratios(before, mine, others), log_ratios(after, mine, others)
    if min(len(first), len(later)) < USABLE_MIN:
        return Judgement(
            Effect.UNDECIDED, why="too few blocks in which all these OSDs carried load",
            settle="steadier writes of clients", blocks_before=len(first),
            blocks_after=len(later), together=past,
        )
    seen = difference(first, later)
    seen = replace(seen, error=math.hypot(seen.error, doubt))
    doubted = beside_moves(seen, tuple(moves(before, after, others).values()), len(mine))
    shifted = len(later) >= FEW or median(later) - median(first) > MATERIAL_LN / 2.0
    weight = len(mine) * len(first) * len(later) / (len(first) + len(later))
    of_hosts = _by_host(mine, hosts)
    each = {host: seen for host in of_hosts} if len(of_hosts) == 1 else {
        host: difference(*(log_ratios(blocks, ids, others) for blocks in (before, after)))
        for host, ids in of_hosts.items()
    }
    means = {
        host: (len(ids) / len(mine), each[host].mean) for host, ids in of_hosts.items()
    }
    found = _decide(
        seen, doubted, past, Sums().beside(seen, weight, means), share(look), parts, shifted
    )
    usual_s = waited_s(after, mine) * math.exp(min(20.0, -seen.mean))
    return replace(
        found, together=past.beside(seen, weight, means), blocks_before=len(first),
        blocks_after=len(later), treated=len(mine), controls=len(others),
        extra_s=waited_s(after, mine) - usual_s, extra_error_s=usual_s * seen.error,
        by_host=_harm_of(after, of_hosts, each, usual_s * seen.error),
    )


def _by_host(osd_ids: Sequence[int], hosts: Hosts) -> Dict[str, List[int]]:
    found: Dict[str, List[int]] = {}
    for osd_id in osd_ids:
        found.setdefault(hosts.get(osd_id, f"osd.{osd_id}"), []).append(osd_id)
    return found


def _harm_of(
    after: Sequence[Block], of_hosts: Mapping[str, Sequence[int]],
    each: Mapping[str, Difference], error_s: float,
) -> Tuple[HostHarm, ...]:
    """Each host's own; `error_s` is that of all together, whose controls are the same."""
    found = []
    for host, ids in of_hosts.items():
        waited, seen = waited_s(after, ids), each[host]
        usual_s = waited * math.exp(min(20.0, -seen.mean))
        found.append(HostHarm(host, waited - usual_s, (usual_s * seen.error) ** 2))
    squares = sum(item.squares for item in found)
    wider = max(1.0, error_s**2 / squares) if squares > 0.0 else 1.0
    return tuple(replace(item, squares=wider * item.squares) for item in found)


def _decide(
    alone: Difference, doubted: Difference, past: Sums, step: Sums, part: float,
    parts: int, shifted: bool,
) -> Judgement:
    """`doubted` is `alone` with what OSDs drift: a step by itself is called worse by that.

    Steps together, of other OSDs at other times, do not drift alike.
    """
    pooled = past.for_others({item.host for item in step.hosts}, step)
    worse_alpha = max(ALPHA_MIN, FALSE_WORSE * part / 2.0 / parts)
    high = pooled.high(max(ALPHA_MIN, FALSE_NO_WORSE * part))
    verdict, told = Effect.UNDECIDED, pooled
    low = (pooled if past.steps else doubted).low(worse_alpha)
    if shifted and low > 0.0 and pooled.mean > MATERIAL_LN:
        verdict = Effect.WORSE
    elif shifted and doubted.low(worse_alpha) > 0.0 and alone.mean > MATERIAL_LN:
        verdict, told, high = Effect.WORSE, alone, alone.high(worse_alpha)
        low = doubted.low(worse_alpha)
    elif alone.mean <= MATERIAL_LN and high < MATERIAL_LN:
        verdict = Effect.BETTER if high < 0.0 else Effect.NO_WORSE
    why = settle = ""
    if verdict is Effect.UNDECIDED:
        why = "the blocks vary too much"
        if high < MATERIAL_LN:
            why = "this step looks worse than those before it, and that is not proven"
        spread = max(1e-9, high - pooled.mean)
        room = max(0.02, abs(MATERIAL_LN - pooled.mean))
        times = min(99.0, max(1.5, (spread / room) ** 2))
        settle = f"about {times:.0f} times as many blocks, or a steadier load"
    return Judgement(
        verdict, _exp(told.mean), _exp(low), _exp(high), why=why,
        settle=settle, alone=_exp(alone.mean),
    )


def _exp(value: float) -> float:
    return round(math.exp(min(20.0, max(-20.0, value))), 4)
