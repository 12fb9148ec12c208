"""Runs the measurement of mClock capacities: the job's actions, in order, one OSD at a time."""

from __future__ import annotations

import queue
from typing import Dict, List, Optional, Tuple

from ..ceph.capacity import CapacityBench
from ..core.errors import StorageError
from ..core.knobs.mclock import job
from ..core.knobs.mclock.capacity import Measurement, settings
from ..core.ports import Done
from .engine import Engine
from .storing.archive import Archive

# How often the cluster's health is looked at while OSDs are benched.
CLUSTER_EVERY_S = 5.0
# Capacities kept, the newest of each OSD: three stand for a drive model.
MEASURED_MAX = 300


class MclockWork:
    """The job under way and what was measured; guarded by the engine's lock."""

    def __init__(self, *, engine: Engine, archive: Archive, bench: CapacityBench) -> None:
        self._engine = engine
        self._archive = archive
        self._bench = bench
        self._events: queue.Queue[Tuple[str, job.Event]] = queue.Queue()
        self._cluster_at_s = 0.0
        self._benching = ""
        self.machine: Optional[job.JobMachine] = None
        self.measured: Dict[int, Measurement] = {}
        self.kept = 0  # counts measurements, so that others see when there is a new one

    def load(self) -> None:
        """Take up what was stored; a job that was under way goes on."""
        engine = self._engine
        with engine.lock:
            self.measured = self._archive.capacities()
            stored = self._archive.mclock_job()
            self.machine = None
            if stored is not None:
                self.machine = job.JobMachine(stored, engine.epoch)
                if not self.machine.over:
                    engine.note("mgr", stored.job_id, "resumed after a restart of the mgr")
                    self._do(self.machine.begin(engine.clock()))

    def start(self, new: job.Job) -> None:
        """Store a new job and begin."""
        with self._engine.lock:
            self.machine = job.JobMachine(new, self._engine.epoch)
            self._archive.put_mclock_job(new, self._done())
            self._cluster_at_s = self._engine.clock() + CLUSTER_EVERY_S
            self._do(self.machine.begin(self._engine.clock()))

    def halt(self, reason: str) -> bool:
        """Stop what is under way; whether there was something."""
        with self._engine.lock:
            if self.machine is None or self.machine.over:
                return False
            self._do(self.machine.halt(reason))
            return True

    def tick(self) -> None:
        """Take what benches said, and look whether the host has reported."""
        engine = self._engine
        with engine.lock:
            now_s = engine.clock()
            while not self._events.empty():
                token, event = self._events.get_nowait()
                if token == self._benching:
                    self._benching = ""
                self._feed(event)
            self._reserve()
            target = self.machine.target if self.machine is not None else None
            if target is None:
                return
            if engine.frozen:
                self.halt("frozen by an admin")
                return
            self._watch_cluster(now_s)
            reported_at_s = engine.hosts.reported_at_s.get(target.hostname, float("-inf"))
            setting = ""
            report = engine.hosts.reports.get(target.hostname)
            if report is not None:
                setting = settings([report]).get(target.osd_id, "")
            self._feed(job.Seen(reported_at_s, setting))

    def close(self) -> None:
        """The mgr stops: the next one goes on with this OSD."""
        with self._engine.lock:
            self._cancel()

    def _watch_cluster(self, now_s: float) -> None:
        machine = self.machine
        if machine is None or machine.job.forced or now_s < self._cluster_at_s:
            return
        self._cluster_at_s = now_s + CLUSTER_EVERY_S
        broken = self._engine.view.cluster().blocking
        if broken:
            words = ", ".join(item.value for item in broken)
            self.halt(f"this no longer holds: {words}")

    def _feed(self, event: job.Event) -> None:
        if self.machine is not None:
            self._do(self.machine.handle(event, self._engine.clock()))

    def _do(self, actions: List[job.Action]) -> None:
        engine, machine = self._engine, self.machine
        if machine is None:
            return
        for action in actions:
            self._do_one(machine, action)
        engine.hear_store()
        if machine.over:
            self._cancel()
        self._reserve()

    def _reserve(self) -> None:
        """Nothing else may measure or toggle: a bench call cannot be interrupted."""
        if self.machine is not None and not self.machine.over:
            self._engine.reserved = f"mclock measurement {self.machine.job.job_id}"
        elif self._benching:
            self._engine.reserved = "the last bench call of an mclock measurement"
        elif "mclock" in self._engine.reserved:
            self._engine.reserved = ""

    def _do_one(self, machine: job.JobMachine, action: job.Action) -> None:
        engine = self._engine
        if isinstance(action, job.Look):
            engine.hosts.reported_at_s.pop(action.hostname, None)
        elif isinstance(action, job.Bench):
            self._start_bench(machine, action)
        elif isinstance(action, job.Keep):
            self._keep(action.measurement)
        elif isinstance(action, job.SaveJob):
            self._archive.put_mclock_job(machine.job, self._done())
        else:
            engine.note("mgr", machine.job.job_id, action.text)

    def _keep(self, measurement: Measurement) -> None:
        self._archive.put_capacity(measurement, self._done())
        self.measured[measurement.osd_id] = measurement
        self.kept += 1
        by_age = sorted(self.measured.values(), key=lambda m: m.ended_at_s)
        for old in by_age[:-MEASURED_MAX]:
            del self.measured[old.osd_id]
            self._archive.drop_capacity(old.osd_id)

    def _done(self) -> Done:
        """For a write of the job: one that the mons refuse ends it."""
        def failed(error: StorageError) -> None:
            self.halt(f"stopped: {error.message}")

        return self._engine.gate.expect("mclock", self._engine.keeper.stored, failed)

    def _start_bench(self, machine: job.JobMachine, action: job.Bench) -> None:
        def done(samples: Optional[job.BenchSamples], error: str) -> None:
            event: job.Event = (
                job.Failed(action.token, error or "the bench gave nothing")
                if samples is None else job.Benched(action.token, samples)
            )
            self._events.put((action.token, event))
            self._engine.wake()

        self._benching = action.token
        said = f"osd.{action.target.osd_id}: {action.calls} bench calls"
        self._engine.note("mgr", machine.job.job_id, said)
        self._bench.start(action, machine.job.forced, done)

    def _cancel(self) -> None:
        if self._benching:
            self._bench.cancel(self._benching)


def moving_domains(engine: Engine) -> List[Tuple[str, str]]:
    """(hostname, domain id) of what experiments and plans are toggling now."""
    with engine.lock:
        held = [
            (m.spec.hostname, domain_id) for m in engine.runs.values() if m.holds_lease
            for domain_id in m.spec.domain_ids
        ]
        held += [
            (change.hostname, change.domain_id)
            for machine in engine.rollouts.values() if not machine.over
            for change in machine.rollout.drive_changes
        ]
    return held
