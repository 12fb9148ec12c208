"""The use cases behind `ceph wcache mclock ...`: measure capacities, show, recommend.

Each takes plain arguments, returns plain data, and raises a WcacheError with one line.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Tuple

from ..ceph.capacity import CapacityBench
from ..core import codec
from ..core.change.rollout_state import Rollout
from ..core.errors import ConflictError, MalformedError, NotFoundError, RefusedError
from ..core.experiment.campaign import parse_scope
from ..core.fleet.claims import believed
from ..core.knobs.knob import knobs_of
from ..core.knobs.mclock.advice import advise, named
from ..core.knobs.mclock.capacity import (
    ASSUMED_CALL_S,
    CALL_BYTES,
    CALLS_DEFAULT,
    CALLS_MAX,
    CALLS_MIN,
    Capacity,
    of_one,
    option,
)
from ..core.knobs.mclock.config import by_mclock, scheduler
from ..core.knobs.mclock.job import TARGETS_MAX, Job, Target
from ..core.knobs.mclock.knob import MCLOCK
from ..core.knobs.mclock.select import choose
from ..core.knobs.mclock.stale import stale
from ..core.output_format import FORMAT_VERSION
from ..engine.engine import Engine
from ..engine.mclock_known import MclockKnown
from ..engine.mclock_work import MclockWork
from ..engine.storing.archive import Archive
from .dry_run import would
from .guards import require_class, require_store
from .mclock_facts import MclockFacts

DRIVES_DEFAULT, DRIVES_MAX = 3, 100
# Looking before and after, by a probe that polls every second meanwhile.
LOOK_S = 3.0


class MclockService:
    """Use cases over the job that measures and the settings in the config database."""

    def __init__(
        self, *, engine: Engine, archive: Archive, bench: CapacityBench,
        compiled_queue: Callable[[], str],
    ) -> None:
        self._engine = engine
        self.work = MclockWork(engine=engine, archive=archive, bench=bench)
        self._known = MclockKnown(engine, archive)
        self.facts = MclockFacts(
            engine=engine, work=self.work, known=self._known, compiled_queue=compiled_queue
        )

    def load(self) -> None:
        """Take up the stored state."""
        self.work.load()
        self._known.load()

    def tick(self) -> None:
        """What is due, from the serve loop: the job, and what findings follow."""
        self.work.tick()
        self.facts.tick()

    # ---- measure

    def forecast(self, **arguments: Any) -> Dict[str, Any]:
        """`mclock forecast`: what measuring with these arguments would cost."""
        targets, calls, skipped = self._prepare(arguments)
        return {"format_version": FORMAT_VERSION, "forecast": self._cost(targets, calls, skipped)}

    def measure(self, **arguments: Any) -> Dict[str, Any]:
        """`mclock measure`: bench sampled OSDs by their own recipe, one after the other."""
        engine = self._engine
        targets, calls, skipped = self._prepare(arguments)
        cost = self._cost(targets, calls, skipped)
        forced = bool(arguments.get("force"))
        with engine.lock:
            if engine.frozen:
                raise RefusedError("the cluster is frozen", "`ceph wcache freeze --thaw`")
            require_store(engine)
            self._require_idle()
            broken = engine.view.cluster().blocking
            if broken and not forced:
                raise RefusedError(
                    f"this does not hold: {', '.join(item.value for item in broken)}",
                    "wait until it does, or use --force (the capacity is then never recommended)",
                )
            if not arguments.get("accept_cost"):
                raise RefusedError(
                    f"this writes {cost['bytes_written']} bytes in {cost['bench_calls']} bench "
                    f"calls, and clients of {cost['osds_named']} wait behind 3,000 queued writes "
                    "during each",
                    "say --accept-cost",
                )
            before = self.work.machine
            number = int(before.job.job_id[1:]) + 1 if before is not None else 1
            new = Job(f"m{number}", engine.clock(), targets, calls, forced)
            engine.note("admin", new.job_id, f"mclock measurement of {len(targets)} OSDs started")
            self.work.start(new)
        engine.wake()
        return {"format_version": FORMAT_VERSION, "job_id": new.job_id, "forecast": cost}

    def stop(self, dry_run: bool = False) -> Dict[str, Any]:
        """`mclock stop`: end a measurement after the bench call under way."""
        if dry_run:
            with self._engine.lock:
                machine = self.work.machine
                running = machine is not None and not machine.over
            return would(["end the measurement of capacities"] if running else [])
        return {"changed": self.work.halt("stopped by an admin")}

    def _require_idle(self) -> None:
        engine = self._engine
        if engine.reserved:
            raise ConflictError(f"{engine.reserved} is under way", "wait for it")
        if engine.active:
            raise ConflictError("a campaign or a plan is under way", "see `ceph wcache status`")

    def _prepare(
        self, arguments: Dict[str, Any]
    ) -> Tuple[Tuple[Target, ...], int, List[str]]:
        engine = self._engine
        calls = _bounded(arguments.get("calls"), CALLS_DEFAULT, CALLS_MIN, CALLS_MAX, "calls")
        most = _bounded(
            arguments.get("drives_per_model"), DRIVES_DEFAULT, 1, DRIVES_MAX, "drives_per_model"
        )
        scope = parse_scope(arguments.get("scope") or "cluster")
        cluster = engine.view.cluster()
        with engine.lock:
            reports = believed(
                (r for r in engine.hosts.reports.values() if not r.simulated), cluster
            )
        targets, skipped = choose(
            scope, reports, cluster, self.facts.gather(),
            forced=bool(arguments.get("force")), most=most,
        )
        if not targets:
            why = skipped[0] if skipped else f"no OSD is in scope {scope.text}"
            raise NotFoundError(f"nothing can be measured ({why})", "see `ceph wcache drive ls`")
        if len(targets) > TARGETS_MAX:
            raise MalformedError(
                f"this would measure {len(targets)} OSDs, {TARGETS_MAX} are the most",
                "narrow the scope",
            )
        more = [f"and {len(skipped) - 50} more"] if len(skipped) > 50 else []
        return tuple(targets), calls, skipped[:50] + more

    def _cost(
        self, targets: Tuple[Target, ...], calls: int, skipped: List[str]
    ) -> Dict[str, Any]:
        seconds = 0.0
        for target in targets:
            before = self.work.measured.get(target.osd_id)
            call_s = ASSUMED_CALL_S[target.rotational]
            if before is not None and before.iops:
                call_s = before.seconds / len(before.iops)
            seconds += LOOK_S + calls * call_s
        names = [f"osd.{target.osd_id}" for target in targets]
        empties = self._engine.view.cluster().bench_empties_caches
        return {
            "osds": len(targets), "osds_named": named(names), "bench_calls": calls * len(targets),
            "bytes_written": calls * len(targets) * CALL_BYTES, "seconds": round(seconds, 1),
            "osds_emptied": [target.osd_id for target in targets] if empties else [],
            "skipped": skipped,
        }

    # ---- look

    def show(self) -> Dict[str, Any]:
        """`mclock show`: what was measured, how far a measurement is, and what was set."""
        engine, machine = self._engine, self.work.machine
        with engine.lock:
            now_s = engine.clock()
            rows = []
            for _, item in sorted(self.work.measured.items()):
                capacity = of_one(item.iops)
                rows.append({
                    "osd_id": item.osd_id, "hostname": item.hostname,
                    "device_class": item.device_class, "drive_models": item.stack,
                    "option": option(item.rotational), "setting": item.setting,
                    "calls": len(item.iops), **_interval(capacity), "each_iops": list(item.iops),
                    "seconds": round(item.seconds, 3), "bytes_written": item.bytes_written,
                    "scheduler": item.scheduler, "forced": item.forced,
                    "ended_at_s": item.ended_at_s,
                })
            job = None if machine is None else {
                "job_id": machine.job.job_id, "status": machine.job.status.value,
                "reason": machine.job.reason, "osds_done": machine.job.done,
                "osds": len(machine.job.targets), "calls": machine.job.calls,
                "bytes_written": machine.job.bytes_written,
            }
            return {
                "format_version": FORMAT_VERSION, "job": job, "measured": rows,
                "changes": [
                    {
                        "change_id": r.plan_id, "created_at_s": r.created_at_s,
                        "status": r.status.value, "reason": r.reason,
                        "changes": sum(len(change.edits) for change in r.config_changes),
                    }
                    for r in self._plans()
                ],
                **self._reading(now_s),
            }

    def recommend(self, device_class: Optional[str] = None) -> Dict[str, Any]:
        """`mclock recommend`: what to set, what overrides it, and the commands by hand."""
        require_class(self._engine, device_class)
        facts = self.facts.gather(with_wanted=True)
        rows = []
        for advice in advise(facts):
            if device_class in (None, "", advice.device_class):
                plain = codec.to_plain(advice)
                plain["commands"] = [change.command for change in advice.changes]
                rows.append(plain)
        found = stale(facts)
        others = sorted({
            scheduler(facts.config, osd, facts.compiled_queue) for osd in facts.osds.values()
            if not by_mclock(facts.config, osd, facts.compiled_queue)
        })
        self._engine.config.read_soon()
        return {
            "format_version": FORMAT_VERSION, "classes": rows,
            "stale": [{"subject": f.subject, "detail": f.detail} for f in found],
            "other_schedulers": others, **self._reading(self._engine.clock()),
        }

    def _reading(self, now_s: float) -> Dict[str, Any]:
        at_s = self._engine.config.read_at_s
        return {
            "read_s_ago": None if at_s is None else round(now_s - at_s, 1),
            "read_error": self._engine.config.error,
        }

    def _plans(self) -> List[Rollout]:
        """The plans that change mClock's capacities, oldest first."""
        found = [
            machine.rollout for machine in self._engine.rollouts.values()
            if MCLOCK.name in knobs_of(machine.rollout)
        ]
        return sorted(found, key=lambda rollout: rollout.created_at_s)


def _interval(capacity: Optional[Capacity]) -> Dict[str, Optional[float]]:
    if capacity is None:
        return {"iops": None, "iops_low": None, "iops_high": None}
    return {
        "iops": round(capacity.iops, 1), "iops_low": round(capacity.low, 1),
        "iops_high": round(capacity.high, 1),
    }


def _bounded(value: Any, default: int, low: int, high: int, name: str) -> int:
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise MalformedError(f"{name} must be a whole number from {low} to {high}")
    return int(value)
