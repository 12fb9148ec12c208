"""Which stored capacities cannot be true of the cache mode that the drives are in."""

from __future__ import annotations

from collections import defaultdict
from typing import Dict, Iterable, List, Tuple, Union

from ...core.cluster import OsdInfo
from ...core.config_database import Entry
from ...core.loads import MATERIAL_RATIO
from ...core.model import Finding, FindingCode, Severity
from ...core.shell import typed
from ...core.text import named
from .advice import Basis
from .capacity import Capacity, Measurement, of_model, of_one
from .config import by_mclock, covered

# An OSD's id, or a stack of drive models in a setting.
Key = Union[int, Tuple[str, str]]
Spreads = Dict[Key, Tuple[Capacity, str]]


def stale(facts: Basis) -> Tuple[Finding, ...]:
    """Stored values that cannot be true of the mode the drives are in, grouped.

    Either the value is older than a change of the mode, or it lies outside of where one
    more call would fall after what was measured, and more than 10% off.
    """
    spread = _spreads(facts.current())
    groups: Dict[Tuple[str, str, str], List[str]] = defaultdict(list)
    for entry in facts.config.entries:
        if entry.number is None:
            continue
        for osd in covered(entry, facts.osds):
            why = _older(facts, entry, osd) or _outside(facts, entry, osd, spread)
            taken = why and facts.config.of_osd(osd, entry.name) is entry
            if taken and by_mclock(facts.config, osd, facts.compiled_queue):
                own = entry.who == f"osd.{osd.osd_id}"
                name = entry.who if own else f"{entry.who} for osd.{osd.osd_id}"
                groups[(osd.device_class, entry.name, why)].append(name)
    return tuple(
        Finding(
            FindingCode.MCLOCK_STALE, Severity.WARNING, f"class {device_class}",
            f"{name} of {named(sections)} {why}: {_cure(device_class)}",
        )
        for (device_class, name, why), sections in sorted(groups.items())
    )


def _cure(device_class: str) -> str:
    """What to type; measuring asks for its own consent, since clients wait behind it."""
    measure = typed(
        "ceph wcache campaign start --loads=capacity --scope=class:{} --accept-cost", device_class
    )
    plan = typed("ceph wcache plan --knob=mclock --scope=class:{}", device_class)
    return f"{measure}, then {plan}"


def _older(facts: Basis, entry: Entry, osd: OsdInfo) -> str:
    known = facts.known.get((entry.who, entry.name))
    now = facts.settings.get(osd.osd_id, "")
    if known is None or known.value != entry.value or not now or known.setting in ("", now):
        return ""
    return f"was stored while the drives were in {known.setting}; they are in {now} now"


def _spreads(current: Iterable[Measurement]) -> Spreads:
    """Where one more call would fall: by OSD measured, and by (stack, setting) from 3 OSDs."""
    found: Spreads = {}
    by_model: Dict[Tuple[str, str], List[Measurement]] = defaultdict(list)
    for item in current:
        one = of_one(item.iops)
        if one is not None:
            found[item.osd_id] = (one, item.setting)
            by_model[(item.stack, item.setting)].append(item)
    for key, items in by_model.items():
        capacity = of_model(items)
        if capacity is not None and capacity.drives >= 3:
            found[key] = (capacity, key[1])
    return found


def _outside(facts: Basis, entry: Entry, osd: OsdInfo, spreads: Spreads) -> str:
    if not spreads:
        return ""
    setting = facts.settings.get(osd.osd_id, "")
    # a value for many OSDs is judged by what many of them showed
    stack = facts.stacks.get(osd.osd_id)
    keys: List[Key] = [osd.osd_id] if stack is None else [(stack, setting), osd.osd_id]
    if entry.who == f"osd.{osd.osd_id}":
        keys.reverse()
    for key in keys:
        if key in spreads and entry.number is not None:
            capacity, where = spreads[key]
            off = max(entry.number / capacity.iops, capacity.iops / entry.number)
            inside = capacity.next_low <= entry.number <= capacity.next_high
            if inside or off <= MATERIAL_RATIO:
                return ""
            return (
                f"is outside of what was measured in {where}, {capacity.next_low:.0f} to "
                f"{capacity.next_high:.0f} IOPS for one call"
            )
    return ""
