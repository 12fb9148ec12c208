"""What is printed to be run on hosts: templates beside this file, which quote each value.

jinja2 is imported when a script is wanted, since a mgr may lack it.
"""

from __future__ import annotations

import json
import shlex
from functools import lru_cache
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple

from ..core.errors import MalformedError, NotReadyError
from ..core.fleet.loaded_off import Reload
from ..core.shell import CommandLine, arguments
from ..core.text import many
from .form import caps_of, is_name

# What comes next; the caches are off, so turning one on needs the admin's word.
MEASURE = "ceph wcache campaign start --consent-turn-on --accept-cost"


class Script(NamedTuple):
    """What an admin pastes: a POSIX shell script, and what is good to know about it."""

    notes: List[str]
    text: str


def script(template: str, **values: Any) -> Script:
    """Render a template; the comments that it begins with are the notes."""
    lines = _rendered(template, caps=caps_of, **values).split("\n")
    begin = next(number for number, line in enumerate(lines) if not line.startswith("# "))
    return Script([line[2:] for line in lines[:begin]], "\n".join(lines[begin:]))


def reloading(items: Iterable[Reload], fsid: str) -> str:
    """Plan to load volumes of OSDs anew; OSDs that no script can do are named in its notes."""
    items = tuple(items)
    todo = [one for one in items if not one.why_not]
    hosts: Dict[str, Dict[int, Reload]] = {}
    for number, one in enumerate(todo, 1):
        hosts.setdefault(one.hostname, {})[number] = one
    return _rendered(
        "reloading", fsid=fsid, hosts=hosts, total=len(todo), prepare=_prepare, measure=MEASURE,
        osds=many(len(todo), "OSD"), on=many(len(hosts), "host"),
        left=[one for one in items if one.why_not],
    )


def _prepare(items: Iterable[Reload]) -> CommandLine:
    """What has the next boot of a host pin the drives of these OSDs."""
    names = dict.fromkeys(name for one in items for name in one.to_name)
    return arguments(["wcache-probe", "prepare", *(f"--drive={name}" for name in names)])


def _rendered(template: str, **values: Any) -> str:
    text: str = _environment().get_template(f"{template}.sh.j2").render(values)
    return text.rstrip("\n")


@lru_cache(maxsize=1)
def _environment() -> Any:
    try:
        import jinja2
    except ImportError as error:
        raise NotReadyError(
            f"jinja2 is missing on this mgr's host ({error})", "install python3-jinja2 there"
        ) from None
    environment = jinja2.Environment(  # noqa: S701  shell and YAML: QUOTING escapes
        loader=jinja2.FileSystemLoader(str(Path(__file__).parent)), auto_reload=False,
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )
    environment.filters.update(QUOTING)
    return environment


def _name(value: object) -> str:
    """A name that means nothing to a shell, inside quotes neither; raises MalformedError."""
    if not is_name(str(value)):
        raise MalformedError(f"{str(value)[:60]!r} cannot stand in a script")
    return str(value)


def _comment(value: object) -> str:
    """A text that does not end the line of a comment."""
    return "".join(char if char.isprintable() else "?" for char in str(value))


def _yaml(value: object) -> str:
    """A quoted text of JSON, which is one of every YAML too: none becomes a number or a word.

    YAML takes JSON's two halves of a character for two, so that has YAML's own escape.
    """
    return '"' + "".join(
        json.dumps(char)[1:-1] if char <= "\uffff" else f"\\U{ord(char):08x}"
        for char in str(value)
    ) + '"'


# Each value of a template goes through one of these; a test refuses others.
QUOTING: Mapping[str, Callable[[Any], str]] = {
    "comment": _comment, "name": _name, "names": lambda values: " ".join(map(_name, values)),
    "quote": lambda value: shlex.quote(str(value)),
    "yaml": _yaml,
}
