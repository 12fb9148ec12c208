"""What an OSD says of its memory, taken out of the answers to four admin commands.

Everything is optional: counters differ between releases, and an OSD may leave one out.
The age bins (18 and later) say how many bytes of a cache were used within how long; their
edges are the OSD's own options (src/common/PriorityCache.cc, src/os/bluestore/BlueStore.h).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Tuple

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


def as_object(value: Any) -> Mapping[str, Any]:
    """The object that an answer should be; an empty one where it is something else."""
    return value if isinstance(value, Mapping) else {}


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
