"""State of `ceph wcache auto`: what it may begin, what it has begun, what was undone."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import ClassVar, Dict, FrozenSet, List, Mapping, Optional, Sequence, Tuple

from ..errors import MalformedError
from ..host_report import HostReport
from ..model import CacheMode, DriveReport, Finding, FindingCode, Severity
from ..text import amount, duration

Key = Tuple[str, str]
"""Hostname and cache domain."""
ModelKey = Tuple[str, str]
"""Device class and drive model, firmware included."""

TOKENS_MAX = 20_000
# Plans that wait, beside which something else is begun.
ASIDE_MAX = 4
DAY_S = 86400.0
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
WINDOWS_MAX = 32
_DAY, _HOUR = f"(?:{'|'.join(DAYS)})", "(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_WINDOW = re.compile(rf"(?:({_DAY}(?:,{_DAY})*)\s+)?({_HOUR})-({_HOUR}|24:00)")
# A drive that is undone so often is wanted otherwise by somebody.
UNDONE_MAX = 2
FORGET_S = 30 * DAY_S
TIMES_MAX = 8


# ---- modes


class Mode(str, Enum):
    """What may be begun without an admin."""

    OFF = "off"
    RECOMMEND = "recommend"  # measure
    APPLY = "apply"  # measure, and carry out what is recommended


@dataclass(frozen=True)
class ClassMode:
    """The mode of a device class; that of "" is of all that have none of their own."""

    device_class: str
    mode: Mode


Modes = Tuple[ClassMode, ...]


@dataclass(frozen=True)
class Turned:
    """When an admin has last turned it on or off, for a device class or with "" for all."""

    device_class: str
    at_s: float


def mode_of(modes: Modes, device_class: str) -> Mode:
    """Look up what is allowed in a device class."""
    by_class = {item.device_class: item.mode for item in modes}
    return by_class.get(device_class, by_class.get("", Mode.OFF))


def any_on(modes: Modes) -> bool:
    """Say whether anything at all may be begun."""
    return any(item.mode is not Mode.OFF for item in modes)


# ---- maintenance windows, in UTC


@dataclass(frozen=True)
class Window:
    """From one minute of the day to another, on the days on which it begins (0 is Monday)."""

    days: FrozenSet[int]
    from_min: int
    to_min: int


def parse_windows(text: str) -> Tuple[Window, ...]:
    """Read windows from `22:00-06:00; sat,sun 00:00-24:00`; none is any time.

    Raises MalformedError that says what is allowed.
    """
    found = []
    for part in filter(None, (part.strip() for part in text.lower().split(";"))):
        match = _WINDOW.fullmatch(part)
        if match is None:
            raise MalformedError(
                f"maintenance window {part[:40]!r} is not understood",
                "set mgr/wcache/auto_windows to a value such as '22:00-06:00; sat,sun "
                "00:00-24:00' (UTC), or to nothing for any time",
            )
        names = match[1].split(",") if match[1] else DAYS
        from_min, to_min = (60 * int(at[:2]) + int(at[3:]) for at in match.group(2, 3))
        found.append(Window(frozenset(map(DAYS.index, names)), from_min, to_min))
    if len(found) > WINDOWS_MAX:
        raise MalformedError(f"{len(found)} maintenance windows; at most {WINDOWS_MAX} are taken")
    return tuple(found)


def is_open(windows: Tuple[Window, ...], at_s: float) -> bool:
    """Say whether something may be begun; a window that ends before it begins spans midnight."""
    now = time.gmtime(at_s)
    minute, day = now.tm_hour * 60 + now.tm_min, now.tm_wday
    return not windows or any(
        day in item.days and item.from_min <= minute < item.to_min
        if item.from_min < item.to_min
        else day in item.days if minute >= item.from_min
        else minute < item.to_min and (day - 1) % 7 in item.days
        for item in windows
    )


def outside(text: str, at_s: float) -> bool:
    """Say whether nothing may be begun by windows as set; those that make no sense are closed."""
    try:
        return not is_open(parse_windows(text), at_s)
    except MalformedError:
        return True


# ---- what may be spent in a day (UTC)


@dataclass(frozen=True)
class Allowance:
    """What an admin allows; the options `auto_*`."""

    windows: Tuple[Window, ...] = ()
    seconds_per_day: float = 14400.0
    bytes_per_day: int = 64 * 1024**3
    quiet_s: float = 3600.0


@dataclass(frozen=True)
class Spent:
    """Drive seconds, bytes written and changes of one day; what is under way counts in full."""

    day: int = 0
    seconds: float = 0.0
    bytes_written: int = 0
    changes: int = 0

    def today(self, now_s: float) -> Spent:
        """Start from nothing where the day is another one."""
        day = int(now_s // DAY_S)
        return self if self.day == day else Spent(day)

    def plus(self, seconds: float, bytes_written: int, changes: int) -> Spent:
        """Add what was begun, or how far off its forecast was."""
        return replace(
            self, seconds=max(0.0, self.seconds + seconds),
            bytes_written=max(0, self.bytes_written + bytes_written),
            changes=max(0, self.changes + changes),
        )

    def over(self, limits: Allowance, seconds: float, bytes_written: int) -> str:
        """Say why this much more is too much today, "" where it is not."""
        if self.seconds + seconds > limits.seconds_per_day:
            return (
                f"it may take {duration(seconds)} of drive time, and {duration(self.seconds)} of "
                f"{duration(limits.seconds_per_day)} are spent today (auto_seconds_per_day)"
            )
        if self.bytes_written + bytes_written > limits.bytes_per_day:
            return (
                f"it may write {amount(bytes_written)}, and {amount(self.bytes_written)} of "
                f"{amount(limits.bytes_per_day)} are spent today (auto_bytes_per_day)"
            )
        return ""


# ---- drives that are not in the mode that was applied


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
    def key(self) -> Key:
        """Where it is."""
        return self.hostname, self.domain_id

    @property
    def contested(self) -> bool:
        """Whether somebody else wants it otherwise."""
        return len(self.times_s) >= UNDONE_MAX


def find_undone(
    undone: Sequence[Undone], stands: Mapping[Key, Applied], modes: Mapping[Key, CacheMode],
    now_s: float,
) -> Tuple[Undone, ...]:
    """Compare drives with what was applied; `modes` has those that can be judged now.

    A drive is set right once.  When it is undone twice, wcache backs off and says who may have
    done it.  It looks at the drive again when an admin applies anew.
    """
    kept: Dict[Key, Undone] = {}
    for item in undone:
        plan = stands.get(item.key)
        anew = plan is not None and plan.plan_id != item.plan_id and plan.by == "admin"
        if plan is None or anew or now_s - item.times_s[-1] > FORGET_S:
            continue  # taken back, decided anew, or long ago
        kept[item.key] = replace(item, plan_id=plan.plan_id)
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


def contested(undone: Sequence[Undone], reports: Mapping[str, HostReport]) -> List[Finding]:
    """Make a finding for each drive that somebody else wants otherwise, with the suspect."""
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
            f"{_suspect(report, drives)}",
        ))
    return found


_PROGRAMS = (
    ("udev", "a udev rule"), ("tuned", "tuned"), ("hdparm.conf", "hdparm.conf"),
    ("smartd", "smartd"), ("smartmontools", "smartd"), ("tmpfiles.d", "systemd-tmpfiles"),
    ("systemd/system", "a systemd unit"), ("cron", "cron"), ("rc.local", "rc.local"),
    ("sysfs", "sysfsutils"),
)


def _suspect(report: HostReport, drives: Sequence[DriveReport]) -> str:
    """Name who may have changed the drives, as far as the probe can see."""
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


# ---- what is kept over a mgr's end


class Purpose(str, Enum):
    """Why something was begun."""

    CONFIRM = "confirm"  # a new drive of a drive model with a verdict
    UNKNOWN = "unknown"  # a drive model without a verdict
    AGAIN = "again"  # it ended on a transient
    APPLY = "apply"  # the standing mode, on drives that are not in it
    DIVIDE = "divide"  # a host's values of a knob, which were planned for another state of it


@dataclass(frozen=True)
class Pending:
    """The campaign or plan that was begun last, with what it is charged for until it ends."""

    owner: str
    purpose: Purpose
    device_class: str
    drive_model: str = ""
    tokens: Tuple[str, ...] = field(default=(), metadata={"max_items": TOKENS_MAX})
    seconds: float = 0.0
    bytes_written: int = 0
    changes: int = 0
    knob: str = ""  # of a host that is planned anew, which has no drive model
    host: str = ""


@dataclass(frozen=True)
class Ended:
    """How what was begun last has ended, and what it took.

    `good`: it came to its own end.  `begun`: it was begun at all, or else it has said nothing;
    nor has a plan that was paused to its end as clients wrote too little.
    `undone`: its end says nothing of its drive models.
    `drive_models`: what a plan was to change.  They are the plan's own word, as reports of its
    hosts may still be awaited when it ends.
    """

    good: bool
    why: str = ""
    seconds: float = 0.0
    bytes_written: int = 0
    changes: int = 0
    undone: bool = False
    drive_models: FrozenSet[str] = frozenset()
    begun: bool = True


@dataclass(frozen=True)
class PlannedAnew:
    """A host's values of a knob that were planned anew."""

    knob: str
    host: str
    held: str = ""  # why that is not done by itself any more


@dataclass(frozen=True)
class Tried:
    """A drive model that was measured, or a mode of it that was taken back, and when."""

    device_class: str
    drive_model: str
    at_s: float
    held: str = ""  # why its mode is not applied by itself any more
    failed: bool = False  # the measurement did not come to its end
    undone: bool = False  # that said nothing of the drive model, and it is tried once more

    @property
    def model_key(self) -> ModelKey:
        """By what verdicts stand."""
        return self.device_class, self.drive_model


@dataclass(frozen=True)
class AutoState:
    """All of it.

    `known` are tokens (`engine/auto_look.py`) of drives that are not new: they were there when the
    automation was turned on, or were dealt with since.  `fresh` are those that came since, and
    `again` those that were measured a second time.  `unquiet_at_s` is when a drive came last.
    `aside` are plans that were begun and wait, so that others are begun beside them.
    `turned` is when an admin spoke: what was taken back before that may be tried again.
    """

    VERSION: ClassVar[int] = 4
    modes: Modes = ()
    known: Tuple[str, ...] = field(default=(), metadata={"max_items": TOKENS_MAX})
    fresh: Tuple[str, ...] = field(default=(), metadata={"max_items": TOKENS_MAX})
    again: Tuple[str, ...] = field(default=(), metadata={"max_items": TOKENS_MAX})
    tried: Tuple[Tried, ...] = ()
    pending: Optional[Pending] = None
    spent: Spent = Spent()
    unquiet_at_s: float = 0.0
    undone: Tuple[Undone, ...] = field(default=(), metadata={"max_items": TOKENS_MAX})
    anew: Tuple[PlannedAnew, ...] = ()
    aside: Tuple[Pending, ...] = field(default=(), metadata={"max_items": ASIDE_MAX})
    turned: Tuple[Turned, ...] = ()

    def turned_at_s(self, device_class: str) -> float:
        """When an admin has last turned it on or off for a device class; 0 where never."""
        mine = (item.at_s for item in self.turned if item.device_class in ("", device_class))
        return max(mine, default=0.0)

    @property
    def begun(self) -> Tuple[Pending, ...]:
        """All that was begun and is not settled; that which is not put aside comes last."""
        return (*self.aside, *(() if self.pending is None else (self.pending,)))
