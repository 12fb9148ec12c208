"""From facts to a recommendation for each group of hosts that are alike, in words."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import Collection, Dict, List, Optional, Sequence, Tuple

from ...core.text import amount, command, duration, named, typed
from .curve import Curve, Point, Share, curve_of, divide, gained, summed
from .facts import FIXED_AT_START, OPT_OUT_LABEL, Facts, HostFacts, OsdFacts, Source, widened
from .reading import STEP_BYTES, TARGET, TARGET_BYTES_DEFAULT, Room, equal_split, others_bytes
from .trial_result import gains

# A division that saves less of what all OSDs wait is not worth a change.
GAIN_MIN = 0.10
# What is less is no load at all: seconds of waiting in a second, of one OSD.
WAIT_MIN = 1e-3
# Hosts whose RAM differs by less are alike,
ALIKE_BYTES = 4 * 2**30
# unless one says that it has less than this part of what the others have for OSDs.
ALIKE_MIN = 0.9
MEASURED, RULE = "measured", "rule"
UNHEARD = "no probe has reported how much memory it has; see `ceph wcache agent ls`"


@dataclass(frozen=True)
class ClassAdvice:
    """One device class on one group of hosts: `osds` per host, what they have and should have.

    Misses are onode misses per second of all its OSDs; `low` and `high` bound those to come.
    """

    device_class: str
    osds: int
    now_bytes: int
    target_bytes: int
    basis: str
    words: str
    misses_now: Optional[float] = None
    misses: Optional[float] = None
    low: Optional[float] = None
    high: Optional[float] = None
    wait_now: Optional[float] = None
    wait: Optional[float] = None

    @property
    def changed(self) -> bool:
        """Whether there is something to set."""
        return self.target_bytes != self.now_bytes


@dataclass(frozen=True)
class GroupAdvice:
    """Hosts that are alike, what each can give, and what its device classes should get.

    `left_alone` says why nothing is recommended for some or all of it.
    """

    hosts: Tuple[str, ...]
    room: Optional[Room]
    classes: Tuple[ClassAdvice, ...] = ()
    left_alone: Tuple[str, ...] = ()
    fits: bool = True


def advise(facts: Facts) -> Tuple[GroupAdvice, ...]:
    """What each group of hosts that are alike should give to its device classes."""
    groups: Dict[Tuple[object, ...], List[HostFacts]] = defaultdict(list)
    found: List[GroupAdvice] = []
    for host in sorted(facts.hosts, key=lambda item: item.name):
        why = why_not(host)
        if why:
            found.append(GroupAdvice((host.name,), host.room, (), (why,)))
        else:
            groups[_likeness(host)].append(host)
    for hosts in groups.values():
        found += [_of_group(facts, part) for part in _parts(hosts)]
    return tuple(sorted(found, key=lambda group: group.hosts))


def why_not(host: HostFacts) -> str:
    """Why nothing is recommended for a host; "" where something can be."""
    told = ((item.osd.osd_id, item.told_source) for item in host.osds)
    osds = [(osd_id, *found) for osd_id, found in told if found is not None]
    sources = {source: words for _, source, words in osds}
    if Source.ENVIRONMENT in sources:
        return (
            "its OSDs have their target from the environment (a memory request of their pods), "
            "which takes precedence over the config database: set resources in the CephCluster"
        )
    for source in FIXED_AT_START:
        if source in sources:
            names = named([f"osd.{osd_id}" for osd_id, its, _ in osds if its is source])
            return (
                f"{names} has its target from its {sources[source]}, which takes precedence over "
                f"the config database: remove {TARGET} there and restart the OSD"
            )
    leased = [osd_id for osd_id, source, _ in osds if source is Source.LEASED]
    if leased:
        names = named([f"osd.{osd_id}" for osd_id in leased])
        return (
            f"{names} has a target that was set by `ceph tell`, as a trial does, which takes "
            f"precedence over the config database: "
            + typed("ceph tell osd.{} config unset {}", leased[0], TARGET)
            + " where it is not wanted"
        )
    untunable = [
        f"osd.{i.osd.osd_id}" for i in host.osds if i.reading and i.reading.tunable is False
    ]
    if untunable:
        return f"{named(untunable)} cannot follow a target while running"
    if host.autotuned:
        return (
            "cephadm's autotuner sets its targets; take it over with "
            + typed("ceph wcache plan --knob=memory --override=autotuner:{}", host.name)
            + ", or set cephadm's own options"
        )
    if host.room is None:
        return UNHEARD
    least = host.limits.least_target_bytes
    tight = [f"osd.{osd_id}" for osd_id, most in host.bearable.items() if most < least]
    if tight:
        return (
            f"the limit of the control group of {named(tight)}, less memory_headroom, is under "
            f"{amount(least)}, the least target: raise the limit or lower memory_floor"
        )
    silent = [i for i in host.osds if i.osd.up and i.rates is None]
    if silent:
        left_s = max(max(i.settling_s, i.known_in_s) for i in host.osds)
        left = f", {duration(left_s)} more at most" if left_s else ""
        names = named([f"osd.{i.osd.osd_id}" for i in silent])
        return f"{names} was not watched for long enough with the target that it has{left}"
    if any(item.settling_s > 0 for item in host.osds):
        return "its OSDs are settling after a change of their targets"
    return ""


def _parts(hosts: Sequence[HostFacts]) -> List[List[HostFacts]]:
    """Those with what is usual, and each with less by itself: it takes none from the others."""
    has = [(host.room.osds_bytes if host.room else 0, host.ceiling_bytes) for host in hosts]
    usual = [sorted(column)[len(hosts) // 2] for column in zip(*has)]
    less = [any(a < ALIKE_MIN * b for a, b in zip(mine, usual)) for mine in has]
    alike = [host for host, alone in zip(hosts, less) if not alone]
    return [*filter(None, [alike]), *([host] for host, alone in zip(hosts, less) if alone)]


def _likeness(host: HostFacts) -> Tuple[object, ...]:
    """Hosts for which it is equal can have one division: it fits into the least of them."""
    room = host.room
    counts = Counter(item.osd.device_class for item in host.without_own_keys)
    # a way down from one target can be a way up from another one
    mine = [item for item in host.without_own_keys if item.reading]
    have = tuple(sorted({(item.osd.device_class, item.target_bytes) for item in mine}))
    own = sum(item.target_bytes for item in host.own_keys)
    size = round(room.total_bytes / ALIKE_BYTES) if room else 0
    return size, host.daemons, tuple(sorted(counts.items())), have, own


def _of_group(facts: Facts, hosts: Sequence[HostFacts]) -> GroupAdvice:
    names = tuple(host.name for host in hosts)
    # what fits into the smallest of them fits into all
    rooms = [host.room for host in hosts if host.room is not None]
    room = min(rooms, key=lambda item: item.osds_bytes)
    own = max(sum(i.target_bytes for i in host.own_keys) for host in hosts)
    left = [
        f"osd.{item.osd.osd_id} has a target of its own ({amount(item.target_bytes)}) and keeps it"
        for host in hosts for item in host.own_keys
    ]
    room = replace(room, osds_bytes=max(0, room.osds_bytes - own))
    by_class: Dict[str, List[OsdFacts]] = defaultdict(list)
    for host in hosts:
        for item in host.without_own_keys:
            by_class[item.osd.device_class].append(item)
    shares, measured = [], True
    for device_class, items in sorted(by_class.items()):
        curve = class_curve(facts, device_class, items, len(hosts))
        # one that is down has told nothing, and gets what the others get
        now = max(item.target_bytes for item in [i for i in items if i.reading] or items)
        measured = measured and curve is not None
        nothing = Curve((Point(0, 0.0, 0.0, 0.0, 0.0),))
        count = -(-len(items) // len(hosts))
        shares.append(Share(device_class, count, now, curve or nothing))
    if not shares:
        return GroupAdvice(names, room, (), tuple(left))
    divided = _measured if measured else _by_rule
    classes, fits = divided(facts, shares, room, min(host.ceiling_bytes for host in hosts))
    if not fits:
        left.append(
            f"{sum(s.osds for s in shares)} OSDs with {amount(facts.limits.least_target_bytes)} "
            f"each do not fit into the {amount(room.osds_bytes)} that are left for them: move "
            "daemons or OSDs elsewhere, add memory, or lower memory_floor"
        )
    return GroupAdvice(names, room, tuple(classes), tuple(left), fits)


def class_curve(
    facts: Facts, device_class: str, items: Sequence[OsdFacts], hosts: int
) -> Optional[Curve]:
    """What the OSDs of a class on one host wait together, with what trials told."""
    curves = []
    for item in items:
        if not item.osd.up:
            continue  # it is asked for nothing
        if item.reading is None or item.rates is None:
            return None
        usual = facts.usual_costs[item.osd.rotational]
        curve = curve_of(item.reading, item.rates, usual)
        if curve is None:
            return None
        told = gains(facts.trials, device_class, item.target_bytes, facts.now_s)
        curves.append(gained(curve, told, usual.of(item.rates).miss_s))
    return summed(curves, 1.0 / hosts) if curves else None


def of_one_host(facts: Facts, host: HostFacts, item: ClassAdvice) -> ClassAdvice:
    """The advice of a group with the misses of one of its hosts, whose load may be another."""
    mine = [i for i in host.without_own_keys if i.osd.device_class == item.device_class]
    curve = class_curve(facts, item.device_class, mine, 1) if item.basis == MEASURED else None
    if curve is None:
        return item
    before, after = curve.at(item.now_bytes), curve.at(item.target_bytes)
    low, high = widened(after.low, after.high)
    return replace(
        item, misses_now=before.misses, misses=after.misses, low=low, high=high,
        wait_now=before.wait, wait=after.wait,
    )


def _measured(
    facts: Facts, shares: Sequence[Share], room: Room, ceiling: int
) -> Tuple[List[ClassAdvice], bool]:
    chosen = divide(
        shares, room.osds_bytes, floor_bytes=facts.limits.least_target_bytes, ceiling_bytes=ceiling
    )
    now = {share.device_class: share.now_bytes for share in shares}
    fits = chosen is not None
    targets = chosen if chosen is not None else _unfit(facts, shares, room)
    before = sum(share.curve.at(share.now_bytes).wait for share in shares)
    after = sum(share.curve.at(targets[share.device_class]).wait for share in shares)
    osds = sum(share.osds for share in shares)
    within = all(n <= ceiling for n in now.values()) and _given(shares) <= room.osds_bytes
    if within and before - after < max(GAIN_MIN * before, WAIT_MIN * osds):
        targets = now
    targets = _settled(shares, targets, room)
    return [_words(share, targets[share.device_class]) for share in shares], fits


def _settled(shares: Sequence[Share], targets: Dict[str, int], room: Room) -> Dict[str, int]:
    """Leave alone who would get a bit more or less than now, as long as all of it fits."""
    missing = {share: share.now_bytes - targets[share.device_class] for share in shares}
    left = room.osds_bytes - _given(shares) + sum(s.osds * more for s, more in missing.items())
    for share, more in sorted(missing.items(), key=lambda item: item[1]):
        if abs(more) < STEP_BYTES and share.osds * more <= max(0, left):
            targets = {**targets, share.device_class: share.now_bytes}
            left -= share.osds * more
    return targets


def _given(shares: Sequence[Share]) -> int:
    return sum(share.osds * share.now_bytes for share in shares)


def _unfit(facts: Facts, shares: Sequence[Share], room: Room) -> Dict[str, int]:
    """Where not even the least fits nobody gets more, and all go down to it if they are beyond."""
    within = _given(shares) <= room.osds_bytes
    return {
        share.device_class: share.now_bytes if within
        else min(share.now_bytes, facts.limits.least_target_bytes) for share in shares
    }


def _words(share: Share, target: int) -> ClassAdvice:
    before, after = share.curve.at(share.now_bytes), share.curve.at(target)
    low, high = widened(after.low, after.high)
    if target == share.now_bytes:
        words = (
            f"{share.device_class}: stays at {amount(share.now_bytes)}; no other split is known "
            f"to reduce waiting by {GAIN_MIN:.0%}. Only a trial shows what more memory would gain"
        )
    else:
        word = "less" if after.wait <= before.wait else "more"
        words = (
            f"{share.device_class}: {amount(share.now_bytes)} to {amount(target)}, onode misses "
            f"{before.misses:.0f}/s to {after.misses:.0f}/s ({low:.0f} to {high:.0f}), "
            f"{1e3 * abs(before.wait - after.wait):.1f} ms {word} waiting for reads in each second"
        )
    return ClassAdvice(
        share.device_class, share.osds, share.now_bytes, target, MEASURED, words, before.misses,
        after.misses, low, high, before.wait, after.wait,
    )


def _by_rule(
    facts: Facts, shares: Sequence[Share], room: Room, ceiling: int
) -> Tuple[List[ClassAdvice], bool]:
    """The same for each OSD, and no more than Ceph's default: more has to be proven.

    What fits is left as it is, where the rule would only take from it; others share the rest.
    """
    limits = replace(facts.limits, memory_ceiling=min(ceiling, TARGET_BYTES_DEFAULT))

    def each(some: Sequence[Share], left_bytes: int) -> int:
        """The step that each of their OSDs gets; 0 where that would be less than the least."""
        osds = sum(share.osds for share in some)
        target = equal_split(replace(room, osds_bytes=left_bytes), osds, limits)
        target = max(target // STEP_BYTES * STEP_BYTES, limits.least_target_bytes)
        return target if target * osds <= left_bytes else 0

    rest, left_bytes = sorted(shares, key=lambda share: share.now_bytes), room.osds_bytes
    step, within = each(rest, left_bytes), _given(shares) <= left_bytes
    fits = step > 0
    while within and step and rest and rest[-1].now_bytes >= step:
        left_bytes -= _given([rest.pop()])
        step = each(rest, left_bytes)
    if not step:  # they would not have the least: all get the same
        rest, step = list(shares), each(shares, room.osds_bytes)
    targets = {share.device_class: share.now_bytes for share in shares}
    targets.update({share.device_class: step for share in rest})
    targets = _settled(shares, targets if fits else _unfit(facts, shares, room), room)
    found = []
    for share in shares:
        target = targets[share.device_class]
        change = (
            f"stays at {amount(target)}" if target == share.now_bytes
            else f"{amount(share.now_bytes)} to {amount(target)}"
        )
        words = (
            f"{share.device_class}: {change}, by a rule and not by measurement: equal shares of "
            f"what the host can give, at most {amount(TARGET_BYTES_DEFAULT)}"
        )
        found.append(ClassAdvice(
            share.device_class, share.osds, share.now_bytes, target, RULE, words
        ))
    return found, fits


PROBE_NOTE = (
    "a probe that cephadm runs as a container takes 1 GiB off its host's targets: cephadm counts "
    "that much for every daemon of a type that it does not know"
)


def instead(facts: Facts, names: Collection[str]) -> List[str]:
    """What to do for these hosts where somebody else sets the targets."""
    hosts = [host for host in facts.hosts if host.name in names]
    if any(host.autotuned for host in hosts):
        return cephadm_settings(hosts)
    told = (item.told_source for host in hosts for item in host.osds)
    sources = {found[0] for found in told if found}
    return rook_patch(facts, hosts) if Source.ENVIRONMENT in sources else []


def cephadm_settings(hosts: Sequence[HostFacts]) -> List[str]:
    """cephadm's own way to give OSDs what they should have, and the ways out of it."""
    lines: List[str] = []
    ratios = []
    for host in hosts:
        room = host.room
        if room is not None and host.osds:
            assumed = others_bytes(dict(host.daemons))
            ratios.append((room.osds_bytes + assumed) / room.total_bytes)
    if ratios:
        lines.append(
            command("ceph config set mgr mgr/cephadm/autotune_memory_target_ratio {}",
                    f"{min(0.95, *ratios):.2f}")
        )
    for host in hosts:
        lines.append(command("ceph orch host label add {} {}", host.name, OPT_OUT_LABEL))
    kinds = {kind for host in hosts for kind, _ in host.daemons}
    if "container" in kinds or "wcache-probe" in kinds:
        lines.append(PROBE_NOTE)
    return lines


def rook_patch(facts: Facts, hosts: Sequence[HostFacts]) -> List[str]:
    """The resources of the CephCluster: a request becomes the target of its OSDs."""
    free = replace(facts.taken_over([host.name for host in hosts]), hosts=tuple(
        replace(host, osds=tuple(
            replace(item, reading=replace(item.reading, source="mon") if item.reading else None)
            for item in host.osds
        )) for host in hosts
    ))
    wanted: Dict[str, int] = {}
    for group in advise(free):
        for item in group.classes:
            # one request for all OSDs of a class: what fits into each host
            known = wanted.get(item.device_class, item.target_bytes)
            wanted[item.device_class] = min(known, item.target_bytes)
    return [
        command("kubectl -n rook-ceph patch cephcluster rook-ceph --type merge -p {}",
                json.dumps({"spec": {"resources": {f"osd-{name}": {
                    "requests": {"memory": f"{target // 2**20}Mi"},
                }}}}, separators=(",", ":")))
        for name, target in sorted(wanted.items())
    ]
