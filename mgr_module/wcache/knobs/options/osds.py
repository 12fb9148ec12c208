"""From verdicts about options of OSDs to changes of the config database, by failure domain."""

from __future__ import annotations

from typing import Callable, Dict, Iterable, List, NamedTuple, Optional, Tuple

from ...core.change.change import Change
from ...core.change.config_setting import ConfigSetting, sample
from ...core.change.waves import growing
from ...core.cluster import ClusterState, OsdInfo, failure_domains
from ...core.config_database import Config, ConfigEdit, OsdValue
from ...core.drive_kind import DriveKind
from ...core.host_report import HostReport
from ...core.model import Role
from ...core.options.entries import OPTIONS
from ...core.verdict.option_choice import (
    Choice,
    Ground,
    OptionVerdict,
    Told,
    by_kind,
    choose,
)
from ...core.verdict.recommend import recommended_for
from ..domains import in_order
from ..knob import CHANGES_MAX, Asked, Wanted
from .drift import OPTIONS_KNOB
from .refusals import Refusals

# Hosts share a change, in groups that grow to 1 / SHARE of those that are changed.
SHARE = 8
READ_BACK_MAX = 64


class _Osd(NamedTuple):
    info: OsdInfo
    kind: DriveKind
    now: str
    choice: Choice


def make_changes(
    asked: Asked, verdicts: Iterable[OptionVerdict], reports: Iterable[HostReport],
    cluster: ClusterState, config: Config, default_of: Callable[[str], str],
    refusals: Refusals, first: int = 0,
) -> Wanted:
    """Changes of the OSDs' own values, one option after the other.

    `default_of` has the compiled default of an option.  `first`: how many changes the plan has.
    """
    reports = list(reports)
    told, without = _told(verdicts, reports, cluster), _without(asked, reports)
    changes: List[Change] = []
    left: Dict[str, None] = {}
    for entry in OPTIONS:
        groups: Dict[Tuple[str, str], List[_Osd]] = {}
        for osd_id, known in sorted(told.items()):
            info = cluster.osds[osd_id]
            mine = known.verdicts.get(entry.name, ())
            if not mine or not _asked_for(asked, info, known):
                continue
            if osd_id in without:
                left[f"osd.{osd_id}: {without[osd_id]}"] = None
                continue
            stands = config.of_osd(info, entry.name)
            now = (stands.value if stands is not None else default_of(entry.name)).strip()
            choice = choose(now, mine)
            why = choice.why_not
            if choice.value:
                why = refusals.why(
                    entry, choice.value, known.kind[:2], ("", f"osd.{osd_id}")
                )
            if choice.value and not why:
                where = ", ".join(failure_domains(info, cluster))
                groups.setdefault((where, info.device_class), []).append(
                    _Osd(info, known.kind, now, choice)
                )
            elif why:
                why = f"{now} to {choice.value}: {why}" if choice.value else why
                left[f"OSDs of {known.kind.device_class} {known.kind.drive_model}: {entry.name}: "
                     f"{why}"] = None
        for places in growing(sorted(groups.items(), key=lambda item: item[0]), SHARE):
            osds = [one for _, mine_ in places for one in mine_]
            (where, device_class), more = places[0][0], len(places) - 1
            changes.append(_change(
                asked.action_id(first + len(changes)), entry.name, osds, device_class,
                where + (f" and {more} more" if more else ""), config, entry.settle_s,
            ))
    return Wanted(tuple(changes[:CHANGES_MAX]), tuple(left))


def _told(
    verdicts: Iterable[OptionVerdict], reports: Iterable[HostReport], cluster: ClusterState
) -> Dict[int, Told]:
    """What is known of the kind of the drive that has an OSD's data, by OSD."""
    kinds = by_kind(verdicts, on_host=False)
    found: Dict[int, Told] = {}
    for domain in in_order(reports, cluster) if kinds else ():
        for drive in domain.drives:
            known = recommended_for(drive, domain.report, cluster, kinds)
            ids = {use.osd_id for use in drive.uses if use.role is Role.BLOCK}
            for osd_id in ids if known is not None and domain.report.real else ():
                if osd_id in cluster.osds and known is not None:
                    found[osd_id] = known
    return found


def _without(asked: Asked, reports: Iterable[HostReport]) -> Dict[int, str]:
    """OSDs on drives that an admin has left out, and why."""
    return {
        use.osd_id: asked.without[report.hostname, drive.domain_id]
        for report in reports if report.real for drive in report.drives
        if (report.hostname, drive.domain_id) in asked.without for use in drive.uses
    }


def _asked_for(asked: Asked, info: OsdInfo, known: Told) -> bool:
    scope = asked.scope
    return (
        asked.wants(info.hostname, info.device_class) and scope.has_osd(info.osd_id)
        and scope.has_host(info.hostname)
        and scope.drive_model.lower() in known.kind.drive_model.lower()
    )


def _change(
    action_id: str, name: str, osds: List[_Osd], device_class: str, where: str, config: Config,
    settle_s: float,
) -> Change:
    def stored(osd: OsdInfo) -> Optional[str]:
        entry = config.at(f"osd.{osd.osd_id}", name)
        return None if entry is None else entry.value

    up = [one for one in osds if one.info.up]
    edits = tuple(
        ConfigEdit(f"osd.{one.info.osd_id}", name, one.choice.value, stored(one.info))
        for one in osds
    )
    expect = tuple(OsdValue(one.info.osd_id, name, one.choice.value, one.now) for one in up)
    return Change(
        action_id, ConfigSetting(OPTIONS_KNOB.name, edits, expect[:READ_BACK_MAX]),
        device_class, osds[0].choice.why, where, wait_s=settle_s,
        judged_on=sample([one.info.osd_id for one in up]),
        grounds=tuple(dict.fromkeys(
            Ground(*one.kind, name, one.now, one.choice.value) for one in osds
        )),
    )
