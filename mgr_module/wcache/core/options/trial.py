"""Two values of an option that are compared: they take the place of the two cache modes."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..errors import MalformedError
from ..hardware.bcache import Dirty
from ..hardware.readings import NAME_CHARS_MAX, VALUE_CHARS_MAX
from ..model import CacheMode, Verdict
from .entries import comparable, option
from .option import Option


@dataclass(frozen=True)
class OptionTrial:
    """An option and two of its values: `a` is measured in place of write back, `b` of the other.

    `dirty` is where bcache's dirty data was when each period began: what holds for one place need
    not hold for another, so they are never taken together.
    """

    name: str = field(metadata={"max_chars": NAME_CHARS_MAX})
    a: str = field(metadata={"max_chars": VALUE_CHARS_MAX})
    b: str = field(metadata={"max_chars": VALUE_CHARS_MAX})
    dirty: Dirty = Dirty.ANY

    def value(self, mode: CacheMode) -> str:
        """The value that stands in a mode's place."""
        return self.a if mode is CacheMode.WRITE_BACK else self.b

    @property
    def entry(self) -> Option:
        """Its entry; RefusedError where this version has none."""
        return option(self.name)

    def words(self, text: str) -> str:
        """A text about cache modes as one about the values."""
        for mode in CacheMode:
            text = text.replace(mode.value, f"{self.name} {self.value(mode)}")
        return text.replace("leave the mode as it is", "leave it as it is")

    def better(self, verdict: Verdict) -> str:
        """What a verdict says, in words."""
        return self.words(verdict.value)

    def __str__(self) -> str:
        began = f" --dirty-data={self.dirty.value}" if self.dirty is not Dirty.ANY else ""
        return f"{self.name}={self.a},{self.b}{began}"


def parse_trial(text: str) -> OptionTrial:
    """OPTION=A,B; raises a WcacheError that says what is wrong with it."""
    name, _, values = text.partition("=")
    parts = values.split(",")
    if len(parts) != 2 or not all(parts):
        raise MalformedError(
            f"{text[:80]!r} is not OPTION=A,B", "as in `ceph wcache ab nr_requests=64,256`"
        )
    entry = comparable(name)
    for value in parts:
        entry.require(value)
    if parts[0] == parts[1]:
        raise MalformedError(f"{name} {parts[0]} is no other value than {parts[1]}")
    return OptionTrial(name, parts[0], parts[1])
