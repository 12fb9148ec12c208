"""A decided write+sync matrix as lines of text."""

from __future__ import annotations

from typing import Any, List, Mapping

from wcache.core.model import CacheMode
from wcache.core.text import latency, relative, table

HEADS = ("PATTERN", "SYNC", "DEPTH", "CACHE OFF", "BETTER")
MEANING = "evidence about this drive: none of these loads is an OSD's, so none decides for one"


def matrix_lines(found: Mapping[str, Any]) -> List[str]:
    """What was measured, a line for each cell, and what was not measured."""
    rows = [
        (
            cell["pattern"], cell["sync"], cell["depth"],
            " -> ".join(latency(cell["per_mode"][mode.value]["level_us"]) for mode in CacheMode)
            + relative(cell), cell["better"],
        )
        for cell in found["cells"]
    ]
    lines = [
        f"{found['scratch']} on {found['hostname']}, {found['drive_model']}, "
        f"{found['transport']}: {found['pairs']} pairs, latency with the cache on -> off",
        table(HEADS, rows) if rows else "no cell was measured",
    ]
    lines += [
        f"not measured: {item['pattern']}, {item['sync']}, depth {item['depth']}: {item['why']}"
        for item in found["skipped"]
    ]
    if found["ended"] != "done":
        lines.append(f"ended early: {found['ended']}")
    return [*lines, MEANING]
