"""Answers as they are printed: numbers with their units, aligned tables, commands to paste.

Commands that are printed for people to type; no other file makes one.

Words from outside (of a probe, of an OSD, a device class, an option's value) go into a command
through `{}` of a template, and are quoted there.  `CommandLine` is a type of its own, so mypy
refuses any other text where a command is wanted; a test refuses f-strings that look like one.
"""

from __future__ import annotations

import itertools
import re
import shlex
import textwrap
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
    Tuple,
    TypeVar,
)

# Columns of an answer; only what is pasted may be wider.
WIDTH = 120
SHORT = len("write through")
NAMED_MAX = 8
# What are more lines than this is told by number and kind; --all or JSON has each.
LISTED_MAX = 60
# Of what `--format json` prints: raised where a field changes its meaning or goes.
FORMAT_VERSION = 1

Item = TypeVar("Item")
Key = TypeVar("Key")


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


def grouped(pairs: Iterable[Tuple[Key, Item]]) -> Dict[Key, List[Item]]:
    """What belongs together, by its key, in the order of the pairs."""
    found: Dict[Key, List[Item]] = {}
    for key, item in pairs:
        found.setdefault(key, []).append(item)
    return found


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


def relative(row: Mapping[str, Any]) -> str:
    """What turning the cache off changes, in percent of latency, by `ratio` and its ends; or ''."""
    ends = [row[key] for key in ("ratio", "ratio_high", "ratio_low")]
    if ends[0] is None or not all(end is None or end > 0 for end in ends):
        return ""
    middle, low, high = (None if end is None else 100 * (1 / end - 1) for end in ends)
    # `interval` says at which level, where drive models were many
    said = str(row.get("interval", "")).split()
    level = next((word for word in said if word.endswith("%")), "99%")
    between = "" if low is None or high is None else f", {level}: {low:+.0f} to {high:+.0f}"
    return f" ({middle:+.0f}%{between})"


def gained(ratio: float) -> str:
    """How latency changes, in percent, where before over after is `ratio`.

    Below 10% with a digit more: what is material begins there.
    """
    if ratio <= 1e-4:
        return "any rise"
    change = max(100 * (1 / ratio - 1), -99.9)
    return f"{change:+.{int(abs(change) < 9.95 or change < -99)}f}%"


def risen(ratio: float) -> str:
    """How latency changes, in percent, where after over before is `ratio`."""
    return gained(1 / max(ratio, 1e-9))


def since(ratio: float, low: float, high: float) -> str:
    """How latency has changed, with its interval: the same in words."""
    return f"changed by {risen(ratio)} ({risen(low)} to {risen(high)})"


def before_after(before_us: Optional[float], after_us: Optional[float]) -> str:
    """Two latencies and how much the second is below or above the first, in percent."""
    if before_us is None and after_us is None:
        return "-"
    told = f"{latency(before_us)} -> {latency(after_us)}"
    if not before_us or after_us is None:
        return told
    return f"{told} ({100 * (after_us / before_us - 1):+.0f}%)"


def when(at_s: float) -> str:
    """A wall-clock time in UTC."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at_s))
    except (OverflowError, ValueError, OSError):  # of a stored value that is no time
        return "at no time"


def table(headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Left-aligned columns two spaces apart; numbers go to the right.

    Where it is too wide, columns without a value go, then those that are the same in every row,
    which is said once above; then cells are wrapped.
    """
    columns = [[head, *(cell(row[i]) for row in rows)] for i, head in enumerate(headings)]
    right = [
        bool(rows) and all(isinstance(row[i], (int, float)) or row[i] is None for row in rows)
        for i in range(len(headings))
    ]
    shown, said = list(range(len(headings))), []
    for empty in (True, False):
        for i in shown[1:] if _across(columns[i] for i in shown) > WIDTH else ():
            value = columns[i][-1]
            if {*columns[i][1:]} == {value} and (value == "-" if empty else len(rows) > 1):
                shown.remove(i)
                said += [] if empty else [f"{columns[i][0]}: {value}"]
    widths = _narrowed([columns[i] for i in shown])
    lines = [f"in each row {'; '.join(said)}"] if said else []
    for line in zip(*(columns[i] for i in shown)):
        wrapped = [_wrapped(text, width) for text, width in zip(line, widths)]
        for parts in itertools.zip_longest(*wrapped, fillvalue=""):
            padded = [
                part.rjust(width) if right[i] else part.ljust(width)
                for i, part, width in zip(shown, parts, widths)
            ]
            lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def _across(columns: Iterable[Sequence[str]]) -> int:
    """How wide columns are beside each other."""
    return sum(max(map(len, column)) + 2 for column in columns) - 2


def _narrowed(columns: Sequence[Sequence[str]]) -> List[int]:
    """The width of each column: the widest give way, short cells last, and no word is cut."""
    widths = [max(map(len, column)) for column in columns]
    if _across(columns) <= WIDTH:
        return widths
    words = [max(len(word) for text in each for word in _kept(text).split(" ")) for each in columns]
    for short in (SHORT, 0):
        least = [max(word, min(width, short)) for word, width in zip(words, widths)]
        for _ in range(sum(widths) + 2 * len(widths) - 2 - WIDTH):
            wide, at = max(((w, i) for i, w in enumerate(widths) if w > least[i]), default=(0, 0))
            widths[at] -= min(wide, 1)
    return widths


def _wrapped(text: str, width: int, before: str = "", between: str = "") -> List[str]:
    if len(before) + len(text) <= width:
        return [before + text]
    lines = textwrap.wrap(
        _kept(text), width, initial_indent=before, subsequent_indent=between,
        break_long_words=False, break_on_hyphens=False,
    )
    return [line.replace(_KEPT, " ") for line in lines]


_KEPT = "\u00a0"  # a space that no line ends at


def pasted(line: str) -> str:
    """Mark a line that is pasted as it is: `fitted` leaves it whole."""
    return line.replace(" ", _KEPT)


def _kept(text: str) -> str:
    return re.sub("`[^`]*`", lambda found: pasted(found[0]), text)


def fitted(text: str) -> str:
    """Wrap the lines of an answer that are too wide, but no command.

    Commands are what is in backticks, what follows `next: ` and its like, what `pasted` has
    marked.  A script, which begins with a comment, and JSON stay as they are.
    """
    if text.startswith(("#", "{")):
        return text
    lines: List[str] = []
    for line in text.split("\n"):
        indent = " " * (len(line) - len(line.lstrip(" ")))
        whole = line.startswith(("next: ", "undo: ", "or: "))
        lines += [line] if whole else _wrapped(line.lstrip(" "), WIDTH, indent, indent + "  ")
    return "\n".join(lines).replace(_KEPT, " ")


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
