"""Keeps the blocks of commit latency that gates and observations measure, to be drawn over time.

Nothing is measured for it.  In memory only: what a verdict or a gate went by is stored with it.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import Deque, List

from ...core.loads import Block, BlocksRequest

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
    """Those that were taken last; the oldest goes first."""

    def __init__(self, values_max: int = VALUES_MAX) -> None:
        self._values_max = values_max
        self._lock = threading.Lock()
        self._kept: Deque[KeptBlock] = deque()
        self._values = 0

    def since(self, at_s: float) -> List[KeptBlock]:
        """The blocks that ended from a moment on, oldest first."""
        with self._lock:
            return [item for item in self._kept if item.at_s >= at_s]

    def keep(self, item: KeptBlock) -> None:
        """Remember one."""
        with self._lock:
            self._kept.append(item)
            self._values += max(1, len(item.block.osds))
            while self._values > self._values_max:
                self._values -= max(1, len(self._kept.popleft().block.osds))
