"""Capacities as runs that toggle nothing: on which OSDs, and what they gave."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from ...core.cluster import ClusterState, OsdInfo, calm_first, in_turns
from ...core.experiment.campaign import CampaignOptions
from ...core.experiment.observed import Observed
from ...core.experiment.run_state import RunSpec
from ...core.host_report import HostReport
from ...core.model import LoadPoint, Role
from ...core.record import ExperimentSetup
from ...core.scope import Scope
from ...core.text import many, named
from .advice import Basis
from .capacity import Measurement, by_mclock, scheduler


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
