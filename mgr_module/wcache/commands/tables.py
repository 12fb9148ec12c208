"""What answers have in common as text: tables by columns, costs, what is left out or would be."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Sequence, Union

from ..core.fleet import claims
from ..core.text import at_most, cell, command, named, table, written

# Drives left out for one reason that are listed one by one.
ALIKE_MAX = 3
BY_95 = "`no material difference` is decided by the 95% interval, which is narrower"
NUMBER, LONG = "number", "long"


class Column(NamedTuple):
    """A heading, and how a row's cell is found: by its key, or by a function of the row.

    `look` is the page's: a number, a long text, or the path of what the cell links to.
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
    lines += [f"clients:         {data['clients']}"] if data.get("clients") else []
    if data.get("undo_with_no_mgr"):
        lines.append(f"with no mgr:     nothing puts it back; {data['undo_with_no_mgr']}")
    lines += strict(cost["strict_pools"]) + left_out(cost["skipped"])
    lines += claims.again(data["reported"], command("ceph wcache campaign start --dry-run"))
    if "campaign_id" in data:
        lines += ["", f"campaign {data['campaign_id']} started",
                  "next: " + command("ceph wcache campaign show {}", data["campaign_id"])]
    else:
        lines += ["", f"next: {data['next']}"]
    return "\n".join(lines)


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


def left_out(skipped: Sequence[str]) -> List[str]:
    """What is not measured; many drives with the same reason are one line."""
    alike: Dict[str, List[str]] = {}
    for line in skipped:
        of, _, reason = line.partition(": ")  # a host and a domain, then mostly a device's name
        alike.setdefault(reason.rpartition(": ")[2], []).append(of)
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


def would(data: Mapping[str, Any]) -> str:
    """What a command has done, or with --dry-run what it would do."""
    if not data.get("dry_run"):
        return lines_of(data)
    lines = [f"would {line}" for line in data["would"]] or ["there is nothing to do"]
    lines += [f"next: {data['next']}"] if data["would"] else []
    return "\n".join(["dry run: nothing is changed", *lines])


def lines_of(data: Mapping[str, Any]) -> str:
    """Small answers: one `key: value` line each."""
    return "\n".join(f"{key}: {cell(value)}" for key, value in data.items())


def model_of(row: Mapping[str, Any]) -> str:
    """A row's drive model in words."""
    return " ".join(part for part in row["drive_model"].values() if part) or "(unnamed)"
