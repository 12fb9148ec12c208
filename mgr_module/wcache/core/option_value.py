"""A value that an option has on a drive: what a probe reports, and what is put back."""

from __future__ import annotations

from dataclasses import dataclass, field

NAME_CHARS_MAX = 64
VALUE_CHARS_MAX = 32
VALUES_MAX = 32


@dataclass(frozen=True)
class OptionValue:
    """An option of a drive, with its value as `Option.canonical` writes it."""

    name: str = field(metadata={"max_chars": NAME_CHARS_MAX})
    value: str = field(metadata={"max_chars": VALUE_CHARS_MAX})
