"""`ceph wcache status`: what there is, is under way, forbids or is wrong.

An alert of slow operations in BlueStore forbids nothing: it is explained, by what the OSD does
now beside its like.
"""

from __future__ import annotations

import math
from collections import Counter
from statistics import median
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Set, Tuple

from ..core.change.preconditions import faults
from ..core.cluster import ClusterState, SlowOsd
from ..core.fleet import claims
from ..core.model import Severity
from ..core.text import duration, grouped, many, named, ticked, typed, when
from ..core.verdict.outlook import Backlog
from ..engine.world import World
from ..services.outlook import Situation, next_step
from .drives import flushed
from .hosts import FleetView, HostView
from .tables import NUMBER, Column, listing

CommitMs = Callable[[int], Optional[float]]
"""What a commit of an OSD takes now; None where that is not known."""

Kind = Tuple[str, str]  # device class and name of the drive model
# OSDs with the alert that are shown with figures; and of how many of its like each is beside.
SHOWN_MAX, LIKE_MAX, LIKE_MIN = 3, 16, 3
REASONS_MAX, NAMED_IN_JSON_MAX = 4, 1000


def standing(world: World, fleet: FleetView, commit_ms: CommitMs) -> Dict[str, Any]:
    """The cluster in plain data; `fleet` is asked only where an OSD has the alert."""
    cluster = world.cluster
    there = cluster.osds.keys()  # views: of 100,000 OSDs no set is made
    told = cluster.down | (there & {*cluster.ill, *cluster.slow_op_osds})
    ill = Counter(cluster.illness(told).values())
    return {
        "osds": len(cluster.osds),
        "blocking": [item.value for item in cluster.blocking],
        "sick": list(cluster.sick),
        "ill": {
            "osds": sum(ill.values()),
            "reasons": [{"why": why, "osds": osds} for why, osds in ill.most_common()],
        },
        "busy": None if cluster.busy is None else len(there & cluster.busy),
        "slow_bluestore": _slow(world, fleet, commit_ms) if cluster.slow_osds else
        {"osds": 0, "osd_ids": [], "shown": [], "drive_models": []},
    }


def _slow(world: World, fleet: FleetView, commit_ms: CommitMs) -> Dict[str, Any]:
    cluster = world.cluster
    slow = {one.osd_id for one in cluster.slow_osds}
    kind_of, like = _kinds(fleet.views.values(), cluster, slow)
    decided = {
        (found.device_class, str(found.drive_model)) for found in world.recommendations
        if found.verdict.decided
    }
    counts = Counter(kind_of.values())
    return {
        "osds": len(slow),
        "osd_ids": sorted(slow)[:NAMED_IN_JSON_MAX],
        "shown": [
            _one(one, kind_of.get(one.osd_id), like, cluster, world.now_s, commit_ms)
            for one in cluster.slow_osds[:SHOWN_MAX]
        ],
        "drive_models": [
            {"device_class": kind[0], "drive_model": kind[1], "osds": count,
             "of": sum(map(len, like[kind])), "decided": kind in decided}
            for kind, count in counts.most_common()
        ],
    }


def _kinds(
    hosts: Iterable[HostView], cluster: ClusterState, slow: Set[int]
) -> Tuple[Dict[int, Kind], Dict[Kind, List[Tuple[int, ...]]]]:
    """(what slow OSDs are like, all OSDs of these kinds by host) of a real cluster.

    A host's OSDs on one drive model are taken to be of one class: there may be 100,000.
    """
    alike = [
        (name, osds) for host in hosts if not host.report.simulated
        for name, osds in host.osds.items()
    ]
    kind_of: Dict[int, Kind] = {}
    for name, osds in alike:
        for osd_id in slow.intersection(osds):
            if osd_id in cluster.osds:
                kind_of[osd_id] = (cluster.osds[osd_id].device_class, name)
    names, kinds = {name for _, name in kind_of.values()}, {*kind_of.values()}
    found: Dict[Kind, List[Tuple[int, ...]]] = {kind: [] for kind in kinds}
    for name, osds in alike:
        first = cluster.osds.get(osds[0]) if name in names else None
        if first is not None and (first.device_class, name) in kinds:
            found[first.device_class, name].append(osds)
    return kind_of, found


def _one(
    one: SlowOsd, kind: Optional[Kind], like: Mapping[Kind, Sequence[Tuple[int, ...]]],
    cluster: ClusterState, now_s: float, commit_ms: CommitMs,
) -> Dict[str, Any]:
    """An OSD with the alert; what is beside it is well and has none."""
    slow = {each.osd_id for each in cluster.slow_osds}
    groups = like[kind] if kind else []
    spread = groups[::max(1, len(groups) // LIKE_MAX)]
    beside = [osd_id for osds in spread for osd_id in osds if osd_id not in slow]
    few = beside[::max(1, len(beside) // LIKE_MAX)][:LIKE_MAX]
    ill = cluster.illness(few)
    told = [commit_ms(osd_id) for osd_id in few if osd_id not in ill]
    found = [each for each in told if each is not None]
    mine, gone_s = commit_ms(one.osd_id), one.since_s + one.kept_s
    return {
        "osd_id": one.osd_id, "device_class": kind[0] if kind else "",
        "drive_model": kind[1] if kind else "", "seen_since_s": round(one.since_s, 1),
        "kept_s": one.kept_s,
        # it was slow again since where it still is there
        "forgotten_by_s": round(gone_s, 1) if gone_s > now_s else None,
        "commit_ms": None if mine is None else round(mine, 2),
        "like_commit_ms": round(median(found), 2) if len(found) >= LIKE_MIN else None,
        "like_osds": len(found),
    }


def cluster_lines(data: Mapping[str, Any]) -> List[str]:
    """The same for `status`, below each other with its other lines."""
    found = []
    if data["blocking"]:
        why = "; ".join(faults(data["blocking"], sick=data["sick"]))
        found.append(f"cluster:   nothing is measured or changed: {why} (`ceph health detail`)")
    if data["ill"]["osds"]:
        found.append(f"ill OSDs:  {_ill(data)}: {_reasons(data['ill']['reasons'])}")
    if data["busy"]:
        found.append(f"busy OSDs: {_busy(data)}, and are measured last")
    elif data["busy"] is None:
        found.append("busy OSDs: not known: this release does not tell which OSDs move data")
    slow = data["slow_bluestore"]
    told = [f"osd.{one['osd_id']} {_told(one)}" for one in slow["shown"]]
    more = slow["osds"] - len(told)
    told += [f"and {more} more: see `ceph health detail`"] if more > 0 else []
    told += [_of_model(one) for one in slow["drive_models"] if 2 * one["osds"] > one["of"] > 1]
    return found + [
        f"{'slow OSDs: ' if place == 0 else ' ' * 11}{line}" for place, line in enumerate(told)
    ]


def headline(data: Mapping[str, Any]) -> str:
    """The same for `ceph wcache`, in one line; empty where all is well."""
    parts = [f"{_ill(data)}"] if data["ill"]["osds"] else []
    parts += [_busy(data)] if data["busy"] else []
    slow = data["slow_bluestore"]["osds"]
    parts += [f"{slow} had slow operations in BlueStore lately"] if slow else []
    if data["blocking"]:
        return "nothing is measured or changed: " + "; ".join(
            faults(data["blocking"], sick=data["sick"])
        )
    return f"OSDs: {'; '.join(parts)}: `ceph wcache status` says why" if parts else ""


def _ill(data: Mapping[str, Any]) -> str:
    return f"{data['ill']['osds']} of {data['osds']} are left alone"


def _busy(data: Mapping[str, Any]) -> str:
    return f"{data['busy']} of {data['osds']} move data"


def _reasons(rows: Sequence[Mapping[str, Any]]) -> str:
    """As in `30 have PGs that are undersized, 1 is near full`."""
    plural = {"is": "are", "has": "have"}
    said = []
    for row in rows:
        verb, _, rest = row["why"].partition(" ")
        said.append(f"{row['osds']} {verb if row['osds'] == 1 else plural.get(verb, verb)} {rest}")
    return named(said, REASONS_MAX)


def _told(one: Mapping[str, Any]) -> str:
    kept = f"bluestore_slow_ops_warn_lifetime, {duration(one['kept_s'])}"
    forgets = f"by {when(one['forgotten_by_s'])} UTC" if one["forgotten_by_s"] is not None else (
        "later, since it was slow again"
    )
    said = (
        f"had slow operations in BlueStore (BLUESTORE_SLOW_OP_ALERT, seen since "
        f"{when(one['seen_since_s'])} UTC); Ceph forgets that {forgets}, once no more come "
        f"({kept}), or when it restarts"
    )
    if one["commit_ms"] is None:
        return f"{said}; it commits nothing now"
    said += f"; a commit takes {one['commit_ms']:.1f} ms now"
    if one["like_commit_ms"] is None:
        return f"{said}, too few like it commit to compare"
    return (
        f"{said}, those of its like {one['like_commit_ms']:.1f} ms (median of {one['like_osds']})"
    )


def _of_model(one: Mapping[str, Any]) -> str:
    measured = typed("ceph wcache explain model:{}", one["drive_model"])
    cure = f"{measured} says what was measured of the cache mode"
    if not one["decided"]:
        scope = f"class:{one['device_class']}" if one["device_class"] else "cluster"
        cure = f"{typed('ceph wcache try {}', scope)} measures the cache mode"
    return (
        f"{one['osds']} of {many(one['of'], 'OSD')} on {one['drive_model']} have it: dear flushes "
        f"raise it; {cure}"
    )


def summary(now: Situation) -> Dict[str, Any]:
    """The sentence and its figures as plain data, and the command that follows."""
    found = now.outlook
    return {
        "text": found.text, "next": next_step(now), "drive_models": found.models,
        "drives": found.drives, "cache_off": _side(found.off), "cache_on": _side(found.on),
        "right": found.right, "undecided": found.undecided, "unmeasured": found.unmeasured,
        "went_back": found.went_back, "fixed": found.fixed, "simulated": found.simulated,
    }


def _side(found: Backlog) -> Dict[str, Optional[float]]:
    return {
        "drive_models": found.models, "drives": found.drives, "times_low": found.times_low,
        "times_high": found.times_high,
    }


def bare(data: Mapping[str, Any]) -> str:
    """`ceph wcache`: the sentence, and what is wrong; the rest is `status`."""
    by_severity = grouped((item["severity"], item["code"]) for item in data["findings"])
    lines = [data["summary"]["text"]]
    for severity in ("error", "warning"):
        codes = by_severity.get(severity)
        if codes:
            lines.append(
                f"{severity}s: {', '.join(dict.fromkeys(codes))}; what to do: `ceph wcache status`"
            )
    if data["measuring"]:
        lines.append(f"under way: {data['measuring']}")
    left = headline(data["cluster"])
    lines += [left] if left else []
    return "\n".join(lines)


# Findings of one code that are listed in words; a fleet can have one for each drive.
FINDINGS_MAX = 50
MODELS = (
    Column("DRIVE MODEL", "drive_model"), Column("DRIVES", "drives", NUMBER),
    Column("DEVICE CACHE", "device_cache"), Column("KERNEL VIEW", "kernel_view"),
    Column("STATE", "safety"),
)


def status_text(data: Mapping[str, Any]) -> str:
    """`ceph wcache status`: findings that only inform are counted."""
    told = [item for item in data["findings"] if item["severity"] != Severity.INFO.value]
    more = len(data["findings"]) - len(told)
    text = whole_status_text({**data, "findings": told}, FINDINGS_MAX)
    return f"{text}\n{many(more, 'INFO finding')}: ceph wcache status --all" if more else text


def whole_status_text(data: Mapping[str, Any], of_a_code_max: float = math.inf) -> str:
    """`ceph wcache status --all`."""
    agents, reported = data["agents"], claims.words(data["reported"])
    lines = [
        data["summary"]["text"], "",
        f"probes:    {agents['heard']} of {agents['known']} responding" + without_probe(agents),
        f"drives:    {data['drives']}" + (f", reported {reported}" if reported else ""),
        *cluster_lines(data["cluster"]),
        f"campaign:  {data['campaign'] or 'none under way'}",
        f"rollout:   {data['rollout'] or 'none under way'}"
        + (f"; paused: {', '.join(data['paused'])}" if data["paused"] else ""),
    ]
    if data["measuring"]:
        lines.append(f"measuring: {data['measuring']}; see {ticked(data['measuring_shown_by'])}")
    if data["frozen"]:
        lines.append("frozen:    yes; thaw with `ceph wcache freeze --thaw`")
    if data["throwaway_cluster"]:
        lines.append("throwaway: yes; this cluster's data is declared worthless")
    if data["drive_models"]:
        lines += ["", listing(MODELS, data["drive_models"]), *flushed(data["drive_models"])]
    if data["findings"]:
        lines.append("")
        shown: Counter[str] = Counter()
        for item in data["findings"]:
            shown[item["code"]] += 1
            if shown[item["code"]] <= of_a_code_max:
                lines.append(
                    f"{item['severity'].upper()} {item['code']} {item['subject']}: "
                    f"{item['detail']}"
                )
        lines += [
            f"and {count - FINDINGS_MAX} more {code}: ceph wcache status --all"
            for code, count in shown.items() if count > of_a_code_max
        ]
        for advice in dict.fromkeys((f["code"], f["advice"]) for f in data["findings"]):
            lines.append(f"  {advice[0]}: {advice[1]}")
    for key, why in data["unreadable"].items():
        lines.append(f"stored value {key} could not be read and was left alone: {why}")
    return "\n".join(lines)


def without_probe(agents: Mapping[str, Any]) -> str:
    """Which hosts with OSDs have none, to end a sentence."""
    hosts = agents["hosts_without"]
    return f"; {many(len(hosts), 'host')} without one: {named(hosts)}" if hosts else ""
