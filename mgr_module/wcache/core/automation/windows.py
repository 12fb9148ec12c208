"""Maintenance windows: when something may be begun, in UTC."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import FrozenSet, Tuple

from ..errors import MalformedError

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
WINDOWS_MAX = 32
DAY_MIN = 24 * 60
_WINDOW = re.compile(
    r"(?:((?:mon|tue|wed|thu|fri|sat|sun)(?:,(?:mon|tue|wed|thu|fri|sat|sun))*)\s+)?"
    r"([0-9]{2}):([0-9]{2})-([0-9]{2}):([0-9]{2})"
)


@dataclass(frozen=True)
class Window:
    """From one minute of the day to another, on the days on which it begins (0 is Monday)."""

    days: FrozenSet[int]
    from_min: int
    to_min: int

    def is_open(self, at_s: float) -> bool:
        """Whether a time lies in it; one that ends before it begins lasts over midnight."""
        now = time.gmtime(at_s)
        minute = now.tm_hour * 60 + now.tm_min
        if self.from_min < self.to_min:
            return now.tm_wday in self.days and self.from_min <= minute < self.to_min
        if minute >= self.from_min:
            return now.tm_wday in self.days
        return minute < self.to_min and (now.tm_wday - 1) % 7 in self.days


def parse_windows(text: str) -> Tuple[Window, ...]:
    """Windows from `22:00-06:00; sat,sun 00:00-24:00`; none is any time.

    Raises MalformedError that says what is allowed.
    """
    found = []
    for part in filter(None, (part.strip() for part in text.lower().split(";"))):
        match = _WINDOW.fullmatch(part)
        hours = [int(match[group]) for group in (2, 3, 4, 5)] if match else []
        good = bool(hours) and hours[1] < 60 and hours[3] < 60
        from_min, to_min = (hours[0] * 60 + hours[1], hours[2] * 60 + hours[3]) if good else (0, 0)
        if match is None or not good or from_min >= DAY_MIN or not 0 <= to_min <= DAY_MIN:
            raise MalformedError(
                f"maintenance window {part[:40]!r} is not understood",
                "set mgr/wcache/auto_windows to a value such as '22:00-06:00; sat,sun "
                "00:00-24:00' (UTC), or to nothing for any time",
            )
        names = match[1].split(",") if match[1] else DAYS
        found.append(Window(frozenset(DAYS.index(name) for name in names), from_min, to_min))
    if len(found) > WINDOWS_MAX:
        raise MalformedError(f"{len(found)} maintenance windows; at most {WINDOWS_MAX} are taken")
    return tuple(found)


def outside(text: str, at_s: float) -> bool:
    """Whether nothing may be begun now by windows as set; those that make no sense are closed."""
    try:
        return not is_open(parse_windows(text), at_s)
    except MalformedError:
        return True


def is_open(windows: Tuple[Window, ...], at_s: float) -> bool:
    """Whether something may be begun now."""
    return not windows or any(window.is_open(at_s) for window in windows)
