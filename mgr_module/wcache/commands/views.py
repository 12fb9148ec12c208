"""What commands are made of: a look, what was measured, what is wrong.

They follow from a World, so they stay fast while an analysis or a campaign runs, and need no
right to toggle anything.  So does `history`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import (
    AbstractSet,
    Any,
    Callable,
    Dict,
    FrozenSet,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
)

from ..core import codec
from ..core.change.history import standing
from ..core.errors import NotFoundError
from ..core.experiment.observing_run import benches_capacity
from ..core.fleet.claims import age_of, speaking_for
from ..core.history import LINES_MAX, NOTHING, Filter, HistoryEntry, Kind, kept, parse_since
from ..core.model import Finding, FindingCode
from ..core.scope import FORMS, Scope, parse_scope
from ..core.text import command, many, time_left, when
from ..engine.engine import Engine
from ..engine.storing.archive import RECORD
from ..engine.world import World
from ..knobs.registry import advice_on
from ..services.guards import require_scope
from ..services.outlook import Situation
from . import status, tables
from .campaigns import head
from .findings import FindingViews
from .recommend import ProfilesByOsd, Recommended
from .rollouts import failed, progress
from .service import Service
from .status import summary
from .tables import LONG, NUMBER, Column, listing


class Views:
    """Makes `status`, and tells the serve loop what is wrong and what is under way."""

    def __init__(
        self, engine: Engine, service: Service, profiles: ProfilesByOsd = dict,
        of_page: Callable[[], Sequence[Finding]] = tuple,
    ) -> None:
        self.world, self.after = engine.world, engine.world_soon_after
        self.latencies = engine.ports.view.latencies
        self.profiles = profiles
        self._findings = FindingViews(lambda world: [*service.findings(world), *of_page()])
        self._service = service
        self.record = partial(engine.ports.archive.get, RECORD)
        self.entries = engine.history
        self.knobs = service.planners.values()
        self.recommended = Recommended(
            self.knobs, service.auto.held, lambda world: summary(self.situation(world)),
            lambda: service.auto.state.modes,
        )

    def warm(self) -> None:
        """Look at all stored reports once, so that the first `status` need not."""
        self._findings.hosts(self.world())

    def findings(self) -> List[Finding]:
        """Everything wrong at the moment, errors first."""
        return self._findings.all(self.world())

    def headlines(self) -> Dict[FindingCode, str]:
        """What `ceph health` says of a finding whose number alone tells little."""
        return {FindingCode.RECOMMENDATION: self._service.headline(self.world())}

    def status(self) -> Dict[str, Any]:
        """`status`: probes, drives by model, what is under way, findings with advice."""
        world = self.world()
        measuring, shown_by = _measuring(world)
        fleet = self._findings.hosts(world)
        return {
            "summary": summary(self.situation(world)),
            "frozen": world.frozen,
            "throwaway_cluster": world.options.throwaway_cluster,
            "agents": {
                "known": len(world.agents),
                "heard": len([
                    a for a in world.agents if not a.silent(world.now_s)
                    and a.hostname not in world.only_stored
                ]),
                "hosts_without": hosts_without_probe(world),
            },
            "cluster": status.standing(world, fleet, self._service.commit_ms),
            "drives": sum(fleet.models.values()),
            "reported": codec.to_plain(
                age_of(world.reports.keys(), world.reported_at_s, world.now_s)
            ),
            "drive_models": [
                {"drive_model": model, "device_cache": cache, "kernel_view": view,
                 "safety": safety, "drives": count}
                for (model, cache, view, safety), count in sorted(fleet.models.items())
            ],
            "campaign": world.open_campaign,
            "measuring": measuring, "measuring_shown_by": shown_by,
            "rollout": ", ".join(world.open_plans),
            "paused": [i for i in world.open_plans if world.rollouts[i].paused],
            "findings": [
                {"code": item.code.value, "severity": item.severity.value,
                 "subject": item.subject, "detail": item.detail, "advice": advice_on(item)}
                for item in self._findings.all(world, fleet)
            ],
            "unreadable": dict(sorted(world.unreadable.items())[:50]),
        }

    def situation(
        self, world: World, about: Tuple[str, ...] = (), but: str = ""
    ) -> Situation:
        """What `next:` goes by."""
        return Situation(world, self._service.outlook, about, but)

    def under_way(self) -> Dict[str, Tuple[str, float]]:
        """Open campaigns, rollouts and trials: event id to (message, fraction done)."""
        world = self.world()
        found: Dict[str, Tuple[str, float]] = {}
        open_ids = {world.runs[run_id].spec.campaign_id for run_id in world.open_runs}
        for campaign_id in open_ids & set(world.campaigns):
            row = head(world, campaign_id)
            fraction = row["periods_done"] / max(1, row["periods_expected"])
            said = f"wcache campaign {campaign_id}, {time_left(row)}"
            found[f"wcache.{campaign_id}"] = said, fraction
        for plan_id in world.open_plans:
            found[f"wcache.{plan_id}"] = progress(world.rollouts[plan_id], world.now_s)
        for trial_id, trial in world.trials.items():
            if not trial.over:
                found[f"wcache.{trial_id}"] = trial.progress(world.now_s)
        return found

    def ended(self, event_id: str) -> Tuple[str, str]:
        """How what was under way has ended, and why it came to nothing; '' where it did not."""
        owner, world = event_id.partition(".")[2], self.world()
        machine = world.rollouts.get(owner)
        if machine is not None:
            return f"wcache plan {owner}: {machine.rollout.status.value}", failed(machine.rollout)
        if owner in world.trials:
            trial = world.trials[owner]
            return f"wcache trial {owner}: {trial.status}", trial.failed
        if owner not in world.campaigns:
            return f"wcache {owner}: over", ""
        row = head(world, owner)
        done = row["runs_over"] - row["runs_aborted"]
        mine = (run.state.reason for run in world.runs.values() if run.spec.campaign_id == owner)
        why = next(filter(None, mine), "aborted") if row["status"] == "aborted" else ""
        return f"wcache campaign {owner}: over, {done} of {many(row['runs'], 'run')} done", why


def _measuring(world: World) -> Tuple[str, str]:
    """What measures OSDs and compares no cache modes, and the command that shows it."""
    specs = (world.runs[run_id].spec for run_id in world.open_runs)
    found = next((spec.campaign_id for spec in specs if benches_capacity(spec)), "")
    if found:
        return f"mclock measurement {found}", command("ceph wcache campaign show {}", found)
    return next(((held.words, held.show) for held in world.reserved), ("", ""))


def hosts_without_probe(world: World) -> List[str]:
    """Hosts of the map with OSDs of which no probe speaks."""
    spoken_for = speaking_for([agent.hostname for agent in world.agents], world.cluster)
    return sorted(world.cluster.hostnames.difference(spoken_for.values()))


# ---- what changed, and what came of it


HISTORY_ARGUMENTS = (
    "name=limit,type=CephInt,req=false",
    "name=scope,type=CephString,req=false",
    "name=drive,type=CephString,req=false",
    "name=since,type=CephString,req=false",
    "name=what,type=CephString,req=false",
)
LINES = 50


def history(
    world: World, entries: Sequence[HistoryEntry], limit: Optional[int] = None,
    scope: Optional[str] = None, drive: Optional[str] = None, since: Optional[str] = None,
    what: Optional[str] = None,
) -> Dict[str, Any]:
    """`history`: the lines that are wanted, oldest first.

    What is still applied is among them, however long ago it was changed.
    """
    within = parse_scope(scope)
    wanted = Filter(
        within.hostname, _osds_about(world, within), drive, _drives_named(world, drive),
        None if since is None else parse_since(since, world.now_s), what,
    )
    osds = {
        (report.hostname, item.domain_id): tuple(sorted({u.osd_id for u in item.uses}))
        for report in world.reports.values() for item in report.drives
    }
    lines = [*entries, *standing(world.plans, entries, osds)]
    _require_known(world, lines, within, wanted)
    found, left_out = kept(lines, wanted, limit or LINES)
    return {
        "history": [
            {
                "at_s": entry.at_s, "who": entry.who, "what": entry.what, "text": entry.text,
                "kind": entry.kind.value, **codec.to_plain(entry.about or NOTHING),
            } for entry in found
        ],
        "left_out": left_out,
    }


def _osds_about(world: World, scope: Scope) -> Optional[AbstractSet[int]]:
    """The OSDs that a line must be about, None for any; one that is gone can be named."""
    if scope.device_class or scope.drive_model:
        return scope.osds(world.reports.values(), world.cluster)
    return None if scope.osd_id is None else {scope.osd_id}


def _drives_named(world: World, name: Optional[str]) -> FrozenSet[Tuple[str, str]]:
    """The cache domains of the drives of that name, WWN or serial, by host."""
    return frozenset(
        (report.hostname, item.domain_id) for report in world.reports.values()
        for item in report.drives if name and name in (
            item.dev_name, f"{report.hostname}:{item.dev_name}", item.drive_id, item.wwid,
        )
    )


def _require_known(
    world: World, lines: Sequence[HistoryEntry], within: Scope, wanted: Filter
) -> None:
    """What is asked for is there, or has a line: a name that nobody knows has no history."""
    def has_line(**only: Any) -> bool:
        return any(map(Filter(**only).takes, lines))

    drive, what = wanted.drive, wanted.what
    if not has_line(hostname=wanted.hostname, osd_ids=wanted.osd_ids):
        require_scope(world, within)
    if drive is not None and not wanted.drives and not has_line(drive=drive):
        raise NotFoundError(f"there is no drive {drive[:60]!r}", "see `ceph wcache drive ls`")
    known = {*Kind, *world.campaigns, *world.runs, *world.rollouts, *world.trials}
    if what is not None and what not in known and not has_line(what=what):
        raise NotFoundError(
            f"nothing here is named {what[:60]!r}",
            f"use the id of a campaign, run or plan, or one of {', '.join(Kind)}; "
            "--scope=osd.N, host:NAME and --drive=NAME find the rest",
        )


EVENTS = (
    Column("TIME (UTC)", lambda h: when(h["at_s"]), NUMBER), Column("WHO", "who"),
    Column("WHAT", "what"), Column("EVENT", "text", LONG),
)


def history_text(data: Mapping[str, Any]) -> str:
    """`ceph wcache history`, as a table; the evidence of each change with its event."""
    rows = data["history"]
    if not rows:
        return "nothing in the history matches"
    shown = listing((*EVENTS[:-1], Column("EVENT", _with_evidence)), rows)
    if data["left_out"]:
        more, limit = many(data["left_out"], "earlier line"), len(rows) + data["left_out"]
        shown += f"\nand {more}: see them with --limit={min(LINES_MAX, limit)}"
    return shown


def _with_evidence(row: Mapping[str, Any]) -> str:
    known = not row["outcome"] or row["evidence"] in row["outcome"]
    return row["text"] if known else f"{row['text']}; why: {row['evidence']}"


# ---- a command


FORMAT = "name=format,type=CephChoices,strings=plain|json|yaml,req=false"
EACH = "name=all,type=CephBool,req=false"
DRY_RUN = "name=dry_run,type=CephBool,req=false"
SCOPE = "name=scope,type=CephString,req=false"
# Words of consent: the help of each command that has one says what is risked.
ACCEPT_COST = "name=accept_cost,type=CephBool,req=false"
TURN_ON = "name=consent_turn_on,type=CephBool,req=false"
OF_CAMPAIGNS = "name=override,type=CephChoices,strings=cluster_healthy,req=false"

Answer = Tuple[int, str, str]
Renderer = Callable[[Mapping[str, Any]], str]


@dataclass(frozen=True)
class Command:
    """One command: its prefix, arguments, permission, help, what it calls and how it looks."""

    prefix: str
    arguments: Tuple[str, ...]
    perm: str
    help: str
    call: Callable[[Service, Views, Dict[str, Any]], Any]
    render: Renderer = tables.would
    whole: Optional[Renderer] = None  # with --all: what `render` groups
    tables: Mapping[str, Sequence[tables.Column]] = field(default_factory=dict)  # for the page
    # What of its arguments needs no look at what there is: see `commands.py`.
    bounds: Mapping[str, Tuple[int, int]] = field(default_factory=dict)  # of whole numbers
    terms: Tuple[str, ...] = tuple(FORMS)  # that its scope may have
    fit: Callable[[Mapping[str, Any]], object] = bool  # raises where they do not fit together

    def spec(self) -> Dict[str, Any]:
        """The command as an entry of a mgr module's COMMANDS."""
        return {
            "cmd": " ".join((self.prefix, *self.arguments, FORMAT)),
            "desc": self.help, "perm": self.perm, "poll": False,
        }
