"""`ceph wcache option ...`: what may be changed beside the cache mode, with its values now."""

from __future__ import annotations

from collections import Counter
from typing import Any, Container, Dict, List, Mapping, Sequence

from ..core import codec
from ..core.experiment.osd_option import by_hand
from ..core.model import load_name
from ..core.options.entries import BY_NAME, OPTIONS, known
from ..core.options.option import UNDONE, Follow, Option, Place
from ..core.text import NOTHING, CommandLine, command, latency, many, relative, table
from ..engine.world import World

VALUES_SHOWN = 4
NOT_FOR_LONG = (
    "a value of a drive does not survive a reboot of its host; WCACHE_OPTION_DRIFT says so then"
)
KEPT = "bcache's mode survives a reboot: the backing drive keeps it in its superblock"
AWAY = (
    "away from writeback a change is made when dirty_data reads 0, one drive after the other; "
    "below its target bcache writes back at writeback_rate_minimum (8: 4 KiB/s) while clients are "
    "at work. To be quicker, raise that by hand, as above, or set writeback_percent to 0, which "
    "clients feel",
    "away from writeback clients wait for the backing drive: that is asked for, so no latency "
    "takes it back. A rollback goes back to writeback with no consent, since it was so before",
)
TOWARDS = (
    "towards writeback a rollback is over when dirty_data reads 0, however long that takes"
)


def options(world: World) -> Dict[str, Any]:
    """Every entry, the values that probes have read of drives of OSDs, and what `ab` has found."""
    found: Dict[str, Counter[str]] = {one.name: Counter() for one in OPTIONS}
    for report in world.reports.values():
        for drive in report.drives:
            for item in drive.state.options:
                if item.name in found:
                    found[item.name][item.value] += 1
    return {
        "options": [{**_row(one), "now": dict(found[one.name])} for one in OPTIONS],
        "verdicts": _verdicts(world), "next": to_plan(world, BY_NAME),
    }


def to_plan(world: World, names: Container[str]) -> CommandLine:
    """What plans by verdicts for a value of these options, where no plan has gone by them yet."""
    left = {one.name for one in OPTIONS if one.name in names and one.follow is not Follow.ADMIN}
    left.difference_update(
        ground.option for plan in world.plans for one in plan.changes for ground in one.grounds
    )
    found = any(one.verdict.arm and one.trial.name in left for one in world.option_verdicts)
    return command("ceph wcache plan --knob=options") if found else NOTHING


def one_option(option: str) -> Dict[str, Any]:
    """An entry with all that it says."""
    return {"option": _row(known(option))}


def _verdicts(world: World) -> List[Dict[str, Any]]:
    return [
        {
            "option": codec.to_plain(one.trial), "device_class": one.device_class,
            "drive_model": one.drive_model, "load_point": one.load_point.value,
            "simulated": one.simulated, "verdict": one.words,
            "decided": one.verdict.decided, "why": one.why, "drives": one.drives,
            "ratio": one.ratio, "ratio_low": one.ratio_low, "ratio_high": one.ratio_high,
            "interval": one.interval, "record_ids": list(one.record_ids),
        }
        for one in world.option_verdicts
    ]


def _row(one: Option) -> Dict[str, Any]:
    return {
        "name": one.name, "place": one.place.value, "title": one.title, "values": one.range,
        "unit": one.unit,
        "undone": UNDONE[one.place], "settle_s": one.settle_s, "settles": one.settles,
        "loads": [load.short for load in one.loads], "hazards": list(one.hazards),
        "resets": list(one.resets), "followed_by": one.follow.value,
    }


def render(data: Mapping[str, Any]) -> str:
    """`ceph wcache option ls`."""
    rows = []
    for row in data["options"]:
        now = sorted(row["now"].items(), key=lambda item: (-item[1], item[0]))
        words = [f"{value} {row['unit']}".rstrip() + f" on {many(count, 'drive')}"
                 for value, count in now[:VALUES_SHOWN]]
        more = [f"{len(now) - VALUES_SHOWN} more"] if len(now) > VALUES_SHOWN else []
        rows.append((row["name"], row["place"], row["values"], ", ".join(words + more) or "-"))
    return "\n".join([
        table(("OPTION", "PLACE", "VALUES", "NOW"), rows),
        "what to mind about one: ceph wcache option show OPTION", "",
        _found(data["verdicts"]),
    ])


def _found(verdicts: Sequence[Mapping[str, Any]]) -> str:
    if not verdicts:
        return "no option was compared yet"
    rows = [
        (_compared(row["option"]),
         row["device_class"], row["drive_model"] + (" (simulated)" if row["simulated"] else ""),
         load_name(row["load_point"]), row["drives"], moved(row), row["verdict"])
        for row in verdicts
    ]
    heads = ("COMPARED", "CLASS", "DRIVE MODEL", "LOAD", "DRIVES", "A -> B", "BETTER")
    return "\n".join([
        table(heads, rows),
        "A -> B: what the second value in place of the first does to latency, and the interval",
        *(f"{row['option']['name']} {row['device_class']} {row['drive_model']}: {row['why']}"
          for row in verdicts if not row["decided"]),
    ])


def _compared(trial: Mapping[str, Any]) -> str:
    began = f" --dirty-data={trial['dirty']}" if trial["dirty"] else ""
    return f"{trial['name']}={trial['a']},{trial['b']}{began}"


def moved(row: Mapping[str, Any]) -> str:
    """Latency with the first value and with the second, where known, and the change in percent."""
    levels = [row.get("a_us"), row.get("b_us")]
    told = "" if None in levels else " -> ".join(map(latency, levels))
    return (told + relative(row)).strip() or "-"


def of_options(changes: Sequence[Mapping[str, Any]]) -> List[str]:
    """What to know of a plan's changes of drives' options: how long they last, what they risk."""
    mine = [c for c in changes if c.get("kind") == "option"]
    modes = [c for c in mine if _dirty_in(c)]
    away = any(c["expected"] == _dirty_in(c) for c in modes)
    lines: Dict[str, None] = {}
    for shared in (c["shared"] for c in modes if needs_consent(c)):
        osds = ", ".join(f"osd.{osd_id}" for osd_id in shared["osd_ids"])
        lines[
            f"towards writeback: what {osds} ({', '.join(shared['bcaches'])}) acknowledge is on "
            f"{', '.join(shared['devices'])} of {shared['hostname']} alone until it is written "
            "back; if that fails, all of them lose it at once"
        ] = None
        if shared["all_copies"]:
            lines[
                "a pool spreads its copies over OSDs and not over hosts: all copies of an object "
                "may be behind one cache device"
            ] = None
    return [
        *lines, *([TOWARDS] if lines else []), *(AWAY if away else ()),
        *([KEPT] if modes else []), *([NOT_FOR_LONG] if len(mine) > len(modes) else []),
    ]


def needs_consent(change: Mapping[str, Any]) -> bool:
    """Whether a change of a plan has acknowledged data on a cache device alone."""
    dirty_in = _dirty_in(change) if change.get("kind") == "option" else ""
    return bool(dirty_in) and bool(change["value"] == dirty_in)


def _dirty_in(change: Mapping[str, Any]) -> str:
    entry = BY_NAME.get(change["option"])
    return entry.dirty_in if entry is not None else ""


def render_one(data: Mapping[str, Any]) -> str:
    """`ceph wcache option show`."""
    row = data["option"]
    lines: List[str] = [
        f"{row['name']}: {row['title']}",
        f"values: {row['values']}",
        f"set and undone: {row['undone']}",
        f"settles: {row['settle_s']:g} s, for {row['settles']}",
        f"loads that it can touch: {', '.join(row['loads'])}",
        f"who may change it: {row['followed_by']}" if row["followed_by"] == Follow.ADMIN.value
        else f"who may follow a verdict: {row['followed_by']}",
    ]
    if row["place"] == Place.OSD.value:
        lines.append(f"while no mgr runs wcache: {by_hand(row['name'], 'osd.N')}")
    if row["resets"]:
        lines.append(f"the kernel resets with it: {', '.join(row['resets'])}")
    return "\n".join([*lines, *(f"mind: {line}" for line in row["hazards"])])
