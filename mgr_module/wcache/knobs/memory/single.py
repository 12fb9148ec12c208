"""Single OSDs that wait unlike the others of their class on a host, with what each wants.

That is advice, and never a plan.  A target of one OSD is the key `osd.N`.  cephadm's autotuner
removes such keys (mgr/cephadm/serve.py), and a value with the mask of a host may take precedence
over them, so it is the admin who sets it.  Plans leave an OSD that has one alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median_high, median_low
from typing import Dict, List, Optional, Sequence, Tuple

from ...core.text import amount, command
from .advice import GAIN_MIN, MEASURED, WAIT_MIN, ClassAdvice, GroupAdvice, class_curve
from .curve import Curve, Share, divide, summed
from .facts import Facts, HostFacts, OsdFacts, Source, Want
from .reading import STEP_BYTES, TARGET
from .trial_result import last_told

# It waits so many times as long as the median of its class, or that much shorter, ...
UNLIKE = 4.0
# ... and the difference is no trifle: seconds of waiting in a second.
DIFFERENCE_MIN = 0.01


@dataclass(frozen=True)
class SingleAdvice:
    """One OSD beside the median of its class on its host: waits are seconds in a second.

    `target_bytes` is what would help it; None where only a trial can tell.
    """

    osd_id: int
    host: str
    device_class: str
    now_bytes: int
    target_bytes: Optional[int]
    wait: float
    wait_of_class: float
    words: str


def want_of(facts: Facts, item: OsdFacts, ceiling_bytes: int) -> Optional[Want]:
    """What an OSD would do better with, up to the ceiling; None where its bins do not tell.

    It wants more where that saves a tenth of what it waits and no trifle, less where a tenth less
    costs a trifle, even with the most misses that its bins allow.
    """
    leased = item.told_source is not None and item.told_source[0] is Source.LEASED
    if item.reading is None or item.rates is None or item.reading.tunable is False or leased:
        return None
    name, now_bytes = item.osd.device_class, item.target_bytes
    curve = class_curve(facts, name, [item], 1)
    if curve is None:
        return None
    now, less_bytes = curve.at(now_bytes), (1.0 - GAIN_MIN) * now_bytes
    wait, less = now.wait, curve.at(less_bytes)
    saved = wait - curve.at(max(now_bytes, ceiling_bytes)).wait
    if saved >= max(GAIN_MIN * wait, DIFFERENCE_MIN):
        return Want.MORE
    miss_s = facts.usual_costs[item.osd.rotational].of(item.rates).miss_s
    lost = max(less.wait - wait, (less.high - now.misses) * miss_s)
    if lost < DIFFERENCE_MIN and less_bytes >= facts.limits.least_target_bytes:
        return Want.LESS
    told = wait < DIFFERENCE_MIN or now_bytes >= ceiling_bytes or _tried(facts, item)
    return Want.RIGHT if told else Want.UNTRIED


def _tried(facts: Facts, item: OsdFacts) -> bool:
    """Whether a trial tells what more than its target gains."""
    return bool(last_told(
        facts.trials, item.osd.device_class, item.target_bytes, facts.now_s
    ))


def single_osds(facts: Facts, group: GroupAdvice) -> Tuple[SingleAdvice, ...]:
    """The odd ones on the hosts of a group; those that differ most come first."""
    if group.room is None or not group.fits:
        return ()
    spare = group.room.osds_bytes - sum(item.osds * item.target_bytes for item in group.classes)
    found = [
        single for host in facts.hosts if host.name in group.hosts
        for item in group.classes if item.basis == MEASURED
        for single in _of_class(facts, host, item, max(0, spare))
    ]
    return tuple(sorted(found, key=lambda s: -abs(s.wait - s.wait_of_class)))


def _of_class(
    facts: Facts, host: HostFacts, advice: ClassAdvice, spare_bytes: int
) -> List[SingleAdvice]:
    name = advice.device_class
    items = [i for i in host.without_own_keys if i.osd.device_class == name and i.osd.up]
    curves: Dict[int, Curve] = {}
    for item in items:
        curve = class_curve(facts, name, [item], 1)
        if curve is not None:
            curves[item.osd.osd_id] = curve
    waits = {
        i.osd.osd_id: curves[i.osd.osd_id].at(i.target_bytes).wait
        for i in items if i.osd.osd_id in curves
    }
    found = []
    for item in items:
        osd_id = item.osd.osd_id
        usual = _unlike(waits[osd_id], list(waits.values())) if osd_id in waits else None
        if usual is None:
            continue
        others = [curve for other, curve in curves.items() if other != osd_id]
        target, saved = _own_target(
            curves[osd_id], others, advice.target_bytes, spare_bytes,
            facts.limits.least_target_bytes, host.ceiling_bytes,
        )
        if target is None and (_tried(facts, item) or waits[osd_id] < usual):
            continue  # what is known says that none would help
        found.append(SingleAdvice(
            osd_id, host.name, name, item.target_bytes, target, waits[osd_id], usual,
            _words(item, host, advice, waits[osd_id], usual, target, saved),
        ))
    return found


def _unlike(wait: float, waits: Sequence[float]) -> Optional[float]:
    """The median of its class, where an OSD waits quite unlike it; of two halves, its own.

    So of two OSDs neither is the odd one.
    """
    high, low = median_high(waits), median_low(waits)
    if wait >= max(UNLIKE * high, high + DIFFERENCE_MIN):
        return high
    if UNLIKE * wait <= low and low - wait >= DIFFERENCE_MIN:
        return low
    return None


def _own_target(
    mine: Curve, others: Sequence[Curve], class_bytes: int, spare_bytes: int, floor: int,
    ceiling: int,
) -> Tuple[Optional[int], float]:
    """What it would get of what its class has on the host, and the wait that this saves."""
    rest = summed(others)
    shares = [Share("one", 1, class_bytes, mine), Share("rest", len(others), class_bytes, rest)]
    chosen = divide(
        shares, (1 + len(others)) * class_bytes + spare_bytes, floor_bytes=floor,
        ceiling_bytes=ceiling,
    )
    if chosen is None or abs(chosen["one"] - class_bytes) < STEP_BYTES:
        return None, 0.0
    before = mine.at(class_bytes).wait + rest.at(class_bytes).wait
    saved = before - mine.at(chosen["one"]).wait - rest.at(chosen["rest"]).wait
    if saved < max(GAIN_MIN * before, WAIT_MIN * (1 + len(others))):
        return None, 0.0
    return chosen["one"], saved


def _words(
    item: OsdFacts, host: HostFacts, advice: ClassAdvice, wait: float, usual: float,
    target: Optional[int], saved: float,
) -> str:
    osd = f"osd.{item.osd.osd_id}"
    misses = item.rates.onode_misses if item.rates else None
    counted = "" if misses is None else f" ({misses:.0f} onode misses/s)"
    line = (
        f"{osd} on {host.name} waits {1e3 * wait:.0f} ms for reads in each second{counted}, the "
        f"median of {advice.device_class} there {1e3 * usual:.0f} ms: "
    )
    if target is None:
        return line + (
            f"a target of its own may help it, but no trial of {advice.device_class} at "
            f"{amount(item.target_bytes)} has shown yet what more memory would gain"
        )
    return line + (
        f"with {amount(target)} of its own, not {amount(advice.target_bytes)}, the class would "
        f"wait {1e3 * saved:.1f} ms less in each second. No plan sets that: cephadm's autotuner "
        "removes the key of a single OSD, and a value for its host may take precedence. By hand: "
        + command("ceph config set {} {} {}", osd, TARGET, target)
        + ", then plan again for the others"
    )
