"""From recommendations to an ordered list of changes, and why drives are left alone."""

from __future__ import annotations

from collections import Counter
from typing import Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from ...core.change.cache_mode_change import CacheModeChange
from ...core.cluster import ClusterState
from ...core.drive.manual import by_hand, turn_off
from ...core.drive.safety import Safety, judge, may_toggle
from ...core.host_report import HostReport, lost_models
from ...core.model import CacheMode, DriveReport, LoadPoint, Severity, Transport
from ...core.simulation import DriveKind, not_up
from ...core.text import many
from ...core.verdict.recommend import Recommendation, recommended_for
from ..domains import in_order
from ..knob import CHANGES_MAX, Asked, Wanted

# What proves a change: the OSD's own traffic where that decided, else one write at a time.
_PROOF_ORDER = (LoadPoint.OSD_TRAFFIC, LoadPoint.OSD_BENCH_DEPTH1, LoadPoint.OSD_BENCH_BATCH)


def make_changes(
    asked: Asked,
    recommendations: Sequence[Recommendation],
    reports: Iterable[HostReport],
    cluster: ClusterState,
    *,
    throwaway: bool,
    disputed: Mapping[Tuple[str, str], str] = {},
) -> Wanted:
    """Changes in the order they will be made, one failure domain after the other.

    Whatever one of them does, the copies in the others are as they were.  The first change
    is the canary.  `disputed`: by host and cache domain, why nothing is begun there.
    """
    wanted = {
        DriveKind.of(r): r
        for r in recommendations
        if asked.device_class in (None, r.device_class)
    }
    left = [
        f"{r.device_class} {r.drive_model}: {r.verdict.value}, {r.why}"
        for r in wanted.values()
        if r.mode is None
    ]
    changes: List[CacheModeChange] = []
    more = 0
    unknown: Dict[str, int] = Counter()
    reports = tuple(reports)
    lost = {simulated: lost_models(reports, simulated=simulated) for simulated in (False, True)}
    for domain in in_order(reports, cluster):
        report, drives, name = domain.report, domain.drives, domain.name
        first = drives[0]
        recommendation = recommended_for(first, report, cluster, wanted)
        mode = None if recommendation is None else recommendation.mode
        losing = [
            drive for drive in drives if judge(drive.state) is Safety.UNSAFE
            and not (throwaway and drive.transport is Transport.LOOP)
        ]
        if losing and mode is not CacheMode.WRITE_THROUGH:
            cure = turn_off(report.hostname, losing)
            left.append(f"{name}: loses acknowledged writes at a power cut; {cure}")
            continue
        if recommendation is None or mode is None:
            # what is undecided is said above
            osd = cluster.osds.get(first.uses[0].osd_id) if first.uses else None
            mine = osd is not None and asked.wants(report.hostname, osd.device_class)
            if recommendation is None and mine and asked.only is None:
                unknown[str(first.drive_model) or "(unnamed)"] += 1
            continue
        there = all(drive.mode is mode for drive in drives)
        lasts = all(drive.state.page.saved is mode for drive in drives)
        if there and (lasts or not asked.persist):
            continue
        if asked.only is not None and (report.hostname, first.domain_id) not in asked.only:
            continue
        reason = disputed.get((report.hostname, first.domain_id)) or may_toggle(
            drives, mode, throwaway=throwaway, consent_turn_on=asked.consent_turn_on,
            experiment=False, lasts=asked.persist, lost=lost[report.simulated],
        )
        reason = reason or _error_finding(drives)
        reason = reason or not_up(report, domain.osd_ids, cluster)
        if reason or first.mode is None:
            left.append(f"{name}: {reason or 'its cache state is unknown'}")
            continue
        change = CacheModeChange(
            asked.action_id(len(changes)), report.hostname, first.domain_id,
            tuple(drive.dev_name for drive in drives), first.uses[0].osd_id,
            recommendation.device_class, first.transport, first.mode, mode,
            f"{recommendation.why}; only to last over a power cycle" if there
            else recommendation.why,
            tuple(
                line for drive in drives for line in by_hand(drive, mode, lost[report.simulated])
            ),
            _proof(recommendation), report.simulated, failure_domain=", ".join(domain.where),
            osd_ids=domain.osd_ids,
            drive_ids=tuple(drive.drive_id for drive in drives), drive_model=first.drive_model,
        )
        if not asked.scope.holds(change):
            continue
        if len(changes) >= CHANGES_MAX:
            more += 1
            continue
        changes.append(change)
    left += [
        f"{many(count, 'cache domain')} of {model}: no mode is recommended"
        for model, count in sorted(unknown.items())
    ]
    if more:
        left.append(f"{more} more cache domains: plan again when this plan is done")
    return Wanted(tuple(changes), tuple(left))


def _proof(recommendation: Recommendation) -> LoadPoint:
    measured = {
        load.load_point for load in recommendation.loads
        if load.verdict.mode is recommendation.mode
    }
    for point in _PROOF_ORDER:
        if point in measured:
            return point
    return LoadPoint.OSD_BENCH_DEPTH1


def _error_finding(drives: Sequence[DriveReport]) -> Optional[str]:
    for drive in drives:
        for finding in drive.findings:
            if finding.severity is Severity.ERROR:
                return f"{finding.code.value}: {finding.detail}"
    return None
