"""The probe's state folder: its journal, its identity, the lock that lets one probe in.

    <state>/lock            held by the running probe or matrix, which it names (POSIX lock, so
                            that the kernel tells its pid)
    <state>/probe_id        who this probe is, over restarts
    <state>/journal/*.json  one file per entry, the key percent-encoded in its name

An entry is written to a temporary file, fsynced, renamed, and the folder fsynced: after
a crash it is there whole or not at all.  While an entry of a lease exists, a *mark* in the
run folder names its cache domain: what our udev rules start looks there before it touches
a drive.

    <run>/leases/<state>.<entry>   the ids of its drives; one for each journal entry of a lease

`<state>` is a hash of the journal's folder, `<entry>` the name of the entry's file.  A mark
is there before the entry and goes after it.  Each process makes and removes single files
of its own journal, so neither a restore of another domain nor a probe with another state
folder can lose one.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import re
import struct
import sys
import uuid
from typing import AbstractSet, Dict, Mapping, Optional, Sequence, Tuple
from urllib.parse import quote, unquote

from wcache.core.drive.journal import ENTRY_BYTES_MAX, EntryKind, drive_ids_in
from wcache.core.errors import ConflictError, StorageError

from ..safe_files import (
    Sync,
    failure,
    make_folder,
    mark,
    open_lock,
    read_own,
    remove,
    stay_in,
    why_others_change,
    write_whole,
)

SUFFIX = ".json"


def entry_file_name(key: str) -> str:
    """The name of the file of a journal entry."""
    return quote(key, safe="") + SUFFIX


class LeaseMarker:
    """The marks of a host; those of the journal in a folder are made and removed."""

    def __init__(self, run_dir: str, journal_folder: str = "") -> None:
        self._folder = os.path.join(run_dir, "leases")
        real = os.path.realpath(journal_folder).encode("utf-8", "surrogateescape")
        self._prefix = hashlib.sha256(real).hexdigest()[:12] + "."

    def covers(self, domain_id: str, drive_id: str = "") -> bool:
        """Whether a lease holds a domain, or a drive; where the marks cannot be read, one may.

        A LUN that came or went gives the domain of a drive another name.
        """
        wanted = entry_file_name(f"{EntryKind.LEASE.value}/{domain_id}")
        try:
            names = self._names()
        except StorageError:
            return True
        if any(name.partition(".")[2] == wanted for name in names):
            return True
        paths = [os.path.join(self._folder, name) for name in names if drive_id]
        return any(self.has(path, drive_id) for path in paths)

    def has(self, path: str, drive_id: str) -> bool:
        """Whether a mark names a drive; one that cannot be read may name any."""
        text = read_own(path, ENTRY_BYTES_MAX)
        return os.path.lexists(path) if text is None else drive_id in text.split("\n")

    def show(self, entry_name: str, drive_ids: str) -> None:
        """Mark an entry; on return whoever looks sees it, and its drives, one in a line."""
        write_whole(self._path(entry_name), drive_ids, 0o644, make=0o755, sync=None)

    def hide(self, entry_name: str) -> None:
        """Take the mark of an entry away."""
        remove(self._path(entry_name), sync=None)

    def sync(self, drive_ids: Mapping[str, str]) -> None:
        """Mark these and no others of this journal: the drives of each entry, by its name."""
        at = len(self._prefix)
        marked = {name[at:] for name in self._names() if name.startswith(self._prefix)}
        for name in marked - drive_ids.keys():
            self.hide(name)
        for name, ids in drive_ids.items():
            self.show(name, ids)

    def of_others(self) -> Tuple[str, ...]:
        """The files of marks of other journals, in order."""
        return tuple(
            os.path.join(self._folder, name) for name in sorted(self._names())
            if not name.startswith(self._prefix)
        )

    def _names(self) -> Sequence[str]:
        with failure(f"cannot read {self._folder}"), contextlib.suppress(FileNotFoundError):
            # one that is being written has a name with a dot
            return [name for name in os.listdir(self._folder) if not name.startswith(".")]
        return ()

    def _path(self, entry_name: str) -> str:
        return os.path.join(self._folder, self._prefix + entry_name)


MEND = "`chown root` it or `chmod go-w` it; the journal is there, so name no other folder"
NAME_BYTES_MAX = 200
ENTRIES_MAX = 4096
PROBE_ID = "probe_id"
PROBE, MATRIX = "probe", "matrix"  # the programs that hold a state folder
FROZEN = "frozen"
_FLOCK = struct.Struct("@hhqqi")  # struct flock of fcntl(2) on 64-bit Linux


class JournalFolder:
    """The Journal port, which says what its methods do, on a folder.  Entries of leases are marked.

    Several processes may work on it at once, as long as each entry is one's business.
    """

    def __init__(
        self, folder: str, run_dir: str, sync: Sync = os.fsync, folders: Sequence[str] = (),
    ) -> None:
        """`folders` are put on stable storage before the first entry is written.

        Whoever made them may have been ended before he came to that.  It is not done sooner: an
        fsync may take very long, and what only restores needs none.
        """
        self._folder = folder
        self.marks = LeaseMarker(run_dir, folder)
        self._fsync = sync
        self._folders = tuple(folders)

    def read(self) -> Dict[str, str]:
        found = {}
        for name in self._names():
            text = read_own(os.path.join(self._folder, name), ENTRY_BYTES_MAX + 1)
            found[unquote(name[: -len(SUFFIX)])] = text or ""
        return found

    def write(self, key: str, text: str) -> None:
        path = self._path(key)
        names = self._names()
        if len(names) >= ENTRIES_MAX and entry_file_name(key) not in names:
            # what is in it must go on being read: it is the way back of so many drives
            raise StorageError(
                f"{self._folder} is full: it has {len(names)} entries",
                "roll back or accept what stands there: see `wcache-probe status`",
            )
        # what stands there already can be finished, and nothing is begun
        why = why_others_change(self._folder) if entry_file_name(key) not in names else ""
        if why:
            raise StorageError(f"nothing is begun in {self._folder} ({why})", MEND)
        lease = _is_lease(entry_file_name(key))
        if lease:
            self.marks.show(entry_file_name(key), _drive_ids(text))
        try:
            for folder in self._folders:
                make_folder(folder, self._fsync)
            self._folders = ()
            write_whole(path, text, sync=self._fsync)
        except StorageError:
            # nothing is leased: the mark would keep rules and other probes off for good
            if lease and not os.path.lexists(path):
                with contextlib.suppress(StorageError):
                    self.marks.hide(entry_file_name(key))
            raise

    def remove(self, key: str) -> None:
        """Remove an entry; on return it is gone from stable storage."""
        remove(self._path(key), self._fsync)
        # where it was gone already, an attempt before this one may have ended here
        if _is_lease(entry_file_name(key)):
            self.marks.hide(entry_file_name(key))

    def sync_marks(self) -> None:
        """Make the marks say what the entries say (a boot empties /run, a crash does not)."""
        self.marks.sync({
            entry_file_name(key): _drive_ids(text) for key, text in self.read().items()
            if _is_lease(entry_file_name(key))
        })

    def held_elsewhere(self, domain_id: str, drive_ids: AbstractSet[str]) -> str:
        wanted = entry_file_name(f"{EntryKind.LEASE.value}/{domain_id}")
        return next((
            path for path in self.marks.of_others()
            if os.path.basename(path).partition(".")[2] == wanted
            or any(self.marks.has(path, drive_id) for drive_id in drive_ids)
        ), "")

    def _names(self) -> list[str]:
        with failure(f"cannot read {self._folder}"):
            return sorted(n for n in os.listdir(self._folder) if n.endswith(SUFFIX))

    def _path(self, key: str) -> str:
        name = entry_file_name(key)
        if len(name) > NAME_BYTES_MAX + len(SUFFIX):
            raise StorageError(f"the journal key {key[:60]}... is too long for a file name")
        return os.path.join(self._folder, name)


class NoJournal:
    """The Journal port for programs that write nothing down: it holds nothing and takes nothing."""

    def read(self) -> Dict[str, str]:
        """Nothing."""
        return {}

    def write(self, key: str, text: str) -> None:
        """Refused."""
        raise StorageError(f"no journal is kept here, so {key} cannot be changed")

    def remove(self, key: str) -> None:
        """Nothing was there."""

    def held_elsewhere(self, domain_id: str, drive_ids: AbstractSet[str]) -> str:
        """Nobody asks: without a journal nothing is leased."""
        return ""


class StateFolder:
    """The folder of one probe; `lock` before anything in it is changed."""

    def __init__(self, path: str, run_dir: str, sync: Sync = os.fsync) -> None:
        self.path = path
        self._lock_fd: Optional[int] = None
        journal = os.path.join(path, "journal")
        found = [folder for folder in (path, journal) if os.path.isdir(folder)]
        if journal in found:
            self._stay()
            why = why_others_change(journal)
            if why:
                print(f"wcache-probe: warning: {why}: {MEND}; until then nothing is begun",
                      file=sys.stderr, flush=True)
        for folder in (path, journal):
            make_folder(folder, None if folder in found else sync)
        if journal not in found:
            self._stay()
        self.journal = JournalFolder(journal, run_dir, sync, found)

    def _stay(self) -> None:
        with contextlib.suppress(OSError):  # the walk from above says what is wrong
            stay_in(self.path)

    def lock(self, program: str = PROBE) -> None:
        """Become the one `program` of this folder; ConflictError names another and its pid."""
        path = os.path.join(self.path, "lock")
        fd = open_lock(path)
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                raise StorageError(f"cannot lock {path} ({error.strerror})") from None
            pid = self.holder()
            who = f"a {self.program()} (pid {pid})" if pid else "a probe"
            raise ConflictError(
                f"{who} is running with {self.path}",
                "stop that one first, or give this one a folder and a host name of its own",
            ) from None
        self._lock_fd = fd
        with contextlib.suppress(OSError):  # it is only told: a full disk shall stop no probe
            os.ftruncate(fd, 0)
            os.write(fd, program.encode("ascii"))

    @property
    def locked(self) -> bool:
        """Whether `lock` was called and went well."""
        return self._lock_fd is not None

    def holder(self) -> int:
        """Pid of the process that holds the lock, in our own pid namespace; 0 is none.

        The kernel translates the pid (fs/locks.c, posix_lock_to_flock()), so a probe in a
        container of its own is never mistaken for some process of ours.
        """
        if self._lock_fd is not None:  # closing any descriptor of it would drop our lock
            return os.getpid()
        if not os.path.lexists(os.path.join(self.path, "lock")):
            return 0
        try:
            fd = open_lock(os.path.join(self.path, "lock"))
        except StorageError:
            return 0
        try:
            asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, asked))
        except (OSError, struct.error):
            return 0
        finally:
            os.close(fd)
        return 0 if kind == fcntl.F_UNLCK else max(0, int(pid))

    def program(self) -> str:
        """What the process is that holds the lock, where one of another process does."""
        named = read_own(os.path.join(self.path, "lock"), NAME_BYTES_MAX) or ""
        return MATRIX if named.strip() == MATRIX else PROBE

    def frozen(self) -> bool:
        """Whether the mgr said last that nothing may be changed."""
        return os.path.lexists(os.path.join(self.path, FROZEN))

    def note_frozen(self, frozen: bool) -> None:
        """Keep what the mgr says of that, for commands that run while no probe does."""
        path = os.path.join(self.path, FROZEN)
        # a full disk shall stop no probe
        with contextlib.suppress(StorageError):
            if frozen:
                mark(path)
            else:
                remove(path, sync=None)

    def probe_id(self) -> str:
        """The id of this probe, made at its first start."""
        path = os.path.join(self.path, PROBE_ID)
        known = (read_own(path, NAME_BYTES_MAX) or "").strip()
        if re.fullmatch(r"[0-9a-f]{32}", known):
            return known
        new = uuid.uuid4().hex
        write_whole(path, new + "\n")
        return new


def _is_lease(name: str) -> bool:
    return name.startswith(quote(EntryKind.LEASE.value + "/", safe=""))


def _drive_ids(text: str) -> str:
    """The ids of the drives of an entry, one in a line; empty where it cannot be read."""
    return "\n".join(drive_ids_in(text))
