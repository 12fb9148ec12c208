"""OSDs whose caches are LRUs: what they keep by age, and what they miss, by their target."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Callable, Dict, List, Optional

from wcache.knobs.memory.curve import CACHE_SHARE
from wcache.knobs.memory.reading import AgeBins, Counters, OsdReading

EDGES_S = (1.0, 2.0, 6.0, 24.0, 120.0, 720.0)
ONODE_BYTES = 1500.0
AGES_S_MAX = 4000
# What an OSD has beside its caches, and its caches at least (osd_memory_base and
# osd_memory_cache_min, src/common/options/global.yaml.in).
BASE_BYTES = 768 * 2**20
CACHE_BYTES_MIN = 128 * 2**20


def cache_bytes(target_bytes: float) -> float:
    """What the caches of an OSD with this target get in all."""
    return max(float(CACHE_BYTES_MIN), CACHE_SHARE * target_bytes - BASE_BYTES)


@cache
def uniform(bytes_in_use: float, bytes_per_s: float) -> Callable[[float], float]:
    """Bytes a second that get older than an age, where all of them are used alike."""
    return lambda age_s: bytes_per_s * 2.718281828 ** (-age_s * bytes_per_s / bytes_in_use)


@cache
def cliff(bytes_in_use: float, bytes_per_s: float) -> Callable[[float], float]:
    """The same where all are used in turn: none is ever older than one round."""
    return lambda age_s: bytes_per_s if age_s < bytes_in_use / bytes_per_s else 0.0


@cache
def _residence_s(crossing: Callable[[float], float], target_bytes: int) -> float:
    room = cache_bytes(target_bytes)
    for age_s in range(AGES_S_MAX):
        room -= crossing(age_s + 0.5)
        if room < 0:
            return float(age_s)
    return float(AGES_S_MAX)


@cache
def _bins(crossing: Callable[[float], float], target_bytes: int) -> AgeBins:
    held = [0.0] * len(EDGES_S)
    for age_s in range(int(min(EDGES_S[-1], _residence_s(crossing, target_bytes)))):
        index = next(index for index, edge in enumerate(EDGES_S) if age_s < edge)
        held[index] += crossing(age_s + 0.5)
    rest = int(max(0.0, cache_bytes(target_bytes) - sum(held)))
    return AgeBins("meta", EDGES_S, 0, tuple(int(size) for size in held), rest)


@dataclass
class LruOsd:
    """One OSD.  `crossing(age)` is how many bytes a second get older than that age."""

    crossing: Callable[[float], float]
    miss_s: float = 1e-3
    leased: Optional[int] = None
    up: bool = True
    tunable: bool = True
    env_bytes: Optional[int] = None
    file_bytes: Optional[int] = None  # of its ceph.conf
    extra_bytes: int = 0  # memory outside of the caches
    misses: float = 0.0
    accesses: float = 0.0
    history: List[Optional[int]] = field(default_factory=list)  # of its leases

    def misses_per_s(self, target_bytes: float) -> float:
        """With a cache of that target."""
        return self.crossing(self.residence_s(target_bytes)) / ONODE_BYTES

    def residence_s(self, target_bytes: float) -> float:
        """How old what is cached gets."""
        return _residence_s(self.crossing, int(target_bytes))

    def bins(self, target_bytes: float) -> AgeBins:
        """What is cached, by age."""
        return _bins(self.crossing, int(target_bytes))


class FakeMemory:
    """`CephMemory`.  `target(osd_id)` is what the config database says."""

    def __init__(self, clock: Callable[[], float], target: Callable[[int], Optional[int]]) -> None:
        self.osds: Dict[int, LruOsd] = {}
        self.hosts: Dict[str, Dict[str, int]] = {}
        self.clock = clock
        self._target = target
        self._counted_at_s = clock()
        self.lost_at: Optional[int] = None  # leases until the mgr is gone
        self.leases: List[str] = []
        self.meanwhile: Callable[[int], None] = lambda osd_id: None  # while an OSD is asked

    def target_of(self, osd_id: int) -> int:
        """What an OSD goes by now."""
        osd = self.osds[osd_id]
        return osd.leased or osd.env_bytes or osd.file_bytes or self._target(osd_id) or 4 * 2**30

    def pass_time(self) -> None:
        """Count what was missed until now."""
        now_s = self.clock()
        for osd_id, osd in self.osds.items():
            seconds = now_s - self._counted_at_s
            osd.misses += seconds * osd.misses_per_s(self.target_of(osd_id))
            osd.accesses += seconds * osd.crossing(0.0) / ONODE_BYTES
        self._counted_at_s = now_s

    def read(self, osd_id: int, up_from: int = 0) -> Optional[OsdReading]:
        """See CephMemory."""
        self.pass_time()
        osd = self.osds.get(osd_id)
        if osd is None or not osd.up:
            return None
        target = self.target_of(osd_id)
        levels = (
            (osd.leased, "override"), (osd.env_bytes, "env"), (osd.file_bytes, "file"),
            (self._target(osd_id), "mon"),
        )
        source = next((name for value, name in levels if value), "default")
        counters = Counters(
            self.clock(), max(0.0, osd.accesses - osd.misses), osd.misses,
            0.0, 0.0, osd.misses * osd.miss_s, osd.misses,
        )
        return OsdReading(
            osd_id, counters, target, source, osd.tunable, target,
            int(0.9 * target) + osd.extra_bytes, int(cache_bytes(target)), ONODE_BYTES,
            (osd.bins(target),), (("osd_pglog", osd.extra_bytes),) if osd.extra_bytes else (),
        )

    def leased(self, osd_id: int) -> Optional[int]:
        """See CephMemory."""
        return self.osds[osd_id].leased

    def lease(self, osd_id: int, target_bytes: Optional[int]) -> str:
        """See CephMemory."""
        self.pass_time()
        self.meanwhile(osd_id)
        osd = self.osds.get(osd_id)
        if osd is None or not osd.up:
            return f"osd.{osd_id} went down"
        osd.leased = target_bytes
        osd.history.append(target_bytes)
        self.leases.append(f"osd.{osd_id} {target_bytes}")
        return ""

    def daemons(self) -> Dict[str, Dict[str, int]]:
        """See CephMemory."""
        return self.hosts
