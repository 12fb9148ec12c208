"""Everything that is wrong at the moment: a finding is a function of a World.

`FINDERS` has all of them but those of single hosts, which are kept (`hosts.py`), and what
services find of what they are about.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from typing import (
    AbstractSet,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Set,
    Tuple,
)

from ..core.change import preconditions as holding
from ..core.change.change import ChangeStatus
from ..core.cluster import IN_WORK
from ..core.experiment.run_state import OVER, RunStatus
from ..core.fleet.agents import SILENT_S
from ..core.fleet.disputes import Dispute, Key, unconfirmed
from ..core.fleet.foreign_rules import together
from ..core.model import Cure, Finding, FindingCode, Severity
from ..core.record import Precondition
from ..core.text import grouped, typed
from ..core.verdict.repeated import unsent
from ..core.verdict.result import Result
from ..engine.auto_look import stands
from ..engine.world import World
from .hosts import FindingsOfHosts, FleetView, HostViews

# A look at what services find wrong with what they are about.
More = Callable[[World], Sequence[Finding]]
# So many campaigns in a row that aborted, none older than this, are a finding.
ABORTS_MIN = 3
ABORTS_WITHIN_S = 7 * 86400.0
# A refused rival calls again within this time as long as it runs.
RIVAL_S = 45.0
# A probe that calls and has been at one step for so long is told of: a disk that spins up, or
# writes its whole cache out, takes less.
HANGS_S = 30.0


class FindingViews:
    """Findings, and the views of hosts that they come from; what has not changed is kept."""

    def __init__(self, more: More) -> None:
        self._more = more
        self._host_views = HostViews()
        self._of_hosts = FindingsOfHosts()

    def all(self, world: World, fleet: Optional[FleetView] = None) -> List[Finding]:
        """Everything wrong at the moment, errors first; `fleet` where it is known already.

        One host's findings must not hide another's where only some are shown: of each code a
        first of each host, then a second, ...  What a host's findings are about begins with its
        name.
        """
        fleet = self.hosts(world) if fleet is None else fleet
        told = sorted(fleet.told.items())
        found = together(item for _, host in told for item in host.findings)
        # a report that is due again may tell of a state that an experiment has left
        mixed = mixed_modes(fleet.modes_of(world.reported_at_s.keys()))
        found += _of_one_class(world, fleet, {one.subject for one in mixed}) if mixed else ()
        found += self._of_hosts.take(fleet, world)
        for find in FINDERS:
            found += find(world)
        found += self._more(world)
        order = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}
        found.sort(key=lambda f: (order[f.severity], f.code.value, f.subject))
        seen: Counter[Tuple[Severity, FindingCode, str]] = Counter()
        ranked = []
        for index, item in enumerate(found):
            of_host = (item.severity, item.code, item.subject.partition(" ")[0])
            seen[of_host] += 1
            ranked.append((order[item.severity], item.code.value, seen[of_host], index))
        return [found[index] for *_, index in sorted(ranked)]

    def hosts(self, world: World) -> FleetView:
        """What follows from each host's report."""
        return self._host_views.take(
            world.reports, throwaway=world.options.throwaway_cluster,
            leased=world.leased, changing=world.changing, touched=_touched(world),
        )


def _touched(world: World) -> Set[Key]:
    """Domains that plans have changed, or may have, and have not brought back."""
    untouched = (ChangeStatus.PLANNED, ChangeStatus.ROLLED_BACK)
    changed = {
        (change.hostname, change.domain_id) for plan in world.plans
        for change in plan.drive_changes if change.status not in untouched
    }
    return changed | {item.key for item in world.disputes}


def mixed_modes(counts: Mapping[Tuple[str, str], int]) -> List[Finding]:
    """Find drive models whose drives are not all in one mode, by drives of (model, mode)."""
    modes: Dict[str, Dict[str, int]] = defaultdict(dict)
    for (model, mode), count in counts.items():
        modes[model][mode] = count
    return [
        Finding(
            FindingCode.MIXED_MODES, Severity.WARNING, model,
            ", ".join(f"{count} in {mode}" for mode, count in sorted(counts.items())),
        )
        for model, counts in sorted(modes.items())
        if len(counts) > 1
    ]


def _of_one_class(
    world: World, fleet: FleetView, models: AbstractSet[str]
) -> Iterator[Finding]:
    """Of these models, the drives of one device class that are not all in one mode.

    A verdict is of a class too.
    """
    counts: Dict[str, Dict[Tuple[str, str], int]] = defaultdict(lambda: defaultdict(int))
    for hostname in world.reported_at_s.keys() & fleet.views.keys():
        view = fleet.views[hostname]
        for drive in view.report.drives:
            name = str(drive.drive_model) or drive.transport.value
            held = drive.domain_id in view.leased | view.changing
            if name in models and not held and drive.mode is not None:
                osd = world.cluster.osds.get(drive.uses[0].osd_id) if drive.uses else None
                counts[osd.device_class if osd else ""][name, drive.mode.value] += 1
    for _, of_class in sorted(counts.items()):
        yield from mixed_modes(of_class)


def drift(world: World) -> Iterator[Finding]:
    """Find drives that are not in the mode that was applied."""
    for (hostname, domain_id), plan in sorted(stands(world).items()):
        report = world.reports.get(hostname)
        stale = hostname not in world.reported_at_s
        if report is None or stale or (hostname, domain_id) in world.leased:
            continue
        for drive in report.drives:
            if drive.domain_id == domain_id and drive.mode and drive.mode is not plan.mode:
                yield Finding(
                    FindingCode.DRIFT, Severity.WARNING, f"{hostname} {drive.dev_name}",
                    f"plan {plan.plan_id} applied {plan.mode.value}, but it is in "
                    f"{drive.mode.value}",
                )


def unsettled(world: World) -> List[Finding]:
    """Find prior states that are owed or lost."""
    return [_unsettled(item, world) for item in world.disputes]


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


def paused(world: World) -> List[Finding]:
    """Find rollouts that wait for an admin: what they have made stays meanwhile."""
    return [
        Finding(
            FindingCode.ROLLOUT_PAUSED, Severity.WARNING, plan_id,
            f"{machine.rollout.reason}: {typed('ceph wcache rollout resume {}', plan_id)} or "
            + typed("ceph wcache rollout abort {}", plan_id),
        )
        for plan_id, machine in world.rollouts.items() if machine.paused
    ]


def waiting(world: World) -> List[Finding]:
    """Find rollouts that have been held for long: they go on by themselves."""
    return [
        Finding(FindingCode.PLAN_WAITS, Severity.WARNING, plan_id, machine.rollout.reason)
        for plan_id, machine in world.rollouts.items()
        if holding.waited_s(machine.rollout, world.now_s) >= holding.TOLD_AFTER_S
    ]


def unset(world: World) -> List[Finding]:
    """Find changes of the config database of which nobody knows whether they stand."""
    return [
        Finding(
            FindingCode.CONFIG_UNPROVEN, Severity.ERROR, change.name,
            unconfirmed(plan_id, change),
        )
        for plan_id in sorted(set(world.rollouts) - set(world.open_plans))
        for change in world.rollouts[plan_id].rollout.config_changes
        if change.status in (ChangeStatus.APPLYING, ChangeStatus.ROLLBACK_FAILED)
    ]


def results(world: World) -> List[Finding]:
    """Find what the last experiment of each drive and load point found wrong with the drive.

    That no flush reached it stands until one has.
    """
    latest: Dict[Tuple[str, str, str], Result] = {}
    for result in world.believed_results:
        if result.analysed:
            key = (result.hostname, result.drive_id, result.load_point.value)
            known = latest.get(key)
            if known is None or known.ended_at_s <= result.ended_at_s:
                latest[key] = result
    found = [(one, item) for one in latest.values() for item in one.findings]
    found += [
        (one, item) for one in unsent(world.believed_results) for item in one.findings
        if item.code is FindingCode.FLUSH_MISSING
    ]
    return list(dict.fromkeys(
        replace(item, subject=f"{one.hostname} {_name(world, one)}") for one, item in found
    ))


def _name(world: World, result: Result) -> str:
    """What the host calls the drive of a result now; its id where it is gone."""
    report = world.reports.get(result.hostname)
    names = (
        drive.dev_name for drive in (report.drives if report else ())
        if drive.drive_id == result.drive_id
    )
    return next(names, result.drive_id)


def probes(world: World) -> Iterator[Finding]:
    """Find silent probes, also by what they wait for; rivals, and probes of another version."""
    for one in world.other_versions:
        yield Finding(FindingCode.AGENT_VERSION, Severity.WARNING, one.hostname, one.words)
    calling = {one.hostname for one in world.other_versions}
    # of 10,000 probes few have anything to tell: they are found first
    for agent in [
        one for one in world.agents if world.now_s - one.seen_at_s >= SILENT_S
        or one.rival_probe_id or one.hostname in world.blocked
    ]:
        waits = world.blocked.get(agent.hostname)
        hangs = waits is not None and world.now_s - waits.since_s >= HANGS_S
        if (hangs or agent.silent(world.now_s)) and agent.hostname not in calling:
            planned = waits is None and _in_work(world, agent.hostname)
            yield Finding(
                FindingCode.AGENT_SILENT, Severity.INFO if planned else Severity.WARNING,
                agent.hostname,
                f"{waits.words(world.now_s)}; see the kernel's log of that host (dmesg)"
                if waits is not None else f"last seen {world.now_s - agent.seen_at_s:.0f} s ago",
            )
        if agent.rival_probe_id and world.now_s - agent.rival_seen_at_s < RIVAL_S:
            yield Finding(
                FindingCode.AGENT_CONFLICT, Severity.WARNING, agent.hostname,
                f"probe {agent.rival_probe_id} was refused: {agent.probe_id} speaks for this host",
            )


def _in_work(world: World, hostname: str) -> bool:
    """Whether a host was stopped for planned work, with nothing of ours held or owed there."""
    osds = [osd for osd in world.cluster.osds.values() if osd.hostname == hostname]
    noout = Precondition.NO_MAINTENANCE in world.cluster.missed
    return bool(osds) and all(
        not osd.up and (noout or world.cluster.ill.get(osd.osd_id) == IN_WORK) for osd in osds
    ) and all(name != hostname for name, _ in (
        *world.leased, *world.changing, *(item.key for item in world.disputes)
    ))


def campaigns(world: World) -> List[Finding]:
    """Find the newest campaigns that are over, where each had a run that aborted by itself."""
    states = grouped((run.spec.campaign_id, run.state) for run in world.runs.values())
    last: List[Tuple[str, str]] = []  # campaign, why its last run aborted; newest first
    for campaign in sorted(world.campaigns.values(), key=lambda c: c.created_at_s, reverse=True):
        mine = states.get(campaign.campaign_id, [])
        old = world.now_s - campaign.created_at_s > ABORTS_WITHIN_S
        under_way = any(s.status not in OVER for s in mine)
        if old or not mine or under_way:
            continue
        aborted = [state for state in mine if state.status is RunStatus.ABORTED]
        if any(state.by_will for state in aborted):
            continue
        if not aborted:
            return []
        last.append((campaign.campaign_id, aborted[-1].reason))
        if len(last) == ABORTS_MIN:
            names = ", ".join(name for name, _ in reversed(last))
            return [Finding(
                FindingCode.CAMPAIGN_ABORTS, Severity.WARNING, last[0][0],
                f"{names} aborted; the last one: {last[0][1]}",
            )]
    return []


def the_module(world: World) -> Iterator[Finding]:
    """Find what is wrong with the module itself: its store, its loop, a machine, the analysis."""
    trouble = world.store_error or world.trouble
    if trouble:
        yield Finding(FindingCode.STORE_FAILED, Severity.ERROR, "mgr", trouble)
    if world.unticked_s > world.options.lease_ttl_s:
        said = f"stuck for {world.unticked_s:.0f} s; no lease is renewed until it resumes"
        yield Finding(FindingCode.INTERNAL_ERROR, Severity.ERROR, "mgr", said)
    for owner, reason in world.broken.items():
        yield Finding(FindingCode.INTERNAL_ERROR, Severity.ERROR, owner, f"ended by {reason}")
    if world.analysis_error:
        yield Finding(FindingCode.NO_ANALYSIS, Severity.WARNING, "mgr", world.analysis_error)
    if world.frozen:
        yield Finding(FindingCode.FROZEN, Severity.WARNING, "cluster", "frozen by an admin")


FINDERS: Tuple[Callable[[World], Iterable[Finding]], ...] = (
    drift, probes, unsettled, unset, paused, waiting, results, campaigns, the_module,
)
