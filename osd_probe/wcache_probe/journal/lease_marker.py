"""What udev's side of us may know of leases: which cache domains one holds now.

    <run>/leases/<state>.<entry>   empty; one for each journal entry of a lease

`<state>` is a hash of the journal's folder, `<entry>` the name of the entry's file.  A mark
is there before the entry and goes after it.  Each process makes and removes single files
of its own journal, so neither a restore of another domain nor a probe with another state
folder can lose one.
"""

from __future__ import annotations

import hashlib
import os
from typing import Iterable, Sequence, Set, Tuple
from urllib.parse import quote

from wcache.core.drive.journal import EntryKind
from wcache.core.errors import StorageError

from ..safe_files import mark, remove

SUFFIX = ".json"


def entry_file_name(key: str) -> str:
    """The name of the file of a journal entry."""
    return quote(key, safe="") + SUFFIX


class LeaseMarker:
    """The marks of all journals of a host; `of` gives those of one journal."""

    def __init__(self, run_dir: str) -> None:
        self._folder = os.path.join(run_dir, "leases")
        self._old = os.path.join(run_dir, "lease")  # one file for all, until version 0.1

    def of(self, journal_folder: str) -> JournalMarks:
        """The marks of the journal in a folder."""
        return JournalMarks(self._folder, self._old, journal_folder)

    def covers(self, domain_id: str) -> bool:
        """Whether a lease holds a domain; where the marks cannot be read, one may."""
        wanted = entry_file_name(f"{EntryKind.LEASE.value}/{domain_id}")
        try:
            names = os.listdir(self._folder)
        except FileNotFoundError:
            return os.path.lexists(self._old)
        except OSError:
            return True
        return any(name.partition(".")[2] == wanted for name in names)


class JournalMarks:
    """The marks of one journal."""

    def __init__(self, folder: str, old: str, journal_folder: str) -> None:
        self._folder = folder
        self._old = old
        real = os.path.realpath(journal_folder).encode("utf-8", "surrogateescape")
        self._prefix = hashlib.sha256(real).hexdigest()[:12] + "."

    def show(self, entry_name: str) -> None:
        """Mark an entry; on return whoever looks sees it."""
        mark(self._path(entry_name), 0o644, make=0o755)

    def hide(self, entry_name: str) -> None:
        """Take the mark of an entry away."""
        remove(self._path(entry_name), sync=None)

    def sync(self, entry_names: Iterable[str]) -> None:
        """Mark these and no others of this journal."""
        wanted = set(entry_names)
        for name in self._marked() - wanted:
            self.hide(name)
        for name in wanted:
            self.show(name)
        remove(self._old, sync=None)

    def of_others(self) -> Tuple[str, ...]:
        """The files of marks of other journals, in order."""
        return tuple(
            os.path.join(self._folder, name) for name in sorted(self._names())
            if not name.startswith(self._prefix)
        )

    def _marked(self) -> Set[str]:
        return {n[len(self._prefix) :] for n in self._names() if n.startswith(self._prefix)}

    def _names(self) -> Sequence[str]:
        try:
            return os.listdir(self._folder)
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise StorageError(f"cannot read {self._folder} ({error.strerror})") from None

    def _path(self, entry_name: str) -> str:
        return os.path.join(self._folder, self._prefix + entry_name)
