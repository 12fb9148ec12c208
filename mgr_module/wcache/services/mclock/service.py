"""The use cases behind `ceph wcache mclock ...`: measure capacities, show, recommend.

Each takes plain arguments, returns plain data, and raises a WcacheError with one line.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from ...core import codec
from ...core.change.rollout_state import Rollout
from ...core.errors import MalformedError, NotFoundError, RefusedError
from ...core.experiment.campaign import RUNS_MAX, Campaign, CampaignOptions, parse_scope
from ...core.experiment.run_state import RunStatus
from ...core.fleet.claims import believed
from ...core.host_report import HostReport
from ...core.knobs.knob import knobs_of
from ...core.knobs.mclock.advice import advise
from ...core.knobs.mclock.capacity import (
    CALLS_DEFAULT,
    CALLS_MAX,
    CALLS_MIN,
    Capacity,
    of_one,
    option,
)
from ...core.knobs.mclock.config import by_mclock, scheduler
from ...core.knobs.mclock.knob import MCLOCK
from ...core.knobs.mclock.runs import campaign_options, make_runs
from ...core.knobs.mclock.select import Target, choose
from ...core.knobs.mclock.stale import stale
from ...core.loads import CAPACITY_CALL_BYTES, CAPACITY_CALL_S
from ...core.output_format import FORMAT_VERSION
from ...core.simulation import real
from ...core.text import named
from ...core.unmet import unmet
from ...engine.engine import Engine
from ...engine.mclock.capacities import Capacities
from ...engine.mclock.known import MclockKnown
from ...engine.storing.archive import Archive
from ..campaigns import CampaignService
from ..dry_run import would
from ..guards import bounded, require_class, require_idle, require_store, require_thawed
from .facts import MclockFacts

DRIVES_DEFAULT, DRIVES_MAX = 3, 100
# Looking before and after, by a probe that polls every second meanwhile.
LOOK_S = 3.0


class _Wanted(NamedTuple):
    """What a measurement was asked for."""

    targets: Tuple[Target, ...]
    calls: int
    skipped: Tuple[str, ...]
    reports: Tuple[HostReport, ...]
    options: CampaignOptions


class MclockService:
    """Use cases over the runs that measure and the settings in the config database."""

    def __init__(
        self, *, engine: Engine, archive: Archive, compiled_queue: Callable[[], str],
    ) -> None:
        self._engine = engine
        self._campaigns = CampaignService(engine)
        self.capacities = Capacities(engine, archive)
        self._known = MclockKnown(engine, archive)
        self.facts = MclockFacts(
            engine=engine, capacities=self.capacities, known=self._known,
            compiled_queue=compiled_queue,
        )

    def load(self) -> None:
        """Take up the stored state."""
        self.capacities.load()
        self._known.load()

    def tick(self) -> None:
        """What is due, from the serve loop: what was measured, and what findings follow."""
        self.capacities.take()
        self.facts.tick()

    # ---- measure

    def forecast(self, **arguments: Any) -> Dict[str, Any]:
        """`mclock forecast`: what measuring with these arguments would cost."""
        found = self._prepare(arguments)
        return {"format_version": FORMAT_VERSION, "forecast": self._cost(found)}

    def measure(self, **arguments: Any) -> Dict[str, Any]:
        """`mclock measure`: a campaign that benches sampled OSDs and toggles nothing."""
        engine = self._engine
        found = self._prepare(arguments)
        cost = self._cost(found)
        with engine.lock:
            require_thawed(engine)
            require_store(engine)
            require_idle(engine)
            cluster = engine.view.cluster()
            if cluster.blocking and not found.options.forced:
                raise RefusedError(
                    unmet(cluster.blocking),
                    "wait until they are met, or use --force (the capacity is then never "
                    "recommended)",
                )
            if not arguments.get("accept_cost"):
                raise RefusedError(
                    f"this writes {cost['bytes_written']} bytes in {cost['bench_calls']} bench "
                    f"calls, and clients of {cost['osds_named']} wait behind 3,000 queued writes "
                    "during each",
                    "add --accept-cost",
                )
            campaign_id = self._campaigns.new_id()
            runs = make_runs(
                campaign_id, found.targets, found.calls, found.reports, cluster, found.options
            )
            campaign = Campaign(
                campaign_id, found.options, engine.clock(), 0, tuple(run.run_id for run in runs),
                found.skipped,
            )
            text = f"mclock measurement of {len(runs)} OSDs started, toggles nothing"
            self._campaigns.begin(campaign, runs, text)
        return {"format_version": FORMAT_VERSION, "job_id": campaign_id, "forecast": cost}

    def stop(self, dry_run: bool = False) -> Dict[str, Any]:
        """`mclock stop`: end a measurement; a bench call under way goes on to its end."""
        with self._engine.lock:
            campaign_id = self.capacities.under_way()
            if dry_run:
                return would(["end the measurement of capacities"] if campaign_id else [])
            if not campaign_id:
                return {"changed": False}
            return {"changed": self._campaigns.stop(campaign_id)["changed"]}

    def _prepare(self, arguments: Dict[str, Any]) -> _Wanted:
        engine = self._engine
        calls = bounded(arguments.get("calls"), CALLS_DEFAULT, CALLS_MIN, CALLS_MAX, "calls")
        most = bounded(
            arguments.get("drives_per_model"), DRIVES_DEFAULT, 1, DRIVES_MAX, "drives_per_model"
        )
        scope = parse_scope(arguments.get("scope") or "cluster")
        forced = bool(arguments.get("force"))
        cluster, set_to = engine.view.cluster(), engine.options()
        with engine.lock:
            reports = believed(real(engine.hosts.reports.values()), cluster)
        targets, skipped = choose(
            scope, reports, cluster, self.facts.gather(), forced=forced, most=most
        )
        if not targets:
            why = skipped[0] if skipped else f"no OSD is in scope {scope.text}"
            raise NotFoundError(f"nothing can be measured ({why})", "see `ceph wcache drive ls`")
        if len(targets) > RUNS_MAX:
            raise MalformedError(
                f"this would measure {len(targets)} OSDs, {RUNS_MAX} are the most",
                "narrow the scope",
            )
        more = [f"and {len(skipped) - 50} more"] if len(skipped) > 50 else []
        options = campaign_options(
            scope.text, drives_per_model=most, calls=calls, forced=forced,
            latency_limit_ms=set_to.latency_limit_ms, seconds_max=set_to.experiment_seconds_max,
        )
        return _Wanted(
            tuple(targets), calls, (*skipped[:50], *more), tuple(reports), options
        )

    def _cost(self, found: _Wanted) -> Dict[str, Any]:
        by_host: Dict[str, float] = defaultdict(float)
        for target in found.targets:
            before = self.capacities.measured.get(target.osd_id)
            call_s = CAPACITY_CALL_S[target.rotational]
            if before is not None and before.iops:
                call_s = before.seconds / len(before.iops)
            by_host[target.hostname] += LOOK_S + found.calls * call_s
        hosts = self._engine.options().parallel_hosts_max
        names = [f"osd.{target.osd_id}" for target in found.targets]
        empties = self._engine.view.cluster().bench_empties_caches
        calls = found.calls * len(found.targets)
        return {
            "osds": len(found.targets), "osds_named": named(names), "bench_calls": calls,
            "bytes_written": calls * CAPACITY_CALL_BYTES,
            "seconds": round(max(*by_host.values(), sum(by_host.values()) / hosts), 1),
            "osds_emptied": [target.osd_id for target in found.targets] if empties else [],
            "skipped": list(found.skipped),
        }

    # ---- look

    def show(self) -> Dict[str, Any]:
        """`mclock show`: what was measured, how far a measurement is, and what was set."""
        engine = self._engine
        with engine.lock:
            self.capacities.take()  # a run may have ended since the last tick
            now_s = engine.clock()
            rows = []
            for _, item in sorted(self.capacities.measured.items()):
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
            return {
                "format_version": FORMAT_VERSION, "job": self._job(), "measured": rows,
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

    def _job(self) -> Optional[Dict[str, Any]]:
        """How far the newest measurement is; its id is that of its campaign."""
        campaign = self.capacities.newest()
        if campaign is None:
            return None
        runs = self.capacities.runs_of(campaign)
        aborted = [run.state.reason for run in runs if run.state.status is RunStatus.ABORTED]
        status = "running" if any(not run.over for run in runs) else "stopped"
        if status == "stopped" and not aborted:
            status = "done"
        return {
            "job_id": campaign.campaign_id, "status": status, "reason": next(iter(aborted), ""),
            "osds_done": sum(run.state.status is RunStatus.DONE for run in runs),
            "osds": len(campaign.run_ids),
            "calls": max((run.spec.experiments[0].samples_per_period for run in runs), default=0),
            "bytes_written": sum(run.bytes_spent for run in runs),
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
