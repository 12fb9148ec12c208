"""Changes of drives' options: by verdicts of `ab`, or as an admin's plan names one."""

from __future__ import annotations

from dataclasses import replace
from typing import Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ...core.change.change import Change
from ...core.cluster import ClusterState
from ...core.drive.safety import writeback_refusal
from ...core.errors import RefusedError
from ...core.host_report import HostReport, lost_models
from ...core.model import DriveReport, LoadPoint
from ...core.options.entries import DRAINS, OPTIONS, kept_from, parse_assignment
from ...core.options.option import DIRTY_DATA, Option, Place, shared_cache
from ...core.setting.domain_settings import OptionSetting
from ...core.text import CommandLine, command, commented
from ...core.verdict.option_choice import Choice, Ground, OptionVerdict, Told, by_kind, choose
from ...core.verdict.recommend import recommended_for
from ..knob import Asked, Domain, Fate, Wanted, by_fate, in_order, within
from .osds import Refusals

LOST, KEPT = "gone after a reboot of the host", "kept over a reboot"
# One that resets others comes first: what was measured of those was measured with what it is now.
_IN_ORDER = sorted(OPTIONS, key=lambda one: not one.resets)


class NewValue(NamedTuple):
    """An option to be given another value."""

    entry: Option
    now: str
    choice: Choice


def by_verdicts(
    asked: Asked, verdicts: Iterable[OptionVerdict], reports: Iterable[HostReport],
    cluster: ClusterState, refusals: Refusals,
) -> Wanted:
    """Changes in the order they will be made, one failure domain after the other."""
    kinds = by_kind(verdicts, on_host=True)

    def is_asked_for(domain: Domain) -> bool:
        told = recommended_for(domain.drives[0], domain.report, cluster, kinds)
        return within(domain, asked.scope, cluster) and asked.wants(
            domain.report.hostname,
            asked.scope.device_class if told is None else told.kind.device_class,
        )

    def fate_of(domain: Domain, before: int) -> Fate:
        told = recommended_for(domain.drives[0], domain.report, cluster, kinds)
        if told is None:
            return Fate(
                reasons=("no option of such a drive's queue or bcache was compared",),
                of=str(domain.drives[0].drive_model) or "(unnamed)",
            )
        step, reasons = _step(domain, told, refusals)
        if step is None:
            return Fate(reasons=tuple(reasons))
        refusal = refusal_of(domain, cluster, step.entry, asked.without)
        if refusal:
            return Fate(reasons=(*reasons, refusal))
        return Fate(_change(asked.action_id(before), domain, told, step), tuple(reasons))

    return by_fate(filter(is_asked_for, in_order(reports, cluster)), fate_of)


def _step(
    domain: Domain, told: Told, refusals: Refusals
) -> Tuple[Optional[NewValue], List[str]]:
    """The option to be changed, and why others are left alone."""
    thing = (domain.report.hostname, domain.drives[0].domain_id)
    found: Optional[NewValue] = None
    left: List[str] = []
    for entry in _IN_ORDER:
        verdicts = told.verdicts.get(entry.name, ())
        values = {drive.state.option(entry.name) for drive in domain.drives}
        now = values.pop()
        if not verdicts:
            continue
        if values or now is None:
            left.append(f"{entry.name} cannot be read, or differs between its drives")
            continue
        choice = choose(now, verdicts)
        moved = f"{entry.name} {now} to {choice.value}"
        if not choice.value:
            left += [f"{entry.name}: {choice.why_not}"] if choice.why_not else []
            continue
        refusal = refusals.why(entry, choice.value, told.kind[:2], thing)
        if refusal:
            left.append(f"{moved}: {refusal}")
        elif found is not None:
            left.append(f"{moved}: a plan changes one option of a drive; plan again after it")
        else:
            found = NewValue(entry, now, choice)
    return found, left


def refusal_of(
    domain: Domain, cluster: ClusterState, entry: Option,
    without: Mapping[Tuple[str, str], str],
) -> str:
    """Why an option is not changed on a domain's drives now; "" where it may be."""
    why = without.get((domain.report.hostname, domain.drives[0].domain_id), "")
    for drive in domain.drives if not why else ():
        kept = kept_from(drive, entry.name)
        if kept:
            return f"{drive.dev_name}: {kept}"
    return why or cluster.not_up(domain.report, domain.osd_ids)


def _change(action_id: str, domain: Domain, told: Told, step: NewValue) -> Change:
    entry, now, choice = step
    manual = by_hand(domain.drives, entry, now, choice.value)
    return Change(
        action_id, OptionSetting(domain.planned, entry.name, now, choice.value, manual),
        told.kind.device_class, choice.why, ", ".join(domain.where),
        domain.drives[0].uses[0].osd_id, choice.proof, entry.settle_s,
        grounds=(Ground(*told.kind, entry.name, now, choice.value),),
    )


def by_hand(
    drives: Sequence[DriveReport], entry: Option, now: str, value: str, unsafe: str = ""
) -> Tuple[CommandLine, ...]:
    """The commands on the host: make it, read it back, undo it.

    `unsafe`: why nothing may rest on the cache device alone, so that by hand it is not put there.
    """
    lines: List[CommandLine] = []
    for drive in drives:
        path = _path(drive, entry)
        before: Dict[str, str] = {entry.name: now}
        for name in entry.resets:
            was = drive.state.option(name)
            if was is not None:
                before[name] = was
        lines += [
            commented(
                command("echo {} > {}/{}", value, path, entry.name),
                KEPT if entry.dirty_in else LOST,
            ),
            commented(command("cat {}/{}", path, entry.name), "read it back"),
        ]
        if entry.dirty_in and value != entry.dirty_in:
            least = drive.state.option(DRAINS) or "8, if nobody has set it"
            lines += [
                commented(command("cat {}/{}", path, DIRTY_DATA), "done when it reads 0.0k"),
                commented(
                    command("echo 20480 > {}/{}", path, DRAINS),
                    "to be quicker: 10 MiB/s at least; it was {}", least,
                ),
            ]
        lines += [
            commented(command("echo {} > {}/{}", was, path, name), "undo it")
            for name, was in before.items() if not (unsafe and was == entry.dirty_in)
        ]
    return tuple(lines)


def _path(drive: DriveReport, entry: Option) -> str:
    if entry.place is Place.QUEUE:
        return f"/sys/block/{drive.dev_name}/queue"
    name = next((one.name for one in drive.bcache if not one.is_cache), "bcacheN")
    return f"/sys/block/{name}/bcache"


# ---- what an admin's plan names (`plan --option=OPTION=VALUE`): no verdict speaks for it


def by_admin(asked: Asked, reports: Iterable[HostReport], cluster: ClusterState) -> Wanted:
    """Changes of the backing drives that have another value, by failure domain."""
    entry, value = parse_assignment(asked.option)
    reports = tuple(reports)
    lost = lost_models(reports)

    def fate_of(domain: Domain, before: int) -> Fate:
        report, drives = domain.report, domain.drives
        osd_id = next((use.osd_id for drive in drives for use in drive.uses), None)
        osd = None if osd_id is None else cluster.osd_of(report, osd_id)
        if osd_id is None or (osd is None and report.real):
            return Fate()
        unsafe = writeback_refusal(report, drives, lost[report.simulated])
        now = next(drive for drive in drives if drive.uses).state.option(entry.name) or ""
        manual = by_hand(drives, entry, now, value, unsafe)
        setting = OptionSetting(domain.planned, entry.name, now, value, manual)
        change = Change(
            asked.action_id(before), setting, osd.device_class if osd else "",
            "an admin asked for it", ", ".join(domain.where), osd_id, LoadPoint.OSD_BENCH_DEPTH1,
            # nothing judges what leaves it, so nothing needs to settle
            0.0 if setting.unjudged else entry.settle_s,
        )
        wanted = asked.wants(change.hostname, change.device_class)
        if not wanted or not change.is_within(asked.scope):
            return Fate()
        why_not = (
            _why_not(domain, setting) or refusal_of(domain, cluster, entry, asked.without)
            or (unsafe if setting.needs_consent else "")
        )
        if why_not:
            return Fate(reasons=(why_not,))
        try:
            return Fate(replace(change, setting=_with_shared(setting, domain, cluster)))
        except RefusedError as error:
            return Fate(reasons=(error.message,))

    backing = (
        domain for domain in in_order(reports, cluster)
        if any(not one.is_cache for drive in domain.drives for one in drive.bcache)
    )
    found = by_fate(backing, fate_of)
    none = ("no OSD that is asked for is on the backing drive of a bcache device",)
    left = found.left_alone if found.changes else found.left_alone or none
    return replace(found, left_alone=left, drives_in_place=None)


def _why_not(domain: Domain, setting: OptionSetting) -> str:
    """Why there is nothing to change, or nobody knows; "" where there is something."""
    values = {drive.state.option(setting.option) for drive in domain.drives}
    if len(values) > 1:
        return f"{setting.option} differs between its drives"
    if not setting.before:
        return (
            f"{setting.option} cannot be read: two bcache devices are on the drive, or its probe "
            "does not know it"
        )
    return f"{setting.option} is {setting.after} already" if setting.before == setting.after else ""


def _with_shared(
    setting: OptionSetting, domain: Domain, cluster: ClusterState
) -> OptionSetting:
    """Name what shares the cache device; RefusedError where that cannot be told."""
    if not setting.needs_consent:
        return setting
    found = shared_cache(domain.report, domain.drives)
    together = len(found.osd_ids) > 1 and "osd" in cluster.failure_types
    return replace(setting, shared=replace(found, all_copies=together))
