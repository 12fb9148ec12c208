"""Makes and removes probes' keys in a thread of its own, since the mons may be slow to answer.

A command waits for it for a moment, holding no lock; what takes longer goes on by itself, and
the same command tells what came of it when it is called again.
"""

from __future__ import annotations

import queue
import threading
from dataclasses import dataclass, field
from typing import Dict, Optional, Sequence, Tuple

from ..ceph.command import CommandFailed
from ..ceph.surroundings import Keys
from ..core.codec import one_line
from ..deployment.form import caps_of, entity_of

# Far less than a lease: on some releases the probes' calls queue behind the one that waits.
WAIT_S = 5.0
PENDING = "pending"
MADE = "made"
THERE = "there"
REMOVED = "removed"


@dataclass
class KeyJob:
    """Keys of some hosts to be made, or to be removed; `said` has what came of each."""

    hostnames: Tuple[str, ...]
    remove: bool
    said: Dict[str, str] = field(default_factory=dict)
    errors: Dict[str, str] = field(default_factory=dict)
    done: threading.Event = field(default_factory=threading.Event)

    def state(self, hostname: str) -> str:
        """One of the words above, or empty where it failed."""
        if hostname in self.errors:
            return ""
        return self.said.get(hostname, PENDING)


class KeyWork:
    """One job after the other, in the order they were asked for."""

    def __init__(self, keys: Keys, wait_s: float = WAIT_S) -> None:
        self._keys = keys
        self._wait_s = wait_s
        self._jobs: queue.SimpleQueue[Optional[KeyJob]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: Optional[threading.Thread] = None

    def make(self, hostnames: Sequence[str]) -> KeyJob:
        """See that these hosts have their keys; returns when done, or after a moment."""
        return self._ask(KeyJob(tuple(hostnames), remove=False))

    def remove(self, hostname: str) -> KeyJob:
        """The same for a key that has to go."""
        return self._ask(KeyJob((hostname,), remove=True))

    def close(self) -> None:
        """End the thread after the command under way."""
        self._jobs.put(None)

    def _ask(self, job: KeyJob) -> KeyJob:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, daemon=True, name="wcache-keys"
                )
                self._thread.start()
        self._jobs.put(job)
        job.done.wait(self._wait_s)
        return job

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            if job is None:
                return
            for hostname in job.hostnames:
                self._do(job, hostname)
            job.done.set()

    def _do(self, job: KeyJob, hostname: str) -> None:
        entity = entity_of(hostname)
        try:
            if job.remove:
                self._keys.remove(entity)
                job.said[hostname] = REMOVED
            else:
                made = self._keys.make(entity, caps_of(hostname))
                job.said[hostname] = MADE if made else THERE
        except CommandFailed as failure:
            job.errors[hostname] = one_line(str(failure), 300)
        except Exception as failure:
            # a thread's exception would go nowhere; the key is named, never its value
            job.errors[hostname] = f"{entity}: {type(failure).__name__}"
