"""`doc/reference.md`, made of the code: commands, programs, options, Ceph's health.

`GOLDEN=write make check` writes it anew; a test holds that it is what the code says.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import asdict
from typing import Iterator, List, Sequence

import manual
from wcache.ceph.health import CHECKS, FLAGS, PG_STATES, Reach, Row
from wcache.commands.commands import COMMANDS
from wcache.options import CHOICES, DESCRIPTIONS, Options

COLUMNS = 98
HEAD = """# Reference

Made of the code by `qa/reference.py`. `man ceph-wcache` and `ceph wcache -h` have the same words;
[wcache paged me](paged.md) has the health checks.
"""


def reference() -> str:
    """The page."""
    return "\n".join([
        HEAD, *_commands(), "", *_programs(), "", *_exits(), "", *_options(), "", *_health(), "",
    ])


def _commands() -> Iterator[str]:
    yield "## Commands"
    yield (
        "`rw` needs a right to change. All take `--format plain|json|yaml`; JSON has a "
        "`format_version`."
    )
    yield ""
    for command in COMMANDS:
        words = " ".join([f"ceph {command.prefix}", *map(_argument, command.arguments)])
        yield from _item(f"`{words}` ({command.perm}): {command.help}")


def _programs() -> Iterator[str]:
    yield "## Programs"
    yield "`COMMAND -h` and the manual pages have the options; packages bring completions."
    yield ""
    for parser in reversed(manual.parsers()):
        for name, _ in manual.verbs(parser):
            yield from _item(f"`{parser.prog} {name}`: {manual.help_of(parser, name)}")


def _exits() -> Iterator[str]:
    yield "## Exit codes"
    for program, table in (
        ("ceph wcache", manual.MODULE_EXIT), ("wcache", manual.CLI_EXIT),
        ("wcache-probe", manual.PROBE_EXIT),
    ):
        yield from _item(f"`{program}`: " + "; ".join(f"**{code}** {what}" for code, what in table))


def _argument(described: str) -> str:
    field = dict(part.partition("=")[::2] for part in described.split(","))
    value = field.get("strings", field["name"].upper())
    if field.get("req") != "false":
        return value
    option = "--" + field["name"].replace("_", "-")
    return f"[{option}]" if field["type"] == "CephBool" else f"[{option}={value}]"


def _options() -> Iterator[str]:
    yield "## Options"
    yield "`ceph config set mgr mgr/wcache/NAME VALUE`; a number outside of its bounds is refused."
    yield ""
    values = asdict(Options())
    for name, (words, low, high) in DESCRIPTIONS.items():
        about = [f"default: {_value(values[name])}"]
        if name in CHOICES:
            about.append(f"one of {', '.join(CHOICES[name])}")
        elif low is not None:
            about.append(f"{_value(low)} to {_value(high)}")
        yield from _item(f"`{name}`: {words} ({'; '.join(about)})")


def _health() -> Iterator[str]:
    yield "## What of Ceph's health keeps wcache from measuring"
    about = (
        "While an error is raised that is not in this list, no OSD is measured or changed, until "
        "it is cured or muted (`ceph health mute CHECK`). A warning that is not in it is recorded "
        "with what is measured.",
        "A mute hides a check and cures nothing: the OSDs that it names are left alone all the "
        "same. Where Ceph cuts off the list of OSDs of a check, it is taken to be about all; once "
        "it is muted, about those that it names.",
    )
    yield "\n\n".join("\n".join(textwrap.wrap(each, COLUMNS)) for each in about)
    for title, rows in (
        ("Health checks", CHECKS), ("Flags of the OSD map", FLAGS), ("States of PGs", PG_STATES),
    ):
        yield from ("", f"### {title}")
        yield from _followed(rows)
    yield ""
    yield "The OSDs of a PG that has any other state, or is not `active`, are left alone too."


def _followed(rows: Sequence[Row]) -> Iterator[str]:
    for scope in Reach:
        found = [row for row in rows if row.scope is scope]
        if found:
            yield from ("", f"{scope.value[:1].upper()}{scope.value[1:]}:", "")
        for row in found:
            lifted = " A mute lifts it." if row.mute_lifts else ""
            names = ", ".join(f"`{name}`" for name in row.names)
            yield from _item(f"{names}: {row.why}.{lifted}")


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    return str(value) if value != "" else "empty"


def _item(text: str) -> List[str]:
    text = re.sub(r"\s+", " ", text).replace("<", "&lt;")
    return textwrap.wrap(
        text, COLUMNS, initial_indent="- ", subsequent_indent="  ", break_long_words=False,
        break_on_hyphens=False,
    )
