"""What is printed to be run on hosts: templates beside this file, which quote each value.

jinja2 is imported when a script is wanted, since a mgr may lack it.

What a host that is added will have flushed, and what one that is removed would keep: read from
plans, runs and its last report.
"""

from __future__ import annotations

import json
import shlex
from functools import lru_cache
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional

from ..core.change.change import TOUCHED, ChangeStatus
from ..core.change.rollout_state import Rollout
from ..core.drive.journal import EntryKind
from ..core.drive.saved_off import how_to_name, made_to_flush, say_flushed, why_pinned
from ..core.errors import MalformedError, NotReadyError
from ..core.experiment.run_state import RunState, RunStatus
from ..core.fleet.foreign_rules import Reload, touched_domains
from ..core.host_report import HostReport
from ..core.model import DriveReport
from ..core.text import CommandLine, arguments, many, named, typed
from .places import caps_of, is_name

# What comes next; the caches are off, so turning one on needs the admin's word.
MEASURE = "ceph wcache campaign start --consent-turn-on --accept-cost"


class Script(NamedTuple):
    """What an admin pastes: a POSIX shell script, and what is good to know about it."""

    notes: List[str]
    text: str


def script(template: str, **values: Any) -> Script:
    """Render a template; the comments that it begins with are the notes."""
    lines = _rendered(template, caps=caps_of, **values).split("\n")
    begin = next(number for number, line in enumerate(lines) if not line.startswith("# "))
    return Script([line[2:] for line in lines[:begin]], "\n".join(lines[begin:]))


def reloading(items: Iterable[Reload], fsid: str) -> str:
    """Plan to load volumes of OSDs anew; OSDs that no script can do are named in its notes."""
    items = tuple(items)
    todo = [one for one in items if not one.why_not]
    hosts: Dict[str, Dict[int, Reload]] = {}
    for number, one in enumerate(todo, 1):
        hosts.setdefault(one.hostname, {})[number] = one
    return _rendered(
        "reloading", fsid=fsid, hosts=hosts, total=len(todo), prepare=_prepare, measure=MEASURE,
        osds=many(len(todo), "OSD"), on=many(len(hosts), "host"),
        left=[one for one in items if one.why_not],
    )


def _prepare(items: Iterable[Reload]) -> CommandLine:
    """What has the next boot of a host pin the drives of these OSDs."""
    names = dict.fromkeys(name for one in items for name in one.to_name)
    return arguments(["wcache-probe", "prepare", *(f"--drive={name}" for name in names)])


def _rendered(template: str, **values: Any) -> str:
    text: str = _environment().get_template(f"{template}.sh.j2").render(values)
    return text.rstrip("\n")


@lru_cache(maxsize=1)
def _environment() -> Any:
    try:
        import jinja2
    except ImportError as error:
        raise NotReadyError(
            f"jinja2 is missing on this mgr's host ({error})", "install python3-jinja2 there"
        ) from None
    environment = jinja2.Environment(  # noqa: S701  shell and YAML: QUOTING escapes
        loader=jinja2.FileSystemLoader(str(Path(__file__).parent)), auto_reload=False,
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )
    environment.filters.update(QUOTING)
    return environment


def _name(value: object) -> str:
    """A name that means nothing to a shell, inside quotes neither; raises MalformedError."""
    if not is_name(str(value)):
        raise MalformedError(f"{str(value)[:60]!r} cannot stand in a script")
    return str(value)


def _comment(value: object) -> str:
    """A text that does not end the line of a comment."""
    return "".join(char if char.isprintable() else "?" for char in str(value))


def _yaml(value: object) -> str:
    """A quoted text of JSON, which is one of every YAML too: none becomes a number or a word.

    YAML takes JSON's two halves of a character for two, so that has YAML's own escape.
    """
    return '"' + "".join(
        json.dumps(char)[1:-1] if char <= "\uffff" else f"\\U{ord(char):08x}"
        for char in str(value)
    ) + '"'


# Each value of a template goes through one of these; a test refuses others.
QUOTING: Mapping[str, Callable[[Any], str]] = {
    "comment": _comment, "name": _name, "names": lambda values: " ".join(map(_name, values)),
    "quote": lambda value: shlex.quote(str(value)),
    "yaml": _yaml,
}


PINS = (
    "prepare has the kernel flush the SCSI and SATA drives of OSDs from the next boot on, also",
    "those that are off: each of their commits pays for a flush with nothing to write then. It",
    "leaves out drives that are off and save that themselves, and says which are which; so does",
    "`wcache-probe prepare --dry-run`, which changes nothing.",
)
LINES_MAX = 50


def pins(reports: Iterable[HostReport]) -> List[str]:
    """Which drives `wcache-probe prepare` will make flush, as far as probes have reported."""
    return [*PINS, *(line for report in reports for line in _pins_of(report))]


def _pins_of(report: HostReport) -> List[str]:
    """What `prepare` will do to the drives of one host, going by its probe's last report."""
    touched = touched_domains(report)

    def named_by(drive: DriveReport) -> str:
        if drive.domain_id in touched:
            return "the journal has an entry of it"
        not_named = any(one.text == how_to_name(drive) for one in drive.refusals)
        return "" if not_named else "the boot rule names it, or cannot"

    def left_out(drive: DriveReport) -> bool:
        domain = [one for one in report.drives if one.domain_id == drive.domain_id]
        return not why_pinned(domain, named_by)

    off = [drive.dev_name for drive in report.drives if left_out(drive)]
    flushed = made_to_flush(drive for drive in report.drives if not left_out(drive))
    lines = [f"left as they are: {named(off)}"] if off else []
    lines += [say_flushed(flushed)] if flushed else []
    return [f"{report.hostname}: {line}" for line in lines]


def reasons_to_stay(hostname: str, plans: Iterable[Rollout]) -> List[str]:
    """A line for each plan that has changed drives of the host, with the way back."""
    found = []
    for plan in plans:
        names = [
            f"{','.join(change.domain.dev_names) or change.domain_id} is {change.setting.goal}"
            for change in plan.drive_changes
            if change.hostname == hostname and change.status in TOUCHED
        ]
        if names:
            found.append(
                f"plan {plan.plan_id} is applied on {hostname} ({named(names, 4)}): "
                + typed("ceph wcache rollback {}", plan.plan_id)
            )
    return found


def what_stays(
    hostname: str, plans: Iterable[Rollout], runs: Iterable[RunState],
    report: Optional[HostReport], *, kept: bool = False,
) -> List[str]:
    """What is on the host now that only its probe could take back, a line each.

    What is applied is not among it where it is to be `kept`.  What `status` will go on to report is
    told with the command that ends that.
    """
    found: List[str] = []
    keys = set()
    for plan in plans:
        for change in plan.drive_changes:
            lasts = plan.consent_persist and change.setting.CAN_LAST
            until = " over a power cycle too" if lasts else " until the next power cycle"
            if change.hostname != hostname or change.status not in TOUCHED:
                continue
            drives = ",".join(change.domain.dev_names) or change.domain_id
            keys.add(f"{EntryKind.ACTION.value}/{change.action_id}")
            if change.status is ChangeStatus.APPLIED:
                found += [] if kept else [(
                    f"{drives} remains in {change.setting.goal}{until} (plan {plan.plan_id})"
                )]
            else:
                found.append(
                    f"{drives} may remain in {change.setting.goal}{until} (plan {plan.plan_id}); "
                    + _until_accepted(hostname, change.domain_id)
                )
    for domain_id, state in _owed(hostname, runs).items():
        keys.add(f"{EntryKind.LEASE.value}/{domain_id}")
        found.append(
            f"{_drives(domain_id, report)} may remain {_left_in(state, domain_id)}; "
            + _until_accepted(hostname, domain_id)
        )
    for note in report.journal if report is not None else ():
        if note.key not in keys:
            found.append(f"the journal's entry {note.key} of {note.domain_id or 'a drive'}")
    if len(found) > LINES_MAX:
        found[LINES_MAX:] = [f"and {len(found) - LINES_MAX} more"]
    return found


def _owed(hostname: str, runs: Iterable[RunState]) -> Dict[str, RunState]:
    """The cache domains that a run holds, or has ended without giving back: the run by domain."""
    found: Dict[str, RunState] = {}
    for state in runs:
        held = state.status in (RunStatus.RUNNING, RunStatus.RELEASING)
        if state.spec.hostname != hostname or (state.restored and not held):
            continue
        found.update(dict.fromkeys(state.unsettled, state))
    return found


def _left_in(state: RunState, domain_id: str) -> str:
    """How a run may leave a domain that it does not give back."""
    prior, run_id = state.prior_of(domain_id), state.spec.run_id
    if prior.of_options:
        return f"at the value that {run_id} measured last"
    modes = " or ".join(sorted({drive.mode.other.value for drive in prior.drives}))
    return f"in {modes}, which {run_id} measured"


def _drives(domain_id: str, report: Optional[HostReport]) -> str:
    drives = report.drives if report is not None else ()
    return ",".join(d.dev_name for d in drives if d.domain_id == domain_id) or domain_id


def _until_accepted(hostname: str, domain_id: str) -> str:
    return (
        "`ceph wcache status` reports it until you run "
        + typed("ceph wcache drive accept {} {} --accept-cost", hostname, domain_id)
    )
