"""Strict JSON for frozen dataclasses: bounded, typed, and with one clear line when refused.

What crosses a trust boundary (a probe's post, a stored value of an older version, a
record file) is decoded here against the dataclass that describes it.  Nothing is
coerced: a number in a string, an unknown field or an oversized list is refused with
the path to it, so that a hostile or mismatched peer is answered and never believed.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import sys
import typing
from functools import cache
from typing import Any, Dict, Mapping, Optional, Tuple, Type, TypeVar, Union

from .errors import MalformedError

T = TypeVar("T")

TEXT_CHARS_MAX = 1024
ITEMS_MAX = 4096
INT_MAX = 2**63 - 1
NESTING_MAX = 32
# The longest number that fits any field, with room: reading one takes time by the square of
# its length, and an int has no bound of its own before Python 3.10.7.
NUMBER_CHARS_MAX = 40


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


def dumps(value: Any) -> str:
    """Compact JSON text of a dataclass; NaN and infinities raise ValueError."""
    return json.dumps(to_plain(value), allow_nan=False, separators=(",", ":"))


def parse_json(text: str, *, bytes_max: int, what: str) -> Any:
    """Parse JSON from outside.

    Raises MalformedError when it is too long, too deep, not JSON, or has an endless number.
    """
    if len(text.encode("utf-8", "surrogatepass")) > bytes_max:
        raise MalformedError(f"{what} is longer than {bytes_max} bytes")
    if _nesting(text) > NESTING_MAX:
        raise MalformedError(f"{what} is nested deeper than {NESTING_MAX} levels")
    try:
        return json.loads(
            text, parse_constant=_refuse_constant, parse_int=_int, parse_float=_float
        )
    except (ValueError, RecursionError) as error:
        raise MalformedError(f"{what} is not JSON: {str(error)[:120]}") from None


def loads(cls: Type[T], text: str, *, bytes_max: int, what: str) -> T:
    """Decode JSON text to `cls`; raises MalformedError with the path of what is wrong."""
    return decode(cls, parse_json(text, bytes_max=bytes_max, what=what), what)


def decode(cls: Type[T], plain: Any, where: str) -> T:
    """Decode plain data to dataclass `cls`; raises MalformedError with the path."""
    return typing.cast(T, _decode(cls, plain, where, {}))


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


def _nesting(text: str) -> int:
    """An upper bound of the nesting depth: brackets in strings only make it larger."""
    depth = deepest = 0
    for char in text:
        if char in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif char in "]}":
            depth -= 1
    return deepest


@cache
def _hints(cls: type) -> Dict[str, Any]:
    return typing.get_type_hints(cls, vars(sys.modules[cls.__module__]))


def _decode(hint: Any, plain: Any, where: str, limits: Mapping[str, Any]) -> Any:
    origin = typing.get_origin(hint)
    if origin is Union:
        return _decode_union(hint, plain, where, limits)
    if origin is tuple:
        return _decode_tuple(hint, plain, where, limits)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _decode_enum(hint, plain, where)
    if dataclasses.is_dataclass(hint):
        return _decode_dataclass(typing.cast(type, hint), plain, where)
    return _decode_scalar(hint, plain, where, limits)


def _decode_union(hint: Any, plain: Any, where: str, limits: Mapping[str, Any]) -> Any:
    members = [member for member in typing.get_args(hint) if member is not type(None)]
    if plain is None and len(members) < len(typing.get_args(hint)):
        return None
    if len(members) == 1:
        return _decode(members[0], plain, where, limits)
    kinds = {member.KIND: member for member in members}
    kind = plain.get("kind") if isinstance(plain, dict) else None
    if not isinstance(kind, str) or kind not in kinds:
        raise MalformedError(f"{where}.kind must be one of {', '.join(sorted(kinds))}")
    return _decode_dataclass(kinds[kind], plain, where)


def _decode_tuple(hint: Any, plain: Any, where: str, limits: Mapping[str, Any]) -> Any:
    if not isinstance(plain, list):
        raise MalformedError(f"{where} must be a list")
    items_max = limits.get("max_items", ITEMS_MAX)
    if len(plain) > items_max:
        raise MalformedError(f"{where} has {len(plain)} entries; at most {items_max} are taken")
    inner = typing.get_args(hint)[0]
    return tuple(_decode(inner, item, f"{where}[{i}]", limits) for i, item in enumerate(plain))


def _decode_enum(hint: Type[enum.Enum], plain: Any, where: str) -> enum.Enum:
    for member in hint:
        if isinstance(plain, str) and member.value == plain:
            return member
    choices = ", ".join(str(member.value) for member in hint)
    raise MalformedError(f"{where} must be one of: {choices}")


def _decode_dataclass(cls: type, plain: Any, where: str) -> Any:
    if not isinstance(plain, dict):
        raise MalformedError(f"{where} must be an object")
    known = {item.name: item for item in dataclasses.fields(cls)}
    tag = {"kind"} if hasattr(cls, "KIND") else set()
    unknown = sorted(str(key)[:40] for key in set(plain) - set(known) - tag)
    if unknown:
        raise MalformedError(f"{where} has an unknown field {unknown[0]!r}")
    hints = _hints(cls)
    values: Dict[str, Any] = {}
    for name, item in known.items():
        if name in plain:
            values[name] = _decode(hints[name], plain[name], f"{where}.{name}", item.metadata)
        elif item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING:
            raise MalformedError(f"{where}.{name} is missing")
    try:
        return cls(**values)
    except ValueError as error:
        raise MalformedError(f"{where}: {error}") from None


def _decode_scalar(hint: Any, plain: Any, where: str, limits: Mapping[str, Any]) -> Any:
    if hint is bool:
        if isinstance(plain, bool):
            return plain
        raise MalformedError(f"{where} must be true or false")
    if hint is int:
        return _decode_int(plain, where, limits)
    if hint is float:
        if isinstance(plain, bool) or not isinstance(plain, (int, float)):
            raise MalformedError(f"{where} must be a number")
        if isinstance(plain, int) and abs(plain) > INT_MAX:
            raise MalformedError(f"{where} is out of range")
        if not math.isfinite(plain):
            raise MalformedError(f"{where} must be a finite number")
        return float(plain)
    if hint is str:
        return _decode_text(plain, where, limits)
    raise TypeError(f"{where}: no decoder for {hint!r}")


def _decode_int(plain: Any, where: str, limits: Mapping[str, Any]) -> int:
    if isinstance(plain, bool) or not isinstance(plain, int):
        raise MalformedError(f"{where} must be a whole number")
    low, high = bounds_of(limits)
    if not low <= plain <= high:
        raise MalformedError(f"{where} must be from {low} to {high}")
    return int(plain)


def bounds_of(limits: Mapping[str, Any]) -> Tuple[int, int]:
    """The lowest and highest whole number a field's metadata allows (default: 0 to 2^63-1)."""
    return limits.get("min", 0), limits.get("max", INT_MAX)


def _decode_text(plain: Any, where: str, limits: Mapping[str, Any]) -> str:
    if not isinstance(plain, str):
        raise MalformedError(f"{where} must be text")
    chars_max = limits.get("max_chars", TEXT_CHARS_MAX)
    if len(plain) > chars_max:
        raise MalformedError(f"{where} is longer than {chars_max} characters")
    if not plain.isprintable():
        raise MalformedError(f"{where} has characters that cannot be printed")
    return plain
