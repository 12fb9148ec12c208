"""From recommendations to an ordered list of changes; what is left alone has its reason."""

from __future__ import annotations

from typing import Collection, Iterable, Optional, Sequence

from ...core.change.change import Change
from ...core.cluster import ClusterState
from ...core.drive.manual import by_hand, turn_off
from ...core.drive.safety import Safety, judge, may_toggle
from ...core.host_report import HostReport, lost_models
from ...core.model import CacheMode, LoadPoint, Severity, Transport
from ...core.options.entries import CACHE_MODES
from ...core.setting.domain_settings import CacheModeSetting
from ...core.verdict.recommend import Recommendation, recommended_for
from ..knob import Asked, Domain, Fate, Knob, Wanted, by_fate, in_order, within

CACHE_MODE = Knob("cache_mode")
# What proves a change: the OSD's own traffic where that decided, else one write at a time.
_PROOF_ORDER = (LoadPoint.OSD_TRAFFIC, LoadPoint.OSD_BENCH_DEPTH1, LoadPoint.OSD_BENCH_BATCH)

STALE = (
    "as it should be by its last report, but it has not reported since the last change there, or "
    "the mgr's start; its probe is asked to look again"
)


def make_changes(
    asked: Asked,
    recommendations: Sequence[Recommendation],
    reports: Iterable[HostReport],
    cluster: ClusterState,
    *,
    throwaway: bool,
    fresh: Optional[Collection[str]] = None,
) -> Wanted:
    """Changes in the order they will be made, one failure domain after the other.

    Whatever one of them does, the copies in the others are as they were.  The first change
    is the canary.  `fresh` are hosts whose report tells of what is there now; None: all.
    """
    wanted = {
        r.kind: r
        for r in recommendations
        if asked.scope.has_class(r.device_class)
    }
    reports = tuple(reports)
    lost = lost_models(reports)

    def is_asked_for(domain: Domain) -> bool:
        key = (domain.report.hostname, domain.drives[0].domain_id)
        return (asked.only is None or key in asked.only) and within(domain, asked.scope, cluster)

    def fate_of(domain: Domain, before: int) -> Fate:
        found = recommended_for(domain.drives[0], domain.report, cluster, wanted)
        mode = None if found is None else found.mode
        report, drives, first = domain.report, domain.drives, domain.drives[0]
        losing = [
            drive for drive in drives if judge(drive.state) is Safety.UNSAFE
            and not (throwaway and drive.transport is Transport.LOOP)
        ]
        if losing and mode is not CacheMode.WRITE_THROUGH:
            cure = turn_off(report.hostname, losing)
            return Fate(reasons=(f"loses acknowledged writes at a power cut; {cure}",))
        if found is None or mode is None:
            return _unadvised(domain, found, cluster)
        there = all(drive.mode is mode for drive in drives)
        lasts = all(drive.state.page.saved is mode for drive in drives)
        if there and (lasts or not asked.persist):
            is_fresh = fresh is None or report.hostname in fresh
            return Fate() if is_fresh else Fate(reasons=(STALE,), of=f"host {report.hostname}")
        reason = asked.without.get((report.hostname, first.domain_id)) or may_toggle(
            drives, mode, throwaway=throwaway, consent_turn_on=asked.consent_turn_on,
            experiment=False, lasts=asked.persist, lost=lost[report.simulated],
        )
        reason = reason or next((
            f"{one.code.value}: {one.detail}" for drive in drives for one in drive.findings
            if one.severity is Severity.ERROR
        ), "")
        reason = reason or cluster.not_up(report, domain.osd_ids)
        if reason or first.mode is None:
            return Fate(reasons=(reason or "its cache state is unknown",))
        return Fate(Change(
            asked.action_id(before),
            CacheModeSetting(domain.planned, first.mode, mode, tuple(
                line for drive in drives for line in by_hand(drive, mode, lost[report.simulated])
            )),
            found.device_class,
            f"{found.why}; only to last over a power cycle" if there else found.why,
            ", ".join(domain.where), first.uses[0].osd_id, _proof(found),
        ))

    return by_fate(filter(is_asked_for, in_order(reports, cluster)), fate_of)


def _unadvised(
    domain: Domain, found: Optional[Recommendation], cluster: ClusterState
) -> Fate:
    """Why no mode is wanted of a domain."""
    first = domain.drives[0]
    if found is not None:
        kind = f"{found.device_class} {found.drive_model}"
        return Fate(reasons=(f"{CACHE_MODES.said(found.verdict)}, {found.why}",), of=kind)
    if not first.uses:
        return Fate(reasons=(first.toggle_refusal or f"no OSD is on {first.dev_name}",))
    osd_id = first.uses[0].osd_id
    if domain.report.real and osd_id not in cluster.osds:
        return Fate(reasons=(f"osd.{osd_id} is not in Ceph's map",))
    return Fate(reasons=("no mode is recommended",), of=str(first.drive_model) or "(unnamed)")


def _proof(recommendation: Recommendation) -> LoadPoint:
    measured = {
        load.load_point for load in recommendation.loads
        if load.verdict is recommendation.verdict
    }
    for point in _PROOF_ORDER:
        if point in measured:
            return point
    return LoadPoint.OSD_BENCH_DEPTH1
