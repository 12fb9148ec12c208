"""What a drive did, published as text in a mapped file that host and guest can read.

One ``name value`` per line, every value padded to the same width, so that an update is an
overwrite in place and a reader never sees a torn file longer than one value.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass, fields
from pathlib import Path

VALUE_WIDTH = 20


@dataclass(frozen=True)
class Counters:
    """Commands a drive has served since it was started, and blocks of 4 KiB it holds or lost."""

    read: int = 0
    write: int = 0
    fua: int = 0
    flush: int = 0
    flush_dirty: int = 0
    dirty: int = 0
    lost: int = 0
    bytes_written: int = 0

    def since(self, earlier: Counters) -> Counters:
        """Differences of the sums; ``dirty`` is a level and is taken as it is now."""
        values = {
            field.name: getattr(self, field.name) - getattr(earlier, field.name)
            for field in fields(self)
        }
        values["dirty"] = self.dirty
        return Counters(**values)

    def encode(self) -> bytes:
        return "".join(
            f"{field.name} {getattr(self, field.name):0{VALUE_WIDTH}d}\n" for field in fields(self)
        ).encode()

    @staticmethod
    def decode(text: str) -> Counters:
        """Raise ValueError on anything that ``encode`` does not write."""
        known = {field.name for field in fields(Counters)}
        values = dict(line.split() for line in text.splitlines())
        if set(values) != known:
            raise ValueError(f"counters should be {sorted(known)}, not {sorted(values)}")
        return Counters(**{name: int(value) for name, value in values.items()})


def read_counters(path: Path) -> Counters:
    return Counters.decode(path.read_text())


class CounterFile:
    """The writing side, owned by the drive's process."""

    def __init__(self, path: Path) -> None:
        empty = Counters().encode()
        path.write_bytes(empty)
        with path.open("r+b") as handle:
            self._map = mmap.mmap(handle.fileno(), len(empty))

    def publish(self, counters: Counters) -> None:
        self._map[:] = counters.encode()
