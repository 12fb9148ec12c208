"""The history: lines of the audit log by what each is about."""

from __future__ import annotations

import calendar
import re
import time
from dataclasses import dataclass, field
from enum import Enum
from typing import AbstractSet, ClassVar, Iterable, List, Optional, Tuple

from .errors import MalformedError

ADMIN = "admin"  # somebody who called a command
AUTO = "auto"  # what `ceph wcache auto` allows the module to begin by itself
PROBE_PREFIX = "probe "
OSDS_MAX = 64
LINES_MAX = 10_000
_AGO = re.compile(r"([0-9]{1,6})(s|m|h|d)")
_PLAIN = re.compile(r"[\w.:/@+-]*")
_UNIT_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_FORMS = ("%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S",
          "%Y-%m-%d %H:%M:%S")


class Kind(str, Enum):
    """What sort of thing a line tells of; `ceph wcache history --what` takes these names."""

    COMMAND = "command"  # an admin asked for something
    AUTOMATION = "automation"  # the module began or left something by itself
    CHANGE = "change"  # a plan changed something, or took it back
    PROBE = "probe"  # a probe restored something, or said something
    STEP = "step"  # a campaign or plan went a step further


@dataclass(frozen=True)
class About:
    """The drive or setting that a line is about, and for a change all of it.

    `drive` is a cache domain, `dev_names` are its drives; both are empty for a setting.
    `outcome` is empty where nothing was changed.
    """

    hostname: str = ""
    osd_ids: Tuple[int, ...] = field(default=(), metadata={"max_items": OSDS_MAX})
    drive: str = ""
    dev_names: Tuple[str, ...] = ()
    before: str = ""
    after: str = ""
    evidence: str = ""
    outcome: str = ""


NOTHING = About()


@dataclass(frozen=True)
class HistoryEntry:
    """One line of the audit log; `what` is a campaign, run, plan, host or drive."""

    VERSION: ClassVar[int] = 1
    at_s: float
    who: str
    what: str
    text: str
    about: Optional[About] = None

    @property
    def logged(self) -> str:
        """It as a line of a log, with host, drive and OSDs; what others have said is quoted."""
        about, of_probe = self.about or NOTHING, self.who.startswith(PROBE_PREFIX)
        where = about.hostname, _word(about.drive), *(f"osd.{osd_id}" for osd_id in about.osd_ids)
        shown, said = " ".join(filter(None, where)), repr(self.text) if of_probe else self.text
        return f"{self.who}: {_word(self.what)}: {said}" + (shown and f" [{shown}]")

    @property
    def kind(self) -> Kind:
        """What sort of thing it tells of."""
        if self.about is not None and self.about.outcome:
            return Kind.CHANGE
        if self.who == ADMIN:
            return Kind.COMMAND
        if self.who == AUTO:
            return Kind.AUTOMATION
        return Kind.PROBE if self.who.startswith(PROBE_PREFIX) else Kind.STEP


def _word(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else repr(name)


@dataclass(frozen=True)
class Filter:
    """What a line must be about; None is anything."""

    hostname: str = ""
    osd_ids: Optional[AbstractSet[int]] = None
    drive: Optional[str] = None
    drives: AbstractSet[Tuple[str, str]] = frozenset()  # that bear this name, by host and domain
    since_s: Optional[float] = None
    what: Optional[str] = None

    def takes(self, entry: HistoryEntry) -> bool:
        """Whether a line is one of those."""
        about = entry.about or NOTHING
        if self.since_s is not None and entry.at_s < self.since_s:
            return False
        if self.hostname and self.hostname not in (
            about.hostname, entry.what.partition(" ")[0], entry.who[len(PROBE_PREFIX):]
        ):
            return False
        if self.osd_ids is not None and self.osd_ids.isdisjoint(about.osd_ids):
            return False
        if self.drive is not None and self.drive not in (
            about.drive, *about.dev_names, entry.what, entry.what.rpartition(" ")[2]
        ) and (about.hostname, about.drive) not in self.drives:
            return False
        if self.what is None:
            return True
        return self.what in (entry.kind.value, entry.who, entry.what) or entry.what.startswith(
            f"{self.what}."
        )


def kept(
    entries: Iterable[HistoryEntry], wanted: Filter, count: int
) -> Tuple[List[HistoryEntry], int]:
    """The last `count` lines that are wanted, oldest first, and how many are left out."""
    found = [entry for entry in entries if wanted.takes(entry)]
    shown = sorted(found, key=lambda entry: entry.at_s)[-count:]
    return shown, len(found) - len(shown)


def parse_since(text: str, now_s: float) -> float:
    """Seconds of the epoch from `90m`, `3d`, `2026-07-01` or `2026-07-01 12:30` (UTC).

    Raises MalformedError that says what is allowed.
    """
    ago = _AGO.fullmatch(text.strip())
    if ago:
        return now_s - int(ago[1]) * _UNIT_S[ago[2]]
    for form in _FORMS:
        try:
            return float(calendar.timegm(time.strptime(text.strip(), form)))
        except ValueError:
            continue
    raise MalformedError(
        f"--since {text[:40]!r} is no time", "use 90m, 12h, 3d, 2026-07-01 or '2026-07-01 12:30'"
    )
