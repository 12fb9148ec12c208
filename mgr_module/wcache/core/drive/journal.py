"""What the probe's journal holds: the state a cache domain had before we touched it.

An entry is on stable storage before the first step of any change, and goes away only
after the prior state was read back.  It may be read by a probe of any other version, so a part of
it never changes: `FrozenEntry`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Any, ClassVar, Dict, List, Mapping, Optional, Sequence, Tuple

from .. import codec, versions
from ..errors import StorageError, VersionError, WcacheError
from ..hardware import VALUES_MAX, OptionValue
from ..model import (
    CacheMode,
    DeviceCache,
    DriveReport,
    DriveState,
    KernelView,
    Transport,
)

JOURNAL_VERSION = 5
ENTRY_BYTES_MAX = 256_000
NAMES = ("drive_id", "dev_name", "wwid", "serial", "wwn")  # by which a drive is found


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
    version: int
    kind: EntryKind
    owner_id: str  # the lease's or the action's id
    domain_id: str
    drives: Tuple[PriorDrive, ...]
    written_at_s: float
    throwaway: bool = False
    persisted: bool = False  # the saved value or a udev rule of ours was changed too
    cluster_fsid: str = ""  # the cluster on whose word it was written; empty where unknown
    serial: int = 0  # the journal counts its entries, from 1 on; 0 is one that it does not have

    @property
    def key(self) -> str:
        """Where the entry stands: one lease per domain, one entry per action."""
        return _key(self.kind, self.owner_id, self.domain_id)

    @property
    def of_options(self) -> bool:
        """Whether it is about options, and the cache mode was not touched."""
        return any(drive.options for drive in self.drives)


@dataclass(frozen=True)
class FrozenDrive:
    """What an entry of any version says of a drive: all its names, and what is put back.

    `saved` is the mode that it keeps over a power cycle, None where it keeps none.
    """

    drive_id: str
    dev_name: str
    transport: Transport
    mode: CacheMode
    saved: Optional[CacheMode] = None
    wwid: str = ""
    serial: str = ""
    wwn: str = ""
    options: Tuple[OptionValue, ...] = field(default=(), metadata={"max_items": VALUES_MAX})


@dataclass(frozen=True)
class FrozenEntry:
    """The part of an entry that every probe reads, whatever its version: it never changes.

    By it drives are found and pinned, and an admin can bring back what was there.
    """

    kind: EntryKind
    owner_id: str
    domain_id: str
    drives: Tuple[FrozenDrive, ...]

    @property
    def key(self) -> str:
        """Where the entry stands."""
        return _key(self.kind, self.owner_id, self.domain_id)


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
    """The entry as JSON text."""
    return versions.dumps(entry)


def parse(key: str, text: str) -> JournalEntry:
    """The entry in `text`; raises StorageError that names the key where it is damaged."""
    try:
        entry = versions.loads(JournalEntry, text, bytes_max=ENTRY_BYTES_MAX, what="it")
    except VersionError as error:
        number = versions.number_in(_object_in(text))
        raise StorageError(
            f"{of_version(key)}{number}, and {JOURNAL_VERSION} is known here" if number
            else f"journal entry {key} cannot be read ({error.message})",
            "update this probe, or run the one that wrote it; the entry stays until then",
        ) from None
    except WcacheError as error:
        raise StorageError(
            f"journal entry {key} is damaged ({error.message})",
            "restore the drive by hand, then remove the entry",
        ) from None
    return entry


def of_version(key: str) -> str:
    """How a probe begins to tell of an entry of another version; its number follows."""
    return f"journal entry {key} is of version "


def frozen(text: str) -> FrozenEntry:
    """The frozen part of an entry of any version; raises MalformedError where it has none."""
    plain = _object_in(text)
    drives = plain.get("drives")
    return codec.decode(FrozenEntry, {
        **_only(plain, ("kind", "owner_id", "domain_id")),
        "drives": [_frozen_drive(one) for one in drives] if isinstance(drives, list) else None,
    }, "it")


def drive_ids_in(text: str) -> Tuple[str, ...]:
    """The ids of the drives of an entry of any version; none where it cannot be read."""
    try:
        return tuple(drive.drive_id for drive in _drives_alone(_object_in(text)).drives)
    except WcacheError:
        return ()


def _object_in(text: str) -> Mapping[str, Any]:
    return codec.as_object(codec.parse_json(text, bytes_max=ENTRY_BYTES_MAX, what="it"))


def _frozen_drive(plain: Any) -> Dict[str, Any]:
    names = [item.name for item in fields(FrozenDrive) if item.name != "saved"]
    page = codec.as_object(codec.as_object(codec.as_object(plain).get("state")).get("page"))
    return {**_only(plain, names), "saved": page.get("saved")}


def _only(plain: Any, names: Sequence[str]) -> Dict[str, Any]:
    found = codec.as_object(plain)
    return {name: found[name] for name in names if name in found}


def to_pin(key: str, text: str) -> Optional[JournalEntry]:
    """Find the drives of an entry that cannot be read, to pin them; None where none can be told.

    It is good for what is safe whatever the entry means: its drives are pinned, and nothing is
    begun on them; nothing is restored by it, and it stays.  One of another number may have words
    that are not known here, and may have changed options of a drive and its mode too: all its
    drives are pinned.  In one of our number a drive that has options needs no pin, as its mode
    was not touched.
    """
    try:
        plain = _object_in(text)
        of_another = versions.number_in(plain) != JOURNAL_VERSION
        found = _drives_alone(plain) if of_another else frozen(text)
    except WcacheError:
        return None
    drives = tuple(
        PriorDrive(
            one.drive_id, one.dev_name, one.transport, one.mode,
            DriveState(DeviceCache.UNKNOWN, KernelView.UNKNOWN), one.wwid, one.serial, one.wwn,
        )
        for one in found.drives if not one.options
    )
    if not drives or not (of_another or found.key == key):
        return None
    return JournalEntry(
        JOURNAL_VERSION, found.kind, found.owner_id, found.domain_id, drives, written_at_s=0.0
    )


def _drives_alone(plain: Mapping[str, Any]) -> FrozenEntry:
    """Take what finds the drives of an entry: their names, and their domain, which is locked.

    What was changed of them is not asked.  A drive without its id is left out, as no disk can
    say that it is that one.
    """
    drives = plain.get("drives")
    found: List[FrozenDrive] = []
    for one in drives if isinstance(drives, list) else ():
        with suppress(WcacheError):
            found.append(codec.decode(FrozenDrive, {
                "dev_name": "", **_only(one, NAMES), "mode": CacheMode.WRITE_BACK.value,
                "transport": _transport(codec.as_object(one).get("transport")).value,
            }, "it"))
    part = {**_only(plain, ("domain_id",)), "kind": EntryKind.ACTION.value, "owner_id": ""}
    return replace(
        codec.decode(FrozenEntry, {**part, "drives": []}, "it"), drives=tuple(found)
    )


def _transport(word: Any) -> Transport:
    return next((one for one in Transport if one.value == word), Transport.UNKNOWN)


def _key(kind: EntryKind, owner_id: str, domain_id: str) -> str:
    return f"{kind.value}/{domain_id if kind is EntryKind.LEASE else owner_id}"


@dataclass(frozen=True)
class Acceptance:
    """A cache domain whose entries an admin gave up, until the probe has dropped them.

    `owners` are the runs and plans that it owed something.
    """

    hostname: str
    domain_id: str
    keys: Tuple[str, ...] = field(default=(), metadata={"max_items": 64})
    owners: Tuple[str, ...] = ()


@dataclass(frozen=True)
class Acceptances:
    """All of them, as they are stored."""

    VERSION: ClassVar[int] = 1
    items: Tuple[Acceptance, ...] = field(default=(), metadata={"max_items": 100_000})
