"""Verdicts of other clusters, as an admin sees them: foreign, and never the reason of a change."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Mapping, Optional

from ...core import codec
from ...core.model import load_name
from ...core.text import ratio, table, when
from ...engine.world import World


def foreign(world: World, device_class: Optional[str] = None) -> List[Dict[str, Any]]:
    """The imported verdicts, with where they are from."""
    measured = {
        (result.device_class, str(result.drive_model)) for result in world.results.values()
    }
    here = {
        str(drive.drive_model) for report in world.reports.values() for drive in report.drives
    }
    return [
        {
            "cluster": cluster, **codec.to_plain(verdict),
            "measured_here": verdict.key in measured,
            "drives_here": str(verdict.drive_model) in here,
        }
        for cluster, verdict in world.foreign_verdicts
        if device_class in (None, "", verdict.device_class)
    ]


def lines(rows: List[Dict[str, Any]]) -> List[str]:
    """Foreign verdicts on drive models of this cluster, in words."""
    shown = []
    for row in rows:
        if not row["drives_here"]:
            continue
        loads = ", ".join(
            f"{load_name(load['load_point'])} {ratio(load)}" for load in row["loads"]
            if load["verdict"] == row["verdict"]
        )
        todo = "" if row["measured_here"] else "; confirm it: ceph wcache campaign start --confirm"
        shown.append(
            f"foreign (decides nothing): class {row['device_class']}, drive model "
            f"{_model(row)}: {row['verdict']}" + (f" ({loads})" if loads else "")
            + f", from cluster {row['cluster']}{todo}"
        )
    return shown


def ls(data: Mapping[str, Any]) -> str:
    """`ceph wcache evidence ls`."""
    if not data["imported"]:
        return "nothing is imported\nnext: ceph wcache evidence import -i FILE"
    rows = [
        (file["cluster"], when(file["exported_at_s"]), row["device_class"], _model(row),
         row["verdict"], row["drives"], row["hosts"])
        for file in data["imported"] for row in file["verdicts"]
    ]
    heads = ("FROM CLUSTER", "EXPORTED (UTC)", "CLASS", "DRIVE MODEL", "VERDICT", "DRIVES", "HOSTS")
    return table(heads, rows) + "\nforeign and not authenticated: none of it decides anything here"


def as_file(data: Mapping[str, Any]) -> str:
    """`evidence export` as a file."""
    return json.dumps(data, indent=1, allow_nan=False)


def _model(row: Mapping[str, Any]) -> str:
    return " ".join(part for part in row["drive_model"].values() if part) or "(unnamed)"
