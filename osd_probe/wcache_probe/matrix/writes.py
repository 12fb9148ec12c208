"""Single direct writes, each with its sync: the cells of depth 1."""

from __future__ import annotations

import mmap
import os
import random
import time
from contextlib import contextmanager
from itertools import count
from typing import Callable, Iterator, List

from wcache.core.errors import RefusedError
from wcache.core.experiment.matrix import SAMPLES_MAX, WRITE_BYTES, Cell, CellSamples, Pattern, Sync

from .scratch import Scratch

# As few as a median needs, however slow the drive is.
SAMPLES_MIN = 5
# Others may wait for the drive meanwhile; the same limit as a campaign's.
LATENCY_LIMIT_S = 2.0


def measure(scratch: Scratch, cell: Cell, seconds: float, seed: int) -> CellSamples:
    """Writes of 4 KiB for `seconds`, or SAMPLES_MAX of them; latencies in ns, in order.

    Raises StorageError where one fails, RefusedError where one passes LATENCY_LIMIT_S.
    """
    flags = os.O_DSYNC if cell.sync is Sync.DSYNC else 0
    samples: List[int] = []
    with scratch.opened(flags) as fd, mmap.mmap(-1, WRITE_BYTES) as block:
        block[:] = os.urandom(WRITE_BYTES)  # what compresses is no load for some drives
        begin = now = time.perf_counter_ns()
        until = begin + int(seconds * 1e9)
        for offset in _offsets(scratch, cell.pattern, seed):
            if len(samples) >= SAMPLES_MAX or (now >= until and len(samples) >= SAMPLES_MIN):
                break
            with scratch.writing():
                start = time.perf_counter_ns()
                os.pwritev(fd, [block], offset)
                if cell.sync is Sync.FDATASYNC:
                    os.fdatasync(fd)
                now = time.perf_counter_ns()
            samples.append(now - start)
            if now - start > LATENCY_LIMIT_S * 1e9:
                raise RefusedError(
                    f"a write to {scratch.path} took {(now - start) / 1e9:.1f} s, past the limit "
                    f"of {LATENCY_LIMIT_S:g} s",
                    "see `smartctl -a` and the kernel's log; measure again when nothing else "
                    "loads the drive",
                )
    return CellSamples(cell, tuple(samples), len(samples), (now - begin) / 1e9)


@contextmanager
def single(scratch: Scratch, seed: int) -> Iterator[Callable[[], None]]:
    """Something that writes 4 KiB at a random place, with fdatasync, each time it is called."""
    offsets = _offsets(scratch, Pattern.RANDOM, seed)
    with scratch.opened() as fd, mmap.mmap(-1, WRITE_BYTES) as block:
        block[:] = os.urandom(WRITE_BYTES)

        def write() -> None:
            with scratch.writing():
                os.pwritev(fd, [block], next(offsets))
                os.fdatasync(fd)

        yield write


def _offsets(scratch: Scratch, pattern: Pattern, seed: int) -> Iterator[int]:
    """Where each write goes: anywhere, or on from somewhere."""
    blocks = scratch.span // WRITE_BYTES
    draw = random.Random(seed)
    first = draw.randrange(blocks)
    for number in count():
        block = first + number if pattern is Pattern.SEQUENTIAL else draw.randrange(blocks)
        yield scratch.offset_of(block % blocks)
