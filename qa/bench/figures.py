"""Numbers from raw latencies and from /proc."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Optional, Sequence

TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Latencies:
    """Percentiles of latencies, in us; p99 is None below 100 samples."""

    n: int
    p50_us: Optional[float]
    p99_us: Optional[float]
    max_us: Optional[float]


def latencies(values: Sequence[float]) -> Latencies:
    """Percentiles by the nearest rank."""
    ranked = sorted(values)
    if not ranked:
        return Latencies(0, None, None, None)
    p99 = ranked[(len(ranked) * 99 - 1) // 100] if len(ranked) >= 100 else None
    return Latencies(len(ranked), ranked[(len(ranked) - 1) // 2], p99, ranked[-1])


def cpu_seconds(pid: int) -> float:
    """Processor time that a process has used, its waited-for children not counted."""
    text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    fields = text.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_S


def memory_bytes(pid: int) -> Dict[str, int]:
    """Resident memory of a process, and its share of what it shares (PSS)."""
    found = {}
    text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        if name in ("Rss", "Pss"):
            found[name.lower()] = int(rest.split()[0]) * 1024
    return found


def children(pid: int) -> Dict[int, str]:
    """Command lines of a process's children, by pid."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            stat = (path / "stat").read_text(encoding="ascii", errors="replace")
            if int(stat.rpartition(")")[2].split()[1]) == pid:
                raw = (path / "cmdline").read_bytes()
                found[int(path.name)] = raw.replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue  # it has ended meanwhile
    return found
