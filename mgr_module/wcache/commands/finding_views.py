"""Everything that is wrong at the moment, over all hosts, plans, runs and the store."""

from __future__ import annotations

from typing import Callable, List, Set, Tuple

from ..core.change.change_status import ChangeStatus
from ..core.fleet.disputes import Dispute, unconfirmed
from ..core.fleet.findings import SILENT, mixed_modes, of_agents, of_campaigns, of_results
from ..core.fleet.loaded_off import together
from ..core.model import Finding, FindingCode, Severity
from ..engine.automation.looking import stands
from ..engine.engine import Engine
from ..services.guards import disputes_of
from .drives.foreign_rules import ForeignRules
from .drives.hosts import HostView, HostViews
from .drives.set_up_views import SetUpViews

Leased = Set[Tuple[str, str]]


class FindingViews:
    """Findings over the engine, and the views of hosts that they come from."""

    def __init__(self, engine: Engine, more: Callable[[], List[Finding]] = list) -> None:
        self._engine = engine
        self._more = more
        self._host_views = HostViews()
        self._foreign = ForeignRules(engine)
        self._set_up = SetUpViews(engine)

    def leased(self) -> Leased:
        """(hostname, domain id) of every cache domain that an experiment holds."""
        return {
            (m.spec.hostname, domain_id)
            for m in self._engine.runs.values()
            if m.holds_lease
            for domain_id in m.spec.domain_ids
        }

    def all(self) -> List[Finding]:
        """Everything wrong at the moment, errors first."""
        engine = self._engine
        with engine.lock:
            leased = self.leased()
            hosts = self.hosts()
            found = together(self._foreign.judged(hosts))
            # a report that is due again may tell of a state that an experiment has left
            fresh = [h for h in hosts if h.report.hostname in engine.hosts.reported_at_s]
            found += mixed_modes(host.modes for host in fresh)
            found += self._drift(leased)
            agents, now_s = engine.hosts.agents, engine.clock()
            found += of_agents(agents.all(), now_s, agents.others(now_s))
            found += self._unrestored()
            found += of_results(engine.analyses.believed())
            found += of_campaigns(
                engine.campaigns.values(), (m.state for m in engine.runs.values()), engine.clock()
            )
            if engine.frozen:
                found.append(
                    Finding(
                        FindingCode.FROZEN, Severity.WARNING, "cluster", "frozen by an admin"
                    )
                )
            found += self._set_up.findings(hosts)
            found += self._more()
            found += self._of_the_module()
            if engine.analyses.error:
                found.append(
                    Finding(
                        FindingCode.NO_ANALYSIS, Severity.WARNING, "mgr", engine.analyses.error
                    )
                )
        order = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}
        return sorted(found, key=lambda f: (order[f.severity], f.code.value, f.subject))

    def _of_the_module(self) -> List[Finding]:
        """What is wrong with the module itself: its store, its loop, a machine of its own."""
        engine = self._engine
        found = []
        trouble = engine.persistence.error or engine.archive.trouble()
        if trouble:
            found.append(Finding(FindingCode.STORE_FAILED, Severity.ERROR, "mgr", trouble))
        if engine.stuck:
            said = f"stuck for {engine.unticked_s:.0f} s; no lease is renewed until it resumes"
            found.append(Finding(FindingCode.INTERNAL_ERROR, Severity.ERROR, "mgr", said))
        found += [
            Finding(FindingCode.INTERNAL_ERROR, Severity.ERROR, owner, f"ended by {reason}")
            for owner, reason in engine.broken.items()
        ]
        return found

    def hosts(self) -> List[HostView]:
        """What follows from each host's report; call it under the engine's lock."""
        engine = self._engine
        return self._host_views.take(
            engine.hosts.reports, throwaway=engine.options().throwaway_cluster,
            leased=self.leased(), changing=self._changed_domains(), touched=self._touched(),
        )

    def _touched(self) -> Leased:
        """Domains that plans have changed, or may have, and have not brought back."""
        untouched = (ChangeStatus.PLANNED, ChangeStatus.ROLLED_BACK)
        changed = {
            (change.hostname, change.domain_id)
            for machine in self._engine.rollouts.values()
            for change in machine.rollout.drive_changes if change.status not in untouched
        }
        return changed | {item.key for item in disputes_of(self._engine)}

    def _changed_domains(self) -> Leased:
        """Domains a rollout is working on: mixed modes are its very purpose."""
        return {
            (change.hostname, change.domain_id)
            for machine in self._engine.rollouts.values()
            if not machine.over
            for change in machine.rollout.drive_changes
        }

    def _drift(self, leased: Leased) -> List[Finding]:
        engine = self._engine
        found = []
        for (hostname, domain_id), plan in sorted(stands(engine).items()):
            report = engine.hosts.reports.get(hostname)
            stale = hostname not in engine.hosts.reported_at_s
            if report is None or stale or (hostname, domain_id) in leased:
                continue
            for drive in report.drives:
                if drive.domain_id == domain_id and drive.mode and drive.mode is not plan.mode:
                    found.append(
                        Finding(
                            FindingCode.DRIFT, Severity.WARNING, f"{hostname} {drive.dev_name}",
                            f"plan {plan.plan_id} applied {plan.mode.value}, but it is in "
                            f"{drive.mode.value}",
                        )
                    )
        return found

    def _unrestored(self) -> List[Finding]:
        """Prior states that are owed or lost: shown until they are read back or given up."""
        found = [self._unsettled(item) for item in disputes_of(self._engine)]
        return [*found, *self._unset(), *self._paused()]

    def _unsettled(self, item: Dispute) -> Finding:
        """An error, but where all that is missing is a probe's next report.

        A drive that was toggled stays pinned, so nothing is at risk until then.
        """
        code = FindingCode.PRIOR_LOST if item.lost else FindingCode.RESTORE_FAILED
        severity, why = Severity.ERROR, item.why
        agent = self._engine.hosts.agents.get(item.hostname)
        silent = agent is not None and agent.silent(self._engine.clock())
        if item.run_id and not item.lost and (item.told_back or silent):
            severity = Severity.WARNING
            if silent:
                why += f"; {SILENT}: once started, it restores and reports"
        return Finding(code, severity, f"{item.hostname} {item.domain_id}".strip(), why)

    def _paused(self) -> List[Finding]:
        """Rollouts that wait for an admin: what they have made stays meanwhile."""
        return [
            Finding(
                FindingCode.ROLLOUT_PAUSED, Severity.WARNING, plan_id, machine.rollout.reason
            )
            for plan_id, machine in self._engine.rollouts.items() if machine.paused
        ]

    def _unset(self) -> List[Finding]:
        """Changes of the config database of which nobody knows whether they stand."""
        return [
            Finding(
                FindingCode.CONFIG_UNPROVEN, Severity.ERROR, change.name,
                unconfirmed(plan_id, change),
            )
            for plan_id, machine in self._engine.rollouts.items() if machine.over
            for change in machine.rollout.config_changes
            if change.status in (ChangeStatus.APPLYING, ChangeStatus.ROLLBACK_FAILED)
        ]
