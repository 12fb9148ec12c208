"""`option ls` and `option show`: what may be changed beside the cache mode, and what it is now."""

from __future__ import annotations

from collections import Counter
from typing import Any, Dict, List, Mapping

from ...core.options.entries import OPTIONS, option
from ...core.options.option import Option
from ...core.output_format import FORMAT_VERSION
from ...core.text import table
from ...engine.world import World

VALUES_SHOWN = 4


def options(world: World) -> Dict[str, Any]:
    """Every entry, with the values that probes have read of drives of OSDs."""
    found: Dict[str, Counter[str]] = {one.name: Counter() for one in OPTIONS}
    for report in world.reports.values():
        for drive in report.drives:
            for item in drive.state.options:
                if item.name in found:
                    found[item.name][item.value] += 1
    return {
        "format_version": FORMAT_VERSION,
        "options": [{**_row(one), "now": dict(found[one.name])} for one in OPTIONS],
    }


def one_option(name: str) -> Dict[str, Any]:
    """An entry with all that it says; RefusedError where there is none."""
    return {"format_version": FORMAT_VERSION, "option": _row(option(name))}


def _row(one: Option) -> Dict[str, Any]:
    return {
        "name": one.name, "place": one.place.value, "title": one.title, "values": one.range,
        "undone": one.undone, "settle_s": one.settle_s, "settles": one.settles,
        "loads": [load.short for load in one.loads], "hazards": list(one.hazards),
        "resets": list(one.resets), "followed_by": one.follow.value,
    }


def render(data: Mapping[str, Any]) -> str:
    """`ceph wcache option ls`."""
    rows = []
    for row in data["options"]:
        now = sorted(row["now"].items(), key=lambda item: (-item[1], item[0]))
        words = [f"{value} ({count})" for value, count in now[:VALUES_SHOWN]]
        more = [f"{len(now) - VALUES_SHOWN} more"] if len(now) > VALUES_SHOWN else []
        rows.append((row["name"], row["place"], row["values"], ", ".join(words + more) or "-"))
    return "\n".join([
        table(("OPTION", "PLACE", "VALUES", "NOW (DRIVES)"), rows),
        "what to mind about one: ceph wcache option show OPTION",
    ])


def render_one(data: Mapping[str, Any]) -> str:
    """`ceph wcache option show`."""
    row = data["option"]
    lines: List[str] = [
        f"{row['name']}: {row['title']}",
        f"values: {row['values']}",
        f"set and undone: {row['undone']}",
        f"settles: {row['settle_s']:g} s, for {row['settles']}",
        f"loads that it can touch: {', '.join(row['loads'])}",
        f"who may follow a verdict: {row['followed_by']}",
    ]
    if row["resets"]:
        lines.append(f"the kernel resets with it: {', '.join(row['resets'])}")
    return "\n".join([*lines, *(f"mind: {line}" for line in row["hazards"])])
