"""What a rollout asks of the world, in virtual time: blocks of load, and who may stop."""

from __future__ import annotations

import threading
from typing import Callable, Dict, List, Tuple

from wcache.core.loads import Block, BlocksRequest, OsdBlock

_Watch = Tuple[BlocksRequest, Callable[[Block], None], Callable[[str, bool, bool], None]]


class FakeBlocks:
    """The `BlockRunner` port: each block is what `latency_us` says when its time is over."""

    def __init__(
        self, latency_us: Callable[[int], float],
        read_us: Callable[[int], float] = lambda osd_id: 0.0,
    ) -> None:
        self.latency_us = latency_us
        self.read_us = read_us
        self.waiting: Dict[str, _Watch] = {}
        self._taken: Dict[str, int] = {}
        self._due_s: Dict[str, float] = {}
        self.requests: List[BlocksRequest] = []

    def watch(
        self, token: str, request: BlocksRequest, on_block: Callable[[Block], None],
        on_end: Callable[[str, bool, bool], None],
    ) -> None:
        """See BlockRunner."""
        assert token not in self.waiting
        self.waiting[token] = request, on_block, on_end
        self._taken[token] = 0
        self.requests.append(request)

    def cancel(self, token: str) -> None:
        """It ends without a word."""
        self.waiting.pop(token, None)
        self._due_s.pop(token, None)

    def due_at_s(self, now_s: float) -> List[float]:
        """When the blocks under way end; a watch that is new begins now."""
        return [
            self._due_s.setdefault(token, now_s + request.block_s)
            for token, (request, _, _) in self.waiting.items()
        ]

    def run(self, now_s: float) -> None:
        """Take the blocks whose time is over."""
        for token, (request, on_block, on_end) in list(self.waiting.items()):
            due_s = self._due_s.setdefault(token, now_s + request.block_s)
            while token in self.waiting and due_s <= now_s:
                due_s = self._due_s[token] = due_s + request.block_s
                self._take(token, request, on_block, on_end)

    def _take(
        self, token: str, request: BlocksRequest, on_block: Callable[[Block], None],
        on_end: Callable[[str, bool, bool], None],
    ) -> None:
        found = {o: self.latency_us(o) for o in (*request.treated, *request.controls)}
        slow = [o for o in request.treated if found[o] > 1000.0 * request.latency_limit_ms]
        if slow:
            self.cancel(token)
            on_end(f"osd.{slow[0]} is past the limit", True, False)
            return
        reads = {o: self.read_us(o) for o in found}
        osds = tuple(
            OsdBlock(o, value, 100 if value else 0, reads[o], 100 if reads[o] else 0)
            for o, value in found.items() if value > 0 or reads[o] > 0
        )
        self._taken[token] += 1
        if self._taken[token] >= request.blocks:
            self.cancel(token)
        on_block(Block(request.block_s, osds))


class FakeStops:
    """The `Stops` port: all may stop, unless a test says how many."""

    def __init__(self) -> None:
        self.most = 1000
        self.upgrading = False
        self.asked: List[Tuple[Tuple[int, ...], ...]] = []
        self._answering: List[threading.Thread] = []

    def ask(
        self, groups: Tuple[Tuple[int, ...], ...], done: Callable[[int, bool], None]
    ) -> None:
        """See Stops."""
        self.asked.append(groups)
        answer = (min(self.most, len(groups)), self.upgrading)
        self._answering.append(threading.Thread(target=done, args=answer, daemon=True))
        self._answering[-1].start()

    def join(self) -> bool:
        """Wait until all is answered; whether anything was asked."""
        answering, self._answering = self._answering, []
        for thread in answering:
            thread.join(60)
        return bool(answering)
