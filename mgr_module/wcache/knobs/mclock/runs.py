"""Capacities as runs that toggle nothing: what they are asked for, and what they gave."""

from __future__ import annotations

from typing import Optional, Sequence, Tuple

from ...core.cluster import ClusterState
from ...core.experiment.campaign import Campaign, CampaignOptions
from ...core.experiment.observed import Observed
from ...core.experiment.run_state import RunSpec
from ...core.host_report import HostReport
from ...core.loads import CAPACITY_CALL_BYTES
from ...core.model import LoadPoint, Role
from ...core.record import ExperimentSetup
from .capacity import Measurement
from .select import Target


def is_measurement(campaign: Campaign) -> bool:
    """Whether a campaign measures mClock's capacities."""
    return LoadPoint.OSD_BENCH_CAPACITY in campaign.options.loads


def campaign_options(
    scope: str, *, drives_per_model: int, calls: int, latency_limit_ms: float,
    seconds_max: float, forced: bool,
) -> CampaignOptions:
    """How such a campaign measures; it has neither pairs nor settling."""
    return CampaignOptions(
        scope, (LoadPoint.OSD_BENCH_CAPACITY,), 4, drives_per_model, 0.0, 0.0, latency_limit_ms,
        seconds_max, calls * CAPACITY_CALL_BYTES, forced=forced, observe=True,
    )


def make_runs(
    campaign_id: str, targets: Sequence[Target], calls: int, reports: Sequence[HostReport],
    cluster: ClusterState, options: CampaignOptions,
) -> Tuple[RunSpec, ...]:
    """One run for each OSD, on the cache domain of its block drive."""
    by_host = {report.hostname: report for report in reports}
    return tuple(
        _run(f"{campaign_id}.{index}", campaign_id, target, calls, by_host[target.hostname],
             cluster, options)
        for index, target in enumerate(targets)
    )


def _run(
    run_id: str, campaign_id: str, target: Target, calls: int, report: HostReport,
    cluster: ClusterState, options: CampaignOptions,
) -> RunSpec:
    osd_id = target.osd_id
    roles = {
        use.role: drive for drive in report.drives for use in drive.uses if use.osd_id == osd_id
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
    return RunSpec(
        run_id, campaign_id, target.hostname, block.domain_id, f"lease.{run_id}", (setup,),
        options.latency_limit_ms, options.seconds_max, options.bytes_max,
        missed=cluster.missed if options.forced else cluster.blocking,
        forced=options.forced, observes=True,
        looks_at=tuple(name for name in domains if name != block.domain_id),
    )


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
