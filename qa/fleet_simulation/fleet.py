"""One fleet: the real engine and services over fake ports, with faults chosen by a seed.

What must hold is looked at after every step; a breach raises AssertionError.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from typing import Dict, List, Set, Tuple, Union

from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from mgr_fakes.probe import FakeProbe
from wcache.core.change.change import Change, ChangeStatus
from wcache.core.change.rollout_state import Rollout
from wcache.core.drive.safety import Safety, judge
from wcache.core.experiment.run_state import RunSpec
from wcache.core.model import CacheMode, DriveReport, LoadPoint
from wcache.core.record import Precondition

WB, WT = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH
DRIVES_PER_HOST = 10
# What a probe takes for a task; the time between two looks where nothing is under way.
BUSY_STEP_S, IDLE_STEP_S = 0.05, 10.0
HEARD_EVERY_S = 60.0  # of virtual time: hosts with nothing to do; less than SILENT_S
STEPS_PER_OSD_MAX = 2000
TASKS = 2  # of a change: a look, and the change
BENCH_S = 0.1  # what FakeLoads says of one
# Every so many seeds one has no faults: its times are those of the schedule.
CALM_EVERY = 4
OFTEN_OSDS = 300  # a larger fleet has no more faults than one of these
# A larger fleet has about so many drives to change; the others are in write through before.
CHANGES_ABOUT = 250
EXPANSIONS_MAX = 4
# Of smaller fleets every other one is judged by the gate, of larger ones fewer: blocks are many
# small events.
SMALL_OSDS, GATED_EVERY = 60, 31


@dataclass(frozen=True)
class Outcome:
    """What a seed came to; times are virtual seconds.

    A bound is what the work takes by itself, one failure domain at a time, with nothing between.
    Time in which a fault kept everything waiting is in neither.
    """

    seed: int
    osds: int
    gated: bool
    calm: bool
    steps: int
    faults: int
    campaigns: int
    measuring_s: float
    measuring_bound_s: float
    plans: int
    changes: int
    applying_s: float
    applying_bound_s: float


class Fleet:
    """Hosts with ten drives each; a tenth of them comes later.

    Small ones have every drive in write back, where write through is better.
    """

    def __init__(self, osds: int, seed: int) -> None:
        self.rng = random.Random(seed)
        self.seed, self.osds = seed, osds
        hosts = max(2, osds // DRIVES_PER_HOST)
        late = max(1, hosts // 10)
        self.on = min(1.0, CHANGES_ABOUT / osds)
        rows = [(f"h{h}", self._drives(h)) for h in range(hosts)]
        self.before = {d.domain_id: d.mode for _, drives in rows for d in drives}
        at_once = max(1, late // EXPANSIONS_MAX)
        self.later = [rows[n:n + at_once] for n in range(hosts - late, hosts, at_once)]
        self.gated = seed % 2 == 1 if osds <= SMALL_OSDS else seed % GATED_EVERY == 3
        self.calm = seed // 2 % CALM_EVERY == 0
        # a large fleet takes more steps, and each new mgr of it longer
        self.often = min(1.0, OFTEN_OSDS / osds)
        self.load_ends_s: Dict[str, float] = {}
        self.mgr = WritingMgr(
            *rows[:hosts - late], auto_quiet_s=60.0, canary_wait_s=5.0, pairs_max=4,
            auto_seconds_per_day=1e9, auto_bytes_per_day=2**50, gate_by_load=self.gated,
            gate_block_s=1.0,
        )
        self.steps = self.faults = 0
        self.measuring_s = self.applying_s = 0.0
        self.heard_at_s = 0.0
        self.due_s = BUSY_STEP_S
        self.unclean_until = 0
        self.mgr.report_all()

    def _drives(self, h: int) -> Tuple[DriveReport, ...]:
        first = h * DRIVES_PER_HOST
        return tuple(
            make.drive(f"sd{n}", n, mode=WB if self.rng.random() < self.on else WT)
            for n in range(first, first + DRIVES_PER_HOST)
        )

    def run(self) -> Outcome:
        """Grow, be hit by faults, end; then go all the way back."""
        self._ok("auto", mode="apply")
        while not self._done():
            self._fault()
            self._step()
        self._ok("auto", mode="off")
        outcome = self._outcome()
        self._back()
        return outcome

    def _done(self) -> bool:
        assert self.steps < STEPS_PER_OSD_MAX * self.osds, f"seed {self.seed}: it does not end"
        if self.later or self.mgr.engine.is_active():
            return False
        probes = self.mgr.probes.values()
        return all(mode is WT for probe in probes for mode in probe.modes().values())

    def _step(self) -> None:
        mgr, engine = self.mgr, self.mgr.engine
        self.steps += 1
        step_s = self._step_s()
        mgr.now_s += step_s
        self._count(step_s)
        everybody = mgr.now_s >= self.heard_at_s
        if everybody:
            self.heard_at_s = mgr.now_s + HEARD_EVERY_S
        waiting = set(engine.inside.hosts.reports) - set(engine.inside.hosts.reported_at_s)
        busy = {item.hostname for item in self._under_way()}
        for hostname, probe in mgr.probes.items():
            if everybody or hostname in busy or hostname in waiting:
                probe.turn(1)
        mgr.loads.run(self._load_over)
        mgr.blocks.run(mgr.now_s)
        due_s = engine.tick()
        self.due_s = math.inf if due_s is None else due_s
        mgr.service.auto.tick(mgr.engine.world())
        if self.steps == self.unclean_until:
            mgr.view.state = replace(mgr.view.state, missed=())
        self._check()

    def _under_way(self) -> List[Union[RunSpec, Change]]:
        """What runs and rollouts are busy with now."""
        engine = self.mgr.engine
        runs = [m.spec for m in engine.inside.runs.values() if m.holds_lease]
        changes = [m.current for m in engine.inside.rollouts.values() if m.under_way]
        return [*runs, *(item for item in changes if item is not None)]

    def _step_s(self) -> float:
        """To the next thing that happens; a task in flight takes a probe's time."""
        mgr, engine = self.mgr, self.mgr.engine
        if not engine.is_active():
            return IDLE_STEP_S
        if engine.inside.hosts.tasks:
            return BUSY_STEP_S
        ends_s = [*mgr.blocks.due_at_s(mgr.now_s), *map(self._load_end_s, mgr.loads.waiting)]
        left_s = min([self.due_s, *(end_s - mgr.now_s for end_s in ends_s)])
        if left_s == math.inf:  # what comes next takes no time, but where a run waits
            waits = any(not m.over and m.state.ill_since_s for m in engine.inside.runs.values())
            return IDLE_STEP_S if waits else BUSY_STEP_S
        return min(IDLE_STEP_S, max(BUSY_STEP_S, left_s))

    def _load_end_s(self, token: str) -> float:
        request, _ = self.mgr.loads.waiting[token]
        traffic = request.load_point is LoadPoint.OSD_TRAFFIC
        seconds = request.seconds if traffic else BENCH_S
        return self.load_ends_s.setdefault(token, self.mgr.now_s + seconds)

    def _load_over(self, token: str) -> bool:
        if self._load_end_s(token) > self.mgr.now_s + 1e-6:
            return False
        del self.load_ends_s[token]
        return True

    def _count(self, step_s: float) -> None:
        engine = self.mgr.engine
        if any(machine.holds_lease for machine in engine.inside.runs.values()):
            self.measuring_s += step_s
        elif self.unclean_until <= self.steps and any(
            machine.under_way for machine in engine.inside.rollouts.values()
        ):
            self.applying_s += step_s

    def _fault(self) -> None:
        chance, often = self.rng.random(), self.often
        if self.later and chance < 0.01:
            for hostname, drives in self.later.pop():
                self._expand(hostname, drives)
        elif self.calm:
            return
        elif 0.01 <= chance < 0.01 + 0.006 * often:
            self.mgr.restart()
            self.mgr.report_all()
        elif 0.016 <= chance < 0.016 + 0.006 * often:
            self.rng.choice(sorted(self.mgr.probes.items()))[1].crash()
        elif 0.022 <= chance < 0.022 + 0.003 * often and self.unclean_until <= self.steps:
            self.mgr.view.state = replace(
                self.mgr.view.state, missed=(Precondition.CLUSTER_HEALTHY,)
            )
            self.unclean_until = self.steps + self.rng.randrange(5, 50)
        else:
            return
        self.faults += 1

    def _expand(self, hostname: str, drives: Tuple[DriveReport, ...]) -> None:
        mgr = self.mgr
        osds = dict(mgr.view.state.osds)
        for drive in drives:
            for use in drive.uses:
                osds[use.osd_id] = make.osd(use.osd_id, hostname)
        mgr.view.state = replace(mgr.view.state, osds=osds)
        mgr.probes[hostname] = FakeProbe(mgr.send, hostname, drives)

    def _check(self) -> None:
        """Never two failure domains at once, never unsafe, never more than the day allows."""
        mgr = self.mgr
        touched: Set[str] = {name for name, probe in mgr.probes.items() if probe.leased}
        for machine in mgr.inside.rollouts.values():
            change = None if machine.over else machine.current
            if change is not None and change.hostname:
                touched.add(change.hostname)
        if self.gated:  # a step is in one failure domain; its changes wait together
            touched = self._touched_by_gate()
        assert len(touched) <= 1, f"seed {self.seed}: {sorted(touched)} at once"
        for name in touched:
            for drive in mgr.probes[name].drives.values():
                assert judge(drive.state) is not Safety.UNSAFE, f"seed {self.seed}: {name} unsafe"
        assert mgr.exceptions == [], f"seed {self.seed}: {mgr.exceptions[0]}"

    def _touched_by_gate(self) -> Set[str]:
        return {
            change.hostname for machine in self.mgr.inside.rollouts.values() if machine.under_way
            for change in machine.rollout.changes
            if change.status in (ChangeStatus.APPLYING, ChangeStatus.MADE)
        } | {name for name, probe in self.mgr.probes.items() if probe.leased}

    def _back(self) -> None:
        """Every plan is rolled back, the last one first."""
        for _ in range(len(self.mgr.inside.rollouts) + 1):
            code, _, _ = self.mgr.command("rollback")
            if code:
                break
            for _ in range(STEPS_PER_OSD_MAX * self.osds):
                if not self.mgr.engine.is_active():
                    break
                self._step()
        left: Dict[str, List[str]] = {
            name: [d for d, mode in probe.modes().items() if mode is not self.before[d]]
            for name, probe in self.mgr.probes.items()
        }
        assert not any(left.values()), f"seed {self.seed}: not restored"

    def _outcome(self) -> Outcome:
        engine = self.mgr.engine
        rollouts = [machine.rollout for machine in engine.inside.rollouts.values()]
        return Outcome(
            self.seed, self.osds, self.gated, self.calm, self.steps, self.faults,
            len(engine.inside.campaigns), self.measuring_s,
            sum(m.state.finished_seconds for m in engine.inside.runs.values()),
            len(rollouts), sum(len(item.changes) for item in rollouts), self.applying_s,
            sum(bound_s(item) for item in rollouts),
        )

    def _ok(self, prefix: str, **arguments: object) -> None:
        code, _, error = self.mgr.command(prefix, **arguments)
        assert code == 0, f"seed {self.seed}: {error}"


class WritingMgr(FakeMgr):
    """Its clients write all the time, faster where a drive is in write through."""

    def block_us(self, osd_id: int) -> float:
        """As in a bench."""
        return self.latency_ns(osd_id) / 1e3


def bound_s(rollout: Rollout) -> float:
    """What a plan takes at least: the gate's blocks or the waits, and a probe's answers."""
    gate, total_s, at = rollout.gate, 0.0, 0
    while at < len(rollout.changes):
        size = 1
        if gate.by_load:
            while (
                size < rollout.parallel_max and at + size < len(rollout.changes)
                and rollout.wave_of(at + size) == rollout.wave_of(at)
            ):
                size += 1
            total_s += gate.range_s(at == 0)[0] + rollout.settle_s + size * TASKS * BUSY_STEP_S
        else:
            first_s = rollout.canary_wait_s if at == 0 else 0.0
            traffic = rollout.changes[at].load_point is LoadPoint.OSD_TRAFFIC
            measured_s = 2 * (rollout.period_s if traffic else BENCH_S)
            total_s += max(first_s, rollout.settle_s) + TASKS * BUSY_STEP_S + measured_s
        at += size
    return total_s
