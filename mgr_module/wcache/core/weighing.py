"""One verdict over several load points, weighed by the load an OSD really carries.

The intervals of the log ratios are summed by each load's share of the writes.  The sum
has to decide for the whole time, and no variant of the load (an hour, a load half or
twice as crowded) may decide otherwise.  A load with 5% of the writes that would be
proven twice as slow vetoes: an average must not hide who pays for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Mapping, Optional, Tuple

from .load_profile import LoadProfile, variants
from .model import LoadPoint, Verdict

VETO_SHARE = 0.05
VETO_RATIO = 2.0
MATERIAL_RATIO = 1.1

Shares = Mapping[LoadPoint, float]


@dataclass(frozen=True)
class Proven:
    """What was measured at one load point; the ratio is write back over write through."""

    verdict: Verdict
    ratio_low: float
    ratio_high: float

    @property
    def doubted(self) -> bool:
        """Whether something else than its interval keeps it from being decided.

        A carryover or a flush too fast: what was measured then was no cache mode.
        """
        beyond = self.ratio_low > MATERIAL_RATIO or self.ratio_high < 1 / MATERIAL_RATIO
        return self.verdict is Verdict.INSUFFICIENT and beyond

    def loss(self, mode: Verdict) -> float:
        """How many times slower `mode` is proven to be here; 1 where it is not."""
        if mode is Verdict.WRITE_THROUGH:
            return max(1.0, 1 / self.ratio_high)
        return max(1.0, self.ratio_low)


def weigh(measured: Mapping[LoadPoint, Proven], profile: LoadProfile) -> Tuple[Verdict, str]:
    """The verdict under a load profile, and why, in words.

    `insufficient data` names the load point whose measurement is missing, `conflicting`
    the load or the hour that says otherwise.
    """
    loads = variants(profile)
    if not loads:
        return Verdict.INSUFFICIENT, "the load profile holds too few writes to weigh by"
    overall = loads["overall"]
    missing = [p for p, share in overall.items() if share >= VETO_SHARE and p not in measured]
    if missing:
        heaviest = max(missing, key=lambda point: overall[point])
        return Verdict.INSUFFICIENT, (
            f"{overall[heaviest]:.0%} of the writes are like {heaviest.value}, which was not "
            "measured; measure it"
        )
    doubted = [p for p, found in measured.items() if found.doubted]
    heavy = [p for p in doubted if _heaviest(p, loads) >= VETO_SHARE]
    if heavy:
        names = ", ".join(point.value for point in heavy)
        return Verdict.INSUFFICIENT, (
            f"what was measured at {names} is in doubt, see the findings; measure it again"
        )
    measured = {p: found for p, found in measured.items() if p not in doubted}
    verdict, span = _summed(measured, overall)
    said = _described(overall)
    if verdict is Verdict.INSUFFICIENT:
        return verdict, f"weighed by the load ({said}) the ratio is {span}; measure for longer"
    veto = _veto(measured, loads, verdict)
    if veto:
        return Verdict.CONFLICTING, veto
    for name, shares in loads.items():
        other = _summed(measured, shares)[0]
        if verdict.mode and other.mode and other is not verdict:
            return Verdict.CONFLICTING, (
                f"weighed by the load ({said}) {verdict.value} is better, but in the variant "
                f"{name!r} ({_described(shares)}) {other.value} is; measure under the OSD's own "
                "traffic at that time"
            )
    return verdict, f"weighed by the load ({said}) the ratio is {span}"


def may_veto(point: LoadPoint, profile: Optional[LoadProfile]) -> bool:
    """Whether a load is heavy enough, in any variant, to forbid what it loses by."""
    loads = variants(profile) if profile is not None and profile.known else {}
    return not loads or _heaviest(point, loads) >= VETO_SHARE


def _heaviest(point: LoadPoint, loads: Mapping[str, Shares]) -> float:
    """The largest share of the writes that a load point has in any variant."""
    return max(item.get(point, 0.0) for item in loads.values())


def _summed(measured: Mapping[LoadPoint, Proven], shares: Shares) -> Tuple[Verdict, str]:
    """The verdict of the summed interval; loads that were not measured have no say."""
    known = {point: share for point, share in shares.items() if share > 0 and point in measured}
    total = sum(known.values())
    if total <= 0:
        return Verdict.INSUFFICIENT, "unknown"
    low = sum(share * math.log(measured[p].ratio_low) for p, share in known.items()) / total
    high = sum(share * math.log(measured[p].ratio_high) for p, share in known.items()) / total
    margin = math.log(MATERIAL_RATIO)
    span = f"{math.exp(low):.3g} to {math.exp(high):.3g}"
    if low > margin:
        return Verdict.WRITE_THROUGH, span
    if high < -margin:
        return Verdict.WRITE_BACK, span
    same = all(measured[point].verdict is Verdict.NO_DIFFERENCE for point in known)
    if same or (-margin < low and high < margin):
        return Verdict.NO_DIFFERENCE, span
    return Verdict.INSUFFICIENT, span


def _veto(
    measured: Mapping[LoadPoint, Proven], loads: Mapping[str, Shares], verdict: Verdict
) -> Optional[str]:
    """The load that forbids `verdict` in any variant, in words, or None."""
    if verdict.mode is None:
        return None
    heaviest = {point: _heaviest(point, loads) for point in measured}
    losers = [
        point for point, found in measured.items()
        if heaviest[point] >= VETO_SHARE and found.loss(verdict) >= VETO_RATIO
    ]
    if not losers:
        return None
    worst = max(losers, key=lambda point: measured[point].loss(verdict))
    return (
        f"the load on the whole prefers {verdict.value}, but {worst.value}, up to "
        f"{heaviest[worst]:.0%} of the writes, would be at least "
        f"{measured[worst].loss(verdict):.1f}x slower; measure under the OSD's own traffic"
    )


def _described(shares: Shares) -> str:
    parts = [f"{share:.0%} {point.value}" for point, share in shares.items() if share >= 0.005]
    return ", ".join(parts)
