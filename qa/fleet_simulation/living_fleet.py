"""One rollout of all drives of a cluster that lives: no change is made beside a missing copy."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, replace
from typing import List, Optional, Set, Tuple

from mgr_fakes import builders as make
from wcache.core.cluster import ClusterState
from wcache.core.host_report import HostReport
from wcache.core.model import DriveModel, DriveReport, Role
from wcache.options import Options

from .judged import Judged, JudgedFleet, Kind
from .living import HEARD_S, HOST_OSDS, World

DB_MODEL = DriveModel("ACME", "NV1", "1.0")
# A look is of what the mgr was told; then a drive is read, and changed.
LATE_S = HEARD_S + 5.0
SAMPLED_EVERY_S = 600.0


# What a rollout may take; and the shares of rollouts that may be judged wrongly, or not at all.
HOURS_MAX, LATE_SHARE, STOPPED_SHARE = 48.0, 0.01, 0.05


@dataclass(frozen=True)
class Lived:
    """How a rollout ended, and beside what.

    `ill` and `busy` are shares of the OSDs, in the mean; `ill_most` the largest.  `raced` changes
    were made beside a copy that went missing so shortly before that no mgr could know; `back` were
    taken back beside a missing one.
    """

    judged: Judged
    drives: int
    ill: float
    ill_most: float
    busy: float
    failures: int
    raced: int
    back: int


class LivingFleet(JudgedFleet):
    """Hosts with ten OSDs on drives of their own, and one DB drive that all ten share."""

    held_look_s = 60.0

    def __init__(self, drives: int, seed: int, kind: Kind) -> None:
        self.world = World(osds_of(drives), random.Random(f"world {drives}/{seed}/{kind.value}"))
        self.began_s = self.world.now_s
        self.sampled: List[Tuple[int, int]] = []
        self.raced = self.back = 0
        self._down: Optional[int] = None
        self._seen_at = -1
        self._view: Optional[ClusterState] = None
        super().__init__(osds_of(drives), seed, kind)

    def fleet(self, osds: int) -> Tuple[Tuple[HostReport, ...], ClusterState]:
        """See JudgedFleet."""
        reports, all_osds = [], []
        for host in range(self.world.hosts):
            name = f"h{host:04d}"
            mine = range(host * HOST_OSDS, min(osds, (host + 1) * HOST_OSDS))
            drives: List[DriveReport] = [make.drive(f"sd{n}", n) for n in mine]
            drives.append(
                make.drive(f"nv{host}", *mine, roles=(Role.DB,), drive_model=DB_MODEL)
            )
            reports.append(make.report(name, *drives))
            all_osds += [make.osd(n, name, dedicated_db=True) for n in mine]
        return tuple(reports), make.cluster(all_osds)

    def lived(self) -> Lived:
        """Run it; a breach of what must hold raises AssertionError."""
        found = self.run()
        samples = self.sampled or [(0, 0)]
        ill = [count / self.osds for count, _ in samples]
        busy = [count / self.osds for _, count in samples]
        return Lived(
            found, len(self.drives), sum(ill) / len(ill), max(ill), sum(busy) / len(busy),
            self.world.failures, self.raced, self.back,
        )

    # ---- the cluster

    def _go(self) -> None:
        self.world.to(self.began_s + self.now_s)
        if self.now_s >= len(self.sampled) * SAMPLED_EVERY_S:
            self.sampled.append((len(self.world.ill()), len(self.world.busy())))

    def view(self) -> ClusterState:
        """See JudgedFleet."""
        self._go()
        down = self.world.down_seen
        if self._view is None or down != self._down:
            self._seen_at = -1
            osds = {**self.cluster.osds}
            if down is not None:
                osds[down] = replace(self.cluster.osds[down], up=False)
            self._down, self._view = down, replace(self.cluster, osds=osds)
        if self.world.changes != self._seen_at:
            self._seen_at, self._view = self.world.changes, replace(
                self._view, ill=self.world.ill(), busy=self.world.busy(),
                slow_osds=self.world.slow(),
            )
        return self._view

    def together(self, groups: Tuple[Tuple[int, ...], ...]) -> int:
        """See JudgedFleet."""
        stopped: Set[int] = set()
        for count, group in enumerate(groups):
            stopped |= {*group}
            if len(stopped) > 1 and not self.world.may_stop(stopped):
                return count
        return len(groups)

    def factor(self, osd_id: int) -> float:
        """See JudgedFleet."""
        self._go()
        return 0.0 if osd_id == self.world.down else self.world.factor(osd_id)

    def toggles(self, osd_ids: Tuple[int, ...], back: bool) -> None:
        """By the PGs, and not by what the view says."""
        self._go()
        found = [self.world.missing_since_s(osd_id) for osd_id in osd_ids]
        since = [at_s for at_s in found if at_s is not None]
        if not since:
            return
        if back:
            self.back += 1
            return
        late_s = self.world.now_s - min(since)
        assert late_s <= LATE_S, (
            f"seed {self.seed}: changed {osd_ids} {late_s:.0f} s after a copy went missing"
        )
        self.raced += 1


def osds_of(drives: int) -> int:
    """As many OSDs as there are drives of their own: one of eleven has the DBs of ten."""
    return max(HOST_OSDS, drives * HOST_OSDS // (HOST_OSDS + 1))


def lived(drives: int, seed: int, kind: Kind) -> Lived:
    """One rollout of all drives."""
    return LivingFleet(drives, seed, kind).lived()


def line(found: Lived) -> str:
    """How one rollout went, in a line."""
    one = found.judged
    return (
        f"living, seed {one.seed}: {found.drives} drives, {one.scene}, {one.kind.value}: "
        f"{one.ended}{f' ({one.why})' if one.ended == 'stopped' else ''} with {one.changed} "
        f"changed, {one.bad} with the regression, {one.hours:.1f} h, of which "
        f"{one.held_hours:.1f} h held, {one.steps} steps; {100 * found.ill:.0f}% of OSDs ill, "
        f"{100 * found.ill_most:.0f}% at most, {100 * found.busy:.0f}% busy; "
        f"{found.failures} OSDs went down, {found.raced} changes raced one"
    )


def table(found: List[Lived]) -> Tuple[List[str], List[str]]:
    """The lines of the table of results, and what was promised and does not hold."""
    lines, broken = [
        "drives  the change is       seeds  all changed in   ill      at most  stopped  found"
        "  bad drives then"
    ], []
    for drives, kind in sorted(
        {(item.drives, item.judged.kind) for item in found}, key=lambda key: (key[0], key[1].value)
    ):
        mine = [item for item in found if (item.drives, item.judged.kind) == (drives, kind)]
        ends = Counter(item.judged.ended for item in mine)
        done = [item.judged.hours for item in mine if item.judged.ended == "done"]
        some = kind in (Kind.WORSE, Kind.SOME_WORSE)
        took = f"{min(done):.1f} to {max(done):.1f} h" if done else "-"
        bad = max(item.judged.bad for item in mine)
        ill, most = (100 * max(each) for each in zip(*((i.ill, i.ill_most) for i in mine)))
        lines.append(
            f"{drives:6}  {kind.value:18}  {len(mine):5}  {took:15}  {ill:5.0f} %  {most:5.0f} %  "
            f"{ends['stopped']:7}  {ends['worse']:5}  {f'at most {bad}' if some else '-'}"
        )
        name = f"{drives} drives, {kind.value}"
        harm_s = max(item.judged.harm_s for item in mine)
        if harm_s > Options().rollout_harm_max_s:
            broken.append(f"{name}: {harm_s:.0f} s of harm")
        if done and max(done) > HOURS_MAX:
            broken.append(f"{name}: {max(done):.1f} h")
        late = sum(item.judged.ended == "done" or item.judged.bad > HOST_OSDS for item in mine)
        if some and late > LATE_SHARE * len(mine):
            broken.append(f"{name}: {late} found late or never")
        wrong = ends["worse"] if not some else 0
        if wrong > LATE_SHARE * len(mine):
            broken.append(f"{name}: {wrong} called worse")
        if not some and ends["stopped"] > STOPPED_SHARE * len(mine) + 1:
            broken.append(f"{name}: {ends['stopped']} were stopped")
    return lines, broken
