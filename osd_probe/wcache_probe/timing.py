"""The fdatasync timer: what one flush of a role's device takes, with nothing written.

fdatasync() on a block device writes back its page cache and sends one flush
(block/fops.c, blkdev_fsync()); a descriptor opened read-only will do.
"""

from __future__ import annotations

import os
import time
from typing import Callable, List

from wcache.core.errors import StorageError
from wcache.core.protocol import SAMPLES_MAX, SamplesOutcome

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000


def time_fdatasync(
    fd: int,
    count: int,
    seconds_max: float,
    latency_limit_ms: float,
    *,
    sync: Callable[[int], None] = os.fdatasync,
    clock_ns: Callable[[], int] = time.perf_counter_ns,
) -> SamplesOutcome:
    """Time up to `count` flushes of an open device; latencies in ns, in order.

    Ends early where `seconds_max` have passed, or, as aborted, with the first sample past
    `latency_limit_ms`.  Raises StorageError where the device fails a flush.
    """
    samples: List[int] = []
    aborted = ""
    limit_ns = latency_limit_ms * NS_PER_MS
    begin = now = clock_ns()
    until = begin + int(seconds_max * NS_PER_S)
    while len(samples) < min(count, SAMPLES_MAX) and now < until:
        start = clock_ns()
        try:
            sync(fd)
        except OSError as error:
            raise StorageError(
                f"the device fails fdatasync ({error.strerror})", "look at the kernel's log"
            ) from None
        now = clock_ns()
        samples.append(now - start)
        if now - start > limit_ns:
            aborted = f"a flush took {(now - start) / NS_PER_MS:.1f} ms"
            break
    return SamplesOutcome(tuple(samples), (now - begin) / NS_PER_S, 0, aborted)
