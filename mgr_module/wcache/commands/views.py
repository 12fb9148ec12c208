"""What only looks: plain data for `status`, `drive ls`, `campaign show` and the like.

Everything here follows from a World, so it stays fast while an analysis or a campaign runs, and
it needs no right to toggle anything.
"""

from __future__ import annotations

from functools import partial
from typing import AbstractSet, Any, Callable, Collection, Dict, List, Optional, Tuple

from ..core import codec
from ..core.drive.safety import dropping_above, judge
from ..core.errors import NotFoundError
from ..core.fleet.ages import age_of
from ..core.fleet.claims import believed_of, speaking_for
from ..core.fleet.findings import words_of_version, words_of_wait
from ..core.jobs import Holding
from ..core.model import CacheMode, Cure, DriveReport, Finding, FindingCode
from ..core.output_format import Rows
from ..core.scope import Scope, parse_scope
from ..core.shell import command
from ..core.text import time_left
from ..core.verdict.outlook import Outlook
from ..core.verdict.plp import hints
from ..engine.engine import Engine
from ..engine.storing.archive import RECORD
from ..engine.world import World
from ..knobs.registry import advice_on
from ..services.plans.planner import Planner
from . import cluster_view
from .campaign_views import head
from .finding_views import FindingViews, More
from .load_views import ProfilesByOsd
from .outlook_view import summary
from .plan_views import Held, Recommended
from .rollout.views import failed, progress


class Views:
    """What answers that change nothing are made of, and what the serve loop shows of it."""

    def __init__(
        self, engine: Engine, knobs: Collection[Planner], profiles: ProfilesByOsd = dict,
        more_findings: More = lambda world: (), held: Held = dict, *,
        outlook: Callable[[World], Outlook], headline: Callable[[World], str],
        measuring: Callable[[World], Optional[Holding]], commit_ms: cluster_view.CommitMs,
    ) -> None:
        self.world = engine.world
        self.latencies = engine.ports.view.latencies
        self.profiles = profiles
        self._findings = FindingViews(more_findings)
        self._outlook = outlook
        self._headline = headline
        self._measuring = measuring
        self._commit_ms = commit_ms
        self.record = partial(engine.ports.archive.get, RECORD)
        self.entries = engine.history
        self.knobs = knobs
        self.recommended = Recommended(knobs, held, self._summary)

    def warm(self) -> None:
        """Look at all stored reports once, so that the first `status` need not."""
        self._findings.hosts(self.world())

    def findings(self) -> List[Finding]:
        """Everything wrong at the moment, errors first."""
        return self._findings.all(self.world())

    def headlines(self) -> Dict[FindingCode, str]:
        """What `ceph health` says of a finding whose number alone tells little."""
        return {FindingCode.RECOMMENDATION: self._headline(self.world())}

    def status(self) -> Dict[str, Any]:
        """`status`: probes, drives by model, what is under way, findings with advice."""
        world = self.world()
        held = self._measuring(world)
        fleet = self._findings.hosts(world)
        return {
            "summary": self._summary(world),
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
            "cluster": cluster_view.standing(world, fleet, self._commit_ms),
            "drives": sum(fleet.models.values()),
            "reported": codec.to_plain(world.age),
            "drive_models": [
                {"drive_model": model, "device_cache": cache, "kernel_view": view,
                 "safety": safety, "drives": count}
                for (model, cache, view, safety), count in sorted(fleet.models.items())
            ],
            "campaign": world.open_campaign,
            "measuring": held.words if held else "",
            "measuring_shown_by": held.show if held else "",
            "rollout": ", ".join(world.open_plans),
            "findings": [_finding(item) for item in self._findings.all(world, fleet)],
            "unreadable": dict(sorted(world.unreadable.items())[:50]),
        }

    def _summary(self, world: World) -> Dict[str, Any]:
        found = self._outlook(world)
        return summary(found, _next(world, found))

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

    def failed(self, event_id: str) -> str:
        """Why what was under way came to nothing; '' where it did what it should."""
        owner, world = event_id.partition(".")[2], self.world()
        machine = world.rollouts.get(owner)
        if machine is not None:
            return failed(machine.rollout)
        if owner in world.trials:
            return world.trials[owner].failed
        if owner not in world.campaigns or head(world, owner)["status"] != "aborted":
            return ""
        reasons = (
            run.state.reason for run in world.runs.values() if run.spec.campaign_id == owner
        )
        return next(filter(None, reasons), "") or "aborted"


def hosts_without_probe(world: World) -> List[str]:
    """Hosts of the map with OSDs of which no probe speaks."""
    spoken_for = speaking_for([agent.hostname for agent in world.agents], world.cluster)
    return sorted(world.cluster.hostnames.difference(spoken_for.values()))


def _next(world: World, outlook: Outlook) -> str:
    """The one command that follows: what is under way comes before what would be begun."""
    if not world.agents:
        return "ceph wcache agent add --all"
    if world.frozen:
        return "ceph wcache freeze --thaw"
    if world.open_plan:
        return command("ceph wcache rollout show {}", world.open_plan)
    if world.open_campaign:
        return command("ceph wcache campaign show {}", world.open_campaign)
    return outlook.next_step


def drives(world: World, within: Optional[str] = None) -> Dict[str, Any]:
    """`drive ls`: every OSD drive with both sides of its cache and every layer."""
    scope = parse_scope(within)
    hostname = scope.hostname
    if hostname and hostname not in world.reports:
        raise NotFoundError(
            f"no probe has reported for host {hostname[:60]!r}", "see `ceph wcache agent ls`"
        )
    names = [hostname] if hostname else sorted(world.reports)
    if hostname:
        told = {hostname: believed_of(hostname, world.reports, world.cluster)}
    else:
        told = {report.hostname: report for report in world.believed_reports}
    trusted = frozenset(item.drive_model for item in world.trusted)

    def row_of(item: Tuple[str, DriveReport]) -> Dict[str, Any]:
        name, drive = item
        leased = (name, drive.domain_id) in world.leased
        age_s = _rounded(world.report_age_s(name))
        return {**_drive(name, drive, leased, trusted), "reported_s_ago": age_s}

    found = [
        (name, drive) for name in names for drive in told[name].drives
        if scope.covers(told[name], drive, world.cluster)
    ]
    if not found and scope not in (Scope(), Scope(hostname=hostname)):
        raise NotFoundError(f"no drive is in scope {scope}", "see `ceph wcache drive ls`")
    rows = Rows(found, row_of)
    age = age_of({*names}, world.reported_at_s, world.now_s)
    return {"drives": rows, "reported": codec.to_plain(age)}


def agents(world: World) -> Dict[str, Any]:
    """`agent ls`: all probes, with those that never called, and those that were refused."""
    added = world.deployments
    rows: List[Dict[str, Any]] = [
        {
            "hostname": a.hostname, "probe_id": a.probe_id,
            "probe_version": a.probe_version, "heard_s_ago": None
            if a.hostname in world.only_stored else round(world.now_s - a.seen_at_s, 1),
            "lease_id": a.lease_id, "simulated": a.simulated,
            "drives": len(world.reports[a.hostname].drives)
            if a.hostname in world.reports else 0,
            "form": added[a.hostname].form.value if a.hostname in added else "",
            "waits": _waits(world, a.hostname),
        }
        for a in world.agents
    ]
    rows += [
        {
            "hostname": name, "probe_id": "", "probe_version": "", "heard_s_ago": None,
            "lease_id": "", "simulated": False, "drives": 0, "form": added[name].form.value,
            "waits": "",
        }
        for name in sorted(set(added) - {a.hostname for a in world.agents})
    ]
    refused = [
        {
            "hostname": one.hostname, "protocol": one.version,
            "heard_s_ago": round(world.now_s - one.seen_at_s, 1), "why": words_of_version(one),
        }
        for one in world.other_versions
    ]
    return {"agents": rows, "refused": refused}


def _waits(world: World, hostname: str) -> str:
    """What a host waits for before its drives are measured; empty where for nothing."""
    if hostname in world.blocked:
        return words_of_wait(world.blocked[hostname], world.now_s)
    report = world.reports.get(hostname)
    cures = [item.cure for item in report.findings] if report else []
    return Cure.BOOT_ONCE.value if Cure.BOOT_ONCE in cures else ""


def _rounded(age_s: Optional[float]) -> Optional[float]:
    return None if age_s is None else round(age_s, 1)


def _finding(item: Finding) -> Dict[str, str]:
    return {
        "code": item.code.value, "severity": item.severity.value, "subject": item.subject,
        "detail": item.detail, "advice": advice_on(item),
    }


def _drive(
    hostname: str, drive: DriveReport, leased: bool, trusted: AbstractSet[str]
) -> Dict[str, Any]:
    plain: Dict[str, Any] = codec.to_plain(drive)
    plain.update(
        hostname=hostname, leased=leased, safety=judge(drive.state).value,
        mode=drive.mode.value if drive.mode else "unknown",
        osds=sorted({use.osd_id for use in drive.uses}),
        plp=hints.cell(drive.plp_hints, str(drive.drive_model) in trusted),
        toggle_refusal=drive.toggle_refusal or _must_stay_off(drive),
    )
    return plain


def _must_stay_off(drive: DriveReport) -> str:
    dropping = dropping_above(drive) if drive.mode is CacheMode.WRITE_THROUGH else ()
    return f"{', '.join(dropping)} does not flush: `ceph wcache drive reload`" if dropping else ""
