"""From mClock's advice to changes, and which stored capacities are stale.

The order matters: no OSD falls back to the compiled default in between.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Dict, Iterable, List, Optional, Sequence, Tuple, Union

from ...core.change.change import Change
from ...core.change.waves import growing
from ...core.cluster import ClusterState, OsdInfo, failure_domains
from ...core.config_database import Config, ConfigEdit, Entry
from ...core.loads import MATERIAL_RATIO
from ...core.model import Finding, FindingCode, Severity
from ...core.setting.config_setting import ConfigSetting, sample
from ...core.text import named, typed
from ..knob import CHANGES_MAX, Asked, Wanted
from .advice import Advice, Basis
from .capacity import MCLOCK, Capacity, Measurement, by_mclock, covered, of_model, of_one, option

# Hosts share a change, in groups that grow to 1 / SHARE of a device class: a plan is stored
# whole after each step, and thousands of OSDs have a key of their own.
SHARE = 32


def make_changes(
    asked: Asked, advices: Sequence[Advice], cluster: ClusterState, config: Config
) -> Wanted:
    """The changes that make the advice of each device class true.

    By `config`, what stands there now, each names OSDs that take another value by it.
    """
    found: List[Change] = []
    left: List[str] = []
    for advice in advices:
        left += [f"class {advice.device_class}: {line}" for line in advice.warnings]
        for where, edits in _grouped(advice, cluster):
            config, before = config.after(edits), config
            found.append(
                Change(
                    asked.action_id(len(found)), ConfigSetting(MCLOCK.name, edits),
                    advice.device_class, "measured by the OSDs' own recipe", where,
                    judged_on=sample(_felt(edits, before, config, cluster)),
                )
            )
    if len(found) > CHANGES_MAX:
        more = len(found) - CHANGES_MAX
        left.append(f"{more} more hosts: plan again when this plan is done")
    return Wanted(tuple(found[:CHANGES_MAX]), tuple(left))


def _felt(
    edits: Sequence[ConfigEdit], before: Config, after: Config, cluster: ClusterState
) -> List[int]:
    """The OSDs that are up and take another value by these edits."""
    names = {edit.name for edit in edits}
    own = {edit.who[len("osd."):] for edit in edits if edit.who.startswith("osd.")}
    widely = len(own) < len(edits)
    return [
        osd_id for osd_id, osd in sorted(cluster.osds.items())
        if osd.up and (widely or str(osd_id) in own) and any(
            _number(before.of_osd(osd, name)) != _number(after.of_osd(osd, name))
            for name in names if name == option(osd.rotational)
        )
    ]


def _number(entry: Optional[Entry]) -> Optional[float]:
    return None if entry is None else entry.number


def _grouped(
    advice: Advice, cluster: ClusterState
) -> List[Tuple[str, Tuple[ConfigEdit, ...]]]:
    """Edits that are made together, by where they matter; those of whole classes come first."""
    groups: Dict[str, List[ConfigEdit]] = {}
    for edit in advice.changes:
        own = edit.who[len("osd."):] if edit.who.startswith("osd.") else ""
        osd = cluster.osds.get(int(own)) if own.isdecimal() else None
        where = ", ".join(failure_domains(osd, cluster)) if osd else f"class {advice.device_class}"
        groups.setdefault(where, []).append(edit)
    # the first is of the whole class, or of one host where the class's value stays
    return [
        (items[0][0] + (f" to {items[-1][0]}" if len(items) > 1 else ""),
         tuple(edit for _, mine in items for edit in mine))
        for items in growing(list(groups.items()), SHARE)
    ]


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
