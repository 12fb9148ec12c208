"""The verdict over load points: which of them counts, which may contradict it.

The OSD's own traffic is the load that counts: what it decided stands, and what it rules out
is not named for a bench's sake.  Without it a known load profile weights the benches, and
where that is unknown too, each load that was measured has to agree or to be harmless.

To weight the benches, the intervals of the log ratios are summed by each load's share of the
writes.  The sum has to decide for the whole time, and no variant of the load (an hour, a load half
or twice as crowded) may decide otherwise.  A load with 5% of the writes that is proven twice as
slow vetoes a mode, and `no material difference` too: an average must not hide who pays.
"""

from __future__ import annotations

import math
from typing import Dict, Mapping, Optional, Sequence, Tuple

from ..loads import MATERIAL_LN, MATERIAL_RATIO
from ..model import LoadPoint, Verdict
from ..options.entries import CACHE_MODES
from ..text import gained
from .load_profile import LoadProfile, variants
from .pooling import LoadVerdict
from .result import Estimate

VETO_SHARE = 0.05
VETO_RATIO = 2.0
MODES = (Verdict.B, Verdict.A)
_said = CACHE_MODES.said

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
    flagged = [p for p, found in measured.items() if found.flagged()]
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
    of = f"weighted by the load ({_described(overall)})"
    weighted = f"{of}, turning the cache off changes latency by {span}"
    if verdict is Verdict.INSUFFICIENT:
        return verdict, f"{weighted}; measure for longer"
    veto = _veto(measured, loads, verdict)
    if veto:
        return Verdict.CONFLICTING, veto
    otherwise = _otherwise(measured, loads, verdict)
    if otherwise:
        return Verdict.CONFLICTING, otherwise
    return verdict, weighted


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
    span = f"{gained(math.exp(high))} to {gained(math.exp(low))}"
    if low > MATERIAL_LN:
        return Verdict.B, span
    if high < -MATERIAL_LN:
        return Verdict.A, span
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
                f"{point.short}, up to {share:.0%} of the writes, would have {_more(loss)} in "
                f"{_said(mode)}"
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
    modes = MODES if verdict.arm is None else (verdict,)
    losers = [words for mode in modes for words in _losers(measured, loads, mode).values()]
    if not losers:
        return ""
    whole = "shows no material difference" if verdict.arm is None else f"prefers {_said(verdict)}"
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
        if mode.arm is not None:
            by_mode.setdefault(mode, f"in the variant {name!r} ({_described(shares)})")
    if not by_mode.keys() - {verdict}:
        return ""
    load = _described(loads["overall"])
    whole = f"weighted by the load ({load}), the verdict is {_said(verdict)}"
    said = " and ".join(f"{_said(mode)} is better {where}" for mode, where in by_mode.items())
    return f"{whole}, but {said}; measure under the OSD's own traffic at that time"


def _described(shares: Shares) -> str:
    parts = [f"{share:.0%} {point.short}" for point, share in shares.items() if share >= 0.005]
    return ", ".join(parts)


# The bare timer is a component of a commit, not a load that an OSD carries.
_EVIDENCE_ONLY = (LoadPoint.FDATASYNC_TIMER,)

Found = Tuple[Verdict, str]
"""A verdict and why, in words."""


def over_loads(loads: Sequence[LoadVerdict], profile: Optional[LoadProfile] = None) -> Found:
    """The verdict over load points and why, in words.

    Where the OSD's own traffic is better in one mode, a bench load with a proven loss of
    `VETO_RATIO` or more still contradicts it, unless the profile says that the OSD hardly
    carries that load; where it shows no material difference, such a loss is only said.  A
    bench that contradicts itself proves less than that: beside traffic it is only said, and
    where the profile is known it has no say at a load that the OSD hardly carries.
    A load that was not measured is not the same as one that was and is undecided: only the
    latter keeps a mode from being named.
    """
    counted = [load for load in loads if load.load_point not in _EVIDENCE_ONLY]
    if not counted:
        return Verdict.INSUFFICIENT, "only the bare timer was measured; measure an OSD's load"
    benches = [load for load in counted if load.load_point is not LoadPoint.OSD_TRAFFIC]
    for traffic in counted:
        if traffic.load_point is LoadPoint.OSD_TRAFFIC:
            if traffic.verdict is Verdict.CONFLICTING:
                return _contradicting([traffic])
            if traffic.verdict is Verdict.INSUFFICIENT:
                return _while_open(traffic, _of_benches(benches, profile))
            verdict, why = _of_traffic(traffic, benches, profile)
            contradictory = [load for load in benches if load.verdict is Verdict.CONFLICTING]
            if contradictory:
                why = f"{why} ({_names(contradictory)} gave contradictory results, see the notes)"
            return verdict, why
    return _of_benches(benches, profile)


def _contradicting(loads: Sequence[LoadVerdict]) -> Found:
    return Verdict.CONFLICTING, (
        f"contradictory results at {_names(loads)}: measure more drives, or resolve what the "
        "notes say"
    )


def _of_traffic(
    traffic: LoadVerdict, benches: Sequence[LoadVerdict], profile: Optional[LoadProfile]
) -> Found:
    """What the OSD's own traffic decided, unless a bench proves much against it."""
    own = traffic.verdict
    heavy = [load for load in benches if load.verdict.arm and _loss(load) >= VETO_RATIO]
    if own is Verdict.NO_DIFFERENCE:
        said = "the OSD's own traffic shows no material difference; leave the mode as it is"
        parts = [
            f"{_names([load])} has {_more(_loss(load))} in {CACHE_MODES.name(arm.other)}"
            for load in heavy if (arm := load.verdict.arm)
        ]
        return own, f"{said} (but {'; '.join(parts)}, should it get that load)" if parts else said
    against = [x for x in heavy if x.verdict is not own and may_veto(x.load_point, profile)]
    if against:
        return Verdict.CONFLICTING, (
            f"the OSD's own traffic is faster in {_said(own)}, but {_names(against)} would have "
            f"{_more(VETO_RATIO)} in it"
        )
    return own, f"the OSD's own traffic is faster in {_said(own)}"


def _while_open(traffic: LoadVerdict, benches: Found) -> Found:
    """What the benches say while the OSD's own traffic is undecided."""
    verdict, why = benches
    if not verdict.decided:
        return verdict, why
    gains = traffic.estimate.allows(verdict)
    if verdict.arm is not None and gains and not _may_lose(traffic, verdict):
        return verdict, f"{why}; the OSD's own traffic ({_span(traffic)}) does not contradict it"
    if verdict.arm is not None and not gains:
        open_to = f"rules out a material gain in {_said(verdict)}"
    else:
        open_to = "may still differ"
    return Verdict.INSUFFICIENT, (
        f"the benches say {_said(verdict)} ({why}), but the OSD's own traffic, which takes "
        f"precedence, is undecided ({_span(traffic)}) and {open_to}; measure traffic for longer"
    )


def _of_benches(loads: Sequence[LoadVerdict], profile: Optional[LoadProfile]) -> Found:
    """What bench loads say: weighted by the profile where it is known, else all together."""
    contradictory = [load for load in loads if load.verdict is Verdict.CONFLICTING]
    heavy = [load for load in contradictory if may_veto(load.load_point, profile)]
    if heavy:
        return _contradicting(heavy)
    if loads and profile is not None and profile.known:
        return weighted(_measured([load for load in loads if load not in contradictory]), profile)
    decided = [load for load in loads if load.verdict.arm is not None]
    if len({load.verdict for load in decided}) > 1:
        said = "; ".join(f"{_names([x])} prefers {_said(x.verdict)}" for x in decided)
        return Verdict.CONFLICTING, f"{said}; measure under the OSD's own traffic"
    if decided:
        verdict = decided[0].verdict
        said = f"{_names(decided)} better in {_said(verdict)}"
        losing = [
            load for load in loads
            if load.verdict is Verdict.INSUFFICIENT and _may_lose(load, verdict)
        ]
        if not losing:
            return verdict, said
        parts = ", ".join(f"{_names([load])} ({_span(load)})" for load in losing)
        return Verdict.INSUFFICIENT, (
            f"{said}, but {parts} is undecided and may get slower: {_cure(losing)}, or measure "
            "under the OSD's own traffic"
        )
    if loads and all(load.verdict is Verdict.NO_DIFFERENCE for load in loads):
        return Verdict.NO_DIFFERENCE, (
            f"{_names(loads)}: no material difference; leave the mode as it is"
        )
    flagged = [load for load in loads if load.doubts]
    if flagged:
        parts = ", ".join(f"{_names([load])} ({_span(load)})" for load in flagged)
        return Verdict.INSUFFICIENT, f"not decided: see the findings about {parts}"
    return Verdict.INSUFFICIENT, "not decided yet; measure longer or on more drives"


def _measured(loads: Sequence[LoadVerdict]) -> Dict[LoadPoint, Estimate]:
    return {load.load_point: load.estimate for load in loads if load.estimate.bounded}


def _may_lose(load: LoadVerdict, verdict: Verdict) -> bool:
    """Whether an undecided load may be materially slower in a mode.

    One that is flagged may: its interval rules nothing out.
    """
    found = load.estimate
    if found.flagged():
        return True
    if verdict is Verdict.B:
        return found.ratio_low < 1 / MATERIAL_RATIO
    return found.ratio_high > MATERIAL_RATIO


def _loss(load: LoadVerdict) -> float:
    """How many times slower the other mode is proven to be (1 where nothing is proven)."""
    return max(load.estimate.loss(mode) for mode in MODES)


def _more(loss: float) -> str:
    """A proven loss in words, in percent as all other text."""
    return f"at least {100 * (loss - 1):.0f}% more latency"


def _span(load: LoadVerdict) -> str:
    if load.doubts:
        return f"flagged: {', '.join(code.value for code in load.doubts)}"
    return load.estimate.span


def _cure(loads: Sequence[LoadVerdict]) -> str:
    """What would decide undecided loads, in words."""
    flagged = any(load.doubts for load in loads)
    return "resolve the findings" if flagged else "measure it for longer"


def _names(loads: Sequence[LoadVerdict]) -> str:
    return ", ".join(load.load_point.short for load in loads)
