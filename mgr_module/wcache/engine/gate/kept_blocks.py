"""Watches of clients' load, with the blocks of commit latency that are kept to be drawn.

Nothing is measured for it.  In memory only: what a verdict or a gate went by is stored with it.

Watches of clients' load under way: one for each rollout or run at most, made elsewhere.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import Callable, Deque, FrozenSet, List, Protocol, Tuple, Union

from ...core import events
from ...core.cluster import ClusterView
from ...core.loads import Block, BlocksRequest
from ...core.record import Precondition
from ..measuring import ByOwner

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
        with self._lock:
            self._kept.append(item)
            self._values += max(1, len(item.block.osds))
            while self._values > self._values_max:
                self._values -= max(1, len(self._kept.popleft().block.osds))


class BlockRunner(Protocol):
    """Port: takes blocks of OSDs' real load in the background."""

    def watch(
        self, token: str, request: BlocksRequest, on_block: Callable[[Block], None],
        on_end: Callable[[str, bool, bool], None],
    ) -> None:
        """Take blocks, `on_block` for each, from another thread.

        `on_end(why, past_limit, silent)` once, where it ends before the last block.
        """

    def cancel(self, token: str) -> None:
        """End a watch; one that is over is fine."""


# So often is a look at the cluster's maps worth its price; all looks of a judge are among these.
ILL_EVERY = 4


class Watching(ByOwner):
    """Starts and ends the watches that machines ask for; `post_event` takes any thread."""

    def __init__(
        self, blocks: BlockRunner, post_event: Callable[[str, events.Event], None],
        view: ClusterView, clock: Callable[[], float],
    ) -> None:
        super().__init__(blocks.cancel)
        self._blocks = blocks
        self._post_event = post_event
        self._view = view
        self._clock = clock
        self.kept = KeptBlocks()

    def start(
        self, owner: str, action: Union[events.WatchBlocks, events.WatchOsds]
    ) -> None:
        """Watch for `owner`; what it watched before is cancelled."""
        self.put(owner, action.token)
        began_at_s, taken = self._clock(), 0
        osd_ids = (*action.request.treated, *action.request.controls)

        def seen(block: Block) -> None:
            nonlocal taken
            taken += 1
            self.kept.keep(KeptBlock(self._clock(), began_at_s, action.request, block))
            ill = self._ill(osd_ids) if taken % ILL_EVERY == 0 else frozenset()
            self._post_event(owner, events.BlockSeen(action.token, block, ill))

        self._blocks.watch(
            action.token, action.request, seen,
            lambda why, past_limit, silent: self._post_event(
                owner, events.BlocksEnded(action.token, why, past_limit, silent)
            ),
        )

    def _ill(self, osd_ids: Tuple[int, ...]) -> FrozenSet[int]:
        """Those whose latencies say nothing now; slow operations are just what is looked for."""
        return frozenset(self._view.cluster().illness(osd_ids, (Precondition.NO_SLOW_OPS,)))
