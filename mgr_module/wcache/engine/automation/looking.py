"""Everything the automation looks at, as one World has it."""

from __future__ import annotations

from typing import Dict, FrozenSet, List, Optional, Set, Tuple

from ...core.automation.drift import Applied, Key, Undone, applied
from ...core.automation.seen import DriveSeen, Ended, Seen
from ...core.automation.state import Pending
from ...core.change.change_status import ChangeStatus
from ...core.change.rollout_state import RolloutStatus
from ...core.experiment.run_state import RunStatus
from ...core.history.entry import AUTO
from ...core.host_report import HostReport
from ...core.model import CacheMode, DriveReport, FindingCode
from ...core.precondition_text import precondition_text
from ...core.shell import typed
from ...core.simulation import DriveKind, all_simulated, illness, is_real, osd_of
from ...core.text import named
from ...core.verdict.repeated import Standing, standing
from ..under_way import waits
from ..world import World
from .domains import Domain, Domains


def stands(world: World) -> Dict[Key, Applied]:
    """What plans have left drives in; also one that is paused, for days it may be."""
    machines = list(world.rollouts.values())
    return applied((m.rollout for m in machines), (not m.moving for m in machines))


def modes_now(world: World, domains: Domains) -> Dict[Key, CacheMode]:
    """The mode of each cache domain of which this mgr has a report, and nobody holds it."""
    found: Dict[Key, CacheMode] = {}
    for hostname in world.reported_at_s:
        report = world.reports.get(hostname)
        if report is not None:
            found.update(domains.modes(report))
    for key in world.leased:
        found.pop(key, None)
    return found


def look(
    world: World, domains: Domains, undone: Tuple[Undone, ...], begun: Tuple[Pending, ...],
    disputed: FrozenSet[Key], *, older: bool = False,
) -> Seen:
    """All of it, as of now; `disputed` are domains on which nothing is begun.

    With `older` reports too: which drives there are, whatever their modes are by now.
    """
    reports = world.believed_reports
    measured, transient = _measured(standing(list(world.results.values())))
    throwaway = world.options.throwaway_cluster
    drives = tuple(
        _drive(world, report, domain, disputed, measured, transient)
        for report in reports if older or report.hostname in world.reported_at_s
        for domain in domains.of(report, throwaway=throwaway)
    )
    blocking = () if all_simulated(reports) else world.cluster.blocking
    ends = ((item.owner, ended(world, item.owner)) for item in begun)
    waiting = frozenset(
        plan_id for plan_id in world.open_plans if waits(world.rollouts[plan_id], world.now_s)
    )
    return Seen(
        drives,
        {
            (item.device_class, str(item.drive_model)): item.verdict
            for item in world.recommendations
        },
        frozenset((item.hostname, item.domain_id) for item in undone if item.contested),
        frozenset((item.hostname, item.domain_id) for item in undone if item.away),
        world.store_error or (precondition_text(blocking) if blocking else _unreported(world)),
        {owner: end for owner, end in ends if end is not None}, waiting,
        frozenset(world.of_plans), _knobs(world), _under_way(world, waiting),
        went_back=_went_back(world), without=tuple(world.unreported(waited_for=False)),
    )


def _under_way(world: World, waiting: FrozenSet[str]) -> str:
    """What has drives or OSDs for itself, in words; plans that wait are in nobody's way."""
    if world.open_campaign:
        return f"campaign {world.open_campaign}"
    plans = [plan_id for plan_id in world.open_plans if plan_id not in waiting]
    if plans:
        return f"plan {plans[0]}"
    return next((each.words for each in world.reserved), "")


def _knobs(world: World) -> FrozenSet[str]:
    plans = (world.rollouts[plan_id].rollout for plan_id in world.open_plans)
    return frozenset(change.knob for plan in plans for change in plan.config_changes)


def _went_back(world: World) -> Dict[Tuple[str, str], str]:
    """Plans, of whoever, that found a drive model to be worse in the mode of its verdict."""
    found = {}
    for item in world.recommendations:
        mark = world.marks.get(DriveKind.of(item))
        if mark is not None and mark.mode is item.mode:
            found[item.device_class, str(item.drive_model)] = mark.plan_id
    return found


def _unreported(world: World) -> str:
    """Hosts whose report is waited for, in words."""
    missing = world.unreported(waited_for=True)
    return f"the next report of {named(missing, 3)} is awaited" if missing else ""


def _measured(results: List[Standing]) -> Tuple[Set[Tuple[str, str]], Set[Tuple[str, str]]]:
    """Drives that were measured, and those whose newest results have a transient."""
    found = {(r.drive_id, str(r.drive_model)) for r in results}
    shaky = {
        (r.drive_id, str(r.drive_model)) for r in results
        if any(item.code is FindingCode.CARRYOVER for item in r.findings)
    }
    return found, shaky


def _drive(
    world: World, report: HostReport, domain: Domain, disputed: FrozenSet[Key],
    measured: Set[Tuple[str, str]], transient: Set[Tuple[str, str]],
) -> DriveSeen:
    osd_ids, cluster = domain.osd_ids, world.cluster
    known = None
    for osd_id in osd_ids:
        known = known or osd_of(report, osd_id, cluster)
    refusal = domain.refusal
    if domain.key in disputed:
        refusal = refusal or "its prior state is not restored yet or in dispute"
    if domain.faulty:
        refusal = refusal or "it has a finding of severity error"
    refusal = refusal or illness(report, osd_ids, cluster)
    return DriveSeen(
        domain.key, domain.token(cluster),
        known.device_class if known is not None else _class_of(world, domain.first),
        str(domain.first.drive_model), domain.mode, refusal,
        not measured.isdisjoint(domain.names), not transient.isdisjoint(domain.names),
    )


def _class_of(world: World, drive: DriveReport) -> str:
    """Of a simulated drive: the class that it was measured in."""
    for result in world.results.values():
        if not is_real(result) and result.drive_model == drive.drive_model:
            return result.device_class
    return "hdd" if drive.rotational else "ssd"


def going_on(world: World, device_class: Optional[str]) -> List[str]:
    """What was begun by itself and is not over, each with the command that ends it.

    Of a device class only, where one is given.
    """
    def mine(name: str) -> bool:
        return device_class in (None, "", name)

    plans = [
        plan_id for plan_id in world.open_plans
        if world.rollouts[plan_id].rollout.by == AUTO
        and any(mine(item.device_class) for item in world.rollouts[plan_id].rollout.changes)
    ]
    campaigns = sorted({
        spec.campaign_id for spec in (world.runs[run_id].spec for run_id in world.open_runs)
        if world.campaigns[spec.campaign_id].by == AUTO
        and any(mine(setup.device_class) for setup in spec.experiments)
    })
    return [
        *(f"plan {name}: {typed('ceph wcache rollout abort {}', name)} ends it" for name in plans),
        *(
            f"campaign {name}: {typed('ceph wcache campaign stop {}', name)} ends it"
            for name in campaigns
        ),
    ]


def ended(world: World, owner: str) -> Optional[Ended]:
    """How a campaign or plan has ended; None while it goes on."""
    rollout = world.rollouts.get(owner)
    if rollout is not None:
        if not rollout.over:
            return None
        done = rollout.rollout
        made = [c for c in done.changes if c.status is ChangeStatus.APPLIED]
        return Ended(
            done.status is RolloutStatus.DONE, done.reason or done.status.value,
            sum(c.seconds for c in done.changes), sum(c.bytes_written for c in done.changes),
            len(made), done.undone or done.status is RolloutStatus.PLANNED,  # it was never begun
            frozenset(str(c.drive_model) for c in done.mode_changes if c.drive_model),
        )
    runs = [m for m in world.runs.values() if m.spec.campaign_id == owner]
    if any(not machine.over for machine in runs):
        return None
    waiting = [
        r for m in runs for r in m.state.finished
        if r not in world.results or not world.results[r].analysed
    ]
    if waiting and not world.analysis_error:
        return None
    # what recovery kept from being measured is as unknown as before
    others = {machine.spec.instead_of for machine in runs}  # another drive stands for those
    fit = not any(m.state.unfit and m.spec.run_id not in others for m in runs)
    return Ended(
        fit and any(machine.state.status is RunStatus.DONE for machine in runs),
        next((machine.state.reason for machine in runs if machine.state.reason), ""),
        sum(machine.state.finished_seconds for machine in runs),
        sum(machine.state.finished_bytes for machine in runs),
    )
