"""`ceph wcache auto status` in words."""

from __future__ import annotations

from typing import Any, Mapping

from ...core.text import amount, duration, many

LINES_MAX = 20


def status(data: Mapping[str, Any]) -> str:
    """What is allowed, what is spent, what it waits for and what it leaves alone."""
    modes = ", ".join(f"{name}: {mode}" for name, mode in data["modes"].items()) or "off"
    spent, limits = data["spent_today"], data["limits"]
    lines = [
        f"auto:       {modes}" + (" (persisting)" if data["persist"] else ""),
        f"windows:    {data['windows'] or 'any time'} (UTC), now "
        f"{'open' if data['window_open'] else 'closed'}",
        f"today:      {duration(spent['seconds'])} of {duration(limits['seconds_per_day'])}, "
        f"{amount(spent['bytes_written'])} of {amount(limits['bytes_per_day'])}, "
        f"{many(spent['changes'], 'change')} (each rollout: "
        f"{limits['rollout_harm_max_s']:.0f} s of extra wait at most)",
        f"under way:  {data['under_way'] or 'nothing'}",
        f"new drives: {data['new_drives']}",
        f"waiting:    {data['waiting'] or 'no'}",
    ]
    left = data["left_alone"]
    lines += [f"left alone: {line}" for line in left[:LINES_MAX]]
    if len(left) > LINES_MAX:
        lines.append(f"and {len(left) - LINES_MAX} more: see --format json")
    return "\n".join(lines)
