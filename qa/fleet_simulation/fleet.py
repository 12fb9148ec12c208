"""One fleet: the real engine and services over fake ports, with faults chosen by a seed.

What must hold is looked at after every step; a breach raises AssertionError.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Dict, List, Set, Tuple

from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from mgr_fakes.probe import FakeProbe
from wcache.core.drive.safety import Safety, judge
from wcache.core.model import CacheMode, DriveReport
from wcache.core.record import Precondition

WB, WT = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH
DRIVES_PER_HOST = 10
BUSY_STEP_S, IDLE_STEP_S = 0.05, 10.0
IDLE_POLL_STEPS = 200  # of busy ones: hosts with nothing to do are heard this seldom
STEPS_PER_OSD_MAX = 2000  # idle ones take ten seconds: well below a week


@dataclass(frozen=True)
class Outcome:
    """What a seed came to."""

    seed: int
    osds: int
    steps: int
    faults: int
    campaigns: int
    plans: int
    changes: int
    applying_s: float  # virtual seconds in which plans were under way
    bound_s: float  # of the same changes, one after another, without anything between them


class Fleet:
    """Hosts with ten drives each; a tenth of them comes later."""

    def __init__(self, osds: int, seed: int) -> None:
        self.rng = random.Random(seed)
        self.seed, self.osds = seed, osds
        hosts = max(2, osds // DRIVES_PER_HOST)
        late = max(1, hosts // 10)
        rows = [(f"h{h}", self._drives(h)) for h in range(hosts)]
        self.later = rows[hosts - late:]
        self.mgr = FakeMgr(
            *rows[:hosts - late], auto_quiet_s=60.0, canary_wait_s=5.0, pairs_max=4,
            auto_changes_per_day=max(50, osds // 4), auto_seconds_per_day=1e9,
            auto_bytes_per_day=2**50,
        )
        self.steps = self.faults = 0
        self.applying_s = 0.0
        self.unclean_until = 0
        self.mgr.report_all()

    def _drives(self, h: int) -> Tuple[DriveReport, ...]:
        first = h * DRIVES_PER_HOST
        return tuple(make.drive(f"sd{first + d}", first + d) for d in range(DRIVES_PER_HOST))

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
        if self.later or self.mgr.engine.active:
            return False
        probes = self.mgr.probes.values()
        return all(mode is WT for probe in probes for mode in probe.modes().values())

    def _step(self) -> None:
        mgr, engine = self.mgr, self.mgr.engine
        self.steps += 1
        active = engine.active
        step_s = BUSY_STEP_S if active else IDLE_STEP_S
        mgr.now_s += step_s
        self.applying_s += step_s if any(not m.over for m in engine.rollouts.values()) else 0.0
        everybody = not active or self.steps % IDLE_POLL_STEPS == 0
        waiting = set(engine.hosts.reports) - set(engine.hosts.reported_at_s)
        for hostname, probe in mgr.probes.items():
            if everybody or engine.busy(hostname) or hostname in waiting:
                probe.turn(2)
        mgr.loads.run()
        engine.tick()
        mgr.service.auto.tick()
        if self.steps == self.unclean_until:
            mgr.view.state = replace(mgr.view.state, missed=())
        self._check()

    def _fault(self) -> None:
        chance = self.rng.random()
        if self.later and chance < 0.002:
            self._expand(*self.later.pop())
        elif chance < 0.003:
            self.mgr.restart()
            self.mgr.report_all()
        elif chance < 0.004:
            self.rng.choice(sorted(self.mgr.probes.items()))[1].crash()
        elif chance < 0.0045 and self.unclean_until <= self.steps:
            self.mgr.view.state = replace(
                self.mgr.view.state, missed=(Precondition.NO_RECOVERY,)
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
        for machine in mgr.engine.rollouts.values():
            change = None if machine.over else machine.current
            if change is not None and change.hostname:
                touched.add(change.hostname)
        assert len(touched) <= 1, f"seed {self.seed}: {sorted(touched)} at once"
        for name in touched:
            for drive in mgr.probes[name].drives.values():
                assert judge(drive.state) is not Safety.UNSAFE, f"seed {self.seed}: {name} unsafe"
        assert mgr.exceptions == [], f"seed {self.seed}: {mgr.exceptions[0]}"

    def _back(self) -> None:
        """Every plan is rolled back, the last one first."""
        for _ in range(len(self.mgr.engine.rollouts) + 1):
            code, _, _ = self.mgr.command("rollback")
            if code:
                break
            for _ in range(STEPS_PER_OSD_MAX * self.osds):
                if not self.mgr.engine.active:
                    break
                self._step()
        left: Dict[str, List[str]] = {
            name: [d for d, mode in probe.modes().items() if mode is not WB]
            for name, probe in self.mgr.probes.items()
        }
        assert not any(left.values()), f"seed {self.seed}: not restored"

    def _outcome(self) -> Outcome:
        rollouts = [machine.rollout for machine in self.mgr.engine.rollouts.values()]
        changes = sum(len(item.changes) for item in rollouts)
        bound_s = sum(
            max(item.canary_wait_s, item.settle_s) + (len(item.changes) - 1) * item.settle_s
            for item in rollouts
        )
        return Outcome(
            self.seed, self.osds, self.steps, self.faults, len(self.mgr.engine.campaigns),
            len(rollouts), changes, self.applying_s, bound_s,
        )

    def _ok(self, prefix: str, **arguments: object) -> None:
        code, _, error = self.mgr.command(prefix, **arguments)
        assert code == 0, f"seed {self.seed}: {error}"
