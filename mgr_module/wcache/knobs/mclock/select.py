"""Which OSDs stand for their drive models when capacities are measured."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Dict, List, Mapping, Sequence, Tuple

from ...core.cluster import ClusterState, OsdInfo, calm_first
from ...core.host_report import HostReport
from ...core.model import Role
from ...core.scope import Scope
from ...core.text import many, named
from .advice import Basis
from .config import by_mclock, scheduler


@dataclass(frozen=True)
class Target:
    """An OSD to be benched."""

    osd_id: int
    hostname: str
    device_class: str
    rotational: bool
    stack: str


def choose(
    scope: Scope, reports: Sequence[HostReport], cluster: ClusterState, facts: Basis, *,
    forced: bool, most: int, not_now: Mapping[int, str] = {},
) -> Tuple[List[Target], List[str]]:
    """At most `most` OSDs of each device class and stack, and why others are left out.

    `not_now`: by OSD, who has it for itself.
    Those that are not well are passed over, and those come last that move or get data, or that had
    slow operations in BlueStore.
    """
    found: Dict[Tuple[str, bool, str], List[Target]] = defaultdict(list)
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
        stack = facts.stacks[osd.osd_id]
        found[(osd.device_class, osd.rotational, stack)].append(
            Target(osd.osd_id, hosts[osd.osd_id], osd.device_class, osd.rotational, stack)
        )
    skipped += [
        f"{many(len(osds), 'OSD')} passed over, each {why}: {named(osds)}"
        for why, osds in sorted(ill.items())
    ]
    last = (cluster.busy or frozenset()) | {one.osd_id for one in cluster.slow_osds}
    chosen: List[Target] = []
    for _, targets in sorted(found.items()):
        spread, getting = calm_first(
            _spread([one for one in targets if one.osd_id not in last]),
            lambda one: (one.osd_id,), most, cluster,
        )
        behind = _spread([one for one in targets if one.osd_id in last])
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


def _spread(targets: Sequence[Target]) -> List[Target]:
    """Take turns over hosts, so that a sample is not all of one host."""
    by_host: Dict[str, List[Target]] = defaultdict(list)
    for target in targets:
        by_host[target.hostname].append(target)
    rounds = [
        (index, hostname, target)
        for hostname, mine in by_host.items() for index, target in enumerate(mine)
    ]
    return [target for _, _, target in sorted(rounds, key=lambda item: item[:2])]
