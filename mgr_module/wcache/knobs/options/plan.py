"""From verdicts about options of drives to changes, one option of a drive in a plan."""

from __future__ import annotations

from typing import Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ...core.change.change import Change
from ...core.change.option_setting import OptionSetting
from ...core.cluster import ClusterState
from ...core.host_report import HostReport
from ...core.model import DriveReport
from ...core.options.entries import DRAINS, OPTIONS, kept_from
from ...core.options.option import DIRTY_DATA, Option, Place
from ...core.shell import CommandLine, command, commented
from ...core.verdict.option_choice import Choice, Ground, OptionVerdict, Told, by_kind, choose
from ...core.verdict.recommend import recommended_for
from ..domains import Domain, Fate, by_fate, in_order, within
from ..knob import Asked, Wanted
from .refusals import Refusals

LOST, KEPT = "gone after a reboot of the host", "kept over a reboot"
# One that resets others comes first: what was measured of those was measured with what it is now.
_IN_ORDER = sorted(OPTIONS, key=lambda one: not one.resets)


class NewValue(NamedTuple):
    """An option to be given another value."""

    entry: Option
    now: str
    choice: Choice


def make_changes(
    asked: Asked, verdicts: Iterable[OptionVerdict], reports: Iterable[HostReport],
    cluster: ClusterState, refusals: Refusals, disputed: Mapping[Tuple[str, str], str] = {},
) -> Wanted:
    """Changes in the order they will be made, one failure domain after the other.

    `disputed`: by host and cache domain, why nothing is begun there.
    """
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
                reasons=("no option of such a drive was compared",),
                of=str(domain.drives[0].drive_model) or "(unnamed)",
            )
        step, reasons = _step(domain, told, refusals)
        if step is None:
            return Fate(reasons=tuple(reasons))
        refusal = refusal_of(domain, cluster, step.entry, disputed)
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
    disputed: Mapping[Tuple[str, str], str],
) -> str:
    """Why an option is not changed on a domain's drives now; "" where it may be."""
    why = disputed.get((domain.report.hostname, domain.drives[0].domain_id), "")
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
