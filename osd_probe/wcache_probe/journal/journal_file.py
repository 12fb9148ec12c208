"""The probe's state folder: journal, identity, and the lock that lets one probe in.

    <state>/lock            held by the running probe or matrix, which it names (POSIX lock, so
                            that the kernel tells its pid)
    <state>/probe_id        who this probe is, over restarts
    <state>/journal/*.json  one file per entry, the key percent-encoded in its name

An entry is written to a temporary file, fsynced, renamed, and the folder fsynced: after
a crash it is there whole or not at all.  While an entry of a lease exists, a *mark* in the
run folder names its cache domain: what our udev rules start looks there before it touches
a drive.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import stat
import struct
import uuid
from typing import Callable, Dict, Optional, Tuple
from urllib.parse import quote, unquote

from wcache.core.drive.journal import ENTRY_BYTES_MAX, EntryKind
from wcache.core.errors import ConflictError, StorageError

from .lease_marker import SUFFIX, LeaseMarker, entry_file_name

NAME_BYTES_MAX = 200
ENTRIES_MAX = 4096
PROBE, MATRIX = "probe", "matrix"  # the programs that hold a state folder
FROZEN = "frozen"
_FLOCK = struct.Struct("@hhqqi")  # struct flock of fcntl(2) on 64-bit Linux

Sync = Callable[[int], None]  # fsync(2) of a file or a folder


class JournalFolder:
    """The Journal port on a folder.  Entries of leases are marked.

    Several processes may work on it at once, as long as each entry is one's business.
    """

    def __init__(self, folder: str, marker: LeaseMarker, sync: Sync = os.fsync) -> None:
        self._folder = folder
        self._marks = marker.of(folder)
        self._fsync = sync

    def read(self) -> Dict[str, str]:
        """All entries as they are, hostile and damaged ones too: `journal.parse` judges."""
        found = {}
        for name in self._names():
            found[unquote(name[: -len(SUFFIX)])] = _text_of(os.path.join(self._folder, name))
        return found

    def write(self, key: str, text: str) -> None:
        """Add or replace an entry; on return it is on stable storage."""
        path = self._path(key)
        names = self._names()
        if len(names) >= ENTRIES_MAX and entry_file_name(key) not in names:
            # what is in it must go on being read: it is the way back of so many drives
            raise StorageError(
                f"{self._folder} is full: it has {len(names)} entries",
                "roll back or accept what stands there: see `wcache-probe status`",
            )
        if _is_lease(entry_file_name(key)):
            self._marks.show(entry_file_name(key))
        temporary = path + ".new"
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = os.open(temporary, flags, 0o600)
            try:
                with open(fd, "w", encoding="utf-8", closefd=False) as file:
                    file.write(text)
                self._fsync(fd)
            finally:
                os.close(fd)
            os.rename(temporary, path)
        except OSError as error:
            raise _failed("write", path, error) from None
        sync_folder(self._folder, self._fsync)

    def remove(self, key: str) -> None:
        """Remove an entry; on return it is gone from stable storage."""
        path = self._path(key)
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass  # an attempt before this one may have ended here: what follows is still owed
        except OSError as error:
            raise _failed("remove", path, error) from None
        sync_folder(self._folder, self._fsync)
        if _is_lease(entry_file_name(key)):
            self._marks.hide(entry_file_name(key))

    def sync_marks(self) -> None:
        """Make the marks say what the entries say (a boot empties /run, a crash does not)."""
        self._marks.sync(name for name in self._names() if _is_lease(name))

    def marks_of_others(self) -> Tuple[str, ...]:
        """The files that mark leases which stand in other journals of this host."""
        return self._marks.of_others()

    def held_elsewhere(self, domain_id: str) -> str:
        """The mark by which a lease in another journal of this host holds a domain, or ""."""
        wanted = entry_file_name(f"{EntryKind.LEASE.value}/{domain_id}")
        marks = self._marks.of_others()
        return next((p for p in marks if os.path.basename(p).partition(".")[2] == wanted), "")

    def _names(self) -> list[str]:
        try:
            return sorted(n for n in os.listdir(self._folder) if n.endswith(SUFFIX))
        except OSError as error:
            raise _failed("read", self._folder, error) from None

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

    def held_elsewhere(self, domain_id: str) -> str:
        """Nobody asks: without a journal nothing is leased."""
        return ""


class StateFolder:
    """The folder of one probe; `lock` before anything in it is changed."""

    def __init__(self, path: str, run_dir: str, sync: Sync = os.fsync) -> None:
        self.path = path
        self._lock_fd: Optional[int] = None
        self._make(path, sync)
        self._make(os.path.join(path, "journal"), sync)
        self.journal = JournalFolder(os.path.join(path, "journal"), LeaseMarker(run_dir), sync)

    @staticmethod
    def _make(path: str, sync: Sync) -> None:
        try:
            make_folders(path, sync)
            found = os.stat(path)
        except OSError as error:
            raise _failed("make", path, error) from None
        if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise StorageError(
                f"others may write to {path}, and what is in it decides about drives",
                f"make it yours alone: chown {os.geteuid()} and chmod 0700",
            )

    def lock(self, program: str = PROBE) -> None:
        """Become the one `program` of this folder; ConflictError names another and its pid."""
        path = os.path.join(self.path, "lock")
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = os.open(path, flags, 0o600)
        except OSError as error:
            raise _failed("open", path, error) from None
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                raise _failed("lock", path, error) from None
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
        try:
            fd = os.open(os.path.join(self.path, "lock"), os.O_RDWR | os.O_CLOEXEC)
        except OSError:
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
        return MATRIX if _text_of(os.path.join(self.path, "lock")).strip() == MATRIX else PROBE

    def frozen(self) -> bool:
        """Whether the mgr said last that nothing may be changed."""
        return os.path.lexists(os.path.join(self.path, FROZEN))

    def note_frozen(self, frozen: bool) -> None:
        """Keep what the mgr says of that, for commands that run while no probe does."""
        path = os.path.join(self.path, FROZEN)
        # a full disk shall stop no probe
        with contextlib.suppress(OSError):
            if frozen:
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600))
            else:
                os.unlink(path)

    def probe_id(self) -> str:
        """The id of this probe, made at its first start."""
        path = os.path.join(self.path, "probe_id")
        known = _text_of(path).strip()
        if re.fullmatch(r"[0-9a-f]{32}", known):
            return known
        new = uuid.uuid4().hex
        try:
            with open(path + ".new", "w", encoding="ascii") as file:
                file.write(new + "\n")
                file.flush()
                os.fsync(file.fileno())
            os.rename(path + ".new", path)
        except OSError as error:
            raise _failed("write", path, error) from None
        return new


def make_folders(path: str, sync: Sync = os.fsync) -> None:
    """Make a folder and those above it, each on stable storage before what is in it.

    An entry is worth nothing in a folder whose name a power cut takes away.
    """
    parent = os.path.dirname(path)
    if not os.path.isdir(parent):
        make_folders(parent, sync)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    sync_folder(parent, sync)


def sync_folder(path: str, sync: Sync = os.fsync) -> None:
    """Put the names in a folder on stable storage; raises StorageError."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            sync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        raise _failed("sync", path, error) from None


def _is_lease(name: str) -> bool:
    return name.startswith(quote(EntryKind.LEASE.value + "/", safe=""))


def _text_of(path: str) -> str:
    """The text of a regular file; empty for anything else, cut where it is too long."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return ""
        with open(fd, "rb", closefd=False) as file:
            return file.read(ENTRY_BYTES_MAX + 1).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(fd)


def _failed(what: str, path: str, error: OSError) -> StorageError:
    return StorageError(f"cannot {what} {path} ({error.strerror})")
