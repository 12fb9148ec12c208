"""The number of every type that is stored or sent: a reader reads it before the fields.

The class says it: `VERSION`, and in `READS` the older numbers whose values still mean the
same here.  A value of any other number, or of none, is refused, whatever its fields are, in words
that say which side to update.  `qa/shapes.py` keeps a digest of each such shape: one that changes
without a new number fails a test.
"""

from __future__ import annotations

from typing import Any, ClassVar, Dict, Protocol, Tuple, Type, TypeVar, runtime_checkable

from . import codec
from .errors import VersionError

VERSION_MAX = 1_000_000


@runtime_checkable
class Numbered(Protocol):
    """A type that is stored or sent as a whole; `READS` may be left out."""

    VERSION: ClassVar[int]


T = TypeVar("T", bound=Numbered)


def reads(cls: Type[Any]) -> Tuple[int, ...]:
    """All numbers whose values a type takes, its own first."""
    return (cls.VERSION, *getattr(cls, "READS", ()))


def number_in(plain: Any) -> int:
    """The number that a value names; 0 where it names none that makes sense."""
    number = plain.get("version") if isinstance(plain, dict) else None
    if isinstance(number, bool) or not isinstance(number, int):
        return 0
    return number if 0 <= number <= VERSION_MAX else 0


def take(cls: Type[T], plain: Any, what: str) -> T:
    """Decode a whole value; raises VersionError by its number alone, before any field is read."""
    number, known = number_in(plain), reads(cls)
    if not isinstance(plain, dict):
        return codec.decode(cls, plain, what)  # which says what it is not
    if number not in known:
        raise VersionError(other_number(what, number, known))
    if not _has_field(cls):
        plain = {name: item for name, item in plain.items() if name != "version"}
    return codec.decode(cls, plain, what)


def loads(cls: Type[T], text: str, *, bytes_max: int, what: str) -> T:
    """Decode the text of a whole value; raises VersionError or MalformedError."""
    return take(cls, codec.parse_json(text, bytes_max=bytes_max, what=what), what)


def to_plain(value: Numbered) -> Dict[str, Any]:
    """The JSON-ready form of a whole value, its number first."""
    plain, number = codec.to_plain(value), type(value).VERSION
    if _has_field(type(value)):  # what was read of an older number is not that now
        return {**plain, "version": number}
    return {"version": number, **plain}


def dumps(value: Numbered) -> str:
    """Compact JSON text of a whole value, with its number."""
    return codec.dumps(to_plain(value))


def other_number(what: str, number: int, known: Tuple[int, ...]) -> str:
    """Why a value of another number is refused, and who is to be updated."""
    said = f"{what} has version {number}" if number else f"{what} has no version"
    numbers = " or ".join(str(one) for one in sorted(known))
    said = f"{said}, and {numbers} is known here"
    if number > max(known):
        return f"{said}: a newer wcache wrote it, update this one"
    return f"{said}: an older wcache wrote it" if number else said


def _has_field(cls: Type[Any]) -> bool:
    return "version" in cls.__dataclass_fields__
