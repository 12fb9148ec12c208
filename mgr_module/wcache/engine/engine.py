"""The one lock, the queue of events and the loop's turn: all that others see of the engine.

Nothing slow happens under the lock: that works elsewhere and puts its answers into queues,
which `tick` drains.  A lease is renewed by progress: probes hear of it only while whole ticks
are made.
"""

from __future__ import annotations

import queue
from contextlib import contextmanager
from typing import Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from ..core import across, events
from ..core.automation.state import AutoState
from ..core.cluster import OsdLatency, OsdNow
from ..core.config_database import Config
from ..core.errors import StorageError
from ..core.fleet.ages import Age
from ..core.fleet.claims import osds_now
from ..core.history.entry import HistoryEntry
from ..core.protocol import Hello, PollReply, Post
from ..core.record import Record
from ..core.verdict.result import Result
from ..options import Options
from .across_versions import AcrossVersions
from .engine_lock import EngineLock
from .executor import Calls, Executor, Ports
from .measuring import TrialKind
from .orders import Orders
from .probe_calls import ProbeCalls
from .steady_clock import steady_clock
from .world import World


class Engine:
    """Lets one in at a time: to look, to give orders, or to have the next thing done."""

    def __init__(
        self, ports: Ports, *, wake: Callable[[], None] = lambda: None,
        clock: Optional[Callable[[], float]] = None,
    ) -> None:
        self._ports = ports
        self._wake = wake
        self._clock = clock or steady_clock()
        self._lock = EngineLock()
        self._events: queue.Queue[Tuple[str, events.Event]] = queue.Queue()
        self._executor = Executor(ports, Calls(
            self.post_event, self.note, self.world, wake, self._clock
        ))
        self._orders = Orders(self._executor, self._lock)

    def clock(self) -> float:
        """Seconds, of a clock that nobody sets."""
        return self._clock()

    def options(self) -> Options:
        """The module's options as they are now."""
        return self._ports.options()

    # ---- start and end

    def carry_out(self, knob: str, kind: TrialKind) -> None:
        """Carry out what a knob tries by itself; before anything is loaded."""
        self._executor.questions.kinds[knob] = kind

    def on_config(self, listener: Callable[[Config], None]) -> None:
        """Tell of each reading of the config database, from its thread."""
        self._executor.config.on_read.append(listener)

    def load(self) -> None:
        """Take up the stored state and go on where the last mgr stopped.

        Raises a WcacheError where it cannot be read; then nothing has begun, and it can be
        called again.
        """
        with self._lock:
            self._executor.load()

    def start(self) -> None:
        """Begin to read the config database."""
        self._executor.config.start()

    def close(self) -> None:
        """Read it no more."""
        self._executor.config.close()

    def cancel_loads(self) -> None:
        """Stop every measurement that is under way: the mgr stops."""
        with self._lock:
            self._executor.cancel_all()

    # ---- the world's events

    def tick(self) -> Optional[float]:
        """Do what is due; returns the seconds until something is due again, or None."""
        with self._lock:
            return self._executor.tick(self._posted())

    def _posted(self) -> Iterator[Tuple[str, events.Event]]:
        while True:
            try:
                yield self._events.get_nowait()
            except queue.Empty:
                return

    def post_event(self, owner: str, event: events.Event) -> None:
        """Queue an event from another thread; `tick` feeds it."""
        self._events.put((owner, event))
        self.wake()

    def wake(self) -> None:
        """There is something to do: the next tick comes at once."""
        self._wake()

    def poll(self, hostname: str, hello: Hello, lines: Callable[[str], int]) -> PollReply:
        """A probe asks what to do; `lines` as `ProbeCalls` has it."""
        with self._lock:
            return ProbeCalls(self._executor, lines).poll(hostname, hello)

    def post(
        self, hostname: str, hello: Hello, post: Post, lines: Callable[[str], int]
    ) -> PollReply:
        """A probe tells an outcome; one that is repeated changes nothing."""
        with self._lock:
            return ProbeCalls(self._executor, lines).post(hostname, hello, post)

    def hear_other(
        self, hostname: str, hello: across.Hello, report: Optional[across.Report],
        lines: Callable[[str], int],
    ) -> across.Order:
        """A probe of another protocol calls, perhaps with what its journal holds."""
        with self._lock:
            return AcrossVersions(self._executor, lines).take(hostname, hello, report)

    # ---- orders

    @contextmanager
    def deciding(self, before: Optional[World] = None) -> Iterator[Tuple[World, Orders]]:
        """A look, and orders that follow from it: nothing else changes meanwhile."""
        looked = before or self.world()
        _ = looked.cluster  # fetched while no lock is held
        with self._lock:
            yield self._orders.look(looked), self._orders

    @contextmanager
    def orders(self) -> Iterator[Orders]:
        """Orders that follow from no look."""
        with self._lock:
            yield self._orders

    def note(self, who: str, what: str, text: str, severity: Optional[str] = None) -> None:
        """Add a line to the audit log and to the mgr's; that of a run names its drive."""
        with self._lock:
            self._executor.note(who, what, text, severity)

    def refresh(self) -> Age:
        """How old the reports are; hosts whose reports are old are looked at again."""
        with self._lock:
            return self._orders.refresh()

    def ask_anew(self, hostname: str) -> None:
        """A host's last report may not tell of what is there now: it is asked for the next."""
        with self._lock:
            self._orders.ask_anew(hostname)

    def read_config_soon(self) -> None:
        """Somebody looks, so the config database is read again."""
        self._executor.config.read_soon()

    def put_automation(self, state: AutoState, refused: Callable[[], None]) -> None:
        """Store what `auto` keeps; where the mons refuse it, `status` says so."""
        def done(error: Optional[StorageError]) -> None:
            if error is not None:
                refused()
                self._executor.persistence.failed(error)

        self._ports.archive.put_automation(state, done)

    # ---- what there is

    def world(self, before: Optional[World] = None) -> World:
        """What there is now; with the maps of an earlier look, and its advice where that stands."""
        if before is not None:
            with self._lock:
                return self._orders.look(before)
        with self._lock:
            return self._executor.world(self._ports.view.cluster)

    def is_active(self) -> bool:
        """Whether something is under way, so that time matters."""
        with self._lock:
            return self._executor.active

    def is_stored(self, owner: str) -> bool:
        """Whether the mons have a value, or where a machine stands."""
        with self._lock:
            return self._executor.is_stored(owner)

    def new_plan_id(self) -> str:
        """A plan's id that is new."""
        with self._lock:
            return self._orders.new_plan_id()

    def new_campaign_id(self) -> str:
        """A campaign's id that is new."""
        with self._lock:
            return self._orders.new_campaign_id()

    def results(self) -> List[Result]:
        """The results of all records."""
        with self._lock:
            return list(self._executor.analyses.results.values())

    def osds_now(self) -> Dict[int, OsdNow]:
        """Each OSD, with the drives that are under it now."""
        cluster = self._ports.view.cluster()
        with self._lock:
            return osds_now(self._executor.hosts.reports.values(), cluster)

    def latencies(self) -> Dict[int, OsdLatency]:
        """What OSDs last said of theirs; of a big cluster much."""
        return self._ports.view.latencies()

    def osd_values(
        self, osd_ids: Sequence[int], names: Sequence[str], timeout_s: float
    ) -> Mapping[int, Mapping[str, str]]:
        """What OSDs go by, of those that answer in time; waits for them, and holds no lock."""
        return self._ports.osd_options.values(osd_ids, names, timeout_s)

    def record(self, record_id: str) -> Optional[Record]:
        """A record with its raw samples, where it is still stored."""
        return self._ports.archive.record(record_id)

    def automation(self) -> AutoState:
        """What `auto` keeps, as it is stored."""
        return self._ports.archive.automation()

    def history(self) -> List[HistoryEntry]:
        """The lines of the audit log."""
        with self._lock:
            return self._executor.audit.all()
