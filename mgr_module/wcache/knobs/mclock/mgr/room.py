"""The knob `mclock` in a mgr: capacities are measured, values planned, stale ones found.

Each use case takes plain arguments, returns plain data, and raises a WcacheError with one line.

The answers of `ceph wcache mclock ...` as text.
"""

from __future__ import annotations

from typing import AbstractSet, Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from ....commands.views import SCOPE, Command
from ....core import codec
from ....core.errors import MalformedError, NotFoundError, NotReadyError
from ....core.experiment.campaign import RUNS_MAX, Campaign, CampaignOptions
from ....core.experiment.run import RunMachine
from ....core.experiment.run_state import RunStatus
from ....core.jobs import Holding, Touched
from ....core.loads import CAPACITY_CALL_BYTES, SCHEDULER
from ....core.model import Finding, LoadPoint
from ....core.scope import parse_scope
from ....core.text import FORMAT_VERSION, amount, command, many, named, table, when
from ....engine.engine import Engine
from ....engine.storing.archive import Archive
from ....engine.world import World
from ....services.guards import bounded, require_all_drives, require_config, require_scope
from ....services.plans.planners import OwnRuns, Parts, Planner
from ...knob import Asked, Wanted, knobs_of
from ..advice import advise
from ..capacity import CALLS_DEFAULT, CALLS_MAX, CALLS_MIN, MCLOCK, of_one, option, scheduler
from ..plan import make_changes
from ..runs import choose, make_runs
from .facts import MclockFacts

SHOWN_MAX = 20
FORECAST = "ceph wcache campaign start --loads=capacity --dry-run"


def _iops(iops: Optional[float], low: float, high: float) -> str:
    return "-" if iops is None else f"{iops:.0f} ({low:.0f} to {high:.0f})"


def _reading_lines(data: Mapping[str, Any]) -> List[str]:
    if data["read_error"]:
        return [f"the config database could not be read: {data['read_error']}"]
    if data["read_s_ago"] is None:
        return ["the config database was not read yet"]
    return [f"the config database was read {data['read_s_ago']:.0f} s ago"]


def show(data: Mapping[str, Any]) -> str:
    """`ceph wcache mclock show`."""
    lines = []
    job = data["job"]
    if job is not None:
        reason = f" ({job['reason']})" if job["reason"] else ""
        lines.append(
            f"measurement {job['job_id']}: {job['status']}{reason}, {job['osds_done']} of "
            f"{job['osds']} OSDs, {job['calls']} calls each, {amount(job['bytes_written'])} written"
        )
    if data["measured"]:
        rows = [
            (f"osd.{r['osd_id']}", r["device_class"], r["drive_models"], r["setting"], r["calls"],
             _iops(r["iops"], r["iops_low"], r["iops_high"]), when(r["ended_at_s"]),
             "forced" if r["forced"] else "")
            for r in data["measured"]
        ]
        heads = ("OSD", "CLASS", "DRIVE MODELS", "MEASURED IN", "CALLS", "IOPS (95%)", "AT (UTC)",
                 "NOTE")
        lines += ["", table(heads, rows)]
    else:
        lines.append("no capacity is measured yet")
    for change in data["changes"]:
        reason = f" ({change['reason']})" if change["reason"] else ""
        lines.append(
            f"{change['change_id']}: {many(change['changes'], 'change')} of "
            f"{when(change['created_at_s'])}, {change['status']}{reason}"
        )
    following = "ceph wcache mclock recommend" if data["measured"] else FORECAST
    return "\n".join([*lines, *_reading_lines(data), f"next: {following}"])


def recommend(data: Mapping[str, Any]) -> str:
    """`ceph wcache mclock recommend`."""
    blocks = [_advice(row) for row in data["classes"]]
    lines = []
    if data["other_schedulers"]:
        lines.append(
            f"some OSDs schedule by {', '.join(data['other_schedulers'])} and not by mClock: "
            "they use no such capacity"
        )
    lines += [f"stale: {item['subject']}: {item['detail']}" for item in data["stale"]]
    lines += _reading_lines(data)
    if not data["classes"]:
        lines += ["no capacity is measured yet", f"next: {FORECAST}"]
    elif any(row["changes"] for row in data["classes"]):
        lines.append("next: ceph wcache plan --knob=mclock (exactly these changes)")
    return "\n\n".join([*blocks, "\n".join(lines)])


def _advice(row: Mapping[str, Any]) -> str:
    value: Optional[int] = row["iops"]
    lines = [f"class {row['device_class']}: {row['option']} {value if value else 'not known'}"]
    for item in row["models"]:
        measured = item["capacity"]
        over = (
            f"95% interval of the mean of {measured['drives']} OSDs" if measured["drives"] > 1
            else "95% interval of one OSD's calls"
        )
        lines.append(
            f"  {item['stack'] or '(unnamed)'} in {item['setting']}: "
            f"{_iops(measured['iops'], measured['low'], measured['high'])} IOPS, {over}, "
            f"{measured['calls']} calls"
        )
    if row["shadowing"]:
        keys = named(row["shadowing"], SHOWN_MAX)
        lines.append(f"  overridden by the OSDs' own keys: {keys}")
    lines += [f"  {command}" for command in row["commands"][:SHOWN_MAX]]
    if len(row["commands"]) > SHOWN_MAX:
        more_count = len(row["commands"]) - SHOWN_MAX
        lines.append(f"  and {more_count} more commands: see --format json")
    if row["models"] and not row["commands"] and not row["warnings"]:
        lines.append("  every value is as recommended")
    lines += [f"  note: {line}" for line in row["warnings"]]
    return "\n".join(lines)


DRIVES_DEFAULT, DRIVES_MAX = 3, 100


def make(parts: Parts) -> Planner:
    """Make the planner."""
    # what the mgr sees is the compiled default, unless it is set for all daemons
    return MclockPlanner(
        parts.engine, parts.archive, lambda: str(parts.ceph.get_ceph_option("osd_op_queue"))
    )


class MclockPlanner(Planner):
    """From measured capacities and what the config database says."""

    own_loads = (LoadPoint.OSD_BENCH_CAPACITY,)

    def __init__(
        self, engine: Engine, archive: Archive, compiled_queue: Callable[[], str]
    ) -> None:
        self._engine = engine
        self.facts = MclockFacts(engine, archive, compiled_queue)

    def plan(self, asked: Asked, world: World) -> Wanted:
        """See Planner."""
        require_all_drives(asked.without, MCLOCK.name)
        require_config(world)
        advices = [
            advice for advice in advise(self.facts.gather(world))
            if asked.scope.has_class(advice.device_class)
        ]
        if not advices:
            raise NotReadyError(
                "no capacity was measured yet, so there is nothing to plan by",
                "measure with `ceph wcache campaign start --loads=capacity`",
            )
        return make_changes(asked, advices, world.cluster, world.config)

    def own_runs(
        self, world: World, campaign_id: str, arguments: Mapping[str, Any]
    ) -> OwnRuns:
        """See Planner."""
        calls = bounded(arguments.get("calls"), CALLS_DEFAULT, CALLS_MIN, CALLS_MAX, "calls")
        most = bounded(
            arguments.get("drives_per_model"), DRIVES_DEFAULT, 1, DRIVES_MAX, "drives_per_model"
        )
        scope = parse_scope(arguments.get("scope"))
        forced = bool(arguments.get("force"))
        set_to, reports = world.options, world.believed_real
        not_now = {
            use.osd_id: world.of_plans[report.hostname, drive.domain_id]
            for report in reports for drive in report.drives for use in drive.uses
            if (report.hostname, drive.domain_id) in world.of_plans
        }
        targets, skipped = choose(
            scope, reports, world.cluster, self.facts.gather(world), forced=forced, most=most,
            not_now=not_now,
        )
        if not targets:
            why = skipped[0] if skipped else f"no OSD is in scope {scope}"
            raise NotFoundError(f"nothing can be measured ({why})", "see `ceph wcache drive ls`")
        if len(targets) > RUNS_MAX:
            raise MalformedError(
                f"this would measure {len(targets)} OSDs, {RUNS_MAX} are the most",
                "narrow the scope",
            )
        more = [f"and {len(skipped) - 50} more"] if len(skipped) > 50 else []
        options = CampaignOptions(  # it has neither pairs nor settling
            str(scope), self.own_loads, 4, most, 0.0, 0.0, set_to.latency_limit_ms,
            set_to.experiment_seconds_max, calls * CAPACITY_CALL_BYTES, forced=forced, observe=True,
        )
        runs = make_runs(campaign_id, targets, calls, reports, world.cluster, options)
        who = named([f"osd.{target.osd_id}" for target in targets])
        cost = f"clients of {who} wait behind 3,000 queued writes during each"
        return OwnRuns(runs, (*skipped[:50], *more), options, cost)

    def findings(self, world: World) -> Sequence[Finding]:
        """Stored values that do not fit the mode of the drives."""
        return self.facts.findings()

    def load(self) -> None:
        """See Planner."""
        self.facts.load()

    def tick(self, world: World) -> None:
        """See Planner."""
        self.facts.tick(world)

    def measuring(self, world: World) -> Optional[Holding]:
        """See Planner."""
        campaign = _newest(world)
        specs = [run.spec for run in _runs_of(world, campaign) if not run.over] if campaign else []
        if campaign is None or not specs:
            return None
        return Holding(
            f"mclock measurement {campaign.campaign_id}",
            Touched(
                frozenset(spec.hostname for spec in specs),
                frozenset(osd_id for spec in specs for osd_id in spec.osd_ids),
            ),
            command("ceph wcache mclock show"),
        )

    def stale_keys(
        self, world: World, changing: AbstractSet[int], changed: AbstractSet[int]
    ) -> List[str]:
        """See Planner."""
        return self.facts.stale_keys(world, changing, changed)

    # ---- look

    def show(self) -> Dict[str, Any]:
        """`mclock show`: what was measured, how far a measurement is, and what was set."""
        world = self._engine.world()
        rows = []
        for item in sorted(self.facts.capacities(world), key=lambda item: item.osd_id):
            told = of_one(item.iops)
            interval = (None, None, None) if told is None else (told.iops, told.low, told.high)
            iops, low, high = (None if end is None else round(end, 1) for end in interval)
            rows.append({
                "osd_id": item.osd_id, "hostname": item.hostname,
                "device_class": item.device_class, "drive_models": item.stack,
                "option": option(item.rotational), "setting": item.setting,
                "calls": len(item.iops), "iops": iops, "iops_low": low, "iops_high": high,
                "each_iops": list(item.iops),
                "seconds": round(item.seconds, 3), "bytes_written": item.bytes_written,
                "scheduler": item.scheduler, "forced": item.forced,
                "ended_at_s": item.ended_at_s,
            })
        return {
            "format_version": FORMAT_VERSION, "job": _job(world), "measured": rows,
            "changes": [
                {
                    "change_id": r.plan_id, "created_at_s": r.created_at_s,
                    "status": r.status.value, "reason": r.reason,
                    "changes": sum(len(change.edits) for change in r.config_changes),
                }
                for r in sorted(world.plans, key=lambda plan: plan.created_at_s)
                if MCLOCK.name in knobs_of(r)
            ],
            **_reading(world),
        }

    def recommend(self, scope: Optional[str] = None) -> Dict[str, Any]:
        """`mclock recommend`: what to set, what overrides it, and the commands by hand."""
        wanted, world = parse_scope(scope, ("class",)), self._engine.world()
        require_scope(world, wanted)
        rows, measured = [], self.facts.capacities(world)
        for advice in advise(self.facts.gather(world, with_wanted=True)) if measured else ():
            if wanted.has_class(advice.device_class):
                plain = codec.to_plain(advice)
                plain["commands"] = [change.command for change in advice.changes]
                rows.append(plain)
        found = self.facts.stale(world)
        compiled = self.facts.compiled_queue()
        queues = {
            scheduler(world.config, osd, compiled) for osd in world.cluster.osds.values()
        }
        self._engine.config.read_soon()
        return {
            "format_version": FORMAT_VERSION, "classes": rows,
            "stale": [{"subject": f.subject, "detail": f.detail} for f in found],
            "other_schedulers": sorted(queues - {SCHEDULER}), **_reading(world),
        }


def _newest(world: World) -> Optional[Campaign]:
    """The newest campaign that measures capacities."""
    found = [
        c for c in world.campaigns.values() if LoadPoint.OSD_BENCH_CAPACITY in c.options.loads
    ]
    found.sort(key=lambda c: (c.created_at_s, len(c.campaign_id), c.campaign_id))
    return found[-1] if found else None


def _runs_of(world: World, campaign: Campaign) -> List[RunMachine]:
    """Its runs, in order."""
    return [world.runs[run_id] for run_id in campaign.run_ids if run_id in world.runs]


def _job(world: World) -> Optional[Dict[str, Any]]:
    """How far the newest measurement is; its id is that of its campaign."""
    campaign = _newest(world)
    if campaign is None:
        return None
    runs = _runs_of(world, campaign)
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


def _reading(world: World) -> Dict[str, Any]:
    at_s = world.config_read_at_s
    return {
        "read_s_ago": None if at_s is None else round(world.now_s - at_s, 1),
        "read_error": world.config_error,
    }


ROWS: Tuple[Command, ...] = (
    Command(
        "wcache mclock show", (), "r",
        "Show measured capacities with their intervals, and what was set",
        lambda s, v, a: s.behind(MCLOCK.name).show(), show,
    ),
    Command(
        "wcache mclock recommend", (SCOPE,), "r",
        "Recommend osd_mclock_max_capacity_iops_* per device class, with the commands",
        lambda s, v, a: s.behind(MCLOCK.name).recommend(a.get("scope")), recommend,
    ),
)
