"""Watches mClock's values in the config database, and changes them where an admin asks.

The mons may be slow to answer, so all of it is done in a thread of its own and nothing
waits for it: `entries` is what the last reading found.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Dict, Optional, Set, Tuple

from ..ceph.capacity import ConfigDatabase
from ..ceph.command import CommandFailed
from ..core.codec import one_line
from ..core.errors import StorageError, WcacheError
from ..core.knobs.mclock.advice import ConfigChange
from ..core.knobs.mclock.capacity import settings
from ..core.knobs.mclock.config import Config, Known, see
from ..core.knobs.mclock.rollout import ConfigRollout, ConfigStatus, backwards, forwards
from .archive import Archive
from .engine import Engine
from .mclock_work import moving_domains

EVERY_S = 600.0
# A reading that fails (mons without a quorum) is made again after this long.
RETRY_S = 30.0
# Changes told one by one in the audit log, which holds a thousand lines.
TOLD_MAX = 20
ROLLOUTS_MAX = 10


class MclockSettings:
    """Stored values, and the setting of the caches in which each was first seen."""

    def __init__(self, *, engine: Engine, archive: Archive, database: ConfigDatabase) -> None:
        self._engine = engine
        self._archive = archive
        self._database = database
        self._wake = threading.Event()
        self._stop = False
        self._due_at_s = float("-inf")
        self._thread: Optional[threading.Thread] = None
        self.config = Config(())
        self.known: Dict[Tuple[str, str], Known] = {}
        self.rollouts: Dict[str, ConfigRollout] = {}
        # not carried out: the mons do not have them yet, or refused them
        self._unstored: Set[str] = set()
        self._refused: Set[str] = set()
        self.read_at_s: Optional[float] = None
        self.error = ""

    def load(self) -> None:
        """Take up what was stored; changes under way go on with the first reading."""
        with self._engine.lock:
            self.known = {(k.who, k.name): k for k in self._archive.mclock_known()}
            self.rollouts = self._archive.config_rollouts()

    def start(self) -> None:
        """Begin to read, at once and every EVERY_S."""
        self._thread = threading.Thread(target=self._work, daemon=True, name="wcache-mclock")
        self._thread.start()

    def close(self) -> None:
        """Stop; a command under way is not waited for longer than a moment."""
        self._stop = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout=2.0)

    def read_soon(self) -> None:
        """Read again at once: something has changed, or somebody looks."""
        self._due_at_s = float("-inf")
        self._wake.set()

    # ---- asked by an admin

    def apply(self, rollout: ConfigRollout) -> None:
        """Store the changes; the thread makes them."""
        with self._engine.lock:
            self._put(rollout)
            gone = [i for i, r in self.rollouts.items() if r.over][: -(ROLLOUTS_MAX - 1)]
            for change_id in gone:
                self._archive.drop_config_rollout(change_id)
                del self.rollouts[change_id]
                self._refused.discard(change_id)
        self.read_soon()

    def roll_back(self, change_id: str) -> None:
        """Have the thread bring back what was there before."""
        with self._engine.lock:
            rollout = self.rollouts[change_id]
            self._put(replace(rollout, status=ConfigStatus.ROLLING_BACK, reason=""))
        self.read_soon()

    # ---- the thread

    def turn(self) -> None:
        """Read where that is due, and make the changes that wait."""
        with self._engine.lock:
            for change_id in list(self._refused):
                self._put(self.rollouts[change_id])
            open_ids = [
                i for i, rollout in self.rollouts.items()
                if not rollout.over and i not in self._unstored
            ]
        if not open_ids and self._engine.clock() < self._due_at_s:
            return
        if not self._read():
            return
        for change_id in open_ids:
            self._carry_out(self.rollouts[change_id])

    def _read(self) -> bool:
        engine = self._engine
        try:
            config = Config(self._database.read())
        except CommandFailed as failure:
            self.error = one_line(str(failure))
            self._due_at_s = engine.clock() + RETRY_S
            return False
        osds = engine.view.cluster().osds
        with engine.lock:
            reports, moving = list(engine.hosts.reports.values()), moving_domains(engine)
        known = see(self.known, config, osds, settings(reports, moving))
        with engine.lock:
            self.error = ""
            self._due_at_s = engine.clock() + EVERY_S
            self.config, self.read_at_s = config, engine.clock()
            if known != self.known:
                self.known = known
                self._archive.put_mclock_known(tuple(known.values()))
        engine.wake()
        return True

    def _carry_out(self, rollout: ConfigRollout) -> None:
        back = rollout.status is ConfigStatus.ROLLING_BACK
        left, moved = (backwards if back else forwards)(rollout, self.config)
        if moved and not back:
            said = f"{moved[0]} was changed since; see `ceph wcache mclock recommend`"
            self._end(rollout, ConfigStatus.STOPPED, said)
            return
        for index, change in enumerate(left):
            if self._stop:
                return  # the next mgr goes on
            try:
                self._database.write(change)
            except CommandFailed as failure:
                self._end(rollout, ConfigStatus.STOPPED, str(failure))
                return
            self._tell(rollout, change, index, len(left))
        if not self._read():
            return  # not proven yet: looked at again in a while
        left, _ = (backwards if back else forwards)(rollout, self.config)
        if left:
            self._end(rollout, ConfigStatus.STOPPED, f"{left[0].who} did not take its change")
            return
        said = f"left alone, since changed by others: {', '.join(moved[:8])}" if moved else ""
        self._end(rollout, ConfigStatus.ROLLED_BACK if back else ConfigStatus.DONE, said)

    def _tell(self, rollout: ConfigRollout, change: ConfigChange, index: int, count: int) -> None:
        if index < TOLD_MAX:
            was = "" if change.prior is None else f" (was {change.prior})"
            self._engine.note("mgr", rollout.change_id, change.command + was)
        elif index == count - 1:
            more = f"and {count - TOLD_MAX} more such changes"
            self._engine.note("mgr", rollout.change_id, more)

    def _end(self, rollout: ConfigRollout, status: ConfigStatus, reason: str) -> None:
        said = one_line(reason)
        with self._engine.lock:
            self._put(replace(rollout, status=status, reason=said))
        self._engine.note("mgr", rollout.change_id, f"{status.value}{': ' if said else ''}{said}")

    def _put(self, rollout: ConfigRollout) -> None:
        """Store it; what it wants is done once the mons have it."""
        engine, change_id = self._engine, rollout.change_id
        self.rollouts[change_id] = rollout
        self._unstored.add(change_id)
        self._refused.discard(change_id)

        def stored() -> None:
            self._unstored.discard(change_id)
            engine.keeper.stored()
            self._wake.set()

        def failed(error: StorageError) -> None:
            self._refused.add(change_id)
            self._due_at_s = engine.clock() + RETRY_S

        done = engine.gate.expect(f"mclock {change_id}", stored, failed)
        self._archive.put_config_rollout(rollout, done)
        engine.hear_store()

    def _work(self) -> None:
        while not self._stop:
            try:
                self.turn()
            except WcacheError as error:
                self.error = error.line()
                self._due_at_s = self._engine.clock() + RETRY_S
            except Exception as error:
                # the thread must live on: without it nothing is ever set or rolled back
                self.error = one_line(f"looking at mClock's settings failed: {error!r}")
                self._due_at_s = self._engine.clock() + RETRY_S
            self._wake.wait(max(1.0, min(EVERY_S, self._due_at_s - self._engine.clock())))
            self._wake.clear()
