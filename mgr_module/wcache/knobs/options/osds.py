"""From verdicts about options of OSDs to changes of the config database, by failure domain.

And what only an admin changes: entries that say so, values that plans took back, values that were
applied and are gone, as a reboot takes drives' values away.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import AbstractSet, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple

from ...core.change.change import BACK, Change, ChangeStatus
from ...core.change.rollout_state import Rollout
from ...core.change.waves import growing
from ...core.cluster import ClusterState, OsdInfo, failure_domains
from ...core.config_database import Config, ConfigEdit, OsdValue, same
from ...core.host_report import DriveKind, HostReport
from ...core.model import DriveModel, Finding, FindingCode, Role, Severity
from ...core.options.entries import OPTIONS
from ...core.options.option import Follow, Option
from ...core.setting.config_setting import ConfigSetting, sample
from ...core.setting.domain_settings import OptionSetting
from ...core.text import typed
from ...core.verdict.option_choice import (
    Choice,
    Ground,
    OptionVerdict,
    Told,
    by_kind,
    choose,
)
from ..knob import CHANGES_MAX, Asked, Knob, Wanted

ADVICE = (
    (
        FindingCode.OPTION_DRIFT,
        "option{s} {does|do} not have the value that was applied, or {has|have} it on another "
        "drive model",
        "somebody has set another one, or the host was rebooted: of drives' options bcache's mode "
        "alone survives that. Set it again with `ceph wcache plan --knob=options` and `apply`, or "
        "go back with `ceph wcache rollback` and the plan that is named. Where the line says what "
        "to do, do that instead",
    ),
)
# What was measured of one option holds while the others stay, so they have a plan of their own.
OPTIONS_KNOB = Knob(
    "options", tuple(one.name for one in OPTIONS if not one.on_host), ADVICE, together=False,
    assigns=True,
)
Key = Tuple[str, str]
OnDrive = Tuple[DriveModel, DriveKind]
STRAYED = "is on another drive model now, of which the plan's verdicts say nothing"


def drifted(
    plans: Iterable[Rollout], reports: Mapping[str, HostReport], config: Optional[Config],
    moving: AbstractSet[Key], cluster: ClusterState,
) -> List[Finding]:
    """A finding for each drive or OSD that does not have what the newest plan of it gave it.

    `reports` and `config` are those that tell of what is there now.  `moving` are cache domains
    that are held or changed now, by host.  So is a value on another drive model than it is for.
    """
    found = []
    drives, stored = _stands(plans)
    for plan_id, setting in drives.values():
        domain = setting.domain
        report = reports.get(domain.hostname)
        if report is None or (domain.hostname, domain.domain_id) in moving:
            continue
        for drive in report.drives:
            unlike = setting.unlike(drive) if drive.domain_id == domain.domain_id else ""
            if unlike:
                found.append(_of_drive(plan_id, setting, drive.dev_name, unlike))
    if config is None:
        return found
    blocks = blocks_now(reports.values(), cluster) if stored else {}
    for plan_id, change, edit in stored.values():
        entry = config.at(*edit.key)
        now = None if entry is None else entry.value
        elsewhere = strayed(change, edit, blocks)
        if same(now, edit.value) is elsewhere:
            remove = typed("ceph config rm {} {}", *edit.key)
            said = f"plan {plan_id} set {edit.name} {edit.value}, and " + (
                f"{edit.who} {STRAYED}. Set what was there before, or remove it with {remove}; "
                "another plan may set what is better there" if elsewhere
                else f"it is {now or 'not set'} there"
            )
            found.append(_finding(edit.who, said))
    return found


def _stands(
    plans: Iterable[Rollout],
) -> Tuple[Dict[Key, Tuple[str, OptionSetting]], Dict[Key, Tuple[str, Change, ConfigEdit]]]:
    """What is applied, by the newest plan of each option of a drive and of each stored value."""
    drives: Dict[Key, Tuple[str, OptionSetting]] = {}
    stored: Dict[Key, Tuple[str, Change, ConfigEdit]] = {}
    for plan in sorted(plans, key=lambda plan: plan.created_at_s):
        for change in plan.changes:
            setting = change.setting
            if change.status is not ChangeStatus.APPLIED or setting.knob != OPTIONS_KNOB.name:
                continue
            if isinstance(setting, OptionSetting):
                key = (change.hostname, f"{change.domain_id} {setting.option}")
                drives[key] = (plan.plan_id, setting)
            stored.update((edit.key, (plan.plan_id, change, edit)) for edit in change.edits)
    return drives, stored


def strayed(change: Change, edit: ConfigEdit, found: Mapping[str, OnDrive]) -> bool:
    """Whether an OSD is on a drive model of which no verdict spoke for its value, by `blocks_now`.

    Drives get new firmware and OSDs another class: neither makes it another drive.
    """
    if edit.who not in found or not change.grounds:
        return False
    mine = str(replace(found[edit.who][0], firmware=""))
    spoken = [one.drive_model for one in change.grounds if one.value == edit.value]
    return not any(f"{words} ".startswith(f"{mine} ") for words in spoken)


def blocks_now(reports: Iterable[HostReport], cluster: ClusterState) -> Dict[str, OnDrive]:
    """The model and the kind of the drive that has an OSD's data, by the OSD's section."""
    return {
        f"osd.{osd.osd_id}": (
            drive.drive_model, report.kind_of(drive.drive_model, osd.device_class)
        )
        for report in reports for drive in report.drives for use in drive.uses
        for osd in [cluster.osd_of(report, use.osd_id)]
        if osd is not None and use.role is Role.BLOCK
    }


def _of_drive(plan_id: str, setting: OptionSetting, dev_name: str, unlike: str) -> Finding:
    where = f"{setting.domain.hostname} {dev_name}"
    detail = f"plan {plan_id} gave it {setting.goal}, and {unlike}"
    if not setting.kept_by:
        return _finding(where, detail)
    again = typed(
        "ceph wcache plan --knob=options --option={}={}", setting.option, setting.after
    )
    return _finding(
        where, f"{detail}. A reboot does not do that: another program or an admin has. Plan it "
        f"again with {again}, or go back with {typed('ceph wcache rollback {}', plan_id)}",
    )


def _finding(where: str, detail: str) -> Finding:
    return Finding(FindingCode.OPTION_DRIFT, Severity.WARNING, where, detail)


# So often the same value is set by plans; where it is gone again, something else wants another.
TIMES_MAX = 3


# Of a class and drive model, or of a drive or an OSD: an option and its value.
_Value = Tuple[Tuple[str, str], str, str]


class Refusals:
    """Asked by option, value and drive; `by_itself`: no admin asks for the plan."""

    def __init__(self, by_itself: bool, plans: Iterable[Rollout] = ()) -> None:
        self._by_itself = by_itself
        self._worse: Dict[_Value, str] = {}
        self._back: Dict[_Value, str] = {}
        self._set: Counter[_Value] = Counter()
        # one that goes back does so after others that were made after it
        made = sorted(
            plans, key=lambda plan: max(plan.created_at_s, plan.ended_at_s)
        ) if by_itself else ()
        for plan in made:
            for index, change in enumerate(plan.changes):
                if change.setting.knob != OPTIONS_KNOB.name:
                    continue
                for kind, thing in _values(change):
                    if index in plan.worse.indices:
                        self._worse[kind] = plan.plan_id
                    elif plan.by_will and change.status in BACK:
                        self._back[kind] = plan.plan_id
                    elif change.status is ChangeStatus.APPLIED:
                        self._worse.pop(kind, None)  # a later plan proved it
                        self._back.pop(kind, None)
                        self._set[thing] += 1

    def why(
        self, entry: Option, value: str, kind: Tuple[str, str], thing: Tuple[str, str]
    ) -> str:
        """Say why a value is not set, \"\" where it may be.

        `kind` is the device class and drive model, `thing` the host and domain, or ("", "osd.N").
        """
        if not self._by_itself:
            return ""
        if entry.follow is not Follow.AUTO:
            return "only a plan that an admin asks for changes it"
        kinds = (kind, (kind[0], ""))
        for told, words in (
            (self._worse, "it made clients slower and went back in plan"),
            (self._back, "an admin took it back in plan"),
        ):
            plan_id = next(filter(None, (told.get((one, entry.name, value)) for one in kinds)), "")
            if plan_id:
                return f"{words} {plan_id}, so an admin decides"
        if self._set[thing, entry.name, value] >= TIMES_MAX:
            return f"it was set {TIMES_MAX} times and was gone again, so an admin decides"
        return ""


def _values(change: Change) -> List[Tuple[_Value, _Value]]:
    """What a change sets: of a class and drive model, and of the drive or the OSD."""
    setting, kind = change.setting, (change.device_class, str(change.drive_model))
    if isinstance(setting, OptionSetting):
        value, thing = (setting.option, setting.after), (change.hostname, change.domain_id)
        return [((kind, *value), (thing, *value))]
    # what is set for OSDs keeps no drive model
    return [
        (((change.device_class, ""), edit.name, edit.value or ""),
         (("", edit.who), edit.name, edit.value or "")) for edit in change.edits
    ]


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
    refusals: Refusals,
) -> Wanted:
    """Changes of the OSDs' own values, one option after the other.

    `default_of` has the compiled default of an option.
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
                asked.action_id(len(changes)), entry.name, osds, device_class,
                where + (f" and {more} more" if more else ""), config, entry.settle_s,
            ))
    return Wanted(tuple(changes[:CHANGES_MAX]), tuple(left))


def _told(
    verdicts: Iterable[OptionVerdict], reports: Iterable[HostReport], cluster: ClusterState
) -> Dict[int, Told]:
    """What is known of the kind of the drive that has an OSD's data, by OSD."""
    kinds = by_kind(verdicts, on_host=False)
    mine = blocks_now(reports, cluster) if kinds else {}
    return {int(who[len("osd."):]): kinds[kind] for who, (_, kind) in mine.items() if kind in kinds}


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
