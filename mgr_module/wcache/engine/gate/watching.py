"""Watches of clients' load under way: one for each rollout or run at most, made elsewhere."""

from __future__ import annotations

from typing import Callable, Dict, FrozenSet, Protocol, Tuple, Union

from ...core import events
from ...core.cluster import ClusterView
from ...core.loads import Block, BlocksRequest
from ...core.record import Precondition


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


class Watching:
    """Starts and ends the watches that machines ask for; `post_event` takes any thread."""

    def __init__(
        self, blocks: BlockRunner, post_event: Callable[[str, events.Event], None],
        view: ClusterView,
    ) -> None:
        self._blocks = blocks
        self._post_event = post_event
        self._view = view
        self._under_way: Dict[str, str] = {}  # owner to token

    def start(
        self, owner: str, action: Union[events.WatchBlocks, events.WatchOsds]
    ) -> None:
        """Watch for `owner`; what it watched before is cancelled."""
        self.cancel(owner)
        self._under_way[owner] = action.token
        taken, osd_ids = 0, (*action.request.treated, *action.request.controls)

        def seen(block: Block) -> None:
            nonlocal taken
            taken += 1
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

    def cancel(self, owner: str) -> None:
        """End what is watched for `owner`, if anything is."""
        token = self._under_way.pop(owner, None)
        if token is not None:
            self._blocks.cancel(token)

    def cancel_all(self) -> None:
        """End everything: the mgr stops."""
        for owner in list(self._under_way):
            self.cancel(owner)
