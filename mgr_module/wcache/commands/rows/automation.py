"""The commands about automation and about verdicts of other clusters: rows of the table."""

from __future__ import annotations

import json
from typing import Any, Mapping, Tuple

from ...core.text import amount, duration, many, table, when
from ..command import DRY_RUN, SCOPE, Command
from ..tables import model_of, would

LINES_MAX = 20


def _auto_status(data: Mapping[str, Any]) -> str:
    """Word what is allowed, what is spent, what it waits for and what it leaves alone."""
    modes = ", ".join(f"{name}: {mode}" for name, mode in data["modes"].items()) or "off"
    spent, limits = data["spent_today"], data["limits"]
    lines = [
        f"auto:       {modes}" + (" (persisting)" if data["persist"] else ""),
        f"windows:    {data['windows'] or 'any time'} (UTC), now "
        f"{'open' if data['window_open'] else 'closed'}",
        f"today:      {duration(spent['seconds'])} of {duration(limits['seconds_per_day'])}, "
        f"{amount(spent['bytes_written'])} of {amount(limits['bytes_per_day'])}, "
        f"{many(spent['changes'], 'change')} (each rollout: "
        f"{limits['rollout_harm_max_s']:.0f} s of extra wait at most)",
        f"under way:  {data['under_way'] or 'nothing'}",
        f"new drives: {data['new_drives']}",
        f"waiting:    {data['waiting'] or 'no'}",
    ]
    left = data["left_alone"]
    lines += [f"left alone: {line}" for line in left[:LINES_MAX]]
    if len(left) > LINES_MAX:
        lines.append(f"and {len(left) - LINES_MAX} more: see --format json")
    return "\n".join(lines)


def _evidence_ls(data: Mapping[str, Any]) -> str:
    """Word what was imported."""
    if not data["imported"]:
        return "nothing is imported\nnext: ceph wcache evidence import -i FILE"
    rows = [
        (file["cluster"], when(file["exported_at_s"]), row["device_class"], model_of(row),
         row["verdict"], row["drives"], row["hosts"])
        for file in data["imported"] for row in file["verdicts"]
    ]
    heads = ("FROM CLUSTER", "EXPORTED (UTC)", "CLASS", "DRIVE MODEL", "VERDICT", "DRIVES", "HOSTS")
    return table(heads, rows) + "\nforeign and not authenticated: none of it decides anything here"


ROWS: Tuple[Command, ...] = (
    Command(
        "wcache auto",
        ("name=mode,type=CephChoices,strings=off|recommend|apply",
         SCOPE, DRY_RUN), "rw",
        "Say what may be begun without an admin: nothing, measuring, or also applying; new drives "
        "of a known model are confirmed first; the options auto_* set windows and daily limits",
        lambda s, v, a: s.auto.turn(**a), would,
    ),
    Command(
        "wcache auto status", (), "r",
        "Show what is allowed, what was spent today, what it waits for and what it leaves alone",
        lambda s, v, a: s.auto.status(), _auto_status,
    ),
    Command(
        "wcache evidence export", (), "r",
        "Print what was found of this cluster's drive models, as a file for another cluster",
        lambda s, v, a: s.evidence.export(),
        lambda data: json.dumps(data, indent=1, allow_nan=False),
    ),
    Command(
        "wcache evidence import", (DRY_RUN,), "rw",
        "Keep what another cluster found (-i FILE): shown as foreign, it decides nothing",
        lambda s, v, a: s.evidence.take(**a), would,
    ),
    Command(
        "wcache evidence ls", (), "r", "List what was imported from other clusters",
        lambda s, v, a: s.evidence.ls(), _evidence_ls,
    ),
    Command(
        "wcache evidence rm", ("name=cluster,type=CephString", DRY_RUN), "rw",
        "Forget what was imported from a cluster",
        lambda s, v, a: s.evidence.drop(**a), would,
    ),
)
