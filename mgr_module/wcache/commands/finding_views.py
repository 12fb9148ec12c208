"""Everything that is wrong at the moment, over all hosts, plans, runs and the store."""

from __future__ import annotations

from typing import Callable, List, Optional, Sequence, Set

from ..core.change import preconditions as holding
from ..core.change.change_status import ChangeStatus
from ..core.fleet.disputes import Dispute, Key, unconfirmed
from ..core.fleet.findings import mixed_modes, of_agents, of_campaigns, of_results
from ..core.fleet.loaded_off import together
from ..core.model import Cure, Finding, FindingCode, Severity
from ..engine.auto_look import stands
from ..engine.world import World
from .drives.foreign_rules import ForeignRules
from .drives.hosts import FleetView, HostViews
from .drives.set_up_views import SetUpViews

# A look at what services find wrong with what they are about.
More = Callable[[World], Sequence[Finding]]


class FindingViews:
    """Findings, and the views of hosts that they come from; what has not changed is kept."""

    def __init__(self, more: More) -> None:
        self._more = more
        self._host_views = HostViews()
        self._foreign = ForeignRules()
        self._set_up = SetUpViews()

    def all(self, world: World, fleet: Optional[FleetView] = None) -> List[Finding]:
        """Everything wrong at the moment, errors first; `fleet` where it is known already."""
        fleet = self.hosts(world) if fleet is None else fleet
        found = together(self._foreign.judged(fleet, world))
        # a report that is due again may tell of a state that an experiment has left
        found += mixed_modes(fleet.modes_of(world.reported_at_s.keys()))
        found += _drift(world)
        found += of_agents(
            world.agents, world.now_s, world.other_versions, world.blocked
        )
        found += [*(_unsettled(item, world) for item in world.disputes), *_unset(world)]
        found += [*_paused(world), *_waiting(world)]
        found += of_results(world.believed_results)
        found += of_campaigns(
            world.campaigns.values(), (m.state for m in world.runs.values()), world.now_s
        )
        if world.frozen:
            found.append(
                Finding(FindingCode.FROZEN, Severity.WARNING, "cluster", "frozen by an admin")
            )
        found += self._set_up.findings(fleet, world)
        found += self._more(world)
        found += _of_the_module(world)
        order = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}
        return sorted(found, key=lambda f: (order[f.severity], f.code.value, f.subject))

    def hosts(self, world: World) -> FleetView:
        """What follows from each host's report."""
        return self._host_views.take(
            world.reports, throwaway=world.options.throwaway_cluster,
            leased=world.leased, changing=world.changing, touched=_touched(world),
        )


def _of_the_module(world: World) -> List[Finding]:
    """What is wrong with the module itself: its store, its loop, a machine, the analysis."""
    found = []
    trouble = world.store_error or world.trouble
    if trouble:
        found.append(Finding(FindingCode.STORE_FAILED, Severity.ERROR, "mgr", trouble))
    if world.stuck:
        said = f"stuck for {world.unticked_s:.0f} s; no lease is renewed until it resumes"
        found.append(Finding(FindingCode.INTERNAL_ERROR, Severity.ERROR, "mgr", said))
    found += [
        Finding(FindingCode.INTERNAL_ERROR, Severity.ERROR, owner, f"ended by {reason}")
        for owner, reason in world.broken.items()
    ]
    if world.analysis_error:
        found.append(
            Finding(FindingCode.NO_ANALYSIS, Severity.WARNING, "mgr", world.analysis_error)
        )
    return found


def _touched(world: World) -> Set[Key]:
    """Domains that plans have changed, or may have, and have not brought back."""
    untouched = (ChangeStatus.PLANNED, ChangeStatus.ROLLED_BACK)
    changed = {
        (change.hostname, change.domain_id) for plan in world.plans
        for change in plan.drive_changes if change.status not in untouched
    }
    return changed | {item.key for item in world.disputes}


def _drift(world: World) -> List[Finding]:
    found = []
    for (hostname, domain_id), plan in sorted(stands(world).items()):
        report = world.reports.get(hostname)
        stale = hostname not in world.reported_at_s
        if report is None or stale or (hostname, domain_id) in world.leased:
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


def _unsettled(item: Dispute, world: World) -> Finding:
    """A prior state that is owed or lost: an error until it is read back or given up.

    But where all that is missing is a probe's next report: a drive that was toggled stays
    pinned, so nothing is at risk until then.
    """
    code = FindingCode.PRIOR_LOST if item.lost else FindingCode.RESTORE_FAILED
    severity, why, cure = Severity.ERROR, item.why, Cure.GENERAL
    agent = world.agent(item.hostname)
    silent = agent is not None and agent.silent(world.now_s)
    if item.of_osd and not item.lost:
        cure = Cure.START_OSD
    elif item.run_id and not item.lost and (item.told_back or silent):
        severity = Severity.WARNING
        if silent:
            why += "; the probe does not respond: once started, it restores and reports"
            cure = Cure.START_PROBE
    return Finding(code, severity, f"{item.hostname} {item.domain_id}".strip(), why, cure)


def _paused(world: World) -> List[Finding]:
    """Rollouts that wait for an admin: what they have made stays meanwhile."""
    return [
        Finding(FindingCode.ROLLOUT_PAUSED, Severity.WARNING, plan_id, machine.rollout.reason)
        for plan_id, machine in world.rollouts.items() if machine.paused
    ]


def _waiting(world: World) -> List[Finding]:
    """Rollouts that have been held for long: they go on by themselves."""
    return [
        Finding(FindingCode.PLAN_WAITS, Severity.WARNING, plan_id, machine.rollout.reason)
        for plan_id, machine in world.rollouts.items()
        if holding.waited_s(machine.rollout, world.now_s) >= holding.TOLD_AFTER_S
    ]


def _unset(world: World) -> List[Finding]:
    """Changes of the config database of which nobody knows whether they stand."""
    return [
        Finding(
            FindingCode.CONFIG_UNPROVEN, Severity.ERROR, change.name,
            unconfirmed(plan_id, change),
        )
        for plan_id in sorted(set(world.rollouts) - set(world.open_plans))
        for change in world.rollouts[plan_id].rollout.config_changes
        if change.status in (ChangeStatus.APPLYING, ChangeStatus.ROLLBACK_FAILED)
    ]
