"""Strict JSON for frozen dataclasses: bounded, typed, with one clear line when refused.

What crosses a trust boundary (a probe's post, a stored value, a
record file) is decoded here against the dataclass that describes it.  Nothing is
coerced: a number in a string, an unknown field or an oversized list is refused with
the path to it, so that a hostile or mismatched peer is answered and never believed.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import re
import typing
from functools import cache
from typing import Any, Callable, Dict, FrozenSet, Mapping, Optional, Tuple, Type, TypeVar, Union

from .errors import MalformedError

T = TypeVar("T")

TEXT_CHARS_MAX = 1024
ITEMS_MAX = 4096
INT_MAX = 2**63 - 1
NESTING_MAX = 32
# The longest number that fits any field, with room: reading one takes time by the square of
# its length, and an int has no bound of its own before Python 3.10.7.
NUMBER_CHARS_MAX = 40
# Values of one class that are kept to be shared.
SHARED_MAX = 4096


def one_line(text: str, chars_max: int = 500) -> str:
    """Text as `decode` takes it back: one printable line of bounded length.

    For words of others (an OSD's error, a probe's message) that are shown or stored.
    """
    clean = "".join(char if char.isprintable() else " " for char in text[: 4 * chars_max])
    clean = " ".join(clean.split())
    return clean if len(clean) <= chars_max else clean[: chars_max - 3] + "..."


_ATOMS = frozenset((str, int, float, bool, type(None)))


def to_plain(value: Any) -> Any:
    """The JSON-ready form of a dataclass, enum, tuple or dict, with fields in order.

    A member of a tagged union carries its class attribute `KIND` as field "kind".
    """
    # a fleet's report has a million values: exact types first, they are nearly all
    cls = value.__class__
    if cls in _ATOMS:
        return value
    shape = _shape(cls)
    if shape is not None:
        kind, names = shape
        plain: Dict[str, Any] = {} if kind is None else {"kind": kind}
        for name in names:
            item = getattr(value, name)
            plain[name] = item if item.__class__ in _ATOMS else to_plain(item)
        return plain
    if cls is tuple or cls is list:
        return [item if item.__class__ in _ATOMS else to_plain(item) for item in value]
    if isinstance(value, enum.Enum):
        return value._value_  # `value` is a property, and ten times slower
    if isinstance(value, dict):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    return value


@cache
def _shape(cls: type) -> Optional[Tuple[Optional[str], Tuple[str, ...]]]:
    """(kind, field names) of a dataclass; None for any other class."""
    if not dataclasses.is_dataclass(cls):
        return None
    kind = getattr(cls, "KIND", None)
    return kind, tuple(item.name for item in dataclasses.fields(cls))


def told(answer: Any) -> Dict[str, Any]:
    """The JSON-ready form of an answer, without what is None: there is no such thing."""
    return {name: item for name, item in to_plain(answer).items() if item is not None}


def as_object(value: Any) -> Mapping[str, Any]:
    """The object that an answer should be; an empty one where it is something else."""
    return value if isinstance(value, Mapping) else {}


_COMPACT = json.JSONEncoder(allow_nan=False, separators=(",", ":"))


def dumps(value: Any) -> str:
    """Compact JSON text of a dataclass; NaN and infinities raise ValueError."""
    return _COMPACT.encode(to_plain(value))


def parse_json(text: str, *, bytes_max: int, what: str) -> Any:
    """Parse JSON from outside.

    Raises MalformedError when it is too long, too deep, not JSON, or has an endless number.
    """
    utf8 = text.encode("utf-8", "surrogatepass")
    if len(utf8) > bytes_max:
        raise MalformedError(f"{what} is longer than {bytes_max} bytes")
    if _nesting(utf8) > NESTING_MAX:
        raise MalformedError(f"{what} is nested deeper than {NESTING_MAX} levels")
    try:
        if _MAYBE_ENDLESS.search(text):
            return json.loads(
                text, parse_constant=_refuse_constant, parse_int=_int, parse_float=_float
            )
        return _PLAIN.decode(text)
    except (ValueError, RecursionError) as error:
        raise MalformedError(f"{what} is not JSON: {str(error)[:120]}") from None


def loads(cls: Type[T], text: str, *, bytes_max: int, what: str) -> T:
    """Decode JSON text to `cls`; raises MalformedError with the path of what is wrong."""
    return decode(cls, parse_json(text, bytes_max=bytes_max, what=what), what)


def decode(cls: Type[T], plain: Any, where: str) -> T:
    """Decode plain data to dataclass `cls`; raises MalformedError with the path."""
    try:
        return typing.cast(T, _object(typing.cast(type, cls))(plain))
    except _Wrong as wrong:
        raise MalformedError(where + wrong.path + wrong.said) from None


def _int(digits: str) -> int:
    return int(_bounded(digits))


def _float(digits: str) -> float:
    return float(_bounded(digits))


def _bounded(digits: str) -> str:
    if len(digits) > NUMBER_CHARS_MAX:
        raise ValueError(f"a number has {len(digits)} characters")
    return digits


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


_PLAIN = json.JSONDecoder(parse_constant=_refuse_constant)  # loads() makes one in each call
_MAYBE_ENDLESS = re.compile(rf"[-+.eE0-9]{{{NUMBER_CHARS_MAX + 1}}}")
_BRACKETS = re.compile(rb"[\[{]+|[\]}]+")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
# also one that has no end: each character is passed over once
_STRING = re.compile(rb'"[^"\\]*(?:\\(?:.|\Z)[^"\\]*)*(?:"|\Z)', re.DOTALL)


def _nesting(utf8: bytes) -> int:
    """The nesting depth, but for brackets in strings, which would hide others."""
    depth = deepest = 0
    # a table drops the rest ten times as fast as the expression passes over it
    for run in _BRACKETS.findall(_STRING.sub(b"", utf8).translate(None, _NO_BRACKETS)):
        if run[0] in b"[{":
            depth += len(run)
            deepest = max(deepest, depth)
        else:
            depth -= len(run)
    return deepest


@cache
def _hints(cls: type) -> Dict[str, Any]:
    return typing.get_type_hints(cls)


class _Wrong(Exception):
    """What is wrong with a value, and the path to it from the value that is decoded."""

    def __init__(self, said: str, path: str = "") -> None:
        super().__init__(said)
        self.said = said
        self.path = path

    def below(self, step: str) -> _Wrong:
        return _Wrong(self.said, step + self.path)


# A decoder takes plain data and raises _Wrong.  It is made once for each field of a class:
# a mgr decodes thousands of values a minute, and what a type says is the same for all.
_Decoder = Callable[[Any], Any]


def _decoder(hint: Any, limits: Mapping[str, Any]) -> _Decoder:
    origin = typing.get_origin(hint)
    if origin is Union:
        return _union(hint, limits)
    if origin is tuple:
        return _tuple(hint, limits)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _enum(hint)
    if dataclasses.is_dataclass(hint):
        return _object(typing.cast(type, hint))
    if hint is int:
        return _whole_number(limits)
    if hint is str:
        return _text(limits)
    if hint in (bool, float):
        return _truth if hint is bool else _number
    raise TypeError(f"no decoder for {hint!r}")


def _union(hint: Any, limits: Mapping[str, Any]) -> _Decoder:
    members = [member for member in typing.get_args(hint) if member is not type(None)]
    optional = len(members) < len(typing.get_args(hint))
    if len(members) == 1:
        only = _decoder(members[0], limits)
        return lambda plain: None if plain is None and optional else only(plain)
    # one member at most may be without a KIND
    kinds = {getattr(member, "KIND", ""): _object(member) for member in members}

    def decode_member(plain: Any) -> Any:
        if plain is None and optional:
            return None
        kind = plain.get("kind", "") if isinstance(plain, dict) else None
        if not isinstance(kind, str) or kind not in kinds:
            raise _Wrong(f" must be one of {', '.join(sorted(filter(None, kinds)))}", ".kind")
        return kinds[kind](plain)

    return decode_member


def _tuple(hint: Any, limits: Mapping[str, Any]) -> _Decoder:
    items_min, items_max = limits.get("min_items", 0), limits.get("max_items", ITEMS_MAX)
    inner = _decoder(typing.get_args(hint)[0], limits)

    def decode_items(plain: Any) -> Tuple[Any, ...]:
        if not isinstance(plain, list):
            raise _Wrong(" must be a list")
        if len(plain) < items_min:
            raise _Wrong(f" has {len(plain)} entries; at least {items_min} must be there")
        if len(plain) > items_max:
            raise _Wrong(f" has {len(plain)} entries; at most {items_max} are taken")
        items = []
        try:
            for item in plain:
                items.append(inner(item))
        except _Wrong as wrong:
            raise wrong.below(f"[{len(items)}]") from None
        return tuple(items)

    return decode_items


def _enum(hint: Type[enum.Enum]) -> _Decoder:
    members = {member.value: member for member in hint}

    def decode_member(plain: Any) -> enum.Enum:
        member = members.get(plain) if isinstance(plain, str) else None
        if member is None:
            raise _Wrong(f" must be one of: {', '.join(map(str, members))}")
        return member

    return decode_member


@cache
def _parts(cls: type) -> Tuple[FrozenSet[str], Tuple[Tuple[str, _Decoder, bool], ...]]:
    """(the fields that may be there, (name, decoder, whether it must be there) of each)."""
    hints, fields = _hints(cls), dataclasses.fields(cls)
    tag = ["kind"] if hasattr(cls, "KIND") else []
    missing = dataclasses.MISSING
    return frozenset([*(item.name for item in fields), *tag]), tuple(
        (
            item.name, _decoder(hints[item.name], item.metadata),
            item.default is missing and item.default_factory is missing,
        )
        for item in fields
    )


@cache
def _object(cls: type) -> _Decoder:
    """Decode one class; equal values of one that is `SHARED` are one object.

    A mgr holds what a hundred thousand drives tell, and Python looks through all objects for
    garbage in one piece: most drives are of a few models, in a few states.
    """
    shared: Optional[Dict[Any, Any]] = {} if getattr(cls, "SHARED", False) else None

    def decode_object(plain: Any) -> Any:
        if not isinstance(plain, dict):
            raise _Wrong(" must be an object")
        allowed, parts = _parts(cls)
        if not plain.keys() <= allowed:
            unknown = sorted(str(key)[:40] for key in plain.keys() - allowed)
            raise _Wrong(f" has an unknown field {unknown[0]!r}")
        values: Dict[str, Any] = {}
        name = ""
        try:
            for name, decoder, required in parts:
                if name in plain:
                    values[name] = decoder(plain[name])
                elif required:
                    raise _Wrong(" is missing")
        except _Wrong as wrong:
            raise wrong.below(f".{name}") from None
        try:
            made = cls(**values)
        except ValueError as error:
            raise _Wrong(f": {error}") from None
        if shared is None:
            return made
        if len(shared) >= SHARED_MAX:
            shared.clear()
        return shared.setdefault(made, made)

    return decode_object


def _truth(plain: Any) -> bool:
    if isinstance(plain, bool):
        return plain
    raise _Wrong(" must be true or false")


def _number(plain: Any) -> float:
    if isinstance(plain, bool) or not isinstance(plain, (int, float)):
        raise _Wrong(" must be a number")
    if isinstance(plain, int) and abs(plain) > INT_MAX:
        raise _Wrong(" is out of range")
    if not math.isfinite(plain):
        raise _Wrong(" must be a finite number")
    return float(plain)


def _whole_number(limits: Mapping[str, Any]) -> _Decoder:
    low, high = bounds_of(limits)

    def decode_whole_number(plain: Any) -> int:
        if isinstance(plain, bool) or not isinstance(plain, int):
            raise _Wrong(" must be a whole number")
        if not low <= plain <= high:
            raise _Wrong(f" must be from {low} to {high}")
        return int(plain)

    return decode_whole_number


def bounds_of(limits: Mapping[str, Any]) -> Tuple[int, int]:
    """The lowest and highest whole number a field's metadata allows (default: 0 to 2^63-1)."""
    return limits.get("min", 0), limits.get("max", INT_MAX)


def _text(limits: Mapping[str, Any]) -> _Decoder:
    chars_max = limits.get("max_chars", TEXT_CHARS_MAX)

    def decode_text(plain: Any) -> str:
        if not isinstance(plain, str):
            raise _Wrong(" must be text")
        if len(plain) > chars_max:
            raise _Wrong(f" is longer than {chars_max} characters")
        if not plain.isprintable():
            raise _Wrong(" has characters that cannot be printed")
        return plain

    return decode_text
