"""The cells of a matrix: single direct writes, each with its sync, or deep queues by fio.

fio has 128 writes under way at a time, told as time per write.  A queue that is always full shows
throughput: the latency of one write is mostly the wait for those before it.
"""

from __future__ import annotations

import mmap
import os
import random
import subprocess
import tempfile
import time
from contextlib import contextmanager
from itertools import count
from typing import Any, Callable, Dict, Iterator, List, Tuple

from wcache.core.codec import one_line, parse_json
from wcache.core.errors import MalformedError, NotReadyError, RefusedError
from wcache.core.experiment.matrix import SAMPLES_MAX, WRITE_BYTES, Cell, CellSamples, Pattern, Sync

from ..stop_signal import StopSignal
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


# beside the time it measures for: its start, its end, and a full cache
EXTRA_S = 30.0
POLL_S = 0.05
OUTPUT_BYTES_MAX = 4_000_000

# HOWTO, "I/O depth" and "fdatasync", "sync"
SYNCS: Dict[Sync, List[str]] = {
    Sync.NONE: [], Sync.FDATASYNC: ["--fdatasync=1"], Sync.DSYNC: ["--sync=dsync"],
}
PATTERNS = {Pattern.SEQUENTIAL: "write", Pattern.RANDOM: "randwrite"}


def measure_deep(
    fio: str, scratch: Scratch, cell: Cell, seconds: float, seed: int, stop: StopSignal
) -> CellSamples:
    """A cell by fio; its one sample is ns per write.

    Raises NotReadyError where fio cannot do it or was stopped, MalformedError where what it
    printed makes no sense.
    """
    command = [
        # a thread, or the process that writes would outlive the one that is stopped
        fio, "--name=cell", "--thread", f"--filename={scratch.path}", "--allow_file_create=0",
        "--ioengine=libaio", "--direct=1", f"--bs={WRITE_BYTES}", f"--iodepth={cell.depth}",
        f"--rw={PATTERNS[cell.pattern]}", "--norandommap", f"--randseed={seed}",
        f"--offset={scratch.start}", f"--size={scratch.span}", "--time_based",
        f"--runtime={round(1000 * seconds)}ms", *SYNCS[cell.sync], "--output-format=json",
    ]
    text = _run(command, seconds + EXTRA_S, stop)
    # what it warns of comes before the JSON
    answer = text[max(0, text.find("{")) :]
    plain = parse_json(answer, bytes_max=OUTPUT_BYTES_MAX, what="fio's answer")
    writes, runtime_ms = _counts(plain)
    return CellSamples(cell, (round(1e6 * runtime_ms / writes),), writes, runtime_ms / 1000)


def _run(command: List[str], seconds_max: float, stop: StopSignal) -> str:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=errors)
        try:
            left_s = seconds_max
            while process.poll() is None and left_s > 0 and not stop.is_set():
                stop.wait(POLL_S)
                left_s -= POLL_S
            if process.poll() is None:
                why = "stopped" if stop.is_set() else f"fio did not end within {seconds_max:.0f} s"
                raise NotReadyError(why)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
        for file in (out, errors):
            file.seek(0)
        said = errors.read(OUTPUT_BYTES_MAX).decode("utf-8", "replace")
        text = out.read(OUTPUT_BYTES_MAX).decode("utf-8", "replace")
    if process.returncode:
        raise NotReadyError(
            f"fio failed with exit code {process.returncode}: {one_line(said or text, 200)}"
        )
    return text


def _counts(plain: Any) -> Tuple[int, int]:
    """Writes done, and ms they took; both above 0."""
    try:
        job = plain["jobs"][0]
        found = job["error"], job["write"]["total_ios"], job["write"]["runtime"]
    except (KeyError, IndexError, TypeError):
        raise MalformedError("fio's output lacks its number of writes or its run time") from None
    error, writes, runtime_ms = found
    if error != 0:
        raise NotReadyError(f"fio's job failed with error {one_line(str(error), 20)}")
    if not all(type(value) is int and 0 < value < 2**53 for value in (writes, runtime_ms)):
        raise MalformedError("fio's output has no writes, or they took no time")
    return writes, runtime_ms
