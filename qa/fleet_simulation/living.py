"""A cluster that lives: PGs that move all year, an OSD that is down always, alerts now and then.

The PGs are simulated, and what a mgr sees is made from them, by the module's own table of PG
states and a moment late.  What must hold is looked at on the PGs themselves.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import Counter
from typing import Callable, Dict, FrozenSet, List, Optional, Set, Tuple

from wcache.ceph.cluster_health import pg_scope
from wcache.ceph.health import Reach
from wcache.core.cluster import SlowOsd

HOUR_S, DAY_S = 3600.0, 86_400.0
HOST_OSDS = 10  # each with a drive of its own, and all with one DB drive
# Half of an OSD's PGs are of a pool of three copies, half of one with 8+3; and what each bears to
# miss while clients go on writing (size - min_size).
PGS_PER_OSD = 100
REPLICATED, ERASURE = (3, 1), (11, 2)
# The share of PGs that are being moved, always, and what one takes while osd_max_backfills is 1.
MOVED, MOVE_S = 0.05, (600.0, 2400.0)
SLOWED = 1.3
# An OSD that is down is out after a while (mon_osd_down_out_interval); then its PGs get their
# copies back one by one.  The mons hear of it late (osd_heartbeat_grace), of PGs every few seconds.
OUT_S, RECOVERY_S = 600.0, 3.0 * HOUR_S
HEARD_S, TOLD_S = 20.0, 5.0
RECOVERS_S = 900.0  # how long a PG keeps who makes its copy busy
# The share of OSDs that have the alert, and how long Ceph keeps it.
ALERTED, KEPT_S = 0.02, DAY_S

CLEAN = "active+clean"
WAITS, MOVES = "active+remapped+backfill_wait", "active+remapped+backfilling"
DEGRADED = "active+undersized+degraded"
RECOVERS = "active+undersized+degraded+remapped+backfill_wait"


class World:
    """All PGs; `to` brings them to a time."""

    def __init__(self, osds: int, rng: random.Random) -> None:
        self.osds, self.rng = osds, rng
        self.hosts = math.ceil(osds / HOST_OSDS)
        self.now_s = 0.0
        self.changes = 0
        self.acting: List[List[int]] = []
        self.spare: List[int] = []  # how many copies each PG bears to miss
        self.pgs_of: List[Set[int]] = [set() for _ in range(osds)]
        for copies, spare in (REPLICATED, ERASURE):
            size = min(copies, self.hosts)
            for _ in range(round(PGS_PER_OSD / 2 * osds / size)):
                self._make(size, min(spare, size - 1))
        self.state = [CLEAN] * len(self.acting)
        self.scopes: Dict[Reach, Counter[int]] = {Reach.OSDS: Counter(), Reach.BUSY: Counter()}
        # the truth: which copy of a PG is missing, and since when
        self.missing: Dict[int, Tuple[int, float]] = {}
        self.down: Optional[int] = None
        self.down_seen: Optional[int] = None
        self.failures = 0
        self.slowed: Counter[int] = Counter()
        self.alerts: Dict[int, float] = {}
        # moves that wait: the OSD that is to get a copy, by PG; and who is reserved
        self.targets: Dict[int, Tuple[int, int]] = {}
        self.waiting: Dict[int, Set[int]] = {}
        self.sending: Set[int] = set()
        self.getting: Set[int] = set()
        self._heap: List[Tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._begin()

    # ---- what others ask

    def to(self, now_s: float) -> None:
        """Let everything happen until then."""
        while self._heap and self._heap[0][0] <= now_s:
            self.now_s, _, what = heapq.heappop(self._heap)
            self.changes += 1
            what()
        self.now_s = max(self.now_s, now_s)

    def ill(self) -> Dict[int, str]:
        """As a view says it: OSDs of whose acting sets a PG is degraded, as far as is known."""
        found = {osd_id: f"has PGs that are {DEGRADED}" for osd_id in self.scopes[Reach.OSDS]}
        return found

    def busy(self) -> FrozenSet[int]:
        """The same of OSDs with PGs that move."""
        return frozenset(self.scopes[Reach.BUSY])

    def slow(self) -> Tuple[SlowOsd, ...]:
        """OSDs with the alert."""
        return tuple(
            SlowOsd(osd_id, since_s, KEPT_S) for osd_id, since_s in sorted(self.alerts.items())
        )

    def missing_since_s(self, osd_id: int) -> Optional[float]:
        """Since when a copy of a PG of an OSD is missing, by the PGs; None where none is."""
        if osd_id == self.down:
            return min((since_s for _, since_s in self.missing.values()), default=self.now_s)
        found = (self.missing[pg][1] for pg in self.pgs_of[osd_id] & self.missing.keys())
        return min(found, default=None)

    def may_stop(self, osd_ids: Set[int]) -> bool:
        """As `osd ok-to-stop`: whether all PGs go on without these."""
        gone: Counter[int] = Counter(pg for osd_id in osd_ids for pg in self.pgs_of[osd_id])
        return all(
            count + (pg in self.missing) <= self.spare[pg] for pg, count in gone.items()
        )

    def factor(self, osd_id: int) -> float:
        """How much slower an OSD is by what it moves."""
        return SLOWED if self.slowed[osd_id] > 0 else 1.0

    # ---- PGs

    def _make(self, size: int, spare: int) -> None:
        pg, mine = len(self.acting), []
        for host in self.rng.sample(range(self.hosts), size):
            first = host * HOST_OSDS
            mine.append(self.rng.randrange(first, min(self.osds, first + HOST_OSDS)))
        for osd_id in mine:
            self.pgs_of[osd_id].add(pg)
        self.acting.append(mine)
        self.spare.append(spare)

    def _set(self, pg: int, state: str) -> None:
        """What a view says of a PG; of those of its acting set that are up."""
        before, after = pg_scope(self.state[pg]), pg_scope(state)
        self.state[pg] = state
        if before is not after:
            self._counts(pg, before, -1)
            self._counts(pg, after, 1)

    def _counts(self, pg: int, scope: Reach, by: int) -> None:
        counts = self.scopes.get(scope)
        for osd_id in self.acting[pg] if counts is not None else ():
            assert counts is not None
            counts[osd_id] += by
            if not counts[osd_id]:
                del counts[osd_id]

    def _replace(self, pg: int, old: int, new: int) -> None:
        """Another OSD has the copy; the PG is clean meanwhile."""
        assert self.state[pg] == CLEAN
        mine = self.acting[pg]
        mine[mine.index(old)] = new
        self.pgs_of[old].discard(pg)
        self.pgs_of[new].add(pg)

    def _elsewhere(self, pg: int) -> int:
        """An OSD that is up, on a host that has no copy; on small clusters, on any."""
        hosts = {osd_id // HOST_OSDS for osd_id in self.acting[pg]}
        for _ in range(100):
            osd_id = self.rng.randrange(self.osds)
            taken = osd_id in self.acting[pg] or osd_id == self.down
            if not taken and (osd_id // HOST_OSDS not in hosts or len(hosts) == self.hosts):
                return osd_id
        raise AssertionError("no OSD takes a copy")

    # ---- what goes on

    def _at(self, at_s: float, what: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._heap, (at_s, self._count, what))

    def _begin(self) -> None:
        for _ in range(round(MOVED * len(self.acting))):
            self._move()
        for osd_id in self.rng.sample(range(self.osds), round(ALERTED * self.osds)):
            self._alert(osd_id, -self.rng.uniform(0.0, KEPT_S))
        self._at(self._next_alert_s(), self._alerts)
        self._at(0.0, self._fail)
        # as it is after hours
        self.to(RECOVERY_S / 2)

    def _next_alert_s(self) -> float:
        return self.now_s + self.rng.expovariate(ALERTED * self.osds / KEPT_S)

    def _alerts(self) -> None:
        self._alert(self.rng.randrange(self.osds), self.now_s)
        self._at(self._next_alert_s(), self._alerts)

    def _alert(self, osd_id: int, since_s: float) -> None:
        self.alerts[osd_id] = since_s
        self._at(since_s + KEPT_S, lambda: self._forget(osd_id, since_s))

    def _forget(self, osd_id: int, since_s: float) -> None:
        if self.alerts.get(osd_id) == since_s:
            del self.alerts[osd_id]

    # ---- moves

    def _refill(self) -> None:
        """Have as many PGs moved as before, of those that can be."""
        while len(self.targets) < MOVED * len(self.acting):
            before = len(self.targets)
            self._move()
            if len(self.targets) == before:
                return

    def _move(self) -> None:
        """Another PG is to be moved."""
        for _ in range(100):
            pg = self.rng.randrange(len(self.acting))
            if pg not in self.targets and pg not in self.missing and self.state[pg] == CLEAN:
                self._move_one(pg, self.rng.choice(self.acting[pg]), self._elsewhere(pg))
                return

    def _move_one(self, pg: int, old: int, new: int) -> None:
        self.targets[pg] = (old, new)
        self._set(pg, WAITS)
        for osd_id in (self.acting[pg][0], new):
            self.waiting.setdefault(osd_id, set()).add(pg)
        self._may_start(pg)

    def _may_start(self, pg: int) -> None:
        """A primary sends one backfill at a time, and an OSD gets one (osd_max_backfills 1)."""
        primary, (_, new) = self.acting[pg][0], self.targets[pg]
        if primary in self.sending or new in self.getting or pg in self.missing:
            return
        if self.down in (primary, new) or self.state[pg] != WAITS:
            return
        self.sending.add(primary)
        self.getting.add(new)
        self.slowed.update((primary, new))
        self._unwait(pg)
        self._set(pg, MOVES)
        at_s = self.now_s + self.rng.uniform(*MOVE_S)
        self._at(at_s, lambda: self._moved(pg, primary))

    def _unwait(self, pg: int) -> None:
        for osd_id in (self.acting[pg][0], self.targets[pg][1]):
            self.waiting.get(osd_id, set()).discard(pg)

    def _moved(self, pg: int, primary: int) -> None:
        old, new = self.targets.pop(pg)
        self.sending.discard(primary)
        self.getting.discard(new)
        self.slowed.subtract((primary, new))
        if pg not in self.missing:
            self._set(pg, CLEAN)
            if new != self.down and old in self.acting[pg] and new not in self.acting[pg]:
                self._replace(pg, old, new)
        for osd_id in (primary, new):
            for other in sorted(self.waiting.get(osd_id, ())):
                self._may_start(other)
        self._refill()

    # ---- an OSD that is down

    def _fail(self) -> None:
        self.failures += 1
        osd_id = self.down = self.rng.randrange(self.osds)
        mine = sorted(self.pgs_of[osd_id])
        for pg in mine:
            self.missing[pg] = (osd_id, self.now_s)
        self._at(self.now_s + HEARD_S, lambda: self._is_told(osd_id, mine))
        out_s = self.now_s + OUT_S
        for pg in mine:
            done_s = out_s + self.rng.uniform(RECOVERS_S, RECOVERY_S)
            self._at(done_s - RECOVERS_S, lambda pg=pg: self._recovers(pg))  # type: ignore[misc]
        if not mine:
            self._at(out_s + RECOVERY_S, self._is_back)

    def _is_told(self, osd_id: int, mine: List[int]) -> None:
        self.down_seen = osd_id
        for pg in mine:
            if pg in self.targets and self.state[pg] == WAITS:
                self._unwait(pg)
                del self.targets[pg]
            self._set(pg, DEGRADED)

    def _recovers(self, pg: int) -> None:
        """Its copy is being made somewhere else."""
        new = self._elsewhere(pg)
        primary = next(osd_id for osd_id in self.acting[pg] if osd_id != self.down)
        self.slowed.update((primary, new))
        self._set(pg, RECOVERS)
        self._at(self.now_s + RECOVERS_S, lambda: self._recovered(pg, primary, new))

    def _recovered(self, pg: int, primary: int, new: int) -> None:
        old, _ = self.missing.pop(pg)
        self.slowed.subtract((primary, new))
        self._at(self.now_s + TOLD_S, lambda: self._is_told_back(pg, old, new))

    def _is_told_back(self, pg: int, old: int, new: int) -> None:
        self._set(pg, CLEAN)
        # it may have got a copy by a move meanwhile
        self._replace(pg, old, new if new not in self.acting[pg] else self._elsewhere(pg))
        if not self.missing:
            self._is_back()
        self._refill()

    def _is_back(self) -> None:
        """The OSD is mended, gets PGs again, and another one goes down."""
        old = self.down
        assert old is not None
        self.down = self.down_seen = None
        wanted = PGS_PER_OSD
        for pg in self.rng.sample(range(len(self.acting)), min(len(self.acting), 8 * wanted)):
            if wanted and pg not in self.targets and self.state[pg] == CLEAN and (
                old not in self.acting[pg]
            ):
                here = [o for o in self.acting[pg] if o // HOST_OSDS == old // HOST_OSDS]
                self._move_one(pg, here[0] if here else self.rng.choice(self.acting[pg]), old)
                wanted -= 1
        self._at(self.now_s, self._fail)
