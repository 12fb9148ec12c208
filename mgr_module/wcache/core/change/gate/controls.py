"""Which OSDs are the controls of a step: of the same kind, unchanged, and not about to change."""

from __future__ import annotations

import math
from typing import Collection, Dict, FrozenSet, Iterable, List, Mapping, Tuple

from ...cluster import ClusterState
from ...host_report import HostReport
from ...model import DriveModel
from .blocks import CONTROLS_MAX, CONTROLS_MIN

Kind = Tuple[str, FrozenSet[DriveModel]]
"""Device class, and the models of all drives under the OSD."""


def controls_for(
    treated: Collection[int], touched: Collection[int], reports: Iterable[HostReport],
    cluster: ClusterState, turns: Mapping[int, int],
) -> Tuple[int, ...]:
    """OSDs of the treated ones' device classes and drive models, spread over hosts.

    `touched` are OSDs that some plan has changed and may yet take back, or changes beside
    these.  `turns` says when the plan comes to an OSD: those that it never comes to, or last,
    are taken, so they stay the same from step to step.  Neither an ill OSD nor one that had slow
    operations in BlueStore is one.  As large a share of them moves data as of the treated, as far
    as there are such.  At least three, or none: the treated then stand alone.
    """
    models: Dict[int, FrozenSet[DriveModel]] = {}
    neither = {*touched, *cluster.ill, *cluster.slow_op_osds}
    neither = (neither | {one.osd_id for one in cluster.slow_osds}) - {*treated}
    hosts: Dict[int, str] = {}
    for report in reports:
        for drive in report.drives:
            for osd_id in {use.osd_id for use in drive.uses} - neither:
                osd = cluster.osds.get(osd_id)
                if osd is not None and osd.up:
                    models[osd_id] = models.get(osd_id, frozenset()) | {drive.drive_model}
                    hosts[osd_id] = report.hostname
    kinds: Dict[int, Kind] = {
        osd_id: (cluster.osds[osd_id].device_class, each) for osd_id, each in models.items()
    }
    wanted = {kind for osd_id, kind in kinds.items() if osd_id in treated}
    able = [
        osd_id for osd_id in sorted(kinds)
        if osd_id not in treated and osd_id not in touched and kinds[osd_id] in wanted
    ]
    busy = cluster.busy or frozenset()
    share = sum(osd_id in busy for osd_id in treated) / max(1, len(treated))
    moving = [osd_id for osd_id in able if osd_id in busy]
    calm = [osd_id for osd_id in able if osd_id not in busy]
    found = _spread(moving, hosts, turns, round(share * CONTROLS_MAX))
    found += _spread(calm, hosts, turns, CONTROLS_MAX - round(share * CONTROLS_MAX))
    if len(found) < CONTROLS_MIN:
        found += _spread(
            [osd_id for osd_id in able if osd_id not in found], hosts, turns,
            CONTROLS_MIN - len(found),
        )
    return tuple(found) if len(found) >= CONTROLS_MIN else ()


def _spread(
    osd_ids: Iterable[int], hosts: Mapping[int, str], turns: Mapping[int, int], most: int
) -> List[int]:
    """At most so many, over many hosts, the last to be changed first."""
    by_host: Dict[str, List[int]] = {}
    for osd_id in osd_ids:
        by_host.setdefault(hosts[osd_id], []).append(osd_id)
    for members in by_host.values():
        members.sort(key=lambda osd_id: -turns.get(osd_id, math.inf))
    latest = {name: turns.get(each[0], math.inf) for name, each in by_host.items()}
    found: List[int] = []
    while by_host and len(found) < most:
        for hostname in sorted(by_host, key=lambda name: (-latest[name], name)):
            if len(found) < most:
                found.append(by_host[hostname].pop(0))
            if not by_host[hostname]:
                del by_host[hostname]
    return found
