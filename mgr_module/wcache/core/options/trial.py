"""What an experiment compares, an arm each: the two cache modes, or two values of an option."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional

from ..errors import MalformedError
from ..hardware.bcache import Dirty
from ..hardware.readings import NAME_CHARS_MAX, VALUE_CHARS_MAX
from ..model import CacheMode, Verdict
from .entries import comparable, option
from .option import Option


@dataclass(frozen=True)
class Arms:
    """The words for two arms: `a` is measured where write back would be, `b` where the other.

    `alike` is what to do where neither is better.
    """

    a: str
    b: str
    alike: str = "leave it as it is"

    def name(self, mode: CacheMode) -> str:
        """Name the arm that is measured in a mode's place."""
        return self.a if mode is CacheMode.WRITE_BACK else self.b

    def said(self, verdict: Verdict) -> str:
        """Say a verdict in words: which arm is better, if one is."""
        return verdict.value if verdict.mode is None else self.name(verdict.mode)


CACHE_MODES = Arms(
    CacheMode.WRITE_BACK.value, CacheMode.WRITE_THROUGH.value, "leave the mode as it is"
)


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

    @property
    def arms(self) -> Arms:
        """What is compared, in words."""
        return Arms(f"{self.name} {self.a}", f"{self.name} {self.b}")

    def __str__(self) -> str:
        began = f" --dirty-data={self.dirty.value}" if self.dirty is not Dirty.ANY else ""
        return f"{self.name}={self.a},{self.b}{began}"


def arms_of(trial: Optional[OptionTrial]) -> Arms:
    """Return the words for two values of an option, or for the cache modes."""
    return CACHE_MODES if trial is None else trial.arms


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
