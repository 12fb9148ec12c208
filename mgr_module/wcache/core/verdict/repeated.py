"""Several experiments of one drive at one load: what they say together.

They are taken as one experiment that went on.  A repeated confidence interval holds at every
look, whatever made somebody stop and go on (Jennison and Turnbull 1989), so all pairs together
have the interval of that many pairs.  Where the experiments differ more than their pairs do,
the error of the mean grows by that (Birge, Physical Review 1932).  It never shrinks.

What was decided among the newest five stands until all their pairs together leave no room for
it, or another of them proves something else: the last one is not believed for being the last, nor
for being stopped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Dict, Iterable, List, Optional, Sequence, Tuple

from ..experiment.run_state import FIRST_LOOK
from ..loads import MATERIAL_RATIO
from ..model import FindingCode, LoadPoint, Verdict
from ..options.entries import OptionTrial, arms_of
from ..text import many, named, relative
from .result import ArmSummary, PoolTerm, Result, has_finding
from .sequential import DECIDE_ALPHA, SD_FLOOR, Spread, interval, verdict_of

# So many experiments in a row that agree outweigh older ones that they contradict: drives change.
REPEATED = 2
# More looks than the boundaries are made for would err more often than they say.
WEIGHED_MAX = 5  # experiments of a drive, the newest
NAMED_MAX = 4  # experiments in one line


@dataclass(frozen=True)
class Standing(Result):
    """What a drive's experiments at one load say: the one that counts, weighed with its like.

    `record_ids` are those that it was weighed of, newest first; `beside` says of the others, one
    line each, why they do not count.
    """

    record_ids: Tuple[str, ...] = ()
    beside: Tuple[str, ...] = ()

    @property
    def weighed_id(self) -> str:
        """Its name, by all that it was weighed of."""
        return "+".join(self.record_ids)


def standing(results: Sequence[Result], material: float = MATERIAL_RATIO) -> List[Standing]:
    """What counts of each drive at each load point, by what was compared.

    Forced runs missed a precondition and stay out, and so does what has no pair.  `material` is
    the ratio from which a difference is worth a change.
    """
    by_drive: Dict[
        Tuple[str, str, LoadPoint, bool, Optional[OptionTrial]], List[Result]
    ] = {}
    for result in sorted(results, key=lambda r: (r.ended_at_s, r.record_id)):
        if result.analysed and not result.forced and result.pairs > 0:
            key = (
                result.hostname, result.drive_id, result.load_point, result.simulated,
                result.option,
            )
            by_drive.setdefault(key, []).append(result)
    return [_of_one_drive(found, material) for found in by_drive.values()]


def ignoring(results: Iterable[Result]) -> List[Result]:
    """Those whose flushes keep `write back` from their drive model, whatever else counts.

    Forced ones too: no precondition that is missed hides a flush, or makes it too fast.
    """
    found = list(results)
    return unsent(found) + [r for r in found if has_finding(r, FindingCode.FLUSH_TOO_FAST)]


def unsent(results: Iterable[Result]) -> List[Result]:
    """Those in which no flush reached the drive: of each drive and load the newest.

    It stands until the kernel has counted flushes in a later one at that load, as it must have
    for their price: neither an older verdict nor one that tells nothing of flushes answers it.
    """
    found: Dict[Tuple[str, str, LoadPoint], Result] = {}
    for result in sorted(results, key=lambda r: (r.ended_at_s, r.record_id)):
        key = (result.hostname, result.drive_id, result.load_point)
        if has_finding(result, FindingCode.FLUSH_MISSING):
            found[key] = result
        elif result.pin_price_us is not None:
            found.pop(key, None)
    return list(found.values())


def _of_one_drive(found: Sequence[Result], material: float) -> Standing:
    """`found` are its experiments, oldest first; those with another firmware say nothing of it."""
    kind = found[-1].kind
    mine = [result for result in found if result.kind == kind]
    if len(mine) == 1:
        return _standing(mine[0], mine)
    looked_at = [result for result in mine if _units(result) >= FIRST_LOOK][-WEIGHED_MAX:]
    newest = mine[mine.index(looked_at[0]):] if looked_at else mine
    chief = _chief(newest, material)
    like = [result for result in newest if result is chief or _alike(result, chief, material)]
    if chief.verdict is Verdict.CONFLICTING or not _tells(chief, material) or len(like) == 1:
        return _standing(chief, [chief], mine)
    return _weighed(chief, like, mine, math.log(material))


def _chief(mine: Sequence[Result], material: float) -> Result:
    """The newest that proved something; else the newest that tells, unless that is flagged."""
    proven = [r for r in mine if r.verdict is not Verdict.INSUFFICIENT]
    if proven:
        return proven[-1]
    telling = [] if _flagged(mine[-1], material) else [r for r in mine if _tells(r, material)]
    return telling[-1] if telling else mine[-1]


def _flagged(result: Result, material: float) -> bool:
    return bool(result.doubts) or result.estimate.flagged(material)


def _tells(result: Result, material: float) -> bool:
    """Whether its interval says something of the cache mode."""
    return (
        result.verdict is not Verdict.CONFLICTING and not _flagged(result, material)
        and result.estimate.bounded and _units(result) >= FIRST_LOOK
    )


def _units(result: Result) -> int:
    unit = result.pool_term.unit if result.pool_term is not None else 1
    return result.pairs // unit


def _alike(result: Result, chief: Result, material: float) -> bool:
    """Whether it was measured in the same way, and tells."""
    mine, its = result.pool_term, chief.pool_term
    if not _tells(result, material) or mine is None or its is None:
        return _tells(result, material) and mine is its
    return _setup(mine) == _setup(its)


def _setup(term: PoolTerm) -> Tuple[object, ...]:
    return (
        term.transport, term.role, term.ceph_release, term.rotational, term.apart, term.unit,
        term.slow_ops,
    )


def _weighed(
    chief: Result, like: Sequence[Result], mine: Sequence[Result], margin: float
) -> Standing:
    """`like` are oldest first; all of them tell, and they were measured in the same way."""
    apart = [result for result in like if not result.estimate.overlaps(chief.estimate)]
    if apart:
        since = [r for r in like if r.ended_at_s > apart[-1].ended_at_s and r not in apart]
        if sum(result.verdict is chief.verdict for result in since) < REPEATED:
            return _conflicting(chief, like, mine, (
                f"{_named([*apart, chief])} prove different gains for the same drive: measure it "
                "again; two in a row that agree settle it"
            ))
        like = since
    decided = [result for result in like if result.verdict.decided]
    together = _together(like)
    if together is None:
        return _standing(chief, [chief], mine)
    verdict = verdict_of(together, margin)
    if verdict.decided and (decided or _tails_agree(verdict, like, margin)):
        return _standing(_as_one(chief, together, verdict, like), like, mine)
    if not decided:
        return _standing(_as_one(chief, together, Verdict.INSUFFICIENT, like), like, mine)
    allowed = _allows(together, chief.verdict, margin)
    if len({result.verdict for result in decided}) > 1 or not allowed:
        return _conflicting(chief, like, mine, (
            f"{_named(like)} do not agree, and together they decide nothing: measure it again"
        ))
    # what is undecided is no reason to doubt what was decided
    both = _together(decided)
    if both is None or verdict_of(both, margin) is not chief.verdict:
        return _standing(chief, [chief], mine)
    return _standing(_as_one(chief, both, chief.verdict, decided), decided, mine)


def _together(like: Sequence[Result]) -> Optional[Spread]:
    """All units (pairs, or replicates of a factorial) as those of one experiment.

    None where one of them cannot be pooled.
    """
    terms = [result.pool_term for result in like]
    known = [term for term in terms if term is not None]
    if len(known) < len(terms):
        return None
    units = [_units(result) for result in like]
    return _mean(units, [
        (term.log_ratio, max(term.pair_sd / math.sqrt(term.unit), SD_FLOOR)) for term in known
    ])


def _mean(units: Sequence[int], parts: Sequence[Tuple[float, float]]) -> Spread:
    """By (mean, sd of a unit): each unit counts once, so how it came out weighs nothing."""
    count = sum(units)
    mean = math.fsum(n * part[0] for n, part in zip(units, parts)) / count
    within = math.fsum((n - 1) * part[1] ** 2 for n, part in zip(units, parts))
    variance = within / (count - len(units))
    scatter = math.fsum(n * (part[0] - mean) ** 2 for n, part in zip(units, parts))
    birge = max(1.0, scatter / max(1, len(units) - 1) / variance)
    return Spread(count, mean, math.sqrt(variance * birge))


def _allows(together: Spread, verdict: Verdict, margin: float) -> bool:
    """Whether their interval leaves room for what was decided."""
    found = interval(together, DECIDE_ALPHA)
    if verdict is Verdict.NO_DIFFERENCE:
        return found.low < margin and found.high > -margin
    return found.high > margin if verdict is Verdict.B else found.low < -margin


def _tails_agree(verdict: Verdict, like: Sequence[Result], margin: float) -> bool:
    """Whether the 90th percentiles lie on no other side: none of these proved anything alone."""
    logs = [
        (_units(result), result.pool_term.tail_log_ratio) for result in like
        if result.pool_term is not None
    ]
    known = [(n, log) for n, log in logs if log is not None]
    if not known:
        return True
    mean = sum(n * log for n, log in known) / sum(n for n, _ in known)
    if verdict is Verdict.B:
        return mean > -margin
    return mean < margin if verdict is Verdict.A else abs(mean) < margin


def _as_one(chief: Result, together: Spread, verdict: Verdict, like: Sequence[Result]) -> Result:
    """The chief with what all say together; its percentiles of arms stay its own."""
    if len(like) == 1:
        return chief
    term = chief.pool_term
    assert term is not None  # callers looked  # noqa: S101
    found = interval(together, DECIDE_ALPHA)
    return replace(
        chief, verdict=verdict, ratio=math.exp(found.mean), ratio_low=math.exp(found.low),
        ratio_high=math.exp(found.high), pairs=together.n * term.unit,
        why=f"{len(like)} experiments of this drive weighed together: {_named(like)}",
        a=_level(chief.a, [(_units(r), r.a.level_us) for r in like]),
        b=_level(chief.b, [(_units(r), r.b.level_us) for r in like]),
        tail=chief.tail if len({r.tail for r in like}) == 1 else None,
        pool_term=replace(
            term, log_ratio=together.mean, pair_sd=together.sd * math.sqrt(term.unit),
        ),
    )


def _level(own: ArmSummary, levels: Sequence[Tuple[int, Optional[float]]]) -> ArmSummary:
    """An arm with the level of all experiments, each unit once: as their ratio was made."""
    known = [(n, math.log(us)) for n, us in levels if us]
    whole = sum(n for n, _ in known)
    log = math.fsum(n * log for n, log in known) / whole if len(known) == len(levels) else None
    return replace(own, level_us=None if log is None else math.exp(log))


def _conflicting(
    chief: Result, like: Sequence[Result], mine: Sequence[Result], why: str
) -> Standing:
    known = [result.estimate for result in like]
    said = replace(
        chief, verdict=Verdict.CONFLICTING, why=why, pool_term=None,
        ratio_low=min(item.ratio_low for item in known),
        ratio_high=max(item.ratio_high for item in known),
    )
    return _standing(said, like, mine)


def _standing(
    result: Result, members: Sequence[Result], mine: Sequence[Result] = ()
) -> Standing:
    names = {member.record_id for member in members}
    beside = [other for other in mine if other.record_id not in names][::-1]
    more = (f"and {len(beside) - NAMED_MAX} more",) if len(beside) > NAMED_MAX else ()
    values = {item.name: getattr(result, item.name) for item in fields(Result)}
    return Standing(
        **values, record_ids=tuple(member.record_id for member in members)[::-1],
        beside=(*(_beside(result, other) for other in beside[:NAMED_MAX]), *more),
    )


def _beside(result: Result, other: Result) -> str:
    """What another experiment of the drive said, and how it ended."""
    when = "later" if other.ended_at_s > result.ended_at_s else "earlier"
    gain = relative({"ratio": other.ratio, "ratio_low": None, "ratio_high": None})
    said = arms_of(other.option).said(other.verdict)
    return (
        f"a{'n' if when == 'earlier' else ''} {when} experiment ({other.record_id}) is not "
        f"counted: {said}{gain} of {many(other.pairs, 'pair')}, {other.ended}"
    )


def _named(results: Sequence[Result]) -> str:
    """Experiments with their intervals, the first few of them."""
    return named([f"{r.record_id} ({r.estimate.span})" for r in results], NAMED_MAX)
