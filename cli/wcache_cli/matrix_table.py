"""A decided write+sync matrix as lines of text."""

from __future__ import annotations

from typing import Any, List, Mapping

from wcache.core.model import CacheMode
from wcache.core.text import latency, table

from .tables import ratio_text

HEADS = (
    "PATTERN", "SYNC", "DEPTH", "WRITE BACK", "WRITE THROUGH", "RATIO", "99% INTERVAL",
    "BETTER",
)
MEANING = "evidence about this drive: none of these loads is an OSD's, so none decides for one"


def matrix_lines(found: Mapping[str, Any]) -> List[str]:
    """What was measured, a line for each cell, and what was not measured."""
    rows = [
        (
            cell["pattern"], cell["sync"], cell["depth"],
            *(latency(cell["per_mode"][mode.value]["p50_us"]) for mode in CacheMode),
            ratio_text(cell["ratio"]),
            f"{ratio_text(cell['ratio_low'])} to {ratio_text(cell['ratio_high'])}", cell["better"],
        )
        for cell in found["cells"]
    ]
    lines = [
        f"{found['scratch']} on {found['hostname']}, {found['drive_model']}, "
        f"{found['transport']}: {found['pairs']} pairs, ratio is write back / write through",
        table(HEADS, rows) if rows else "no cell was measured",
    ]
    lines += [
        f"not measured: {item['pattern']}, {item['sync']}, depth {item['depth']}: {item['why']}"
        for item in found["skipped"]
    ]
    if found["ended"] != "done":
        lines.append(f"ended early: {found['ended']}")
    return [*lines, MEANING]
