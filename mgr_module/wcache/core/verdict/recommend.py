"""From verdicts to recommendations: one for each drive model of a device class.

The load decides the answer, so verdicts are pooled per load point first and over load
points then; what points both ways is said and not averaged away.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import (
    Callable,
    Dict,
    Iterable,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
    TypeVar,
    Union,
)

from ..cluster import ClusterState
from ..drive.proofs import AcceptedProof, power_cuts_by_model
from ..host_report import DriveKind, HostReport, OfDriveKind
from ..loads import MATERIAL_RATIO
from ..model import CacheMode, DriveModel, DriveReport, LoadPoint, Verdict
from ..options.entries import CACHE_MODES, OptionTrial, better_mode
from ..text import command, many
from .across_loads import over_loads
from .hosts_by_model import HostsByModel, missing_word
from .load_profile import LoadProfile, evened, merged
from .pooling import POOL_DRIVES_MIN, LoadVerdict, in_pool, pool_drives, pooled
from .repeated import Standing, ignoring, standing
from .result import Estimate, Result, withheld_for

Wanted = TypeVar("Wanted")
FEW = " of this model measured; 3 or more are better"
BURSTS = (
    "a short experiment shows bursts only: watch latency after applying; where a media or SLC "
    "cache ends, `wcache-probe matrix --long 600` shows on a spare drive"
)
OSDS_NAMED_MAX = 8
FALSE_SHARE_MAX = 0.05
LEVEL_ALPHA = 0.01  # of the intervals as they come
# Student's t with f degrees of freedom: its two-sided quantile grows at most by
# (a / b)^(1 / e) from level 1 - a to 1 - b, a <= .01.  f = 2 is a pool of three drives,
# f = 3 the first look of an experiment and any pool from four on.
_POOL_OF_THREE_EXPONENT, _EXPONENT = 1.96, 2.8


@dataclass(frozen=True)
class Recommendation(OfDriveKind):
    """What should be, for one drive model in one device class, and on what evidence.

    `measure_on`: the host whose word is missing, where one host alone does not decide.
    """

    device_class: str
    drive_model: DriveModel
    verdict: Verdict
    mode: Optional[CacheMode]
    why: str
    loads: Tuple[LoadVerdict, ...]
    warnings: Tuple[str, ...]
    record_ids: Tuple[str, ...]
    simulated: bool = False
    measure_on: str = ""


OsdProfiles = Mapping[Tuple[str, str], Mapping[int, LoadProfile]]
"""Load profiles by (device class, drive model), and in each by OSD."""


class PoolKey(NamedTuple):
    """What is pooled together: one kind of drive at one load, by what was compared."""

    kind: DriveKind
    load_point: LoadPoint
    option: Optional[OptionTrial] = None  # None: the cache modes


def groups(results: Sequence[Result]) -> Dict[PoolKey, List[Standing]]:
    """The results that are pooled with each other: what counts of each drive."""
    found: Dict[PoolKey, List[Standing]] = defaultdict(list)
    for result in standing(results):
        key = PoolKey(result.kind, result.load_point, result.option)
        found[key].append(result)
    return dict(found)


def recommend(
    results: Sequence[Result],
    profiles: Optional[OsdProfiles] = None,
    at_home: Optional[HostsByModel] = None,
    reports: Iterable[HostReport] = (),
    accepted: Sequence[AcceptedProof] = (),
) -> Tuple[Recommendation, ...]:
    """One recommendation per (device class, drive model), in a stable order.

    Where the load profile is known, bench loads are weighted by it, and OSDs are named whose own
    load would give another verdict.
    `reports` tell of power cuts that somebody has witnessed, and `accepted` whose evidence
    an admin accepts.  Where few of many drive models would change, they are held to a stricter
    level (`alpha_of`).  What two hosts or more have needs the word of two.
    """
    by_kind: Dict[DriveKind, List[Standing]] = defaultdict(list)
    # a firmware that ignores flushes does so in any device class
    flushing: Dict[DriveKind, List[Result]] = defaultdict(list)
    for key, group in groups(results).items():
        by_kind[key.kind] += group
        flushing[key.kind.in_any_class] += group
    for result in ignoring(results):  # nor is it forgotten beside what else was measured
        flushing[result.kind.in_any_class].append(result)
    own = profiles or {}
    known = {key: merged(tuple(each.values())) for key, each in own.items()}
    cuts = power_cuts_by_model(reports, accepted)
    homes: HostsByModel = at_home or {}

    def at_level(kind: DriveKind, alpha: float) -> Recommendation:
        found = _recommend(by_kind[kind], known.get(kind[:2]), alpha)
        found = _unless_one_host(found, by_kind[kind], homes)
        model = kind.in_any_class
        hosts = {
            name for home, names in homes.items() if home.in_any_class == model for name in names
        }
        why = withheld_for(found.verdict, flushing[model], cuts.get(model, ()), hosts)
        return replace(
            found, verdict=Verdict.INSUFFICIENT, mode=None, why=f"{found.why}, but {why}"
        ) if why else found

    found = {kind: at_level(kind, LEVEL_ALPHA) for kind in sorted(by_kind)}
    return tuple(
        _with_own_loads(item, own.get(kind[:2], {}) if kind.real else {})
        for kind, item in _corrected(found, at_level).items()
    )


def _corrected(
    found: Dict[DriveKind, Recommendation],
    at_level: Callable[[DriveKind, float], Recommendation],
) -> Dict[DriveKind, Recommendation]:
    """Hold those that would change a real drive to the level that their number asks for."""
    among = [kind for kind in found if kind.real]
    selected = {kind for kind in among if found[kind].mode is not None}
    while selected:
        alpha = alpha_of(len(selected), len(among))
        if alpha >= LEVEL_ALPHA:
            break
        stricter = {kind: at_level(kind, alpha) for kind in selected}
        found = {**found, **stricter}
        fallen = {kind for kind in selected if stricter[kind].mode is None}
        if not fallen:
            break
        why = _not_significant(len(selected), len(among))
        found = {
            kind: replace(item, why=why) if kind in fallen else item
            for kind, item in found.items()
        }
        selected -= fallen
    return found


def alpha_of(selected: int, among: int) -> float:
    """The level at which `selected` of `among` drive models have to be proven.

    Each verdict errs once in a hundred by its own account.  Who measures fifty drive models and
    acts on the one that differs has picked the likeliest error.  So where few of many are
    recommended a change, their intervals are widened until the share of false ones among them is
    at most 5% (Benjamini and Yekutieli 2005: the level of a selected interval is 1 - q R / m, with
    R selected of m).  Records keep their verdicts; this acts on recommendations alone.
    """
    if selected <= 0 or among <= 0:
        return LEVEL_ALPHA
    return min(LEVEL_ALPHA, FALSE_SHARE_MAX * selected / among)


def widened(load: LoadVerdict, drives: Sequence[Standing], alpha: float) -> LoadVerdict:
    """The load with its interval at level 1 - alpha; undecided where that proves too little.

    `drives` are those it was pooled of: where they were not pooled, each is widened about
    its own estimate, and the widest of them is the load's.
    """
    if alpha >= LEVEL_ALPHA or load.verdict.arm is None:
        return load
    found: Sequence[Union[LoadVerdict, Standing]] = [load] if load.pooled else drives
    logs = [_logs(item.estimate) for item in found]
    three = load.pooled and len(in_pool(drives)) <= POOL_DRIVES_MIN
    times = (LEVEL_ALPHA / alpha) ** (1 / (_POOL_OF_THREE_EXPONENT if three else _EXPONENT))
    lows = [middle - times * (middle - low) for middle, low, _ in filter(None, logs)]
    highs = [middle + times * (high - middle) for middle, _, high in filter(None, logs)]
    if not lows:
        return load
    low, high = math.exp(max(-99.0, min(lows))), math.exp(min(99.0, max(highs)))
    proven = low > MATERIAL_RATIO or high < 1 / MATERIAL_RATIO
    return replace(
        load, ratio_low=low, ratio_high=high,
        verdict=load.verdict if proven else Verdict.INSUFFICIENT,
        interval=load.interval.replace("99%", f"{1 - alpha:.3%}"),
    )


def _logs(found: Estimate) -> Optional[Tuple[float, float, float]]:
    """Logarithms of an estimate and its interval; None where there is no interval."""
    if not found.ratio or found.ratio <= 0 or not found.bounded:
        return None
    return math.log(found.ratio), math.log(found.ratio_low), math.log(found.ratio_high)


def _not_significant(selected: int, among: int) -> str:
    """Why a recommendation that stood alone does not stand here, with what would settle it."""
    return (
        f"not significant after correcting for multiple comparisons ({selected} of {among} drive "
        "models seem to differ); measure more drives of this model"
    )


def _recommend(
    results: List[Standing], profile: Optional[LoadProfile], alpha: float
) -> Recommendation:
    by_load: Dict[LoadPoint, List[Standing]] = defaultdict(list)
    for result in results:
        by_load[result.load_point].append(result)
    first = results[0]
    loads = []
    for point in LoadPoint:
        measured = by_load.get(point, [])
        if measured:
            load = pooled(point, measured, pool_drives(measured))
            loads.append(widened(load, measured, alpha))
    verdict, why = over_loads(loads, profile)
    warnings = [
        f"osd.{result.osd_id} {result.load_point.short}: {text}"
        for result in results
        for text in (*result.warnings, *_contradictions(result), *result.beside)
    ]
    warnings += [note for load in loads for note in load.notes]
    drives = len({(r.hostname, r.drive_id) for r in results})
    if drives < 3:
        warnings.append(many(drives, "drive") + FEW)
    warnings.append(BURSTS)
    return Recommendation(
        first.device_class, first.drive_model, verdict, better_mode(verdict), why, tuple(loads),
        tuple(warnings), tuple(sorted(name for result in results for name in result.record_ids)),
        first.simulated,
    )


def _with_own_loads(found: Recommendation, own: Mapping[int, LoadProfile]) -> Recommendation:
    """A warning where OSDs, by their own load over the whole time, would get another verdict.

    A drive model is weighted by all writes of its OSDs together, so a busy OSD counts for more.
    """
    verdicts = {
        osd_id: over_loads(found.loads, evened(profile))[0]
        for osd_id, profile in sorted(own.items()) if profile.known
    }
    others = [(osd, verdict) for osd, verdict in verdicts.items() if verdict is not found.verdict]
    if found.mode is None or not others:
        return found
    names = [
        f"osd.{osd_id} {CACHE_MODES.said(verdict)}"
        for osd_id, verdict in others[:OSDS_NAMED_MAX]
    ]
    if len(others) > OSDS_NAMED_MAX:
        names.append(f"and {len(others) - OSDS_NAMED_MAX} more")
    warning = (
        f"on their own workload, {len(others)} of {len(verdicts)} OSDs would not be recommended "
        f"{CACHE_MODES.said(found.verdict)}: {', '.join(names)}"
    )
    return replace(found, warnings=(*found.warnings, warning))


def _contradictions(result: Result) -> Tuple[str, ...]:
    """Why a drive contradicts itself: its median and its tail, or with another drive's mode."""
    return (result.why,) if result.verdict is Verdict.CONFLICTING else ()


def _unless_one_host(
    found: Recommendation, results: Sequence[Standing], at_home: HostsByModel
) -> Recommendation:
    """Withheld where a drive model is on two hosts or more, and one alone has decided."""
    if not found.verdict.decided:
        return found
    loads = [load for load in found.loads if load.load_point is not LoadPoint.FDATASYNC_TIMER]
    missing = missing_word(
        saying(results, found.verdict, loads), {result.hostname for result in results},
        at_home.get(found.kind.home, frozenset()), have="this drive model",
        measure=lambda host: command("ceph wcache campaign start --scope=host:{}", host),
        more=", which is undecided, with more pairs",
    )
    return found if missing is None else replace(
        found, verdict=Verdict.INSUFFICIENT, mode=None, why=f"{found.why}; {missing.why}",
        measure_on=missing.host,
    )


def saying(
    results: Iterable[Result], verdict: Verdict, loads: Sequence[LoadVerdict]
) -> Set[str]:
    """The hosts of experiments that decided what is said together, at a load it stands on.

    Where drives were pooled since none may decide alone, one that lies on that side by more
    than is material says it too.
    """
    deciding = [load for load in loads if load.verdict is verdict] or loads
    return {
        result.hostname for result in results for load in deciding
        if load.load_point is result.load_point and _says(result, verdict, load)
    }


def _says(result: Result, verdict: Verdict, load: LoadVerdict) -> bool:
    if result.verdict is verdict:
        return True
    if load.pooled and result.ratio is not None and _side(result.ratio) is verdict:
        return result.verdict is Verdict.INSUFFICIENT
    return False


def _side(ratio: float) -> Verdict:
    if ratio > MATERIAL_RATIO:
        return Verdict.B
    return Verdict.A if ratio < 1 / MATERIAL_RATIO else Verdict.NO_DIFFERENCE


def recommended_for(
    drive: DriveReport,
    report: HostReport,
    cluster: ClusterState,
    wanted: Mapping[DriveKind, Wanted],
) -> Optional[Wanted]:
    """Return what is wanted of drives of its kind for a drive of a host."""
    if not drive.uses:
        return None
    osd = cluster.osd_of(report, drive.uses[0].osd_id)
    if osd is None and report.real:
        return None
    for kind, found in wanted.items():
        if kind.home == report.kind_of(drive.drive_model, osd.device_class if osd else ""):
            return found
    return None
