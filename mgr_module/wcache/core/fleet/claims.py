"""Whose word counts for an OSD: that of the host it runs on, where a probe speaks for it.

Whoever holds one host's key can report drives that any OSD uses.  So which host a key speaks for
is never believed from its report: it is the host of Ceph's map that has the key's own name, with
or without its domain, or the one that an admin says (`host_names`).  No other host's OSD is
measured or changed, and no other machine's memory is known, for what it reports.

How old is what is shown of hosts: the age of their last reports, in words.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import AbstractSet, Any, Dict, FrozenSet, Iterable, List, Mapping, Optional, Tuple

from ..cluster import ClusterState, OsdNow
from ..errors import Refusal, RefusalKind
from ..host_report import HostReport
from ..model import Cure, DriveReport, Finding, FindingCode
from ..text import CommandLine, many, roughly, ticked, typed

HOST_NAMES_CHARS_MAX = 100_000
# A longer command is no advice: then the entry alone is told.
ADVISED_CHARS_MAX = 200


# What probes find.  All other codes, and the commands in a line, are the module's own words.
FOUND_BY_PROBES = frozenset((
    FindingCode.BCACHE_STATE, FindingCode.FLUSH_UNPROVEN, FindingCode.FOREIGN_RULE,
    FindingCode.NOT_PINNED, FindingCode.NOT_PREPARED, FindingCode.NO_VOLATILE_CACHE,
    FindingCode.RAID_POLICY, FindingCode.RESTORE_FAILED, FindingCode.SAVED_DIFFERS,
    FindingCode.SETUP, FindingCode.SHARED_DRIVE, FindingCode.SHINGLED,
    FindingCode.TOGGLE_INEFFECTIVE, FindingCode.UNKNOWN_LAYER, FindingCode.UNSAFE,
))
CURES_OF_PROBES = (Cure.GENERAL, Cure.LET_PROBE_SEE, Cure.BOOT_ONCE)


def as_a_probe_may(report: HostReport) -> HostReport:
    """Return a report without what would speak as the module does: other codes and cures."""
    return replace(report, findings=_of_a_probe(report.findings), drives=tuple(
        replace(drive, findings=_of_a_probe(drive.findings)) if drive.findings else drive
        for drive in report.drives
    ))


def _of_a_probe(findings: Iterable[Finding]) -> Tuple[Finding, ...]:
    return tuple(
        one if one.cure in CURES_OF_PROBES else replace(one, cure=Cure.GENERAL)
        for one in findings if one.code in FOUND_BY_PROBES
    )


def believed(reports: Iterable[HostReport], cluster: ClusterState) -> List[HostReport]:
    """The reports without uses by another host's OSDs; a drive that had one is refused."""
    known: Dict[str, HostReport] = {report.hostname: report for report in reports}
    hosts = speaking_for(known.keys(), cluster)
    return [_checked(report, cluster, hosts) for report in known.values()]


def believed_of(
    hostname: str, reports: Mapping[str, HostReport], cluster: ClusterState
) -> HostReport:
    """The same for the report of one host alone, of all that there are."""
    return _checked(reports[hostname], cluster, speaking_for(reports.keys(), cluster))


def speaking_for(keys: Iterable[str], cluster: ClusterState) -> Dict[str, str]:
    """For each name that a probe's key is for, the host of the map whose OSDs it speaks for.

    "" where none can be told.  Each host of the map has one key at most: the one of its name, else
    the one that an admin says is its, else the only one whose name differs by its domain alone.
    """
    on_map, mine = cluster.hostnames, [*keys]
    found = dict(zip(mine, mine))
    if on_map.issuperset(mine):
        return found
    found.update(dict.fromkeys(found.keys() - on_map, ""))
    spoken_for = set(found.values())
    for key, host in sorted(cluster.host_names.items()):
        if found.get(key) == "" and host in on_map and host not in spoken_for:
            found[key] = host
            spoken_for.add(host)
    bare = {key for key in found if not found[key] and key not in cluster.host_names}
    if not bare:
        return found
    keys, names = _by_label(bare), _by_label(on_map)
    for host in sorted(on_map - set(found.values())):
        label = _label(host)
        keys_of = [key for key in keys.get(label, ()) if "." not in host or "." not in key]
        hosts_of = [
            name for name in names[label] for key in keys_of if "." not in name or "." not in key
        ]
        if len(keys_of) == len(hosts_of) == 1:
            found[keys_of[0]] = host
    return found


def _by_label(names: Iterable[str]) -> Dict[str, List[str]]:
    """Names by what two that differ by a domain alone have in common."""
    found: Dict[str, List[str]] = {}
    for name in names:
        found.setdefault(_label(name), []).append(name)
    return found


def _label(name: str) -> str:
    return name.lower().partition(".")[0]


def _checked(
    report: HostReport, cluster: ClusterState, hosts: Mapping[str, str]
) -> HostReport:
    if not report.real:
        return report  # nothing but itself is measured for its OSDs
    host = hosts[report.hostname]
    found = (cluster.osds.get(use.osd_id) for drive in report.drives for use in drive.uses)
    # an OSD may have told none yet
    if {osd.hostname for osd in found if osd is not None} <= {host, ""}:
        return report
    key = report.hostname
    drives = tuple(_checked_drive(drive, key, cluster, hosts) for drive in report.drives)
    return replace(report, drives=drives)


def _checked_drive(
    drive: DriveReport, key: str, cluster: ClusterState, hosts: Mapping[str, str]
) -> DriveReport:
    host = hosts[key]
    known = (use for use in drive.uses if use.osd_id in cluster.osds)
    others = [use for use in known if cluster.osds[use.osd_id].hostname not in ("", host)]
    if not others:
        return drive
    last = cluster.osds[others[-1].osd_id]
    why = "whose own probe speaks for it" if last.hostname in hosts.values() else (
        f"and this report speaks for {host} alone" if host else
        "and Ceph's maps have no host of this key's name: "
        f"{how_to_name(key, last.hostname, cluster)}, else "
        f"{typed('ceph wcache agent add {}', last.hostname)}"
    )
    return replace(
        drive, uses=tuple(use for use in drive.uses if use not in others),
        refusals=(*drive.refusals, Refusal(
            RefusalKind.LEFT_ALONE, f"osd.{last.osd_id} runs on {last.hostname}, {why}"
        )),
    )


def how_to_name(key: str, host: str, cluster: ClusterState) -> str:
    """What an admin does about a key of another name than its host: it is not another probe."""
    names = {**cluster.host_names, key: host}
    text = ",".join(f"{one}={other}" for one, other in sorted(names.items()))
    if len(text) > ADVISED_CHARS_MAX:
        return (
            f"if its probe runs there, add {typed('{}', f'{key}={host}')} to mgr/wcache/host_names"
        )
    return (
        "if its probe runs there, "
        f"{typed('ceph config set mgr mgr/wcache/host_names {}', text)}"
    )


def host_names_of(text: str) -> Dict[str, str]:
    """What an admin says in `host_names`: "KEY=HOST, KEY=HOST"; what is neither says nothing."""
    pairs = (item.partition("=") for item in text[:HOST_NAMES_CHARS_MAX].split(","))
    found = {key.strip(): host.strip() for key, _, host in pairs}
    return {key: host for key, host in found.items() if key and host}


def osds_now(reports: Iterable[HostReport], cluster: ClusterState) -> Dict[int, OsdNow]:
    """Every OSD of the map with its drives, by the last report of its host."""
    drives: Dict[int, FrozenSet[Tuple[str, str]]] = {}
    for report in believed(reports, cluster):
        for drive in report.drives:
            for use in drive.uses:
                held = drives.get(use.osd_id, frozenset())
                drives[use.osd_id] = held | {(report.hostname, drive.drive_id)}
    return {
        osd_id: OsdNow(osd.uuid, drives.get(osd_id, frozenset()))
        for osd_id, osd in cluster.osds.items()
    }


# A command that goes by reports older than this has the hosts looked at again.
OLD_S = 60.0


@dataclass(frozen=True)
class Age:
    """Of the newest and the oldest report, with the host of the oldest.

    `unknown` hosts have sent none since the mgr, their probe, or a change of ours; None where
    there is no report at all.
    """

    newest_s: Optional[float] = None
    oldest_s: Optional[float] = None
    oldest_of: str = ""
    unknown: int = 0


def age_of(hosts: AbstractSet[str], reported_at_s: Mapping[str, float], now_s: float) -> Age:
    """Return the age of the reports of some hosts, by when they came; of others it is unknown."""
    known = [*(reported_at_s.keys() & hosts)]
    unknown = len(hosts) - len(known)
    if not known:
        return Age(unknown=unknown)
    times = [*map(reported_at_s.__getitem__, known)]
    oldest_at_s = min(times)
    oldest = max(name for name, at_s in zip(known, times) if at_s == oldest_at_s)
    return Age(round(now_s - max(times), 1), round(now_s - oldest_at_s, 1), oldest, unknown)


def words(age: Mapping[str, Any]) -> str:
    """For people, of an Age as plain data; "" where there is no report at all."""
    newest, oldest, unknown = age["newest_s"], age["oldest_s"], age["unknown"]
    since = "the last change or start"
    if newest is None or oldest is None:
        return f"before {since} ({many(unknown, 'host')})" if unknown else ""
    more = f"{many(unknown, 'host')} not since {since}" if unknown else ""
    low, high = roughly(newest), roughly(oldest)
    said = f"{low} ago" if low == high else f"{low} to {high} ago ({age['oldest_of']})"
    return f"{said}; {more}" if more else said


def again(age: Mapping[str, Any], line: CommandLine) -> List[str]:
    """A line of a command that goes by old reports; none where they are young."""
    if not age["unknown"] and (age["oldest_s"] or 0.0) <= OLD_S:
        return []
    return [
        f"as reported {words(age)}; the probes are asked to look again: in half a minute "
        f"{ticked(line)} goes by what is there then"
    ]
