"""What only looks: plain data for `status`, `drive ls`, `campaign show` and the like.

Everything here reads what the engine holds already, so it stays fast while an analysis
or a campaign runs, and it needs no right to toggle anything.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Dict, Iterable, List, Optional, Set, Tuple

from .core import codec
from .core.errors import MalformedError, NotFoundError
from .core.findings import ADVICE, mixed_modes, of_agents, of_results
from .core.manual import commands
from .core.model import DriveReport, Finding, FindingCode, Severity
from .core.policy import Recommendation
from .core.rollout import ChangeStatus
from .core.run import RunMachine, RunStatus
from .core.safety import judge
from .engine import Engine
from .host_views import HostView, HostViews, ModelKey
from .load_views import ProfilesByOsd, load_ls
from .mclock_service import MclockService

FORMAT_VERSION = 1
Leased = Set[Tuple[str, str]]


class Views:
    """Read-only use cases over the engine."""

    def __init__(
        self, engine: Engine, mclock: MclockService, profiles: ProfilesByOsd = dict
    ) -> None:
        self._engine = engine
        self._mclock = mclock
        self._profiles = profiles
        self._host_views = HostViews()

    def warm(self) -> None:
        """Look at all stored reports once, so that the first `status` need not."""
        with self._engine.lock:
            self._hosts()

    # ---- findings

    def leased(self) -> Leased:
        """(hostname, domain id) of every cache domain that an experiment holds."""
        return {
            (m.spec.hostname, domain_id)
            for m in self._engine.runs.values()
            if m.holds_lease
            for domain_id in m.spec.domain_ids
        }

    def findings(self) -> List[Finding]:
        """Everything wrong at the moment, errors first."""
        engine = self._engine
        with engine.lock:
            leased = self.leased()
            hosts = self._hosts()
            found = [item for host in hosts for item in host.findings]
            # a report that is due again may tell of a state that an experiment has left
            fresh = [h for h in hosts if h.report.hostname in engine.hosts.reported_at_s]
            found += mixed_modes(host.modes for host in fresh)
            found += self._drift(leased)
            found += of_agents(engine.hosts.agents.all(), engine.clock())
            found += self._unrestored()
            found += of_results(engine.analyses.results.values())
            found += self._mclock.facts.findings()
            if engine.keeper.error:
                found.append(
                    Finding(FindingCode.STORE_FAILED, Severity.ERROR, "mgr", engine.keeper.error)
                )
            if engine.analyses.error:
                found.append(
                    Finding(
                        FindingCode.NO_ANALYSIS, Severity.WARNING, "mgr", engine.analyses.error
                    )
                )
        order = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}
        return sorted(found, key=lambda f: (order[f.severity], f.code.value, f.subject))

    def _hosts(self) -> List[HostView]:
        engine = self._engine
        return self._host_views.take(
            engine.hosts.reports, throwaway=engine.options().throwaway_cluster,
            leased=self.leased(), changing=self._changed_domains(),
        )

    def _changed_domains(self) -> Leased:
        """Domains a rollout is working on: mixed modes are its very purpose."""
        return {
            (change.hostname, change.domain_id)
            for machine in self._engine.rollouts.values()
            if not machine.over
            for change in machine.rollout.changes
        }

    def _drift(self, leased: Leased) -> List[Finding]:
        engine = self._engine
        applied: Dict[Tuple[str, str], Tuple[float, str, str]] = {}
        for plan_id, machine in engine.rollouts.items():
            for change in machine.rollout.changes:
                if change.status is ChangeStatus.APPLIED and machine.over:
                    key = (change.hostname, change.domain_id)
                    entry = (machine.rollout.created_at_s, plan_id, change.mode.value)
                    applied[key] = max(applied.get(key, entry), entry)
        found = []
        for (hostname, domain_id), (_, plan_id, mode) in sorted(applied.items()):
            report = engine.hosts.reports.get(hostname)
            stale = hostname not in engine.hosts.reported_at_s
            if report is None or stale or (hostname, domain_id) in leased:
                continue
            for drive in report.drives:
                if drive.domain_id == domain_id and drive.mode and drive.mode.value != mode:
                    found.append(
                        Finding(
                            FindingCode.DRIFT, Severity.WARNING, f"{hostname} {drive.dev_name}",
                            f"plan {plan_id} applied {mode}, it is in {drive.mode.value}",
                        )
                    )
        return found

    def _unrestored(self) -> List[Finding]:
        """Runs that ended without the probe's word, until the probe reports again."""
        engine = self._engine
        found = []
        for run_id, machine in sorted(engine.runs.items()):
            state = machine.state
            if state.status is not RunStatus.ABORTED or state.restored:
                continue
            agent = engine.hosts.agents.get(state.spec.hostname)
            silent = agent is None or engine.clock() - agent.seen_at_s > 60.0
            if silent or (agent is not None and agent.lease_id == state.spec.lease_id):
                found += [
                    Finding(
                        FindingCode.RESTORE_FAILED, Severity.ERROR,
                        f"{state.spec.hostname} {domain_id}",
                        f"{run_id} ended and the probe has not said that the prior state is back",
                    )
                    for domain_id in state.owed or state.spec.domain_ids
                ]
        for plan_id, rollout in sorted(engine.rollouts.items()):
            for change in rollout.rollout.changes if rollout.over else ():
                if change.status in (ChangeStatus.APPLYING, ChangeStatus.ROLLBACK_FAILED):
                    found.append(
                        Finding(
                            FindingCode.RESTORE_FAILED, Severity.ERROR,
                            f"{change.hostname} {', '.join(change.dev_names)}",
                            f"{plan_id}: {change.detail or 'not proven'}",
                        )
                    )
        return found

    # ---- views

    def status(self) -> Dict[str, Any]:
        """`status`: probes, drives by model, what is under way, findings with advice."""
        engine = self._engine
        findings = self.findings()
        with engine.lock:
            now_s = engine.clock()
            agents = engine.hosts.agents.all()
            models: Counter[ModelKey] = Counter()
            for host in self._hosts():
                models.update(host.models)
            running = [m for m in engine.runs.values() if not m.over]
            return {
                "format_version": FORMAT_VERSION,
                "frozen": engine.frozen,
                "throwaway_cluster": engine.options().throwaway_cluster,
                "agents": {
                    "known": len(agents),
                    "heard": sum(1 for a in agents if now_s - a.seen_at_s < 120.0),
                },
                "drives": sum(models.values()),
                "drive_models": [
                    {"drive_model": model, "device_cache": cache, "kernel_view": view,
                     "safety": safety, "drives": count}
                    for (model, cache, view, safety), count in sorted(models.items())
                ],
                "campaign": running[0].spec.campaign_id if running else "",
                "measuring": engine.reserved,
                "rollout": next((p for p, m in engine.rollouts.items() if not m.over), ""),
                "findings": [_finding(item) for item in findings],
                "unreadable": dict(sorted(engine.archive.unreadable.items())[:50]),
            }

    def drives(self, hostname: Optional[str] = None) -> Dict[str, Any]:
        """`drive ls`: every OSD drive with both sides of its cache and every layer."""
        engine = self._engine
        with engine.lock:
            if hostname and hostname not in engine.hosts.reports:
                raise NotFoundError(
                    f"no probe has reported for host {hostname[:60]!r}",
                    "see `ceph wcache agent ls`",
                )
            leased = self.leased()
            reports = sorted(engine.hosts.reports.items())
        # outside of the lock: a whole fleet's list takes long, and probes must not wait
        rows = [
            _drive(name, drive, (name, drive.domain_id) in leased)
            for name, report in reports
            if hostname in (None, "", name)
            for drive in report.drives
        ]
        return {"format_version": FORMAT_VERSION, "drives": rows}

    def under_way(self) -> Dict[str, Tuple[str, float]]:
        """Open campaigns and rollouts: event id to (message, fraction done)."""
        found: Dict[str, Tuple[str, float]] = {}
        with self._engine.lock:
            open_ids = {m.spec.campaign_id for m in self._engine.runs.values() if not m.over}
            for campaign_id in open_ids & set(self._engine.campaigns):
                head = self._campaign_head(campaign_id)
                fraction = head["periods_done"] / max(1, head["periods_max"])
                found[f"wcache.{campaign_id}"] = (f"wcache campaign {campaign_id}", fraction)
            job = self._mclock.work.machine
            if job is not None and not job.over:
                fraction = job.job.done / len(job.job.targets)
                found[f"wcache.{job.job.job_id}"] = (f"wcache {self._engine.reserved}", fraction)
            for plan_id, machine in self._engine.rollouts.items():
                if not machine.over:
                    changes = machine.rollout.changes
                    planned = [c for c in changes if c.status is ChangeStatus.PLANNED]
                    done = 1.0 - len(planned) / max(1, len(changes))
                    found[f"wcache.{plan_id}"] = (f"wcache plan {plan_id}", done)
        return found

    def agents(self) -> Dict[str, Any]:
        """`agent ls`: which probe speaks for which host, and when it was heard."""
        engine = self._engine
        with engine.lock:
            now_s = engine.clock()
            rows = [
                {
                    "hostname": a.hostname, "probe_id": a.probe_id,
                    "probe_version": a.probe_version, "heard_s_ago": round(now_s - a.seen_at_s, 1),
                    "lease_id": a.lease_id, "simulated": a.simulated,
                    "drives": len(engine.hosts.reports[a.hostname].drives)
                    if a.hostname in engine.hosts.reports else 0,
                }
                for a in engine.hosts.agents.all()
            ]
        return {"format_version": FORMAT_VERSION, "agents": rows}

    def campaigns(self) -> Dict[str, Any]:
        """`campaign ls`: all campaigns, newest last."""
        with self._engine.lock:
            ids = sorted(self._engine.campaigns, key=lambda c: (len(c), c))
            return {
                "format_version": FORMAT_VERSION,
                "campaigns": [self._campaign_head(campaign_id) for campaign_id in ids],
            }

    def _periods(self, machine: RunMachine) -> Tuple[int, int]:
        """(periods measured, periods at most): what ended early needs no more."""
        results = self._engine.analyses.results
        ended = sum(2 * results[i].pairs for i in machine.state.finished if i in results)
        done, most = machine.open_periods
        return ended + done, ended + most

    def _campaign_head(self, campaign_id: str) -> Dict[str, Any]:
        engine = self._engine
        campaign = engine.campaigns[campaign_id]
        machines = [engine.runs[run_id] for run_id in campaign.run_ids if run_id in engine.runs]
        open_runs = [m for m in machines if not m.over]
        aborted = [m for m in machines if m.state.status is RunStatus.ABORTED]
        progress = [self._periods(machine) for machine in machines]
        status = "running" if open_runs else "aborted" if aborted else "done"
        results = [
            r for r in engine.analyses.results.values() if r.campaign_id == campaign_id
        ]
        return {
            "campaign_id": campaign_id, "status": status, "scope": campaign.options.scope,
            "created_at_s": campaign.created_at_s, "seed": campaign.seed,
            "runs": len(machines), "runs_over": len(machines) - len(open_runs),
            "runs_aborted": len(aborted),
            "periods_done": sum(done for done, _ in progress),
            "periods_max": sum(most for _, most in progress),
            # a factorial is told of twice, and was measured once
            "seconds": round(sum(r.seconds for r in results if not r.measured_in), 3),
            "bytes_written": sum(r.bytes_written for r in results if not r.measured_in),
        }

    def campaign(self, campaign_id: str) -> Dict[str, Any]:
        """`campaign show`: runs, results and what was left out."""
        engine = self._engine
        with engine.lock:
            if campaign_id not in engine.campaigns:
                raise NotFoundError(
                    f"there is no campaign {campaign_id[:40]!r}", "see `ceph wcache campaign ls`"
                )
            campaign = engine.campaigns[campaign_id]
            runs = []
            for run_id in campaign.run_ids:
                machine = engine.runs.get(run_id)
                if machine is not None:
                    done, most = self._periods(machine)
                    runs.append({
                        "run_id": run_id, "hostname": machine.spec.hostname,
                        "domain_id": machine.spec.domain_id,
                        "domain_ids": list(machine.spec.domain_ids),
                        "dev_names": [
                            name for domain_id in machine.spec.domain_ids
                            for name in self._dev_names(machine.spec.hostname, domain_id)
                        ],
                        "status": machine.state.status.value, "reason": machine.state.reason,
                        "restored": machine.state.restored or not machine.over,
                        "periods_done": done, "periods_max": most,
                        "interrupted_periods": sum(w.periods for w in machine.state.waste),
                    })
            results = []
            for _, result in sorted(engine.analyses.results.items()):
                if result.campaign_id == campaign_id:
                    plain = codec.to_plain(result)
                    plain["dev_names"] = self._dev_names(result.hostname, result.domain_id)
                    results.append(plain)
            return {
                "format_version": FORMAT_VERSION, **self._campaign_head(campaign_id),
                "options": codec.to_plain(campaign.options), "skipped": list(campaign.skipped),
                "run_list": runs, "results": results,
            }

    def _dev_names(self, hostname: str, domain_id: str) -> List[str]:
        """What the host calls the drives of a cache domain now; empty where it is gone."""
        report = self._engine.hosts.reports.get(hostname)
        drives = report.drives if report else ()
        return [drive.dev_name for drive in drives if drive.domain_id == domain_id]

    def record(self, record_id: str) -> Dict[str, Any]:
        """`campaign record`: one record with its raw samples, as `wcache analyze` takes it."""
        record = self._engine.archive.record(record_id)
        if record is None:
            raise NotFoundError(
                f"there is no record {record_id[:60]!r}", "see `ceph wcache campaign show`"
            )
        plain: Dict[str, Any] = codec.to_plain(record)
        return plain

    def loads(self) -> Dict[str, Any]:
        """`load ls`: what measured OSDs carry over hours."""
        with self._engine.lock:
            results = list(self._engine.analyses.results.values())
        return {"format_version": FORMAT_VERSION, **load_ls(self._profiles(), results)}

    def recommendations(self, device_class: Optional[str] = None) -> Dict[str, Any]:
        """`recommend`: one per device class and drive model, with evidence and commands."""
        engine = self._engine
        with engine.lock:
            rows = []
            for item in engine.recommendations():
                if device_class not in (None, "", item.device_class):
                    continue
                plain = codec.to_plain(item)
                plain["manual"], plain["manual_on"] = [], ""
                measured = self._measured_drive(item.record_ids)
                if measured is not None and item.mode is not None:
                    plain["manual_on"], drive = measured
                    plain["manual"] = list(commands(drive, item.mode))
                plain["stale_keys"] = self._stale_keys(item)
                rows.append(plain)
        return {"format_version": FORMAT_VERSION, "recommendations": rows}

    def _stale_keys(self, item: Recommendation) -> List[str]:
        """mClock's values that the recommended mode makes stale, or has made so."""
        if item.mode is None or item.simulated:
            return []
        drives = [
            drive for report in self._engine.hosts.reports.values() if not report.simulated
            for drive in report.drives if drive.drive_model == item.drive_model
        ]
        return self._mclock.facts.stale_keys(
            {u.osd_id for d in drives if d.mode is item.mode.other for u in d.uses},
            {u.osd_id for d in drives if d.mode is item.mode for u in d.uses},
        )

    def _measured_drive(self, record_ids: Iterable[str]) -> Optional[Tuple[str, DriveReport]]:
        """(hostname, drive) of the first record whose drive is still there."""
        for record_id in record_ids:
            result = self._engine.analyses.results[record_id]
            report = self._engine.hosts.reports.get(result.hostname)
            for drive in report.drives if report else ():
                if drive.drive_id == result.drive_id:
                    return result.hostname, drive
        return None

    def plans(self) -> Dict[str, Any]:
        """`plan ls`: all plans, newest last."""
        with self._engine.lock:
            rows = [
                {
                    "plan_id": plan_id, "status": machine.rollout.status.value,
                    "created_at_s": machine.rollout.created_at_s,
                    "changes": len(machine.rollout.changes),
                    "applied": sum(
                        c.status is ChangeStatus.APPLIED for c in machine.rollout.changes
                    ),
                    "reason": machine.rollout.reason,
                }
                for plan_id, machine in sorted(
                    self._engine.rollouts.items(), key=lambda item: (len(item[0]), item[0])
                )
            ]
        return {"format_version": FORMAT_VERSION, "plans": rows}

    def plan(self, plan_id: str) -> Dict[str, Any]:
        """A plan and how far it has come."""
        machine = self._engine.rollouts.get(plan_id)
        if machine is None:
            raise NotFoundError(f"there is no plan {plan_id[:40]!r}")
        plain: Dict[str, Any] = codec.to_plain(machine.rollout)
        for row, change in zip(plain["changes"], machine.rollout.changes):
            row["ratio"] = change.ratio
        plain["stale_keys"] = self._mclock.facts.stale_keys_of(machine.rollout.changes)
        return {"format_version": FORMAT_VERSION, **plain}

    def history(self, limit: Optional[int] = None) -> Dict[str, Any]:
        """`history`: the audit log, oldest first."""
        count = 50 if limit is None else limit
        if not isinstance(count, int) or not 1 <= count <= 1000:
            raise MalformedError("limit must be a whole number from 1 to 1000")
        entries = self._engine.history[-count:]
        return {
            "format_version": FORMAT_VERSION,
            "history": [codec.to_plain(entry) for entry in entries],
        }


def _finding(item: Finding) -> Dict[str, str]:
    return {
        "code": item.code.value, "severity": item.severity.value, "subject": item.subject,
        "detail": item.detail, "advice": ADVICE[item.code][1],
    }


def _drive(hostname: str, drive: DriveReport, leased: bool) -> Dict[str, Any]:
    plain: Dict[str, Any] = codec.to_plain(drive)
    plain.update(
        hostname=hostname, leased=leased, safety=judge(drive.state).value,
        mode=drive.mode.value if drive.mode else "unknown",
        osds=sorted({use.osd_id for use in drive.uses}),
    )
    return plain
