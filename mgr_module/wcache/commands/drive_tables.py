"""`ceph wcache drive ls` as text: each drive, or where they are many their kinds."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Tuple

from ..core.drive.manual import pin_word
from ..core.fleet import ages
from ..core.shell import command
from ..core.text import LISTED_MAX, listed, named, table
from .drives.bcache import bcache_words, dm_cache_words
from .tables import flushed

HOSTS_NAMED = 3
SAFE = "safe"
Row = Mapping[str, Any]


def drives(data: Mapping[str, Any]) -> str:
    """`ceph wcache drive ls`."""
    rows = data["drives"]
    few = len(rows) <= LISTED_MAX or len({row["hostname"] for row in rows}) == 1
    return each(data) if few else _kinds(data)


def each(data: Mapping[str, Any]) -> str:
    """`ceph wcache drive ls --all`."""
    if not data["drives"]:
        return "no probe has reported a drive yet\nnext: ceph wcache agent ls"
    rows = []
    for row in data["drives"]:
        uses = ",".join(sorted(f"osd.{u['osd_id']}/{u['role']}" for u in row["uses"]))
        layers = " ".join(
            f"{layer['name']}={layer['kernel_view']}" for layer in row["state"]["layers"]
        )
        transport, model, *state = _what(row)
        rows.append((
            row["hostname"], row["dev_name"], transport, model, uses, *state[:3], layers,
            *state[3:], _note(row),
        ))
    heads = ("HOST", "DRIVE", "TRANSPORT", "MODEL", "OSDS", "DEVICE CACHE", "KERNEL VIEW",
             "PINNED", "LAYERS", "STATE", "PLP", "NOTE")
    return "\n".join([table(heads, rows), *_below(data)])


def _kinds(data: Mapping[str, Any]) -> str:
    """Drives that look alike in one line: those in a state that is not safe first."""
    kinds: Dict[Tuple[Any, ...], List[Row]] = {}
    for row in data["drives"]:
        views = ",".join(sorted({one["kernel_view"] for one in row["state"]["layers"]}))
        transport, model, *state = _what(row)
        kind = (transport, model, *state[:3], views, *state[3:], _note(row))
        kinds.setdefault(kind, []).append(row)
    found = sorted(kinds.items(), key=lambda one: (one[1][0]["safety"] == SAFE, -len(one[1])))
    rows = [
        (len(alike), named(list(dict.fromkeys(row["hostname"] for row in alike)), HOSTS_NAMED),
         *kind)
        for kind, alike in found
    ]
    heads = ("DRIVES", "HOSTS", "TRANSPORT", "MODEL", "DEVICE CACHE", "KERNEL VIEW", "PINNED",
             "LAYERS", "STATE", "PLP", "NOTE")
    return "\n".join([
        *listed(table(heads, rows).splitlines(), "kinds of drives"), *_below(data),
        "each drive: ceph wcache drive ls --all, or of one host: "
        + command("ceph wcache drive ls host:{}", found[0][1][0]["hostname"]),
    ])


def _what(row: Row) -> Tuple[Any, ...]:
    """Transport and model, then the state of the cache."""
    model, state = row["drive_model"], row["state"]
    return (
        row["transport"],
        " ".join(p for p in (model["vendor"], model["model"], model["firmware"]) if p),
        state["device_cache"], state["kernel_view"],
        pin_word(row["transport"], state["pinned"]), row["safety"], row["plp"],
    )


def _note(row: Row) -> str:
    return "; ".join(filter(None, (
        "experiment" if row["leased"] else row["toggle_refusal"],
        *(bcache_words(one) for one in row.get("bcache", ())),
        *(dm_cache_words(one) for one in row.get("dm_caches", ())),
    )))


def _below(data: Mapping[str, Any]) -> List[str]:
    return [
        *flushed(row["state"] for row in data["drives"]),
        f"reported {ages.words(data['reported'])}",
    ]
