"""Every way wcache refuses: by an error with its advice, or by what speaks against a drive.

Errors are one hierarchy; `errno` is what a `ceph` command returns.  The message says what is
wrong, the advice says what to do next, both in one line each.

What speaks against a change of a drive is a set, out of which a permission takes its own kinds.
Whoever looks collects all that it finds.  A refusal that is found first hides no other one, so
what permits it opens nothing else.
"""

from __future__ import annotations

import errno as codes
from dataclasses import dataclass
from enum import Enum
from typing import AbstractSet, Any, Iterable, Tuple

from .text import NOTHING, CommandLine


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
    """Somebody else holds what was asked for; `shown_by` is the command that shows who."""

    errno = codes.EBUSY

    def __init__(
        self, message: str, advice: str = "", shown_by: CommandLine = NOTHING
    ) -> None:
        super().__init__(message, advice)
        self.shown_by = shown_by


class RefusedError(WcacheError):
    """Something that would be unsafe, or that consent was not given for."""

    errno = codes.EPERM


class ConsentError(RefusedError):
    """A consent is missing: `told` is what would be begun, `word` the argument that consents."""

    def __init__(self, message: str, word: str, told: Any) -> None:
        super().__init__(message, f"add --{word.replace('_', '-')}")
        self.word = word
        self.told = told


class DisobeyedError(RefusedError):
    """A drive refused a change, or took it and did nothing; it is as it was."""


class NotReadyError(WcacheError):
    """Cannot be done now; the same call can succeed later."""

    errno = codes.EAGAIN


class StorageError(WcacheError):
    """A value could not be stored or read back."""

    errno = codes.EIO


class RefusalKind(str, Enum):
    """Why a drive is left as it is, in the order in which the reasons are told."""

    SHARED = "shared"  # something that is not an OSD uses it
    LEFT_ALONE = "left alone"  # nothing switches such a drive, or one that is reached like this
    DISOBEYED = "disobeyed"  # it refused a change of its cache mode, or took it and did nothing
    NO_FLUSH = "no flush"  # it refuses the command that a pin makes the kernel send
    UNSEEN = "unseen"  # whether other programs use it cannot be seen
    UNPROVEN = "unproven"  # whether its adapter's translation takes, and tells the truth
    STATE_UNKNOWN = "state unknown"  # what it is in could not be brought back
    OF_THROWAWAY = "throwaway clusters only"
    LOSES_DATA = "loses data"  # acknowledged writes are lost at a power cut now
    LOST_WRITES = "lost writes"  # its drive model did in a power cut
    LAYER_DROPS_FLUSHES = "a layer drops flushes"
    KERNEL_VIEW_UNKNOWN = "kernel view unknown"
    FLUSH_UNPROVEN = "flush unproven"  # whether its adapter passes flushes on
    JOURNAL_LOST = "journal lost"  # the next boot would have nothing of the journal
    NOT_PREPARED = "not prepared"  # the next boot would not pin it
    TURNS_ON = "turns on"  # a cache that is off comes on, which needs a consent of its own


REFUSALS_MAX = len(RefusalKind)
_RANK = {kind: rank for rank, kind in enumerate(RefusalKind)}


@dataclass(frozen=True)
class Refusal:
    """One thing that speaks against it; `text` stands behind the drive's name."""

    kind: RefusalKind
    text: str


def left(
    refusals: Iterable[Refusal], permitted: AbstractSet[RefusalKind]
) -> Tuple[Refusal, ...]:
    """Those whose kind nothing permits, in the order in which they are told."""
    found = [one for one in refusals if one.kind not in permitted]
    if len(found) > 1:  # a fleet is asked for each drive, and most have none
        found.sort(key=lambda one: _RANK[one.kind])
    return tuple(found)


def told(refusals: Iterable[Refusal]) -> str:
    """All of them in one line; empty where there are none."""
    return "; ".join(dict.fromkeys(one.text for one in left(refusals, frozenset())))
