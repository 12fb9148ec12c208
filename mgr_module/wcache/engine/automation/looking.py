"""Everything the automation looks at, gathered from the engine under its lock."""

from __future__ import annotations

from typing import Dict, FrozenSet, List, Optional, Sequence, Set, Tuple

from ...core.automation.drift import Applied, Key, Undone, applied
from ...core.automation.seen import DriveSeen, Ended, Seen
from ...core.automation.state import Pending
from ...core.change.change_status import ChangeStatus
from ...core.change.gate.marked import marked
from ...core.change.rollout_state import RolloutStatus
from ...core.cluster import ClusterState
from ...core.experiment.run_state import RunStatus
from ...core.fleet.claims import believed
from ...core.history.entry import AUTO
from ...core.host_report import HostReport
from ...core.model import CacheMode, DriveReport, FindingCode
from ...core.record import Precondition
from ...core.simulation import DriveKind, all_simulated, is_real, not_up, osd_of
from ...core.text import named
from ...core.unmet import unmet
from ...core.verdict.recommend import Recommendation
from ...core.verdict.repeated import Standing, standing
from ..engine import Engine
from .domains import Domain, Domains

_UNCLEAN = (Precondition.PGS_CLEAN, Precondition.NO_RECOVERY)


def stands(engine: Engine) -> Dict[Key, Applied]:
    """What plans have left drives in; also one that is paused, for days it may be."""
    machines = list(engine.rollouts.values())
    return applied((m.rollout for m in machines), (not m.moving for m in machines))


def modes_now(engine: Engine, domains: Domains) -> Dict[Key, CacheMode]:
    """The mode of each cache domain of which this mgr has a report, and nobody holds it."""
    found: Dict[Key, CacheMode] = {}
    for hostname in engine.hosts.reported_at_s:
        report = engine.hosts.reports.get(hostname)
        if report is not None:
            found.update(domains.modes(report))
    for machine in engine.runs.values():
        if machine.holds_lease:
            for domain_id in machine.spec.domain_ids:
                found.pop((machine.spec.hostname, domain_id), None)
    return found


def look(
    engine: Engine, domains: Domains, undone: Tuple[Undone, ...], pending: Optional[Pending],
    disputed: FrozenSet[Key], *, older: bool = False,
) -> Seen:
    """All of it, as of now; `disputed` are domains on which nothing is begun.

    With `older` reports too: which drives there are, whatever their modes are by now.
    """
    cluster = engine.view.cluster()
    reports = believed(engine.hosts.reports.values(), cluster)
    results = standing(list(engine.analyses.results.values()))
    measured, transient = _measured(results)
    throwaway = engine.options().throwaway_cluster
    drives = tuple(
        _drive(engine, report, domain, cluster, disputed, measured, transient)
        for report in reports if older or report.hostname in engine.hosts.reported_at_s
        for domain in domains.of(report, throwaway=throwaway)
    )
    blocking = () if all_simulated(reports) else cluster.blocking
    advice = engine.recommendations()

    return Seen(
        drives,
        {(item.device_class, str(item.drive_model)): item.verdict for item in advice},
        frozenset((item.hostname, item.domain_id) for item in undone if item.contested),
        frozenset((item.hostname, item.domain_id) for item in undone if item.away),
        unmet(blocking) if blocking else _unreported(engine),
        not any(item in blocking for item in _UNCLEAN),
        None if pending is None else ended(engine, pending.owner),
        _under_way(engine),
        went_back=_went_back(engine, advice),
    )


def _went_back(
    engine: Engine, advice: Sequence[Recommendation]
) -> Dict[Tuple[str, str], str]:
    """Plans, of whoever, that found a drive model to be worse in the mode of its verdict."""
    marks = marked(
        (m.rollout for m in engine.rollouts.values()), engine.analyses.results.values()
    )
    found = {}
    for item in advice:
        mark = marks.get(DriveKind.of(item))
        if mark is not None and mark.mode is item.mode:
            found[item.device_class, str(item.drive_model)] = mark.plan_id
    return found


def _unreported(engine: Engine) -> str:
    """Hosts that are heard and have not reported since something ended on them, in words."""
    now_s = engine.clock()
    heard = {agent.hostname for agent in engine.hosts.agents.all() if not agent.silent(now_s)}
    missing = sorted((heard & set(engine.hosts.reports)) - set(engine.hosts.reported_at_s))
    if not missing:
        return ""
    return f"the next report of {named(missing, 3)} is awaited"


def _measured(results: List[Standing]) -> Tuple[Set[Tuple[str, str]], Set[Tuple[str, str]]]:
    """Drives that were measured, and those whose newest results have a transient."""
    found = {(r.drive_id, str(r.drive_model)) for r in results}
    shaky = {
        (r.drive_id, str(r.drive_model)) for r in results
        if any(item.code is FindingCode.CARRYOVER for item in r.findings)
    }
    return found, shaky


def _drive(
    engine: Engine, report: HostReport, domain: Domain, cluster: ClusterState,
    disputed: FrozenSet[Key], measured: Set[Tuple[str, str]], transient: Set[Tuple[str, str]],
) -> DriveSeen:
    osd_ids = domain.osd_ids
    known = None
    for osd_id in osd_ids:
        known = known or osd_of(report, osd_id, cluster)
    refusal = domain.refusal
    if domain.key in disputed:
        refusal = refusal or "its prior state is not restored yet or in dispute"
    if domain.faulty:
        refusal = refusal or "it has a finding of severity error"
    if not refusal and not_up(report, osd_ids, cluster):
        refusal = "its OSDs are not all up"
    return DriveSeen(
        domain.key, domain.token(cluster),
        known.device_class if known is not None else _class_of(engine, domain.first),
        str(domain.first.drive_model), domain.mode, refusal,
        not measured.isdisjoint(domain.names), not transient.isdisjoint(domain.names),
    )


def _class_of(engine: Engine, drive: DriveReport) -> str:
    """Of a simulated drive: the class that it was measured in."""
    for result in engine.analyses.results.values():
        if not is_real(result) and result.drive_model == drive.drive_model:
            return result.device_class
    return "hdd" if drive.rotational else "ssd"


def _under_way(engine: Engine) -> str:
    for machine in engine.runs.values():
        if not machine.over:
            return f"campaign {machine.spec.campaign_id}"
    for plan_id, rollout in engine.rollouts.items():
        if not rollout.over:
            return f"plan {plan_id}"
    return engine.reserved


def going_on(engine: Engine, device_class: Optional[str]) -> List[str]:
    """What was begun by itself and is not over, each with the command that ends it.

    Of a device class only, where one is given.
    """
    def mine(name: str) -> bool:
        return device_class in (None, "", name)

    plans = [
        plan_id for plan_id, machine in engine.rollouts.items()
        if machine.rollout.by == AUTO and not machine.over
        and any(mine(change.device_class) for change in machine.rollout.changes)
    ]
    campaigns = sorted({
        machine.spec.campaign_id for machine in engine.runs.values()
        if not machine.over and engine.campaigns[machine.spec.campaign_id].by == AUTO
        and any(mine(setup.device_class) for setup in machine.spec.experiments)
    })
    return [
        *(f"plan {name}: `ceph wcache rollout abort {name}` ends it" for name in plans),
        *(f"campaign {name}: `ceph wcache campaign stop {name}` ends it" for name in campaigns),
    ]


def ended(engine: Engine, owner: str) -> Optional[Ended]:
    """How a campaign or plan has ended; None while it goes on."""
    rollout = engine.rollouts.get(owner)
    if rollout is not None:
        if not rollout.over:
            return None
        done = rollout.rollout
        made = [c for c in done.changes if c.status is ChangeStatus.APPLIED]
        return Ended(
            done.status is RolloutStatus.DONE, done.reason or done.status.value,
            sum(c.seconds for c in done.changes), sum(c.bytes_written for c in done.changes),
            len(made), done.undone,
        )
    runs = [m for m in engine.runs.values() if m.spec.campaign_id == owner]
    if any(not machine.over for machine in runs):
        return None
    waiting = [
        r for m in runs for r in m.state.finished
        if r not in engine.analyses.results or not engine.analyses.results[r].analysed
    ]
    if waiting and not engine.analyses.error:
        return None
    # what recovery kept from being measured is as unknown as before
    fit = not any(machine.state.unfit for machine in runs)
    return Ended(
        fit and any(machine.state.status is RunStatus.DONE for machine in runs),
        next((machine.state.reason for machine in runs if machine.state.reason), ""),
        sum(machine.state.finished_seconds for machine in runs),
        sum(machine.state.finished_bytes for machine in runs),
    )
