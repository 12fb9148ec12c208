"""Numbers with their units, as an admin reads them in a table or a report."""

from __future__ import annotations

import time
from typing import Any, Mapping, Optional


def amount(count: float) -> str:
    """Bytes in binary units."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return ""


def duration(seconds: float) -> str:
    """Seconds as an admin says them."""
    if seconds < 120:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h"


def latency(value_us: Optional[float]) -> str:
    """Microseconds in the unit that fits."""
    if value_us is None:
        return "-"
    return f"{value_us:.0f} us" if value_us < 1000 else f"{value_us / 1000:.2f} ms"


def ratio(row: Mapping[str, Any]) -> str:
    """A ratio with its interval, from a row's `ratio`, `ratio_low` and `ratio_high`."""
    if row["ratio"] is None:
        return "-"
    if row["ratio_low"] is None or row["ratio_high"] is None:
        return f"{row['ratio']:.2f}"
    return f"{row['ratio']:.2f} ({row['ratio_low']:.2f} to {row['ratio_high']:.2f})"


def when(at_s: float) -> str:
    """A wall-clock time in UTC."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at_s))
