"""The answers of `ceph wcache mclock ...` as text."""

from __future__ import annotations

from typing import Any, Mapping, Optional

from ....core.text import named, table, when

SHOWN_MAX = 20


def _iops(iops: Optional[float], low: float, high: float) -> str:
    return "-" if iops is None else f"{iops:.0f} ({low:.0f} to {high:.0f})"


def show(data: Mapping[str, Any]) -> str:
    """`ceph wcache mclock show`."""
    blocks, lines = [], []
    if data["measured"]:
        rows = [
            (f"osd.{r['osd_id']}", r["device_class"], r["drive_models"], r["setting"], r["calls"],
             _iops(r["iops"], r["iops_low"], r["iops_high"]), when(r["ended_at_s"]),
             "forced" if r["forced"] else "")
            for r in data["measured"]
        ]
        heads = ("OSD", "CLASS", "DRIVE MODELS", "MEASURED IN", "CALLS", "IOPS (95%)", "AT (UTC)",
                 "NOTE")
        blocks.append(table(heads, rows))
    blocks += [_advice(row) for row in data["classes"]]
    if data["other_schedulers"]:
        lines.append(
            f"some OSDs schedule by {', '.join(data['other_schedulers'])} and not by mClock: "
            "they use no such capacity"
        )
    lines += [f"stale: {item['subject']}: {item['detail']}" for item in data["stale"]]
    said = "was not read yet"
    if data["read_error"]:
        said = f"could not be read: {data['read_error']}"
    elif data["read_s_ago"] is not None:
        said = f"was read {data['read_s_ago']:.0f} s ago"
    lines.append(f"the config database {said}")
    if not data["classes"]:
        lines.append("no capacity is measured yet")
    return "\n\n".join([*blocks, "\n".join(lines)])


def _advice(row: Mapping[str, Any]) -> str:
    value: Optional[int] = row["iops"]
    lines = [f"class {row['device_class']}: {row['option']} {value if value else 'not known'}"]
    for item in row["models"]:
        measured = item["capacity"]
        over = (
            f"95% interval of the mean of {measured['drives']} OSDs" if measured["drives"] > 1
            else "95% interval of one OSD's calls"
        )
        lines.append(
            f"  {item['stack'] or '(unnamed)'} in {item['setting']}: "
            f"{_iops(measured['iops'], measured['low'], measured['high'])} IOPS, {over}, "
            f"{measured['calls']} calls"
        )
    if row["shadowing"]:
        keys = named(row["shadowing"], SHOWN_MAX)
        lines.append(f"  overridden by the OSDs' own keys: {keys}")
    lines += [f"  {command}" for command in row["commands"][:SHOWN_MAX]]
    if len(row["commands"]) > SHOWN_MAX:
        more_count = len(row["commands"]) - SHOWN_MAX
        lines.append(f"  and {more_count} more commands: see --format json")
    if row["models"] and not row["commands"] and not row["warnings"]:
        lines.append("  every value is as recommended")
    lines += [f"  note: {line}" for line in row["warnings"]]
    return "\n".join(lines)
