"""Tries both ways to a drive's switch, in both directions, and compares what all sides say.

The drive is pinned and journalled by whoever calls; here nothing is put back.
"""

from __future__ import annotations

import mmap
import os
import random
import time
from dataclasses import dataclass
from statistics import median
from typing import Callable, Dict, List, Optional, Tuple

from wcache.core.errors import WcacheError
from wcache.core.host_report import DISAGREED_MAX
from wcache.core.loads import flush_floor_us
from wcache.core.model import CacheMode, KernelView

from ..linux.block.host_files import write_attribute
from ..linux.block.sysfs import BlockDevice
from ..linux.transports.sata import SataHbaSwitch
from ..matrix.scratch import Scratch

LIES = "says"
ROUNDS = 25
BLOCK_BYTES = 4096


@dataclass(frozen=True)
class FlushTimes:
    """Medians, in microseconds: a write of 4 KiB, the flush after it, a flush after that."""

    write_us: float
    dirty_flush_us: float
    clean_flush_us: float


@dataclass(frozen=True)
class Found:
    """What a trial has shown; `disagreed` is empty where the combination is proven.

    `by_page`: MODE SELECT is the way that holds, and pass-through is not.
    """

    by_page: bool
    disagreed: Tuple[str, ...]
    times: Dict[CacheMode, FlushTimes]


Measure = Callable[[], FlushTimes]


def rescan(device: BlockDevice) -> None:
    """Have the kernel read anew what the disk says (drivers/scsi/scsi_sysfs.c, rescan)."""
    write_attribute(os.path.join(device.folder, "device", "rescan"), "1")


class Trial:
    """One drive, held open; `measure` writes to it and times flushes in the mode it is in.

    Without that nothing is written, so whether a flush is swallowed is not found.
    """

    def __init__(
        self, device: BlockDevice, switch: SataHbaSwitch, measure: Optional[Measure],
        rescan: Callable[[BlockDevice], None] = rescan,
    ) -> None:
        self._device = device
        self._switch = switch
        self._measure = measure
        self._rescan = rescan
        self._times: Dict[CacheMode, FlushTimes] = {}

    def run(self, before: CacheMode) -> Found:
        """Toggle there and back by each way; whatever fails is part of what is found."""
        ways: List[Tuple[str, Callable[[BlockDevice, CacheMode], None]]] = [
            ("ATA PASS-THROUGH", self._switch.by_ata.set_cache),
            ("the mode page", self._switch.by_page.set_cache),
        ]
        wrong: List[List[str]] = []
        for name, way in ways:
            said: List[str] = []
            for mode in (before.other, before):
                said += self._toggle(name, way, mode)
                if said:
                    break
            wrong.append(said)
        by_ata, by_page = wrong
        disagreed = [*by_ata, *by_page] if by_ata and by_page else []
        # a way that is refused may be left; one that takes and lies makes the other doubtful
        disagreed += [line for line in (*by_ata, *by_page) if LIES in line]
        disagreed += self._swallowed()
        lines = tuple(dict.fromkeys(disagreed))[:DISAGREED_MAX]
        return Found(bool(by_ata) and not by_page, lines, dict(self._times))

    def _toggle(
        self, name: str, way: Callable[[BlockDevice, CacheMode], None], mode: CacheMode
    ) -> List[str]:
        try:
            self._switch.flush(self._device)
            way(self._device, mode)
        except WcacheError as error:
            return [f"to {mode.value} by {name}: {error.message}"]
        wrong = self._compare(f"to {mode.value} by {name}", mode)
        if wrong:
            return wrong
        if mode not in self._times and self._measure is not None:
            self._times[mode] = self._measure()
        try:
            self._rescan(self._device)
        except WcacheError as error:
            return [f"rescan: {error.message}"]
        return self._compare(f"to {mode.value} by {name}, after a rescan", mode)

    def _compare(self, what: str, mode: CacheMode) -> List[str]:
        """What does not say `mode`, and where the kernel would not flush."""
        try:
            own: Optional[CacheMode] = self._switch.by_ata.read(self._device).device_cache.mode
        except WcacheError as error:
            return [f"{what}: {error.message}"]
        wrong = []
        if own is not mode:
            wrong.append(f"{what}: IDENTIFY DEVICE {LIES} {own.value if own else 'nothing'}")
        page = self._switch.page_mode(self._device)
        if page is not None and page is not mode:
            wrong.append(f"{what}: the mode page {LIES} {page.value}")
        if self._device.kernel_view is not KernelView.WRITE_BACK:
            wrong.append(f"{what}: the pin {LIES} no longer write back")
        return wrong

    def _swallowed(self) -> List[str]:
        """Whether flushes are answered by somebody who does not carry them out.

        With capacitors both are fast; a drive that is slow without its cache cannot have
        made a dirty block safe in less.
        """
        back = self._times.get(CacheMode.WRITE_BACK)
        through = self._times.get(CacheMode.WRITE_THROUGH)
        if back is None or through is None:
            return []
        floor_us = flush_floor_us(self._device.rotational)
        if back.dirty_flush_us >= floor_us or through.write_us < floor_us:
            return []
        return [
            f"a flush of written data takes {back.dirty_flush_us:.0f} us, while a write without "
            f"the cache takes {through.write_us:.0f} us: the flush is swallowed"
        ]


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
            with scratch.writing():
                begin = time.perf_counter_ns()
                os.pwritev(fd, [block], at)
                written = time.perf_counter_ns()
                os.fdatasync(fd)
                flushed = time.perf_counter_ns()
                os.fdatasync(fd)
                ended = time.perf_counter_ns()
            times.append((written - begin, flushed - written, ended - flushed))
    write, dirty, clean = (median(each) / 1e3 for each in zip(*times))
    return FlushTimes(write, dirty, clean)
