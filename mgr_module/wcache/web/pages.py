"""The pages: each a function of what the commands answer, to a template and its values."""

from __future__ import annotations

import errno
import json
import math
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Protocol, Sequence, Tuple

from ..core import versions
from ..core.change.gate.judge import LOOKS
from ..core.figures import lines
from ..core.loads import level_ns
from ..core.model import CacheMode
from ..core.options.trial import arms_of
from ..core.record import Record
from ..engine.gate.kept_blocks import KeptBlock
from ..web import plots

# The commands that a page may ask; each needs no right but to read.
READS = (
    "wcache agent ls", "wcache auto status", "wcache campaign ls", "wcache campaign record",
    "wcache campaign show", "wcache drive ls", "wcache explain", "wcache history",
    "wcache memory recommend", "wcache memory status", "wcache plan ls", "wcache plan show",
    "wcache recommend", "wcache rollout ls", "wcache rollout show", "wcache status",
)
Answer = Tuple[int, str, str]


class Latencies(Protocol):
    """Port: the blocks of commit latency that were measured lately."""

    def since(self, at_s: float) -> List[KeptBlock]:
        """The blocks that ended from a moment on, oldest first."""


class CannotReadError(Exception):
    """A command refused; its text is the one line for the reader."""

    def __init__(self, text: str, *, missing: bool) -> None:
        super().__init__(text)
        self.missing = missing  # there is nothing of that name


class Reader:
    """Asks commands for their answers; `answer` is the module's own."""

    def __init__(
        self, answer: Callable[[Dict[str, Any]], Answer], latencies: Latencies
    ) -> None:
        self._answer = answer
        self.latencies = latencies

    def __call__(self, words: str, **arguments: Any) -> Dict[str, Any]:
        """What `ceph wcache <words>` answers.  Raises CannotReadError where it refuses."""
        prefix = f"wcache {words}"
        if prefix not in READS:
            raise ValueError(f"{prefix} is no command of the page")
        given = {name: value for name, value in arguments.items() if value is not None}
        code, out, said = self._answer({"prefix": prefix, "format": "json", **given})
        if code:
            raise CannotReadError(said, missing=code == -errno.ENOENT)
        found: Dict[str, Any] = json.loads(out)
        return found


DRIVES_AT_ONCE = 300
ROWS_MAX = 300
CAMPAIGNS_MAX = 50
OSDS_DRAWN = 6
MARKS_MAX = 20
HISTORY_LINES = 200
# Beside the drawn OSDs of a rollout: before its first change, in seconds.
BEFORE_S = 900.0
Query = Mapping[str, str]
# What a query may ask for; the rest of an address makes no other page.
ASKED = ("host", "osd", "what")


@dataclass(frozen=True)
class Page:
    """A template and what it shows."""

    template: str
    title: str
    values: Dict[str, Any] = field(default_factory=dict)


def overview(read: Reader, _query: Query) -> Page:
    """What was found, what is recommended by device class, what is wrong."""
    by_class: Dict[str, List[Dict[str, Any]]] = {}
    for row in read("recommend")["recommendations"]:
        by_class.setdefault(row["device_class"], []).append(row)
    return Page("overview.html.j2", "Overview", {
        "status": read("status"), "classes": sorted(by_class.items()),
        "auto": read("auto status"), "rows_max": ROWS_MAX,
    })


def drives(read: Reader, query: Query) -> Page:
    """The drives, of one host where they are many."""
    hosts = [row for row in read("agent ls")["agents"] if row["drives"]]
    chosen = query.get("host", "")
    if not chosen and sum(row["drives"] for row in hosts) > DRIVES_AT_ONCE:
        chosen = hosts[0]["hostname"]
    found = read("drive ls", scope=f"host:{chosen}" if chosen else None)
    return Page("drives.html.j2", "Drives", {
        "hosts": hosts[:ROWS_MAX], "hosts_more": max(0, len(hosts) - ROWS_MAX), "chosen": chosen,
        "drives": found["drives"][:DRIVES_AT_ONCE],
        "more": max(0, len(found["drives"]) - DRIVES_AT_ONCE),
    })


def campaigns(read: Reader, _query: Query) -> Page:
    """The campaigns, newest first."""
    rows = list(reversed(read("campaign ls")["campaigns"]))
    return Page("campaigns.html.j2", "Experiments", {
        "campaigns": rows[:CAMPAIGNS_MAX], "more": max(0, len(rows) - CAMPAIGNS_MAX),
    })


def campaign(read: Reader, query: Query) -> Page:
    """One campaign: its runs and their results."""
    found = read("campaign show", campaign_id=query["id"])
    return Page("campaign.html.j2", f"Campaign {found['campaign_id']}", {
        "campaign": found, "rows_max": ROWS_MAX,
    })


def experiment(read: Reader, query: Query) -> Page:
    """One experiment: its pairs, their distributions, and the interval closing in."""
    plain = read("campaign record", record_id=query["id"])
    record = versions.take(Record, plain, "the record")
    try:
        shown = read("campaign show", campaign_id=record.campaign_id)
    except CannotReadError:  # of a campaign that is forgotten
        shown = {"results": []}
    trial = record.setup.option
    arms = arms_of(trial)
    seen = plots.looks(record)
    rows = [
        {
            "index": pair.index + 1, "first": arms.name(pair.first),
            "write_back_us": level_ns(pair.write_back) / 1e3,
            "write_through_us": level_ns(pair.write_through) / 1e3,
            "ratio": math.exp(plots.difference(pair)),
        }
        for pair in record.pairs[:ROWS_MAX]
    ]
    setup = record.setup
    return Page("experiment.html.j2", f"Experiment {record.record_id}", {
        "record": {
            "record_id": record.record_id, "campaign_id": record.campaign_id,
            "osd_id": setup.osd_id, "hostname": setup.hostname, "role": setup.role.value,
            "load_point": setup.load_point.value, "drive_model": str(setup.drive_model),
            "drive_id": setup.drive_id, "ended": record.ended, "seconds": record.seconds,
            "bytes_written": record.bytes_written, "started_at_s": record.started_at_s,
            "simulated": setup.simulated,
        },
        "results": [row for row in shown["results"] if row["record_id"] == record.record_id],
        "compared": [
            row for row in shown.get("option_results", ())
            if row["record_id"] == record.record_id
        ],
        "modes": [
            mode.value.capitalize() if trial is None else arms.name(mode) for mode in CacheMode
        ],
        "pairs": rows, "looks": seen,
        "plots": [
            item for item in (
                plots.closing(record), plots.distribution(record), plots.levels(record),
                *lines.bcache(record),
            ) if item.lines
        ],
    })


def latency(read: Reader, query: Query) -> Page:
    """Commit latency over time, with the changes that were made meanwhile."""
    changes = _changes(read)
    blocks = read.latencies.since(0.0)
    by_osd: Dict[int, List[lines.Point]] = {}
    for item in blocks:
        for osd in item.block.osds:
            if osd.latency_us > 0:
                by_osd.setdefault(osd.osd_id, []).append((item.at_s, osd.latency_us))
    touched = {osd_id for row in changes for osd_id in row["osd_ids"]}
    order = sorted(by_osd, key=lambda osd_id: (osd_id not in touched, osd_id))
    wanted = [osd_id for osd_id in order if f"osd.{osd_id}" == query.get("osd")]
    drawn = (wanted or order)[:OSDS_DRAWN]
    series = [
        lines.Series(f"osd.{osd_id}", f"line-{place}", tuple(by_osd[osd_id]))
        for place, osd_id in enumerate(sorted(drawn), 1)
    ]
    marks = [row for row in changes if not row["osd_ids"] or set(row["osd_ids"]) & set(drawn)]
    return Page("latency.html.j2", "Commit latency", {
        **_drawn("Commit latency", series, marks, _changed_at_s(blocks)),
        "osds": order[:ROWS_MAX], "chosen": query.get("osd", ""),
        "left_out": len(order) - len(drawn), "blocks": len(blocks),
    })


def memory(read: Reader, _query: Query) -> Page:
    """Hosts' memory, each OSD's target, and what the caches gain from it."""
    found = read("memory status")
    return Page("memory.html.j2", "Memory", {
        "memory": found, "groups": read("memory recommend")["groups"][:ROWS_MAX],
        "rows_max": ROWS_MAX,
    })


def rollouts(read: Reader, _query: Query) -> Page:
    """The plans that were begun, newest first."""
    rows = list(reversed(read("rollout ls")["rollouts"]))
    return Page("rollouts.html.j2", "Rollouts", {
        "rollouts": rows[:CAMPAIGNS_MAX], "more": max(0, len(rows) - CAMPAIGNS_MAX),
    })


def rollout(read: Reader, query: Query) -> Page:
    """One rollout: its waves, its changes, and the changed OSDs beside unchanged ones."""
    shown = read("rollout show", plan_id=query["id"])
    plan = read("plan show", plan_id=query["id"])
    treated = {osd_id for row in plan["changes"] for osd_id in _osds_of(row)}
    blocks = read.latencies.since(shown["began_at_s"] - BEFORE_S) if shown["began_at_s"] else []
    ended_at_s = plan["ended_at_s"] or math.inf
    kept = [item for item in blocks if item.at_s <= ended_at_s + BEFORE_S]
    changed_at_s = _changed_at_s(kept)
    series = []
    for name, look, changed in (
        ("OSDs changed by then", "through", True), ("OSDs unchanged by then", "back", False)
    ):
        points = [
            (at, math.exp(math.fsum(logs) / len(logs)))
            for at, logs in (
                (item.at_s, [
                    level for osd_id, level in item.block.logs.items()
                    if (changed_at_s.get(osd_id, math.inf) <= item.at_s) is changed
                ]) for item in kept
            ) if logs
        ]
        series.append(lines.Series(name, look, tuple(points)))
    marks = [row for row in _changes(read) if set(row["osd_ids"]) & treated]
    drawn = _drawn(
        "Commit latency of changed OSDs, and of those unchanged at the same time", series, marks,
        changed_at_s,
    )
    return Page("rollout.html.j2", f"Rollout {shown['plan_id']}", {
        **drawn,
        "rollout": shown, "changes": plan["changes"][:ROWS_MAX],
        "more": max(0, len(plan["changes"]) - ROWS_MAX), "rows_max": ROWS_MAX,
    })


def history(read: Reader, query: Query) -> Page:
    """Who or what changed something, newest first."""
    found = read("history", limit=HISTORY_LINES, what=query.get("what") or None)
    return Page("history.html.j2", "History", {
        "history": list(reversed(found["history"])), "left_out": found["left_out"],
        "what": query.get("what", ""),
    })


def _changes(read: Reader) -> List[Dict[str, Any]]:
    """What was changed, the newest last: the marks of a plot over time."""
    return list(read("history", limit=HISTORY_LINES, what="change")["history"])


def _changed_at_s(blocks: Sequence[KeptBlock]) -> Dict[int, float]:
    """By OSD, when the gate began to watch it with its change made; of others nothing is said.

    A gate takes BLOCKS_BEFORE blocks before a step, and up to LOOKS[-1] after it.
    """
    found: Dict[int, float] = {}
    for item in blocks:
        if item.request.blocks == LOOKS[-1]:
            for osd_id in item.request.treated:
                found.setdefault(osd_id, item.watch_at_s)
    return found


def _osds_of(change: Mapping[str, Any]) -> Sequence[int]:
    """Those that a change of drives names, or the one that a change of values is measured on."""
    found: Sequence[int] = change.get("osd_ids", (change["osd_id"],))
    return found


def _drawn(
    title: str, series: Sequence[lines.Series], changes: Sequence[Dict[str, Any]],
    changed_at_s: Mapping[int, float],
) -> Dict[str, Any]:
    """A plot over time, and the changes that are marked on it by number.

    The history has a change when it came to its end; the mark is where it was made.
    """
    moments = [at for item in series for at, _ in item.points]
    made = [
        {**row, "at_s": min(
            (changed_at_s[o] for o in row["osd_ids"] if changed_at_s.get(o, math.inf)
             <= row["at_s"]), default=row["at_s"],
        )} for row in changes
    ]
    inside = [
        row for row in made if moments and min(moments) <= row["at_s"] <= max(moments)
    ][-MARKS_MAX:]
    marks = [(row["at_s"], float(number)) for number, row in enumerate(inside, 1)]
    return {"plot": lines.over_time(title, series, marks), "marked": inside}


Maker = Callable[[Reader, Query], Page]
# What the first part of a path shows by itself, and with a name after it.
ROUTES: Dict[str, Tuple[Maker, ...]] = {
    "": (overview,), "drives": (drives,), "campaigns": (campaigns, campaign),
    "experiments": (campaigns, experiment), "latency": (latency,), "memory": (memory,),
    "rollouts": (rollouts, rollout), "history": (history,),
}
NAVIGATION = (
    ("", "Overview"), ("drives", "Drives"), ("campaigns", "Experiments"),
    ("latency", "Latency"), ("rollouts", "Rollouts"), ("memory", "Memory"),
    ("history", "History"),
)


def made(read: Reader, path: str, query: Query) -> Page:
    """The page at a path.  Raises CannotReadError where there is none."""
    parts = [part for part in path.split("/") if part]
    makers = ROUTES.get(parts[0] if parts else "", ())
    after = parts[1:]
    if len(after) >= len(makers) or (len(makers) == 1 and after):
        raise CannotReadError("there is no such page", missing=True)
    return makers[len(after)](read, {**query, "id": after[0]} if after else query)
