"""What writes and flushes take on scratch space, in the mode that the drive is in."""

from __future__ import annotations

import mmap
import os
import random
import time
from statistics import median
from typing import List, Tuple

from wcache.core.errors import StorageError

from ..matrix.scratch import Scratch
from .trial import FlushTimes

ROUNDS = 25
BLOCK_BYTES = 4096


def measure(scratch: Scratch, seed: int) -> FlushTimes:
    """Single writes at random places, each with a flush, and one more flush after it."""
    draw = random.Random(seed)
    blocks = scratch.span // BLOCK_BYTES
    times: List[Tuple[int, int, int]] = []
    scratch.check()
    with scratch.opened() as fd, mmap.mmap(-1, BLOCK_BYTES) as block:
        block[:] = os.urandom(BLOCK_BYTES)
        for _ in range(ROUNDS):
            at = scratch.offset_of(draw.randrange(blocks))
            begin = time.perf_counter_ns()
            try:
                os.pwritev(fd, [block], at)
                written = time.perf_counter_ns()
                os.fdatasync(fd)
                flushed = time.perf_counter_ns()
                os.fdatasync(fd)
            except OSError as error:
                raise StorageError(
                    f"{scratch.path} fails a write ({error.strerror})", "look at the kernel's log"
                ) from None
            times.append((written - begin, flushed - written, time.perf_counter_ns() - flushed))
    write, dirty, clean = (median(each) / 1e3 for each in zip(*times))
    return FlushTimes(write, dirty, clean)
