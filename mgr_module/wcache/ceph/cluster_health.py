"""What of the cluster's health keeps wcache away from its OSDs.

`health.py` says what each forbids.  A mute hides a check and cures nothing: OSDs that a muted
check names stay ill, and what it does not name is not kept.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any, Dict, FrozenSet, List, Mapping, Set, Tuple

from ..core.cluster import map_name
from ..core.codec import as_object
from .health import FLAGS, PG_STATES, Named, Reach, row_of

# The worst of a PG's states counts.
_WORST = (Reach.CLUSTER, Reach.OSDS, Reach.BUSY, Reach.RECORDED, Reach.NOTHING)
# More are not read: real clusters have some dozens of checks, and as many lines as OSDs.
CHECKS_MAX, LINES_MAX, LINE_CHARS_MAX = 1000, 50_000, 4096
NAMES_MAX, NAME_CHARS_MAX = 50, 64
_LINE = re.compile(r" *osd\.([0-9]{1,9})(?![0-9.])")
_PAIR = re.compile(
    r"Slow OSD heartbeats on (?:back|front) from osd\.([0-9]{1,9}) \[[^\[\]]*\](?: \(down\))?"
    r" to osd\.([0-9]{1,9}) \[[^\[\]]*\](?: \(down\))?"
    r" [0-9]+(?:\.[0-9]+)? msec(?: possibly improving)?$"  # no CRUSH name can add an OSD
)
_HOST = re.compile(r"([^\s]{1,253}) is in maintenance$")
_DAEMONS = re.compile(
    r"[0-9]+ slow ops, oldest one blocked for [0-9]+ sec, "
    r"(?:daemons \[([^\[\]]*)\](\.\.\.)? have slow ops\.|([^\s,]+) has slow ops)$"
)
_DAEMON = re.compile(r"(?:osd\.([0-9]{1,9})|(?!osd\.)[a-z]{1,32}\.[^\s,\[\]]+)$")
_MONS = re.compile(r"([0-9]{1,4})/([0-9]{1,4}) mons down")
_MODULE = re.compile(r"Module '([^']{1,64})' has failed")
_ORCHESTRATORS = frozenset(("cephadm", "orchestrator", "rook"))
_WORK_FLAGS = frozenset(("noout", "noup", "nodown"))


@dataclass(frozen=True)
class HealthSeen:
    """What the health checks of a moment say; names are printable, and there are few."""

    forbids: Tuple[str, ...] = ()  # checks that keep all OSDs from being measured and changed
    osds: Mapping[int, Tuple[str, ...]] = field(default_factory=dict)  # checks that make them ill
    hosts: FrozenSet[str] = frozenset()  # in maintenance, by the names that cephadm has
    alerted: FrozenSet[int] = frozenset()
    recorded: Tuple[str, ...] = ()


def judged(checks: Any) -> HealthSeen:
    """What all checks say, as `get("health")` of a mgr has them.

    A check of single OSDs that does not name all of them is of all OSDs, unless it is muted.
    An error that nobody knows is of all OSDs, and a warning that nobody knows of none.
    """
    if not isinstance(checks, Mapping):
        return HealthSeen(forbids=("the health checks cannot be read",))
    forbids: Set[str] = set()
    recorded: Set[str] = set()
    ill: Dict[int, Tuple[str, ...]] = {}
    hosts: FrozenSet[str] = frozenset()
    alerted: FrozenSet[int] = frozenset()
    if len(checks) > CHECKS_MAX:
        forbids.add(f"more than {CHECKS_MAX} health checks")
    for said, each in sorted(islice(checks.items(), CHECKS_MAX), key=lambda item: str(item[0])):
        name, check = map_name(said, NAME_CHARS_MAX), as_object(each)
        # what Ceph does not say is no warning
        row, severity = row_of(name), str(check.get("severity", ""))
        muted = check.get("muted") is True
        if severity == "HEALTH_OK" or row.scope is Reach.NOTHING:
            continue
        if muted and row.mute_lifts:
            continue
        osds, fully = _read(row.named, check)
        on_hosts = _hosts_named(check) if row.named is Named.HOSTS else frozenset()
        if row.scope is Reach.ALERT:
            alerted |= osds
            stays = False
        elif row.scope is Reach.OSDS:
            ill.update((osd_id, (*ill.get(osd_id, ()), name)) for osd_id in osds)
            hosts |= on_hosts
            stays = not fully and not muted
        elif row.scope is Reach.CLUSTER:
            stays = name != "MON_DOWN" or _mons_at_risk(check)
        else:
            stays = severity != "HEALTH_WARN" and not muted
            stays = stays and (name != "MGR_MODULE_ERROR" or _orchestrator_failed(check))
        if stays:
            forbids.add(name)
        elif not muted and not (fully and (osds or on_hosts)):
            recorded.add(name)
    return HealthSeen(
        _few(forbids), {osd_id: ill[osd_id] for osd_id in sorted(ill)}, hosts, alerted,
        _few(recorded),
    )


def reason(name: str) -> str:
    """Why a check that `judged` has in `forbids` keeps all OSDs, in a line."""
    row = row_of(name)
    if row.scope is Reach.OSDS:
        return f"{name} does not name all OSDs that it is about"
    return f"{name}: {row.why}"


def flags_forbid(osd_map: Mapping[str, Any]) -> Tuple[str, ...]:
    """What of the whole OSD map keeps all OSDs: its flags, and its stretch mode.

    The check of a stretch mode can be turned off (mon_warn_on_degraded_stretch_mode).
    """
    flags = str(osd_map.get("flags", ""))[:LINE_CHARS_MAX].split(",")
    forbids = {flag for flag in flags if row_of(flag, FLAGS).scope is Reach.CLUSTER}
    stretch = osd_map.get("stretch_mode")
    if isinstance(stretch, Mapping) and any(
        stretch.get(f"{word}_stretch_mode") for word in ("degraded", "recovering")
    ):
        forbids.add("degraded stretch mode")
    return _few(forbids)


def in_work(
    osd_map: Mapping[str, Any]
) -> Tuple[FrozenSet[int], FrozenSet[str], FrozenSet[str]]:
    """OSDs, names of CRUSH and classes that an admin keeps from coming up, or going down or out."""
    rows = osd_map.get("osds", ())
    return (
        frozenset(int(row["osd"]) for row in rows if _flagged(row.get("state", ()))),
        _names_flagged(osd_map.get("crush_node_flags")),
        _names_flagged(osd_map.get("device_class_flags")),
    )


@lru_cache(maxsize=1024)  # each OSD has PGs of the same few states
def pg_scope(state: str) -> Reach:
    """Whom the PGs of a state, as in `active+clean`, keep from being measured and changed.

    A word that nobody knows makes ill, and so does the lack of `active`.
    """
    words = str(state)[:LINE_CHARS_MAX].split("+")
    found = {row_of(word, PG_STATES).scope for word in words}
    if Reach.ERROR in found or "active" not in words:
        found.add(Reach.OSDS)
    return next(scope for scope in _WORST if scope in found)


def pgs_forbid(states: Mapping[str, Any]) -> Tuple[str, ...]:
    """The words of PG states that keep all OSDs, of how many PGs there are of each state."""
    words = {
        word for state, count in islice(states.items(), LINES_MAX) if count
        for word in str(state)[:LINE_CHARS_MAX].split("+")
    }
    return _few({word for word in words if row_of(word, PG_STATES).scope is Reach.CLUSTER})


def _read(named: Named, check: Mapping[str, Any]) -> Tuple[FrozenSet[int], bool]:
    """(the OSDs that a check names, whether these are all)."""
    if named is Named.NOWHERE:
        return frozenset(), False
    if named is Named.SUMMARY:
        return _of_summary(_summary(check))
    lines, all_lines = _lines(check)
    pattern = {Named.PAIRS: _PAIR, Named.HOSTS: _HOST}.get(named, _LINE)
    found = [pattern.match(line) for line in lines]
    osds = frozenset(
        int(number) for each in found if each and named is not Named.HOSTS
        for number in each.groups()
    )
    if named is Named.ELSEWHERE:
        return osds, True
    # cephadm counts hosts in maintenance as one
    expected = 1 if named is Named.HOSTS else max(1, _count(check))
    return osds, all_lines and all(found) and len(found) >= expected


def _of_summary(text: str) -> Tuple[FrozenSet[int], bool]:
    matched = _DAEMONS.match(text)
    if not matched:
        return frozenset(), False
    several, cut_off, one = matched.groups()
    daemons = [_DAEMON.match(each) for each in (one or several).split(",")]
    osds = frozenset(int(each.group(1)) for each in daemons if each and each.group(1))
    return osds, all(daemons) and not cut_off


def _mons_at_risk(check: Mapping[str, Any]) -> bool:
    """Of MON_DOWN, whether the cluster stops with the next mon; also where it cannot be read.

    All mons there is no case of it, however few they are: one, or two.
    """
    matched = _MONS.match(_summary(check))
    if not matched:
        return True
    missing, mons = int(matched.group(1)), int(matched.group(2))
    return missing > 0 and mons - missing - 1 < mons // 2 + 1


def _orchestrator_failed(check: Mapping[str, Any]) -> bool:
    """Of MGR_MODULE_ERROR, whether a module that tells of work on hosts may be among them."""
    lines, all_lines = _lines(check)
    found = [_MODULE.match(line) for line in lines]
    others = [each for each in found if each and each.group(1) not in _ORCHESTRATORS]
    return not (all_lines and lines and len(others) == len(lines))


def _hosts_named(check: Mapping[str, Any]) -> FrozenSet[str]:
    found = (_HOST.match(line) for line in _lines(check)[0])
    return frozenset(map_name(each.group(1)) for each in found if each)


def _lines(check: Mapping[str, Any]) -> Tuple[List[str], bool]:
    """(the lines of a check's details, whether these are all)."""
    details = check.get("detail")
    if not isinstance(details, (list, tuple)):
        return [], False
    return [_message(each) for each in details[:LINES_MAX]], len(details) <= LINES_MAX


def _message(part: Any) -> str:
    text = as_object(part).get("message")
    return text[:LINE_CHARS_MAX] if isinstance(text, str) else ""


def _summary(check: Mapping[str, Any]) -> str:
    return _message(check.get("summary"))


def _count(check: Mapping[str, Any]) -> int:
    count = as_object(check.get("summary")).get("count")
    return count if isinstance(count, int) else 0


def _flagged(flags: Any) -> bool:
    return isinstance(flags, (list, tuple)) and not _WORK_FLAGS.isdisjoint(flags)


def _names_flagged(flags: Any) -> FrozenSet[str]:
    return frozenset(map_name(name) for name, each in as_object(flags).items() if _flagged(each))


def _few(names: Set[str]) -> Tuple[str, ...]:
    """Sorted, and the rest as a number."""
    listed = sorted(names)
    more = len(listed) - NAMES_MAX
    return (*listed[:NAMES_MAX], f"{more} more") if more > 0 else tuple(listed)
