"""Takes blocks of OSDs' real load: their own commit counters, read at the edges of each block.

The treated OSDs are read every second in between, so that one past the latency limit ends
the watch within two, also one that commits nothing at all.
"""

from __future__ import annotations

import json
import threading
import time
from typing import Callable, Dict, List, Mapping, Optional, Tuple

from ..core.loads import Block, BlocksRequest, OsdBlock
from .command import CommandFailed, SendsCommands, ask_osd
from .commit_limit import CommitLimit, gained

LOOK_EVERY_S = 1.0
# An OSD that takes longer to tell is not waited for.
DUMP_TIMEOUT_S = 2.0
Counters = Dict[str, Tuple[float, int]]


class CephBlocks:
    """The `BlockRunner` port over a mgr module."""

    def __init__(
        self, mgr: SendsCommands, *,
        commit_counters: Callable[[Mapping[str, object]], Counters],
        commits_min: Callable[[], int], is_up: Callable[[int], bool],
    ) -> None:
        self._mgr = mgr
        self._commit_counters = commit_counters
        self._commits_min = commits_min
        self._is_up = is_up
        self._cancels: Dict[str, threading.Event] = {}

    def watch(
        self, token: str, request: BlocksRequest, on_block: Callable[[Block], None],
        on_end: Callable[[str, bool], None],
    ) -> None:
        """See BlockRunner; in a thread."""
        cancel = self._cancels[token] = threading.Event()

        def run() -> None:
            try:
                why, past_limit = self._run(request, cancel, on_block)
            except Exception as error:
                # a thread's exception would go nowhere, and the rollout wait for long
                why, past_limit = f"watching clients' load failed: {error!r}"[:300], False
            self._cancels.pop(token, None)
            if why:
                on_end(why, past_limit)

        threading.Thread(target=run, daemon=True, name="wcache-blocks").start()

    def cancel(self, token: str) -> None:
        """The watch ends at its next look, and says nothing."""
        cancel = self._cancels.get(token)
        if cancel is not None:
            cancel.set()

    def _run(
        self, request: BlocksRequest, cancel: threading.Event,
        on_block: Callable[[Block], None],
    ) -> Tuple[str, bool]:
        everyone = (*request.treated, *request.controls)
        limit = CommitLimit(request.latency_limit_ms)
        first, slow = self._read(everyone, request.treated, limit)
        for _ in range(request.blocks):
            begin = time.monotonic()
            end = begin + request.block_s
            while True:
                left_s = end - time.monotonic()
                if cancel.wait(min(max(left_s, 0.0), LOOK_EVERY_S)):
                    return "", False
                if left_s <= LOOK_EVERY_S:
                    break
                _, slow = self._read(request.treated, request.treated, limit)
                if slow:
                    return slow, True
            now, slow = self._read(everyone, request.treated, limit)
            if slow:
                return slow, True
            on_block(self._block(time.monotonic() - begin, first, now))
            first = now
        return "", False

    def _read(
        self, osd_ids: Tuple[int, ...], treated: Tuple[int, ...], limit: CommitLimit
    ) -> Tuple[Dict[int, Counters], str]:
        """What OSDs have counted, but for those that do not tell; and who is past the limit."""
        found: Dict[int, Counters] = {}
        slow = ""
        for osd_id in osd_ids:
            asked_s = time.monotonic()
            counters = self._dump(osd_id)
            if counters is None:
                continue
            found[osd_id] = counters
            if osd_id in treated:
                slow = slow or limit.look(osd_id, counters, asked_s)
        return found, slow

    def _dump(self, osd_id: int) -> Optional[Counters]:
        if not self._is_up(osd_id):
            return None
        try:
            text = ask_osd(
                self._mgr, osd_id, {"prefix": "perf dump"}, is_up=self._is_up,
                timeout_s=DUMP_TIMEOUT_S,
            )
            plain = json.loads(text)
        except (CommandFailed, ValueError):
            return None
        return self._commit_counters(plain) if isinstance(plain, dict) else None

    def _block(
        self, seconds: float, before: Mapping[int, Counters], after: Mapping[int, Counters]
    ) -> Block:
        osds: List[OsdBlock] = []
        for osd_id, now in after.items():
            since = gained(before.get(osd_id, {}), now)
            if since is not None and since[1] >= self._commits_min():
                osds.append(OsdBlock(osd_id, round(1e6 * since[0] / since[1], 1), since[1]))
        return Block(seconds, tuple(osds))
