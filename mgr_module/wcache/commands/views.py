"""What only looks: plain data for `status`, `drive ls`, `campaign show` and the like.

Everything here reads what the engine holds already, so it stays fast while an analysis
or a campaign runs, and it needs no right to toggle anything.
"""

from __future__ import annotations

from collections import Counter
from typing import AbstractSet, Any, Callable, Dict, List, Optional, Tuple

from ..core import codec
from ..core.drive.safety import judge
from ..core.errors import NotFoundError
from ..core.fleet.ages import age_of
from ..core.fleet.findings import advice_on, words_of_version
from ..core.model import DriveReport, Finding, FindingCode
from ..core.output_format import FORMAT_VERSION
from ..core.verdict.outlook import Outlook
from ..core.verdict.plp import hints
from ..engine.engine import Engine
from ..services.mclock.service import MclockService
from .automation.history import HistoryViews
from .campaign_views import CampaignViews
from .drives.controllers import controllers
from .drives.hosts import ModelKey
from .drives.models import drive_models
from .drives.reload import reload
from .explain_view import ExplainViews
from .finding_views import FindingViews
from .load_views import ProfilesByOsd, load_ls
from .outlook_view import summary
from .plan_views import Held, PlanViews
from .rollout.views import RolloutViews


class Views:
    """Read-only use cases over the engine; those about campaigns and plans are parts."""

    def __init__(
        self, engine: Engine, mclock: MclockService, profiles: ProfilesByOsd = dict,
        more_findings: Callable[[], List[Finding]] = list, held: Held = dict, *,
        outlook: Callable[[], Outlook], headline: Callable[[], str],
    ) -> None:
        self._engine = engine
        self._mclock = mclock
        self._profiles = profiles
        self._findings = FindingViews(engine, more_findings)
        self._outlook = outlook
        self._headline = headline
        self.campaigns = CampaignViews(engine)
        self.plans = PlanViews(engine, mclock.facts, held, self._summary)
        self.explains = ExplainViews(engine, self.plans)
        self.history = HistoryViews(engine)
        self.rollouts = RolloutViews(engine)

    def warm(self) -> None:
        """Look at all stored reports once, so that the first `status` need not."""
        with self._engine.lock:
            self._findings.hosts()

    def findings(self) -> List[Finding]:
        """Everything wrong at the moment, errors first."""
        return self._findings.all()

    def headlines(self) -> Dict[FindingCode, str]:
        """What `ceph health` says of a finding whose number alone tells little."""
        return {FindingCode.RECOMMENDATION: self._headline()}

    def status(self) -> Dict[str, Any]:
        """`status`: probes, drives by model, what is under way, findings with advice."""
        engine = self._engine
        findings, told = self.findings(), self._summary()
        with engine.lock:
            now_s = engine.clock()
            agents = engine.hosts.agents.all()
            models: Counter[ModelKey] = Counter()
            for host in self._findings.hosts():
                models.update(host.models)
            running = [m for m in engine.runs.values() if not m.over]
            return {
                "format_version": FORMAT_VERSION,
                "summary": told,
                "frozen": engine.frozen,
                "throwaway_cluster": engine.options().throwaway_cluster,
                "agents": {
                    "known": len(agents),
                    "heard": sum(
                        1 for a in agents if not a.silent(now_s)
                        and not engine.hosts.agents.only_stored(a.hostname)
                    ),
                },
                "drives": sum(models.values()),
                "reported": codec.to_plain(engine.hosts.age(now_s)),
                "drive_models": [
                    {"drive_model": model, "device_cache": cache, "kernel_view": view,
                     "safety": safety, "drives": count}
                    for (model, cache, view, safety), count in sorted(models.items())
                ],
                "campaign": running[0].spec.campaign_id if running else "",
                "measuring": self._measuring(),
                "rollout": next((p for p, m in engine.rollouts.items() if not m.over), ""),
                "findings": [_finding(item) for item in findings],
                "unreadable": dict(sorted(engine.archive.unreadable.items())[:50]),
            }

    def _summary(self) -> Dict[str, Any]:
        """The sentence, looked up without the lock: a fleet's advice takes time."""
        found = self._outlook()
        with self._engine.lock:
            return summary(found, self._next(found))

    def _next(self, outlook: Outlook) -> str:
        """The one command that follows: what is under way comes before what would be begun."""
        engine = self._engine
        rollout = next((p for p, m in engine.rollouts.items() if not m.over), "")
        running = next((m.spec.campaign_id for m in engine.runs.values() if not m.over), "")
        if not engine.hosts.agents.all():
            return "ceph wcache agent add --all"
        if engine.frozen:
            return "ceph wcache freeze --thaw"
        if rollout:
            return f"ceph wcache rollout show {rollout}"
        if running:
            return f"ceph wcache campaign show {running}"
        return outlook.next_step

    def _measuring(self) -> str:
        """What measures OSDs and compares no cache modes, in words."""
        campaign_id = self._mclock.capacities.under_way()
        return f"mclock measurement {campaign_id}" if campaign_id else self._engine.reserved

    def drives(self, hostname: Optional[str] = None) -> Dict[str, Any]:
        """`drive ls`: every OSD drive with both sides of its cache and every layer."""
        engine = self._engine
        with engine.lock:
            if hostname and hostname not in engine.hosts.reports:
                raise NotFoundError(
                    f"no probe has reported for host {hostname[:60]!r}",
                    "see `ceph wcache agent ls`",
                )
            leased = self._findings.leased()
            reports = sorted(engine.hosts.reports.items())
            now_s = engine.clock()
            ages = {name: engine.hosts.report_age_s(name, now_s) for name, _ in reports}
            trusted = frozenset(item.drive_model for item in engine.analyses.trust.all())
        if hostname:
            ages = {hostname: ages[hostname]}
        # outside of the lock: a whole fleet's list takes long, and probes must not wait
        rows = [
            {**_drive(name, drive, (name, drive.domain_id) in leased, trusted),
             "reported_s_ago": _rounded(ages[name])}
            for name, report in reports
            if hostname in (None, "", name)
            for drive in report.drives
        ]
        return {
            "format_version": FORMAT_VERSION, "drives": rows,
            "reported": codec.to_plain(age_of(ages)),
        }

    def reload(self, hostname: Optional[str] = None) -> Dict[str, Any]:
        """`drive reload`: OSDs whose volumes were loaded with a cache off, and the cure."""
        return reload(self._engine, hostname)

    def controllers(self) -> Dict[str, Any]:
        """`controller ls`."""
        return controllers(self._engine)

    def drive_models(self) -> Dict[str, Any]:
        """`drive-model ls`: every drive model, with what is known of its power-loss protection."""
        return drive_models(self._engine)

    def under_way(self) -> Dict[str, Tuple[str, float]]:
        """Open campaigns and rollouts: event id to (message, fraction done)."""
        found: Dict[str, Tuple[str, float]] = {}
        with self._engine.lock:
            open_ids = {m.spec.campaign_id for m in self._engine.runs.values() if not m.over}
            for campaign_id in open_ids & set(self._engine.campaigns):
                head = self.campaigns.head(campaign_id)
                fraction = head["periods_done"] / max(1, head["periods_max"])
                found[f"wcache.{campaign_id}"] = (f"wcache campaign {campaign_id}", fraction)
            for plan_id, machine in self._engine.rollouts.items():
                if not machine.over:
                    found[f"wcache.{plan_id}"] = self.rollouts.progress(machine)
        return found

    def failed(self, event_id: str) -> str:
        """Why what was under way came to nothing; '' where it did what it should."""
        owner = event_id.partition(".")[2]
        with self._engine.lock:
            machine = self._engine.rollouts.get(owner)
            if machine is not None:
                return self.rollouts.failed(machine)
            if owner not in self._engine.campaigns:
                return ""
            if self.campaigns.head(owner)["status"] != "aborted":
                return ""
            reasons = (
                run.state.reason for run in self._engine.runs.values()
                if run.spec.campaign_id == owner
            )
            return next(filter(None, reasons), "") or "aborted"

    def agents(self) -> Dict[str, Any]:
        """`agent ls`: which probe speaks for which host, and when it was last seen."""
        engine = self._engine
        with engine.lock:
            now_s = engine.clock()
            added = engine.hosts.deployments
            never = [name for name in added if engine.hosts.agents.get(name) is None]
            rows: List[Dict[str, Any]] = [
                {
                    "hostname": a.hostname, "probe_id": a.probe_id,
                    "probe_version": a.probe_version, "heard_s_ago": None
                    if engine.hosts.agents.only_stored(a.hostname)
                    else round(now_s - a.seen_at_s, 1),
                    "lease_id": a.lease_id, "simulated": a.simulated,
                    "drives": len(engine.hosts.reports[a.hostname].drives)
                    if a.hostname in engine.hosts.reports else 0,
                    "form": added[a.hostname].form.value if a.hostname in added else "",
                }
                for a in engine.hosts.agents.all()
            ]
            rows += [
                {
                    "hostname": name, "probe_id": "", "probe_version": "", "heard_s_ago": None,
                    "lease_id": "", "simulated": False, "drives": 0, "form": added[name].form.value,
                }
                for name in sorted(never)
            ]
            refused = [
                {
                    "hostname": one.hostname, "protocol": one.version,
                    "heard_s_ago": round(now_s - one.seen_at_s, 1), "why": words_of_version(one),
                }
                for one in engine.hosts.agents.others(now_s)
            ]
        return {"format_version": FORMAT_VERSION, "agents": rows, "refused": refused}

    def loads(self) -> Dict[str, Any]:
        """`load ls`: what measured OSDs carry over hours."""
        with self._engine.lock:
            results = list(self._engine.analyses.results.values())
        latencies = self._engine.view.latencies()
        return {
            "format_version": FORMAT_VERSION,
            **load_ls(self._profiles(), results, latencies),
        }


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
    )
    return plain
