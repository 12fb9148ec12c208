"""What the probe's journal holds: the state a cache domain had before we touched it.

An entry is on stable storage before the first step of any change, and goes away only
after the prior state was read back.  Version 1 did not say of which cluster it is, nor by
what names a drive can be found again, version 2 not which of two entries is the later, and
only 4 and 5 know of options: an older entry is taken with these fields empty.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import ClassVar, Optional, Tuple

from .. import codec, versions
from ..errors import StorageError, VersionError, WcacheError
from ..model import CacheMode, DeviceCache, DriveReport, DriveState, KernelView, Transport
from ..option_value import VALUES_MAX, OptionValue

JOURNAL_VERSION = 5
VERSION_WITHOUT_OPTIONS = 3  # knows of none, and means the same for the cache mode
ENTRY_BYTES_MAX = 256_000


class EntryKind(str, Enum):
    """Why the prior state is kept."""

    LEASE = "lease"  # restored when the lease ends, in whatever way
    ACTION = "action"  # an applied change: restored by a rollback only


@dataclass(frozen=True)
class PriorDrive:
    """One drive as it was found, with all the names it can be found again by.

    `options`: where options were changed, and not the cache mode, what they were, in the order
    in which they go back.
    """

    drive_id: str
    dev_name: str
    transport: Transport
    mode: CacheMode
    state: DriveState
    wwid: str = ""
    serial: str = ""
    wwn: str = ""
    options: Tuple[OptionValue, ...] = field(default=(), metadata={"max_items": VALUES_MAX})

    @property
    def words(self) -> str:
        """What is put back."""
        return ", ".join(f"{one.name} {one.value}" for one in self.options) or self.mode.value


@dataclass(frozen=True)
class JournalEntry:
    """The prior state of one cache domain, and who asked for the change."""

    VERSION: ClassVar[int] = JOURNAL_VERSION
    READS: ClassVar[Tuple[int, ...]] = (1, 2, 3, 4)
    version: int
    kind: EntryKind
    owner_id: str  # the lease's or the action's id
    domain_id: str
    drives: Tuple[PriorDrive, ...]
    written_at_s: float
    throwaway: bool = False
    persisted: bool = False  # the saved value or a udev rule of ours was changed too
    cluster_fsid: str = ""  # the cluster on whose word it was written; empty where unknown
    serial: int = 0  # the journal counts its entries; 0 is one of an older version

    @property
    def key(self) -> str:
        """Where the entry stands: one lease per domain, one entry per action."""
        name = self.domain_id if self.kind is EntryKind.LEASE else self.owner_id
        return f"{self.kind.value}/{name}"

    @property
    def of_options(self) -> bool:
        """Whether it is about options, and the cache mode was not touched."""
        return any(drive.options for drive in self.drives)

    @property
    def order(self) -> Tuple[int, float]:
        """Greater for the later one of two entries of a journal, however the clock was set.

        Only among entries of older versions, which have no serial, does the clock decide.
        """
        return self.serial, 0.0 if self.serial else self.written_at_s


def prior_of(drives: Tuple[DriveReport, ...]) -> Tuple[PriorDrive, ...]:
    """The drives as found; raises StorageError where a mode is unknown (never journalled)."""
    found = []
    for drive in drives:
        if drive.mode is None:
            raise StorageError(f"{drive.dev_name}: an unknown cache state cannot be restored")
        found.append(
            PriorDrive(
                drive.drive_id, drive.dev_name, drive.transport, drive.mode,
                replace(drive.state, options=()),
                drive.wwid, drive.serial, drive.wwn,
            )
        )
    return tuple(found)


def encode(entry: JournalEntry) -> str:
    """The entry as JSON text; one of no options as an older probe reads it too."""
    plain = versions.to_plain(entry)
    if not entry.of_options:
        # after a package was rolled back a changed drive is still pinned, and goes back
        plain["version"] = VERSION_WITHOUT_OPTIONS
        for drive in plain["drives"]:
            del drive["options"], drive["state"]["options"]
    return codec.dumps(plain)


def parse(key: str, text: str) -> JournalEntry:
    """The entry in `text`; raises StorageError that names the key where it is damaged."""
    try:
        entry = versions.loads(JournalEntry, text, bytes_max=ENTRY_BYTES_MAX, what="it")
    except VersionError as error:
        raise StorageError(
            f"journal entry {key} cannot be read ({error.message})",
            "run `wcache-probe restore --all` of the version that wrote it",
        ) from None
    except WcacheError as error:
        raise StorageError(
            f"journal entry {key} is damaged ({error.message})",
            "restore the drive by hand, then remove the entry",
        ) from None
    return replace(entry, version=JOURNAL_VERSION)


def to_pin(text: str) -> Optional[JournalEntry]:
    """The drives of an entry of any version, to find and pin them; None where none can be told.

    The names that it reads are in the entries of every version.  It is good for pinning alone,
    which is safe whatever the entry means: nothing is restored by it, and the entry stays.
    """
    try:
        plain = codec.parse_json(text, bytes_max=ENTRY_BYTES_MAX, what="it")
        kind, domain_id = EntryKind(plain["kind"]), str(plain["domain_id"])
        drives = tuple(
            PriorDrive(
                str(one["drive_id"]), str(one["dev_name"]), Transport(one["transport"]),
                CacheMode(one["mode"]), DriveState(DeviceCache.UNKNOWN, KernelView.UNKNOWN),
                str(one.get("wwid", "")), str(one.get("serial", "")), str(one.get("wwn", "")),
            )
            for one in plain["drives"] if not one.get("options")
        )
        if not drives:
            return None
        return JournalEntry(
            JOURNAL_VERSION, kind, str(plain["owner_id"]), domain_id, drives, 0.0
        )
    except (WcacheError, KeyError, TypeError, ValueError, AttributeError):
        return None
