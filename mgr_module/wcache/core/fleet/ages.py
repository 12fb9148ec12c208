"""How old is what is shown of hosts: the age of their last reports, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import AbstractSet, Any, List, Mapping, Optional

from ..shell import CommandLine, ticked
from ..text import many, roughly

# A command that goes by reports older than this has the hosts looked at again.
OLD_S = 60.0


@dataclass(frozen=True)
class Age:
    """Of the newest and the oldest report, with the host of the oldest.

    `unknown` hosts have sent none since the mgr, their probe, or a change of ours; None where
    there is no report at all.
    """

    newest_s: Optional[float] = None
    oldest_s: Optional[float] = None
    oldest_of: str = ""
    unknown: int = 0


def age_of(hosts: AbstractSet[str], reported_at_s: Mapping[str, float], now_s: float) -> Age:
    """Return the age of the reports of some hosts, by when they came; of others it is unknown."""
    known = [*(reported_at_s.keys() & hosts)]
    unknown = len(hosts) - len(known)
    if not known:
        return Age(unknown=unknown)
    times = [*map(reported_at_s.__getitem__, known)]
    oldest_at_s = min(times)
    oldest = max(name for name, at_s in zip(known, times) if at_s == oldest_at_s)
    return Age(round(now_s - max(times), 1), round(now_s - oldest_at_s, 1), oldest, unknown)


def words(age: Mapping[str, Any]) -> str:
    """For people, of an Age as plain data; "" where there is no report at all."""
    newest, oldest, unknown = age["newest_s"], age["oldest_s"], age["unknown"]
    more = f"{many(unknown, 'host')} not since the last change or start" if unknown else ""
    if newest is None or oldest is None:
        return more
    low, high = roughly(newest), roughly(oldest)
    said = f"{low} ago" if low == high else f"{low} to {high} ago ({age['oldest_of']})"
    return f"{said}; {more}" if more else said


def again(age: Mapping[str, Any], line: CommandLine) -> List[str]:
    """A line of a command that goes by old reports; none where they are young."""
    if not age["unknown"] and (age["oldest_s"] or 0.0) <= OLD_S:
        return []
    return [
        f"as reported {words(age)}; the probes are asked to look again: in half a minute "
        f"{ticked(line)} goes by what is there then"
    ]
