"""From mClock's measurements to changes: which OSDs measure, what is set, what is stale.

The order matters: no OSD falls back to the compiled default in between.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

from ...core.change.change import Change
from ...core.change.waves import growing
from ...core.cluster import ClusterState, OsdInfo, calm_first, failure_domains, in_turns
from ...core.config_database import Config, ConfigEdit, Entry
from ...core.experiment.campaign import CampaignOptions
from ...core.experiment.observed import Observed
from ...core.experiment.run_state import RunSpec
from ...core.host_report import HostReport
from ...core.loads import MATERIAL_RATIO
from ...core.model import Finding, FindingCode, LoadPoint, Role, Severity
from ...core.record import ExperimentSetup
from ...core.scope import Scope
from ...core.setting.config_setting import ConfigSetting, sample
from ...core.text import many, named, typed
from ..knob import CHANGES_MAX, Asked, Wanted
from .advice import Advice, Basis
from .capacity import (
    MCLOCK,
    Capacity,
    Measurement,
    by_mclock,
    covered,
    of_model,
    of_one,
    option,
    scheduler,
)

# Hosts share a change, in groups that grow to 1 / SHARE of a device class: a plan is stored
# whole after each step, and thousands of OSDs have a key of their own.
SHARE = 32


def make_changes(
    asked: Asked, advices: Sequence[Advice], cluster: ClusterState, config: Config
) -> Wanted:
    """The changes that make the advice of each device class true.

    By `config`, what stands there now, each names OSDs that take another value by it.
    """
    found: List[Change] = []
    left: List[str] = []
    doubts: List[str] = []
    for advice in advices:
        told = doubts if advice.changes else left
        told += [f"class {advice.device_class}: {line}" for line in advice.warnings]
        for where, edits in _grouped(advice, cluster):
            config, before = config.after(edits), config
            found.append(
                Change(
                    asked.action_id(len(found)), ConfigSetting(MCLOCK.name, edits),
                    advice.device_class, "measured by the OSDs' own recipe", where,
                    judged_on=sample(_felt(edits, before, config, cluster)),
                )
            )
    if len(found) > CHANGES_MAX:
        more = len(found) - CHANGES_MAX
        left.append(f"{more} more hosts: plan again when this plan is done")
    return Wanted(tuple(found[:CHANGES_MAX]), tuple(left), doubts=tuple(doubts))


def _felt(
    edits: Sequence[ConfigEdit], before: Config, after: Config, cluster: ClusterState
) -> List[int]:
    """The OSDs that are up and take another value by these edits."""
    names = {edit.name for edit in edits}
    own = {edit.who[len("osd."):] for edit in edits if edit.who.startswith("osd.")}
    widely = len(own) < len(edits)
    return [
        osd_id for osd_id, osd in sorted(cluster.osds.items())
        if osd.up and (widely or str(osd_id) in own) and any(
            _number(before.of_osd(osd, name)) != _number(after.of_osd(osd, name))
            for name in names if name == option(osd.rotational)
        )
    ]


def _number(entry: Optional[Entry]) -> Optional[float]:
    return None if entry is None else entry.number


def _grouped(
    advice: Advice, cluster: ClusterState
) -> List[Tuple[str, Tuple[ConfigEdit, ...]]]:
    """Edits that are made together, by where they matter; those of whole classes come first."""
    groups: Dict[str, List[ConfigEdit]] = {}
    for edit in advice.changes:
        own = edit.who[len("osd."):] if edit.who.startswith("osd.") else ""
        osd = cluster.osds.get(int(own)) if own.isdecimal() else None
        where = ", ".join(failure_domains(osd, cluster)) if osd else f"class {advice.device_class}"
        groups.setdefault(where, []).append(edit)
    # the first is of the whole class, or of one host where the class's value stays
    return [
        (items[0][0] + (f" to {items[-1][0]}" if len(items) > 1 else ""),
         tuple(edit for _, mine in items for edit in mine))
        for items in growing(list(groups.items()), SHARE)
    ]


# An OSD's id, or a stack of drive models in a setting.
Key = Union[int, Tuple[str, str]]
Spreads = Dict[Key, Tuple[Capacity, str]]


def stale(facts: Basis) -> Tuple[Finding, ...]:
    """Stored values that cannot be true of the mode the drives are in, grouped.

    Either the value is older than a change of the mode, or it lies outside of where one
    more call would fall after what was measured, and more than 10% off.
    """
    spread = _spreads(facts.current())
    groups: Dict[Tuple[str, str, str], List[str]] = defaultdict(list)
    for entry in facts.config.entries:
        if entry.number is None:
            continue
        for osd in covered(entry, facts.osds):
            why = _older(facts, entry, osd) or _outside(facts, entry, osd, spread)
            taken = why and facts.config.of_osd(osd, entry.name) is entry
            if taken and by_mclock(facts.config, osd, facts.compiled_queue):
                own = entry.who == f"osd.{osd.osd_id}"
                name = entry.who if own else f"{entry.who} for osd.{osd.osd_id}"
                groups[(osd.device_class, entry.name, why)].append(name)
    return tuple(
        Finding(
            FindingCode.MCLOCK_STALE, Severity.WARNING, f"class {device_class}",
            f"{name} of {named(sections)} {why}: {_cure(device_class)}",
        )
        for (device_class, name, why), sections in sorted(groups.items())
    )


def _cure(device_class: str) -> str:
    """What to type; measuring asks for its own consent, since clients wait behind it."""
    measure = typed(
        "ceph wcache campaign start --loads=capacity --scope=class:{} --accept-cost", device_class
    )
    plan = typed("ceph wcache plan --knob=mclock --scope=class:{}", device_class)
    return f"{measure}, then {plan}"


def _older(facts: Basis, entry: Entry, osd: OsdInfo) -> str:
    known = facts.known.get((entry.who, entry.name))
    now = facts.settings.get(osd.osd_id, "")
    if known is None or known.value != entry.value or not now or known.setting in ("", now):
        return ""
    return f"was stored while the drives were in {known.setting}; they are in {now} now"


def _spreads(current: Iterable[Measurement]) -> Spreads:
    """Where one more call would fall: by OSD measured, and by (stack, setting) from 3 OSDs."""
    found: Spreads = {}
    by_model: Dict[Tuple[str, str], List[Measurement]] = defaultdict(list)
    for item in current:
        one = of_one(item.iops)
        if one is not None:
            found[item.osd_id] = (one, item.setting)
            by_model[(item.stack, item.setting)].append(item)
    for key, items in by_model.items():
        capacity = of_model(items)
        if capacity is not None and capacity.drives >= 3:
            found[key] = (capacity, key[1])
    return found


def _outside(facts: Basis, entry: Entry, osd: OsdInfo, spreads: Spreads) -> str:
    if not spreads:
        return ""
    setting = facts.settings.get(osd.osd_id, "")
    # a value for many OSDs is judged by what many of them showed
    stack = facts.stacks.get(osd.osd_id)
    keys: List[Key] = [osd.osd_id] if stack is None else [(stack, setting), osd.osd_id]
    if entry.who == f"osd.{osd.osd_id}":
        keys.reverse()
    for key in keys:
        if key in spreads and entry.number is not None:
            capacity, where = spreads[key]
            off = max(entry.number / capacity.iops, capacity.iops / entry.number)
            inside = capacity.next_low <= entry.number <= capacity.next_high
            if inside or off <= MATERIAL_RATIO:
                return ""
            return (
                f"is outside of what was measured in {where}, {capacity.next_low:.0f} to "
                f"{capacity.next_high:.0f} IOPS for one call"
            )
    return ""


def choose(
    scope: Scope, reports: Sequence[HostReport], cluster: ClusterState, facts: Basis, *,
    forced: bool, most: int, not_now: Mapping[int, str] = {},
) -> Tuple[List[OsdInfo], List[str]]:
    """At most `most` OSDs of each device class and stack, and why others are left out.

    Each has the name of its host that its probe goes by.  `not_now`: by OSD, who has it for itself.
    Those that are not well are passed over, and those come last that move or get data, or that had
    slow operations in BlueStore.
    """
    found: Dict[Tuple[str, bool, str], List[OsdInfo]] = defaultdict(list)
    skipped: List[str] = []
    # the name that the probe goes by: an OSD's metadata may have another one
    hosts = {
        use.osd_id: report.hostname
        for report in reports for drive in report.drives for use in drive.uses
        if use.role is Role.BLOCK
    }
    ill: Dict[str, List[str]] = defaultdict(list)
    for osd in (cluster.osds[osd_id] for osd_id in sorted(scope.osds(reports, cluster))):
        why = "" if forced else cluster.illness([osd.osd_id]).get(osd.osd_id, "")
        if why:
            ill[why].append(f"osd.{osd.osd_id}")
            continue
        reason = not_now.get(osd.osd_id) or _why_not(osd, facts, forced)
        if reason:
            skipped.append(f"osd.{osd.osd_id}: {reason}")
            continue
        kind = (osd.device_class, osd.rotational, facts.stacks[osd.osd_id])
        found[kind].append(replace(osd, hostname=hosts[osd.osd_id]))
    skipped += [
        f"{many(len(osds), 'OSD')} passed over, each {why}: {named(osds)}"
        for why, osds in sorted(ill.items())
    ]
    last = (cluster.busy or frozenset()) | {one.osd_id for one in cluster.slow_osds}
    chosen: List[OsdInfo] = []
    for _, targets in sorted(found.items()):
        first = (one for one in targets if one.osd_id not in last)
        spread, getting = calm_first(
            in_turns(first, lambda one: one.hostname),
            lambda one: (one.osd_id,), most, cluster,
        )
        behind = in_turns(
            (one for one in targets if one.osd_id in last), lambda one: one.hostname
        )
        chosen += [*spread, *getting, *behind][:most]
    return chosen, skipped


def _why_not(osd: OsdInfo, facts: Basis, forced: bool) -> str:
    if not osd.up:
        return "not up"
    if osd.osd_id not in facts.stacks:
        return "no probe has reported its drive"
    if not facts.settings.get(osd.osd_id):
        return "the cache mode of its drives is not known"
    queue = scheduler(facts.config, osd, facts.compiled_queue)
    if not by_mclock(facts.config, osd, facts.compiled_queue) and not forced:
        return f"it schedules by {queue}, not by mClock, so it uses no such capacity"
    return ""


# ---- the campaign and its runs


def make_runs(
    campaign_id: str, targets: Sequence[OsdInfo], calls: int, reports: Sequence[HostReport],
    cluster: ClusterState, options: CampaignOptions,
) -> Tuple[RunSpec, ...]:
    """One run for each OSD, on the cache domain of its block drive."""
    by_host = {report.hostname: report for report in reports}
    runs = []
    for index, target in enumerate(targets):
        run_id, osd_id = f"{campaign_id}.{index}", target.osd_id
        roles = {
            use.role: drive for drive in by_host[target.hostname].drives for use in drive.uses
            if use.osd_id == osd_id
        }
        block = roles[Role.BLOCK]
        domains = dict.fromkeys(drive.domain_id for drive in roles.values())
        setup = ExperimentSetup(
            cluster.fsid, cluster.osds[osd_id].ceph_version, target.hostname, osd_id,
            target.device_class, Role.BLOCK, LoadPoint.OSD_BENCH_CAPACITY, block.domain_id,
            block.drive_id, block.drive_model, block.transport, calls, 0.0, 0.0, 0, 0,
            target.rotational,
            apart=tuple(
                role for role in (Role.DB, Role.WAL)
                if role in roles and roles[role].domain_id != block.domain_id
            ),
        )
        runs.append(RunSpec(
            run_id, campaign_id, target.hostname, block.domain_id, f"lease.{run_id}", (setup,),
            options.latency_limit_ms, options.seconds_max, options.bytes_max,
            missed=cluster.missed if options.forced else cluster.blocking,
            forced=options.forced, observes=True,
            looks_at=tuple(name for name in domains if name != block.domain_id),
        ))
    return tuple(runs)


def measurement_of(spec: RunSpec, seen: Observed) -> Optional[Measurement]:
    """What a run's calls gave, as it is kept of the OSD; None where they did not end."""
    found, setup = seen.capacity, spec.experiments[0]
    if found is None:
        return None
    return Measurement(
        seen.osd_id, spec.hostname, setup.device_class, bool(setup.rotational), found.stack,
        found.setting, found.iops, seen.seconds, seen.bytes_written, found.ended_at_s,
        found.scheduler, found.iops_min, found.iops_max, spec.forced,
    )
