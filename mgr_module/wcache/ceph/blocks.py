"""Takes blocks of OSDs' real load, each watch in a thread: what they count, asked of the mgr."""

from __future__ import annotations

import json
import threading
from typing import Callable, Dict, Mapping, Optional, Tuple

from ..core.loads import Block, BlocksRequest
from .block_watch import BlockWatch
from .command import SendsCommands, put_to_osd
from .commit_limit import Counters

# A tenth of all counters, every second, of up to so many OSDs (common/ceph_context.cc).
COMMITS = {"prefix": "perf dump", "logger": "bluestore"}
# With clients' reads, which stand in another section: at the edges of blocks only.
ALL = {"prefix": "perf dump"}


class CephBlocks:
    """The `BlockRunner` port over a mgr module."""

    def __init__(
        self, mgr: SendsCommands, *,
        counters: Callable[[Mapping[str, object]], Counters],
        commits_min: Callable[[], int], is_up: Callable[[int], bool],
    ) -> None:
        self._mgr = mgr
        self._counters = counters
        self._commits_min = commits_min
        self._is_up = is_up
        self._cancels: Dict[str, threading.Event] = {}

    def watch(
        self, token: str, request: BlocksRequest, on_block: Callable[[Block], None],
        on_end: Callable[[str, bool, bool], None],
    ) -> None:
        """See BlockRunner; in a thread."""
        cancel = self._cancels[token] = threading.Event()

        def run() -> None:
            why, past_limit, silent = self._outcome(request, cancel, on_block)
            self._cancels.pop(token, None)
            if why:
                on_end(why, past_limit, silent)

        threading.Thread(target=run, daemon=True, name="wcache-blocks").start()

    def cancel(self, token: str) -> None:
        """The watch ends at its next look, and says nothing."""
        cancel = self._cancels.get(token)
        if cancel is not None:
            cancel.set()

    def _outcome(
        self, request: BlocksRequest, cancel: threading.Event, on_block: Callable[[Block], None]
    ) -> Tuple[str, bool, bool]:
        watch = BlockWatch(
            request,
            ask=lambda osd_id, edge: put_to_osd(self._mgr, osd_id, ALL if edge else COMMITS),
            read=self._read, commits_min=self._commits_min, is_up=self._is_up,
        )
        try:
            return (*watch.run(cancel.wait, on_block), watch.silent)
        except Exception as error:
            # a thread's exception would go nowhere, and the rollout wait for long
            return f"watching clients' load failed: {error!r}"[:300], False, False

    def _read(self, text: str) -> Optional[Counters]:
        try:
            plain = json.loads(text)
        except ValueError:
            return None
        return self._counters(plain) if isinstance(plain, dict) else None
