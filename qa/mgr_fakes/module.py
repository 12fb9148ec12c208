"""The module without Ceph: its real engine, service, views and commands on fake ports."""

from __future__ import annotations

import logging
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Callable, Dict, List, Optional, Tuple

from wcache.analysis.experiment import analysed
from wcache.commands import commands
from wcache.commands.service import Service
from wcache.commands.views import Views
from wcache.core.cluster import ClusterState, OsdLatency
from wcache.core.config_database import Config
from wcache.core.events import LoadRequest, LoadSamples
from wcache.core.fleet.retention import Bounds
from wcache.core.loads import MATERIAL_RATIO, WRITE_BYTES
from wcache.core.model import Arm, DriveReport, LoadPoint
from wcache.core.options.entries import arms_of
from wcache.core.ports import Store
from wcache.core.record import CounterDelta, Record
from wcache.core.verdict.recommend import OsdProfiles
from wcache.core.verdict.result import Analysed
from wcache.engine.engine import Engine
from wcache.engine.executor import Ports
from wcache.engine.storing.archive import Archive
from wcache.knobs.mclock.capacity import MCLOCK
from wcache.knobs.memory.mgr.osds import TrialOsds
from wcache.knobs.memory.mgr.room import MemoryPlanner
from wcache.knobs.memory.reading import MEMORY
from wcache.options import Options
from wcache.services.deploying import AgentService, KeyWork
from wcache.services.plans.planners import Parts, Planner, make_all, with_all

from .builders import cluster, osd
from .deploying import FakeKeys, FakeSurroundings, FakeTraffic
from .gate import FakeBlocks, FakeStops
from .mclock import FakeBench, FakeConfig
from .memory import FakeMemory
from .osd_options import FakeOsdOptions
from .probe import FakeProbe
from .store import MemoryStore

IDLE_POLL_S = 2.0  # of virtual time; a poll that brings no task costs as much as one that does


class FakeView:
    """The `ClusterView` port: a cluster state that a test sets."""

    def __init__(self, state: ClusterState) -> None:
        self.state = state
        self.said: Dict[int, OsdLatency] = {}

    def cluster(self) -> ClusterState:
        """The state."""
        return self.state

    def latencies(self) -> Dict[int, OsdLatency]:
        """What a test lets the OSDs say."""
        return self.said


class FakeLoads:
    """The `LoadRunner` port: measures when `run` is called, what `latency_ns` says."""

    def __init__(self, latency_ns: Callable[[int], int], bench: FakeBench) -> None:
        self.latency_ns = latency_ns
        self.bench = bench
        self.waiting: Dict[str, Tuple[LoadRequest, Callable[[LoadSamples, str], None]]] = {}
        self.cancelled: List[str] = []
        self.measured = self.written_bytes = 0
        self.error, self.moved = "", False

    def start(
        self, token: str, request: LoadRequest, done: Callable[[LoadSamples, str], None]
    ) -> None:
        """Wait for `run`."""
        assert token not in self.waiting
        self.waiting[token] = (request, done)

    def cancel(self, token: str) -> None:
        """Answer late and with an error, as the real one does."""
        self.cancelled.append(token)
        if token in self.waiting:
            _, done = self.waiting.pop(token)
            done(LoadSamples(0.0), "stopped")

    def run(self, over: Callable[[str], bool] = lambda token: True) -> None:
        """Finish what is waiting, as far as its time is over."""
        for token in filter(over, list(self.waiting)):
            request, done = self.waiting.pop(token)
            self.measured += 1
            samples, error = self._samples(token, request)
            done(replace(samples, moved=self.moved) if self.moved else samples, error)

    def ends_late(self) -> Callable[[], None]:
        """The call under way goes on after a cancel, until what is returned is called."""
        ((_, done),) = self.waiting.values()
        self.waiting.clear()
        return lambda: done(LoadSamples(0.0), "stopped")

    def _samples(self, token: str, request: LoadRequest) -> Tuple[LoadSamples, str]:
        if self.error:
            return LoadSamples(0.0), self.error
        if request.load_point is LoadPoint.OSD_BENCH_CAPACITY:
            return self.bench.call(token, request)
        each_ns = self.latency_ns(request.osd_id)
        if request.load_point is LoadPoint.OSD_TRAFFIC:
            delta = CounterDelta("txc_commit_lat", each_ns * 100 / 1e9, 100)
            return LoadSamples(request.seconds, (), (delta,)), ""
        written = request.count * WRITE_BYTES[request.load_point]
        self.written_bytes += written
        return LoadSamples(0.1, (each_ns,) * request.count, (), written), ""


class FakeAnalysis:
    """The `Analysis` port: compares medians; `error` is what a missing numpy says."""

    def __init__(self) -> None:
        self.error = ""
        self.asked = 0
        self.findings: List[Dict[str, str]] = []
        self.commit_us: Optional[float] = None  # of a commit in write through

    def start(self, record: Record, done: Callable[[Optional[Analysed], str], None]) -> None:
        """Answer at once, from the caller's thread."""
        self.asked += 1
        if self.error:
            done(None, self.error)
        else:
            done(analysed(record, self._answer(record)), "")

    def _answer(self, record: Record) -> Dict[str, object]:
        if len(record.pairs) < 4:
            return {"verdict": "insufficient data", "stop": False, "why": "few pairs"}
        arms = arms_of(record.setup.option)
        levels = [self._level(record, arm) for arm in Arm]
        ratio = levels[0] / levels[1]
        verdict = "no material difference"
        if ratio > MATERIAL_RATIO or ratio < 1 / MATERIAL_RATIO:
            verdict = arms.b if ratio > 1 else arms.a
        unit = 1e-3 if record.pairs[0].a.samples_ns else 1e6
        per_arm = {
            arms.name(arm): {"n": len(record.pairs), "p50_us": 1.0, "level_us": unit * level}
            for arm, level in zip(Arm, levels)
        }
        fast = any("WCACHE_FLUSH_TOO_FAST" in str(item) for item in self.findings)
        trusted = {"verdict": verdict, "why": "medians"} if fast else None
        verdict = "insufficient data" if fast else verdict
        return {
            "verdict": verdict, "stop": True, "why": "medians", "ratio": ratio,
            "ratio_low": ratio * 0.98, "ratio_high": ratio * 1.02, "warnings": [],
            "findings": self.findings, "if_plp_trusted": trusted,
            "pin_price_us": 300.0, "write_through_commit_us": self.commit_us,
            "per_mode": per_arm, "tail_verdict": verdict,
        }

    @staticmethod
    def _level(record: Record, arm: Arm) -> float:
        pair = record.pairs[0]
        period = pair.period(arm)
        if period.samples_ns:
            return float(period.samples_ns[0])
        return period.counters[0].sum_s / period.counters[0].count


class _Kept(logging.Logger):
    """The mgr's log: (level, message) of each line, tracebacks by their message apart.

    Without records, which look for who calls: a world has more lines than anything else.
    """

    def __init__(self, mgr: FakeMgr) -> None:
        super().__init__("wcache", logging.DEBUG)
        self._mgr = mgr

    def _log(
        self, level: int, msg: object, args: Any, exc_info: Any = None, *_: Any, **__: Any
    ) -> None:
        """See logging.Logger."""
        line = str(msg) % args if args else str(msg)
        self._mgr.log_lines.append((logging.getLevelName(level), line))
        if exc_info:
            self._mgr.exceptions.append(line)


class FakeEngine(Engine):
    """The engine, whose mons answer between its ticks; and what is in it, for tests to look at."""

    def __init__(self, ports: Ports, stops: FakeStops, clock: Callable[[], float]) -> None:
        super().__init__(ports, clock=clock)
        self._stops = stops
        self.inside = self

    @property
    def free(self) -> bool:
        """Whether nobody has the lock now."""
        return not self._lock.locked()

    def tick(self) -> Optional[float]:
        """See Engine."""
        self._stops.join()
        due_s = super().tick()
        while self._stops.join():
            due_s = super().tick()
        return due_s


class FakeMgr:
    """A mgr with the module in it.  `restart()` is a failover: only the store stays."""

    def __init__(
        self, *hosts: Tuple[str, Tuple[DriveReport, ...]], store: Optional[Store] = None,
        simulated: bool = False, bounds: Bounds = Bounds(),  # noqa: B008  frozen
        make_analysis: Callable[[], Any] = FakeAnalysis, **options: Any,
    ) -> None:
        self.now_s = 1_000_000.0
        self.starting: Optional[str] = None  # why the stored state is not loaded
        self.options = replace(
            Options(
                settle_s=0.25, canary_wait_s=5.0, throwaway_cluster=simulated, gate_by_load=False,
            ), **options
        )
        self.store: Any = store if store is not None else MemoryStore()
        osds = [
            osd(use.osd_id, hostname) for hostname, drives in hosts for d in drives
            for use in d.uses
        ]
        self.view = FakeView(cluster(osds))
        self.bounds = bounds
        self.make_analysis = make_analysis
        self.exceptions: List[str] = []
        self.cluster_log: List[str] = []
        self.log_lines: List[Tuple[str, str]] = []
        self.log = _Kept(self)
        self.config = FakeConfig()
        self.keys = FakeKeys()
        self.stops = FakeStops()
        self.traffic = FakeTraffic()
        self.clients = FakeTraffic(1000.0)  # what a plan is judged by
        self.surroundings = FakeSurroundings()
        self.osd_options = FakeOsdOptions()
        self.osd_memory = FakeMemory(lambda: self.now_s, self._set_target)
        self.compiled_queue = "mclock_scheduler"
        self.profiles: OsdProfiles = {}
        self.profiles_of: Callable[..., OsdProfiles] = lambda world: self.profiles
        self.more_planners: Dict[str, Planner] = {}
        # what knobs' own adapters ask
        self.ceph = SimpleNamespace(
            get_ceph_option=lambda name: self.compiled_queue if name == "osd_op_queue" else "0"
        )
        self.osd_iops: Callable[[int, int], float] = lambda osd_id, call: 300.0 + call
        self._polls_at_s: Dict[Tuple[str, int], float] = {}
        self.restart()
        self.probes = {
            hostname: FakeProbe(self.send, hostname, drives, simulated=simulated)
            for hostname, drives in hosts
        }

    def restart(self) -> None:
        """Lose all memory and load what was stored."""
        self.store.lose()
        self.osd_options.lose()
        self.now_s += 1.0
        self.bench = FakeBench(lambda osd_id, call: self.osd_iops(osd_id, call))
        self.loads = FakeLoads(self.latency_ns, self.bench)
        self.blocks = FakeBlocks(self.block_us, self.read_us)
        self.analysis = self.make_analysis()
        archive = Archive(self.store)
        self.engine = FakeEngine(Ports(
            archive=archive, view=self.view, loads=self.loads,
            analysis=self.analysis, blocks=self.blocks, stops=self.stops,
            osd_options=self.osd_options, cluster_log=self.cluster_log.append,
            database=self.config, options=lambda: self.options, bounds=self.bounds,
            profiles=lambda world: self.profiles_of(world), log=self.log,
        ), self.stops, clock=lambda: self.now_s)
        self.inside = self.engine.inside
        self.kept_blocks = self.engine.kept_blocks
        agents = AgentService(self.engine, KeyWork(self.keys), self.surroundings)
        parts = Parts(
            self.ceph, self.engine, archive, self.view, self.surroundings, self.log
        )
        made = make_all(parts)  # in place of memory's, one that asks no Ceph
        self.mclock = made[MCLOCK.name]
        self.trial_osds = TrialOsds(
            view=self.view, log=self.log, reader=self.osd_memory, run=lambda what: what()
        )
        self.memory = MemoryPlanner(
            parts, self.osd_memory, self.trial_osds, lambda: self.now_s
        )
        knobs = with_all({**made, MEMORY.name: self.memory, **self.more_planners})
        self.service = Service(
            self.engine, knobs, agents, self.traffic, self.log, store_wait_s=0.1,
            clients=self.clients,
        )
        self.views = Views(self.engine, self.service)
        self.engine.load()
        for knob in knobs.values():
            knob.load()
        self.service.auto.load()
        self.views.warm()

    def _set_target(self, osd_id: int) -> Optional[int]:
        """osd_memory_target of an OSD by the config database."""
        osd = self.view.cluster().osds[osd_id]
        entry = Config(self.config.read()).of_osd(osd, "osd_memory_target")
        return None if entry is None else int(float(entry.value))

    def latency_ns(self, osd_id: int) -> int:
        """What a write to the OSD takes, in the mode its drive is in."""
        hostname = self.view.state.osds[osd_id].hostname
        found = self._latency_ns(self.probes.get(hostname), osd_id)
        # a test may have moved a drive to a host that the cluster does not name
        return found or next(
            filter(None, (self._latency_ns(one, osd_id) for one in self.probes.values())), 1_000_000
        )

    @staticmethod
    def _latency_ns(probe: Optional[FakeProbe], osd_id: int) -> int:
        for drive in probe.drives.values() if probe is not None else ():
            if drive.mode and any(use.osd_id == osd_id for use in drive.uses):
                return probe.latency_ns[drive.mode]
        return 0

    def block_us(self, osd_id: int) -> float:
        """The commit latency of its clients; 0 where nothing writes."""
        return 0.0

    def read_us(self, osd_id: int) -> float:
        """The latency of its clients' reads; 0 where nothing reads."""
        return 0.0

    def command(self, prefix: str, inbuf: str = "", **arguments: Any) -> Tuple[int, str, str]:
        """One `ceph wcache` command, as a mgr hands it over."""
        cmd = {"prefix": f"wcache {prefix}".strip(), "target": ["mgr", ""], **arguments}
        return commands.answer(
            self.service, self.views, cmd, inbuf, self.exceptions.append, self.starting
        )

    def send(self, prefix: str, hostname: str, body: str) -> Tuple[int, str, str]:
        """A probe's call."""
        cmd = {"prefix": prefix, "hostname": hostname}
        return commands.answer(self.service, self.views, cmd, body, self.exceptions.append)

    def step(self, seconds: float = 0.3) -> None:
        """A little time: probes have a turn of one task, loads end, the module ticks."""
        self.now_s += seconds
        for probe in self.probes.values():
            if self._polls(probe):
                probe.turn()
        self.loads.run()
        self.osd_options.run()
        self.blocks.run(self.now_s)
        self.engine.tick()
        self.service.tick()
        while self.inside.config.turn():
            self.engine.tick()

    def steps(self, times: int, seconds: float = 0.3) -> None:
        """So many of them."""
        for _ in range(times):
            self.step(seconds)

    def _polls(self, probe: FakeProbe) -> bool:
        """Whether a probe asks now: at once where a task waits, else each IDLE_POLL_S."""
        hosts, hostname, start = self.inside.hosts, probe.hostname, (probe.hostname, probe.starts)
        if (
            self.now_s < self._polls_at_s.get(start, 0.0)
            and hostname not in hosts.tasks and hostname in hosts.reported_at_s
        ):
            return False
        self._polls_at_s[start] = self.now_s + IDLE_POLL_S
        return True

    def settle(self, steps: int = 3000) -> None:
        """Go on until nothing is under way."""
        for _ in range(steps):
            if not self.engine.is_active():
                return
            self.step()
        raise AssertionError("still under way")

    def report_all(self) -> None:
        """Every probe reports its drives."""
        for probe in self.probes.values():
            probe.turn(2)
