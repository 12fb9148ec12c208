"""What the measured drives of one drive model say together at one load point.

From three drives on they are pooled, with the drive as the unit.  Below that, or where they
are not alike, agreement decides: what half of the drives decided, as long as the others are
undecided and may be like them; contradiction is said.  Neither overrules a finding about a
single drive: what a flush too fast or a transient showed was no cache mode.

Each drive has its own true log ratio, spread with tau around the drive model's, and is
measured with its own error.  The interval of a pool is Student's t of the drives' plain mean,
with k - 1 degrees of freedom: at 95% and above it misses no more often than it says, however
unlike the drives' errors are (Bakirov and Szekely, Journal of Mathematical Sciences 2006;
Ibragimov and Mueller, Journal of Business & Economic Statistics 2010).  What the drives'
own errors come to is a floor: drives that agree by chance never narrow it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Dict, Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple

from ..experiment.run_state import FIRST_LOOK
from ..figures.student_t import t_exact
from ..loads import MATERIAL_RATIO
from ..model import FindingCode, LoadPoint, Verdict
from ..options.entries import CACHE_MODES, Arms
from ..text import named
from . import sequential
from .repeated import Standing
from .result import DOUBTS, Estimate, PoolTerm, estimate
from .sequential import DECIDE_ALPHA, SAME_ALPHA, Interval, ratio

POOL_DRIVES_MIN = 3
# A campaign samples 6 drives of a drive model; more than these would tell nothing more.
POOL_DRIVES_MAX = 512
# Fewer pairs have no spread to judge a drive by.
POOL_PAIRS_MIN = FIRST_LOOK
NAMED_MAX = 3  # drives in one note


class Member(NamedTuple):
    """A drive of a pool: its mean log ratio, the variance of that, and its own verdict."""

    name: str
    mean: float
    variance: float
    verdict: Verdict


def member(name: str, pairs: int, mean: float, pair_sd: float, verdict: Verdict) -> Member:
    """A drive by what its pairs say."""
    return Member(name, mean, max(pair_sd, sequential.SD_FLOOR) ** 2 / pairs, verdict)


@dataclass(frozen=True)
class Pool:
    """Drives as one, in log ratios: `far` and `near` are the 99% and the 95% interval of the mean.

    `coming` is where one more drive, measured as well as these, is expected with 95%, and `tail`
    the 99% interval of the 90th percentiles, where enough drives tell of theirs.
    """

    verdict: Verdict
    why: str
    drives: int
    far: Interval
    near: Interval
    coming: Interval
    tau: float = 0.0
    tail: Optional[Interval] = None
    odd_drives: Tuple[str, ...] = ()


class _AsOne(NamedTuple):
    """Drives as one: their mean, the sd of one drive as it was measured, tau^2, their count."""

    mean: float
    sd: float
    tau2: float
    drives: int

    def mean_within(self, alpha: float) -> Interval:
        """Where the mean of the drive model lies."""
        return self._around(self.sd / math.sqrt(self.drives), alpha)

    def next_within(self, alpha: float) -> Interval:
        """Where one more drive would be found, measured as well as these."""
        return self._around(self.sd * math.sqrt(1 + 1 / self.drives), alpha)

    def _around(self, error: float, alpha: float) -> Interval:
        half = t_exact(self.drives - 1, alpha) * error
        return Interval(self.mean, self.mean - half, self.mean + half)


def _together(drives: Sequence[Member]) -> _AsOne:
    """The unweighted mean of drives, how far one drive lies from it, and tau^2 of that.

    No weights: they would need tau, of which a few noisy drives show nothing, and then the
    best measured drive would stand for all.  Nor is it chance how well one is measured:
    those that clearly differ stop early.
    """
    count = len(drives)
    mean = math.fsum(one.mean for one in drives) / count
    seen = math.fsum((one.mean - mean) ** 2 for one in drives) / (count - 1)
    within = math.fsum(one.variance for one in drives) / count
    return _AsOne(mean, math.sqrt(max(seen, within)), max(0.0, seen - within), count)


def pool_of(
    drives: Iterable[Member], tails: Sequence[Member], tail_slack: float, arms: Arms,
    material_ratio: float = MATERIAL_RATIO,
) -> Pool:
    """What POOL_DRIVES_MIN drives or more say as one; those that stand apart are named."""
    drives = sorted(drives)
    found = _together(drives)
    far, near = found.mean_within(DECIDE_ALPHA), found.mean_within(SAME_ALPHA)
    tail = None
    if len(tails) >= POOL_DRIVES_MIN:
        tail = _together(tails).mean_within(DECIDE_ALPHA)
    odd = sequential.odd_ones([one.mean for one in drives], [one.variance for one in drives])
    verdict, why = _decide(drives, far, near, tail, tail_slack, arms, material_ratio)
    return Pool(
        verdict, why, len(drives), far, near, found.next_within(SAME_ALPHA),
        math.sqrt(found.tau2), tail, tuple(drives[i].name for i in odd),
    )


def _decide(
    drives: Sequence[Member], far: Interval, near: Interval, tail: Optional[Interval],
    tail_slack: float, arms: Arms, material_ratio: float,
) -> Tuple[Verdict, str]:
    through, back = (
        [one.name for one in drives if one.verdict is verdict]
        for verdict in (Verdict.B, Verdict.A)
    )
    if through and back:
        return Verdict.CONFLICTING, (
            f"{len(through)} drives are proven better in {arms.b} and {len(back)} in "
            f"{arms.a} (such as {through[0]} and {back[0]}); look at those drives"
        )
    margin = math.log(material_ratio)
    verdict, basis = sequential.verdict(far, near, margin), f"over {len(drives)} drives"
    worse = sequential.differs(tail, margin + tail_slack) if tail else 0
    contradiction = worse and sequential.contradicted_by_tail(
        verdict, Verdict.B if worse > 0 else Verdict.A,
        "mean" if tail_slack else "median", arms,
    )
    if contradiction:
        return Verdict.CONFLICTING, (
            f"{contradiction}, {basis}; measure the load that matters for longer"
        )
    return verdict, sequential.verdict_text(verdict, far, near, material_ratio, basis, arms)


@dataclass(frozen=True)
class LoadVerdict:
    """What the sampled drives of a drive model say together at one load point.

    Its fields are printed as they stand (`recommend --format json`).  `interval` says
    what `ratio_low` and `ratio_high` are.
    """

    load_point: LoadPoint
    verdict: Verdict
    drives: int
    ratio: Optional[float]
    ratio_low: Optional[float]
    ratio_high: Optional[float]
    interval: str = ""
    pooled: bool = False
    next_low: Optional[float] = None
    next_high: Optional[float] = None
    odd_drives: Tuple[str, ...] = ()
    notes: Tuple[str, ...] = field(default=())
    # what one of the drives is flagged for; then the intervals prove nothing
    doubts: Tuple[FindingCode, ...] = ()

    @property
    def estimate(self) -> Estimate:
        """Its verdict with its interval."""
        return estimate(
            self.verdict, self.ratio, self.ratio_low, self.ratio_high, bool(self.doubts)
        )


def pooled(
    load_point: LoadPoint, drives: Sequence[Standing], pool: Optional[Pool] = None,
    arms: Arms = CACHE_MODES,
) -> LoadVerdict:
    """The drives as one: by their pool where there is one, else by agreement."""
    if pool is not None:
        return _unless_flagged(_by_pool(load_point, drives, pool), drives)
    few = "" if len(drives) < POOL_DRIVES_MIN else "too few pairs on some"
    if few and any(drive.verdict is Verdict.CONFLICTING for drive in drives):
        few = "contradictory results, or too few pairs, on some"
    reason = unlike(drives) or few
    notes: Tuple[str, ...] = ()
    if reason:
        notes = (f"{load_point.short}: judged by consensus of the drives, not pooled: {reason}",)
    return _unless_flagged(_by_agreement(load_point, drives, notes, arms), drives)


def in_pool(drives: Sequence[Standing]) -> List[Tuple[Standing, PoolTerm]]:
    """Those of which a pool is made, with their terms: at most POOL_DRIVES_MAX."""
    return [
        (drive, drive.pool_term) for drive in sorted(drives, key=lambda drive: drive.weighed_id)
        if drive.pool_term is not None and drive.pairs >= POOL_PAIRS_MIN
    ][:POOL_DRIVES_MAX]


def pool_drives(
    drives: Sequence[Standing], arms: Arms = CACHE_MODES, material_ratio: float = MATERIAL_RATIO
) -> Optional[Pool]:
    """The pool of those that can be pooled; None where they are not alike, or too few."""
    if unlike(drives):
        return None
    taken: List[Member] = []
    tails: List[Member] = []
    for drive, term in in_pool(drives):
        of = (drive.drive_name, drive.pairs)
        taken.append(member(*of, term.log_ratio, term.pair_sd, drive.verdict))
        if term.tail_log_ratio is not None and term.tail_pair_sd is not None:
            tails.append(member(*of, term.tail_log_ratio, term.tail_pair_sd, drive.verdict))
    if len(taken) < POOL_DRIVES_MIN:
        return None
    traffic = drives[0].load_point is LoadPoint.OSD_TRAFFIC and drives[0].real
    slack = sequential.SLACK if traffic else 0.0
    found = pool_of(taken, tails, slack, arms, material_ratio)
    verdict, why = overruled(found.verdict, [(one.name, one.verdict, ()) for one in taken])
    return replace(found, verdict=verdict, why=why or found.why)


def unlike(drives: Sequence[Standing]) -> str:
    """The fields in which drives differ that pooling needs alike, in words; empty if none."""
    terms = [drive.pool_term for drive in drives if drive.pool_term is not None]
    values: Dict[str, List[str]] = {
        "transport": [term.transport.value for term in terms],
        "role": [term.role.value for term in terms],
        "Ceph release": [term.ceph_release for term in terms],
        "rotational": [str(term.rotational) for term in terms],
        "roles on other drives than block": [term.apart or "nothing" for term in terms],
        "slow operations meanwhile": ["yes" if term.slow_ops else "no" for term in terms],
        "throwaway": [str(drive.throwaway) for drive in drives if drive.pool_term is not None],
    }
    parts = [
        f"{name} ({', '.join(sorted(set(found)))})"
        for name, found in values.items() if len(set(found)) > 1
    ]
    return f"they differ in {'; '.join(parts)}" if parts else ""


def _by_pool(load_point: LoadPoint, drives: Sequence[Standing], pool: Pool) -> LoadVerdict:
    notes: Tuple[str, ...] = ()
    if pool.odd_drives:
        odd = ", ".join(pool.odd_drives)
        notes = (f"{load_point.short}: outlier drives, kept in the pool: {odd}",)
    return LoadVerdict(
        load_point, pool.verdict, len(drives), ratio(pool.far.mean), ratio(pool.far.low),
        ratio(pool.far.high), f"99% of the mean of {pool.drives} drives", True,
        ratio(pool.coming.low), ratio(pool.coming.high), pool.odd_drives, notes,
    )


def _unless_flagged(load: LoadVerdict, drives: Sequence[Standing]) -> LoadVerdict:
    """The load as pooled, unless one of its drives contradicts itself or is flagged."""
    doubts = {code for drive in drives for code in drive.doubts}
    verdict, why = overruled(
        load.verdict, [(drive.drive_name, drive.verdict, drive.doubts) for drive in drives]
    )
    notes = load.notes
    if why:
        where = "" if verdict is Verdict.CONFLICTING else "; see `ceph wcache status`"
        notes = (*notes, f"{load.load_point.short}: {why}{where}")
    return replace(
        load, verdict=verdict, notes=notes, doubts=tuple(code for code in DOUBTS if code in doubts)
    )


def overruled(
    pooled_verdict: Verdict, drives: Iterable[Tuple[str, Verdict, Iterable[FindingCode]]]
) -> Tuple[Verdict, str]:
    """What drives say together after what each (name, verdict, doubts) says of itself.

    With why that overrules `pooled_verdict`, '' where it stands.  One that contradicts itself
    makes all contradict; with one that is flagged nothing is decided.
    """
    flagged: Dict[str, Set[str]] = {}
    for name, verdict, doubts in drives:
        if verdict is Verdict.CONFLICTING:
            return verdict, f"{name} gave contradictory results; look at that drive"
        codes = {code.value for code in doubts if code in DOUBTS}
        if codes:
            flagged.setdefault(name, set()).update(codes)
    if not flagged or pooled_verdict is Verdict.CONFLICTING:
        return pooled_verdict, ""
    names = ", ".join(list(flagged)[:NAMED_MAX])
    raised = ", ".join(sorted(set().union(*flagged.values())))
    return Verdict.INSUFFICIENT, f"{names} raised {raised}, so there is no verdict"


def _by_agreement(
    load_point: LoadPoint, drives: Sequence[Standing], notes: Tuple[str, ...], arms: Arms
) -> LoadVerdict:
    sure = [drive for drive in drives if not drive.doubts]
    verdict, said = _agreed(sure, arms)
    if said:
        notes = (*notes, f"{load_point.short}: {said}")
    found = [drive.estimate for drive in drives]
    ratios = sorted(item.ratio for item in found if item.ratio is not None and item.ratio > 0)
    lows = [item.ratio_low for item in found if item.bounded]
    highs = [item.ratio_high for item in found if item.bounded]
    count = len(drives)
    return LoadVerdict(
        load_point, verdict, count, _middle(ratios) if ratios else None,
        min(lows, default=None), max(highs, default=None),
        "99% of one drive" if count == 1 else f"widest 99% of {count} drives", notes=notes,
    )


def _middle(ratios: Sequence[float]) -> float:
    """The median of sorted ratios: of their logarithms, so that swapped modes mirror it."""
    below, above = ratios[(len(ratios) - 1) // 2], ratios[len(ratios) // 2]
    return below * math.sqrt(above / below)


def _agreed(drives: Sequence[Standing], arms: Arms) -> Tuple[Verdict, str]:
    """What drives that are not pooled say together, and who disagrees, in words.

    Half of them name an arm for all, if the others are undecided and may be like them.
    """
    of: Dict[Verdict, List[Standing]] = {verdict: [] for verdict in Verdict}
    for drive in drives:
        of[drive.verdict].append(drive)
    better = [verdict for verdict in (Verdict.B, Verdict.A) if of[verdict]]
    if not better:
        same = len(of[Verdict.NO_DIFFERENCE]) == len(drives)
        return (Verdict.NO_DIFFERENCE if same else Verdict.INSUFFICIENT), ""
    best, alike, rest = better[0], of[better[0]], of[Verdict.INSUFFICIENT]
    against = [drive for verdict in better[1:] for drive in of[verdict]]
    against += of[Verdict.NO_DIFFERENCE]
    against += [drive for drive in rest if not drive.estimate.allows(best)]
    if against:
        return Verdict.CONFLICTING, (
            f"{_named(alike)} better in {arms.said(best)}, but {_named(against)} not; look at "
            f"those drives, and measure {POOL_DRIVES_MIN} or more of the same kind"
        )
    apart = [
        drive for drive in rest if not any(drive.estimate.overlaps(one.estimate) for one in alike)
    ]
    if apart:
        return Verdict.INSUFFICIENT, (
            f"{_named(alike)} better in {arms.said(best)}, {_named(apart)} undecided and proven "
            "different; measure the undecided ones for longer"
        )
    return (best if 2 * len(alike) >= len(drives) else Verdict.INSUFFICIENT), ""


def _named(drives: Sequence[Standing]) -> str:
    """Drives by name with their intervals, the first few of them."""
    return named([
        f"{one.drive_name} ({one.estimate.span})" if one.estimate.bounded else one.drive_name
        for one in drives
    ], NAMED_MAX)
