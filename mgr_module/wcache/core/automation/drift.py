"""Drives that are not in the mode that was applied: set right once, then somebody is named.

A drive that is undone twice is wanted otherwise by somebody.  wcache backs off, says so, and
names what it can see on the host.  It looks at the drive again when an admin applies anew.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Dict, Iterable, List, Mapping, Sequence, Tuple

from ..change.change_status import ChangeStatus
from ..change.rollout_state import Rollout
from ..host_report import HostReport
from ..model import CacheMode, DriveReport, Finding, FindingCode, Severity

Key = Tuple[str, str]
"""Hostname and cache domain."""

UNDONE_MAX = 2
FORGET_S = 30 * 86400.0
TIMES_MAX = 8


@dataclass(frozen=True)
class Applied:
    """What a plan left a cache domain in."""

    plan_id: str
    mode: CacheMode
    by: str = "admin"


@dataclass(frozen=True)
class Undone:
    """A cache domain that others have changed, and when; `away` while it is not set right."""

    hostname: str
    domain_id: str
    plan_id: str
    times_s: Tuple[float, ...] = field(metadata={"max_items": TIMES_MAX})
    away: bool = True

    @property
    def contested(self) -> bool:
        """Whether somebody else wants it otherwise."""
        return len(self.times_s) >= UNDONE_MAX


def applied(rollouts: Iterable[Rollout], still: Iterable[bool]) -> Dict[Key, Applied]:
    """What stands, by the newest plan of each cache domain; only of plans that are `still`."""
    found: Dict[Key, Tuple[float, Applied]] = {}
    for rollout, is_still in zip(rollouts, still):
        for change in rollout.mode_changes if is_still else ():
            if change.status is ChangeStatus.APPLIED:
                key = (change.hostname, change.domain_id)
                item = Applied(rollout.plan_id, change.mode, rollout.by)
                if key not in found or found[key][0] <= rollout.created_at_s:
                    found[key] = (rollout.created_at_s, item)
    return {key: item for key, (_, item) in found.items()}


def look(
    undone: Sequence[Undone], stands: Mapping[Key, Applied], modes: Mapping[Key, CacheMode],
    now_s: float,
) -> Tuple[Undone, ...]:
    """What was undone, after a look at the drives; `modes` has those that can be judged now."""
    known = {(item.hostname, item.domain_id): item for item in undone}
    kept: Dict[Key, Undone] = {}
    for key, item in known.items():
        plan = stands.get(key)
        anew = plan is not None and plan.plan_id != item.plan_id and plan.by == "admin"
        if plan is None or anew or now_s - item.times_s[-1] > FORGET_S:
            continue  # taken back, decided anew, or long ago
        kept[key] = replace(item, plan_id=plan.plan_id)
    for key, plan in stands.items():
        mode, old = modes.get(key), kept.get(key)
        if mode is None:
            continue
        if mode is plan.mode:
            if old is not None and old.away:
                kept[key] = replace(old, away=False)
        elif old is None:
            kept[key] = Undone(*key, plan.plan_id, (now_s,))
        elif not old.away:
            times_s = (*old.times_s, now_s)[-TIMES_MAX:]
            kept[key] = replace(old, times_s=times_s, away=True)
    return tuple(kept.values())


def contested(
    undone: Sequence[Undone], reports: Mapping[str, HostReport]
) -> List[Finding]:
    """A finding for each drive that somebody else wants otherwise, with the suspect."""
    found = []
    for item in undone:
        report = reports.get(item.hostname)
        if not item.contested or report is None:
            continue
        drives = [drive for drive in report.drives if drive.domain_id == item.domain_id]
        names = ", ".join(drive.dev_name for drive in drives) or item.domain_id
        found.append(Finding(
            FindingCode.CONTESTED, Severity.WARNING, f"{item.hostname} {names}",
            f"changed {len(item.times_s)} times since plan {item.plan_id}; "
            f"{suspect(report, drives)}",
        ))
    return found


_PROGRAMS = (
    ("udev", "a udev rule"), ("tuned", "tuned"), ("hdparm.conf", "hdparm.conf"),
    ("smartd", "smartd"), ("smartmontools", "smartd"), ("tmpfiles.d", "systemd-tmpfiles"),
    ("systemd/system", "a systemd unit"), ("cron", "cron"), ("rc.local", "rc.local"),
    ("sysfs", "sysfsutils"),
)


def suspect(report: HostReport, drives: Sequence[DriveReport]) -> str:
    """Who may have changed the drives, as far as the probe can see."""
    seen = [
        item for item in (*(f for d in drives for f in d.findings), *report.findings)
        if item.code is FindingCode.FOREIGN_RULE
    ]
    if not seen:
        return (
            "the probe sees no rule on the host that does it: look for Ansible, cron or a "
            "script that sets caches from elsewhere"
        )
    detail = seen[0].detail
    program = next((name for part, name in _PROGRAMS if part in detail), "another setting")
    more = f" (and {len(seen) - 1} more)" if len(seen) > 1 else ""
    return f"suspect: {program}: {detail}{more}"
