"""A few simulated drives and everything a probe is made of, in virtual time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, List, Optional, Sequence, Union

from fake_mgr import FSID, ScriptedMgr
from wcache.core.errors import WcacheError
from wcache.core.host_report import Waiting
from wcache.core.model import CacheMode, DriveReport
from wcache.core.protocol import Lease, Outcome, Request, SetModeRequest, StateOutcome
from wcache_probe.agent import ProbeLoop
from wcache_probe.mgr_link import Identity
from wcache_probe.restoring.owed import Holds, Restoring
from wcache_probe.restoring.restorer import RestoreApart, Results
from wcache_probe.switcher import AfterStep, Switcher, nothing
from wcache_probe.switching.lease import LeaseKeeper
from wcache_probe.tasks import TaskRunner
from wcache_probe.worker import Job
from wcache_sim.drive_schema import parse_drive_file
from wcache_sim.host import SimulatedHost

BACK, THROUGH = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH

DRIVES = """
schema = 1

[[drive]]
name = "obeys"
model = "HDD"
transport = "sas"
rotational = true
wwn = "0x5000000000000001"
cache = { savable = true }
[drive.latency]
fua_write = { median_us = 300 }
dirty_flush = { median_us = 12000 }

[[drive]]
name = "ignores"
model = "LIAR"
transport = "sata"
wwn = "0x5000000000000002"
cache = { toggle = "ignores" }
[drive.latency]
fua_write = { median_us = 300 }
dirty_flush = { median_us = 2000 }

[[drive]]
name = "refuses"
model = "STUBBORN"
wwn = "0x5000000000000003"
cache = { toggle = "refuses" }
[drive.latency]
fua_write = { median_us = 300 }
dirty_flush = { median_us = 2000 }

[[drive]]
name = "nvme"
model = "NVME"
transport = "nvme"
wwn = "0x5000000000000004"
[drive.latency]
fua_write = { median_us = 300 }
dirty_flush = { median_us = 2000 }

[[drive]]
name = "off"
model = "CAUTIOUS"
wwn = "0x5000000000000005"
cache = { default = "write through" }
[drive.latency]
fua_write = { median_us = 300 }
dirty_flush = { median_us = 2000 }
"""
OBEYS, IGNORES, REFUSES, NVME, OFF = (f"0x500000000000000{n}" for n in range(1, 6))


class WorkHere:
    """A worker that has done at once what it is given: simulated drives never hang."""

    busy = False

    def give(self, job: Job) -> None:
        job()

    def begin(self, name: str) -> None:
        """Nobody asks what it is at."""

    at = begin

    def waiting(self, over_s: float) -> Optional[Waiting]:
        return None

    def wait(self, seconds: float) -> bool:
        return True


class RestoreHere:
    """In this process: simulated drives never hang."""

    def __init__(self, switcher: Switcher) -> None:
        self._switcher = switcher

    def restore(self, keys: Sequence[str], patience_s: Optional[float] = None) -> Results:
        """As `RestoreApart` does it."""
        results: Results = {}
        for key in keys:
            try:
                self._switcher.restore_key(key)
                results[key] = None
            except WcacheError as error:
                results[key] = error
        return results


@dataclass
class Clock:
    """Virtual seconds."""

    now_s: float = 1000.0

    def __call__(self) -> float:
        return self.now_s

    def ns(self) -> int:
        return int(self.now_s * 1e9)


@dataclass
class FakeStop:
    """Stops after a number of waits; a wait lets virtual time pass."""

    clock: Clock
    turns: int = 1
    waits_s: List[float] = field(default_factory=list)

    def is_set(self) -> bool:
        return len(self.waits_s) >= self.turns

    def wait(self, seconds: float) -> None:
        self.waits_s.append(seconds)
        self.clock.now_s += seconds

    def wake(self, end: bool) -> None:
        """No wait is under way."""


class StopNever:
    """Never stops; a wait lets virtual time pass."""

    def __init__(self, probe: Probe) -> None:
        self.probe = probe

    def is_set(self) -> bool:
        return False

    def wait(self, seconds: float) -> None:
        self.probe.clock.now_s += seconds

    def wake(self, end: bool) -> None:
        """No wait is under way."""


@dataclass
class MemoryJournal:
    """The Journal port in memory; `error` is raised by the next write."""

    entries: Dict[str, str] = field(default_factory=dict)
    error: Optional[WcacheError] = None

    def read(self) -> Dict[str, str]:
        return dict(self.entries)

    def write(self, key: str, text: str) -> None:
        if self.error is not None:
            raise self.error
        self.entries[key] = text

    def remove(self, key: str) -> None:
        self.entries.pop(key, None)

    def held_elsewhere(self, domain_id: str, drive_ids) -> str:
        return ""


class Crash(BaseException):
    """The process ends here: nothing of ours may run any more."""


def crash_after(number: int) -> AfterStep:
    """A hook that ends the process after a step of a change."""

    def hook(done: int, _step: object) -> None:
        if done == number:
            raise Crash

    return hook


class Probe:
    """A probe on simulated drives, in this process; survives its own crash by `restart`."""

    make_host = SimulatedHost

    def __init__(self, drives: str = DRIVES) -> None:
        self.clock = Clock()
        self.mgr = ScriptedMgr()
        self.journal = MemoryJournal()
        self.host = self.make_host(parse_drive_file(drives), "sim1", clock_ns=self.clock.ns)
        self.mgr.host = self.host
        self.said: List[str] = []
        self.starts = self.asked = 0
        self.restart()

    def restart(self, after_step: AfterStep = nothing) -> None:
        """A new process: what the journal and the drives say is all that is known."""
        self.starts += 1
        self.switcher = Switcher(
            self.host, self.journal, after_step,
            may_not_go_on=lambda: self.keeper.may_not_go_on(self.clock()),
        )
        self.host.watched_by(lambda what: None, self.switcher.require_to_go_on)
        sound, _ = self.switcher.read_journal()
        self.keeper = LeaseKeeper(
            {e.domain_id: e.owner_id for e in sound.values() if e.kind.value == "lease"}
        )
        self.identity = Identity("sim1", "probe", f"start{self.starts}", True, FSID)
        self.holds = Holds(self.keeper, self.switcher.read_journal)
        self.restore_by(RestoreHere(self.switcher))
        self.runner = TaskRunner(
            host=self.host, switcher=self.switcher, keeper=self.keeper, holds=self.holds,
            identity=self.identity, clock=self.clock, wall=self.clock,
        )

    def restore_by(self, restorer: RestoreApart) -> None:
        """What is owed is brought back by this from now on."""
        self.restoring = Restoring(
            keeper=self.keeper, holds=self.holds, restorer=restorer,
            instance_id=self.identity.instance_id, say=self.said.append, clock=self.clock,
            works_on=lambda: self.switcher.works_on,
        )

    def run(self, turns: int = 1) -> FakeStop:
        """Some turns of the loop, then a clean stop."""
        stop = FakeStop(self.clock, turns)
        self.agent(stop).run()
        return stop

    def agent(self, stop: Union[FakeStop, StopNever]) -> ProbeLoop:
        """A new loop over what is there."""
        return ProbeLoop(
            identity=self.identity, link=self.mgr, keeper=self.keeper, restoring=self.restoring,
            runner=self.runner, worker=WorkHere(), stop=stop, say=self.said.append,
            clock=self.clock, jitter=lambda low, high: (low + high) / 2,
        )

    def ask(self, request: Request) -> Outcome:
        """Have the mgr ask for something, for one turn; returns the answer."""
        self.asked += 1  # a repeated id would repeat the answer alone
        self.mgr.ask(f"t{self.asked}", request)
        self.agent(StopNever(self)).run_turn()
        return self.mgr.outcome(f"t{self.asked}")

    @property
    def drive(self) -> DriveReport:
        """The first of its drives."""
        (drive,) = self.host.domain(OBEYS)
        return drive

    def mode(self, domain_id: str) -> CacheMode:
        """What the drive itself is set to."""
        (drive,) = self.host.domain(domain_id)
        found = drive.mode
        assert found is not None
        return found


def lease(domain_id: str = OBEYS, lease_id: str = "L1", ttl_s: float = 30.0) -> Lease:
    """A lease as the mgr gives it."""
    return Lease(lease_id, domain_id, ttl_s)


def hold(probe: Probe, domain_id: str = OBEYS) -> None:
    """Leave the domain in write through under a live lease, as between two polls."""
    probe.mgr.lease = lease(domain_id)
    probe.mgr.ask("hold", SetModeRequest(domain_id, THROUGH))
    stop = StopNever(probe)
    probe.agent(stop).run_turn()
    assert probe.mode(domain_id) is THROUGH
    assert isinstance(probe.mgr.outcome("hold"), StateOutcome)
