"""Which lines of the history somebody wants to see."""

from __future__ import annotations

import calendar
import re
import time
from dataclasses import dataclass
from typing import AbstractSet, Iterable, List, Optional, Tuple

from ..errors import MalformedError
from .entry import NOTHING, PROBE_PREFIX, HistoryEntry, Kind

LINES_MAX = 10_000
_AGO = re.compile(r"([0-9]{1,6})(s|m|h|d)")
_UNIT_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_FORMS = ("%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S",
          "%Y-%m-%d %H:%M:%S")


@dataclass(frozen=True)
class Filter:
    """What a line must be about; None is anything."""

    hostname: str = ""
    osd_ids: Optional[AbstractSet[int]] = None
    drive: Optional[str] = None
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
        ):
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


def kinds() -> str:
    """The kinds that `--what` takes, for people."""
    return ", ".join(kind.value for kind in Kind)
