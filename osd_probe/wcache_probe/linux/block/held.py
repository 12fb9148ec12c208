"""Descriptors of one disk, opened once and used for all that is asked of it and done to it."""

from __future__ import annotations

import os
from typing import Callable, Dict

from wcache.core.errors import NotFoundError


class Held:
    """The open nodes of one coming of a disk: its own, and that of its controller.

    `there` says whether the disk is still the one whose sysfs folder is held open.
    """

    def __init__(self, name: str, there: Callable[[], bool]) -> None:
        self._name = name
        self._there = there
        self._open: Dict[str, int] = {}

    def descriptor(self, key: str, opener: Callable[[], int]) -> int:
        """A duplicate of the descriptor `key`, opened at the first call; the caller closes it.

        Raises NotFoundError where the disk went away while its node was opened: the name
        may have led to another one.
        """
        if key not in self._open:
            fd = opener()
            if not self._there():
                os.close(fd)
                raise NotFoundError(
                    f"{self._name} is no longer the disk it was",
                    "look again: drives were added or removed",
                )
            self._open[key] = fd
        return os.dup(self._open[key])

    def close(self) -> None:
        """Close all of them."""
        for fd in self._open.values():
            os.close(fd)
        self._open.clear()
