"""Every way wcache refuses, with the advice that goes with it.

One hierarchy; `errno` is what a `ceph` command returns.  The message says what is
wrong, the advice says what to do next, both in one line each.
"""

from __future__ import annotations

import errno as codes


class WcacheError(Exception):
    """Base of everything that is answered with one clear line."""

    errno = codes.EINVAL
    advice = ""

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(message)
        self.message = message
        if advice:
            self.advice = advice

    def line(self) -> str:
        """The message and its advice as the one line a user sees."""
        return f"{self.message}: {self.advice}" if self.advice else self.message


class MalformedError(WcacheError):
    """Input that does not fit its schema; nothing of it was used."""


class VersionError(WcacheError):
    """A peer or a stored value of a version this code does not speak."""

    errno = codes.EPROTO


class NotFoundError(WcacheError):
    """A name that nothing here bears."""

    errno = codes.ENOENT


class ConflictError(WcacheError):
    """Somebody else holds what was asked for."""

    errno = codes.EBUSY


class RefusedError(WcacheError):
    """Something that would be unsafe, or that consent was not given for."""

    errno = codes.EPERM


class DisobeyedError(RefusedError):
    """A drive refused a change, or took it and did nothing; it is as it was."""


class NotReadyError(WcacheError):
    """Cannot be done now; the same call can succeed later."""

    errno = codes.EAGAIN


class StorageError(WcacheError):
    """A value could not be stored or read back."""

    errno = codes.EIO
