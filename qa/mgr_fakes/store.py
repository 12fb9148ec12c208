"""Stores: one that is a dict, and one with the ways of the mons' key-value store."""

from __future__ import annotations

import itertools
from typing import Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from wcache.ceph.store import KvStore
from wcache.ceph.store_queue import StoreQueue
from wcache.core.errors import StorageError
from wcache.core.ports import Done, Write

# mon_config_key_max_entry_size; a longer value is refused.
ENTRY_BYTES_MAX = 65536


class MgrGone(BaseException):
    """The process that would write is no more."""


class MonLikeKv:
    """`CephKeys`: `kept` is what the mons have, `copy` what the mgr shows of it.

    `fails(key)` says which writes the mons refuse; `lost_after` counts down the writes after
    which the mgr is gone.  With `late` the mgr's copy follows only when `follow` is called.
    """

    def __init__(self) -> None:
        self.kept: Dict[str, str] = {}
        self.copy: Dict[str, str] = {}
        self.late = False
        self.writes: List[str] = []
        self.fails: Callable[[str], bool] = lambda key: False
        self.lost_after: Optional[int] = None

    def get_store(self, key: str) -> Optional[str]:
        """The value, or None."""
        return self.copy.get(key)

    def put_key(self, key: str, val: Optional[str]) -> None:
        """Set or remove, or say why not."""
        if self.lost_after is not None:
            if self.lost_after == 0:
                raise MgrGone
            self.lost_after -= 1
        self.writes.append(key)
        if self.fails(key) or len((val or "").encode()) > ENTRY_BYTES_MAX:
            raise StorageError(f"{key} is not stored", "check `ceph health`")
        if val is None:
            self.kept.pop(key, None)
        else:
            self.kept[key] = val
        if not self.late:
            self.follow()

    def follow(self) -> None:
        """The mgr hears of what the mons have; a mgr that starts does so too."""
        self.copy = dict(self.kept)

    def get_store_prefix(self, key_prefix: str) -> Dict[str, str]:
        """A copy of what starts with the prefix."""
        return {k: v for k, v in self.copy.items() if k.startswith(key_prefix)}


class PromptQueue(StoreQueue):
    """The real queue, whose mons answer before anything that is queued returns."""

    def __init__(self, kv: MonLikeKv) -> None:
        ages = itertools.count(step=1000)  # nothing has been stored a moment ago
        super().__init__(KvStore(kv), clock=lambda: float(next(ages)))

    def write(self, writes: Sequence[Write], done: Done) -> None:
        """Queue and make."""
        super().write(writes, done)
        self.turn()

    def end(self, done: Done) -> None:
        """Queue and make."""
        super().end(done)
        self.turn()

    def write_later(self, key: str, text: Optional[str]) -> None:
        """Queue and make."""
        super().write_later(key, text)
        self.turn()

    def lose(self) -> None:
        """Nothing is queued."""


class MemoryStore:
    """The `Store` port as a dict of what the mons have; `fails(key)` says what they refuse.

    What is queued is read back at once.  With `slow` the mons answer only when `answer` is
    called, with `busy` they do not come to what may wait; `lose` is the end of a mgr whose
    writes they never got.
    """

    def __init__(self) -> None:
        self.kept: Dict[str, str] = {}
        self.fails: Callable[[str], bool] = lambda key: False
        self.slow = False
        self.busy = False
        self.ended = False
        self._queued: List[Tuple[Tuple[Write, ...], Optional[Done]]] = []
        self._again: List[Write] = []

    def _now(self) -> Dict[str, str]:
        if not self._queued:
            return self.kept
        found: Dict[str, Optional[str]] = dict(self.kept)
        found.update((w.key, w.text) for writes, _ in self._queued for w in writes)
        return {key: text for key, text in found.items() if text is not None}

    def get(self, key: str) -> Optional[str]:
        """The value, or None."""
        return self._now().get(key)

    def keys(self, prefix: str) -> Sequence[str]:
        """All keys with the prefix, sorted."""
        return sorted(key for key in self._now() if key.startswith(prefix))

    def sizes(self, prefix: str) -> Mapping[str, int]:
        """Bytes of each key with the prefix."""
        kept = self._now()
        return {k: len(k) + len(v.encode()) for k, v in kept.items() if k.startswith(prefix)}

    def write(self, writes: Sequence[Write], done: Done) -> None:
        """Queue, and have it answered unless the mons are slow."""
        if self.ended:
            done(StorageError("nothing is stored any more"))
            return
        self._queued.append((tuple(writes), done))
        if not self.slow:
            self.answer()

    def write_later(self, key: str, text: Optional[str]) -> None:
        """The same, with nobody to be told; what the mons refuse is tried again."""
        if self.ended:
            return
        self._queued.append(((Write(key, text),), None))
        if not self.slow:
            self.answer()

    def end(self, done: Done) -> None:
        """Remove all; see the port."""
        def over(error: Optional[StorageError]) -> None:
            self.ended = error is None
            done(error)

        self.write([Write(key, None) for key in self.keys("")], over)
        self.ended = self.ended or self.slow

    def answer(self) -> None:
        """The mons answer all that waits."""
        queued, self._queued = self._queued, []
        again, self._again = self._again, []
        for write in again:
            self._put_later(write)
        for writes, done in queued:
            if done is None:
                self._put_later(writes[0])
            else:
                done(self._put(writes))

    def lose(self) -> None:
        """What the mons have not got by now they never get."""
        self._queued.clear()
        self._again.clear()

    def _put_later(self, write: Write) -> None:
        if self.busy or self._put((write,)) is not None:
            self._again.append(write)

    def _put(self, writes: Sequence[Write]) -> Optional[StorageError]:
        for write in writes:
            if self.fails(write.key):
                return StorageError(f"{write.key} is not stored", "check `ceph health`")
            if write.text is None:
                self.kept.pop(write.key, None)
            else:
                self.kept[write.key] = write.text
        return None

    def trouble(self) -> str:
        """What is refused; that the mons are slow is not told."""
        return f"{self._again[0].key} is not stored" if self._again else ""
