"""The knob `mclock` in a mgr: capacities are measured, values planned, stale ones found."""

from __future__ import annotations

import threading
from typing import AbstractSet, Any, Dict, List, Mapping, Optional, Sequence, Set, Tuple

from ....commands.views import SCOPE, Command
from ....core import codec
from ....core.config_database import Config
from ....core.errors import MalformedError, NotFoundError, NotReadyError
from ....core.experiment.campaign import RUNS_MAX, CampaignOptions
from ....core.experiment.observing_run import benches_capacity
from ....core.loads import CAPACITY_CALL_BYTES, SCHEDULER
from ....core.model import Finding, LoadPoint
from ....core.scope import parse_scope
from ....core.text import NOTHING, command, named, table, when
from ....engine.storing.archive import StoredKind
from ....engine.world import World
from ....services.guards import require_all_drives, require_config, require_scope
from ....services.plans.planners import OwnRuns, Parts, Planner
from ...knob import Asked, Wanted
from ..advice import Basis, advise
from ..capacity import (
    CALLS_DEFAULT,
    MCLOCK,
    Known,
    Knowns,
    Measurement,
    of_one,
    option,
    scheduler,
    see,
    settings,
    stacks,
)
from ..plan import choose, make_changes, make_runs, measurement_of, stale

SHOWN_MAX = 20


def _iops(iops: Optional[float], low: float, high: float) -> str:
    return "-" if iops is None else f"{iops:.0f} ({low:.0f} to {high:.0f})"


def show(data: Mapping[str, Any]) -> str:
    """`ceph wcache mclock show`."""
    blocks, lines = [], []
    if data["measured"]:
        rows = [
            (f"osd.{r['osd_id']}", r["device_class"], r["drive_models"], r["setting"], r["calls"],
             _iops(r["iops"], r["iops_low"], r["iops_high"]), when(r["ended_at_s"]),
             "forced" if r["forced"] else "")
            for r in data["measured"]
        ]
        heads = ("OSD", "CLASS", "DRIVE MODELS", "MEASURED IN", "CALLS", "IOPS (95%)", "AT (UTC)",
                 "NOTE")
        blocks.append(table(heads, rows))
    blocks += [_advice(row) for row in data["classes"]]
    if data["other_schedulers"]:
        lines.append(
            f"some OSDs schedule by {', '.join(data['other_schedulers'])} and not by mClock: "
            "they use no such capacity"
        )
    lines += [f"stale: {item['subject']}: {item['detail']}" for item in data["stale"]]
    said = "was not read yet"
    if data["read_error"]:
        said = f"could not be read: {data['read_error']}"
    elif data["read_s_ago"] is not None:
        said = f"was read {data['read_s_ago']:.0f} s ago"
    lines.append(f"the config database {said}")
    if not data["classes"]:
        lines.append("no capacity is measured yet")
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


FORECAST = command("ceph wcache campaign start --loads=capacity --dry-run")
CAPACITY = StoredKind("capacity", Measurement)
KNOWN = StoredKind("mclock/known", Knowns)
# Findings are worked out anew when something they follow from has changed, and at least
# this often, since device classes may change too; at 10,000 OSDs it takes a moment.
FINDINGS_EVERY_S = 600.0
# How old a reading may be while something is found to be wrong.
STALE_READ_S = 60.0
# Capacities kept, the newest of each OSD: three stand for a drive model.
MEASURED_MAX = 300
DRIVES_DEFAULT = 3


class MclockPlanner(Planner):
    """From measured capacities and what the config database says.

    It keeps the newest capacity of each OSD: what runs have measured outlives their campaigns.  A
    run is stored with what it measured, so nothing is lost where the mgr stops before this has
    taken it over.  In which setting of the caches each stored value was first seen is kept too: it
    is told of each reading of the config database, from its thread.
    """

    own_loads = (LoadPoint.OSD_BENCH_CAPACITY,)

    def __init__(self, parts: Parts) -> None:
        self._engine = parts.engine
        self._archive = parts.archive
        self._lock = threading.Lock()
        self._taken: Set[str] = set()  # runs whose measurement is among `measured`
        self.measured: Dict[int, Measurement] = {}
        self._kept = 0  # counts measurements: there is a new one
        self._ceph = parts.ceph
        self.known: Dict[Tuple[str, str], Known] = {}  # replaced as a whole
        # what they follow from, until when they stand, and the findings: put there at once, for
        # the serve loop and commands both ask
        self._found: Tuple[Tuple[object, ...], float, Tuple[Finding, ...]] = ((), 0.0, ())
        parts.engine.config.on_read.append(self.see)

    def _compiled_queue(self) -> str:
        # what the mgr sees is the compiled default, unless it is set for all daemons
        return str(self._ceph.get_ceph_option("osd_op_queue"))

    def load(self) -> None:
        """Take up what was stored."""
        with self._lock:
            self._taken.clear()
            self.measured = self._archive.numbered(CAPACITY)
        found = self._archive.get(KNOWN) or Knowns()
        self.known = {(k.who, k.name): k for k in found.items}
        self.take(self._engine.world())

    def take(self, world: World) -> None:
        """Keep what runs have measured since."""
        with self._lock:
            self._taken &= set(world.runs)
            for run_id, run in world.runs.items():
                if run_id in self._taken or not run.over or not benches_capacity(run.spec):
                    continue
                self._taken.add(run_id)
                for seen in run.state.observed:
                    found = measurement_of(run.spec, seen)
                    if found is not None:
                        self._keep(found)

    def _keep(self, found: Measurement) -> None:
        before = self.measured.get(found.osd_id)
        if before is not None and (
            before.ended_at_s >= found.ended_at_s or before.holds_beside(found)
        ):
            return
        self._archive.put_later(CAPACITY, found)
        self.measured[found.osd_id] = found
        self._kept += 1
        by_age = sorted(self.measured.values(), key=lambda m: m.ended_at_s)
        for old in by_age[:-MEASURED_MAX]:
            del self.measured[old.osd_id]
            self._archive.drop(CAPACITY, str(old.osd_id))

    def capacities(self, world: World) -> Tuple[Measurement, ...]:
        """What was measured until this look: a run may have ended since the last tick."""
        self.take(world)
        with self._lock:
            return tuple(self.measured.values())

    def see(self, config: Config) -> None:
        """Compare a reading with what was seen before."""
        world = self._engine.world()
        moving = world.leased | world.changing
        known = see(
            self.known, config, world.cluster.osds, settings(world.believed_real, moving)
        )
        if known != self.known:
            self.known = known
            self._archive.put_later(KNOWN, Knowns(tuple(known.values())))
        self._engine.wake()

    def tick(self, world: World) -> None:
        """Take over what was measured, and work out the findings anew where that is due."""
        self.take(world)
        read_at_s = world.config_read_at_s
        if self.stale(world) and read_at_s is not None and world.now_s - read_at_s > STALE_READ_S:
            self._engine.config.read_soon()  # a cure by hand is to be seen soon

    def stale(self, world: World) -> Tuple[Finding, ...]:
        """Stored values that do not fit the mode of the drives."""
        now_s, reports = world.now_s, tuple(world.reports.values())
        # reports are immutable and kept while nothing in them changes
        of = (world.config, self._kept, reports, world.leased | world.changing)
        before, due_s, found = self._found
        if of != before or now_s >= due_s:
            found = stale(self.gather(world)) if world.config.entries else ()
            self._found = of, now_s + FINDINGS_EVERY_S, found
        return found

    def plan(self, asked: Asked, world: World) -> Wanted:
        require_all_drives(asked.without, MCLOCK.name)
        require_config(world)
        advices = [
            advice for advice in advise(self.gather(world))
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
        calls = arguments.get("calls") or CALLS_DEFAULT
        most = arguments.get("drives_per_model") or DRIVES_DEFAULT
        scope = parse_scope(arguments.get("scope"))
        forced = bool(arguments.get("override"))
        set_to, reports = world.options, world.believed_real
        not_now = {
            use.osd_id: world.of_plans[report.hostname, drive.domain_id]
            for report in reports for drive in report.drives for use in drive.uses
            if (report.hostname, drive.domain_id) in world.of_plans
        }
        targets, skipped = choose(
            scope, reports, world.cluster, self.gather(world), forced=forced, most=most,
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
        """Stored values that do not fit the mode of the drives, as last worked out."""
        return self._found[2]

    def gather(self, world: World, with_wanted: bool = False) -> Basis:
        """Everything that advice follows from; `with_wanted` the recommended modes too."""
        reports = world.believed_real
        wanted = {
            (r.device_class, str(r.drive_model)): r.mode
            for r in (world.recommendations if with_wanted else ())
            if r.real and r.mode is not None
        }
        return Basis(
            world.cluster.osds, settings(reports, world.leased | world.changing), stacks(reports),
            world.config, self.capacities(world), self.known, wanted,
            self._compiled_queue(),
        )

    def stale_keys(
        self, world: World, changing: AbstractSet[int], changed: AbstractSet[int]
    ) -> List[str]:
        """OSDs' own stored capacities that a change of the cache mode makes stale.

        Of OSDs whose drives are still to be changed that is every one, of others those that
        are older than a change.
        """
        if not world.config.entries:
            return []
        now = settings(world.believed_real)
        found = []
        for osd_id in sorted({*changing, *changed}):
            for rotational in (True, False):
                who, name = f"osd.{osd_id}", option(rotational)
                entry, known = world.config.at(who, name), self.known.get((who, name))
                older = known is not None and known.setting and known.setting != now.get(osd_id)
                if entry is not None and (osd_id in changing or older):
                    found.append(f"{who} {name}")
        return found

    # ---- look

    def show(self, scope: Optional[str] = None) -> Dict[str, Any]:
        """`mclock show`: what was measured and set, what to set, and what overrides it."""
        wanted, world = parse_scope(scope), self._engine.world()
        require_scope(world, wanted)
        measured, capacities = [], self.capacities(world)
        for item in sorted(capacities, key=lambda item: item.osd_id):
            if not wanted.has_class(item.device_class):
                continue
            told = of_one(item.iops)
            interval = (None, None, None) if told is None else (told.iops, told.low, told.high)
            iops, low, high = (None if end is None else round(end, 1) for end in interval)
            measured.append({
                "osd_id": item.osd_id, "hostname": item.hostname,
                "device_class": item.device_class, "drive_models": item.stack,
                "option": option(item.rotational), "setting": item.setting,
                "calls": len(item.iops), "iops": iops, "iops_low": low, "iops_high": high,
                "each_iops": list(item.iops),
                "seconds": round(item.seconds, 3), "bytes_written": item.bytes_written,
                "scheduler": item.scheduler, "forced": item.forced,
                "ended_at_s": item.ended_at_s,
            })
        classes = []
        for advice in advise(self.gather(world, with_wanted=True)) if capacities else ():
            if wanted.has_class(advice.device_class):
                commands = [change.command for change in advice.changes]
                classes.append({**codec.to_plain(advice), "commands": commands})
        found, read_at_s = self.stale(world), world.config_read_at_s
        compiled = self._compiled_queue()
        queues = {
            scheduler(world.config, osd, compiled) for osd in world.cluster.osds.values()
        }
        self._engine.config.read_soon()
        return {
            "measured": measured, "classes": classes,
            "stale": [{"subject": f.subject, "detail": f.detail} for f in found],
            "other_schedulers": sorted(queues - {SCHEDULER}),
            "read_s_ago": None if read_at_s is None else round(world.now_s - read_at_s, 1),
            "read_error": world.config_error,
            "next": command("ceph wcache plan --knob=mclock")
            if any(row["changes"] for row in classes) else NOTHING if classes else FORECAST,
        }


make = MclockPlanner
ROWS: Tuple[Command, ...] = (
    Command(
        "wcache mclock show", (SCOPE,), "r",
        "Show measured capacities with their intervals, what was set, and what is recommended for "
        "osd_mclock_max_capacity_iops_* per device class, with the commands",
        lambda s, v, a: s.behind(MCLOCK.name).show(a.get("scope")), show,
        terms=("cluster", "class"),
    ),
)
