"""Single steps, of which the programs in this folder are made, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Generator, List, Optional, Sequence, Tuple, Type, Union

from wcache.core.drive.journal import JournalEntry, PriorDrive
from wcache.core.errors import (
    ConflictError,
    DisobeyedError,
    RefusedError,
    StorageError,
    WcacheError,
)
from wcache.core.model import CacheMode, DriveReport, DriveState
from wcache.core.options.option import SharedCache


@dataclass(frozen=True)
class WriteJournal:
    """Put the entry on stable storage."""

    entry: JournalEntry


@dataclass(frozen=True)
class RemoveJournal:
    """Take the entry away."""

    entry: JournalEntry


@dataclass(frozen=True)
class ReadState:
    """Read both sides of a drive and all layers; the program is sent a DriveState."""

    drive: DriveReport


@dataclass(frozen=True)
class Pin:
    """Hold the kernel view at write back."""

    drive: DriveReport


@dataclass(frozen=True)
class Flush:
    """Flush the drive by an explicit command."""

    drive: DriveReport


@dataclass(frozen=True)
class SetCache:
    """Switch the device cache, current value only; `rescue`: acknowledged data is lost else."""

    drive: DriveReport
    mode: CacheMode
    rescue: bool = False


@dataclass(frozen=True)
class SaveCache:
    """Make `mode` persistent; None takes our own persistence away and restores `saved`."""

    drive: DriveReport
    mode: Optional[CacheMode]
    saved: Optional[CacheMode] = None


@dataclass(frozen=True)
class ReadOptions:
    """Read a drive with its options; the program is sent a DriveState."""

    drive: DriveReport


@dataclass(frozen=True)
class SetOption:
    """Set an option of a drive; `back`: to what was there before."""

    drive: DriveReport
    name: str
    value: str
    back: bool = False


@dataclass(frozen=True)
class AskCache:
    """Check that acknowledged data may be on a backing drive's cache device alone, as it is now.

    Fails with a RefusedError where it may not, or where it is not what was `agreed` to.
    """

    drive: DriveReport
    agreed: Optional[SharedCache] = None


Step = Union[
    WriteJournal, RemoveJournal, ReadState, Pin, Flush, SetCache, SaveCache, ReadOptions, SetOption,
    AskCache,
]
_WORDS = {
    WriteJournal: "the journal is written", RemoveJournal: "the journal entry is removed",
    ReadState: "read", ReadOptions: "read", Pin: "pinned", Flush: "flushed",
    SetCache: "switched", SaveCache: "told what to keep", SetOption: "given an option",
    AskCache: "asked for its cache device",
}


def words(step: Step) -> str:
    """Say what a step does, for people."""
    if isinstance(step, (WriteJournal, RemoveJournal)):
        return _WORDS[type(step)]
    return f"{step.drive.dev_name} is {_WORDS[type(step)]}"


Program = Generator[Step, Optional[DriveState], "Switched"]


@dataclass(frozen=True)
class Switched:
    """What a program did: states before and after, read from the drives, in their order.

    `left`: what is still to come of it by itself before it is over.
    """

    before: Tuple[DriveState, ...]
    after: Tuple[DriveState, ...]
    changed: bool
    left: str = ""


def read(
    *drives: DriveReport, how: Union[Type[ReadState], Type[ReadOptions]] = ReadState
) -> Generator[Step, Optional[DriveState], Tuple[DriveState, ...]]:
    """Read drives one after the other; StorageError where one could not be read."""
    found: List[DriveState] = []
    for drive in drives:
        state = yield how(drive)
        if state is None:
            raise StorageError(f"{drive.dev_name} could not be read")
        found.append(state)
    return tuple(found)


def or_back(
    program: Program, entry: JournalEntry, drives: Sequence[DriveReport],
    restore: Callable[[JournalEntry, Sequence[DriveReport]], Program],
) -> Program:
    """Run a program; where it fails bring the prior state back, then refuse as the drive did."""
    try:
        return (yield from program)
    except WcacheError as error:
        back = yield from restore(entry, drives)
        but = f" but for {back.left}" if back.left else ""
        kind = DisobeyedError if isinstance(error, DisobeyedError) else RefusedError
        raise kind(f"{error.message}; the prior state is back{but}", error.advice) from None


def refuse_others(entry: JournalEntry, drives: Sequence[DriveReport]) -> None:
    """Raise RefusedError where a drive shares the switch whose prior state no entry has.

    It came since: what is toggled without an entry is not brought back by it.
    """
    known = {item.drive_id for item in entry.drives}
    for drive in drives:
        if drive.drive_id not in known:
            raise RefusedError(
                f"{drive.dev_name} shares the cache since, and the journal does not have it",
                "what the journal has goes back first, by `wcache-probe restore --all` or a "
                "rollback; then begin anew",
            )


def refuse_renamed(entry: JournalEntry, other: JournalEntry) -> None:
    """Raise ConflictError where another entry has a drive of this one as of another domain.

    A LUN that came or went gives the domain of a target another name, and the lock and the marks
    go by that name: either way back would undo the other.
    """
    for drive in in_both(entry, other) if other.domain_id != entry.domain_id else ():
        raise ConflictError(
            f"the journal has {drive.dev_name} as a drive of {other.domain_id} ({other.key})",
            "that goes back first, by `wcache-probe restore --all` or a rollback",
        )


def in_both(entry: JournalEntry, other: JournalEntry) -> Tuple[PriorDrive, ...]:
    """The drives of an entry that another one names too."""
    ids = {drive.drive_id for drive in other.drives}
    return tuple(drive for drive in entry.drives if drive.drive_id in ids)
