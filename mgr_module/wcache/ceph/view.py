"""The cluster as the mgr has it, with nobody asked: its maps, its copies of counters."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, FrozenSet, Mapping, Optional, Sequence, Set, Tuple

from ..core.cluster import (
    IN_WORK,
    ClusterState,
    OsdInfo,
    OsdLatency,
    SlowOsd,
    map_name,
    of_metadata,
)
from ..core.loads import TRANSACTION_COUNTERS
from ..core.record import CHECKS_MAX, Precondition
from .cluster_health import flags_forbid, in_work, judged, pg_scope, pgs_forbid, reason
from .command import Mgr
from .health import PASSES_S, PASSING, Reach

# Raised for an OSD whose BlueStore had an operation slower than its threshold, and kept for so
# long after the last one, or until the OSD restarts (BlueStore.cc, _trim_slow_op_event_queue;
# PGMap.cc, get_health_checks).
_SLOW_KEPT = "bluestore_slow_ops_warn_lifetime"
_SLOW_KEPT_DEFAULT_S = 86400.0
_ERASURE = 3
SEEN_S = 1.0
_SLOW_OPS = "SLOW_OPS"
# More levels than CRUSH has types; a map in which a bucket holds itself ends here.
DEPTH_MAX = 32
Location = Tuple[Tuple[str, str], ...]
_MOVES = frozenset(("recovering", "backfilling", "backfill_wait", "recovery_wait"))
# Words of an OSD's state in the map (OSDMap::dump): never cut off, as details of health may be.
_FULL = {"nearfull": "is near full", "backfillfull": "is near full", "full": "is full"}


# What an OSD counts of its own PGs at each new map, of a priority that reaches the mgr
# (osd_perf_counters.cc; OSD.cc, consume_map).
_PGS_HELD = "osd.numpg"

# Of a priority that reaches the mgr (BlueStore.cc, PRIO_CRITICAL).
_COUNTERS = tuple(f"bluestore.{name}" for name in TRANSACTION_COUNTERS)
# The mgr keeps points 5 s apart; older ones tell of another time of day.
POINTS = 7
# Sums come as the OSD counts them (mgr_module.py, _perfvalue_to_value).
NS_PER_MS = 1e6

Series = Callable[[int, str], Sequence[Sequence[float]]]
"""The points that the mgr has of an OSD's counter, oldest first.

Each is (time in s, sum in ns, count) of a latency, and (time in s, value) of anything else.
"""


@dataclass
class CephView:
    """The `ClusterView` port over a mgr module.

    A look at a large cluster takes a tenth of a second, and each OSD is asked about each second
    or so: what was seen serves all threads for a while.
    """

    mgr: Mgr
    bench_empties_caches: bool
    clock: Callable[[], float] = time.time
    upgrade: Callable[[], bool] = lambda: False
    host_names: Callable[[], Mapping[str, str]] = dict
    series: Series = lambda osd_id, name: ()
    _slow: Dict[int, SlowOsd] = field(default_factory=dict, init=False)
    _without_at_s: Dict[str, float] = field(default_factory=dict, init=False)

    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _seen: Optional[ClusterState] = field(default=None, init=False)
    _seen_at_s: float = field(default=0.0, init=False)

    def cluster(self) -> ClusterState:
        """OSDs, health and versions, not older than `SEEN_S`."""
        with self._lock:
            now_s = self.clock()
            if self._seen is None or not 0.0 <= now_s - self._seen_at_s < SEEN_S:
                self._seen, self._seen_at_s = self._look(), now_s
            return self._seen

    def _look(self) -> ClusterState:
        osd_map = self.mgr.get("osd_map")
        metadata = self.mgr.get("osd_metadata")
        crush = self.mgr.get("osd_map_crush")
        classes, locations = _crush(crush)
        osds: Dict[int, OsdInfo] = {}
        for row in osd_map["osds"]:
            osd_id = int(row["osd"])
            meta = metadata.get(str(osd_id)) or metadata.get(osd_id) or {}
            location = locations.get(osd_id, ())
            osds[osd_id] = OsdInfo(
                osd_id,
                of_metadata(meta, "hostname"),
                # CRUSH takes no comma, which would begin another term of a scope
                classes.get(osd_id, of_metadata(meta, "default_device_class").replace(",", "?")),
                bool(row["up"]) and bool(row["in"]),
                of_metadata(meta, "ceph_version_short"),
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
        checks = json.loads(self.mgr.get("health")["json"]).get("checks", {})
        health, pgs = judged(checks), self.mgr.get("pg_summary")
        flags, words = flags_forbid(osd_map), self.mgr.version.split()
        noout = "noout" in flags
        sick = (
            *(reason(name) for name in health.forbids if name != _SLOW_OPS),
            *(f"flag {name} is set" for name in flags if name != "noout"),
            *(f"PGs are {word}" for word in self._staying(pgs["all"])),
        )
        ill, busy = _by_pgs(pgs["by_osd"])
        _by_map(ill, osd_map, osds, health.hosts)
        # it names ten daemons at most
        slow_ops = {*osds} if _SLOW_OPS in health.forbids else set()
        for osd_id, names in health.osds.items():
            if names == (_SLOW_OPS,):
                slow_ops.add(osd_id)
            else:
                ill.setdefault(osd_id, f"is named by {', '.join(names)}")
        return ClusterState(
            str(osd_map["fsid"]), words[2] if len(words) > 2 else self.mgr.version, osds,
            self._missed(bool(sick), noout, _SLOW_OPS in checks, pgs["all"]),
            self.bench_empties_caches, _failure_types(osd_map, crush),
            self._slow_osds(health.alerted), self.host_names(), sick, ill,
            frozenset(slow_ops), busy, (*health.forbids, *health.recorded)[:CHECKS_MAX],
            _strict_pools(osd_map), _Getting(self.series, pgs["by_osd"], osd_map),
        )

    def is_up(self, osd_id: int) -> bool:
        osd = self.cluster().osds.get(osd_id)
        return osd is not None and osd.up

    def erasure_coded(self) -> bool:
        """Whether the cluster has an erasure-coded pool (osd_types.h, TYPE_ERASURE)."""
        pools = self.mgr.get("osd_map").get("pools", ())
        return any(pool.get("type") == _ERASURE for pool in pools)

    def latencies(self) -> Dict[int, OsdLatency]:
        """As `ceph osd perf` has them, of the OSDs that report any."""
        found: Dict[int, OsdLatency] = {}
        for row in self.mgr.get("osd_stats").get("osd_stats", ()):
            stat = row.get("perf_stat", {})
            commit_ms, apply_ms = stat.get("commit_latency_ms"), stat.get("apply_latency_ms")
            if commit_ms is not None and apply_ms is not None:
                found[int(row["osd"])] = OsdLatency(int(commit_ms), int(apply_ms))
        return found

    def _staying(self, states: Mapping[str, int]) -> Tuple[str, ...]:
        """The words of PG states that forbid, without those that may soon pass by themselves.

        A mgr that has just started knows no PG: then nothing is known to have been well before.
        """
        now_s, forbid = self.clock(), pgs_forbid(states)
        if states:
            self._without_at_s.update((word, now_s) for word in PASSING if word not in forbid)
        passing = {
            word for word, at_s in self._without_at_s.items() if 0.0 <= now_s - at_s < PASSES_S
        }
        return tuple(word for word in forbid if word not in passing)

    def _slow_osds(self, ids: FrozenSet[int]) -> Tuple[SlowOsd, ...]:
        """The OSDs that an alert names, which does not say since when."""
        known = self._slow
        slow = {i: known.get(i) or SlowOsd(i, self.clock(), self._kept_s(i)) for i in sorted(ids)}
        self._slow = slow  # at once: several threads look
        return tuple(slow.values())

    def _kept_s(self, osd_id: int) -> float:
        try:
            return float(self.mgr.get_foreign_ceph_option(f"osd.{osd_id}", _SLOW_KEPT))
        except (AttributeError, KeyError, TypeError, ValueError):
            return _SLOW_KEPT_DEFAULT_S

    def _missed(
        self, sick: bool, noout: bool, slow_ops: bool, states: Mapping[str, int]
    ) -> Tuple[Precondition, ...]:
        words = [frozenset(name.split("+")) for name, count in states.items() if count]
        found = {
            Precondition.CLUSTER_HEALTHY: sick,
            Precondition.NO_SLOW_OPS: slow_ops,
            Precondition.PGS_CLEAN: any(
                not {"active", "clean"} <= each or "stale" in each for each in words
            ),
            Precondition.NO_RECOVERY: any(each & _MOVES for each in words),
            Precondition.NO_SCRUB: any("scrubbing" in each for each in words),
            Precondition.NO_UPGRADE: self.upgrade(),
            Precondition.NO_MAINTENANCE: noout,
        }
        return tuple(item for item, missed in found.items() if missed)


def _strict_pools(osd_map: Mapping[str, Any]) -> Tuple[str, ...]:
    """Pools that write only where all copies are there (PeeringState.h, acting_set_writeable)."""
    return tuple(
        map_name(pool.get("pool_name")) for pool in osd_map.get("pools", ())
        if pool.get("min_size", 0) >= pool.get("size", 1)
    )


def _by_pgs(by_osd: Mapping[str, Mapping[str, int]]) -> Tuple[Dict[int, str], FrozenSet[int]]:
    """(why OSDs are ill, those that move data) by the PGs of whose acting sets they are."""
    ill: Dict[int, str] = {}
    busy = set()
    for key, states in by_osd.items():
        for state in (name for name, count in states.items() if count):
            scope = pg_scope(state)
            if scope is Reach.BUSY:
                busy.add(int(key))
            elif scope in (Reach.OSDS, Reach.CLUSTER):
                ill[int(key)] = f"has PGs that are {map_name(state)}"
    return ill, frozenset(busy)


@dataclass(eq=False)
class _Getting:
    """Says of an OSD whether it gets data of PGs, or may, as the maps were at one look.

    Who gets data is in a PG's `up` set and not in its acting set, and no state of a PG names it.
    What is known is who the balancer has get it: a PG of another acting set than CRUSH gives is in
    the map's `pg_temp` (PeeringState.cc, choose_acting), and the map has the upmap that moves it.
    Else it is seen by what an OSD holds: more PGs than there are of whose acting sets it is.  That
    it counts at each new map alone, and copies count too that wait, or are to be deleted.
    """

    _series: Series
    _by_osd: Mapping[str, Mapping[str, int]]
    _osd_map: Mapping[str, Any]
    _targets: Optional[Set[int]] = None

    def __call__(self, osd_id: int) -> bool:
        if self._targets is None:  # at the first question: a large cluster has many
            self._targets = _targets(self._osd_map)
        held = [point[1] for point in self._series(osd_id, _PGS_HELD)[-1:] if len(point) == 2]
        return osd_id in self._targets or (
            sum(held) > sum(self._by_osd.get(str(osd_id), {}).values())
        )


def _targets(osd_map: Mapping[str, Any]) -> Set[int]:
    """OSDs to which upmaps move PGs that are not there yet (OSDMap::dump)."""
    acting = {row["pgid"]: {*row["osds"]} for row in osd_map.get("pg_temp", ())}
    found: Set[int] = set()
    for row in osd_map.get("pg_upmap_items", ()) if acting else ():
        if row["pgid"] in acting:
            found.update({int(pair["to"]) for pair in row["mappings"]} - acting[row["pgid"]])
    return found


def _by_map(
    ill: Dict[int, str], osd_map: Mapping[str, Any], osds: Mapping[int, OsdInfo],
    hosts: FrozenSet[str],
) -> None:
    """How full OSDs are, and those on which somebody works."""
    ids, nodes, classes = in_work(osd_map)
    places = nodes | hosts
    for osd_id, osd in osds.items() if places or classes or ids else ():
        # cephadm's name of a host need not be that of its bucket
        if osd_id in ids or osd.device_class in classes or osd.hostname in hosts or any(
            name in places for _, name in osd.location
        ):
            ill.setdefault(osd_id, IN_WORK)
    for row in osd_map["osds"]:
        for word in _FULL.keys() & row.get("state", ()):
            ill.setdefault(int(row["osd"]), _FULL[word])


def _bytes(text: Any) -> int:
    """A size as an OSD tells it, whoever wrote that; 0 where it is none."""
    digits = str(text)
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 16 else 0


def _failure_types(osd_map: Mapping[str, Any], crush: Mapping[str, Any]) -> FrozenSet[str]:
    """The types over which the pools' rules spread copies (CrushWrapper::dump_rule).

    `osd` where a rule chooses nothing wider: one host may hold several copies then.
    """
    used = {pool.get("crush_rule") for pool in osd_map.get("pools", ())}
    found = set()
    for rule in crush.get("rules", ()):
        chosen = {
            map_name(step["type"]) for step in rule.get("steps", ())
            if str(step.get("op", "")).startswith("choose") and step.get("type") is not None
        }
        if rule.get("rule_id") in used:
            found |= chosen - {"osd"} or chosen
    return frozenset(found)


def _crush(crush: Mapping[str, Any]) -> Tuple[Dict[int, str], Dict[int, Location]]:
    """(device class, the buckets over it from the innermost on) of each OSD.

    The trees of single device classes ("default~hdd") are copies, in no OSD's location.
    """
    classes = {
        int(device["id"]): map_name(device["class"])
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
            kind, name = map_name(bucket["type_name"]), map_name(bucket["name"])
            upwards[bucket_id] = ((kind, name), *rest)
        return upwards[bucket_id]

    return classes, {item: location(parent) for item, parent in over.items() if item >= 0}


class CephTraffic:
    """How often OSDs commit, and how fast, by the mgr's own copies of their counters."""

    def __init__(self, series: Series) -> None:
        self._series = series

    def commits_per_s(self, osd_id: int) -> float:
        """Commits in a second, over the last half minute; 0 where that is not known."""
        seconds, _, count = self._gained(osd_id)
        return count / seconds if seconds > 0.0 else 0.0

    def commit_ms(self, osd_id: int) -> Optional[float]:
        """What one of these takes; None where that is not known, or nothing was committed."""
        _, total_ns, count = self._gained(osd_id)
        # where a clock was set back, a sum may have shrunk
        return total_ns / count / NS_PER_MS if count > 0.0 and total_ns > 0.0 else None

    def _gained(self, osd_id: int) -> Tuple[float, float, float]:
        """The seconds, ns of latency and commits between the first point and the last."""
        for name in _COUNTERS:
            found = _gain(self._series(osd_id, name)[-POINTS:])
            if found[2] > 0.0:
                return found
        return 0.0, 0.0, 0.0


def _gain(points: Sequence[Sequence[float]]) -> Tuple[float, float, float]:
    """Of a counter that only grows; an OSD that was restarted has begun anew."""
    whole: Any = [point for point in points if len(point) == 3]
    if len(whole) < 2:
        return 0.0, 0.0, 0.0
    seconds, total_ns, count = (float(b - a) for a, b in zip(whole[0], whole[-1]))
    return (seconds, total_ns, count) if seconds > 0.0 else (0.0, 0.0, 0.0)
