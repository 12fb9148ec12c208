"""One rollout of all drives of a fleet, judged by clients' load, with faults chosen by a seed.

The plan's own machine decides, on blocks whose noise is that of the gate's simulation: by seed
one of its scenes, beside a load of the whole cluster that goes up and down over the day.  Hosts
obey; what must hold is looked at after every step, and a breach raises AssertionError.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from typing import Dict, List, Optional, Set, Tuple

from mgr_fakes import builders as make
from mgr_fakes.gate_simulation import SCENES, Osd
from wcache.core import events
from wcache.core.change import preconditions as holding
from wcache.core.change.change import Change, ChangeStatus
from wcache.core.change.gate.blocks import CONTROLS_MAX
from wcache.core.change.gate.evidence import controls_for
from wcache.core.change.gate.gate_state import GateSettings
from wcache.core.change.gate.judge import WATCHED, Effect
from wcache.core.change.rollout import RolloutMachine
from wcache.core.change.rollout_state import Rollout, RolloutStatus
from wcache.core.change.waves import arranged
from wcache.core.cluster import ClusterState
from wcache.core.host_report import HostReport
from wcache.core.loads import Block, BlocksRequest, OsdBlock
from wcache.core.model import CacheMode, DriveReport, LoadPoint, Transport
from wcache.core.protocol import (
    ApplyRequest,
    DrivesOutcome,
    LookRequest,
    Outcome,
    RollbackRequest,
    StateOutcome,
)
from wcache.core.record import Precondition
from wcache.core.setting.domain_settings import CacheModeSetting
from wcache.core.setting.setting import CacheDomain
from wcache.options import Options

WB, WT = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH
HOST_DRIVES = 10
# What a probe takes for a task: a toggle with its flushes, or a look.
TASK_S = 0.5
# Each OSD's clients write so often in a second; and the load of all goes up and down in a day.
WRITES_PER_S, DAY_S, DAY_LN = 100, 86_400.0, 0.4
# Of each step: the chance that a mgr is lost, a probe is silent, or the cluster is not healthy.
FAULTS = 0.03
SILENT_S, UNHEALTHY_S = (60.0, 600.0), (60.0, 1800.0)


class Kind(Enum):
    """What the change does to latency: of all drives, or else on some hosts."""

    GOOD = "0.9 times"
    SAME = "no effect"
    WORSE = "1.2 times"
    SOME_WORSE = "1.2 times on some"


RATIOS = {Kind.GOOD: 0.9, Kind.SAME: 1.0, Kind.WORSE: 1.2, Kind.SOME_WORSE: 0.9}
# One firmware in this share of the hosts, which come together and nobody tells apart.
SOME = 0.05
PLANTED = 1.2


@dataclass(frozen=True)
class Judged:
    """How a rollout ended.  `bad` had the regression when it was found, of `osds`.

    `hours` are all that went by; in `held_hours` of them faults had it wait.  `harm_s` is what
    all clients really have waited longer, `told_s` what the rollout says.
    """

    seed: int
    osds: int
    kind: Kind
    scene: str
    faults: int
    ended: str
    changed: int
    bad: int
    hours: float
    held_hours: float
    steps: int
    harm_s: float
    told_s: float
    why: str


@lru_cache(maxsize=2)
def _fleet(osds: int) -> Tuple[Tuple[HostReport, ...], ClusterState]:
    hosts = math.ceil(osds / HOST_DRIVES)
    reports, cluster = [], []
    for h in range(hosts):
        mine = range(h * HOST_DRIVES, min(osds, (h + 1) * HOST_DRIVES))
        reports.append(make.report(f"h{h:04d}", *(make.drive(f"sd{n}", n) for n in mine)))
        cluster += [make.osd(n, f"h{h:04d}") for n in mine]
    return tuple(reports), make.cluster(cluster)


def _change(report: HostReport, drive: DriveReport) -> Change:
    osd_ids = tuple(use.osd_id for use in drive.uses)
    domain = CacheDomain(
        report.hostname, drive.domain_id, (drive.dev_name,), Transport.SCSI, osd_ids,
        (drive.drive_id,), drive_model=drive.drive_model,
    )
    return Change(
        f"p1.{drive.dev_name}", CacheModeSetting(domain, WB, WT), "hdd", "faster",
        osd_id=osd_ids[0], load_point=LoadPoint.OSD_TRAFFIC,
    )


def domain_of(osd_id: int) -> str:
    """The cache domain of an OSD's own drive: what its latency depends on."""
    return f"domain-sd{osd_id}"


def _plan(reports: Tuple[HostReport, ...], cluster: ClusterState) -> Rollout:
    """As the module's defaults have it."""
    options = Options()
    changes, waves = arranged(
        [_change(report, drive) for report in reports for drive in report.drives], cluster
    )
    block_s = options.gate_block_s
    return Rollout(
        "p1", 0.0, changes, settle_s=max(1.0, options.settle_s),
        canary_wait_s=options.canary_wait_s, latency_limit_ms=options.latency_limit_ms,
        waves=waves, parallel_max=options.rollout_parallel_max,
        harm_max_s=options.rollout_harm_max_s, cluster_fsid=cluster.fsid,
        gate=GateSettings(
            options.gate_by_load, block_s, max(block_s, options.canary_wait_s / WATCHED)
        ),
    )


class JudgedFleet:
    """A machine, hosts that obey it, and clients."""

    held_look_s = 0.0  # more seldom than the machine would look while it is held, to save time

    def __init__(self, osds: int, seed: int, kind: Kind) -> None:
        self.rng = random.Random(f"{osds}/{seed}/{kind.value}")
        self.seed, self.osds, self.kind = seed, osds, kind
        self.scene = SCENES[seed % len(SCENES)]
        self.reports, self.cluster = self.fleet(osds)
        self.machine = RolloutMachine(_plan(self.reports, self.cluster))
        self.drives = {drive.domain_id: drive for item in self.reports for drive in item.drives}
        self.turns: Dict[int, int] = {}  # the last one, as the engine has it
        self.changes_of: Dict[int, List[int]] = {}
        for turn, change in enumerate(self.machine.rollout.changes):
            for osd_id in change.treated:
                self.turns[osd_id] = turn
                self.changes_of.setdefault(osd_id, []).append(turn)
        # controls are of these while they are unchanged: asking all hosts would give the same
        turn = {report.hostname: self.turns[h * HOST_DRIVES] for h, report in enumerate(
            self.reports)}
        self.last = sorted(self.reports, key=lambda item: turn[item.hostname])[-2 * CONTROLS_MAX:]
        self.ratio = {osd_id: RATIOS[kind] for osd_id in range(osds)}
        if kind is Kind.SOME_WORSE:
            count = max(1, int(SOME * osds))
            first = self.rng.randrange(0, osds - count + 1, HOST_DRIVES)
            self.ratio.update(dict.fromkeys(range(first, first + count), PLANTED))
        self.now_s = 0.0
        self.modes: Dict[str, CacheMode] = {}
        self.changed_at_s: Dict[int, float] = {}
        self.clients: Dict[int, Tuple[Osd, float]] = {}
        self.request: Optional[BlocksRequest] = None
        self.token = ""
        self.taken = self.steps = self.faults = 0
        self.harm_s = self.held_s = 0.0
        self.missed_until_s = 0.0
        self.missed: Tuple[Precondition, ...] = ()
        self.todo: List[events.Event] = []
        self.task: Optional[events.GiveTask] = None

    def fleet(self, osds: int) -> Tuple[Tuple[HostReport, ...], ClusterState]:
        """What the hosts report, and the cluster of their OSDs."""
        return _fleet(osds)

    def run(self) -> Judged:
        """To its end, or to where it goes no further without an admin."""
        self._give(events.Begin())
        while self.machine.rollout.status is RolloutStatus.RUNNING:
            self._turn()
        rollout = self.machine.rollout
        found = self._outcome(rollout)
        while self.machine.under_way:  # what is taken back
            self._turn()
        assert self.machine.over or self.machine.paused
        return replace(found, harm_s=self._harm_s())

    def _turn(self) -> None:
        """The next thing that happens, in virtual time."""
        if self.todo:
            self._give(self.todo.pop(0))
            return
        if self.task is not None:
            task, self.task = self.task, None
            self.now_s += TASK_S
            outcome = self._outcome_of(task.request)
            self._give(events.Answered(task.task_id, outcome))
            return
        if self.request is not None:
            self.now_s += self.request.block_s
            block = self._block(self.request)
            self.taken += 1
            token = self.token
            if self.taken >= self.request.blocks:
                self.request = None
            ill = self.view().illness(osd.osd_id for osd in block.osds)
            self._give(events.BlockSeen(token, block, frozenset(ill)))
            return
        wake_s = self.machine.wake_at_s
        assert wake_s is not None, f"seed {self.seed}: waits for ever: {self.machine.phase}"
        if self.machine.rollout.missed:
            wake_s = max(wake_s, self.now_s + self.held_look_s)
            self.held_s += max(0.0, wake_s - self.now_s)
        self.now_s = max(self.now_s, wake_s)
        self._give(events.Tick())

    def _give(self, event: events.Event) -> None:
        before = self.machine.rollout.step.indices
        for action in self.machine.handle(event, self.now_s):
            self._do(action)
        step = self.machine.rollout.step.indices
        if step and step != before:
            self.steps += 1
            if self.rng.random() < FAULTS:
                self._fault()
        if isinstance(event, events.Answered):
            self.check()

    def _do(self, action: events.Action) -> None:
        if isinstance(action, events.LookAtCluster):
            self.request = None
            self.todo.append(self._seen(action))
        elif isinstance(action, events.GiveTask):
            self.request, self.task = None, action
        elif isinstance(action, events.WatchBlocks):
            self.request, self.token, self.taken = action.request, action.token, 0

    def _fault(self) -> None:
        """What a machine must bear; nothing of it is the change's doing."""
        self.faults += 1
        which = self.rng.randrange(3)
        if which == 0:  # another mgr takes over, with what is stored
            self.todo.clear()
            self.request = self.task = None
            self.machine = RolloutMachine(self.machine.rollout, f"m{self.faults}")
            self.now_s += 30.0
            self.todo.append(events.Begin())
            return
        missed, range_s = (
            (Precondition.PROBES_HEARD, SILENT_S) if which == 1
            else (Precondition.CLUSTER_HEALTHY, UNHEALTHY_S)
        )
        self.missed, self.missed_until_s = (missed,), self.now_s + self.rng.uniform(*range_s)

    # ---- the cluster, which others may have live

    def view(self) -> ClusterState:
        """The cluster as the mgr sees it now."""
        return self.cluster

    def together(self, groups: Tuple[Tuple[int, ...], ...]) -> int:
        """How many of the groups `osd ok-to-stop` allows."""
        return len(groups)

    def factor(self, osd_id: int) -> float:
        """How much slower an OSD is by what is no matter of caches; 0.0 where it is down."""
        return 1.0

    def toggles(self, osd_ids: Tuple[int, ...], back: bool) -> None:
        """Look whether the cache of these may be changed now."""

    # ---- hosts

    def _seen(self, look: events.LookAtCluster) -> events.ClusterSeen:
        missed = self.missed if self.now_s < self.missed_until_s else ()
        cluster = self.view()
        machine = self.machine.looking_ahead(cluster)
        later = machine.rollout.later
        groups = look.groups if machine.rollout.step.last else machine.groups_next
        ill = [holding.illness_of(change, cluster) for change in machine.coming]
        if any(ill) or (machine.waits_to_judge and machine.illness_of_step(cluster)):
            missed = (*missed, Precondition.OSDS_WELL)
        if not groups:
            return events.ClusterSeen(look.token, missed, later=later)
        rollout = machine.rollout
        controls: Tuple[int, ...] = ()
        if machine.wants_controls:
            treated = {osd_id for group in groups for osd_id in group}
            near = [*self.last, *(self.reports[osd_id // HOST_DRIVES] for osd_id in treated)]
            near = list({report.hostname: report for report in near}.values())
            osd_ids = (use.osd_id for item in near for drive in item.drives for use in drive.uses)
            turns = {turn for osd_id in osd_ids for turn in self.changes_of[osd_id]}
            changes = (rollout.changes[turn] for turn in turns)
            touched = {
                osd_id for change in changes
                if change.status is not ChangeStatus.PLANNED or change is machine.current
                for osd_id in change.treated
            }
            controls = controls_for(treated, touched, near, cluster, self.turns)
        together = self.together(groups)
        if together < 1:
            missed = (*missed, Precondition.OK_TO_STOP)
        return events.ClusterSeen(look.token, missed, together, controls, later=later)

    def _outcome_of(self, request: object) -> Outcome:
        assert isinstance(request, (LookRequest, ApplyRequest, RollbackRequest))
        domain_id = request.domain_id
        drive, before = self.drives[domain_id], self.modes.get(domain_id, WB)
        if isinstance(request, LookRequest):
            return DrivesOutcome((replace(drive, state=make.state(before)),))
        after = request.mode if isinstance(request, ApplyRequest) else WB
        osd_ids = tuple(use.osd_id for use in drive.uses)
        if after is not before:
            self.toggles(osd_ids, after is WB)
            self.modes[domain_id] = after
            if domain_id == domain_of(osd_ids[0]) and after is WT:
                self.changed_at_s[osd_ids[0]] = self.now_s
            elif domain_id == domain_of(osd_ids[0]):
                self.harm_s += self._harm_of(osd_ids[0], self.changed_at_s.pop(osd_ids[0]))
        return StateOutcome(
            (make.state(before),), (make.state(after),), (), after is not before,
            (drive.drive_id,),
        )

    def check(self) -> None:
        """Never two failure domains at once; and nobody waits who is not in the step."""
        changes, step = self.machine.rollout.changes, self.machine.rollout.step
        if self.machine.rollout.status is not RolloutStatus.RUNNING:
            return
        open_ = (ChangeStatus.APPLYING, ChangeStatus.MADE)
        indices = {*step.indices, *(i for each in open_ for i in self.machine.rollout.all_in(each))}
        hosts: Set[str] = {changes[index].hostname for index in indices}
        assert len(hosts) <= 1, f"seed {self.seed}: {sorted(hosts)} at once"

    # ---- clients

    def _us(self, osd_id: int) -> float:
        """The latency of this OSD's block; noise that nobody has seen for long is drawn anew."""
        known = self.clients.get(osd_id)
        osd, at_s = known if known is not None else (Osd(self.scene, self.rng), self.now_s)
        if self.now_s - at_s > 60.0:
            osd.noise = self.rng.gauss(0.0, self.scene.spread)
        self.clients[osd_id] = osd, self.now_s
        changed = self.modes.get(domain_of(osd_id)) is WT
        return osd.next_us() * self.factor(osd_id) * (self.ratio[osd_id] if changed else 1.0)

    def _block(self, request: BlocksRequest) -> Block:
        day = math.exp(DAY_LN * math.sin(2.0 * math.pi * self.now_s / DAY_S))
        writes = int(WRITES_PER_S * request.block_s)
        return Block(request.block_s, tuple(
            OsdBlock(osd_id, day * self._us(osd_id), writes, moved=self.factor(osd_id) > 1.0)
            for osd_id in (*request.treated, *request.controls) if self.factor(osd_id)
        ))

    def _harm_of(self, osd_id: int, since_s: float) -> float:
        """What clients of an OSD have waited longer: its level is what they know."""
        known = self.clients.get(osd_id)
        us = math.exp(known[0].level if known is not None else 7.0)
        more = max(0.0, self.ratio[osd_id] - 1.0)
        return 1e-6 * us * more * WRITES_PER_S * (self.now_s - since_s)

    def _harm_s(self) -> float:
        left = (self._harm_of(osd_id, at_s) for osd_id, at_s in self.changed_at_s.items())
        return self.harm_s + sum(left)

    def _outcome(self, rollout: Rollout) -> Judged:
        changed = [domain_id for domain_id, mode in self.modes.items() if mode is WT]
        verdict = rollout.step.judgement.verdict if rollout.step.judgement else None
        if rollout.status is RolloutStatus.DONE:
            ended = "done"
        else:
            ended = "worse" if rollout.worse.indices or verdict is Effect.WORSE else "stopped"
        return Judged(
            self.seed, self.osds, self.kind, self.scene.name, self.faults, ended, len(changed),
            sum(self.ratio[osd_id] > 1.0 for osd_id in self.changed_at_s),
            self.now_s / 3600.0, self.held_s / 3600.0,
            self.steps, 0.0, rollout.harm.lost_s, rollout.reason,
        )


def judged(osds: int, seed: int, kind: Kind) -> Judged:
    """One rollout; a breach of what must hold raises AssertionError."""
    return JudgedFleet(osds, seed, kind).run()
