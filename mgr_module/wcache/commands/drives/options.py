"""`option ls` and `option show`: what may be changed beside the cache mode, and what it is now."""

from __future__ import annotations

from collections import Counter
from typing import Any, Dict, List, Mapping

from ...core import codec
from ...core.experiment.osd_option import by_hand
from ...core.model import load_name
from ...core.options.entries import OPTIONS, option
from ...core.options.option import Option, Place
from ...core.output_format import FORMAT_VERSION
from ...core.text import amount, duration, table
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


def verdicts(world: World) -> Dict[str, Any]:
    """What `ab` has found: by option and values, device class, drive model and load."""
    return {
        "format_version": FORMAT_VERSION,
        "verdicts": [
            {
                "option": codec.to_plain(one.trial), "device_class": one.device_class,
                "drive_model": one.drive_model, "load_point": one.load_point.value,
                "simulated": one.simulated, "verdict": one.words,
                "decided": one.verdict.decided, "why": one.why, "drives": one.drives,
                "ratio_low": one.ratio_low, "ratio_high": one.ratio_high,
                "interval": one.interval, "record_ids": list(one.record_ids),
            }
            for one in world.option_verdicts
        ],
    }


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


def of_campaign(data: Mapping[str, Any]) -> List[str]:
    """What `campaign show` prints of a campaign that compares two values of an option."""
    if "compares" not in data:
        return []
    rows = [
        (f"osd.{r['osd_id']}", ",".join(r["dev_names"]), load_name(r["load_point"]), r["pairs"],
         _ratio(r), r["verdict"], duration(r["seconds"]), amount(r["bytes_written"]))
        for r in data["option_results"]
    ]
    heads = ("OSD", "DRIVE", "LOAD", "PAIRS", "A OVER B", "BETTER", "TIME", "WRITTEN")
    lines = ["", f"compares {data['compares']}: A, B"]
    lines += [table(heads, rows)] if rows else []
    return lines + [
        f"osd.{r['osd_id']} {','.join(r['dev_names'])} {load_name(r['load_point'])}: "
        + "; ".join(text for text in (r["why"], r["ended"]) if text not in ("", "decided"))
        for r in data["option_results"] if not r["decided"]
    ]


def render_verdicts(data: Mapping[str, Any]) -> str:
    """`ceph wcache option verdicts`."""
    if not data["verdicts"]:
        return "no option was compared yet\nnext: ceph wcache ab OPTION=A,B --dry-run"
    rows = [
        (f"{row['option']['name']}={row['option']['a']},{row['option']['b']}",
         row["device_class"], row["drive_model"] + (" (simulated)" if row["simulated"] else ""),
         load_name(row["load_point"]), row["drives"], _ratio(row), row["verdict"])
        for row in data["verdicts"]
    ]
    heads = ("COMPARED", "CLASS", "DRIVE MODEL", "LOAD", "DRIVES", "A OVER B", "BETTER")
    return "\n".join([
        table(heads, rows), "A OVER B: latency with the first value over latency with the second",
        *(f"{row['option']['name']} {row['device_class']} {row['drive_model']}: {row['why']}"
          for row in data["verdicts"] if not row["decided"]),
    ])


def _ratio(row: Mapping[str, Any]) -> str:
    if row["ratio_low"] is None or row["ratio_high"] is None:
        return "-"
    return f"{row['ratio_low']:.3g} to {row['ratio_high']:.3g}"


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
    if row["place"] == Place.OSD.value:
        lines.append(f"while no mgr runs wcache: {by_hand(row['name'], 'osd.N')}")
    if row["resets"]:
        lines.append(f"the kernel resets with it: {', '.join(row['resets'])}")
    return "\n".join([*lines, *(f"mind: {line}" for line in row["hazards"])])
