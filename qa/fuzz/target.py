"""What a target is: a parser, the inputs that it begins with, and what it may raise."""

from __future__ import annotations

import argparse
import dataclasses
import enum
import json
import typing
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Tuple, Type

from wcache.core import codec, versions
from wcache.core.errors import WcacheError

SEEDS = Path(__file__).with_name("seeds")
LINE_CHARS_MAX = 2000
DEPTH_MAX, PICKS = 8, 14


class Broken(Exception):
    """What was taken, or said of it, is not as it must be."""


@dataclasses.dataclass(frozen=True)
class Target:
    """`take` parses; what it returns is true where it made something of the input."""

    name: str
    take: Callable[[bytes], Any]
    allowed: Tuple[Type[BaseException], ...] = (WcacheError,)
    seeds: Callable[[], List[bytes]] = lambda: []  # besides those that are kept

    def inputs(self) -> List[bytes]:
        """Those that are kept, then those that the code itself gives."""
        path = SEEDS / f"{self.name}.json"
        kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
        return [*(text.encode("latin-1") for text in kept), *self.seeds()]

    def run(self, data: bytes) -> bool:
        """Whether it was taken; raises what it must not."""
        try:
            return bool(self.take(data))
        except self.allowed as error:
            if isinstance(error, WcacheError):
                one_line(error.line())
            return False


def one_line(text: str) -> None:
    """Raise Broken where an error would not be one clear line."""
    if not text.isprintable() or not 0 < len(text) <= LINE_CHARS_MAX:
        raise Broken(f"an error of {len(text)} characters: {text[:300]!r}")


def again(cls: Type[Any], value: Any) -> Any:
    """The value; Broken where its text is not one line that is taken again as the same."""
    text = versions.dumps(value)
    other = versions.loads(cls, text, bytes_max=2 * len(text) + 1, what="it again")
    if versions.dumps(other) != text or not text.isprintable():
        raise Broken(f"{cls.__name__} is not the same when it is read again: {text[:300]}")
    return value


def text_of(data: bytes) -> str:
    """As all readers decode."""
    return data.decode("utf-8", "replace")


# ---- examples of types, made of what `codec` knows of them


def example(hint: Any, limits: Mapping[str, Any], pick: int, depth: int = 0) -> Any:
    """The plain form of a value of a type, with one item in each list; `pick` chooses of unions."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Union:
        members = [one for one in arguments if one is not type(None)]
        return example(members[pick % len(members)], limits, pick, depth)
    if origin is tuple:
        return [] if depth > DEPTH_MAX else [example(arguments[0], limits, pick, depth + 1)]
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return [*hint][pick % len(hint)].value
    if dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint)
        plain: Dict[str, Any] = {"kind": hint.KIND} if hasattr(hint, "KIND") else {}
        for item in dataclasses.fields(hint):
            plain[item.name] = example(hints[item.name], item.metadata, pick, depth + 1)
        return plain
    if hint is int:
        return max(1, codec.bounds_of(limits)[0])
    return {str: "a", float: 1.0, bool: False}[hint]


def examples(cls: Type[Any]) -> List[Any]:
    """Plain values of a numbered type: all that it can have, and only what it must have."""
    number = {"version": cls.VERSION}
    full = [{**number, **example(cls, {}, pick), **number} for pick in range(PICKS)]
    needed = {
        item.name for item in dataclasses.fields(cls)
        if item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING
    }
    least = {name: item for name, item in full[0].items() if name in {"version", *needed}}
    return [*(one for n, one in enumerate(full) if one not in full[:n]), least]


def words_of(data: bytes) -> List[str]:
    """The arguments of a command line: as execve(2) takes them, up to a zero each."""
    return [word.decode("utf-8", "surrogateescape") for word in data.split(b"\0")]


def parsed(parser: argparse.ArgumentParser, data: bytes) -> Any:
    """What a parser of arguments makes of them."""
    return parser.parse_args(words_of(data))
