"""Manual pages, made of what the programs and the module say of themselves.

The same tree gives the same bytes on every machine: no default of this host is in them.
"""

from __future__ import annotations

import argparse
import socket
from dataclasses import dataclass
from typing import Iterator, List, Tuple

from wcache.commands.commands import COMMANDS
from wcache.core import VERSION
from wcache_cli.main import make_parser as cli_parser
from wcache_probe.arguments import make_parser as probe_parser

_SEE = {
    "wcache-probe": r"\fBwcache\fR(1), \fBceph-wcache\fR(8), \fBceph\fR(8)",
    "wcache": r"\fBceph-wcache\fR(8), \fBwcache-probe\fR(8)",
    "ceph-wcache": r"\fBceph\fR(8), \fBwcache\fR(1), \fBwcache-probe\fR(8)",
}
_PROBE_FILES = (
    ("/var/lib/wcache", "the journal: what drives were set to before, while something is changed"),
    ("/etc/udev/rules.d/59-wcache-pin.rules", "the boot rule that `prepare` writes"),
    ("/etc/udev/rules.d/85-wcache-*.rules", "a drive's persisted mode; `rollback` removes it"),
    ("/etc/wcache/prepare", "where it is there, installing the package runs `prepare`"),
    ("/etc/wcache/leave", "where it is there, removing the package leaves applied changes"),
)
PROBE_EXIT = (
    ("0", "done"),
    ("1", "something is not as it should be: of `inspect` and `bench`, a drive loses acknowledged "
     "data"),
    ("2", "it could not even start, or was refused"), ("130", "interrupted"),
    ("141", "the reader of the output has gone"),
)
# as WcacheError and its kinds have them; the `ceph` program exits with them
MODULE_EXIT = (
    ("0", "done"), ("1 EPERM", "it would be unsafe, or consent is missing"),
    ("2 ENOENT", "there is nothing of that name"),
    ("5 EIO", "something could not be stored, or the module has a bug"),
    ("11 EAGAIN", "not now; the same command can succeed later"),
    ("13 EACCES", "the cephx user may not do this"),
    ("16 EBUSY", "something else holds what was asked for"),
    ("22 EINVAL", "an argument or a file is not understood"),
    ("71 EPROTO", "it is of a version that this one does not speak"),
)
CLI_EXIT = (
    ("0", "done; of `watch` and `try`: what was followed is done"),
    ("1", "an error, which stands on standard error in one line"),
    ("2", "what was followed was aborted, failed or was rolled back; or the arguments or files "
     "cannot be understood"),
    ("130", "interrupted; what was followed goes on"),
    ("141", "the reader of the output has gone"),
)


@dataclass(frozen=True)
class Page:
    """A file of roff."""

    name: str
    text: str


def parsers() -> Tuple[argparse.ArgumentParser, ...]:
    """Of both programs, with nothing of this machine in them."""
    made = (probe_parser(), cli_parser())
    for parser in made:
        for _, verb in verbs(parser):
            for action in verb._actions:
                if action.default == socket.gethostname():
                    action.default = "the name of this host"
                if action.help:  # a shell's completion prints it as it stands
                    action.help = action.help % {**vars(action), "prog": verb.prog}
    return made


def pages() -> Iterator[Page]:
    """All manual pages."""
    probe, cli = parsers()
    yield Page("wcache-probe.8", _of_program(
        probe, 8, "reads and toggles the write caches of an OSD host's drives",
        [_table("FILES", _PROBE_FILES), _table("EXIT STATUS", PROBE_EXIT)],
    ))
    yield Page("wcache.1", _of_program(
        cli, 1, "follows, reports and analyses write-cache experiments of Ceph OSDs",
        [_table("EXIT STATUS", CLI_EXIT)],
    ))
    yield Page("ceph-wcache.8", _of_module())


def _of_program(
    parser: argparse.ArgumentParser, section: int, what: str, more: List[str]
) -> str:
    lines = [_head(parser.prog, section, what), ".SH SYNOPSIS"]
    lines += [rf"\fB{_roff(parser.prog)}\fR \fICOMMAND\fR [\fIOPTION\fR...]", ".SH DESCRIPTION"]
    lines += [_text(parser.description or ""), ".SH COMMANDS"]
    for name, verb in verbs(parser):
        lines += [f'.SS "{parser.prog} {name}"', _text(help_of(parser, name))]
        for action in verb._actions:
            if "--help" in action.option_strings:
                continue
            lines += [".TP", _words_of(action)]
            lines.append(_text(action.help or "") or r"\&")
    return "\n".join([*lines, *more, ".SH SEE ALSO", _SEE[parser.prog], ""])


def _of_module() -> str:
    what = "the write-cache mode of Ceph OSD drives: measure, recommend, apply, roll back"
    lines = [_head("ceph-wcache", 8, what), ".SH SYNOPSIS", r"\fBceph wcache\fR \fICOMMAND\fR"]
    lines += [".SH DESCRIPTION", _text(
        "Commands of the ceph-mgr module wcache. All take --format plain|json|yaml. "
        "The guide is in /usr/share/doc/ceph-mgr-wcache."
    ), ".SH COMMANDS"]
    for command in COMMANDS:
        words = " ".join(map(_argument, command.arguments))
        lines += [".TP", rf"\fBceph {_roff(command.prefix)}\fR {words}".rstrip()]
        lines.append(_text(command.help))
    exits = _table("EXIT STATUS", MODULE_EXIT)
    return "\n".join([*lines, exits, ".SH SEE ALSO", _SEE["ceph-wcache"], ""])


def _argument(described: str) -> str:
    """An argument of a command of the mgr, which its table has as ``name=...,type=...``."""
    field = dict(part.partition("=")[::2] for part in described.split(","))
    name, value = field["name"], field.get("strings", field["name"].upper())
    if field.get("req") != "false":
        return rf"\fI{_roff(value)}\fR"
    option = rf"\fB{_roff('--' + name.replace('_', '-'))}\fR"
    return f"[{option}]" if field["type"] == "CephBool" else rf"[{option} \fI{_roff(value)}\fR]"


def verbs(
    parser: argparse.ArgumentParser,
) -> Iterator[Tuple[str, argparse.ArgumentParser]]:
    """The commands that are for people, those with a word of help; `witness write` too."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            shown = {choice.dest for choice in action._choices_actions}
            for name, verb in action.choices.items():
                if name in shown:
                    below = list(verbs(verb))
                    yield from ((f"{name} {sub}", one) for sub, one in below)
                    if not below:
                        yield name, verb


def help_of(parser: argparse.ArgumentParser, name: str) -> str:
    first, _, rest = name.partition(" ")
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            if rest:
                return help_of(action.choices[first], rest)
            return next(c.help or "" for c in action._choices_actions if c.dest == first)
    return ""


def _words_of(action: argparse.Action) -> str:
    value = str(action.metavar or (action.dest if not action.option_strings else "")).strip()
    if action.option_strings and action.nargs != 0 and not value:
        value = "|".join(map(str, action.choices)) if action.choices else action.dest.upper()
    names = ", ".join(rf"\fB{_roff(name)}\fR" for name in action.option_strings)
    return f"{names} \\fI{_roff(value)}\\fR" if value and names else names or rf"\fI{value}\fR"


def _head(name: str, section: int, what: str) -> str:
    title = f'.TH {name.upper()} {section} "" "wcache {VERSION}" "wcache"'
    return f"{title}\n.SH NAME\n{_roff(name)} \\- {_roff(what)}"


def _table(title: str, rows: Tuple[Tuple[str, str], ...]) -> str:
    body = "\n".join(f".TP\n\\fB{_roff(name)}\\fR\n{_text(what)}" for name, what in rows)
    return f".SH {title}\n{body}"


def _roff(text: str) -> str:
    return text.replace("\\", r"\e").replace("-", r"\-")


def _text(text: str) -> str:
    plain = " ".join(text.split()).replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{plain}" if plain[:1] in (".", "'") else plain
