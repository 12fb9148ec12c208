"""The tables of a campaign that toggles nothing."""

from __future__ import annotations

from typing import Any, List, Mapping, Optional, Sequence

from ..core.change.preconditions import faults
from ..core.codec import decode
from ..core.experiment.observed import IDLE_WRITES_PER_S
from ..core.figures.latency_table import HEADINGS, LatencyTable, row
from ..core.hardware.bcache import BcacheState, crossed_target
from ..core.model import LoadPoint, load_name
from ..core.text import table
from .drives.bcache import bcache_words

_TRAFFIC, _TIMER = LoadPoint.OSD_TRAFFIC.value, LoadPoint.FDATASYNC_TIMER.value
LEGEND = (
    "timer: one fdatasync() on the OSD's device; traffic: the mean commit latency of each part "
    "of a second",
    "client writes: one by one, from the OSD's histogram, whose buckets span up to a factor of two",
    "WRITES/S is of the whole drive, in the same time",
)


def lines(observed: List[Mapping[str, Any]]) -> List[str]:
    """What `campaign show` prints of them."""
    if not observed:
        return []
    rows, notes = [], []
    for one in observed:
        name = f"osd.{one['osd_id']}/{one['role']}"
        drive, load = ",".join(one["dev_names"]), load_words(one)
        mode = one["mode"] or f"unknown (kernel view {one['kernel_view']})"
        writes = one["writes_per_s"]
        last = "-" if writes is None else f"{writes:.1f}"
        rows.append((name, drive, load, mode, *row(_table(one["table"])), last))
        if one["client_writes"] is not None:
            cells = row(_table(one["client_writes"]))
            rows.append((name, drive, "client writes", mode, *cells, last))
        if one["note"]:
            notes.append(f"{name} {drive} {load}: {one['note']}")
        notes += [
            f"{name} {drive} {load}: {fault} meanwhile" for fault in faults(one.get("unmet", ()))
        ]
        notes += [f"{name} {drive} {load}: {line}" for line in _bcache(one.get("bcache", ()))]
    heads = ("OSD", "DRIVE", "LOAD", "CACHE MODE", *HEADINGS, "WRITES/S")
    return ["", table(heads, rows), "", *LEGEND, *notes]


def load_words(one: Mapping[str, Any]) -> str:
    """The load of a row, and what the drive had to do beside it."""
    load = load_name(one["load_point"])
    if one["beside"] is not None:
        return f"{load}, beside {load_name(one['beside'])}"
    writes: Optional[float] = one["writes_per_s"]
    if one["load_point"] not in (_TRAFFIC, _TIMER) or writes is None:
        return load
    return f"{load}, " + ("idle" if writes <= IDLE_WRITES_PER_S else "under load")


def _bcache(readings: Sequence[Mapping[str, Any]]) -> List[str]:
    """Each device as it was read last, and whether the load was measured on both sides."""
    latest = {reading["name"]: reading for reading in readings}
    crossed = crossed_target(decode(BcacheState, dict(one), "a reading") for one in readings)
    return [
        *(bcache_words(one) for one in latest.values()),
        *(f"the dirty data of {name} crossed its target meanwhile: part of the table is from "
          "below the target, part from above" for name in crossed),
    ]


def _table(plain: Mapping[str, Any]) -> LatencyTable:
    return decode(LatencyTable, dict(plain), "a table")
