"""A strict reader of TOML tables: every key named, typed and bounded, or refused.

The text comes from outside.  Whatever it holds, the only thing raised is
`DriveFileError`, whose message is one printable line with the path of the key.
"""

from __future__ import annotations

import difflib
import importlib
import math
import os
import re
from enum import Enum
from typing import (
    Any,
    Callable,
    Dict,
    List,
    Mapping,
    Optional,
    Pattern,
    Sequence,
    Set,
    Type,
    TypeVar,
)

from wcache.core.errors import MalformedError
from wcache_probe.safe_files import open_regular

FILE_BYTES_MAX = 1_000_000
TOML_READERS = ("tomllib", "tomli")  # the first is in the standard library from 3.11 on
ENUM = TypeVar("ENUM", bound=Enum)


class DriveFileError(MalformedError):
    """A file of drive models that cannot be used; nothing of it was."""

    advice = "qa/drive_models/README.md describes every key"


def shown(value: object) -> str:
    """A hostile value as at most 60 printable ASCII characters."""
    if isinstance(value, int) and value.bit_length() > 128:
        return "a huge integer"  # repr() of one can raise, by CPython's digit limit
    try:
        text = ascii(value)
    except (ValueError, RecursionError):
        return "a value that cannot be shown"
    return text if len(text) <= 60 else text[:57] + "..."


def _toml_reader(modules: Sequence[str]) -> Optional[Callable[[str], Dict[str, Any]]]:
    for name in modules:
        try:
            loads: Callable[[str], Dict[str, Any]] = importlib.import_module(name).loads
        except ImportError:
            continue
        return loads
    return None


def parse_toml(
    text: str, source: str, readers: Sequence[str] = TOML_READERS
) -> Dict[str, Any]:
    """The TOML document in `text`; `source` names it in errors, `readers` are modules."""
    loads = _toml_reader(readers)
    if loads is None:
        raise DriveFileError(f"{source}: this Python has no TOML reader", "install python3-tomli")
    try:
        return loads(text)
    except RecursionError:
        raise DriveFileError(f"{source}: nested too deeply") from None
    except ValueError as error:  # TOMLDecodeError is one, so is an integer too long to read
        line = " ".join(ascii(str(error))[1:-1].split())[:120]
        raise DriveFileError(f"{source}: not TOML: {line}") from None


def read_text(path: str) -> str:
    """The text of a regular file of at most FILE_BYTES_MAX bytes."""
    source = shown(path)
    try:
        with open(open_regular(os.open(path, os.O_PATH | os.O_CLOEXEC)), "rb") as stream:
            raw = stream.read(FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a usable file name"
        raise DriveFileError(f"{source} cannot be read: {reason}", "check the path") from None
    if len(raw) > FILE_BYTES_MAX:
        raise DriveFileError(f"{source} is longer than {FILE_BYTES_MAX} bytes", "split it")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise DriveFileError(f"{source} is not UTF-8 text") from None


class Table:
    """One table of the document; `done()` refuses the keys nobody asked for."""

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, dict):
            raise DriveFileError(f"{where}: a table is needed, not {shown(value)}")
        self._values: Mapping[str, object] = value
        self._where = where
        self._asked: Set[str] = set()

    def path(self, key: str) -> str:
        """Where `key` stands, as errors name it."""
        return f"{self._where}.{key}"

    def error(self, key: str, reason: str) -> DriveFileError:
        """An error that names `key` and says `reason`."""
        return DriveFileError(f"{self.path(key)}: {reason}")

    def has(self, key: str) -> bool:
        """Whether the file gives `key`."""
        self._asked.add(key)
        return key in self._values

    def _get(self, key: str, default: object) -> object:
        if self.has(key):
            return self._values[key]
        if default is None:
            raise self.error(key, "missing")
        return default

    def number(self, key: str, default: Optional[float], low: float, high: float) -> float:
        """A finite number in [low, high]; a default of None makes the key mandatory."""
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.error(key, f"a number is needed, not {shown(value)}")
        if isinstance(value, float) and not math.isfinite(value):
            raise self.error(key, "must be finite")
        if not low <= value <= high:
            raise self.error(key, f"must lie in {low:g} .. {high:g}, not {shown(value)}")
        return float(value)

    def integer(self, key: str, default: Optional[int], low: int, high: int) -> int:
        """An integer in [low, high]; a default of None makes the key mandatory."""
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(key, f"an integer is needed, not {shown(value)}")
        if not low <= value <= high:
            raise self.error(key, f"must lie in {low} .. {high}, not {shown(value)}")
        return value

    def flag(self, key: str, default: bool) -> bool:
        """true or false."""
        value = self._get(key, default)
        if not isinstance(value, bool):
            raise self.error(key, f"true or false is needed, not {shown(value)}")
        return value

    def text(self, key: str, default: Optional[str], pattern: Pattern[str]) -> str:
        """A string that `pattern` matches in full; the empty default stands for none."""
        value = self._get(key, default)
        if not self.has(key) and isinstance(value, str):
            return value
        return self._checked(key, value, pattern)

    def texts(self, key: str, default: List[str], pattern: Pattern[str], most: int) -> List[str]:
        """A list of 1 to `most` different strings that `pattern` matches in full."""
        value = self._get(key, default)
        if not isinstance(value, list) or not 1 <= len(value) <= most:
            raise self.error(key, f"a list of 1 to {most} strings is needed")
        found = [self._checked(key, item, pattern) for item in value]
        if len(set(found)) != len(found):
            raise self.error(key, "has a value twice")
        return found

    def _checked(self, key: str, value: object, pattern: Pattern[str]) -> str:
        if not isinstance(value, str):
            raise self.error(key, f"a string is needed, not {shown(value)}")
        if not re.fullmatch(pattern, value):
            raise self.error(key, f"{shown(value)} does not fit {pattern.pattern}")
        return value

    def choice(self, key: str, default: Optional[ENUM], kind: Type[ENUM]) -> ENUM:
        """A member of the string enum `kind`, by its value."""
        value = self._get(key, default)
        if isinstance(value, kind):
            return value
        for member in kind:
            if isinstance(value, str) and value == member.value:
                return member
        allowed = ", ".join(repr(member.value) for member in kind)
        raise self.error(key, f"{shown(value)} is not one of {allowed}")

    def table(self, key: str, mandatory: bool = False) -> Table:
        """The sub-table `key`; an empty one where the file gives none."""
        return Table(self._get(key, None if mandatory else {}), self.path(key))

    def tables(self, key: str, most: int) -> List[Table]:
        """The array of 1 to `most` tables `key`."""
        value = self._get(key, None)
        if not isinstance(value, list) or not 1 <= len(value) <= most:
            raise self.error(key, f"1 to {most} tables are needed")
        return [Table(item, f"{self.path(key)}[{index}]") for index, item in enumerate(value)]

    def done(self) -> None:
        """Refuse the first key that was never asked for, with the nearest known one."""
        for key in self._values:
            if key not in self._asked:
                near = difflib.get_close_matches(key[:60], sorted(self._asked), n=1)
                hint = f"did you mean {near[0]}?" if near else "no such key here"
                raise DriveFileError(f"{self._where}: unknown key {shown(key)}", hint)
