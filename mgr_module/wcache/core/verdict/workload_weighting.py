"""One verdict over several load points, weighted by the load an OSD really carries.

The intervals of the log ratios are summed by each load's share of the writes.  The sum
has to decide for the whole time, and no variant of the load (an hour, a load half or
twice as crowded) may decide otherwise.  A load with 5% of the writes that is proven twice
as slow vetoes a mode, and `no material difference` too: an average must not hide who pays.
"""

from __future__ import annotations

import math
from typing import Dict, Mapping, Optional, Tuple

from ..loads import MATERIAL_LN
from ..model import LoadPoint, Verdict
from .estimate import Estimate
from .load_profile import LoadProfile, variants

VETO_SHARE = 0.05
VETO_RATIO = 2.0
MODES = (Verdict.WRITE_THROUGH, Verdict.WRITE_BACK)

Shares = Mapping[LoadPoint, float]


def weighted(measured: Mapping[LoadPoint, Estimate], profile: LoadProfile) -> Tuple[Verdict, str]:
    """The verdict under a load profile, and why, in words.

    `insufficient data` names the load point whose measurement is missing, `conflicting`
    the load or the hour that says otherwise.
    """
    loads = variants(profile)
    if not loads:
        return Verdict.INSUFFICIENT, "the load profile has too few writes to weight by"
    overall = loads["overall"]
    missing = _missing(measured, loads)
    if missing:
        return Verdict.INSUFFICIENT, missing
    flagged = [p for p, found in measured.items() if found.flagged]
    heavy = [p for p in flagged if _heaviest(p, loads) >= VETO_SHARE]
    if heavy:
        names = ", ".join(point.short for point in heavy)
        return Verdict.INSUFFICIENT, (
            f"the measurement of {names} is flagged, see the findings; measure it again"
        )
    measured = {p: found for p, found in measured.items() if p not in flagged}
    # no more measuring of these loads could undo it, so it is said however the sum stands
    contradictory = _contradictions(measured, loads)
    if contradictory:
        return Verdict.CONFLICTING, contradictory
    verdict, span = _summed(measured, overall)
    said = _described(overall)
    if verdict is Verdict.INSUFFICIENT:
        return verdict, f"weighted by the load ({said}), the ratio is {span}; measure for longer"
    veto = _veto(measured, loads, verdict)
    if veto:
        return Verdict.CONFLICTING, veto
    otherwise = _otherwise(measured, loads, verdict)
    if otherwise:
        return Verdict.CONFLICTING, otherwise
    return verdict, f"weighted by the load ({said}), the ratio is {span}"


def may_veto(point: LoadPoint, profile: Optional[LoadProfile]) -> bool:
    """Whether a load is heavy enough, in any variant, to forbid what it loses by."""
    loads = variants(profile) if profile is not None and profile.known else {}
    return not loads or _heaviest(point, loads) >= VETO_SHARE


def _heaviest(point: LoadPoint, loads: Mapping[str, Shares]) -> float:
    """The largest share of the writes that a load point has in any variant."""
    return max(item.get(point, 0.0) for item in loads.values())


def _missing(measured: Mapping[LoadPoint, Estimate], loads: Mapping[str, Shares]) -> str:
    """The load that counts in any variant and was not measured, in words; empty if none."""
    found = [
        (shares[point], name, point) for name, shares in loads.items() for point in shares
        if point not in measured and shares[point] >= VETO_SHARE
    ]
    if not found:
        return ""
    # the whole time comes first: an hour is named only where the whole does not tell
    share, name, point = max(found, key=lambda item: (item[1] == "overall", item[0]))
    where = "" if name == "overall" else f" in the variant {name!r}"
    return (
        f"{share:.0%} of the writes{where} resemble {point.short}, which was not measured; "
        "measure it"
    )


def _summed(measured: Mapping[LoadPoint, Estimate], shares: Shares) -> Tuple[Verdict, str]:
    """The verdict of the summed interval; loads that were not measured have no say."""
    known = {point: share for point, share in shares.items() if share > 0 and point in measured}
    total = sum(known.values())
    if total <= 0:
        return Verdict.INSUFFICIENT, "unknown"
    low = sum(share * math.log(measured[p].ratio_low) for p, share in known.items()) / total
    high = sum(share * math.log(measured[p].ratio_high) for p, share in known.items()) / total
    span = f"{math.exp(low):.3g} to {math.exp(high):.3g}"
    if low > MATERIAL_LN:
        return Verdict.WRITE_THROUGH, span
    if high < -MATERIAL_LN:
        return Verdict.WRITE_BACK, span
    same = all(measured[point].verdict is Verdict.NO_DIFFERENCE for point in known)
    if same or (low > -MATERIAL_LN and high < MATERIAL_LN):
        return Verdict.NO_DIFFERENCE, span
    return Verdict.INSUFFICIENT, span


def _losers(
    measured: Mapping[LoadPoint, Estimate], loads: Mapping[str, Shares], mode: Verdict
) -> Dict[LoadPoint, str]:
    """The loads that count in any variant and are proven to lose much in a mode, in words."""
    found: Dict[LoadPoint, str] = {}
    for point, item in measured.items():
        share, loss = _heaviest(point, loads), item.loss(mode)
        if share >= VETO_SHARE and loss >= VETO_RATIO:
            found[point] = (
                f"{point.short}, up to {share:.0%} of the writes, would be at least {loss:.1f}x "
                f"slower in {mode.value}"
            )
    return found


def _contradictions(measured: Mapping[LoadPoint, Estimate], loads: Mapping[str, Shares]) -> str:
    """Loads that lose much in either mode, in words; empty where there are none."""
    sides = [_losers(measured, loads, mode) for mode in MODES]
    if not all(sides):
        return ""
    said = ", but ".join("; ".join(side.values()) for side in sides)
    return f"{said}; only a measurement under the OSD's own traffic can settle this"


def _veto(
    measured: Mapping[LoadPoint, Estimate], loads: Mapping[str, Shares], verdict: Verdict
) -> str:
    """The load that forbids `verdict` in any variant, in words; empty where none does."""
    modes = MODES if verdict.mode is None else (verdict,)
    losers = [words for mode in modes for words in _losers(measured, loads, mode).values()]
    if not losers:
        return ""
    whole = "shows no material difference" if verdict.mode is None else f"prefers {verdict.value}"
    return (
        f"the load as a whole {whole}, but {'; '.join(losers)}; measure under the OSD's own traffic"
    )


def _otherwise(
    measured: Mapping[LoadPoint, Estimate], loads: Mapping[str, Shares], verdict: Verdict
) -> str:
    """The variants of the load that decide otherwise, in words; empty where none does."""
    by_mode: Dict[Verdict, str] = {}
    for name, shares in loads.items():
        mode = _summed(measured, shares)[0]
        if mode.mode is not None:
            by_mode.setdefault(mode, f"in the variant {name!r} ({_described(shares)})")
    if len(by_mode) < 2:
        return ""
    whole = f"weighted by the load ({_described(loads['overall'])}), the verdict is {verdict.value}"
    said = " and ".join(f"{mode.value} is better {where}" for mode, where in by_mode.items())
    return f"{whole}, but {said}; measure under the OSD's own traffic at that time"


def _described(shares: Shares) -> str:
    parts = [f"{share:.0%} {point.short}" for point, share in shares.items() if share >= 0.005]
    return ", ".join(parts)
