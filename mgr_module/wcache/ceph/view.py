"""The cluster as the mgr's own maps show it: OSDs, classes, hosts, health."""

from __future__ import annotations

import json
import re
import time
from typing import Any, Callable, Dict, FrozenSet, List, Mapping, Protocol, Tuple

from ..core.cluster import ClusterState, OsdInfo, OsdLatency, SlowOsd
from ..core.record import Precondition
from . import told

# Health checks that make latencies mean something else.
_SICK = (
    "OSD_DOWN", "OSD_HOST_DOWN", "OSD_FULL", "OSD_NEARFULL", "OSD_BACKFILLFULL", "MON_DOWN",
    "PG_AVAILABILITY", "OSD_SLOW_PING_TIME_BACK", "OSD_SLOW_PING_TIME_FRONT",
)
# Errors that say nothing of data or latencies: our own, and those of keys.  After an upgrade to
# 20.2.4 (or 19.2.6) a cluster is in error for as long as its daemons have the keys that they had
# before (AUTH_INSECURE_SERVICE_KEY_TYPE).
_NO_HARM_DONE = ("WCACHE_", "AUTH_")
# Raised for an OSD whose BlueStore had an operation slower than its threshold, and kept for so
# long after the last one, or until the OSD restarts (BlueStore.cc, _trim_slow_op_event_queue;
# PGMap.cc, get_health_checks).
_SLOW_BLUESTORE = "BLUESTORE_SLOW_OP_ALERT"
_SLOW_KEPT = "bluestore_slow_ops_warn_lifetime"
_SLOW_KEPT_DEFAULT_S = 86400.0
_ERASURE = 3
_OSD = re.compile(r"osd\.([0-9]{1,9}) ")
# More PGs in scrub than this, and than this share of OSDs that are up, are a storm: each keeps
# all OSDs of its PG busy.
SCRUBS_MIN, SCRUBS_SHARE = 4, 0.25
# More levels than CRUSH has types; a map in which a bucket holds itself ends here.
DEPTH_MAX = 32
Location = Tuple[Tuple[str, str], ...]
_RECOVERY = ("recovering", "backfilling", "backfill_wait", "recovery_wait", "forced_recovery")


class Mgr(Protocol):
    """The part of MgrModule that is used here."""

    @property
    def version(self) -> str:
        """Ceph's version text."""

    def get(self, data_name: str) -> Any:
        """One of the mgr's structures; may be shared and read-only."""

    def get_foreign_ceph_option(self, entity: str, key: str) -> Any:
        """An option as a daemon has it; KeyError where the release has none."""


class CephView:
    """The `ClusterView` port over a mgr module."""

    def __init__(
        self, mgr: Mgr, *, bench_empties_caches: bool, clock: Callable[[], float] = time.time,
        upgrade: Callable[[], bool] = lambda: False,
        host_names: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._mgr = mgr
        self._host_names = host_names
        self._upgrade = upgrade
        self._clock = clock
        self._slow: Dict[int, SlowOsd] = {}
        self._bench_empties_caches = bench_empties_caches

    def cluster(self) -> ClusterState:
        """OSDs, health and versions as of now."""
        osd_map = self._mgr.get("osd_map")
        metadata = self._mgr.get("osd_metadata")
        crush = self._mgr.get("osd_map_crush")
        classes, locations = _crush(crush)
        osds: Dict[int, OsdInfo] = {}
        for row in osd_map["osds"]:
            osd_id = int(row["osd"])
            meta = metadata.get(str(osd_id)) or metadata.get(osd_id) or {}
            location = locations.get(osd_id, ())
            osds[osd_id] = OsdInfo(
                osd_id,
                told.of_osd(meta, "hostname"),
                classes.get(osd_id, told.of_osd(meta, "default_device_class")),
                bool(row["up"]) and bool(row["in"]),
                told.of_osd(meta, "ceph_version_short"),
                dict(location).get("host", ""),
                meta.get("bluefs_dedicated_db") == "1",
                meta.get("bluefs_dedicated_wal") == "1",
                meta.get("bluestore_bdev_rotational", meta.get("rotational")) == "1",
                location,
                str(row.get("uuid", "")),
                int(row.get("up_from", 0)),
                _bytes(meta.get("bluestore_min_alloc_size")),
                {"0": False, "1": True}.get(str(meta.get("bluestore_bdev_support_discard"))),
            )
        checks = json.loads(self._mgr.get("health")["json"]).get("checks", {})
        slow = self._slow_osds(checks.get(_SLOW_BLUESTORE, {}))
        unfit = self._unfit(osd_map, checks, sum(osd.up for osd in osds.values()))
        if slow:
            unfit = (*unfit, Precondition.NO_SLOW_BLUESTORE)
        return ClusterState(
            str(osd_map["fsid"]), self._version(), osds, self._missed(checks),
            self._bench_empties_caches, _failure_types(osd_map, crush), unfit, slow,
            self._host_names(),
        )

    def erasure_coded(self) -> bool:
        """Whether the cluster has an erasure-coded pool (osd_types.h, TYPE_ERASURE)."""
        pools = self._mgr.get("osd_map").get("pools", ())
        return any(pool.get("type") == _ERASURE for pool in pools)

    def latencies(self) -> Dict[int, OsdLatency]:
        """As `ceph osd perf` has them, of the OSDs that report any."""
        found: Dict[int, OsdLatency] = {}
        for row in self._mgr.get("osd_stats").get("osd_stats", ()):
            stat = row.get("perf_stat", {})
            commit_ms, apply_ms = stat.get("commit_latency_ms"), stat.get("apply_latency_ms")
            if commit_ms is not None and apply_ms is not None:
                found[int(row["osd"])] = OsdLatency(int(commit_ms), int(apply_ms))
        return found

    def _version(self) -> str:
        words = self._mgr.version.split()
        return words[2] if len(words) > 2 else self._mgr.version

    def _slow_osds(self, check: Mapping[str, Any]) -> Tuple[SlowOsd, ...]:
        """The OSDs that a health check names, unless it is muted.  It says not since when."""
        ids = set()
        for line in () if check.get("muted") else check.get("detail", ()):
            named = _OSD.match(str(line.get("message", "")).lstrip())
            ids |= {int(named.group(1))} if named else set()
        known = self._slow
        slow = {i: known.get(i) or SlowOsd(i, self._clock(), self._kept_s(i)) for i in sorted(ids)}
        self._slow = slow  # at once: several threads look
        return tuple(slow.values())

    def _kept_s(self, osd_id: int) -> float:
        try:
            return float(self._mgr.get_foreign_ceph_option(f"osd.{osd_id}", _SLOW_KEPT))
        except (AttributeError, KeyError, TypeError, ValueError):
            return _SLOW_KEPT_DEFAULT_S

    def _missed(self, checks: Mapping[str, Any]) -> Tuple[Precondition, ...]:
        missed: List[Precondition] = []
        if any(name in _SICK or _is_error(name, check) for name, check in checks.items()):
            missed.append(Precondition.CLUSTER_HEALTHY)
        if "SLOW_OPS" in checks:
            missed.append(Precondition.NO_SLOW_OPS)
        states = self._mgr.get("pg_summary")["all"]
        if any("active" not in s or "clean" not in s for s in _words(states)):
            missed.append(Precondition.PGS_CLEAN)
        if any(word in s for s in _words(states) for word in _RECOVERY):
            missed.append(Precondition.NO_RECOVERY)
        if any("scrubbing" in s for s in _words(states)):
            missed.append(Precondition.NO_SCRUB)
        if self._upgrade():
            missed.append(Precondition.NO_UPGRADE)
        return tuple(missed)

    def _unfit(
        self, osd_map: Mapping[str, Any], checks: Mapping[str, Any], osds_up: int
    ) -> Tuple[Precondition, ...]:
        """What keeps a wave from starting, and forbids no measuring."""
        found: List[Precondition] = []
        states = self._mgr.get("pg_summary")["all"]
        scrubbing = sum(n for name, n in states.items() if "scrubbing" in name.split("+"))
        if scrubbing > max(SCRUBS_MIN, SCRUBS_SHARE * osds_up):
            found.append(Precondition.NO_SCRUB_STORM)
        flags = str(osd_map.get("flags", "")).split(",")
        if "HOST_IN_MAINTENANCE" in checks or "noout" in flags or any(
            "noout" in each for each in osd_map.get("crush_node_flags", {}).values()
        ):
            found.append(Precondition.NO_MAINTENANCE)
        return tuple(found)


def _bytes(text: Any) -> int:
    """A size as an OSD tells it, whoever wrote that; 0 where it is none."""
    digits = str(text)
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 16 else 0


def _is_error(name: str, check: Mapping[str, Any]) -> bool:
    """Whether a health check of others says that the cluster is in error, and nobody muted it."""
    error = check.get("severity") == "HEALTH_ERR" and not check.get("muted")
    return error and not name.startswith(_NO_HARM_DONE)


def _failure_types(osd_map: Mapping[str, Any], crush: Mapping[str, Any]) -> FrozenSet[str]:
    """The types over which the pools' rules spread copies (CrushWrapper::dump_rule).

    `osd` where a rule chooses nothing wider: one host may hold several copies then.
    """
    used = {pool.get("crush_rule") for pool in osd_map.get("pools", ())}
    found = set()
    for rule in crush.get("rules", ()):
        chosen = {
            told.name(step["type"]) for step in rule.get("steps", ())
            if str(step.get("op", "")).startswith("choose") and step.get("type") is not None
        }
        if rule.get("rule_id") in used:
            found |= chosen - {"osd"} or chosen
    return frozenset(found)


def _words(states: Mapping[str, int]) -> List[List[str]]:
    return [name.split("+") for name, count in states.items() if count]


def _crush(crush: Mapping[str, Any]) -> Tuple[Dict[int, str], Dict[int, Location]]:
    """(device class, the buckets over it from the innermost on) of each OSD.

    The trees of single device classes ("default~hdd") are copies, in no OSD's location.
    """
    classes = {
        int(device["id"]): told.name(device["class"])
        for device in crush.get("devices", ())
        if "class" in device
    }
    buckets = {
        int(bucket["id"]): bucket
        for bucket in crush.get("buckets", ()) if "~" not in str(bucket["name"])
    }
    over = {
        int(item["id"]): bucket_id
        for bucket_id, bucket in buckets.items() for item in bucket.get("items", ())
    }
    upwards: Dict[int, Location] = {}

    def location(bucket_id: int, depth: int = 0) -> Location:
        if bucket_id not in upwards:
            bucket, parent = buckets[bucket_id], over.get(bucket_id)
            rest = () if parent is None or depth > DEPTH_MAX else location(parent, depth + 1)
            kind, name = told.name(bucket["type_name"]), told.name(bucket["name"])
            upwards[bucket_id] = ((kind, name), *rest)
        return upwards[bucket_id]

    return classes, {item: location(parent) for item, parent in over.items() if item >= 0}
