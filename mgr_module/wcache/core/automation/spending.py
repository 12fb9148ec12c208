"""What may be spent in a day (UTC), and what was."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Tuple

from ..text import amount, duration
from .windows import Window

DAY_S = 86400.0


@dataclass(frozen=True)
class Limits:
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


def today(spent: Spent, now_s: float) -> Spent:
    """What was spent today."""
    day = int(now_s // DAY_S)
    return spent if spent.day == day else Spent(day)


def over(spent: Spent, limits: Limits, seconds: float, bytes_written: int) -> str:
    """Why this much more is too much today, "" where it is not."""
    if spent.seconds + seconds > limits.seconds_per_day:
        return (
            f"it may take {duration(seconds)} of drive time, and {duration(spent.seconds)} of "
            f"{duration(limits.seconds_per_day)} are spent today (auto_seconds_per_day)"
        )
    if spent.bytes_written + bytes_written > limits.bytes_per_day:
        return (
            f"it may write {amount(bytes_written)}, and {amount(spent.bytes_written)} of "
            f"{amount(limits.bytes_per_day)} are spent today (auto_bytes_per_day)"
        )
    return ""


def charged(spent: Spent, seconds: float, bytes_written: int, changes: int) -> Spent:
    """After something was begun, or its forecast was replaced by what it took."""
    return replace(
        spent, seconds=max(0.0, spent.seconds + seconds),
        bytes_written=max(0, spent.bytes_written + bytes_written),
        changes=max(0, spent.changes + changes),
    )
