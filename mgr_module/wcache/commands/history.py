"""`ceph wcache history`: who or what changed something, and what came of it."""

from __future__ import annotations

from typing import AbstractSet, Any, Dict, Mapping, Optional, Sequence

from ..core import codec
from ..core.change.history import standing
from ..core.errors import MalformedError
from ..core.history import LINES_MAX, NOTHING, Filter, HistoryEntry, kept, parse_since
from ..core.scope import Scope, parse_scope
from ..core.text import many, when
from ..engine.world import World
from .tables import LONG, NUMBER, Column, listing

ARGUMENTS = (
    "name=limit,type=CephInt,req=false",
    "name=scope,type=CephString,req=false",
    "name=drive,type=CephString,req=false",
    "name=since,type=CephString,req=false",
    "name=what,type=CephString,req=false",
)
LINES = 50


def history(
    world: World, entries: Sequence[HistoryEntry], limit: Optional[int] = None,
    scope: Optional[str] = None, drive: Optional[str] = None, since: Optional[str] = None,
    what: Optional[str] = None,
) -> Dict[str, Any]:
    """`history`: the lines that are wanted, oldest first.

    What is still applied is among them, however long ago it was changed.
    """
    count = LINES if limit is None else limit
    if not 1 <= count <= LINES_MAX:
        raise MalformedError(f"limit must be a whole number from 1 to {LINES_MAX}")
    within = parse_scope(scope)
    wanted = Filter(
        within.hostname, _osds(world, within), drive,
        None if since is None else parse_since(since, world.now_s), what,
    )
    osds = {
        (report.hostname, item.domain_id): tuple(sorted({u.osd_id for u in item.uses}))
        for report in world.reports.values() for item in report.drives
    }
    found, left_out = kept([*entries, *standing(world.plans, entries, osds)], wanted, count)
    return {"history": [_row(entry) for entry in found], "left_out": left_out}


def _row(entry: HistoryEntry) -> Dict[str, Any]:
    return {
        "at_s": entry.at_s, "who": entry.who, "what": entry.what, "text": entry.text,
        "kind": entry.kind.value, **codec.to_plain(entry.about or NOTHING),
    }


def _osds(world: World, scope: Scope) -> Optional[AbstractSet[int]]:
    """The OSDs that a line must be about, None for any; one that is gone can be named."""
    if scope.device_class or scope.drive_model:
        return scope.osds(world.reports.values(), world.cluster)
    return None if scope.osd_id is None else {scope.osd_id}


EVENTS = (
    Column("TIME (UTC)", lambda h: when(h["at_s"]), NUMBER), Column("WHO", "who"),
    Column("WHAT", "what"), Column("EVENT", "text", LONG),
)


def text(data: Mapping[str, Any]) -> str:
    """`ceph wcache history`, as a table; the evidence of each change below its line."""
    if not data["history"]:
        return "nothing in the history matches"
    lines = listing(EVENTS, data["history"]).split("\n")
    shown = [lines[0]]
    for line, row in zip(lines[1:], data["history"]):
        shown.append(line)
        if row["outcome"] and row["evidence"]:
            shown.append(f"    why: {row['evidence']}")
    if data["left_out"]:
        more, limit = many(data["left_out"], "earlier line"), len(lines) - 1 + data["left_out"]
        shown.append(f"and {more}: see them with --limit={min(LINES_MAX, limit)}")
    return "\n".join(shown)
