"""`ceph wcache recommend`: a cache mode for each drive model of a device class."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import (
    Any,
    Callable,
    Collection,
    Dict,
    Iterable,
    List,
    Mapping,
    Optional,
    Tuple,
)

from ..core import codec
from ..core.automation.state import Modes
from ..core.drive.manual import by_hand
from ..core.host_report import lost_models
from ..core.model import CacheMode, DriveReport, load_name
from ..core.options.entries import CACHE_MODES
from ..core.scope import Scope, parse_scope
from ..core.text import NAMED_MAX, command, listed, named, relative, ticked, typed
from ..core.verdict.explaining import (
    budgets,
    expected,
    noop_flushes,
    of_write_through,
    settling,
)
from ..core.verdict.hosts_by_model import counted
from ..core.verdict.load_profile import LoadProfile
from ..core.verdict.recommend import BURSTS, FEW, Recommendation
from ..core.verdict.repeated import Standing, standing
from ..core.verdict.result import Result, turned_off
from ..engine.world import World
from ..services.guards import require_scope
from ..services.plans.planners import Planner
from .campaigns import dev_names, told
from .evidence import foreign
from .tables import NUMBER, Column, cost_words, listing, model_of

ProfilesByOsd = Callable[[], Mapping[int, LoadProfile]]
Held = Callable[[World], Mapping[Tuple[str, str], str]]
"""By device class and drive model: why `auto` does not apply its mode by itself any more."""


@dataclass(frozen=True)
class Recommended:
    """What is recommended, with evidence and commands."""

    knobs: Collection[Planner]
    held: Held
    summary: Callable[[World], Mapping[str, Any]]
    modes: Callable[[], Modes]  # of `auto`; empty until an admin has said a word about it

    def answer(self, world: World, scope: Optional[str] = None) -> Dict[str, Any]:
        """`recommend`: one per device class and drive model, with evidence and commands."""
        wanted = parse_scope(scope)
        require_scope(world, wanted)
        return {
            "recommendations": self.rows(world, wanted),
            "foreign": foreign(world, wanted), "rollout": world.open_plan,
            "summary": self.summary(world),
        }

    def rows(self, world: World, scope: Scope) -> List[Dict[str, Any]]:
        """The recommendations as plain data."""
        rows, held = [], self.held(world)
        drives = counted(
            world.believed_reports, world.cluster, throwaway=world.options.throwaway_cluster
        )
        for item in recommended_in(world, scope):
            results = [world.results[key] for key in item.record_ids if key in world.results]
            plain = codec.to_plain(item)
            plain["verdict"] = CACHE_MODES.said(item.verdict)
            for row, load in zip(plain["loads"], item.loads):
                row["verdict"] = CACHE_MODES.said(load.verdict)
            plain["warnings"] += _of_another_release(world, item, results)
            plain["manual"], plain["manual_on"], plain["consequences"] = [], "", []
            measured = _measured_drive(world, results)
            if measured is not None and item.mode is not None:
                plain["manual_on"], drive = measured
                plain["manual"] = list(by_hand(
                    drive, item.mode,
                    lost_models(world.reports.values())[item.simulated],
                ))
                if item.mode is CacheMode.WRITE_THROUGH:
                    prices_us = [r.pin_price_us for r in results if r.pin_price_us is not None]
                    plain["consequences"] = list(of_write_through(drive, prices_us))
            plain["expected_on_us"], plain["expected_off_us"] = (
                expected(item, world.results) or (None, None)
            )
            plain["figures"] = [_figure(world, one) for one in standing(results)]
            plain["noop_flushes"] = list(noop_flushes(results))
            plain["stale_keys"] = self._stale_keys(world, item)
            plain["settled_by"] = [] if item.verdict.decided else [
                {"what": words, "command": command}
                for words, command in settling(item, results, budgets(world.options))
            ]
            kind = item.kind
            plain["to_change"] = (
                drives[kind.home].changeable[item.mode] if item.mode and kind.home in drives else 0
            )
            mark = world.marks.get(kind)
            counts = mark is not None and mark.mode is item.mode
            plain["went_back"] = codec.to_plain(mark) if counts else None
            plain["held_by_auto"] = held.get((item.device_class, str(item.drive_model)), "")
            rows.append(plain)
        return rows

    def _stale_keys(self, world: World, item: Recommendation) -> List[str]:
        """Values of other knobs that the recommended mode makes stale, or has made so."""
        if item.mode is None or not item.real:
            return []
        drives = [
            drive for report in world.real_reports
            for drive in report.drives if drive.drive_model == item.drive_model
        ]
        changing = {u.osd_id for d in drives if d.mode is item.mode.other for u in d.uses}
        changed = {u.osd_id for d in drives if d.mode is item.mode for u in d.uses}
        return [key for knob in self.knobs for key in knob.stale_keys(world, changing, changed)]


def _of_another_release(
    world: World, item: Recommendation, results: Iterable[Result]
) -> List[str]:
    """That the OSDs of its class run another release now than all that were measured."""
    then = {one.pool_term.ceph_release for one in results if one.pool_term is not None}
    now = {
        osd.ceph_version.partition(".")[0] for osd in world.cluster.osds.values()
        if osd.device_class == item.device_class and osd.ceph_version
    }
    if not item.real or not then or not now - then:
        return []
    return [
        f"measured on Ceph {', '.join(sorted(then))}, and OSDs run Ceph "
        f"{', '.join(sorted(now - then))} now: what it gains depends on the release; `ceph wcache "
        "campaign start --recheck` measures it again"
    ]


def _figure(world: World, one: Standing) -> Dict[str, Any]:
    """What all experiments of a drive say together at a load."""
    plain, names = told(one), dev_names(world, one.hostname, one.domain_id)
    kept = ("hostname", "osd_id", "load_point", "verdict", "ratio", "ratio_low", "ratio_high",
            "write_back", "write_through", "tail")
    return {
        "drive": ",".join(names) or one.drive_id, "experiments": len(one.record_ids),
        **{key: plain[key] for key in kept},
    }


def recommended_in(world: World, scope: Scope) -> List[Recommendation]:
    """The recommendations on drives in a scope: by what was measured, and what is reported."""
    where = replace(scope, device_class="", drive_model="")
    found = [
        item for item in world.recommendations
        if scope.has_class(item.device_class) and scope.has_model(item.drive_model)
    ]
    if where == Scope():
        return found
    kinds = {
        (drive.drive_model, osd.device_class if osd is not None else None)
        for report in world.reports.values() for drive in report.drives
        if scope.has_host(report.hostname) for use in drive.uses if scope.has_osd(use.osd_id)
        for osd in [world.cluster.osds.get(use.osd_id)]
    }

    def is_measured(item: Recommendation) -> bool:
        results = (world.results[key] for key in item.record_ids if key in world.results)
        return any(scope.has_host(r.hostname) and scope.has_osd(r.osd_id) for r in results)

    return [
        item for item in found if is_measured(item)
        or not kinds.isdisjoint({(item.drive_model, item.device_class), (item.drive_model, None)})
    ]


def _measured_drive(
    world: World, results: Iterable[Result]
) -> Optional[Tuple[str, DriveReport]]:
    """(hostname, drive) of the first result whose drive is still there."""
    for result in results:
        report = world.reports.get(result.hostname)
        for drive in report.drives if report else ():
            if drive.drive_id == result.drive_id:
                return result.hostname, drive
    return None


RECOMMENDATIONS = (
    Column("CLASS", "device_class"),
    Column("DRIVE MODEL", lambda r: model_of(r) + (" (simulated)" if r["simulated"] else "")),
    Column("VERDICT", "verdict"), Column("CACHE OFF", lambda r: _gain(r)),
    Column("MEASURED", lambda r: max((load["drives"] for load in r["loads"]), default=0), NUMBER),
    Column("TO CHANGE", "to_change", NUMBER),
)


def recommend_text(data: Mapping[str, Any]) -> str:
    """`ceph wcache recommend`."""
    others = _foreign(data["foreign"]) + [
        f"not measured: {row['device_class'] or '-'}, {model_of(row)}: `ceph wcache try` takes "
        + cost_words(row["forecast"]) for row in data["unmeasured"]
    ]
    if not data["recommendations"]:
        return "\n".join(["nothing is measured yet", *others])
    rows = sorted(data["recommendations"], key=by_weight)
    lines = [data["summary"]["text"], ""]
    lines.append(listing(RECOMMENDATIONS, rows))
    lines += [
        "CACHE OFF: what turning the cache off does to the latency of a commit, with the interval "
        "at 99%, by all experiments", "",
    ]
    said_of: Dict[str, List[str]] = {}  # what is said of several drive models is said once
    for r in rows:
        said = [
            *(f"went back: {line}" for line in went_back(r)), *stale_keys_text(r),
            *([r["why"]] if not CACHE_MODES.meant(r["verdict"]).decided else []),
            *(
                f"to settle it: {step['what']}: {ticked(step['command'])}"
                for step in r["settled_by"]
            ),
            *r["noop_flushes"],
            # what is said of every drive model is under `explain`
            *(f"note: {line}" for line in r["warnings"] if line != BURSTS and FEW not in line),
        ]
        for line in said:
            said_of.setdefault(line, []).append(model_of(r))
    lines += [f"{named(list(dict.fromkeys(of)))}: {line}" for line, of in said_of.items()]
    lines += others
    explain = typed("ceph wcache explain model:{}", model_of(rows[0]))
    lines.append(f"why, with figures and what to do by hand: {explain}")
    return "\n".join([*lines, *to_change(rows)])


def _foreign(rows: List[Dict[str, Any]]) -> List[str]:
    """Word the verdicts of other clusters on drive models of this one."""
    shown = []
    for row in rows:
        if not row["drives_here"]:
            continue
        loads = ", ".join(
            f"{load_name(load['load_point'])}{relative(load)}" for load in row["loads"]
            if load["verdict"] == row["verdict"]
        )
        todo = "" if row["measured_here"] else "; confirm it: ceph wcache campaign start --recheck"
        shown.append(
            f"foreign (decides nothing): class {row['device_class']}, drive model "
            f"{model_of(row)}: {row['verdict']}" + (f" ({loads})" if loads else "")
            + f", from cluster {row['cluster']}{todo}"
        )
    return shown


def figures(row: Mapping[str, Any], load: Mapping[str, Any]) -> List[str]:
    """Each drive measured at a load of a row, by all its experiments, and all drives together."""
    lines = [
        f"osd.{one['osd_id']} {one['hostname']} {one['drive']}, "
        + ("its one experiment" if one["experiments"] == 1 else
           f"all {one['experiments']} experiments of this drive") + f": {turned_off(one)}"
        for one in row["figures"] if one["load_point"] == load["load_point"]
    ]
    together = f"all {len(lines)} drives:{relative(load)}, {load['interval']}"
    load_words = f"{load_name(load['load_point'])}, {load['verdict']}"
    return [
        f"  {load_words}; latency with the cache on -> off:",
        *(f"    {line}" for line in listed(lines, "drives: see --format json", NAMED_MAX)),
        *([f"    {together}"] if len(lines) > 1 else ()),
    ]


def by_weight(row: Mapping[str, Any]) -> Tuple[bool, bool, str, str]:
    """Sort by it: what is to be done comes first, then what is open."""
    open_ = not CACHE_MODES.meant(row["verdict"]).decided
    return not row["to_change"], not open_, row["device_class"], model_of(row)


def _gain(row: Mapping[str, Any]) -> str:
    """What is gained at the first load that decided; `explain` has the others."""
    loads = [load for load in row["loads"] if load["verdict"] == row["verdict"]] or row["loads"]
    return f"{load_name(loads[0]['load_point'])}{relative(loads[0])}" if loads else "-"


_BY_TRAFFIC = command("ceph wcache campaign start --loads=traffic --dry-run")


def went_back(row: Mapping[str, Any]) -> List[str]:
    """What a plan found against the recommended mode of a drive model, and what to do."""
    mark, lines = row["went_back"], []
    if mark is not None:
        lines.append(
            f"plan {mark['plan_id']} put drives of this model into {mark['mode']}, and took that "
            f"back: {mark['why']}"
        )
        lines.append("what was seen: " + typed("ceph wcache rollout show {}", mark["plan_id"]))
        lines.append(f"to settle it, measure it while clients write: {ticked(_BY_TRAFFIC)}")
        lines.append("`auto` does not apply it before that")
    elif row["held_by_auto"]:
        lines.append(
            f"`auto` no longer applies it ({row['held_by_auto']}); run `ceph wcache auto apply` "
            "again to let it retry"
        )
    return lines


def to_change(rows: Iterable[Mapping[str, Any]]) -> List[str]:
    """How drives are changed, where any are to be."""
    modes = {row["mode"] for row in rows if row["to_change"] and row["went_back"] is None}
    if not modes:
        return []
    plan = typed("ceph wcache plan")
    if modes == {CacheMode.WRITE_BACK.value}:
        plan = typed("ceph wcache plan --consent-turn-on")
    return [f"to change these drives: {plan}"]


def stale_keys_text(data: Mapping[str, Any]) -> List[str]:
    """What a change of the cache mode makes of mClock's values."""
    keys = data.get("stale_keys", [])
    if not keys:
        return []
    return [
        "a change of cache mode makes mClock's stored capacities stale "
        f"({named(keys)}); after it, run `ceph wcache campaign start --loads=capacity` and `ceph "
        "wcache mclock show`"
    ]
