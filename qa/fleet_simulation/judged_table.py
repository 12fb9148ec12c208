"""What the rollouts of a seed do, what they come to, and what was promised and does not hold."""

from __future__ import annotations

from collections import Counter
from typing import List, Tuple

from wcache.options import Options

from .judged import HOST_DRIVES, Judged, Kind

HARMLESS = (Kind.GOOD, Kind.SAME)


def kinds(seed: int) -> Tuple[Kind, Kind]:
    """What the two rollouts of a seed do: one does no harm, one does."""
    return (
        Kind.SAME if seed % 2 else Kind.GOOD,
        Kind.WORSE if seed // 2 % 2 else Kind.SOME_WORSE,
    )


def table(found: List[Judged]) -> Tuple[List[str], List[str]]:
    """The lines of the table of results, and what was promised and does not hold."""
    lines, broken = [
        "  OSDs  the change is       seeds  all changed in   of it held  stopped  found"
        "  bad drives then   harm at most"
    ], []
    groups = {(item.osds, item.kind) for item in found}
    for osds, kind in sorted(groups, key=lambda group: (group[0], group[1].value)):
        mine = [item for item in found if (item.osds, item.kind) == (osds, kind)]
        done = [item.hours for item in mine if item.ended == "done"]
        held = max((item.held_hours for item in mine if item.ended == "done"), default=0.0)
        ends = Counter(item.ended for item in mine)
        harm_s = max(item.harm_s for item in mine)
        some = kind not in HARMLESS
        took = f"{min(done):.1f} to {max(done):.1f} h" if done else "-"
        bad = max((item.bad for item in mine), default=0)
        waited, drives = f"to {held:.1f} h", f"at most {bad}" if some else "-"
        lines.append(
            f"{osds:6}  {kind.value:18}  {len(mine):5}  {took:15}  {waited:10}  "
            f"{ends['stopped']:7}  {ends['worse']:5}  {drives:15}  {harm_s:8.1f} s"
        )
        limit_s, name = Options().rollout_harm_max_s, f"{osds} OSDs, {kind.value}"
        if harm_s > limit_s:
            broken.append(f"{name}: {harm_s:.0f} s of harm, {limit_s:.0f} allowed")
        if done and max(done) > 24.0:
            broken.append(f"{name}: {max(done):.1f} h")
        if some:
            # hosts that have it come one after the other, and a host is one step
            bad_max = max(HOST_DRIVES, 0.02 * osds)
            late = sum(item.ended == "done" or item.bad > bad_max for item in mine)
            if late > 0.01 * len(mine):
                broken.append(f"{name}: {late} found late or never")
        elif ends["worse"] > 0.01 * len(mine):
            broken.append(f"{name}: {ends['worse']} called worse")
    for osds in sorted({item.osds for item in found}):
        # what does no harm is promised together: of 150 without effect two are already 1.3%
        well = [item for item in found if item.osds == osds and item.kind in HARMLESS]
        stopped = sum(item.ended != "done" for item in well)
        if stopped > 0.01 * len(well):
            broken.append(f"{osds} OSDs, no harm: {stopped} of {len(well)} were stopped")
    return lines, broken
