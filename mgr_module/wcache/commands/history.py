"""`ceph wcache history`: who or what changed something, and what came of it."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Optional, Sequence

from ..core import codec
from ..core.errors import MalformedError
from ..core.history.changes import standing
from ..core.history.entry import NOTHING, HistoryEntry
from ..core.history.filters import LINES_MAX, Filter, kept, parse_since
from ..core.output_format import FORMAT_VERSION
from ..core.text import many, table, when
from ..engine.world import World

# `host` is an option of the `ceph` tool itself.
ARGUMENTS = (
    "name=limit,type=CephInt,req=false",
    "name=hostname,type=CephString,req=false",
    "name=osd,type=CephString,req=false",
    "name=drive,type=CephString,req=false",
    "name=since,type=CephString,req=false",
    "name=what,type=CephString,req=false",
)
LINES = 50


class HistoryViews:
    """The audit log with what stands."""

    def __init__(
        self, look: Callable[[], World], entries: Callable[[], Sequence[HistoryEntry]]
    ) -> None:
        self._look = look
        self._entries = entries

    def lines(
        self, limit: Optional[int] = None, hostname: Optional[str] = None,
        osd: Optional[str] = None, drive: Optional[str] = None, since: Optional[str] = None,
        what: Optional[str] = None,
    ) -> Dict[str, Any]:
        """`history`: the lines that are wanted, oldest first.

        What is still applied is among them, however long ago it was changed.
        """
        world, count = self._look(), LINES if limit is None else limit
        if not 1 <= count <= LINES_MAX:
            raise MalformedError(f"limit must be a whole number from 1 to {LINES_MAX}")
        wanted = Filter(
            hostname, None if osd is None else _osd_id(osd), drive,
            None if since is None else parse_since(since, world.now_s), what,
        )
        entries = self._entries()
        osds = {
            (report.hostname, item.domain_id): tuple(sorted({u.osd_id for u in item.uses}))
            for report in world.reports.values() for item in report.drives
        }
        found, left_out = kept([*entries, *standing(world.plans, entries, osds)], wanted, count)
        return {
            "format_version": FORMAT_VERSION, "history": [_row(entry) for entry in found],
            "left_out": left_out,
        }


def _row(entry: HistoryEntry) -> Dict[str, Any]:
    return {
        "at_s": entry.at_s, "who": entry.who, "what": entry.what, "text": entry.text,
        "kind": entry.kind.value, **codec.to_plain(entry.about or NOTHING),
    }


def _osd_id(text: str) -> int:
    number = text[4:] if text.startswith("osd.") else text
    if not number.isdecimal() or len(number) > 9:
        raise MalformedError(f"osd {text[:20]!r} is no OSD", "use --osd=12 or --osd=osd.12")
    return int(number)


def text(data: Mapping[str, Any]) -> str:
    """`ceph wcache history`, as a table; the evidence of each change below its line."""
    if not data["history"]:
        return "nothing in the history matches"
    rows = [(when(h["at_s"]), h["who"], h["what"], h["text"]) for h in data["history"]]
    lines = table(("TIME (UTC)", "WHO", "WHAT", "EVENT"), rows).split("\n")
    shown = [lines[0]]
    for line, row in zip(lines[1:], data["history"]):
        shown.append(line)
        if row["outcome"] and row["evidence"]:
            shown.append(f"    why: {row['evidence']}")
    if data["left_out"]:
        more, limit = many(data["left_out"], "earlier line"), len(rows) + data["left_out"]
        shown.append(f"and {more}: see them with --limit={min(LINES_MAX, limit)}")
    return "\n".join(shown)
