"""What `--format json` prints: its version, and rows that may be too many to hold at once."""

from __future__ import annotations

from typing import Any, Callable, Dict, Generic, Iterator, Sequence, TypeVar

# Raised where a field changes its meaning or goes.
FORMAT_VERSION = 1

Item = TypeVar("Item")


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
