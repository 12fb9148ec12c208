"""The doors from the pure core to the world: one Protocol each.

Every port has a real adapter, and one of test equipment, on which the whole product runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import AbstractSet, Callable, Dict, Mapping, Optional, Protocol, Sequence, Tuple

from .config_database import ConfigEdit, Entry
from .drive.journal import JournalEntry
from .errors import StorageError
from .hardware import Controller, FlushCounters, HostMemory, OptionValue
from .model import CacheMode, DriveReport, DriveState, Finding, LoadPoint, Role
from .protocol import PollReply, SamplesOutcome


class DriveHost(Protocol):
    """Probe side: the drives of one host and their switches.

    Every method may raise `WcacheError`; none changes anything but what it is named for.
    """

    def watched_by(self, at: Callable[[str], None], before_change: Callable[[], None]) -> None:
        """From now on tell `at` what may have to be waited for, as a device that is opened.

        `before_change` is asked with the device open, right before it is changed: it may raise.
        """

    def look(self) -> Tuple[DriveReport, ...]:
        """Every drive that an OSD of this host uses, freshly read."""

    def host_findings(self) -> Tuple[Finding, ...]:
        """What is wrong with the host itself, beside the findings of its drives."""

    def controllers(self) -> Tuple[Controller, ...]:
        """What vendors' tools tell of the host's storage controllers."""

    def memory(self) -> Optional[HostMemory]:
        """RAM and limits of the host; None where they are not known."""

    def lost_writes(self) -> Mapping[str, str]:
        """What power cuts on this host have shown to be lost, by drive model, for people."""

    def domain(self, domain_id: str) -> Tuple[DriveReport, ...]:
        """The drives of one cache domain, freshly read; NotFoundError if there are none."""

    def anew(self, drives: Sequence[DriveReport]) -> Tuple[DriveReport, ...]:
        """Drives that were surveyed before their lock was taken, as they are under it.

        Their states are read, and whether the next boot pins them is looked at again.  One
        that is refused for anything else may be one that answers no command: it is not asked.
        """

    def here(self, entry: JournalEntry) -> Tuple[DriveReport, ...]:
        """What has to be pinned for a journal entry, before anything else is looked at.

        Every path to each of its drives, and whatever shares their switch by now; one that
        cannot be read is left out.
        """

    def prior(self, entry: JournalEntry) -> Tuple[DriveReport, ...]:
        """The drives of a journal entry that are here, freshly read; no other one is asked.

        Who else uses them is not looked for: they are on their way back.
        """

    def state(self, drive: DriveReport) -> DriveState:
        """Both sides of the cache and every layer, read from the devices now."""

    def counters(self, drive: DriveReport) -> Optional[FlushCounters]:
        """The kernel's write and flush counters of the drive; None before Linux 5.5."""

    def pin(self, drive: DriveReport) -> None:
        """Hold the kernel view at write back, whatever the drive does (`safety.py`)."""

    def flush(self, drive: DriveReport) -> None:
        """Write the volatile cache to the medium, by an explicit command to the drive."""

    def set_cache(self, drive: DriveReport, mode: CacheMode) -> None:
        """Switch the device cache, current value only; returns when the drive accepted it."""

    def save_cache(
        self, drive: DriveReport, mode: Optional[CacheMode], saved: Optional[CacheMode]
    ) -> None:
        """Make `mode` what the drive has after power-on.

        With None: take our own rule away and bring the saved value back to `saved`.
        """

    def bcache_members(self, drive: DriveReport) -> Tuple[DriveReport, ...]:
        """The drives below each bcache device above a drive, its cache too; no other is asked."""

    def set_option(
        self, drive: DriveReport, name: str, value: str, *, back: bool = False
    ) -> None:
        """Set an option that has an entry to a value that it allows; RefusedError by name.

        `back`: it is what was there before, which may lie beyond what the entry allows.
        """

    def option_values(self, drive: DriveReport) -> Tuple[OptionValue, ...]:
        """Every option that the drive has, read now."""

    def time_flushes(
        self, drive: DriveReport, osd_id: int, role: Role, count: int,
        seconds_max: float, latency_limit_ms: float, spread_s: float = 0.0,
    ) -> SamplesOutcome:
        """Time bare fdatasync() calls on the device that plays `role` for the OSD."""

    def measure(
        self, drive: DriveReport, osd_id: int, load_point: LoadPoint, count: int,
        spread_s: float = 0.0,
    ) -> SamplesOutcome:
        """Simulated hosts: what the OSD would have measured; RefusedError on real ones."""


class Journal(Protocol):
    """Probe side: what was there before we touched anything; survives a crash.

    Every method returns after the change is on stable storage.
    """

    def read(self) -> Dict[str, str]:
        """All entries, key to JSON text as found; `journal.parse` says which are damaged."""

    def write(self, key: str, text: str) -> None:
        """Add or replace an entry, atomically and fsynced."""

    def remove(self, key: str) -> None:
        """Remove an entry; one that is not there is fine."""

    def held_elsewhere(self, domain_id: str, drive_ids: AbstractSet[str]) -> str:
        """What says that a lease of another journal of this host holds a domain or a drive of it.

        Empty without one.  A LUN that came or went gives a domain another name.
        """


class MgrLink(Protocol):
    """Probe side: the way to the module.

    Raises NotReadyError when no mgr answers within `timeout_s`, another WcacheError when
    one refuses or its reply makes no sense.
    """

    def poll(self, hello_json: str, timeout_s: float) -> PollReply:
        """Ask for work, with a Hello."""

    def post(self, post_json: str, timeout_s: float) -> PollReply:
        """Report with a Post; idempotent, since librados resends after a mgr restart."""


@dataclass(frozen=True)
class Write:
    """A value to be stored under a key; None removes the key."""

    key: str
    text: Optional[str]


# Told once, from any thread: None when everything is stored, else what went wrong.
Done = Callable[[Optional[StorageError]], None]


class Store(Protocol):
    """Module side: small texts that survive a mgr restart.

    Nothing here waits for the mons.  What was queued is read back at once, and it is stored
    only when `done` has said so.
    """

    def get(self, key: str) -> Optional[str]:
        """The value, or None."""

    def keys(self, prefix: str) -> Sequence[str]:
        """All keys that start with `prefix`, sorted."""

    def sizes(self, prefix: str) -> Mapping[str, int]:
        """Bytes kept for each key that starts with `prefix`."""

    def write(self, writes: Sequence[Write], done: Done) -> None:
        """Queue writes that are made in order; the first that fails ends them."""

    def write_later(self, key: str, text: Optional[str]) -> None:
        """Queue a write that may wait, and that a newer one of its key replaces."""

    def end(self, done: Done) -> None:
        """Queue the removal of all keys; nothing is written after it, unless it fails."""

    def trouble(self) -> str:
        """One line on what the mons do not store now, or ""."""


class ConfigDatabase(Protocol):
    """Module side: the mons' config database, as far as knobs go by it.

    Raises NotReadyError where the mons give no answer (a write may be made all the same),
    RefusedError where they refuse.
    """

    def read(self) -> Tuple[Entry, ...]:
        """What it says now."""

    def write(self, edit: ConfigEdit) -> None:
        """Set or remove one value."""

    def osd_value(self, osd_id: int, name: str) -> Optional[str]:
        """An option as an OSD itself has it; None where it gives no answer."""
