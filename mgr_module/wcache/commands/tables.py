"""What answers have in common as text: tables by columns, costs, what was done or would be."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Sequence, Tuple, Union

from ..core.fleet import claims
from ..core.model import load_name
from ..core.text import (
    LISTED_MAX,
    NOTHING,
    at_most,
    command,
    grouped,
    listed,
    named,
    roughly,
    table,
    written,
)

# Drives left out for one reason that are listed one by one.
ALIKE_MAX = 3
BY_95 = "`no material difference` is decided by the 95% interval, which is narrower"
NUMBER, LONG, COMMAND = "number", "long", "command"


class Column(NamedTuple):
    """A heading, and how a row's cell is found: by its key, or by a function of the row.

    `look` is the page's: a number, a long text, what is pasted, or the path of what the cell links
    to.
    """

    head: str
    value: Union[str, int, Callable[[Any], Any]]
    look: str = ""

    def of(self, row: Any) -> Any:
        """The cell of a row."""
        return self.value(row) if callable(self.value) else row[self.value]


def known(
    head: str, value: Union[str, Callable[[Any], Any]], words: Callable[[Any], str]
) -> Column:
    """A column of figures in words, of which some may not be known."""
    def cell_of(row: Any) -> str:
        found = value(row) if callable(value) else row.get(value)
        return "-" if found is None else words(found)

    return Column(head, cell_of, NUMBER)


def listing(columns: Sequence[Column], rows: Iterable[Any]) -> str:
    """Rows of an answer as a table of the terminal."""
    cells = [[column.of(row) for column in columns] for row in rows]
    return table([column.head for column in columns], cells)


def first_rows(heads: Sequence[str], rows: Sequence[Sequence[Any]], more: str) -> List[str]:
    """The first rows as a table, and how many more there are."""
    return [table(heads, rows[:LISTED_MAX]), *listed([""] * len(rows), more)[LISTED_MAX:]]


def forecast(data: Mapping[str, Any]) -> str:
    """`ceph wcache campaign start` and `ab`: what it costs, begun or not."""
    cost = data["forecast"]
    emptied = ", ".join(f"osd.{o}" for o in cost["osds_emptied"]) or "none"
    lines = [
        f"drives:          {cost['drives']}",
        f"experiments:     {cost['experiments']}" + (
            f", {cost['factorials']} of them that toggle block and DB/WAL drive in all four "
            "combinations" if cost["factorials"] else ""
        ),
        f"time:            {at_most(cost['seconds_expected'], cost['seconds'])}",
        f"written at most: {written(cost)}",
        f"caches emptied:  {emptied}",
    ]
    lines += [f"{'':17}{line}" for line in pauses(data)]
    lines += [f"clients:         {data['clients']}"] if data.get("clients") else []
    if data.get("undo_with_no_mgr"):
        lines.append(f"with no mgr:     nothing puts it back; {data['undo_with_no_mgr']}")
    lines += strict(cost["strict_pools"]) + left_out(cost["skipped"])
    anew = command("ceph wcache campaign start --dry-run")
    if data.get("compares"):
        anew = command("ceph wcache ab {} --dry-run", data["compares"])
    lines += claims.again(data["reported"], anew)
    return "\n".join([*lines, "", *said_of(data)])


def pauses(data: Mapping[str, Any]) -> List[str]:
    """For how long knobs have no advice on OSDs whose caches are emptied."""
    return [
        f"{one['knob']} advice for the hosts of "
        f"{named([f'osd.{osd_id}' for osd_id in one['osd_ids']])} pauses meanwhile, and for at "
        f"most {roughly(one['seconds'])} after it"
        for one in data.get("pauses", ())
    ]


def cost_words(cost: Mapping[str, Any]) -> str:
    """How long a forecast says that measuring takes, and what it writes."""
    writes = f"at most {written(cost)} written" if cost["bench_calls"] else "nothing is written"
    return f"{at_most(cost['seconds_expected'], cost['seconds'])}; {writes}"


def strict(pools: Sequence[str]) -> List[str]:
    """What a drive that hangs does to pools whose min_size is their size."""
    return [
        f"pools with min_size = size: {named(pools)}; a drive that hangs stops the writes of those "
        "that have data on it"
    ] if pools else []


def undecided(results: Iterable[Mapping[str, Any]]) -> List[str]:
    """Say of each experiment why it decided nothing, and why it ended."""
    return [
        f"osd.{r['osd_id']} {','.join(r['dev_names'])} {load_name(r['load_point'])}: "
        + "; ".join(text for text in (r["why"], r["ended"]) if text not in ("", "decided"))
        for r in results
    ]


def left_out(skipped: Sequence[str]) -> List[str]:
    """What is not measured; many drives with the same reason are one line."""
    # a host and a domain, then mostly a device's name
    parts = [line.partition(": ") for line in skipped]
    alike = grouped((why.rpartition(": ")[2], of) for of, _, why in parts)
    lines = []
    for line in skipped:
        reason = line.partition(": ")[2].rpartition(": ")[2]
        owners = alike[reason]
        if len(owners) <= ALIKE_MAX or not reason:
            lines.append(f"left out: {line}")
            continue
        hosts = list(dict.fromkeys(of.partition(" ")[0] for of in owners))
        lines.append(f"left out: {len(owners)} drives on {named(hosts)}: {reason}")
    return list(dict.fromkeys(lines))


# What each command says of what it has changed, and the command that undoes that.  Where it depends
# on more, the answer has its own.  There is none of probes' calls and of the page's token.
DONE: Mapping[str, Tuple[str, str]] = {
    "wcache drive accept": ("{hostname} {domain_id} is taken as it is", ""),
    "wcache agent add": ("", ""),
    "wcache agent rm": ("", "ceph wcache agent add {hostname}"),
    "wcache try": ("", "ceph wcache campaign stop {campaign_id}"),
    "wcache campaign start": (
        "campaign {campaign_id} begins", "ceph wcache campaign stop {campaign_id}"),
    "wcache ab": ("campaign {campaign_id} begins", "ceph wcache campaign stop {campaign_id}"),
    "wcache campaign stop": ("campaign {campaign_id} ends, and what it changed is restored", ""),
    "wcache auto": ("auto {mode}, {scope}: {allows}", "ceph wcache auto {before} {scope}"),
    "wcache evidence import": (
        "what cluster {cluster} has found is kept", "ceph wcache evidence rm {cluster}"),
    "wcache evidence rm": ("what cluster {cluster} has found is forgotten", ""),
    "wcache plan": ("", "ceph wcache plan rm {plan_id}"),
    "wcache plan rm": ("plan {plan_id} is forgotten", ""),
    "wcache apply": ("", "ceph wcache rollback {plan_id}"),
    "wcache rollback": ("{plan_id} goes back, its last change first", ""),
    "wcache rollout pause": (
        "{plan_id} pauses: a change under way is made first, and what was changed stays",
        "ceph wcache rollout resume {plan_id}"),
    "wcache rollout resume": ("{plan_id} goes on", "ceph wcache rollout pause {plan_id}"),
    "wcache rollout abort": (
        "{plan_id} ends: what is not judged goes back, what was judged stays", ""),
    "wcache freeze": ("", ""),
    "wcache leave": ("", ""),
    "wcache drive-model trust": ("", ""),
    "wcache memory trial start": (
        "trial {trial_id} begins", "ceph wcache rollout abort {trial_id}"),
}
# What names what was begun: an answer without any of them has begun nothing.
IDS = ("plan_id", "trial_id", "campaign_id")
_HOLE = re.compile(r"\{(\w+)\}")


def done(prefix: str, data: Mapping[str, Any]) -> Dict[str, str]:
    """The sentence and the undo of an answer to a command that has changed something."""
    ids = [data[name] for name in IDS if data.get(name)]
    begun = ids and data.get("state") in (None, "measuring")
    if prefix not in DONE or not (begun or "changed" in data or "hosts" in data):
        return {}
    if data.get("changed") is False:
        is_so = f"{ids[0]} is {data['status']}" if "status" in data else "it is so already"
        return {"text": f"nothing changes: {is_so}", "undo": NOTHING}
    said, undo = DONE[prefix]
    words = (data.get(name, "") for name in _HOLE.findall(undo))
    back = data.get("undo", command(_HOLE.sub("{}", undo), *words))
    return {"text": data["text"] if "text" in data else said.format_map(data), "undo": back}


def would(data: Mapping[str, Any]) -> str:
    """What a command has done, or with --dry-run what it would do."""
    if not data.get("dry_run"):
        return "\n".join(said_of(data))
    lines = [f"would {line}" for line in data["would"]] or ["there is nothing to do"]
    return "\n".join(["dry run: nothing is changed", *lines])


def said_of(data: Mapping[str, Any]) -> List[str]:
    """What was changed, and what to mind about it."""
    lines = [data["text"]] if data.get("text") else []
    lines += [f"given up: {line}" for line in data.get("given_up", ())]
    lines += [f"goes on: {data['goes_on']}"] if data.get("goes_on") else []
    lines += [f"note: {data['note']}"] if "note" in data else []
    if data.get("stored") is False:
        lines.append("the mons have not stored it yet")
    return lines


def model_of(row: Mapping[str, Any]) -> str:
    """A row's drive model in words."""
    return " ".join(part for part in row["drive_model"].values() if part) or "(unnamed)"
