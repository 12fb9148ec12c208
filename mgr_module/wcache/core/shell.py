"""Commands that are printed for people to type; no other file makes one.

Words from outside (of a probe, of an OSD, a device class, an option's value) go into a command
through `{}` of a template, and are quoted there.  `CommandLine` is a type of its own, so mypy
refuses any other text where a command is wanted; a test refuses f-strings that look like one.
"""

from __future__ import annotations

import shlex
from typing import Iterable, List, NewType

CommandLine = NewType("CommandLine", str)

NOTHING = CommandLine("")
_HOLE = "{}"


def command(template: str, *words: object) -> CommandLine:
    """Make a command of a literal template, with one word for each `{}` in it.

    What a terminal or a shell would take for more than a word is quoted or made a question mark.
    A word of its own that begins with a dash would be an option, and the `ceph` tool has some that
    read files: it gets a question mark in front, and then names nothing.
    """
    parts = template.split(_HOLE)
    if len(parts) != len(words) + 1:
        raise ValueError(f"{len(words)} words for {template!r}")
    made: List[str] = [parts[0]]
    for before, word, after in zip(parts, words, parts[1:]):
        clean = _clean(word)
        own = not before or before.endswith(" ")
        made += [shlex.quote(f"?{clean}" if own and clean.startswith("-") else clean), after]
    return CommandLine("".join(made))


def arguments(words: Iterable[object]) -> CommandLine:
    """Make a command of words that all are what they seem: options keep their dashes."""
    return CommandLine(shlex.join(_clean(word) for word in words))


def commented(line: CommandLine, template: str, *words: object) -> CommandLine:
    """Add a comment; some shells run what stands in one, so its words are quoted too."""
    return CommandLine(f"{line}  # {command(template, *words)}")


def chained(lines: Iterable[CommandLine], by: str = "; ") -> CommandLine:
    """Join commands, one after the other."""
    return CommandLine(by.join(lines))


def ticked(line: CommandLine) -> str:
    """Put a command in backticks, for a sentence."""
    return f"`{line}`"


def typed(template: str, *words: object) -> str:
    """Make a command and put it in backticks."""
    return ticked(command(template, *words))


def _clean(word: object) -> str:
    return "".join(c if c.isprintable() else "?" for c in str(word))
