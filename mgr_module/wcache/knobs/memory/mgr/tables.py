"""The commands `ceph wcache memory ...`, with their answers as text."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from ....commands.tables import LONG, NUMBER, Column, known, listing, said_of
from ....core.text import (
    LISTED_MAX,
    CommandLine,
    amount,
    command,
    duration,
    many,
    named,
    roughly,
)
from ..facts import Want
from ..trial_result import TrialVerdict
from .osds import READINGS_S

OUTSIDE_MAX = 3
SINGLES_MAX = 8
OLDER = "older"  # of `age_bytes`


_SHARE: Callable[[float], str] = "{:.1%}".format
_RATE: Callable[[float], str] = "{:.0f}/s".format
HOSTS = (
    Column("HOST", "host"), Column("OSDS", "osds", NUMBER), known("RAM", "ram_bytes", amount),
    known("LIMIT", "limit_bytes", amount), known("OTHERS", "others_bytes", amount),
    known("FOR OSDS", "room_bytes", amount), known("GIVEN", "given_bytes", amount),
    known("USED", "used_bytes", amount), known("OVER", lambda h: h["over_bytes"] or None, amount),
    Column("SET BY", lambda h: "cephadm" if h["autotuned"] else ""),
)
CLASSES = (
    Column("CLASS", "device_class"), Column("OSDS", "osds", NUMBER),
    known("ONODE HITS", "onode_hit_ratio", _SHARE), known("MISSES", "onode_misses_per_s", _RATE),
    known("DATA HITS", "buffer_hit_ratio", _SHARE),
    known("A MISS COSTS", "miss_us", "{:.0f} us".format),
)
WANTED = (
    Column("OSD", lambda o: f"osd.{o['osd_id']}"), Column("HOST", "host"),
    Column("CLASS", "device_class"), Column("WANTS", lambda o: _wants(o)),
)
OSDS = (
    *WANTED, known("TARGET", "target_bytes", amount),
    Column("SOURCE", "source"), known("USED", "mapped_bytes", amount),
    known("CACHES", "cache_bytes", amount), known("ONODE HITS", "onode_hit_ratio", _SHARE),
    known("MISSES", "onode_misses_per_s", _RATE), Column("NOTE", lambda o: _note(o), LONG),
)
PROMISES = (
    Column("PLAN", "plan_id"), Column("HOST", "host"), Column("CLASS", "device_class"),
    known("TARGET", "target_bytes", amount), known("MISSES BEFORE", "misses_before_per_s", _RATE),
    Column("PROMISED", lambda p: f"{p['low_per_s']:.0f} to {p['high_per_s']:.0f}/s", NUMBER),
    known("MISSES NOW", "misses_per_s", _RATE), Column("PROMISE", "outcome"),
)


def status(data: Mapping[str, Any], most: Optional[int] = LISTED_MAX) -> str:
    """`ceph wcache memory status`, with at most so many hosts, OSDs and promises."""
    if data["read_s_ago"] is None:
        last = [row for row in data["osds"] if row["wants"]][:most]
        return "\n".join([
            *([listing(WANTED, last), ""] if last else []),
            "no OSD has reported its memory yet: try again in a minute",
        ])
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
        lines += ["", listing(PROMISES, data["promises"][:most])]
    said = {want: len(osd_ids) for want, osd_ids in data["wants"].items()}
    more_ids = data["wants"][Want.MORE.value]
    unknown = len(data["osds"]) + data["osds_left_out"] - sum(said.values())
    return "\n".join([
        *lines,
        f"want more: {named([f'osd.{osd_id}' for osd_id in more_ids]) or 'none'}; less: "
        f"{said[Want.LESS.value]}, right: {said[Want.RIGHT.value]}, only a trial tells: "
        f"{said[Want.UNTRIED.value]}, not known: {unknown}",
        f"read {data['read_s_ago']:.0f} s ago",
    ])


def _wants(row: Mapping[str, Any]) -> str:
    """The last answer, with its age where it is not of the last readings."""
    if row["wants"] is None:
        return f"? {roughly(row['known_in_s'])}" if row["known_in_s"] else "?"
    word = "? trial" if row["wants"] == Want.UNTRIED.value else str(row["wants"])
    counted = row["onode_misses_per_s"] is not None
    if counted and row["wants_age_s"] < READINGS_S:
        return word
    return f"{word}, {roughly(row['wants_age_s'])} ago"


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
    if len(groups) > LISTED_MAX:
        blocks.append(f"and {len(groups) - LISTED_MAX} more groups: see --format json")
    return "\n\n".join(blocks)


def after_recommend(groups: Sequence[Mapping[str, Any]]) -> CommandLine:
    """A plan of what is to be changed, else a trial of a class that is told of."""
    told = [item for group in groups for item in group["classes"]]
    if any(item["changed"] for item in told):
        return command("ceph wcache plan --knob=memory")
    classes = sorted(item["device_class"] for item in told)
    if classes:
        return command("ceph wcache memory trial start class:{}", classes[0])
    return command("ceph wcache memory status")


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
    return "\n".join([*lines, *said_of(data)])


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
        span = f"{_SHARE(item['share'])} ({_SHARE(item['share_low'])} to " \
               f"{_SHARE(item['share_high'])})"
        told = f", misses fall to {span}" if item["verdict"] != TrialVerdict.VAGUE.value else ""
        lines.append(
            f"{item['trial_id']}: {item['device_class']} {amount(item['low_bytes'])} to "
            f"{amount(item['high_bytes'])}: {item['verdict']}{told}"
        )
    return "\n".join(lines or ["no trial was made yet"])
