"""The commands `ceph wcache memory ...`: what they call, and their answers as text."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence

from ....commands.tables import LONG, NUMBER, Column, listing
from ....core.text import LISTED_MAX, amount, command, duration, many, named, table
from ..trial_result import TrialVerdict

OUTSIDE_MAX = 3
SINGLES_MAX = 8
OLDER = "older"  # of `age_bytes`


def _bytes(value: Optional[float]) -> str:
    return "-" if value is None else amount(value)


def _share(value: Optional[float]) -> str:
    return "-" if value is None else f"{100 * value:.1f}%"


def _rate(value: Optional[float]) -> str:
    return "-" if value is None else f"{value:.0f}/s"


HOSTS = (
    Column("HOST", "host"), Column("OSDS", "osds", NUMBER),
    Column("RAM", lambda h: _bytes(h["ram_bytes"]), NUMBER),
    Column("LIMIT", lambda h: _bytes(h["limit_bytes"]), NUMBER),
    Column("OTHERS", lambda h: _bytes(h["others_bytes"]), NUMBER),
    Column("FOR OSDS", lambda h: _bytes(h["room_bytes"]), NUMBER),
    Column("GIVEN", lambda h: _bytes(h["given_bytes"]), NUMBER),
    Column("USED", lambda h: _bytes(h["used_bytes"]), NUMBER),
    Column("OVER", lambda h: _bytes(h["over_bytes"] or None), NUMBER),
    Column("SET BY", lambda h: "cephadm" if h["autotuned"] else ""),
)
CLASSES = (
    Column("CLASS", "device_class"), Column("OSDS", "osds", NUMBER),
    Column("ONODE HITS", lambda c: _share(c["onode_hit_ratio"]), NUMBER),
    Column("MISSES", lambda c: _rate(c["onode_misses_per_s"]), NUMBER),
    Column("DATA HITS", lambda c: _share(c["buffer_hit_ratio"]), NUMBER),
    Column("A MISS COSTS",
           lambda c: "-" if c["miss_us"] is None else f"{c['miss_us']:.0f} us", NUMBER),
)
OSDS = (
    Column("OSD", lambda o: f"osd.{o['osd_id']}"), Column("HOST", "host"),
    Column("CLASS", "device_class"), Column("TARGET", lambda o: _bytes(o["target_bytes"]), NUMBER),
    Column("SOURCE", "source"), Column("USED", lambda o: _bytes(o["mapped_bytes"]), NUMBER),
    Column("CACHES", lambda o: _bytes(o["cache_bytes"]), NUMBER),
    Column("ONODE HITS", lambda o: _share(o["onode_hit_ratio"]), NUMBER),
    Column("MISSES", lambda o: _rate(o["onode_misses_per_s"]), NUMBER),
    Column("NOTE", lambda o: _note(o), LONG),
)


def status(data: Mapping[str, Any], most: Optional[int] = LISTED_MAX) -> str:
    """`ceph wcache memory status`, with at most so many hosts, OSDs and promises."""
    if data["read_s_ago"] is None:
        return "no OSD has reported its memory yet: try again in a minute"
    lines = [listing(HOSTS, data["hosts"][:most]), "", listing(CLASSES, data["classes"])]
    for row in data["classes"]:
        for cache, ages in sorted(row["age_bytes"].items()):
            held = ", ".join(
                f"{age} s {amount(size)}" for age, size in ages.items() if size and age != OLDER
            )
            if held:
                lines.append(f"  {row['device_class']} {cache}, last used within: {held}")
            if ages.get(OLDER):
                # what a cache was granted and does not fill is in the oldest bin as well
                lines.append(
                    f"  {row['device_class']} {cache}, granted beyond that, used or not: "
                    f"{amount(ages[OLDER])}"
                )
    osds = data["osds"][:most]
    lines += ["", listing(OSDS, osds)]
    left = (
        (len(data["hosts"]) - len(data["hosts"][:most]), "host"),
        (len(data["osds"]) + data["osds_left_out"] - len(osds), "OSD"),
    )
    more = [many(count, noun) for count, noun in left if count]
    if more:
        lines.append(f"and {' and '.join(more)} more: name a host, or add --all")
    if data["promises"]:
        lines += ["", table(
            ("PLAN", "HOST", "CLASS", "TARGET", "MISSES BEFORE", "PROMISED", "MISSES NOW",
             "PROMISE"),
            [
                (p["plan_id"], p["host"], p["device_class"], _bytes(p["target_bytes"]),
                 _rate(p["misses_before_per_s"]),
                 f"{p['low_per_s']:.0f} to {p['high_per_s']:.0f}/s", _rate(p["misses_per_s"]),
                 p["outcome"])
                for p in data["promises"][:most]
            ],
        )]
    return "\n".join([
        *lines, f"read {data['read_s_ago']:.0f} s ago", "next: ceph wcache memory recommend"
    ])


def _note(row: Mapping[str, Any]) -> str:
    notes: List[str] = []
    if row["target_bytes"] is None:
        notes.append("gave no answer")
    if row["tunable"] is False:
        notes.append("no tcmalloc: cannot follow a target")
    if row["settling_s"]:
        notes.append(f"settling for {duration(row['settling_s'])}")
    large = list(row["outside"].items())[:OUTSIDE_MAX]
    notes += [f"{name} {amount(size)}" for name, size in large if size >= 64 * 2**20]
    return ", ".join(notes)


def recommend(data: Mapping[str, Any]) -> str:
    """`ceph wcache memory recommend`."""
    blocks = []
    changed = False
    groups = _alike(data["groups"])
    for group in groups[:LISTED_MAX]:
        room = group["room_bytes"]
        known = "room for OSDs is not known" if room is None else f"{amount(room)} for OSDs"
        lines = [f"{named(group['hosts'])}: {known}"]
        lines += [f"  {item['words']}" for item in group["classes"]]
        singles = group["single_osds"]
        lines += [f"  advice only: {item['words']}" for item in singles[:SINGLES_MAX]]
        if len(singles) > SINGLES_MAX:
            lines.append(f"  and {len(singles) - SINGLES_MAX} more OSDs: see --format json")
        lines += [f"  left alone: {line}" for line in group["left_alone"]]
        lines += [f"  instead: {line}" for line in group["instead"]]
        blocks.append("\n".join(lines))
        changed = changed or any(item["changed"] for item in group["classes"])
    if len(groups) > LISTED_MAX:
        blocks.append(f"and {len(groups) - LISTED_MAX} more groups: see --format json")
    classes = sorted({item["device_class"] for one in groups for item in one["classes"]})
    following = command("ceph wcache memory status")
    if changed:
        following = command("ceph wcache plan --knob=memory")
    if classes and not changed:
        following = command("ceph wcache memory trial start class:{}", classes[0])
    return "\n\n".join([*blocks, f"next: {following}"])


def _alike(groups: Sequence[Mapping[str, Any]]) -> List[Mapping[str, Any]]:
    """Hosts of which the same is said, together: a fleet without probes is one block."""
    merged: Dict[str, Mapping[str, Any]] = {}
    for group in groups:
        said = {name: value for name, value in group.items() if name != "hosts"}
        key = repr(said) if not group["single_osds"] else repr(group)
        known = merged.get(key)
        hosts = [*known["hosts"], *group["hosts"]] if known else group["hosts"]
        merged[key] = {**said, "hosts": hosts}
    return list(merged.values())


def trial(data: Mapping[str, Any]) -> str:
    """`ceph wcache memory trial`."""
    cost = data["forecast"]
    lines = [
        f"OSDs:    {', '.join(f'osd.{o}' for o in cost['osds'])}",
        f"target:  {amount(cost['low_bytes'])} to {amount(cost['high_bytes'])} and back, leased: "
        "it is gone when an OSD restarts",
        f"time:    about {duration(cost['seconds'])}: {cost['periods']} periods of "
        f"{duration(cost['period_s'])}, and {duration(cost['settle_s'])} to settle after each "
        "change",
        "cost:    caches are filled and emptied again; nothing is written",
    ]
    if data["trial_id"]:
        return "\n".join([*lines, f"trial {data['trial_id']} started",
                          "next: ceph wcache memory trial show"])
    return "\n".join([*lines, "next: the same command with --accept-cost"])


def trial_show(data: Mapping[str, Any]) -> str:
    """`ceph wcache memory trial show`."""
    lines = []
    one = data["trial"]
    if one is not None:
        reason = f" ({one['reason']})" if one["reason"] else ""
        owed = f"; to be taken back on {len(one['owed'])} OSDs" if one["status"] == "ending" else ""
        of = f", for plan {one['plan_id']}" if one["plan_id"] else ""
        lines.append(
            f"{one['trial_id']} of class {one['device_class']}{of}: {one['status']}{reason}, "
            f"{len(one['periods'])} of {4 * one['blocks']} periods{owed}"
        )
    for item in data["results"]:
        span = f"{_share(item['share'])} ({_share(item['share_low'])} to " \
               f"{_share(item['share_high'])})"
        told = f", misses fall to {span}" if item["verdict"] != TrialVerdict.VAGUE.value else ""
        lines.append(
            f"{item['trial_id']}: {item['device_class']} {amount(item['low_bytes'])} to "
            f"{amount(item['high_bytes'])}: {item['verdict']}{told}"
        )
    if not lines:
        lines = ["no trial was made yet", "next: ceph wcache memory recommend"]
    return "\n".join(lines)
