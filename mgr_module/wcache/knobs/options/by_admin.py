"""What an admin's plan names (`plan --option=OPTION=VALUE`): no verdict speaks for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Iterable, List, Mapping, Optional, Tuple

from ...core.change.option_change import OptionChange
from ...core.cluster import ClusterState
from ...core.drive.safety import writeback_refusal
from ...core.errors import MalformedError, RefusedError
from ...core.host_report import HostReport, lost_models
from ...core.model import LoadPoint
from ...core.options.entries import option
from ...core.options.option import Follow, Option
from ...core.options.shared_cache import shared_cache
from ...core.shell import typed
from ...core.simulation import in_cluster, osd_of
from ..domains import Domain, in_order
from ..knob import CHANGES_MAX, Asked, Wanted
from .plan import by_hand, refusal_of

WHY = "an admin asked for it"


def named(text: str) -> Tuple[Option, str]:
    """OPTION=VALUE; raises a WcacheError where no admin's plan may name it."""
    name, _, value = text.partition("=")
    if not value:
        raise MalformedError(
            f"{text[:80]!r} is not OPTION=VALUE",
            "as in `ceph wcache plan --knob=options --option=cache_mode=writethrough`",
        )
    entry = option(name)
    if entry.follow is not Follow.ADMIN:
        raise RefusedError(
            f"{name} goes by verdicts",
            typed("ceph wcache ab {}=A,B", name) + ", then `ceph wcache plan --knob=options`",
        )
    entry.require(value)
    return entry, value


def make_changes(
    asked: Asked, reports: Iterable[HostReport], cluster: ClusterState,
    disputed: Mapping[Tuple[str, str], str] = {},
) -> Wanted:
    """Changes of the backing drives that have another value, by failure domain.

    `disputed`: by host and cache domain, why nothing is begun there.
    """
    entry, value = named(asked.option)
    reports = tuple(reports)
    lost = {simulated: lost_models(reports, simulated=simulated) for simulated in (False, True)}
    changes: List[OptionChange] = []
    left: List[str] = []
    for domain in in_order(reports, cluster):
        if not any(not one.is_cache for drive in domain.drives for one in drive.bcache):
            continue
        try:
            unsafe = _unsafe(domain, lost[domain.report.simulated])
            change = _change(
                asked.action_id(len(changes)), domain, cluster, entry, value, unsafe
            )
            if change is None or not _asked_for(asked, change):
                continue
            _require(domain, change, entry, refusal_of(domain, cluster, entry, disputed))
            if change.needs_consent and unsafe:
                raise RefusedError(unsafe)
            if len(changes) == CHANGES_MAX:
                raise RefusedError("plan again when this plan is done")
            changes.append(_with_shared(change, domain, cluster))
        except RefusedError as error:
            left.append(f"{domain.name}: {error.message}")
    if not changes and not left:
        left.append("no OSD that is asked for is on the backing drive of a bcache device")
    return Wanted(tuple(changes), tuple(left))


def _asked_for(asked: Asked, change: OptionChange) -> bool:
    return asked.wants(change.hostname, change.device_class) and change.is_within(asked.scope)


def _require(domain: Domain, change: OptionChange, entry: Option, refusal: str) -> None:
    """Raise RefusedError where there is nothing to change, or it must not be changed."""
    values = {drive.state.option(entry.name) for drive in domain.drives}
    if len(values) > 1:
        raise RefusedError(f"{entry.name} differs between its drives")
    if not change.expected:
        raise RefusedError(
            f"{entry.name} cannot be read: two bcache devices are on the drive, or its probe "
            "does not know it"
        )
    if change.expected == change.value:
        raise RefusedError(f"{entry.name} is {change.value} already")
    if refusal:
        raise RefusedError(refusal)


def _with_shared(change: OptionChange, domain: Domain, cluster: ClusterState) -> OptionChange:
    """Name what shares the cache device; RefusedError where that cannot be told."""
    if not change.needs_consent:
        return change
    found = shared_cache(domain.report, domain.drives)
    together = len(found.osd_ids) > 1 and "osd" in cluster.failure_types
    return replace(change, shared=replace(found, all_copies=together))


def _unsafe(domain: Domain, lost: Mapping[str, str]) -> str:
    return writeback_refusal(domain.report, domain.drives, lost)


def _change(
    action_id: str, domain: Domain, cluster: ClusterState, entry: Option, value: str, unsafe: str
) -> Optional[OptionChange]:
    """The change of a domain whatever it has now; None where the cluster knows no OSD on it."""
    used = [drive for drive in domain.drives if drive.uses]
    if not used:
        return None
    first, osd_id = used[0], used[0].uses[0].osd_id
    osd = osd_of(domain.report, osd_id, cluster)
    if osd is None and in_cluster(domain.report):
        return None
    now = first.state.option(entry.name) or ""
    leaves = now == entry.dirty_in
    return OptionChange(
        action_id, domain.report.hostname, first.domain_id,
        tuple(drive.dev_name for drive in domain.drives), osd_id,
        osd.device_class if osd else "", first.transport, entry.name, now, value, WHY,
        by_hand(domain.drives, entry, now, value, unsafe), LoadPoint.OSD_BENCH_DEPTH1,
        domain.osd_ids, tuple(drive.drive_id for drive in domain.drives),
        # nothing judges what leaves it, so nothing needs to settle
        0.0 if leaves else entry.settle_s, domain.report.simulated,
        failure_domain=", ".join(domain.where), drive_model=first.drive_model,
    )
