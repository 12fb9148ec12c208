"""What the harness says when it cannot go on: one clear line with what to do."""

from __future__ import annotations


class HarnessError(Exception):
    """A cluster could not be installed, started, reached or stopped."""


class CommandError(HarnessError):
    """A command ended with an error code, or not in time (`rc` is then None)."""

    def __init__(self, message: str, rc: int | None = None) -> None:
        super().__init__(message)
        self.rc = rc


class NotPossible(HarnessError):
    """This cluster cannot do that (say, a daemon whose pid file is not ours to see)."""
