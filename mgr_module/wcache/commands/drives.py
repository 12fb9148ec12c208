"""Drives of OSDs, each or by kinds, with their load, their controllers, their volumes."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Tuple

from ..core import codec
from ..core.cluster import OsdLatency
from ..core.drive.manual import pin_word
from ..core.drive.safety import dropping_above, judge, raised_by
from ..core.errors import NotFoundError, NotReadyError
from ..core.fleet import claims
from ..core.fleet.claims import age_of, believed_of
from ..core.fleet.foreign_rules import reloads
from ..core.hardware import advice
from ..core.model import CacheMode, DriveReport, LoadPoint
from ..core.scope import Scope, parse_scope
from ..core.text import LISTED_MAX, Rows, amount, command, grouped, named
from ..core.verdict.load_profile import HOURS_MIN, LoadProfile, merged, shares
from ..core.verdict.result import Result, plp_cell
from ..deployment.places import Form
from ..deployment.scripts import reloading
from ..engine.world import World
from .tables import LONG, Column, first_rows, known, listing


def drives(world: World, within: Optional[str] = None) -> Dict[str, Any]:
    """`drive ls`: every OSD drive with both sides of its cache and every layer."""
    scope = parse_scope(within)
    hostname = scope.hostname
    _require_reported(world, hostname)
    names = [hostname] if hostname else sorted(world.reports)
    if hostname:
        told = {hostname: believed_of(hostname, world.reports, world.cluster)}
    else:
        told = {report.hostname: report for report in world.believed_reports}
    trusted = frozenset(item.drive_model for item in world.trusted)

    def row_of(item: Tuple[str, DriveReport]) -> Dict[str, Any]:
        name, drive = item
        at_s = world.reported_at_s.get(name)
        return {
            **codec.to_plain(drive),
            "hostname": name, "leased": (name, drive.domain_id) in world.leased,
            "safety": judge(drive.state).value,
            "mode": drive.mode.value if drive.mode else "unknown",
            "osds": sorted({use.osd_id for use in drive.uses}),
            "plp": plp_cell(drive.plp_hints, str(drive.drive_model) in trusted),
            "toggle_refusal": drive.toggle_refusal or _must_stay_off(drive),
            "reported_s_ago": None if at_s is None else round(world.now_s - at_s, 1),
        }

    found = [
        (name, drive) for name in names for drive in told[name].drives
        if scope.covers(told[name], drive, world.cluster)
    ]
    if not found and scope not in (Scope(), Scope(hostname=hostname)):
        raise NotFoundError(f"no drive is in scope {scope}", "see `ceph wcache drive ls`")
    rows = Rows(found, row_of)
    age = age_of({*names}, world.reported_at_s, world.now_s)
    return {"drives": rows, "reported": codec.to_plain(age)}


def _require_reported(world: World, hostname: str) -> None:
    """The host that is asked for, if one is, has reported; one of the cluster's may yet do so."""
    if hostname and hostname not in world.reports:
        unknown = hostname not in world.cluster.hostnames
        raise (NotFoundError if unknown else NotReadyError)(
            f"no probe has reported for host {hostname[:60]!r}", "see `ceph wcache agent ls`"
        )


def _must_stay_off(drive: DriveReport) -> str:
    dropping = dropping_above(drive) if drive.mode is CacheMode.WRITE_THROUGH else ()
    return f"{', '.join(dropping)} does not flush; {raised_by(drive)}" if dropping else ""


HOSTS_NAMED = 3
SAFE = "safe"
Row = Mapping[str, Any]


def drives_text(data: Mapping[str, Any]) -> str:
    """`ceph wcache drive ls`."""
    rows = data["drives"]
    few = len(rows) <= LISTED_MAX or len({row["hostname"] for row in rows}) == 1
    return every_drive_text(data) if few else _kinds(data)


def every_drive_text(data: Mapping[str, Any]) -> str:
    """`ceph wcache drive ls --all`."""
    if not data["drives"]:
        return "no probe has reported a drive yet"
    return "\n".join([listing(DRIVES, data["drives"]), *_below(data)])


def _kinds(data: Mapping[str, Any]) -> str:
    """Drives that look alike in one line: those in a state that is not safe first."""
    kinds = grouped((tuple(column.of(row) for column in KINDS), row) for row in data["drives"])
    found = sorted(kinds.items(), key=lambda one: (one[1][0]["safety"] == SAFE, -len(one[1])))
    rows = [
        (len(alike), named(list(dict.fromkeys(row["hostname"] for row in alike)), HOSTS_NAMED),
         *kind)
        for kind, alike in found
    ]
    heads = ("DRIVES", "HOSTS", *(column.head for column in KINDS))
    return "\n".join([
        *first_rows(heads, rows, "kinds of drives"), *_below(data),
        "each drive: ceph wcache drive ls --all, or of one host: "
        + command("ceph wcache drive ls host:{}", found[0][1][0]["hostname"]),
    ])


def _layers(row: Row) -> str:
    """How kernel and layers see the cache, whatever the layers are called."""
    return ",".join(sorted({one["kernel_view"] for one in row["state"]["layers"]}))


def _note(row: Row) -> str:
    return "; ".join(filter(None, (
        "experiment" if row["leased"] else row["toggle_refusal"],
        *(bcache_words(one) for one in row.get("bcache", ())),
        *(dm_cache_words(one) for one in row.get("dm_caches", ())),
    )))


DRIVES = (
    Column("HOST", "hostname"), Column("DRIVE", "dev_name"), Column("TRANSPORT", "transport"),
    Column("MODEL", lambda row: " ".join(filter(None, row["drive_model"].values()))),
    Column("OSDS", lambda row: ", ".join(
        sorted(f"osd.{use['osd_id']}/{use['role']}" for use in row["uses"]))),
    Column("DEVICE CACHE", lambda row: row["state"]["device_cache"]),
    Column("KERNEL VIEW", lambda row: row["state"]["kernel_view"]),
    Column("PINNED", lambda row: pin_word(row["transport"], row["state"]["pinned"])),
    Column("LAYERS", lambda row: " ".join(
        f"{layer['name']}={layer['kernel_view']}" for layer in row["state"]["layers"])),
    Column("STATE", "safety"), Column("PLP", "plp"), Column("NOTE", _note, LONG),
)
# What drives that look alike have in common.
KINDS = tuple(
    column._replace(value=_layers) if column.head == "LAYERS" else column
    for column in DRIVES if column.head not in ("HOST", "DRIVE", "OSDS")
)


def _below(data: Mapping[str, Any]) -> List[str]:
    return [
        *flushed(row["state"] for row in data["drives"]),
        f"reported {claims.words(data['reported'])}",
    ]


def flushed(states: Iterable[Mapping[str, Any]]) -> List[str]:
    """Which direction is safe, where the two sides of some drive's cache differ."""
    differ = any(
        (state["device_cache"], state["kernel_view"]) == ("write through", "write back")
        for state in states
    )
    return [
        "device cache off and kernel view write back is safe: the kernel flushes a cache that is "
        "off; the other way round data can be lost"
    ] if differ else []


def bcache_words(one: Mapping[str, Any]) -> str:
    """What the drive is to it, and what it is set to."""
    role = "cache" if one["is_cache"] else "backing"
    sizes = {
        name: "unknown" if one[key] is None else amount(one[key])
        for name, key in (
            ("cutoff", "sequential_cutoff_bytes"), ("dirty", "dirty_bytes"),
            ("target", "target_bytes"), ("rate", "rate_bytes_s"),
        )
    }
    state = f", {one['state']}" if one["state"] in ("no cache", "inconsistent") else ""
    return (
        f"{role} of {one['name']} ({one['mode']}{state}, sequential cutoff {sizes['cutoff']}, "
        f"dirty {sizes['dirty']} of {sizes['target']}, {sizes['rate']}/s)"
    )


def dm_cache_words(one: Mapping[str, Any]) -> str:
    """What it is and how it is set; wcache leaves it alone."""
    dirty = one["dirty_bytes"]
    parts = (
        one["mode"], one["policy"] and f"policy {one['policy']}",
        "" if dirty is None else f"dirty {amount(dirty)}",
    )
    return (
        f"under {one['kind']} {one['name']} ({', '.join(filter(None, parts))}; observed only, not "
        "tuned)"
    )


CONTROLLERS = tuple(
    Column(head, key) for head, key in (
        ("HOST", "hostname"), ("TOOL", "tool"), ("NUMBER", "name"), ("MODEL", "model"),
        ("FIRMWARE", "firmware"), ("MODE", "mode"), ("CACHE POLICY", "cache_policy"),
        ("BATTERY", "battery"), ("DRIVES' OWN CACHE", "drive_cache"), ("DRIVES SAY", "drives_own"),
    )
)


def controllers(world: World) -> Dict[str, Any]:
    """`controller ls`: storage controllers as their vendors' tools tell them."""
    rows = [
        {"hostname": name, **codec.to_plain(one), "advice": list(advice(one))}
        for name, report in sorted(world.reports.items()) for one in report.controllers
    ]
    return {"controllers": rows}


def controllers_text(data: Mapping[str, Any]) -> str:
    """`ceph wcache controller ls`, with advice."""
    rows = data["controllers"]
    if not rows:
        return (
            "no probe reported a controller: it reads storcli, perccli, ssacli and arcconf where "
            "they are installed on its host"
        )
    told = [{key: value or "not told" for key, value in row.items()} for row in rows]
    return "\n".join([listing(CONTROLLERS, told), *(
        f"{row['hostname']} {row['tool']} {row['name']}".rstrip() + f": {line}"
        for row in rows for line in row["advice"]
    )])


_ROOK = (
    "Rook runs it: run `wcache-probe prepare` there, and drain and boot the node, after which its "
    "volumes are loaded on pinned disks"
)


def reload(world: World, scope: Optional[str] = None) -> Dict[str, Any]:
    """`drive reload`: OSDs whose volumes drop flushes above drives that are off, and a script."""
    wanted = parse_scope(scope)
    _require_reported(world, wanted.hostname)
    by_hand = {name: _ROOK for name, one in world.deployments.items() if one.form is Form.ROOK}
    reports = world.believed_real
    covered = {
        (report.hostname, use.osd_id) for report in reports for drive in report.drives
        if wanted.covers(report, drive, world.cluster) for use in drive.uses
        if wanted.has_one(use.osd_id, world.cluster)
    }
    items = tuple(
        one for one in reloads(reports, by_hand) if (one.hostname, one.osd_id) in covered
    )
    return {
        "osds": [codec.to_plain(item) for item in items],
        "script": reloading(items, world.cluster.fsid) if items else "",
    }


def reload_text(data: Mapping[str, Any]) -> str:
    """The script itself, to be read and then handed to `sh`."""
    return str(data["script"]) or "# no OSD's volumes have to be loaded anew"


# ---- what load measured OSDs carry over hours, and which load points count for it


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
    by_class = grouped((class_of[osd_id], profiles[osd_id]) for osd_id in seen)
    return {
        "osds": [
            {
                "osd_id": osd_id, "device_class": class_of[osd_id], **_load(profiles[osd_id]),
                "commit_ms": said.commit_ms if said else None,
                "apply_ms": said.apply_ms if said else None,
            }
            for osd_id in seen for said in [latencies.get(osd_id)]
        ],
        "classes": [
            {"device_class": name, "osds": len(found), **_load(merged(tuple(found)))}
            for name, found in sorted(by_class.items())
        ],
        "hours_needed": HOURS_MIN,
    }


def _load(profile: LoadProfile) -> Dict[str, Any]:
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


def _share(part: int, whole: int) -> Optional[float]:
    return round(part / whole, 4) if whole else None


_PERCENT: Callable[[float], str] = "{:.0%}".format


def _like(head: str, point: LoadPoint) -> Column:
    return known(head, lambda row: row["load_shares"].get(point.value), _PERCENT)


LOADS = (
    Column("OSD", lambda r: f"osd.{r['osd_id']}" if "osd_id" in r else f"all {r['osds']}"),
    Column("CLASS", "device_class"), known("HOURS", "hours", str),
    known("WRITES", "client_writes", str),
    known("TXC/COMMIT", "transactions_per_commit", "{:.1f}".format),
    known("KIB/WRITE", "bytes_per_write", lambda size: f"{size / 1024:.1f}"),
    known("DEFERRED/WRITE", "deferred_per_write", "{:.2f}".format),
    known("RECOVERY", "recovery_share", _PERCENT),
    _like("LIKE DEPTH1", LoadPoint.OSD_BENCH_DEPTH1),
    _like("LIKE BATCH", LoadPoint.OSD_BENCH_BATCH), _like("LIKE 4M", LoadPoint.OSD_BENCH_4M),
    # a class has none: there is no mean of what was rounded to whole ms
    known("COMMIT MS", "commit_ms", str), known("APPLY MS", "apply_ms", str),
)


def load_text(data: Mapping[str, Any]) -> str:
    """`ceph wcache load ls` as text."""
    if not data["osds"]:
        return "no load is known yet: the counters of measured OSDs are read every 10 minutes"
    return "\n".join([
        listing(LOADS, [*data["osds"], *data["classes"]]),
        f"recommendations are weighted by this load after {data['hours_needed']} hours with writes",
    ])
