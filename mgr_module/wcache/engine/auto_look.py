"""Look of the automation at the cluster: all that it decides by, as one World has it."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Dict, FrozenSet, List, Mapping, Optional, Sequence, Set, Tuple

from ..core.automation.deciding import DriveSeen, Seen, Wish, not_anew
from ..core.automation.state import (
    Allowance,
    Applied,
    AutoState,
    Ended,
    Key,
    Mode,
    ModelKey,
    mode_of,
    parse_windows,
)
from ..core.change.change import BACK, ChangeStatus
from ..core.change.preconditions import precondition_text
from ..core.change.rollout_state import UNDER_WAY, RolloutStatus
from ..core.cluster import ClusterState
from ..core.drive.safety import may_toggle
from ..core.experiment.run_state import RunStatus
from ..core.history import AUTO
from ..core.host_report import HostReport
from ..core.model import CacheMode, DriveReport, FindingCode, Severity, Verdict
from ..core.options.entries import better_mode
from ..core.text import duration, named, typed
from ..core.verdict.repeated import standing
from ..options import Options
from .hosts import AWAITED_S
from .under_way import touched_by, waits, words_of
from .world import World

# Drives that were sold without saying so (vendors' lists of 2020 and later).
_MODELS = re.compile(
    r"WD(20|30|40|60)EFAX|WD(10|20)SPZX|WD(20|40|60|80)EZAZ|WD(20|40|60)EDAZ"
    r"|ST(2000DM008|3000DM007|4000DM004|6000DM003|8000DM004|8000AS0002|5000AS0011)"
    r"|ST(1000LM048|2000LM015|3000LM024|4000LM024|5000LM000)"
    r"|HDW[DL](110|120|220|240|260)|DT02ABA[2-6]00"
)


@dataclass
class DomainSeen:
    """A cache domain with OSDs, by its host's report alone.

    `first` is its first drive with OSDs.  `refusal` is why it is never toggled by itself;
    `faulty`: a finding about it is an error.
    """

    key: Key
    drives: Tuple[DriveReport, ...]
    first: DriveReport
    osd_ids: Tuple[int, ...]
    refusal: str
    faulty: bool
    _token: Optional[Tuple[Tuple[str, ...], str]] = None  # of which OSDs' uuids it was made

    def token(self, cluster: ClusterState) -> str:
        """Make a short name that changes with its drives, firmware and OSDs.

        A replaced drive, another firmware and an OSD that was made anew are all new.
        """
        uuids = tuple(cluster.osds[i].uuid for i in self.osd_ids if i in cluster.osds)
        known = self._token
        if known is None or known[0] != uuids:
            parts = sorted(f"{drive.drive_id}\0{drive.drive_model}" for drive in self.drives)
            text = "\n".join((*parts, *sorted(uuids)))
            known = self._token = uuids, hashlib.sha256(text.encode()).hexdigest()[:10]
        return known[1]


class Domains:
    """What hosts' last reports say of their cache domains, worked out once for each report.

    The automation looks at all drives every few seconds; a report comes every ten minutes.
    A report is told from another by which object it is.
    """

    def __init__(self) -> None:
        self._known: Dict[Tuple[str, bool], Tuple[HostReport, Tuple[DomainSeen, ...]]] = {}

    def of(self, report: HostReport, *, throwaway: bool) -> Tuple[DomainSeen, ...]:
        """List the cache domains of a report that have OSDs."""
        known = self._known.get((report.hostname, throwaway))
        if known is None or known[0] is not report:
            known = self._known[report.hostname, throwaway] = report, tuple(
                _domain(report.hostname, tuple(drives), throwaway)
                for drives in report.domains.values() if any(drive.uses for drive in drives)
            )
        return known[1]


def _domain(hostname: str, drives: Tuple[DriveReport, ...], throwaway: bool) -> DomainSeen:
    first = next(drive for drive in drives if drive.uses)
    refusal = next((
        f"{drive.dev_name}: {why}, so an admin decides"
        for drive, why in ((drive, shingled(drive)) for drive in drives) if why
    ), "")
    if first.mode is None:
        refusal = refusal or "its cache state is unknown"
    elif not refusal:
        other = first.mode.other
        refusal = may_toggle(drives, other, throwaway=throwaway, consent_turn_on=False) or ""
    return DomainSeen(
        (hostname, first.domain_id), drives, first,
        tuple(sorted({use.osd_id for drive in drives for use in drive.uses})), refusal,
        any(f.severity is Severity.ERROR for drive in drives for f in drive.findings),
    )


def arrivals(world: World) -> Dict[str, FrozenSet[str]]:
    """Find OSDs that came since their host reported last: their UUIDs, by host.

    They are up and not in its report.  Without them a host reports every ten minutes.
    """
    found: Dict[str, Set[str]] = defaultdict(set)
    used = {
        report.hostname: {use.osd_id for drive in report.drives for use in drive.uses}
        for report in world.real_reports
    }
    for osd_id, osd in world.cluster.osds.items():
        if osd.up and osd_id not in used.get(osd.hostname, {osd_id}):
            found[osd.hostname].add(osd.uuid)
    return {hostname: frozenset(uuids) for hostname, uuids in found.items()}


def stands(world: World) -> Dict[Key, Applied]:
    """Tell what plans have left drives in; also one that is paused, for days it may be."""
    found: Dict[Key, Applied] = {}
    for machine in sorted(world.rollouts.values(), key=lambda item: item.rollout.created_at_s):
        rollout = machine.rollout
        for change, mode in () if machine.under_way else rollout.mode_changes:
            if change.status is ChangeStatus.APPLIED:
                item = Applied(rollout.plan_id, mode, rollout.by)
                found[change.hostname, change.domain_id] = item
    return found


def modes_now(world: World) -> Dict[Key, CacheMode]:
    """Tell the mode of each cache domain of which this mgr has a report, and nobody holds it."""
    reports = (world.reports.get(hostname) for hostname in world.reported_at_s)
    return {
        (report.hostname, drive.domain_id): drive.mode
        for report in reports if report is not None
        for drive in report.drives
        if drive.mode is not None and (report.hostname, drive.domain_id) not in world.leased
    }


def look(
    world: World, domains: Domains, state: AutoState, disputed: FrozenSet[Key],
    wishes: Sequence[Wish], *, older: bool = False,
) -> Seen:
    """Look at all of it, as of now; `disputed` are domains on which nothing is begun.

    With `older` reports too: which drives there are, whatever their modes are by now.
    """
    reports = world.believed_reports
    shaky = {
        (result.drive_id, str(result.drive_model))
        for result in standing(list(world.results.values()))
        if any(item.code is FindingCode.CARRYOVER for item in result.findings)
    }
    drives = tuple(
        _drive(world, report, domain, disputed, shaky, state)
        for report in reports if older or report.hostname in world.reported_at_s
        for domain in domains.of(report, throwaway=world.options.throwaway_cluster)
    )
    blocking = world.cluster.blocking if world.real_reports else ()
    awaited = world.unreported(waited_for=True)
    ends = ((item.owner, ended(world, item.owner)) for item in state.begun)
    waiting = frozenset(
        plan_id for plan_id in world.open_plans if waits(world.rollouts[plan_id], world.now_s)
    )
    plans = [world.rollouts[plan_id].rollout for plan_id in world.open_plans]
    return Seen(
        drives,
        verdicts={
            (item.device_class, str(item.drive_model)): item.verdict
            for item in world.recommendations
        },
        contested=frozenset(item.key for item in state.undone if item.contested),
        drifted=frozenset(item.key for item in state.undone if item.away),
        blocked=world.store_error
        or (precondition_text(blocking) if blocking else "")
        or (f"the next report of {named(awaited, 3)} is awaited" if awaited else ""),
        ended={owner: end for owner, end in ends if end is not None},
        waits=waiting, of_plans=frozenset(world.of_plans),
        knobs=frozenset(change.setting.knob for plan in plans for change in plan.config_changes),
        under_way=_under_way(world, waiting), wishes=tuple(wishes),
        went_back=_went_back(world), taken_back=taken_back(world),
        without=tuple(world.unreported(waited_for=False)),
    )


def _under_way(world: World, waiting: FrozenSet[str]) -> str:
    """Name what has drives or OSDs for itself; plans that wait are in nobody's way."""
    if world.open_campaign:
        return f"campaign {world.open_campaign}"
    for plan_id in world.open_plans:
        if plan_id not in waiting:
            return f"plan {plan_id}"
    return next((each.words for each in world.reserved), "")


def _went_back(world: World) -> Dict[ModelKey, str]:
    """List plans, of whoever, that found a drive model to be worse in the mode of its verdict."""
    found = {}
    for item in world.recommendations:
        mark = world.marks.get(item.kind)
        if mark is not None and mark.mode is item.mode:
            found[item.device_class, str(item.drive_model)] = mark.plan_id
    return found


def taken_back(world: World) -> Dict[ModelKey, Tuple[str, float]]:
    """List plans that an admin took back, of drive models in the mode of their verdict, and when.

    Another plan of his that changed such a drive since, and stands, is his newer word.
    """
    modes = {
        (item.device_class, str(item.drive_model)): item.mode for item in world.recommendations
    }
    found: Dict[ModelKey, Tuple[str, float]] = {}
    stands: Dict[ModelKey, float] = {}
    rollouts = [machine.rollout for machine in world.rollouts.values()]
    for rollout in rollouts if any(rollout.by_will for rollout in rollouts) else ():
        ended_at_s = world.now_s if rollout.status in UNDER_WAY else rollout.ended_at_s
        for change, mode in rollout.mode_changes:
            key = (change.device_class, str(change.drive_model))
            if modes.get(key) is not mode:
                continue
            if rollout.by_will and change.status in BACK:
                found[key] = max(
                    found.get(key, ("", 0.0)), (rollout.plan_id, ended_at_s),
                    key=lambda item: item[1],
                )
            elif change.status is ChangeStatus.APPLIED and rollout.by != AUTO:
                stands[key] = max(stands.get(key, 0.0), ended_at_s)
    return {key: item for key, item in found.items() if item[1] >= stands.get(key, 0.0)}


def _drive(
    world: World, report: HostReport, domain: DomainSeen, disputed: FrozenSet[Key],
    shaky: Set[Tuple[str, str]], state: AutoState,
) -> DriveSeen:
    osd_ids, cluster, first = domain.osd_ids, world.cluster, domain.first
    known = next(filter(None, (cluster.osd_of(report, osd_id) for osd_id in osd_ids)), None)
    refusal = domain.refusal
    if domain.key in disputed:
        refusal = refusal or "its prior state is not restored yet or in dispute"
    if domain.faulty:
        refusal = refusal or "it has a finding of severity error"
    classes = sorted(cluster.classes_of(report, osd_ids))
    if len({mode_of(state.modes, name) for name in classes}) > 1:
        refusal = refusal or f"its OSDs are of classes {' and '.join(classes)}, whose modes differ"
    return DriveSeen(
        domain.key, domain.token(cluster),
        known.device_class if known is not None else _class_of(world, first),
        str(first.drive_model), first.mode, refusal or cluster.illness_of(report, osd_ids),
        any((drive.drive_id, str(drive.drive_model)) in shaky for drive in domain.drives),
    )


def _class_of(world: World, drive: DriveReport) -> str:
    """Tell the class in which a simulated drive was measured."""
    for result in world.results.values():
        if not result.real and result.drive_model == drive.drive_model:
            return result.device_class
    return "hdd" if drive.rotational else "ssd"


def going_on(world: World, device_class: Optional[str]) -> List[str]:
    """List what was begun by itself and is not over, each with the command that ends it.

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
    """Tell how a campaign or plan has ended; None while it goes on."""
    rollout = world.rollouts.get(owner)
    if rollout is not None:
        if not rollout.over:
            return None
        done = rollout.rollout
        return Ended(
            done.status is RolloutStatus.DONE, done.reason or done.status.value,
            sum(c.seconds for c in done.changes), sum(c.bytes_written for c in done.changes),
            sum(c.status is ChangeStatus.APPLIED for c in done.changes),
            done.undone,
            frozenset(str(c.drive_model) for c, _ in done.mode_changes if c.drive_model),
            done.status is not RolloutStatus.PLANNED and not (done.undone and done.paused_at_s),
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


def shingled(drive: DriveReport) -> str:
    """How it is known that a drive shingles its tracks by itself; "" where it is not."""
    for finding in drive.findings:
        if finding.code is FindingCode.SHINGLED:
            return finding.detail
    if _MODELS.search(drive.drive_model.model):
        return "its drive model is known to shingle tracks by itself (SMR)"
    return ""


def without_hosts(hosts: Sequence[str]) -> str:
    """Name hosts whose drives are left out, since their probes call and do not report."""
    return (
        f"without {named(hosts, 3)}: no report came for {duration(AWAITED_S)} though its probe "
        "calls; see its log, `journalctl -u wcache-probe`"
    )


def words_of_taken_back(
    state: AutoState, found: Mapping[ModelKey, Tuple[str, float]]
) -> Dict[ModelKey, str]:
    """Tell why modes that an admin took back are not applied, by class and drive model."""
    return {
        key: f"an admin took it back in plan {plan_id}"
        for key, plan_id in not_anew(state, found).items()
        if mode_of(state.modes, key[0]) is Mode.APPLY
    }


def words_of_paused(world: World) -> List[str]:
    """Tell what plans that are paused keep for themselves, and how each goes on or ends."""
    paused = [plan_id for plan_id in world.open_plans if world.rollouts[plan_id].paused]
    kept = (touched_by(world.rollouts[plan_id].rollout, world.cluster) for plan_id in paused)
    return [
        f"{words_of(touched)}: plan {plan_id} is paused and has them for itself: "
        f"{typed('ceph wcache rollout resume {}', plan_id)} goes on, "
        f"{typed('ceph wcache rollout abort {}', plan_id)} ends it"
        for plan_id, touched in zip(paused, kept)
    ]


def is_fine(drive: DriveSeen, seen: Seen) -> bool:
    """Say whether a drive is as its drive model's verdict wants it."""
    verdict = seen.verdicts.get(drive.model_key)
    return verdict is Verdict.NO_DIFFERENCE or (
        verdict is not None and drive.mode is not None and better_mode(verdict) is drive.mode
    )


def limits_of(options: Options) -> Allowance:
    """Read what the options allow; raises MalformedError where the windows make no sense."""
    return Allowance(
        parse_windows(options.auto_windows), options.auto_seconds_per_day,
        options.auto_bytes_per_day, options.auto_quiet_s,
    )
