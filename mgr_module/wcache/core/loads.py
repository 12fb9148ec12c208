"""Units of measuring: samples of each load point, blocks of clients' load, material ratios.

A sample is its writes, its size, and how many make a period; by blocks of the real load of
several OSDs rollouts are judged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median
from typing import Dict, FrozenSet, Iterable, Optional, Tuple

from .model import LoadPoint
from .record import CounterDelta, Period

# From which ratio on a difference of latencies is material: smaller ones justify no change.  One
# figure for all that is not asked for another: settling, verdicts, the check after a change,
# mClock's capacities, trials of more memory, and the tools.
MATERIAL_RATIO = 1.1  # of one thing over another, or its inverse
MATERIAL_LN = math.log(MATERIAL_RATIO)

# Write back this fast, without proof of power-loss protection, is too good to be true:
# a disk has to turn, and flash without capacitors has to program a page.
FLUSH_FLOOR_ROTATIONAL_US = 1000.0
FLUSH_FLOOR_FLASH_US = 100.0

# What an OSD counts of its commits, by release: `commit_lat` (16) became `txc_commit_lat` (17
# and later); kv_commit_lat is the kv commit alone (src/os/bluestore/BlueStore.cc, _init_logger).
TRANSACTION_COUNTERS = ("txc_commit_lat", "commit_lat")
# What tells a commit's latency as clients feel it, best first.
COMMIT_COUNTERS = (*TRANSACTION_COUNTERS, "kv_commit_lat")

# Counts each transaction that BlueStore took: `submit_lat` (16) became `txc_submit_lat`.  Those
# taken and not committed are in flight.
SUBMIT_COUNTERS = ("txc_submit_lat", "submit_lat")

# OSD.cc (`bench`): small writes are limited to
# osd_bench_small_size_max_iops (100) x osd_bench_duration (30 s) x 4 KiB = 12,288,000
# bytes in one call.  A batch takes a tenth of that, enough to fill the queue many times.
SMALL_BYTES = 4096
BATCH_WRITES = 300
LARGE_WRITES = 3
LARGE_BYTES = 4 * 1024 * 1024

# What an OSD benches itself by at its start (src/osd/OSD.cc,
# `maybe_override_max_osd_capacity_for_qos`): 3,000 random 4 KiB writes over 100 objects of 4 MiB,
# which it writes first, outside of what it times.
CAPACITY_BYTES, CAPACITY_OBJECT_BYTES, CAPACITY_OBJECTS = 12_288_000, 4_194_304, 100
CAPACITY_CALL_BYTES = CAPACITY_BYTES + CAPACITY_OBJECT_BYTES * CAPACITY_OBJECTS
# What such a call is assumed to take until one was measured, by rotational.
CAPACITY_CALL_S = {True: 15.0, False: 3.0}

WRITE_BYTES = {
    LoadPoint.OSD_TRAFFIC: 0,
    LoadPoint.OSD_BENCH_DEPTH1: SMALL_BYTES,
    LoadPoint.OSD_BENCH_BATCH: BATCH_WRITES * SMALL_BYTES,
    LoadPoint.OSD_BENCH_4M: LARGE_WRITES * LARGE_BYTES,
    LoadPoint.FDATASYNC_TIMER: 0,
    LoadPoint.OSD_BENCH_CAPACITY: CAPACITY_CALL_BYTES,
}
# Samples in one period of the loads at which cache modes are compared, and what one is assumed
# to take until something was measured.
SAMPLES = {
    LoadPoint.OSD_TRAFFIC: 1,
    # a p90 can be told, and the 12 pairs within which a clear case is decided with 99%
    # take fewer than 256 writes
    LoadPoint.OSD_BENCH_DEPTH1: 10,
    LoadPoint.OSD_BENCH_BATCH: 3,
    LoadPoint.OSD_BENCH_4M: 3,
    LoadPoint.FDATASYNC_TIMER: 32,
}
ASSUMED_SAMPLE_S = {
    LoadPoint.OSD_TRAFFIC: 2.0,
    LoadPoint.OSD_BENCH_DEPTH1: 0.03,
    LoadPoint.OSD_BENCH_BATCH: 0.3,
    LoadPoint.OSD_BENCH_4M: 0.3,
    LoadPoint.FDATASYNC_TIMER: 0.01,
}
# Samples in each short settling check before the first pair; a long one takes twice as many.
CHECK_SAMPLES = {
    LoadPoint.OSD_TRAFFIC: 12,
    LoadPoint.OSD_BENCH_DEPTH1: 16,
    LoadPoint.OSD_BENCH_BATCH: 5,
    LoadPoint.OSD_BENCH_4M: 5,
    LoadPoint.FDATASYNC_TIMER: 16,
}


# The option that says how an OSD schedules, and the value with which it uses such a capacity.
QUEUE, SCHEDULER = "osd_op_queue", "mclock_scheduler"


def capacity_limits(rotational: bool) -> Tuple[str, str]:
    """Return the options that say below and above which an OSD discards its own result."""
    kind = "hdd" if rotational else "ssd"
    name = "osd_mclock_iops_capacity"
    return f"{name}_low_threshold_{kind}", f"{name}_threshold_{kind}"


@dataclass(frozen=True)
class CapacityRecipe:
    """Whose thresholds are asked for, and whether an OSD is benched that mClock does not serve."""

    rotational: bool
    forced: bool = False


@dataclass(frozen=True)
class CapacityCall:
    """What one bench call gave in IOPS, and what the OSD said of itself; 0 where it has none."""

    iops: float
    scheduler: str
    iops_min: float = 0.0  # its own thresholds
    iops_max: float = 0.0


def commit_latency(counters: Iterable[CounterDelta]) -> Optional[CounterDelta]:
    """The first of COMMIT_COUNTERS that counted anything, whatever section it stands in."""
    by_name = {item.name.rsplit(".", 1)[-1]: item for item in counters if item.count > 0}
    return next((by_name[name] for name in COMMIT_COUNTERS if name in by_name), None)


def commits(period: Period) -> Tuple[float, int]:
    """(seconds waited in sum, how many) of the commits of a period."""
    commit = commit_latency(period.counters)
    if commit is not None:
        return max(0.0, commit.sum_s), commit.count
    return sum(period.samples_ns) / 1e9, len(period.samples_ns)


def level_ns(period: Period) -> float:
    """The median of the samples, or the mean of the commits, in ns; 1 at least."""
    if period.samples_ns:
        return max(1.0, median(period.samples_ns))
    waited_s, count = commits(period)
    return max(1.0, waited_s * 1e9 / max(1, count))


def spread_at_s(seconds: float, count: int, index: int) -> float:
    """When sample `index` of `count` spread over `seconds` begins: dense at first.

    What fades soon shows only there, and what fades late leaves time.
    """
    return float(seconds * (index / count) ** 2)


# OSDs in one block: those of a step and their controls.
OSDS_MAX = 128
# OSDs on one cache domain that are watched while it is toggled, each every second.
WATCHED_MAX = 64


# Clients' reads, answered (src/osd/osd_perf_counters.cc, since 0.94): those of a primary.
READ_COUNTER = "op_r_latency"
# What an OSD counts of PGs' data that it sends as their primary (`start_recovery_ops`), and that it
# gets (18 and later, `PGRecoveryMsg::run`); of the second the count alone, its sums are none.
MOVE_COUNTERS = ("recovery_ops", "l_osd_recovery_push_queue_latency")
# Beyond this a sum of latencies is none.  OSDs take those of operations off the wall clock
# (PrimaryLogPG::log_op_stats): where it is set back, utime_t's unsigned seconds come to 2^32.
LATENCY_SUM_MAX_S = 1e9


# No OSD commits more: the fastest drives make 1 to 2 million writes in a second, and what an OSD
# does for one takes its cores longer.  An OSD that counts more tells nothing.
COMMITS_PER_S_MAX = 1e6


@dataclass(frozen=True)
class OsdBlock:
    """The mean commit latency of an OSD's own traffic in a block, and that of its reads.

    0 where it did too few to tell.  `moved`: it has sent or got data of PGs meanwhile.
    """

    osd_id: int
    latency_us: float
    commits: int
    read_us: float = 0.0
    reads: int = 0
    moved: bool = False


@dataclass(frozen=True)
class Block:
    """One block of time; an OSD that committed too little in it is not in it."""

    seconds: float
    osds: Tuple[OsdBlock, ...] = field(default=(), metadata={"max_items": OSDS_MAX})

    @cached_property
    def logs(self) -> Dict[int, float]:
        """By OSD, the logarithm of its latency; a judgement asks many times."""
        return {item.osd_id: math.log(item.latency_us) for item in self.osds
                if item.latency_us > 0}

    @cached_property
    def movers(self) -> FrozenSet[int]:
        """The OSDs that have moved data."""
        return frozenset(item.osd_id for item in self.osds if item.moved)

    @property
    def of_reads(self) -> Block:
        """The same block with clients' reads in the place of commits."""
        found = (
            OsdBlock(item.osd_id, item.read_us, item.reads, moved=item.moved)
            for item in self.osds
        )
        return Block(self.seconds, tuple(found))


@dataclass(frozen=True)
class BlocksRequest:
    """Blocks of the real load of some OSDs, one after the other.

    It ends at once where one of `treated` takes longer than the limit, in a look every second.
    """

    treated: Tuple[int, ...]
    controls: Tuple[int, ...]
    block_s: float
    blocks: int
    latency_limit_ms: float


def flush_floor_us(rotational: Optional[bool]) -> float:
    """What a flush of written data takes at least without power-loss protection.

    A drive that does not say whether it turns is taken for flash, which doubts less.
    """
    return FLUSH_FLOOR_ROTATIONAL_US if rotational else FLUSH_FLOOR_FLASH_US
