"""Takes blocks of OSDs' real load, each watch in a thread: what they count, asked of the mgr.

A watch takes block after block, and looks at the treated OSDs in between.  A look asks all its
OSDs at once.  The treated ones are asked every second, so that one past the latency limit ends the
watch within two: one that commits too slowly, one that commits nothing while writes are in flight,
and one that gives no answer while others do.
"""

from __future__ import annotations

import threading
import time
from typing import Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from ..core.loads import (
    COMMIT_COUNTERS,
    COMMITS_PER_S_MAX,
    LATENCY_SUM_MAX_S,
    MOVE_COUNTERS,
    READ_COUNTER,
    SUBMIT_COUNTERS,
    TRANSACTION_COUNTERS,
    Block,
    BlocksRequest,
    OsdBlock,
)
from .command import Osds, Reply
from .compat import counters_in, load_counters

# A tenth of all counters, every second, of up to so many OSDs (common/ceph_context.cc).
COMMITS = {"prefix": "perf dump", "logger": "bluestore"}
# With clients' reads, which stand in another section: at the edges of blocks only.
ALL = {"prefix": "perf dump"}
LOOK_EVERY_S = 1.0
READS = (READ_COUNTER,)
# An OSD that takes longer to tell is not in this block.
ANSWER_S = 1.0
# The answer of an OSD that seems silent may have come while nobody looked: the mgr had stopped.
LAST_CHANCE_S = 0.1
# Of so much of a block somebody waits for the commits of an OSD that carries load, if they are few.
WAITED_SHARE = 0.5
Counters = Mapping[str, Tuple[float, int]]


class CommitLimit:
    """Looks at some OSDs, one after the other, against one limit.

    What was committed since the last look has a mean.  An OSD that commits nothing has none:
    there the limit counts from the look at which writes were in flight first.  Nothing was
    committed since, so the oldest of them takes that long already, and is not over.
    """

    def __init__(self, limit_ms: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit_ms = limit_ms
        self._clock = clock
        self._last: Dict[int, Counters] = {}
        self._stuck: Dict[int, Tuple[int, float]] = {}  # commits then, and when

    def look(self, osd_id: int, now: Counters, asked_s: float) -> str:
        """Why it is past the limit, or "".  `asked_s`: the clock before the OSD was asked."""
        since = gained(self._last.get(osd_id, {}), now)
        self._last[osd_id] = now
        mean_ms = 0.0 if since is None else 1e3 * since[0] / since[1]
        if mean_ms > self._limit_ms:
            return (
                f"osd.{osd_id} took {mean_ms:.0f} ms, past the limit of {self._limit_ms:.0f} ms"
            )
        return self._stalled(osd_id, now, asked_s)

    def _stalled(self, osd_id: int, now: Counters, asked_s: float) -> str:
        committed, flying = _commits(now), in_flight(now)
        since = self._stuck.get(osd_id)
        if committed is None or flying <= 0:
            self._stuck.pop(osd_id, None)
            return ""
        if since is None or since[0] != committed:
            # told after it was asked: what is in flight may have begun only then
            self._stuck[osd_id] = committed, self._clock()
            return ""
        stalled_ms = 1e3 * (asked_s - since[1])
        if stalled_ms <= self._limit_ms:
            return ""
        return (
            f"osd.{osd_id} committed nothing for {stalled_ms:.0f} ms with {flying} writes in "
            f"flight, past the limit of {self._limit_ms:.0f} ms"
        )


def in_flight(counters: Counters) -> int:
    """Transactions that were begun and are not committed; 0 where the OSD does not tell."""
    begun, committed = counters.get(SUBMIT_COUNTERS[0]), _commits(counters)
    return 0 if begun is None or committed is None else begun[1] - committed


def gained(
    before: Counters, after: Counters, names: Sequence[str] = COMMIT_COUNTERS
) -> Optional[Tuple[float, int]]:
    """(seconds, commits) since; None where it did not commit, was restarted or its clock set.

    `names` are counters of something else, best first.
    """
    for name in names:
        if name in before and name in after:
            seconds, count = (now - then for now, then in zip(after[name], before[name]))
            tells = count > 0 and 0 <= seconds <= LATENCY_SUM_MAX_S
            return (seconds, int(count)) if tells else None
    return None


def _commits(counters: Counters) -> Optional[int]:
    pair = counters.get(TRANSACTION_COUNTERS[0])
    return None if pair is None else pair[1]


class BlockWatch:
    """Takes the blocks of one request; `ask` sends for the counters, `read` understands them.

    `ask` is told whether it is for the edge of a block, which needs those of reads as well.
    """

    def __init__(
        self, request: BlocksRequest, *, ask: Callable[[int, bool], Reply],
        read: Callable[[str], Optional[Counters]], commits_min: Callable[[], int],
        is_up: Callable[[int], bool], clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._request = request
        self._ask = ask
        self._read = read
        self._commits_min = commits_min
        self._is_up = is_up
        self._clock = clock
        self._limit = CommitLimit(request.latency_limit_ms, clock)
        self._asked: Dict[int, Tuple[float, Reply]] = {}  # when, and what may be its answer
        self._witnesses: Dict[int, Reply] = {}
        self._looked_s = 0.0
        self.silent = False  # it ended since an OSD did not answer

    def run(
        self, pause: Callable[[float], bool], on_block: Callable[[Block], None]
    ) -> Tuple[str, bool]:
        """(why it ended early, whether an OSD is past the limit); `pause` is True to stop."""
        request = self._request
        everyone = (*request.treated, *request.controls)
        first, why = self._look(everyone, edge=True)
        for _ in range(request.blocks):
            begin = self._clock()
            end = begin + request.block_s
            while not why:
                due_s = self._looked_s + LOOK_EVERY_S
                if pause(max(0.0, min(due_s, end) - self._clock())):
                    return "", False
                if end <= due_s:
                    break
                _, why = self._look(request.treated)
            if not why:
                now, why = self._look(everyone, edge=True)
            if why:
                return why, True
            on_block(self._block(self._clock() - begin, first, now))
            first = now
        return "", False

    def _look(
        self, osd_ids: Iterable[int], *, edge: bool = False
    ) -> Tuple[Dict[int, Counters], str]:
        """What OSDs have counted, but for those that do not tell; and who is past the limit."""
        self._looked_s = self._clock()
        until_s = self._looked_s + ANSWER_S
        looked = [osd_id for osd_id in osd_ids if self._put(osd_id, edge)]
        found: Dict[int, Counters] = {}
        for osd_id in looked:
            asked_s, answer = self._asked[osd_id]
            if not answer.wait(max(0.0, until_s - self._clock())):
                continue
            del self._asked[osd_id]
            counters = self._read(answer.out)
            if counters is None:
                continue
            found[osd_id] = counters
            if osd_id in self._request.treated:
                slow = self._limit.look(osd_id, counters, asked_s)
                if slow:
                    return found, slow
        silent = (self._silent(o) for o in self._request.treated if o in self._asked)
        return found, next((why for why in silent if why), "")

    def _put(self, osd_id: int, edge: bool) -> bool:
        """Ask an OSD, unless it has not answered yet; False where it is down.

        No client waits for an OSD that is down: it is in no block, which is no stall.
        """
        if not self._is_up(osd_id):
            self._asked.pop(osd_id, None)
            return False
        asked = self._asked.get(osd_id)
        if asked is None or asked[1].wait(0.0):  # too late for the look before this one
            self._asked[osd_id] = self._clock(), self._ask(osd_id, edge)
        return True

    def _silent(self, osd_id: int) -> str:
        """Why it is past the limit: it has not answered for longer, and others do."""
        (asked_s, answer), limit_ms = self._asked[osd_id], self._request.latency_limit_ms
        if 1e3 * (self._clock() - asked_s) <= limit_ms or not self._is_up(osd_id):
            return ""
        everyone = (*self._request.treated, *self._request.controls)
        others = [self._witness(o) for o in everyone if o != osd_id and self._is_up(o)]
        until_s = self._clock() + (ANSWER_S if others else LAST_CHANCE_S)
        while not answer.wait(LAST_CHANCE_S):
            answers = any(other.wait(0.0) for other in others)
            if answers or not others:
                silent_ms = 1e3 * (self._clock() - asked_s)
                self.silent = True
                beside = " while other OSDs do" if others else ""
                return (
                    f"osd.{osd_id} has not answered for {silent_ms:.0f} ms{beside}, past the "
                    f"limit of {limit_ms:.0f} ms"
                )
            if self._clock() >= until_s:
                return ""  # nobody answers: that is not its change
        return ""

    def _witness(self, osd_id: int) -> Reply:
        """A question to another OSD; one that it has not answered yet is not put again."""
        asked = self._witnesses.get(osd_id)
        if asked is None or asked.wait(0.0):
            asked = self._witnesses[osd_id] = self._ask(osd_id, False)
        return asked

    def _block(
        self, seconds: float, before: Mapping[int, Counters], after: Mapping[int, Counters]
    ) -> Block:
        osds: List[OsdBlock] = []
        for osd_id, now in after.items():
            first = before.get(osd_id, {})
            writes, reads = (
                self._mean(gained(first, now, names), seconds)
                for names in (COMMIT_COUNTERS, READS)
            )
            if writes[1] or reads[1]:
                moved = any(gained(first, now, (name,)) for name in MOVE_COUNTERS)
                osds.append(OsdBlock(osd_id, *writes, *reads, moved))
        return Block(seconds, tuple(osds))

    def _mean(
        self, since: Optional[Tuple[float, int]], seconds: float
    ) -> Tuple[float, int]:
        """(us, how many) in so many seconds; zeros where they are too few to tell.

        A few that clients waited for most of the time tell enough: the OSD has become too slow
        to do more.
        """
        if since is None or not since[1] or since[1] > COMMITS_PER_S_MAX * seconds:
            return 0.0, 0
        if since[1] < self._commits_min() and since[0] < WAITED_SHARE * seconds:
            return 0.0, 0
        return round(1e6 * since[0] / since[1], 1), since[1]


class CephBlocks:
    """The `BlockRunner` port over a mgr module."""

    def __init__(self, osds: Osds, commits_min: Callable[[], int]) -> None:
        self._osds = osds
        self._commits_min = commits_min
        self._cancels: Dict[str, threading.Event] = {}

    def watch(
        self, token: str, request: BlocksRequest, on_block: Callable[[Block], None],
        on_end: Callable[[str, bool, bool], None],
    ) -> None:
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
            ask=lambda osd_id, edge: self._osds.put(osd_id, ALL if edge else COMMITS),
            read=lambda text: counters_in(text, load_counters),
            commits_min=self._commits_min, is_up=self._osds.is_up,
        )
        try:
            return (*watch.run(cancel.wait, on_block), watch.silent)
        except Exception as error:
            # a thread's exception would go nowhere, and the rollout wait for long
            return f"watching clients' load failed: {error!r}"[:300], False, False
