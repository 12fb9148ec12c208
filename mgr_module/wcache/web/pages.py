"""The pages: each a function from what the commands answer to a template with its values."""

from __future__ import annotations

import errno
import json
import math
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Protocol, Sequence, Tuple

from ..commands.campaigns import CAMPAIGNS, RESULTS, RUNS, VALUES, runs_of
from ..commands.drives import DRIVES
from ..commands.plans import CHANGES, SETTINGS, config_changes
from ..commands.recommend import RECOMMENDATIONS, by_weight
from ..commands.rollouts import PLANS, WAVES, wave_rows
from ..commands.status import MODELS
from ..commands.tables import COMMAND, LONG, NUMBER, Column
from ..commands.views import EVENTS
from ..core import versions
from ..core.change.gate.judge import LOOKS
from ..core.figures import geometry
from ..core.fleet import claims
from ..core.history import Kind
from ..core.loads import level_ns
from ..core.model import load_name
from ..core.options.entries import arms_of
from ..core.record import Record
from ..core.scope import WHOLE
from ..core.text import command, grouped, many, relative, when
from ..core.text import latency as latency_text
from ..engine.gate.kept_blocks import KeptBlock
from ..knobs.registry import KNOBS
from . import plots

# The commands that a page may ask; each needs no right but to read.
READS = (
    "wcache agent ls", "wcache auto status", "wcache campaign ls", "wcache campaign record",
    "wcache campaign show", "wcache drive ls", "wcache explain", "wcache history",
    "wcache memory recommend", "wcache memory status", "wcache plan ls", "wcache plan show",
    "wcache recommend", "wcache rollout show", "wcache status",
)
Answer = Tuple[int, str, str]
Row = Mapping[str, Any]


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
ROWS_MAX = 300  # of one table
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


EXPERIMENT = Column(
    "EXPERIMENT", lambda row: row.get("measured_in") or row["record_id"], "/experiments/"
)
RECOMMENDED = (
    *(column for column in RECOMMENDATIONS if column.head != "CACHE OFF"),
    Column("CACHE OFF", lambda row: "; ".join(
        f"{load_name(load['load_point'])} on {many(load['drives'], 'drive')}{relative(load)}"
        for load in row["loads"]
    ), LONG),
    Column("WHY", "why", LONG),
    Column("EXPERIMENTS", lambda row: row["record_ids"][:4], "/experiments/"),
)
FINDINGS = (
    Column("SEVERITY", "severity"), Column("CODE", "code"), Column("WHERE", "subject"),
    Column("WHAT", "detail", LONG),
)


def overview(read: Reader, _query: Query) -> Page:
    """What was found, what is recommended of each drive model, what is wrong."""
    rows = sorted(read("recommend")["recommendations"], key=by_weight)
    status = read("status")
    advice = dict.fromkeys((row["code"], row["advice"]) for row in status["findings"][:ROWS_MAX])
    return Page("overview.html.j2", "Overview", {
        "status": status, "reported": claims.words(status["reported"]), "rows": rows,
        "plot": plots.drive_models(rows, status["drive_models"]), "auto": read("auto status"),
        "recommended": RECOMMENDED, "findings": FINDINGS, "advice": advice, "models": MODELS,
    })


def _listing(
    title: str, columns: Sequence[Column], rows: Sequence[Row], empty: str, rest: str, *,
    more: int = 0, choice: Sequence[Any] = (),
) -> Page:
    """A page of one table; `rest` is the command that has the rows that are cut off.

    `choice`: path, label and name of what may be chosen, the choices, and the one that was made.
    """
    return Page("listing.html.j2", title, {
        "columns": columns, "rows": rows, "empty": empty, "rest": rest, "more": more,
        "choice": choice,
    })


def drives(read: Reader, query: Query) -> Page:
    """The drives, of one host where they are many."""
    hosts = [row for row in read("agent ls")["agents"] if row["drives"]]
    chosen = query.get("host", "")
    if not chosen and sum(row["drives"] for row in hosts) > DRIVES_AT_ONCE:
        chosen = hosts[0]["hostname"]
    found = read("drive ls", scope=f"host:{chosen}" if chosen else None)["drives"]
    names = [(row["hostname"], f"{row['hostname']} ({row['drives']})") for row in hosts[:ROWS_MAX]]
    rest = command("ceph wcache drive ls {} --all", f"host:{chosen}" if chosen else WHOLE)
    return _listing(
        "Drives", DRIVES, found, "No probe has reported a drive.", rest,
        choice=("drives", "Host", "host", [("", "all, while they are few"), *names], chosen)
        if len(hosts) > 1 else (),
    )


def campaigns(read: Reader, _query: Query) -> Page:
    """The campaigns, newest first."""
    toggles = Column("TOGGLES", lambda row: "nothing" if row["observes"] else "caches")
    return _listing(
        "Experiments", (*CAMPAIGNS, toggles), read("campaign ls")["campaigns"][::-1],
        "Nothing was measured yet: `ceph wcache try`.", "ceph wcache campaign ls",
    )


WHY = Column("WHY", lambda row: "; ".join(filter(None, [row["why"], *row["warnings"]])), LONG)
HOST = Column("HOST", "hostname")


def campaign(read: Reader, query: Query) -> Page:
    """One campaign: its runs and their results."""
    found = read("campaign show", campaign_id=query["id"])
    return Page("campaign.html.j2", f"Campaign {found['campaign_id']}", {
        "campaign": found, "runs": runs_of(found),
        "values": (EXPERIMENT, HOST, *VALUES, WHY),
        "results": (EXPERIMENT, HOST, *RESULTS, Column("DRIVE ID", "drive_id"), WHY),
        "run_columns": (*RUNS, Column(
            "PERIODS", lambda row: f"{row['periods_done']} of {row['periods_max']}", NUMBER)),
    })


LOOKS_SHOWN = (
    Column("PAIRS", lambda look: look.pairs, NUMBER),
    Column("CHANGE", lambda look: plots.percent(look.times), NUMBER),
    Column("99% FROM", lambda look: plots.percent(look.low), NUMBER),
    Column("TO", lambda look: plots.percent(look.high), NUMBER),
)


def experiment(read: Reader, query: Query) -> Page:
    """One experiment: its pairs, their distributions, and the interval closing in."""
    plain = read("campaign record", record_id=query["id"])
    record = versions.take(Record, plain, "the record")
    try:
        shown = read("campaign show", campaign_id=record.campaign_id)
    except CannotReadError:  # of a campaign that is forgotten
        shown = {"results": []}
    arms = arms_of(record.setup.option)
    return Page("experiment.html.j2", f"Experiment {record.record_id}", {
        "record": record, "setup": record.setup,
        "results": [row for row in shown["results"] if row["record_id"] == record.record_id],
        "compared": [
            row for row in shown.get("option_results", ())
            if row["record_id"] == record.record_id
        ],
        "pair_columns": (
            Column("PAIR", lambda pair: pair.index + 1, NUMBER),
            Column("FIRST", lambda pair: arms.name(pair.first)),
            Column(arms.a, lambda pair: latency_text(level_ns(pair.a) / 1e3), NUMBER),
            Column(arms.b, lambda pair: latency_text(level_ns(pair.b) / 1e3), NUMBER),
            Column("CHANGE", lambda pair: plots.percent(math.exp(plots.difference(pair))), NUMBER),
        ),
        "pairs": record.pairs, "looks": plots.looks(record), "look_columns": LOOKS_SHOWN,
        "plots": [
            item for item in (
                plots.closing(record), geometry.distribution(record), plots.levels(record),
                *geometry.bcache(record),
            ) if item.lines
        ],
    })


def latency(read: Reader, query: Query) -> Page:
    """Commit latency over time, with the changes that were made meanwhile."""
    changes = _changes(read)
    blocks = read.latencies.since(0.0)
    by_osd = grouped(
        (osd.osd_id, (item.at_s, osd.latency_us))
        for item in blocks for osd in item.block.osds if osd.latency_us > 0
    )
    touched = {osd_id for row in changes for osd_id in row["osd_ids"]}
    order = sorted(by_osd, key=lambda osd_id: (osd_id not in touched, osd_id))
    wanted = [osd_id for osd_id in order if f"osd.{osd_id}" == query.get("osd")]
    drawn = (wanted or order)[:OSDS_DRAWN]
    series = [
        geometry.Series(f"osd.{osd_id}", f"line-{place}", tuple(by_osd[osd_id]))
        for place, osd_id in enumerate(sorted(drawn), 1)
    ]
    marks = [row for row in changes if not row["osd_ids"] or set(row["osd_ids"]) & set(drawn)]
    return Page("latency.html.j2", "Commit latency", {
        **_drawn("Commit latency", series, marks, _changed_at_s(blocks)),
        "choice": ("latency", "OSD", "osd", [("", "those that were changed"), *(
            (f"osd.{osd_id}", f"osd.{osd_id}") for osd_id in order[:ROWS_MAX]
        )], query.get("osd", "")),
        "left_out": len(order) - len(drawn), "blocks": len(blocks),
    })


def memory(read: Reader, _query: Query) -> Page:
    """Hosts' memory, each OSD's target, and what the caches gain from it."""
    return Page("memory.html.j2", "Memory", {
        "memory": read("memory status"), "groups": read("memory recommend")["groups"][:ROWS_MAX],
        **next(
            row.tables for knob in KNOBS for row in knob.room.ROWS
            if row.prefix == "wcache memory status"
        ),
    })


def rollouts(read: Reader, _query: Query) -> Page:
    """The plans that were begun, newest first."""
    more = (
        Column("BEGUN", lambda row: row["began_at_s"] and when(row["began_at_s"]), NUMBER),
        Column("DONE", lambda row: f"{100 * row['fraction']:.0f}%", NUMBER),
        Column("UNDO", "undone_by", COMMAND),
    )
    begun = [row for row in read("plan ls")["plans"] if row["status"] != "planned"]
    return _listing(
        "Rollouts", (*PLANS, *more), begun[::-1],
        "No plan was begun: `ceph wcache plan`.", "ceph wcache plan ls",
    )


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
        series.append(geometry.Series(name, look, tuple(points)))
    marks = [row for row in _changes(read) if set(row["osd_ids"]) & treated]
    drawn = _drawn(
        "Commit latency of changed OSDs, and of those unchanged at the same time", series, marks,
        changed_at_s,
    )
    return Page("rollout.html.j2", f"Rollout {shown['plan_id']}", {
        **drawn, "rollout": shown, "waves": wave_rows(shown["waves"]), "wave_columns": WAVES,
        "changes": [row for row in plan["changes"] if row.get("kind") != "config"],
        "change_columns": CHANGES, "setting_columns": SETTINGS,
        "settings": config_changes([r for r in plan["changes"] if r.get("kind") == "config"]),
    })


def history(read: Reader, query: Query) -> Page:
    """Who or what changed something, newest first."""
    chosen = query.get("what", "")
    found = read("history", limit=HISTORY_LINES, what=chosen or None)
    kinds = [(kind.value, f"{kind.value}s") for kind in Kind]
    why = Column("WHY", lambda row: row["outcome"] and row["evidence"], LONG)
    return _listing(
        "History", (*EVENTS, why), found["history"][::-1], "Nothing has happened yet.",
        "ceph wcache history --limit=1000", more=found["left_out"],
        choice=("history", "What", "what", [("", "everything"), *kinds], chosen),
    )


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
    title: str, series: Sequence[geometry.Series], changes: Sequence[Dict[str, Any]],
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
    return {"plot": geometry.over_time(title, series, marks), "marked": inside}


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
