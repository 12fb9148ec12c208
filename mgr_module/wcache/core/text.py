"""Answers as they are printed: numbers with their units and aligned tables, or rows of JSON.

Commands that are printed for people to type; no other file makes one.

Words from outside (of a probe, of an OSD, a device class, an option's value) go into a command
through `{}` of a template, and are quoted there.  `CommandLine` is a type of its own, so mypy
refuses any other text where a command is wanted; a test refuses f-strings that look like one.
"""

from __future__ import annotations

import re
import shlex
import time
from typing import (
    Any,
    Callable,
    Dict,
    Generic,
    Iterable,
    Iterator,
    List,
    Mapping,
    NewType,
    Optional,
    Sequence,
    TypeVar,
)

NAMED_MAX = 8
# What are more lines than this is told by number and kind; --all or JSON has each.
LISTED_MAX = 60
# Of what `--format json` prints: raised where a field changes its meaning or goes.
FORMAT_VERSION = 1

Item = TypeVar("Item")


class Rows(Generic[Item]):
    """Rows of an answer, each made when it is written.

    A million dicts at a time make Python look for garbage through all objects of the mgr, in one
    piece of a second.
    """

    def __init__(self, items: Sequence[Item], row_of: Callable[[Item], Dict[str, Any]]) -> None:
        self._items = items
        self._row_of = row_of

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Dict[str, Any]]:
        return map(self._row_of, self._items)


def named(names: Sequence[str], most: int = NAMED_MAX) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def listed(lines: Sequence[str], more: str, most: int = LISTED_MAX) -> List[str]:
    """The first lines, and how many more there are; `more` says of what, and where they are."""
    left = len(lines) - most
    return [*lines[:most], *([f"and {left} more {more}"] if left > 0 else [])]


def counted(text: str, count: int) -> str:
    """A text with forms for one and for more, `{s}` and `{is|are}`, as `count` wants them.

    The number stands before it; a text without such forms is not counted.
    """
    if "{" not in text:
        return text
    return f"{count} {inflected(text, count)}"


def many(count: int, noun: str) -> str:
    """A number and its noun."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def inflected(text: str, count: int) -> str:
    """The same without the number."""
    def chosen(found: re.Match[str]) -> str:
        one, bar, more = found[1].partition("|")
        return one if bar and count == 1 else more if bar else "" if count == 1 else one

    return re.sub(r"\{([^{}]*)\}", chosen, text)


def amount(count: float) -> str:
    """Bytes in binary units."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(count) < 1024 or unit == "TiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return ""


def written(cost: Mapping[str, Any]) -> str:
    """What is written at most, of a forecast."""
    if not cost["bench_calls"]:
        return "nothing"
    return f"{amount(cost['bytes_written'])} in {many(cost['bench_calls'], 'bench call')}"


def short_id(action_id: str) -> str:
    """A change's place in its plan; what follows is drawn at random, for the probes."""
    return ".".join(action_id.split(".")[:2])


def setting(name: str, value: Optional[str]) -> str:
    """A value of an option of Ceph as people read it: sizes in binary units."""
    if not value:
        return "unset"
    size = name.startswith("osd_memory_target") and value.isdecimal()
    return amount(int(value)) if size else value


def duration(seconds: float) -> str:
    """Seconds as an admin says them."""
    if seconds < 120:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h"


def roughly(seconds: float) -> str:
    """Seconds as an estimate: no digit more than it is worth."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def at_most(expected_s: float, most_s: float, left: str = "") -> str:
    """A time that is expected, and its maximum where that is another; `left` follows the first."""
    expected, most = roughly(expected_s), roughly(most_s)
    if expected == most:
        return f"at most {most}{left}"
    return f"about {expected}{left}, at most {most}"


def time_left(data: Mapping[str, Any]) -> str:
    """The time left, of an answer that has it."""
    if not data["seconds_left_max"]:
        return "about to end"
    return at_most(data["seconds_left"], data["seconds_left_max"], " left")


def latency(value_us: Optional[float]) -> str:
    """Microseconds in the unit that fits."""
    if value_us is None:
        return "-"
    return f"{value_us:.0f} us" if value_us < 1000 else f"{value_us / 1000:.2f} ms"


def ratio(row: Mapping[str, Any]) -> str:
    """A ratio with its interval, from a row's `ratio`, `ratio_low` and `ratio_high`."""
    if row["ratio"] is None:
        return "-"
    if row["ratio_low"] is None or row["ratio_high"] is None:
        return f"{row['ratio']:.2f}"
    return f"{row['ratio']:.2f} ({row['ratio_low']:.2f} to {row['ratio_high']:.2f})"


def relative(row: Mapping[str, Any]) -> str:
    """What turning the cache off changes, in percent of latency, of the same fields; or ''."""
    ends = [row[key] for key in ("ratio", "ratio_high", "ratio_low")]
    if ends[0] is None or not all(end is None or end > 0 for end in ends):
        return ""
    middle, low, high = (None if end is None else 100 * (1 / end - 1) for end in ends)
    # `interval` says at which level, where drive models were many
    said = str(row.get("interval", "")).split()
    level = next((word for word in said if word.endswith("%")), "99%")
    between = "" if low is None or high is None else f", {level}: {low:+.0f} to {high:+.0f}"
    return f" ({middle:+.0f}%{between})"


def before_after(before_us: Optional[float], after_us: Optional[float]) -> str:
    """Two latencies and how much the second is below or above the first, in percent."""
    if before_us is None and after_us is None:
        return "-"
    told = f"{latency(before_us)} -> {latency(after_us)}"
    if not before_us or after_us is None:
        return told
    return f"{told} ({100 * (after_us / before_us - 1):+.0f}%)"


def turned_off(result: Mapping[str, Any]) -> str:
    """What turning the cache off does to latency, of a result: medians, percent, interval."""
    medians = [(result.get(mode) or {}).get("p50_us") for mode in ("write_back", "write_through")]
    told = "" if None in medians else " -> ".join(map(latency, medians))
    return (told + relative(result)).strip() or "-"


def when(at_s: float) -> str:
    """A wall-clock time in UTC."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at_s))


def table(headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Left-aligned columns two spaces apart; numbers go to the right."""
    cells = [[cell(value) for value in row] for row in rows]
    widths = [
        max([len(head), *(len(row[i]) for row in cells)]) for i, head in enumerate(headings)
    ]
    right = [
        bool(rows) and all(isinstance(row[i], (int, float)) or row[i] is None for row in rows)
        for i in range(len(headings))
    ]
    lines = []
    for line in [list(headings), *cells]:
        padded = [
            text.rjust(width) if to_right else text.ljust(width)
            for text, width, to_right in zip(line, widths, right)
        ]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def cell(value: Any) -> str:
    """One value as it stands in a table."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.2f}"
    if isinstance(value, (list, tuple)):
        return ", ".join(str(one) for one in value) or "-"
    return str(value)


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
