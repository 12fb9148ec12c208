"""What the measured drives of one drive model say together at one load point.

From three drives on the child's pool speaks, with the drive as the unit.  Below that, or
where there is no pool, agreement decides: what half of the drives decided, as long as the
others are undecided and may be like them; contradiction is said.  Neither overrules a
finding about a single drive: what a flush too fast or a transient showed was no cache mode.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Dict, Iterable, List, Optional, Sequence, Set, Tuple

from ..experiment.run_state import FIRST_LOOK
from ..model import FindingCode, LoadPoint, Verdict
from ..options.entries import CACHE_MODES, Arms
from .repeated import Standing
from .result import DOUBTS, Estimate, estimate

POOL_DRIVES_MIN = 3
# A campaign samples 6 drives of a drive model; more than these would tell nothing more.
POOL_DRIVES_MAX = 512
# Fewer pairs have no spread to judge a drive by.
POOL_PAIRS_MIN = FIRST_LOOK
NAMED_MAX = 3  # drives in one note


@dataclass(frozen=True)
class Pool:
    """The pooled estimate over `record_ids`, or in `refused` why there is none.

    `low` and `high` are the 99% interval of the mean, `next_low` and `next_high` where one
    more drive, measured as well as these, is expected with 95%.
    """

    record_ids: Tuple[str, ...]
    verdict: Verdict = Verdict.INSUFFICIENT
    why: str = ""
    drives: int = 0
    ratio: Optional[float] = None
    low: Optional[float] = None
    high: Optional[float] = None
    next_low: Optional[float] = None
    next_high: Optional[float] = None
    odd_drives: Tuple[str, ...] = ()
    refused: str = ""


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
    """The drives as one: by `pool` where it is one of just these, else by agreement."""
    ids = tuple(sorted(drive.weighed_id for drive in poolable(drives)))
    if pool is not None and pool.record_ids == ids and not pool.refused:
        return _unless_flagged(_by_pool(load_point, drives, pool), drives)
    reason = unlike(drives)
    if not reason and len(drives) >= POOL_DRIVES_MIN:
        few = len(ids) < POOL_DRIVES_MIN
        reason = pool.refused if pool is not None else ""
        reason = reason or ("too few pairs on some" if few else "its result is not computed yet")
    notes: Tuple[str, ...] = ()
    if reason:
        notes = (f"{load_point.short}: judged by consensus of the drives, not pooled: {reason}",)
    return _unless_flagged(_by_agreement(load_point, drives, notes, arms), drives)


def poolable(drives: Sequence[Standing]) -> List[Standing]:
    """The drives that a pool takes, at most POOL_DRIVES_MAX; none where they are not alike."""
    if unlike(drives):
        return []
    kept = [d for d in drives if d.pool_term is not None and d.pairs >= POOL_PAIRS_MIN]
    return sorted(kept, key=lambda drive: drive.weighed_id)[:POOL_DRIVES_MAX]


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
        load_point, pool.verdict, len(drives), pool.ratio, pool.low, pool.high,
        f"99% of the mean of {pool.drives} drives", True, pool.next_low, pool.next_high,
        pool.odd_drives, notes,
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
    modes = [verdict for verdict in of if verdict.mode is not None and of[verdict]]
    if not modes:
        same = len(of[Verdict.NO_DIFFERENCE]) == len(drives)
        return (Verdict.NO_DIFFERENCE if same else Verdict.INSUFFICIENT), ""
    mode, alike, rest = modes[0], of[modes[0]], of[Verdict.INSUFFICIENT]
    against = [drive for verdict in modes[1:] for drive in of[verdict]]
    against += of[Verdict.NO_DIFFERENCE]
    against += [drive for drive in rest if not drive.estimate.allows(mode)]
    if against:
        return Verdict.CONFLICTING, (
            f"{_named(alike)} better in {arms.said(mode)}, but {_named(against)} not; look at "
            f"those drives, and measure {POOL_DRIVES_MIN} or more of the same kind"
        )
    apart = [drive for drive in rest if not any(_overlap(drive, other) for other in alike)]
    if apart:
        return Verdict.INSUFFICIENT, (
            f"{_named(alike)} better in {arms.said(mode)}, {_named(apart)} undecided and proven "
            "different; measure the undecided ones for longer"
        )
    return (mode if 2 * len(alike) >= len(drives) else Verdict.INSUFFICIENT), ""


def _overlap(one: Standing, other: Standing) -> bool:
    """Whether two drives may have one ratio; what has no interval may have any."""
    a, b = one.estimate, other.estimate
    return a.ratio_low <= b.ratio_high and b.ratio_low <= a.ratio_high


def _named(drives: Sequence[Standing]) -> str:
    """Drives by name with their intervals, the first few of them."""
    found = []
    for drive in drives[:NAMED_MAX]:
        known = drive.estimate.bounded
        found.append(f"{drive.drive_name} ({drive.estimate.span})" if known else drive.drive_name)
    more = len(drives) - len(found)
    return f"{', '.join(found)}{f' and {more} more' if more else ''}"
