"""What an admin's plan names (`plan --option=OPTION=VALUE`): no verdict speaks for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Iterable, List, Mapping, Optional, Tuple

from ...core.change.change import Change
from ...core.change.option_setting import OptionSetting
from ...core.cluster import ClusterState
from ...core.drive.safety import writeback_refusal
from ...core.errors import MalformedError, RefusedError
from ...core.host_report import HostReport, lost_models
from ...core.model import LoadPoint
from ...core.options.entries import option
from ...core.options.option import Follow, Option
from ...core.options.shared_cache import shared_cache
from ...core.shell import typed
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
    lost = lost_models(reports)
    changes: List[Change] = []
    left: List[str] = []
    for domain in in_order(reports, cluster):
        if not any(not one.is_cache for drive in domain.drives for one in drive.bcache):
            continue
        try:
            unsafe = _unsafe(domain, lost[domain.report.simulated])
            setting = _setting(domain, entry, value, unsafe)
            change = _change(asked.action_id(len(changes)), domain, setting, cluster, entry)
            if change is None or not _asked_for(asked, change):
                continue
            _require(domain, setting, refusal_of(domain, cluster, entry, disputed))
            if setting.needs_consent and unsafe:
                raise RefusedError(unsafe)
            if len(changes) == CHANGES_MAX:
                raise RefusedError("plan again when this plan is done")
            changes.append(replace(change, setting=_with_shared(setting, domain, cluster)))
        except RefusedError as error:
            left.append(f"{domain.name}: {error.message}")
    if not changes and not left:
        left.append("no OSD that is asked for is on the backing drive of a bcache device")
    return Wanted(tuple(changes), tuple(left))


def _asked_for(asked: Asked, change: Change) -> bool:
    return asked.wants(change.hostname, change.device_class) and change.is_within(asked.scope)


def _require(domain: Domain, setting: OptionSetting, refusal: str) -> None:
    """Raise RefusedError where there is nothing to change, or it must not be changed."""
    values = {drive.state.option(setting.option) for drive in domain.drives}
    if len(values) > 1:
        raise RefusedError(f"{setting.option} differs between its drives")
    if not setting.before:
        raise RefusedError(
            f"{setting.option} cannot be read: two bcache devices are on the drive, or its probe "
            "does not know it"
        )
    if setting.before == setting.after:
        raise RefusedError(f"{setting.option} is {setting.after} already")
    if refusal:
        raise RefusedError(refusal)


def _with_shared(
    setting: OptionSetting, domain: Domain, cluster: ClusterState
) -> OptionSetting:
    """Name what shares the cache device; RefusedError where that cannot be told."""
    if not setting.needs_consent:
        return setting
    found = shared_cache(domain.report, domain.drives)
    together = len(found.osd_ids) > 1 and "osd" in cluster.failure_types
    return replace(setting, shared=replace(found, all_copies=together))


def _unsafe(domain: Domain, lost: Mapping[str, str]) -> str:
    return writeback_refusal(domain.report, domain.drives, lost)


def _setting(domain: Domain, entry: Option, value: str, unsafe: str) -> OptionSetting:
    """The option whatever it has now."""
    used = next((drive for drive in domain.drives if drive.uses), domain.drives[0])
    now = used.state.option(entry.name) or ""
    manual = by_hand(domain.drives, entry, now, value, unsafe)
    return OptionSetting(domain.planned, entry.name, now, value, manual)


def _change(
    action_id: str, domain: Domain, setting: OptionSetting, cluster: ClusterState, entry: Option
) -> Optional[Change]:
    """The change of a domain; None where the cluster knows no OSD on it."""
    osd_id = next((use.osd_id for drive in domain.drives for use in drive.uses), None)
    osd = None if osd_id is None else cluster.osd_of(domain.report, osd_id)
    if osd_id is None or (osd is None and domain.report.real):
        return None
    return Change(
        action_id, setting, osd.device_class if osd else "", WHY, ", ".join(domain.where), osd_id,
        LoadPoint.OSD_BENCH_DEPTH1,
        # nothing judges what leaves it, so nothing needs to settle
        0.0 if setting.unjudged else entry.settle_s,
    )
