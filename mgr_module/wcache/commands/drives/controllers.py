"""`controller ls`: storage controllers as their vendors' tools tell them, with advice."""

from __future__ import annotations

from typing import Any, Dict, Mapping

from ...core import codec
from ...core.hardware.controller import advice
from ...core.text import table
from ...engine.world import World

NONE = (
    "no probe reported a controller: it reads storcli, perccli, ssacli and arcconf where they are "
    "installed on its host"
)


def controllers(world: World) -> Dict[str, Any]:
    """All hosts' controllers."""
    rows = [
        {"hostname": name, **codec.to_plain(one), "advice": list(advice(one))}
        for name, report in sorted(world.reports.items()) for one in report.controllers
    ]
    return {"controllers": rows}


def render(data: Mapping[str, Any]) -> str:
    """`ceph wcache controller ls`."""
    rows = data["controllers"]
    if not rows:
        return NONE
    heads = ("HOST", "TOOL", "NUMBER", "MODEL", "FIRMWARE", "MODE", "CACHE POLICY", "BATTERY",
             "DRIVES' OWN CACHE", "DRIVES SAY")
    keys = ("hostname", "tool", "name", "model", "firmware", "mode", "cache_policy", "battery",
            "drive_cache", "drives_own")
    lines = [table(heads, [tuple(row[key] or "not told" for key in keys) for row in rows])]
    lines += [
        f"{row['hostname']} {row['tool']} {row['name']}".rstrip() + f": {line}"
        for row in rows for line in row["advice"]
    ]
    return "\n".join(lines)
