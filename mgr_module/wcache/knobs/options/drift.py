"""What was applied and is not there any more: a reboot takes drives' values away."""

from __future__ import annotations

from typing import AbstractSet, Dict, Iterable, List, Mapping, Optional, Tuple

from ...core.change.change import ChangeStatus
from ...core.change.option_setting import OptionSetting
from ...core.change.rollout_state import Rollout
from ...core.config_database import Config, ConfigEdit, same
from ...core.host_report import HostReport
from ...core.model import Cure, Finding, FindingCode, Severity
from ...core.options.entries import OPTIONS
from ...core.shell import typed
from ..knob import Knob

ADVICE = (
    (
        FindingCode.OPTION_DRIFT,
        "option{s} {does|do} not have the value that was applied",
        "a reboot of the host does that: of drives' options bcache's mode alone survives one. Set "
        "it again with `ceph wcache plan --knob=options` and `apply`, or go back with `ceph wcache "
        "rollback` and the plan that is named",
    ),
)
# What was measured of one option holds while the others stay, so they have a plan of their own.
OPTIONS_KNOB = Knob(
    "options", tuple(one.name for one in OPTIONS if not one.on_host), ADVICE, together=False,
    assigns=True,
)
Key = Tuple[str, str]


def drifted(
    plans: Iterable[Rollout], reports: Mapping[str, HostReport], config: Optional[Config],
    moving: AbstractSet[Key],
) -> List[Finding]:
    """A finding for each drive or OSD that does not have what the newest plan of it gave it.

    `reports` and `config` are those that tell of what is there now.  `moving` are cache domains
    that are held or changed now, by host.
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
    for plan_id, edit in stored.values():
        entry = config.at(*edit.key)
        now = None if entry is None else entry.value
        if not same(now, edit.value):
            found.append(_finding(
                edit.who, f"plan {plan_id} set {edit.name} {edit.value}, and it is "
                          f"{now or 'not set'} there",
            ))
    return found


def _stands(
    plans: Iterable[Rollout],
) -> Tuple[Dict[Key, Tuple[str, OptionSetting]], Dict[Key, Tuple[str, ConfigEdit]]]:
    """What is applied, by the newest plan of each option of a drive and of each stored value."""
    drives: Dict[Key, Tuple[str, OptionSetting]] = {}
    stored: Dict[Key, Tuple[str, ConfigEdit]] = {}
    for plan in sorted(plans, key=lambda plan: plan.created_at_s):
        for change, setting in plan.option_changes:
            if change.status is ChangeStatus.APPLIED:
                key = (change.hostname, f"{change.domain_id} {setting.option}")
                drives[key] = (plan.plan_id, setting)
        for item in plan.config_changes:
            if item.status is ChangeStatus.APPLIED and item.knob == OPTIONS_KNOB.name:
                stored.update((edit.key, (plan.plan_id, edit)) for edit in item.edits)
    return drives, stored


def _of_drive(plan_id: str, setting: OptionSetting, dev_name: str, unlike: str) -> Finding:
    where = f"{setting.domain.hostname} {dev_name}"
    detail = f"plan {plan_id} gave it {setting.goal}, and {unlike}"
    if not setting.lasts_by_itself:
        return _finding(where, detail)
    again = typed(
        "ceph wcache plan --knob=options --option={}={}", setting.option, setting.after
    )
    return _finding(
        where, f"{detail}. A reboot does not do that: another program or an admin has. Plan it "
        f"again with {again}, or go back with {typed('ceph wcache rollback {}', plan_id)}",
        Cure.IN_DETAIL,
    )


def _finding(where: str, detail: str, cure: Cure = Cure.GENERAL) -> Finding:
    return Finding(FindingCode.OPTION_DRIFT, Severity.WARNING, where, detail, cure)
