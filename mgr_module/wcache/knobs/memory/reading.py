"""Readings of memory, from an OSD or its host.

Everything is optional: counters differ between releases, and an OSD may leave one out.
The age bins (18 and later) say how many bytes of a cache were used within how long; their
edges are the OSD's own options (src/common/PriorityCache.cc, src/os/bluestore/BlueStore.h).

What other daemons need is assumed as cephadm's autotuner does: it takes a share of the RAM, takes
that off, and divides the rest equally (src/pybind/mgr/cephadm/autotune.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ...core.codec import as_object
from ...core.model import FindingCode
from ..knob import Knob

TARGET = "osd_memory_target"
AUTOTUNE = "osd_memory_target_autotune"
ADVICE = (
    (
        FindingCode.MEMORY_OVERCOMMIT,
        "host{s} {gives its|give their} OSDs more memory than {it has|they have}",
        "see `ceph wcache memory status`; `ceph wcache memory recommend` says who can do with "
        "less, and `ceph wcache plan --knob=memory` sets it",
    ),
    (
        FindingCode.MEMORY_OVER_TARGET,
        "OSD{s} {uses|use} more memory than the target",
        "a lower target shrinks only caches: `ceph tell osd.N dump_mempools` shows the rest "
        "(osd_pglog: see osd_max_pg_log_entries and the PGs of the OSD; osdmap: clean PGs let old "
        "maps go); memory that tcmalloc holds: `ceph tell osd.N heap release`",
    ),
    (
        FindingCode.MEMORY_NOT_TUNABLE,
        "host{s} {has|have} OSDs whose osd_memory_target cannot be set while they run",
        "nothing is wrong if that is how you want it; else do what the line of the host says",
    ),
    (
        FindingCode.MEMORY_STALE,
        "host{s} {has|have} memory targets that no longer fit, or did not bring the expected gain",
        "divide anew: `ceph wcache memory recommend` and `ceph wcache plan --knob=memory`; or go "
        "back with `ceph wcache rollback` and the plan that is named",
    ),
)

# Ceph's own minimum of the option (src/common/options/global.yaml.in) and its default.
TARGET_BYTES_MIN = 896 * 2**20
TARGET_BYTES_DEFAULT = 4 * 2**30
# Shares are handed out in such steps (osd_memory_cache_resize..., PriorityCache's chunks).
STEP_BYTES = 64 * 2**20
# A step down of more can stall an OSD on the eviction of onodes (tracker 65792).
STEP_SHARE = 0.05


@dataclass(frozen=True)
class MemoryOptions:
    """Each field says what it is for, and its lowest and highest value."""

    memory_floor: int = field(default=2 * 1024**3, metadata={"option": (
        "Least bytes of osd_memory_target that an OSD gets.", TARGET_BYTES_MIN, 2**45)})
    memory_ceiling: int = field(default=16 * 1024**3, metadata={"option": (
        "Most bytes of osd_memory_target that an OSD gets.", TARGET_BYTES_MIN, 2**45)})
    memory_budget: int = field(default=0, metadata={"option": (
        "Bytes that the OSDs of a host may have together; 0: all that the host can give.",
        0, 2**50)})
    memory_headroom: float = field(default=0.2, metadata={"option": (
        "Share of a host's memory that is given to nobody.", 0.05, 0.9)})
    memory_step_s: float = field(default=60.0, metadata={"option": (
        "Seconds between two steps of 5% by which osd_memory_target goes down.", 1.0, 3600.0)})

    @property
    def least_target_bytes(self) -> int:
        """The floor, never under Ceph's own minimum."""
        return max(TARGET_BYTES_MIN, self.memory_floor)


MEMORY = Knob("memory", (TARGET, AUTOTUNE), ADVICE)


CACHES = ("meta", "kv", "kv_onode", "data")
# The options with the bins' edges, by cache.
EDGES_OPTION = "bluestore_cache_age_bins_{cache}"
EDGES_DEFAULT_S = (1.0, 2.0, 6.0, 24.0, 120.0, 720.0)
PRIORITIES = 12  # PRI0: must be there; PRI1 to PRI10: bins; PRI11: all that is left
BYTES_MAX = 2**50
POOLS_MAX = 64
# Pools of dump_mempools that the target's caches are made of.
_CACHE_POOLS = (
    "bluestore_alloc", "bluestore_cache_data", "bluestore_cache_onode", "bluestore_cache_meta",
    "bluestore_cache_other", "bluestore_cache_buffer", "bluestore_extent", "bluestore_blob",
    "bluestore_shared_blob", "bluestore_inline_bl",
)


@dataclass(frozen=True)
class AgeBins:
    """Bytes of one cache by age: `must_bytes` at PRI0, then by bin, then what is left over.

    Bins hold what the cache was granted, oldest first cut off.  It may hold `reserved_bytes` more,
    of an age that is not told (PriorityCache::get_chunk, 64 MiB and a bit).
    """

    cache: str
    edges_s: Tuple[float, ...]
    must_bytes: int
    bin_bytes: Tuple[int, ...]
    rest_bytes: int
    reserved_bytes: int = 0


@dataclass(frozen=True)
class Counters:
    """Counters that only grow, at one moment of one process.

    A None is a counter that the release does not have.
    """

    at_s: float
    onode_hits: Optional[float] = None
    onode_misses: Optional[float] = None
    buffer_hit_bytes: Optional[float] = None
    buffer_miss_bytes: Optional[float] = None
    get_s: float = 0.0
    gets: float = 0.0
    read_wait_s: float = 0.0
    read_waits: float = 0.0


@dataclass(frozen=True)
class OsdReading:
    """One OSD's memory at one moment.

    `target_bytes` is the option as the OSD has it, `source` where it has it from (`default`,
    `mon`, `env`, `file`, `override`, ...).  `followed_bytes` is what its tuner goes by.
    `tunable` is False where it follows no target while it runs; None where it did not say.
    `fixed` says that it has no tuner, since bluestore_cache_autotune is off; where it has one,
    it is not linked to tcmalloc.
    """

    osd_id: int
    counters: Counters
    target_bytes: Optional[int] = None
    source: str = ""
    tunable: Optional[bool] = None
    followed_bytes: int = 0
    mapped_bytes: int = 0
    cache_bytes: int = 0
    onode_bytes: float = 0.0  # of one onode in the cache, on average
    bins: Tuple[AgeBins, ...] = ()
    outside: Tuple[Tuple[str, int], ...] = field(default=())  # memory outside of the caches
    fixed: bool = False

    @property
    def reach_s(self) -> float:
        """How far its bins reach back; 0 where it has none."""
        return max((bins.edges_s[-1] for bins in self.bins), default=0.0)


def read(
    osd_id: int, at_s: float, perf: Any, diff: Any, pools: Any, heap: str,
    edges: Mapping[str, Tuple[float, ...]],
) -> OsdReading:
    """A reading from `perf dump`, `config diff get`, `dump_mempools` and `heap stats`."""
    perf = as_object(perf)
    tuner = as_object(perf.get("bluestore-pricache"))
    target, source = _target(diff)
    outside, onode_bytes = _pools(pools)
    # BlueStore makes the tuner only then (BlueStore::MempoolThread::entry)
    fixed = "bluestore" in perf and "bluestore-pricache" not in perf
    bins = tuple(
        found for cache in CACHES
        for found in [_bins(cache, perf, edges.get(cache, ()))] if found
    )
    return OsdReading(
        osd_id, _counters(at_s, perf), target, source, False if fixed else tunable(heap),
        _bytes(tuner.get("target_bytes")), _bytes(tuner.get("mapped_bytes")),
        _bytes(tuner.get("cache_bytes")), onode_bytes, bins, outside, fixed,
    )


def tunable(heap: str) -> Optional[bool]:
    """Whether the allocator can give memory back, by the first words of `heap stats`."""
    if "not using tcmalloc" in heap:
        return False
    return True if "tcmalloc" in heap else None


def edges_of(text: str) -> Tuple[float, ...]:
    """The edges of an option's value ("1 2 6 24 120 720 0 0 0 0"), rising; else the default."""
    try:
        found = [float(part) for part in text.split()[: PRIORITIES - 2]]
    except ValueError:
        return EDGES_DEFAULT_S
    rising: List[float] = []
    for edge in found:
        if not 0 < edge < 1e7 or (rising and edge <= rising[-1]):
            break
        rising.append(edge)
    return tuple(rising) or EDGES_DEFAULT_S


def _target(diff: Any) -> Tuple[Optional[int], str]:
    found = as_object(as_object(as_object(diff).get("diff")).get("osd_memory_target"))
    final = _number(found.get("final"))
    if final is None:
        return None, ""
    # md_config_t::diff names the levels from weak to strong (src/common/config.cc)
    levels = [name for name in found if name != "final" and isinstance(name, str)]
    source = levels[-1][:20] if levels else "default"
    return int(final), source


def _counters(at_s: float, perf: Mapping[str, Any]) -> Counters:
    store = as_object(perf.get("bluestore"))
    gets, get_s = _pair(as_object(perf.get("rocksdb")).get("get_latency"))
    waits, wait_s = _pair(store.get("read_wait_aio_lat"))

    def one(*names: str) -> Optional[float]:
        for name in names:
            value = _number(store.get(name))
            if value is not None:
                return value
        return None

    return Counters(
        at_s, one("onode_hits"), one("onode_misses"),
        one("buffer_hit_bytes", "bluestore_buffer_hit_bytes"),
        one("buffer_miss_bytes", "bluestore_buffer_miss_bytes"),
        get_s, gets, wait_s, waits,
    )


def _bins(cache: str, perf: Mapping[str, Any], edges_s: Tuple[float, ...]) -> Optional[AgeBins]:
    section = as_object(perf.get(f"bluestore-pricache:{cache}"))
    if "pri0_bytes" not in section or not edges_s:
        return None
    each = [_bytes(section.get(f"pri{number}_bytes")) for number in range(PRIORITIES)]
    used = each[1:][:len(edges_s)]
    rest = sum(each[1:][len(edges_s):])
    reserved = _bytes(section.get("reserved_bytes"))
    return AgeBins(cache, edges_s, each[0], tuple(used), rest, reserved)


def _pools(plain: Any) -> Tuple[Tuple[Tuple[str, int], ...], float]:
    by_pool = as_object(as_object(as_object(plain).get("mempool")).get("by_pool"))
    found: Dict[str, int] = {}
    for name, item in list(by_pool.items())[:POOLS_MAX]:
        if isinstance(name, str) and name.isprintable() and name not in _CACHE_POOLS:
            size = _bytes(as_object(item).get("bytes"))
            if size:
                found[name[:40]] = size
    onode = as_object(by_pool.get("bluestore_cache_onode"))
    items = _number(onode.get("items")) or 0.0
    of_onodes = sum(
        _bytes(as_object(by_pool.get(name)).get("bytes"))
        for name in ("bluestore_cache_onode", "bluestore_cache_meta", "bluestore_extent",
                     "bluestore_blob", "bluestore_shared_blob", "bluestore_cache_other")
    )
    each = of_onodes / items if items > 0 else 0.0
    largest = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return tuple(largest), each


def _number(value: Any) -> Optional[float]:
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if 0 <= number < 1e18 else None


def _bytes(value: Any) -> int:
    number = _number(value)
    return 0 if number is None or number > BYTES_MAX else int(number)


def _pair(value: Any) -> Tuple[float, float]:
    plain = as_object(value)
    return _number(plain.get("avgcount")) or 0.0, _number(plain.get("sum")) or 0.0


MIB, GIB = 2**20, 2**30
# What other daemons are given, by type (autotune.py, min_size_by_type); every other type 1 GiB.
DAEMON_BYTES = {
    "mds": 4 * GIB, "mgr": 4 * GIB, "mon": GIB, "crash": 128 * MIB, "keepalived": 128 * MIB,
    "haproxy": 128 * MIB, "nvmeof": 4 * GIB,
}
DAEMON_BYTES_DEFAULT = GIB


@dataclass(frozen=True)
class Room:
    """A host's memory: all of it, what others are given, what OSDs may have together."""

    total_bytes: int
    limit_bytes: Optional[int]  # the tightest cgroup limit over all of its OSDs, together
    others_bytes: int
    osds_bytes: int


def others_bytes(daemons: Mapping[str, int], used_bytes: int = 0) -> int:
    """What is not for OSDs: assumed of the daemons by type, or what is used where that is more."""
    assumed = sum(
        DAEMON_BYTES.get(kind, DAEMON_BYTES_DEFAULT) * count
        for kind, count in daemons.items() if kind != "osd"
    )
    return max(assumed, used_bytes)


def room_of(
    total_bytes: int, others: int, limits: MemoryOptions, limit_bytes: Optional[int] = None
) -> Room:
    """What is left for OSDs: RAM less headroom and others, within limit and budget."""
    left = max(0, int(total_bytes * (1.0 - limits.memory_headroom)) - others)
    if limit_bytes is not None:
        left = min(left, int(limit_bytes * (1.0 - limits.memory_headroom)))
    if limits.memory_budget:
        left = min(left, limits.memory_budget)
    return Room(total_bytes, limit_bytes, others, left)


def equal_split(room: Room, osds: int, limits: MemoryOptions) -> int:
    """The rule where nothing is measured: the same for each OSD, within floor and ceiling."""
    each = room.osds_bytes // max(1, osds)
    return max(limits.least_target_bytes, min(limits.memory_ceiling, each))
