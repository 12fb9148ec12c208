"""`load ls`: what load measured OSDs carry over hours, and which load points count for it."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional

from ..core.cluster import OsdLatency
from ..core.model import LoadPoint
from ..core.text import table
from ..core.verdict.load_profile import HOURS_MIN, LoadProfile, merged, shares
from ..core.verdict.result import Result

ProfilesByOsd = Callable[[], Mapping[int, LoadProfile]]


def load_ls(
    profiles: Mapping[int, LoadProfile], results: List[Result],
    latencies: Mapping[int, OsdLatency],
) -> Dict[str, Any]:
    """One row per OSD with a profile, and one per device class, as `classes`.

    `transactions_per_commit`, `bytes_per_write`, `deferred_per_write` and `recovery_share`
    (of client writes and recovery operations together) are None where nothing was written;
    `commit_ms` and `apply_ms` are what `ceph osd perf` shows, None of an OSD it does not.
    """
    # the newest says it: an id may have been another OSD's
    oldest_first = sorted(results, key=lambda r: r.ended_at_s)
    class_of = {r.osd_id: r.device_class for r in oldest_first}
    seen = sorted(osd_id for osd_id in profiles if osd_id in class_of)
    by_class: Dict[str, List[LoadProfile]] = {}
    for osd_id in seen:
        by_class.setdefault(class_of[osd_id], []).append(profiles[osd_id])
    return {
        "osds": [
            {
                "osd_id": osd_id, "device_class": class_of[osd_id], **_row(profiles[osd_id]),
                **_latency(latencies.get(osd_id)),
            }
            for osd_id in seen
        ],
        "classes": [
            {"device_class": name, "osds": len(found), **_row(merged(tuple(found)))}
            for name, found in sorted(by_class.items())
        ],
        "hours_needed": HOURS_MIN,
    }


def _row(profile: LoadProfile) -> Dict[str, Any]:
    total = profile.total
    return {
        "hours": len(profile.hours),
        "known": profile.known,
        "client_writes": total.client_writes,
        "transactions_per_commit": _share(total.transactions, total.commits),
        "bytes_per_write": _share(total.client_bytes, total.client_writes),
        "deferred_per_write": _share(total.deferred_writes, total.client_writes),
        "recovery_share": _share(
            total.recovery_ops, total.recovery_ops + total.client_writes
        ),
        "load_shares": {
            point.value: round(share, 4) for point, share in shares(total).items()
        } if total.client_writes else {},
    }


def _latency(said: Optional[OsdLatency]) -> Dict[str, Optional[int]]:
    return {
        "commit_ms": None if said is None else said.commit_ms,
        "apply_ms": None if said is None else said.apply_ms,
    }


def _share(part: int, whole: int) -> Optional[float]:
    return round(part / whole, 4) if whole else None


def render(data: Mapping[str, Any]) -> str:
    """`ceph wcache load ls` as text."""
    if not data["osds"]:
        return (
            "no load is known yet: the counters of measured OSDs are read every 10 minutes\n"
            "next: ceph wcache campaign ls"
        )
    rows = [
        (f"osd.{r['osd_id']}", r["device_class"], *_cells(r)) for r in data["osds"]
    ] + [
        (f"all {r['osds']}", r["device_class"], *_cells(r)) for r in data["classes"]
    ]
    heads = (
        "OSD", "CLASS", "HOURS", "WRITES", "TXC/COMMIT", "KIB/WRITE", "DEFERRED/WRITE",
        "RECOVERY", "LIKE DEPTH1", "LIKE BATCH", "LIKE 4M", "COMMIT MS", "APPLY MS",
    )
    said = (
        f"recommendations are weighted by this load after {data['hours_needed']} hours with writes"
    )
    return f"{table(heads, rows)}\n{said}\nnext: ceph wcache recommend"


def _cells(row: Mapping[str, Any]) -> List[str]:
    kib = row["bytes_per_write"]
    cells = [
        str(row["hours"]), str(row["client_writes"]),
        _number(row["transactions_per_commit"], "{:.1f}"),
        _number(None if kib is None else kib / 1024, "{:.1f}"),
        _number(row["deferred_per_write"], "{:.2f}"), _number(row["recovery_share"], "{:.0%}"),
    ]
    by_load = row["load_shares"]
    points = (LoadPoint.OSD_BENCH_DEPTH1, LoadPoint.OSD_BENCH_BATCH, LoadPoint.OSD_BENCH_4M)
    cells += [_number(by_load.get(point.value), "{:.0%}") for point in points]
    # a class has none: there is no mean of what was rounded to whole ms
    return cells + [_number(row.get(name), "{:d}") for name in ("commit_ms", "apply_ms")]


def _number(value: Optional[float], form: str) -> str:
    return "-" if value is None else form.format(value)
