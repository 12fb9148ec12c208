"""What an OSD's commits cost on simulated drives, at each load point.

The model of a BlueStore commit (src/os/bluestore/BlueStore.cc, `_kv_sync_thread`, and
BlueFS.cc, `_fsync`).  Its tests hold it to what real OSDs took on modelled drives: one
write at a time within 15%, traffic and batches in the verdict.

- On a rotational block drive a small write is deferred: its data goes into the kv
  transaction.  Elsewhere, and for large writes, data goes to the block drive first,
  over all its channels, and the block drive is flushed.
- The kv transaction is written to the WAL drive and flushed, `flushes_per_commit`
  times: BlueFS of 16.2 flushes data and then its own log, that of 20 once.
- Deferred writes drain to the block drive while later commits go on, and take its
  time; neighbours go as one write.

The kernel view is pinned, as in every experiment: flushes reach the drive in both
cache modes and find nothing to do in write through.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Dict, List, Mapping, Optional, Tuple

from wcache.core.loads import LARGE_BYTES, SMALL_BYTES, spread_at_s
from wcache.core.model import CacheMode, LoadPoint, Role

from .osd_spec import OsdSpec
from .physics import SimulatedDrive

DEFERRED_BYTES_MAX = 64 * 1024  # bluestore_prefer_deferred_size_hdd
KV_BYTES = 512  # one transaction's metadata in RocksDB's log
SAMPLES_MAX = 1_000_000  # of one call


@dataclass(frozen=True)
class Measured:
    """What one period of measuring gave.

    `latencies_ns` holds one latency per write of `osd_traffic`, per commit of
    `osd_bench_depth1`, per fdatasync of `fdatasync_timer`; for `osd_bench_batch` and
    `osd_bench_4m` one value per bench call, in ns per write.  `elapsed_ns` includes the
    bench's clean-up.
    """

    latencies_ns: List[int]
    elapsed_ns: int
    bytes_written: int
    at_ns: Tuple[int, ...] = ()  # when each latency began, since the period did

    @property
    def seconds(self) -> float:
        """Drive time spent, in seconds."""
        return self.elapsed_ns / 1e9

    @property
    def sum_s(self) -> float:
        """The sum of the latencies, as an OSD's counter would gain it."""
        return sum(self.latencies_ns) / 1e9


class SimulatedOsd:
    """One OSD on its drives.  Drives may be shared with other OSDs.

    `drives` maps roles to drives and needs `block`; a missing `db` is on `block`, a
    missing `wal` on `db`.
    """

    def __init__(
        self, drives: Mapping[Role, SimulatedDrive], spec: OsdSpec, seed: int = 0
    ) -> None:
        self.spec = spec
        self.drives: Dict[Role, SimulatedDrive] = dict(drives)
        self._seed = seed
        self._block = self.drives[Role.BLOCK]
        self._db = self.drives.get(Role.DB, self._block)
        self._wal = self.drives.get(Role.WAL, self._db)
        self._distinct = list({id(drive): drive for drive in self.drives.values()}.values())
        self._overhead_ns = spec.overhead_us * 1e3
        self._rng = random.Random(f"wcache osd {seed}")

    def drive(self, role: Role) -> SimulatedDrive:
        """The drive that carries `role`, which may be that of a wider role."""
        return {Role.BLOCK: self._block, Role.DB: self._db, Role.WAL: self._wal}[role]

    def set_mode(self, mode: CacheMode, now_ns: int, role: Optional[Role] = None) -> None:
        """Toggle the drive of `role`, or all drives of the OSD."""
        for drive in self._distinct if role is None else [self.drive(role)]:
            drive.set_cache(mode, now_ns)

    def renew_noise(self, run: int) -> None:
        """Other noise from here on, the same in every OSD made of these drives."""
        self._rng = random.Random(f"wcache osd {self._seed} {run}")
        for drive in self._distinct:
            drive.renew_noise(run)

    def measure(
        self,
        load_point: LoadPoint,
        now_ns: int,
        count: int = 0,
        seconds: float = 0.0,
        mode: Optional[CacheMode] = None,
        role: Role = Role.BLOCK,
        spread: bool = False,
    ) -> Measured:
        """One period: `count` latencies, or as many as `seconds` hold; at least one.

        With `mode` every drive of the OSD is toggled first.  `role` says which drive
        the timer is on, and only the timer asks.  `spread`: `count` latencies begun
        over `seconds`; of traffic, the mean of each `count`-th part of them.
        """
        if spread:
            if count <= 0 or seconds <= 0:
                raise ValueError("a settling check needs a count and a length")
            if load_point is LoadPoint.OSD_TRAFFIC:
                return _in_parts(self.measure(load_point, now_ns, 0, seconds, mode), count, seconds)
        if count <= 0 and seconds <= 0:
            raise ValueError("a period needs a count or a length")
        if mode is not None:
            self.set_mode(mode, now_ns)
        for drive in self._distinct:
            drive.begin_period()
        latencies: List[int] = []
        began: List[int] = []
        bytes_written = 0
        at_ns = float(now_ns)
        end_ns = now_ns + seconds * 1e9 if seconds > 0 and not spread else math.inf
        most = min(count, SAMPLES_MAX) if count > 0 else SAMPLES_MAX
        timed = self.drive(role)
        while len(latencies) < most and (at_ns < end_ns or not latencies):
            if spread:
                at_ns = max(at_ns, now_ns + 1e9 * spread_at_s(seconds, count, len(latencies)))
            now = int(at_ns)
            began.append(now - now_ns)
            for drive in self._distinct:
                drive.advance(now)
            if load_point is LoadPoint.FDATASYNC_TIMER:
                latency = self._timer(timed)
                at_ns += latency
            elif load_point is LoadPoint.OSD_BENCH_DEPTH1:
                latency = self._commit(1, SMALL_BYTES)
                at_ns += latency + self._commit(1, 0)
                bytes_written += SMALL_BYTES
            elif load_point is LoadPoint.OSD_TRAFFIC:
                group = self._rng.randrange(self.spec.client_depth) + 1
                latency = self._commit(group, SMALL_BYTES, drains=True)
                at_ns += latency
                others = min(group, most - len(latencies)) - 1
                latencies.extend([int(latency)] * others)
                began.extend([now - now_ns] * others)
            else:
                writes, size, queue = self._bench_shape(load_point)
                total = self._bench(writes, size, queue, at_ns)
                latency = total / writes
                at_ns += total + self._commit(1, 0)
                bytes_written += writes * size
            latencies.append(int(latency))
        return Measured(latencies, int(at_ns) - now_ns, bytes_written, tuple(began))

    def _bench_shape(self, load_point: LoadPoint) -> Tuple[int, int, int]:
        if load_point is LoadPoint.OSD_BENCH_BATCH:
            return self.spec.batch_writes, SMALL_BYTES, self.spec.queue_depth_batch
        return self.spec.large_writes, LARGE_BYTES, self.spec.large_queue

    def _bench(self, writes: int, size: int, queue: int, at_ns: float) -> float:
        """Nanoseconds of a bench whose `writes` are queued at once."""
        total = 0.0
        left = writes
        while left > 0:
            group = min(left, queue)
            left -= group
            total += self._commit(group, size, drains=True)
            if left:  # each commit has noise of its own
                for drive in self._distinct:
                    drive.advance(int(at_ns + total))
        return total

    def _commit(self, writes: int, size: int, drains: bool = False) -> float:
        """Nanoseconds of one kv commit that makes `writes` writes durable.

        `size` 0 is a transaction without data, as a removal is.  `drains`: deferred
        writes of the commits before are on their way to the block drive meanwhile.
        """
        block = self._block
        deferred = block.spec.rotational and size <= DEFERRED_BYTES_MAX
        kv_bytes = writes * KV_BYTES
        total = self._overhead_ns
        if deferred:
            kv_bytes += writes * size
            if drains and size:
                total += self._drain(writes, size)
        elif size:
            total += block.write_cost(size, count=writes)
            total += block.flush_cost()
        kv_bytes = -(-kv_bytes // SMALL_BYTES) * SMALL_BYTES
        for _ in range(self.spec.flushes_per_commit):
            total += self._wal.write_cost(kv_bytes)
            total += self._wal.flush_cost()
        return total

    def _drain(self, writes: int, size: int) -> float:
        """What `writes` deferred writes, on their way to the block drive, delay a commit.

        Nothing where the commit is on another drive; there they go on beside it.  (A
        real OSD then lets one commit in many, the one after a batch of about 64
        deferred writes, wait for a flush of the block drive: a tail that is not here.)
        """
        merged = -(-writes // self.spec.deferred_coalesce)
        each = size * self.spec.deferred_coalesce
        cost = self._block.write_cost(each, count=merged)
        if self._wal is not self._block:
            self._block.flush_cost()
            return 0.0
        # The last merged write is shared with writes to come.
        return cost * writes / (merged * self.spec.deferred_coalesce)

    def _timer(self, drive: SimulatedDrive) -> float:
        """Nanoseconds of one bare fdatasync(), while the OSD may have written."""
        share = self.spec.timer_dirty_share
        if share > 0 and (share >= 1 or self._rng.random() < share):
            drive.write_cost(SMALL_BYTES)
        return drive.flush_cost()


def _in_parts(measured: Measured, count: int, seconds: float) -> Measured:
    """The mean latency of each of `count` equal parts of a period in which there was one."""
    part_ns = seconds * 1e9 / count
    parts: Dict[int, List[int]] = {}
    for at_ns, latency in zip(measured.at_ns, measured.latencies_ns):
        parts.setdefault(min(int(at_ns / part_ns), count - 1), []).append(latency)
    means = [sum(values) // len(values) for values in parts.values()]
    began = tuple(int(part * part_ns) for part in parts)
    return Measured(means, measured.elapsed_ns, measured.bytes_written, began)
