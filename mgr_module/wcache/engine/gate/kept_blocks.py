"""Keeps the blocks of commit latency that gates and observations measure, to be drawn over time.

Nothing is measured for it.  In memory only: what a verdict or a gate went by is stored with it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import Callable, Deque, List

from ...core.loads import Block, BlocksRequest
from .watching import BlockRunner

# Some days of rollouts: a block has a value for each OSD in it.
VALUES_MAX = 60_000


@dataclass(frozen=True)
class KeptBlock:
    """A block, when it ended, and the watch that it is of."""

    at_s: float
    watch_at_s: float  # when the watch began
    request: BlocksRequest
    block: Block


class KeptBlocks:
    """A `BlockRunner` that remembers what passes through it; the oldest goes first."""

    def __init__(
        self, runner: BlockRunner, clock: Callable[[], float] = time.time,
        values_max: int = VALUES_MAX,
    ) -> None:
        self._runner = runner
        self._clock = clock
        self._values_max = values_max
        self._lock = threading.Lock()
        self._kept: Deque[KeptBlock] = deque()
        self._values = 0

    def watch(
        self, token: str, request: BlocksRequest, on_block: Callable[[Block], None],
        on_end: Callable[[str, bool, bool], None],
    ) -> None:
        """See BlockRunner."""
        began_at_s = self._clock()

        def seen(block: Block) -> None:
            self._keep(KeptBlock(self._clock(), began_at_s, request, block))
            on_block(block)

        self._runner.watch(token, request, seen, on_end)

    def cancel(self, token: str) -> None:
        """See BlockRunner."""
        self._runner.cancel(token)

    def since(self, at_s: float) -> List[KeptBlock]:
        """The blocks that ended from a moment on, oldest first."""
        with self._lock:
            return [item for item in self._kept if item.at_s >= at_s]

    def _keep(self, item: KeptBlock) -> None:
        with self._lock:
            self._kept.append(item)
            self._values += max(1, len(item.block.osds))
            while self._values > self._values_max:
                self._values -= max(1, len(self._kept.popleft().block.osds))
