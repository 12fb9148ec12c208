"""What load an OSD carries over hours; it says which load points count for the OSD.

Three numbers tell it, from counters that every OSD keeps: transactions per kv commit
(how many writes share a flush), bytes per write of clients, and how much of the work is
recovery.  They are kept per hour, since a night's backup is another load than the day.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, field, replace
from typing import Any, ClassVar, Dict, Mapping, Optional, Tuple

from ..loads import LARGE_BYTES, SMALL_BYTES, TRANSACTION_COUNTERS
from ..model import LoadPoint

HOURS_MAX = 168  # a week
HOUR_S = 3600
HOURS_MIN = 6  # with writes in them, before a load counts as known
# An OSD's perf counters of what clients write (src/osd/osd_perf_counters.cc): as primary, as
# primary with a read in the same operation, and as replica, whose bytes include the
# transaction's (0.8 KiB of a 4 KiB write).  The shards of an erasure-coded pool are not among
# them: ECBackend counts no sub-operation, and a primary counts what the client sent it.
CLIENT_WRITES = ("op_w", "op_rw", "subop_w")
# What BlueStore counts of the data that it writes to objects, shards among it
# (src/os/bluestore/BlueStore.cc, _do_write_big, _do_write_small); 16 has it with a prefix.
OBJECT_WRITES = ("write_big", "write_small")
# Fewer writes than this say nothing of an hour.
HOUR_WRITES_MIN = 100


@dataclass(frozen=True)
class WorkCounters:
    """An OSD's running counters at one moment; they start from 0 when it starts."""

    at_s: float
    transactions: int  # BlueStore transactions committed
    commits: int  # kv commits, each with its flush
    client_writes: int  # as primary or replica: each is a transaction here
    client_bytes: int
    deferred_writes: int
    recovery_ops: int
    # data written to objects; 0 where the cluster has no erasure-coded pool
    object_writes: int = 0
    object_bytes: int = 0


@dataclass(frozen=True)
class HourLoad:
    """What an OSD (or several) did in one hour; `hour` counts from the epoch."""

    hour: int
    transactions: int = 0
    commits: int = 0
    client_writes: int = 0
    client_bytes: int = 0
    deferred_writes: int = 0
    recovery_ops: int = 0


@dataclass(frozen=True)
class LoadProfile:
    """The hours that were seen, oldest first, and of which OSD.

    `osd_uuid` is empty of several OSDs.
    """

    VERSION: ClassVar[int] = 1
    hours: Tuple[HourLoad, ...] = field(default=(), metadata={"max_items": HOURS_MAX})
    osd_uuid: str = ""

    @property
    def known(self) -> bool:
        """Whether enough hours were seen to weight by them."""
        busy = [item for item in self.hours if item.client_writes >= HOUR_WRITES_MIN]
        return len(busy) >= HOURS_MIN

    @property
    def total(self) -> HourLoad:
        """All hours as one (its `hour` is 0)."""
        found = HourLoad(0)
        for hour in self.hours:
            found = _sum(found, hour, 0)
        return found


def work_counters(
    dump: Mapping[str, Any], at_s: float, erasure_coded: bool = False
) -> Optional[WorkCounters]:
    """The counters out of an OSD's `perf dump`; None where it lacks one.

    `erasure_coded`: the cluster has such a pool, so that shards may be written here.

    `deferred_write_ops` (16) became `issued_deferred_writes`
    (src/os/bluestore/BlueStore.cc, `_init_logger`).
    """
    osd, store = dump.get("osd"), dump.get("bluestore")
    if not isinstance(osd, Mapping) or not isinstance(store, Mapping):
        return None
    transactions = _averaged(store, *TRANSACTION_COUNTERS)
    commits = _averaged(store, "kv_sync_lat")
    if transactions is None or commits is None or _whole(osd, "op_w") is None:
        return None
    writes = sum(_whole(osd, name) or 0 for name in CLIENT_WRITES)
    written = sum(_whole(osd, f"{name}_in_bytes") or 0 for name in CLIENT_WRITES)
    deferred = _whole(store, "issued_deferred_writes", "deferred_write_ops") or 0
    found = WorkCounters(
        at_s, transactions, commits, writes, written, deferred, _whole(osd, "recovery_ops") or 0
    )
    if not erasure_coded:
        return found
    return replace(
        found,
        object_writes=sum(_of_store(store, name) for name in OBJECT_WRITES),
        object_bytes=sum(_of_store(store, f"{name}_bytes") for name in OBJECT_WRITES),
    )


def add(profile: LoadProfile, before: WorkCounters, after: WorkCounters) -> LoadProfile:
    """The profile with the work between two readings, credited to the later one's hour.

    A counter that went back means that the OSD was started anew; that stretch is left out.
    So is what was read while the clock was ahead: those hours would never be the oldest.
    Where BlueStore wrote to objects more often than clients and primaries account for, these
    were shards of an erasure-coded pool, and its counts are those of the drive.
    """
    gained = (
        after.transactions - before.transactions, after.commits - before.commits,
        after.client_writes - before.client_writes, after.client_bytes - before.client_bytes,
        after.deferred_writes - before.deferred_writes, after.recovery_ops - before.recovery_ops,
    )
    if after.at_s <= before.at_s or min(gained) < 0:
        return profile
    hour = HourLoad(int(after.at_s // HOUR_S), *gained)
    objects = after.object_writes - before.object_writes
    # 0: the first such pool was made in between, so that `before` has none of it
    if before.object_writes and objects >= max(1, hour.client_writes):
        hour = replace(
            hour, client_writes=objects,
            client_bytes=max(0, after.object_bytes - before.object_bytes),
        )
    # a mgr that takes over may be some minutes behind the last one
    past = LoadProfile(tuple(item for item in profile.hours if item.hour <= hour.hour + 1))
    return replace(profile, hours=merged((past, LoadProfile((hour,)))).hours)


def bound(profile: LoadProfile, osd_uuid: str) -> LoadProfile:
    """The profile as that of an OSD: a new one where it is another OSD's.

    An id is used again for another OSD, whose load is another.
    """
    return profile if profile.osd_uuid == osd_uuid else LoadProfile((), osd_uuid)


def merged(profiles: Tuple[LoadProfile, ...]) -> LoadProfile:
    """Several OSDs as one, hour by hour: the profile of a device class or a drive model."""
    by_hour: Dict[int, HourLoad] = {}
    for profile in profiles:
        for item in profile.hours:
            known = by_hour.get(item.hour, HourLoad(item.hour))
            by_hour[item.hour] = _sum(known, item, item.hour)
    newest = sorted(by_hour)[-HOURS_MAX:]
    return LoadProfile(tuple(by_hour[hour] for hour in newest))


def evened(profile: LoadProfile) -> LoadProfile:
    """The same work without its peaks, in as few equal hours as make a load known."""
    total = profile.total
    parts = [part // HOURS_MIN for part in astuple(total)[1:]]
    return replace(profile, hours=tuple(HourLoad(n, *parts) for n in range(HOURS_MIN)))


def shares(load: HourLoad, crowding: float = 1.0) -> Dict[LoadPoint, float]:
    """The share of the writes that each bench load point stands for; they sum to 1.

    Writes are taken for a mixture of 4 KiB and 4 MiB ones with the observed mean size;
    of the small ones the share 1/m was alone in its commit, with m transactions per kv
    commit.  `crowding` scales how many more than one there are: a load half as crowded
    (.5), or twice (2).
    """
    size = load.client_bytes / load.client_writes if load.client_writes else SMALL_BYTES
    large = min(1.0, max(0.0, (size - SMALL_BYTES) / (LARGE_BYTES - SMALL_BYTES)))
    together = load.transactions / load.commits if load.commits else 1.0
    together = 1.0 + max(0.0, together - 1.0) * crowding
    return {
        LoadPoint.OSD_BENCH_DEPTH1: (1 - large) / together,
        LoadPoint.OSD_BENCH_BATCH: (1 - large) * (1 - 1 / together),
        LoadPoint.OSD_BENCH_4M: large,
    }


def variants(profile: LoadProfile) -> Dict[str, Dict[LoadPoint, float]]:
    """Shares under the whole time, half and twice as crowded, and each hour that counts.

    Empty where there were too few writes to tell.
    """
    total = profile.total
    if total.client_writes < HOUR_WRITES_MIN:
        return {}
    found = {
        "overall": shares(total),
        "half as crowded": shares(total, 0.5),
        "twice as crowded": shares(total, 2.0),
    }
    for item in profile.hours:
        if item.client_writes >= HOUR_WRITES_MIN and item.commits > 0:
            day, hour = item.hour // 24, item.hour % 24
            found[f"{hour:02d}:00 UTC, day {day}"] = shares(item)
    return found


def _sum(a: HourLoad, b: HourLoad, hour: int) -> HourLoad:
    return HourLoad(
        hour, a.transactions + b.transactions, a.commits + b.commits,
        a.client_writes + b.client_writes, a.client_bytes + b.client_bytes,
        a.deferred_writes + b.deferred_writes, a.recovery_ops + b.recovery_ops,
    )


def _averaged(section: Mapping[str, Any], *names: str) -> Optional[int]:
    """How often a latency was counted, under the first of the names that is there."""
    for name in names:
        value = section.get(name)
        if isinstance(value, Mapping):
            return _whole(value, "avgcount")
    return None


def _of_store(store: Mapping[str, Any], name: str) -> int:
    return _whole(store, name, f"bluestore_{name}") or 0


def _whole(section: Mapping[str, Any], *names: str) -> Optional[int]:
    for name in names:
        value = section.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return None
