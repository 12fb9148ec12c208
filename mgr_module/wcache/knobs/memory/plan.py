"""From advice to changes of the config database: which section, which order, how fast.

Where all hosts of a device class get the same, its own section is set (`osd/class:C`), else those
of each host (`osd/host:H/class:C`, for every CRUSH host that its OSDs stand in).  A value for a
whole host (`osd/host:H`) overrides both, so it goes, and the host's other classes keep by name
what they had of it.  Nothing is set that would change the value of an OSD with a key of its own.
Targets go by at most 5% in a minute.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Dict, Iterable, List, Optional, Sequence, Set, Tuple

from ...core.change.change import Change
from ...core.change.rollout_state import Rollout
from ...core.change.waves import growing
from ...core.config_database import Config, ConfigEdit, Entry, OsdValue, same, values_of
from ...core.setting.config_setting import ConfigSetting, sample
from ...core.text import amount, named, typed
from ..knob import CHANGES_MAX, Asked, Wanted
from .advice import UNHEARD, GroupAdvice
from .facts import LABELS, OPT_OUT_LABEL, Facts, HostFacts, crush_host_of, host_section
from .reading import MEMORY, STEP_SHARE, TARGET

# Hosts share a change: the canary host alone, then groups that grow to 1 / SHARE of them.
SHARE = 8
READ_BACK_MAX = 64


def make_changes(
    asked: Asked, groups: Sequence[GroupAdvice], facts: Facts, taken_over: Sequence[str] = ()
) -> Wanted:
    """The changes that make the advice true: what shrinks first, so that a host never overflows."""
    if asked.scope.osd_id is not None or asked.scope.drive_model:
        return Wanted((), ("memory: a plan of it is for hosts or device classes",))
    left = [f"{named(group.hosts)}: {line}" for group in groups for line in group.left_alone]
    wanted = {
        (host, item.device_class): (item.now_bytes, item.target_bytes)
        for group in groups for host in group.hosts for item in group.classes
        if item.changed and asked.wants(host, item.device_class)
    }
    whole, homes = not asked.scope.hostname, {host for host, _ in wanted}
    while True:
        edits, refused = _sections(wanted, facts, whole)
        full = overfull(facts, _edits(edits))
        rises = [key for key, pair in wanted.items() if key[0] in full and pair[1] > pair[0]]
        if not rises:
            break
        for host, name in rises:
            del wanted[host, name]
            left.append(f"{name} gets no more: {full[host]}{_first(asked, groups, host)}")
    left += refused
    changes: List[Change] = []
    for host in taken_over:
        who = LABELS.format(host=host)
        # whose targets are to change and cannot keeps who sets them
        kept = host in homes and not any(host in section.hosts for section in edits)
        if facts.config.at(who, OPT_OUT_LABEL) is None and not kept:
            edit = ConfigEdit(who, OPT_OUT_LABEL, "label", None)
            changes.append(_change(asked, changes, (edit,), "", f"host {host}",
                                   "cephadm's autotuner leaves the host alone"))
    going: Dict[Tuple[ConfigEdit, ...], List[Section]] = {}
    for section in edits:
        if section.removals:
            going.setdefault(section.removals, []).append(section)
    for sections in going.values():
        changes.append(_by_class(asked, changes, sections, facts))
    for items in _batches(edits):
        for step, back in _ramp(items):
            changes.append(_stepped(asked, changes, items, step, back, facts))
    if len(changes) > CHANGES_MAX:
        return Wanted((), (*left, f"this takes {len(changes)} steps, {CHANGES_MAX} are the most "
                                  "of one plan: narrow it with --scope"))
    return Wanted(tuple(changes), tuple(left if changes or left else _staying(asked, groups)))


def _first(asked: Asked, groups: Sequence[GroupAdvice], host: str) -> str:
    """Which classes of a host are to give something up that this plan is not asked for."""
    return "".join(
        f"; shrink class {item.device_class} first, with "
        + typed("ceph wcache plan --knob=memory --scope=class:{}", item.device_class)
        for group in groups for item in group.classes if host in group.hosts
        and item.target_bytes < item.now_bytes and not asked.wants(host, item.device_class)
    )


def overfull(facts: Facts, edits: Iterable[ConfigEdit]) -> Dict[str, str]:
    """By host, that it would give its OSDs more by these edits, and more than it has for them.

    Or one of them more than its own cgroup bears.
    """
    after = facts.config.after(edits)
    found = {}
    for host in facts.hosts:
        room, most = host.room, host.bearable
        now = {item.osd.osd_id: item.target_by(facts.config) for item in host.osds}
        then = {item.osd.osd_id: item.target_by(after) for item in host.osds}
        tight = [osd_id for osd_id in most if then[osd_id] > max(now[osd_id], most[osd_id])]
        given = sum(then.values())
        if given > max(sum(now.values()), room.osds_bytes if room else 0):
            found[host.name] = f"host {host.name} would give its OSDs {amount(given)}, and " + (
                f"has {amount(room.osds_bytes)} for them" if room else UNHEARD
            )
        elif tight:
            found[host.name] = (
                f"osd.{tight[0]} on {host.name} would get {amount(then[tight[0]])}, and the limit "
                f"of its control group, less memory_headroom, is {amount(most[tight[0]])}"
            )
    return found


def hosts_of(changes: Iterable[Change], facts: Facts) -> Set[str]:
    """The machines of the OSDs that these may concern."""
    sections = {edit.who for change in changes for edit in change.edits}
    named_by = Config(Entry(who, TARGET, "") for who in sections)
    return {
        host.name for host in facts.hosts
        if any(named_by.of_osd(item.osd, TARGET) for item in host.osds)
    }


def back_edits(changes: Iterable[Change], config: Config) -> List[ConfigEdit]:
    """What takes these changes back, the last one first; what others have set since stays."""
    edits = [edit for change in changes for edit in change.edits]
    now = zip(edits, values_of(edits, config))
    ours = {edit.key for edit, value in now if same(value, edit.value)}
    return [edit.inverse for edit in reversed(edits) if edit.key in ours]


def _staying(asked: Asked, groups: Sequence[GroupAdvice]) -> List[str]:
    """Say of each class on each group of hosts why its target stays."""
    return [
        f"{named(group.hosts)}: {item.words}" for group in groups for item in group.classes
        if any(asked.wants(host, item.device_class) for host in group.hosts)
    ]


def raised_by(rollout: Rollout) -> Dict[int, int]:
    """Return the targets that a plan comes to, by OSD, of OSDs that have a smaller one before."""
    before: Dict[int, int] = {}
    after: Dict[int, int] = {}
    for change in rollout.changes:
        setting = change.setting if change.setting.knob == MEMORY.name else None
        for value in setting.expect if isinstance(setting, ConfigSetting) else ():
            before.setdefault(value.osd_id, int(value.prior))
            after[value.osd_id] = int(value.value)
    return {osd_id: value for osd_id, value in after.items() if value > before[osd_id]}


@dataclass
class Section:
    """One section to be set, from its present value; what goes with it; whom it covers."""

    who: str
    device_class: str
    prior: Optional[str]
    now_bytes: int
    target_bytes: int
    osd_ids: Tuple[int, ...]
    hosts: Tuple[str, ...]
    removals: Tuple[ConfigEdit, ...] = ()


def _sections(
    wanted: Dict[Tuple[str, str], Tuple[int, int]], facts: Facts, may_be_whole: bool
) -> Tuple[List[Section], List[str]]:
    """What to set, of (now, target) by host and class; and what is left alone.

    Of hosts that were asked for by name, no value of a whole class is set.
    """
    by_name = {host.name: host for host in facts.hosts}
    homes: Dict[str, List[str]] = {}
    for host in facts.hosts:
        for name in sorted({item.osd.device_class for item in host.osds}):
            homes.setdefault(name, []).append(host.name)
    found: List[Section] = []
    left: List[str] = []
    whole: Set[str] = set()
    for name, hosts in sorted(homes.items()):
        values = {wanted.get((host, name)) for host in hosts}
        free = not any(
            facts.config.at(host_section(crush_host, *of), TARGET)
            for h in hosts for crush_host in by_name[h].crush_hosts for of in ((), (name,))
        )
        if may_be_whole and len(values) == 1 and None not in values and free:
            section = _section(facts, f"osd/class:{name}", name, [by_name[h] for h in hosts],
                               *wanted[(hosts[0], name)])
            why = _refused(facts, [section])
            left += [why] if why else []
            found += [] if why else [section]
            whole.add(name)
    for host in facts.hosts:
        mine = {
            name: pair for (home, name), pair in wanted.items()
            if home == host.name and name not in whole
        }
        sections, why = _of_host(facts, host, mine) if mine else ([], "")
        left += [why] if why else []
        found += sections
    return found, left


def _of_host(
    facts: Facts, host: HostFacts, mine: Dict[str, Tuple[int, int]]
) -> Tuple[List[Section], str]:
    """A machine's own sections, by its CRUSH hosts; for all classes of each, or for none.

    A value for all of a CRUSH host goes when each class has its own.
    """
    for other in facts.hosts:
        both = {*other.crush_hosts} & {*host.crush_hosts}
        if other.name != host.name and both:
            return [], (
                f"the OSDs of machine {host.name} and of {other.name} are in one CRUSH host, "
                f"{min(both)}: a value for it would be for both machines"
            )
    found: List[Section] = []
    for crush_host in host.crush_hosts:
        here = {
            item.osd.device_class for item in host.osds if crush_host_of(item.osd) == crush_host
        }
        entry = facts.config.at(host_section(crush_host), TARGET)
        pairs = {name: pair for name, pair in mine.items() if name in here}
        for name in sorted(here) if pairs and entry is not None else ():
            # they keep what they have of the value that goes
            if facts.config.at(host_section(crush_host, name), TARGET) is None:
                kept = int(entry.number or 0) if entry is not None else 0
                pairs.setdefault(name, (kept, kept))
        gone = () if entry is None else (
            ConfigEdit(host_section(crush_host), TARGET, None, entry.value),
        )
        found += [
            _section(
                facts, host_section(crush_host, name), name, [host], *pair, crush_host, gone
            )
            for name, pair in sorted(pairs.items())
        ]
    why = _refused(facts, found)
    return ([], why) if why else (found, "")


def _section(
    facts: Facts, who: str, device_class: str, hosts: Sequence[HostFacts], now: int, target: int,
    crush_host: str = "", removals: Tuple[ConfigEdit, ...] = (),
) -> Section:
    entry = facts.config.at(who, TARGET)
    ids = [
        item.osd.osd_id for host in hosts for item in host.osds
        if item.osd.device_class == device_class and item not in host.own_keys
        and crush_host in ("", crush_host_of(item.osd))
    ]
    return Section(
        who, device_class, None if entry is None else entry.value, now, target, tuple(ids),
        tuple(host.name for host in hosts), removals,
    )


def _edits(sections: Sequence[Section]) -> List[ConfigEdit]:
    edits = [ConfigEdit(s.who, TARGET, str(s.target_bytes), s.prior) for s in sections]
    return [*edits, *dict.fromkeys(edit for s in sections for edit in s.removals)]


def _refused(facts: Facts, sections: Sequence[Section]) -> str:
    """Why these sections would not do, by the mons' own rule: some other value overrides them."""
    after = facts.config.after(_edits(sections))
    reach = {osd_id: section for section in sections for osd_id in section.osd_ids}
    for _, item in facts.by_id().values():
        osd = item.osd
        before, then = facts.config.of_osd(osd, TARGET), after.of_osd(osd, TARGET)
        section = reach.get(osd.osd_id)
        if section is not None:
            if then is None or then.who != section.who:
                by = then.who if then else "the default"
                return (
                    f"{section.who} would not reach osd.{osd.osd_id}, which takes {by}: look at "
                    "`ceph config dump` and remove what is not wanted"
                )
        elif (then and then.value) != (before and before.value):
            return (
                f"{sections[0].who} would override the value of osd.{osd.osd_id}, which an admin "
                "has set for it alone: " + typed("ceph config rm osd.{} {}", osd.osd_id, TARGET)
                + " if it is no longer wanted"
            )
    return ""


def _by_class(
    asked: Asked, changes: Sequence[Change], sections: Sequence[Section], facts: Facts
) -> Change:
    """Each class gets by name what it has of the host's value, which goes: nothing moves."""
    edits = [ConfigEdit(s.who, TARGET, str(s.now_bytes), s.prior) for s in sections]
    edits += sections[0].removals
    expect = _expected(facts, sections, [s.now_bytes for s in sections], None)
    for section in sections:
        section.prior = str(section.now_bytes)
    return _change(
        asked, changes, tuple(edits), "", f"host {sections[0].hosts[0]}",
        "a value for the whole host takes precedence over those for its device classes", expect,
    )


def _batches(sections: Sequence[Section]) -> List[List[Section]]:
    """Sections that are set together: what shrinks comes first, a canary host before the rest."""
    found: List[List[Section]] = []
    for shrink in (True, False):
        mine = [
            s for s in sections
            if s.target_bytes != s.now_bytes and (s.target_bytes < s.now_bytes) is shrink
        ]
        by_hosts: Dict[Tuple[str, ...], List[Section]] = {}
        for section in mine:
            by_hosts.setdefault((*section.hosts, str(section.who.count("host:"))), []).append(
                section
            )
        for group in growing(list(by_hosts.values()), SHARE):
            found.append([s for batch in group for s in batch])
    return found


def _ramp(sections: Sequence[Section]) -> List[Tuple[List[int], List[int]]]:
    """The values of each step for each section, and those of the step before."""
    count = max(
        max(1, math.ceil(
            abs(math.log(s.target_bytes / s.now_bytes)) / -math.log(1.0 - STEP_SHARE) - 1e-9
        )) for s in sections
    )
    while True:
        ways = [[s.now_bytes for s in sections], *(
            [_at_step(s, number, count) for s in sections] for number in range(1, count + 1)
        )]
        # rounding can make one of them a little larger
        if all(
            min(value, was) >= (1.0 - STEP_SHARE) * max(value, was)
            for before, values in zip(ways, ways[1:]) for value, was in zip(values, before)
        ):
            return list(zip(ways[1:], ways))
        count += 1


def _at_step(section: Section, number: int, count: int) -> int:
    if number == count:
        return section.target_bytes
    ratio: float = (section.target_bytes / section.now_bytes) ** (number / count)
    return math.ceil(section.now_bytes * ratio / 2**20) * 2**20


def _stepped(
    asked: Asked, changes: Sequence[Change], sections: Sequence[Section],
    values: Sequence[int], before: Sequence[int], facts: Facts,
) -> Change:
    first = all(was == s.now_bytes for was, s in zip(before, sections))
    known = facts.by_id()
    felt = [o for s in sections for o in s.osd_ids if known[o][1].osd.up]
    edits = [
        ConfigEdit(s.who, TARGET, str(value), s.prior if first else str(was))
        for s, value, was in zip(sections, values, before)
    ]
    expect = _expected(facts, sections, values, None if first else before)
    step_s = facts.limits.memory_step_s
    falls = any(value < was for value, was in zip(values, before))
    rises = any(value > was for value, was in zip(values, before))
    where = sections[0].who.replace("osd/", "", 1)
    more = f" and {len(sections) - 1} more" if len(sections) > 1 else ""
    if asked.scope.hostname:  # all of it is there, whatever CRUSH hosts it is set for
        where, more = f"host {asked.scope.hostname}", ""
    return _change(
        asked, changes, tuple(edits), sections[0].device_class, where + more,
        "its part in the division of the host's memory", expect,
        step_s if falls else 0.0, step_s if rises else 0.0, felt,
    )


def _expected(
    facts: Facts, sections: Sequence[Section], values: Sequence[int],
    before: Optional[Sequence[int]],
) -> Tuple[OsdValue, ...]:
    """What OSDs must have afterwards, and before; None: what each has now."""
    known = facts.by_id()
    return tuple(
        OsdValue(
            osd_id, TARGET, str(value),
            str(known[osd_id][1].target_bytes if before is None else before[index]),
        )
        for index, (s, value) in enumerate(zip(sections, values)) for osd_id in s.osd_ids
        if known[osd_id][1].osd.up
    )[:READ_BACK_MAX]


def _change(
    asked: Asked, changes: Sequence[Change], edits: Tuple[ConfigEdit, ...],
    device_class: str, where: str, why: str, expect: Tuple[OsdValue, ...] = (),
    wait_s: float = 0.0, back_wait_s: float = 0.0, felt: Sequence[int] = (),
) -> Change:
    return Change(
        asked.action_id(len(changes)), ConfigSetting(MEMORY.name, edits, expect), device_class,
        why, where, wait_s=wait_s, back_wait_s=back_wait_s, judged_on=sample(felt),
    )
