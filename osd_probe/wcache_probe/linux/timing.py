"""The fdatasync timer: what one flush of a role's device takes, with nothing written.

fdatasync() on a block device writes back its page cache and sends one flush
(block/fops.c, blkdev_fsync()); a descriptor opened read-only will do.
"""

from __future__ import annotations

import os
import time
from typing import Callable, List

from wcache.core.loads import spread_at_s
from wcache.core.protocol import SAMPLES_MAX, SamplesOutcome

from ..safe_files import closing_fd, failure
from .block.sysfs import BlockDevice

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000


def time_flushes(
    device: BlockDevice, count: int, seconds_max: float, latency_limit_ms: float,
    spread_s: float = 0.0,
) -> SamplesOutcome:
    """Open a device, and time up to `count` flushes of it."""
    with closing_fd(device.open()) as fd:
        return time_fdatasync(fd, count, seconds_max, latency_limit_ms, spread_s=spread_s)


def time_fdatasync(
    fd: int,
    count: int,
    seconds_max: float,
    latency_limit_ms: float,
    *,
    sync: Callable[[int], None] = os.fdatasync,
    clock_ns: Callable[[], int] = time.perf_counter_ns,
    spread_s: float = 0.0,
    sleep: Callable[[float], None] = time.sleep,
) -> SamplesOutcome:
    """Time up to `count` flushes of an open device; latencies in ns, in order.

    Ends early where `seconds_max` have passed, or, as aborted, with the first sample past
    `latency_limit_ms`.  With `spread_s` they are spread over that time, dense at first,
    and the outcome says when.  Raises StorageError where the device fails a flush.
    """
    samples: List[int] = []
    began: List[int] = []
    aborted = ""
    limit_ns = latency_limit_ms * NS_PER_MS
    begin = now = clock_ns()
    until = begin + int(seconds_max * NS_PER_S)
    # the context is entered once: entered for each flush it added 2 us to each sample
    with failure("the device fails fdatasync", "look at the kernel's log"):
        while len(samples) < min(count, SAMPLES_MAX) and now < until:
            if spread_s > 0:
                due_s = spread_at_s(spread_s, count, len(samples))
                sleep(max(0.0, due_s - (clock_ns() - begin) / NS_PER_S))
            start = clock_ns()
            sync(fd)
            now = clock_ns()
            began.append(start - begin)
            samples.append(now - start)
            if now - start > limit_ns:
                aborted = f"a flush took {(now - start) / NS_PER_MS:.1f} ms"
                break
    return SamplesOutcome(
        tuple(samples), (now - begin) / NS_PER_S, 0, aborted, tuple(began) if spread_s > 0 else ()
    )
