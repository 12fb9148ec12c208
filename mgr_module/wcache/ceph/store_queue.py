"""The queue of what the module stores: it says when the mons have it.

Mons may take long (a slow disk, an election), so a thread of its own writes, and nobody waits
for it under a lock.  There are two lanes.  Batches are made in order, and whoever queued one
is told what came of it.  What may wait (reports, lines of probes, what is forgotten) goes when
no batch waits, and only its newest value.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Callable, Deque, Dict, List, Mapping, Optional, Sequence, Tuple

from ..core.errors import StorageError
from ..core.ports import Done, Write
from .store import KvStore

# A value that may wait is stored this seldom: a host may change its report all the time.
LATER_EVERY_S = 10.0
# After a failure what may wait is tried again.
RETRY_S = 10.0
# Waiting for the mons for longer than this is worth a health check.
SLOW_S = 5.0
CLOSE_S = 2.0


@dataclass
class _Batch:
    writes: Tuple[Write, ...]
    done: Done
    queued_at_s: float


class StoreQueue:
    """The `Store` port over a KvStore; safe to use from every thread."""

    def __init__(self, kv: KvStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._kv = kv
        self._clock = clock
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stop_at_s: Optional[float] = None
        self._thread: Optional[threading.Thread] = None
        self._batches: Deque[_Batch] = deque()
        self._later: OrderedDict[str, Optional[str]] = OrderedDict()
        self._written_at_s: Dict[str, float] = {}
        self._later_at_s = 0.0
        self._busy = ""  # the key that is being written
        self._error = ""
        # queued, or stored and not yet in the mgr's copy: what a reader must see
        self._fresh: Dict[str, Optional[str]] = {}
        self._unseen: List[Write] = []  # stored, and the mgr's copy did not show it yet
        self._ended = False

    # ---- the thread

    def start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, daemon=True, name="wcache-store")
            self._thread.start()

    def close(self) -> None:
        """Stop; what is queued is given a moment."""
        self._stop_at_s = self._clock() + CLOSE_S
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout=2 * CLOSE_S)

    def _work(self) -> None:
        while True:
            wait_s = self.turn()
            if self._stop_at_s is not None and (wait_s != 0.0 or self._clock() > self._stop_at_s):
                return
            if wait_s != 0.0:
                self._wake.wait(wait_s)
                self._wake.clear()

    def turn(self) -> Optional[float]:
        """Make the next batch, or one write that may wait.

        Returns the seconds until there is more to do, None where nothing is queued.
        """
        with self._lock:
            batch = self._batches[0] if self._batches else None
        if batch is not None:
            self._make(batch)
            return 0.0
        self._look_again()
        now_s = self._clock()
        with self._lock:
            if not self._later or now_s < self._later_at_s:
                return self._later_at_s - now_s if self._later else None
            soonest_s = float("inf")
            for key, text in self._later.items():
                soonest_s = min(soonest_s, self._due_at_s(key, text))
                if soonest_s <= now_s:
                    break
            else:
                return soonest_s - now_s
            write = Write(key, self._later.pop(key))
        self._make_later(write)
        return 0.0

    def _due_at_s(self, key: str, text: Optional[str]) -> float:
        never = float("-inf")
        return never if text is None else self._written_at_s.get(key, never) + LATER_EVERY_S

    def _make(self, batch: _Batch) -> None:
        failed: Optional[StorageError] = None
        for write in batch.writes:
            if failed is None:
                failed = self._put(write)
            else:
                self._drop_fresh(write)
        with self._lock:
            self._batches.popleft()
        batch.done(failed)

    def _make_later(self, write: Write) -> None:
        failed = self._put(write)
        now_s = self._clock()
        with self._lock:
            self._error = failed.line() if failed is not None else ""
            if failed is None:
                if len(self._written_at_s) > 1000:
                    recent = now_s - LATER_EVERY_S
                    kept = {k: at_s for k, at_s in self._written_at_s.items() if at_s > recent}
                    self._written_at_s = kept
                self._written_at_s[write.key] = now_s
                return
            if self._ended:
                return  # what is tried again would come after the end
            self._later_at_s = now_s + RETRY_S
            if write.key not in self._later:  # the order stays: the first is tried first again
                self._later[write.key] = self._fresh[write.key] = write.text
                self._later.move_to_end(write.key, last=False)

    def _put(self, write: Write) -> Optional[StorageError]:
        """Make one write and wait for the mons; returns what went wrong."""
        with self._lock:
            self._busy = write.key
        try:
            if write.text is None:
                visible = self._kv.delete(write.key)
            else:
                visible = self._kv.put(write.key, write.text)
        except StorageError as error:
            self._drop_fresh(write)
            return error
        except Exception as error:
            # whoever waits must be told, and the thread must live on
            self._drop_fresh(write)
            return StorageError(f"{write.key} is not stored: {error!r}"[:300])
        finally:
            with self._lock:
                self._busy = ""
        if visible:
            self._drop_fresh(write)
        else:
            self._unseen.append(write)
        return None

    def _look_again(self) -> None:
        """What the mgr's copy shows by now need not be kept here any more."""
        unseen, self._unseen = self._unseen, []
        for write in unseen:
            if self._fresh.get(write.key) is not write.text:
                continue  # there is a newer value
            with contextlib.suppress(StorageError):
                if self._kv.get(write.key) == write.text:
                    self._drop_fresh(write)
                    continue
            self._unseen.append(write)

    def _drop_fresh(self, write: Write) -> None:
        with self._lock:
            # a newer value of the key may be queued
            if write.key in self._fresh and self._fresh[write.key] is write.text:
                del self._fresh[write.key]

    # ---- the port

    def get(self, key: str) -> Optional[str]:
        """The value as it will be once everything queued is stored."""
        with self._lock:
            if key in self._fresh:
                return self._fresh[key]
        return self._kv.get(key)

    def keys(self, prefix: str) -> Sequence[str]:
        """All keys that start with `prefix`, sorted, queued ones included."""
        fresh = self._fresh_under(prefix)
        stored = [key for key in self._kv.keys(prefix) if key not in fresh]
        return sorted([*stored, *(key for key, text in fresh.items() if text is not None)])

    def sizes(self, prefix: str) -> Mapping[str, int]:
        """Bytes for each key that starts with `prefix`; of queued ones before packing."""
        found = dict(self._kv.sizes(prefix))
        for key, text in self._fresh_under(prefix).items():
            if text is None:
                found.pop(key, None)
            else:
                found[key] = len(key) + len(text.encode("utf-8"))
        return found

    def _fresh_under(self, prefix: str) -> Dict[str, Optional[str]]:
        with self._lock:
            return {key: text for key, text in self._fresh.items() if key.startswith(prefix)}

    def write(self, writes: Sequence[Write], done: Done) -> None:
        """Queue writes that are made in order; `done` is called from the queue's thread."""
        with self._lock:
            ended = self._ended
            if not ended:
                self._queue(writes, done)
        if ended:
            done(StorageError("nothing is stored any more: wcache leaves this cluster"))
        self._wake.set()

    def _queue(self, writes: Sequence[Write], done: Done) -> None:
        for write in writes:
            self._later.pop(write.key, None)
            self._fresh[write.key] = write.text
        self._batches.append(_Batch(tuple(writes), done, self._clock()))

    def end(self, done: Done) -> None:
        """Queue the removal of all keys; nothing is written after it, unless it fails."""
        def over(error: Optional[StorageError]) -> None:
            self._ended = error is None
            done(error)

        # parts of a write that was cut off too, which have no whole key
        keys = sorted(self.sizes(""))
        with self._lock:
            self._ended = True
            for key in self._later:
                self._fresh.pop(key, None)
            self._later.clear()
            self._queue([Write(key, None) for key in keys], over)
        self._wake.set()

    def write_later(self, key: str, text: Optional[str]) -> None:
        """Queue a write that may wait; a newer one of its key replaces it."""
        unwritten = text is None and self._busy != key and self._kv.keys(key) == []
        with self._lock:
            if self._ended:
                return
            waited = self._later.pop(key, None) is not None
            if unwritten and waited and self._busy != key:
                self._fresh.pop(key, None)
                return  # neither set nor removed: nobody has seen it
            self._later[key] = text
            self._fresh[key] = text
        self._wake.set()

    def trouble(self) -> str:
        """One line on what the mons do not store now, or ""."""
        with self._lock:
            waited_s = self._clock() - self._batches[0].queued_at_s if self._batches else 0.0
            key = self._batches[0].writes[0].key if self._batches else ""
            error = self._error
        if waited_s > SLOW_S:
            return (
                f"the mons have not stored {key} for {waited_s:.0f} s: check `ceph health` and "
                "the mons' disks"
            )
        return error
