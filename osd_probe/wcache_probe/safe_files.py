"""Files by descriptors: root follows no name that another user can make.

A path is walked from the root, each step by the descriptor of the folder before it.  A folder is
trusted where it belongs to a trusted user and others can make no names in it; in a sticky one,
as /tmp, others make names and cannot replace ours, so there whatever is followed must itself
belong to a trusted user.  Links are followed where a trusted user made them.

Files are read where they are regular ones: a device or a FIFO is never opened, since opening
alone may wait for ever, start a watchdog or rewind a tape.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager, suppress
from typing import Callable, Dict, FrozenSet, Iterator, Optional, Tuple

from wcache.core.errors import StorageError, WcacheError

Sync = Callable[[int], None]  # fsync(2) of a file or a folder
Trusted = Optional[FrozenSet[int]]  # user ids; None where it does not matter who made a name

LINKS_MAX = 40  # include/linux/namei.h, MAXSYMLINKS
STEPS_MAX = 512
TEXT_BYTES_MAX = 4096
_CHUNK = 65536
_HANDLE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


# Folders of ours that are reached as long as we run, whoever may change those above them.
_stayed_in: Dict[str, int] = {}


class UntrustedError(OSError):
    """A name on a path is one that other users may change; `strerror` says which."""

    def __init__(self, why: str) -> None:
        super().__init__(errno.EPERM, why)


def own_users() -> FrozenSet[int]:
    """Whose names we follow when we write: root's and our own."""
    return frozenset((0, os.geteuid()))


@contextmanager
def closing_fd(fd: int) -> Iterator[int]:
    """Close a descriptor at the end."""
    try:
        yield fd
    finally:
        os.close(fd)


# ---- walking


def find(
    path: str, trusted: Trusted, root: str = "/", make: Optional[int] = None,
    sync: Optional[Sync] = None, given_away: bool = False,
) -> int:
    """An O_PATH descriptor of what is at an absolute path, links followed; the caller closes it.

    `root` is where the path begins, as /proc/PID/root: no link leads out of it.  With `make`
    folders that are not there are made with that mode, and with `sync` each is on stable
    storage before what is in it.  With `given_away` what is there may belong to anybody: a
    device's node, whose name only the trusted can have made.  Raises UntrustedError and other
    OSErrors.
    """
    opened = [os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)]
    names = [""]
    todo = path.split("/")[::-1]
    links = steps = 0
    try:
        while todo:
            part = todo.pop()
            steps += 1
            if steps > STEPS_MAX:
                raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
            if part in ("", "."):
                continue
            if part == "..":
                if len(opened) > 1:
                    os.close(opened.pop())
                    names.pop()
                continue
            _check_folder(opened[-1], "/".join(names) or "/", trusted)
            fd = _step(opened[-1], part, make, sync if make is not None else None, not todo)
            if stat.S_ISLNK(os.fstat(fd).st_mode):
                with closing_fd(fd):
                    _check_owner(fd, "/".join((*names, part)), trusted)
                    target = os.readlink("", dir_fd=fd)
                links += 1
                if links > LINKS_MAX:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                if target.startswith("/"):
                    while len(opened) > 1:
                        os.close(opened.pop())
                    names = [""]
                todo += target.split("/")[::-1]
            else:
                opened.append(fd)
                names.append(part)
        if not given_away:
            _check_owner(opened[-1], "/".join(names) or "/", trusted)
        return os.dup(opened[-1])
    finally:
        for fd in opened:
            os.close(fd)


def is_there(path: str, trusted: Trusted, root: str = "/") -> bool:
    """Whether a name is there, be it a link that leads nowhere."""
    folder, name = os.path.split(path)
    try:
        with closing_fd(find(folder, trusted, root)) as handle:
            os.stat(name, dir_fd=handle, follow_symlinks=False)
    except OSError:
        return False
    return True


def _step(
    folder: int, name: str, make: Optional[int], sync: Optional[Sync], last: bool
) -> int:
    """What has a name in a folder.

    Where it was to be made, the name of the last one is synced whoever made it: he may have
    been ended before he came to that.
    """
    made = False
    try:
        fd = os.open(name, _HANDLE, dir_fd=folder)
    except FileNotFoundError:
        if make is None:
            raise
        with suppress(FileExistsError):
            os.mkdir(name, make, dir_fd=folder)
        made = True
        fd = os.open(name, _HANDLE, dir_fd=folder)
    if sync is not None and (made or last):
        try:
            with closing_fd(os.open(".", _FOLDER, dir_fd=folder)) as opened:
                sync(opened)
        except BaseException:
            os.close(fd)
            raise
    return fd


def _check_owner(fd: int, shown: str, trusted: Trusted) -> None:
    owner = os.fstat(fd).st_uid
    if trusted is not None and owner not in trusted:
        raise UntrustedError(f"{shown} belongs to another user, of id {owner}")


def _check_folder(fd: int, shown: str, trusted: Trusted, alone: bool = False) -> None:
    """Raise where others than the trusted may put another thing under a name in a folder."""
    if trusted is None:
        return
    _check_owner(fd, shown, trusted)
    status = os.fstat(fd)
    if not stat.S_ISDIR(status.st_mode):
        raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    if status.st_mode & stat.S_ISVTX and not alone:
        return
    by_group = status.st_mode & stat.S_IWGRP and (
        status.st_gid != os.getegid() or has_acl(f"/proc/self/fd/{fd}")
    )
    if by_group or status.st_mode & stat.S_IWOTH:
        raise UntrustedError(f"others may write to {shown}: chmod go-w takes that from them")


def has_acl(path: str) -> bool:
    """Whether named users have rights of their own, of which the group's bits show the sum."""
    try:
        os.getxattr(path, "system.posix_acl_access")
    except OSError:
        return False
    return True


# ---- reading


def read_bytes(path: str, bytes_max: int = TEXT_BYTES_MAX) -> Optional[bytes]:
    """The beginning of a regular file that a path leads to; None for anything else.

    For names of the kernel, of the system and of an admin: whoever made them is not asked.
    """
    with suppress(OSError, ValueError):
        return read_handle(os.open(path, os.O_PATH | os.O_CLOEXEC), bytes_max)
    return None


def read_of(path: str, bytes_max: int, trusted: Trusted, root: str = "/") -> Optional[bytes]:
    """The same of a file that none but the trusted may have put there, else UntrustedError."""
    try:
        return read_handle(find(path, trusted, root), bytes_max)
    except UntrustedError:
        raise
    except (OSError, ValueError):
        return None


def read_own(path: str, bytes_max: int) -> Optional[str]:
    """The same as text, of a file in a folder of ours, which itself is no link."""
    with suppress(OSError, ValueError), folder_of(path) as (folder, name):
        data = read_handle(os.open(name, _HANDLE, dir_fd=folder), bytes_max)
        return None if data is None else data.decode("utf-8", "replace")
    return None


def open_regular(handle: int) -> int:
    """What an O_PATH descriptor is, opened to read; OSError where it is no regular file.

    The descriptor is closed.
    """
    with closing_fd(handle):
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        return os.open(f"/proc/self/fd/{handle}", _READ)


def read_handle(handle: int, bytes_max: int) -> Optional[bytes]:
    """The same of what an O_PATH descriptor is, which is closed."""
    data = b""
    try:
        with closing_fd(open_regular(handle)) as fd:
            # a seq_file answers with a page at a time, so one read(2) is not all of it
            while len(data) < bytes_max:
                chunk = os.read(fd, min(bytes_max - len(data), _CHUNK))
                if not chunk:
                    break
                data += chunk
    except OSError:
        return None
    return data


# ---- writing


@contextmanager
def failure(
    what: str, advice: str = "", kind: Callable[[str, str], WcacheError] = StorageError
) -> Iterator[None]:
    """Say of an OSError in one line what failed, and why; by itself a StorageError."""
    try:
        yield
    except UntrustedError as error:
        raise kind(f"{what} ({error.strerror})", "name a folder that is root's alone") from None
    except OSError as error:
        raise kind(f"{what} ({error.strerror or error})", advice) from None


@contextmanager
def folder_of(
    path: str, make: Optional[int] = None, sync: Optional[Sync] = None
) -> Iterator[Tuple[int, str]]:
    """The folder of a file that we may write, by descriptor, and the file's name in it."""
    parent, name = os.path.split(os.path.abspath(path))
    with closing_fd(open_folder(parent, make, sync)) as fd:
        yield fd, name


def open_folder(
    path: str, make: Optional[int] = None, sync: Optional[Sync] = None, alone: bool = False
) -> int:
    """A folder in which root's names stay what they are, opened; the caller closes it.

    With `alone` nobody else may make names in it: not in a sticky one either.
    """
    try:
        handle = find(path, own_users(), make=make, sync=sync)
    except UntrustedError:
        base = next((b for b in _stayed_in if f"{path}/".startswith(f"{b}/")), None)
        if base is None:
            raise
        root = f"/proc/self/fd/{_stayed_in[base]}"
        handle = find(path[len(base):], own_users(), root, make, sync)
    with closing_fd(handle):
        _check_folder(handle, path, own_users(), alone)
        return os.open(".", _FOLDER, dir_fd=handle)


def stay_in(path: str) -> None:
    """Reach a folder that is ours alone from now on, whoever may change those above it.

    It is held open, so another that is put in its place is not taken for it.  A link is not
    followed.  Raises OSErrors.
    """
    fd = os.open(path, _FOLDER | os.O_NOFOLLOW)
    try:
        _check_folder(fd, path, own_users(), alone=True)
    except OSError:
        os.close(fd)
        raise
    before = _stayed_in.pop(path, None)
    if before is not None:
        os.close(before)
    _stayed_in[path] = fd


def why_others_change(path: str) -> str:
    """Who else may put another thing in the place of a folder of ours; "" where nobody may."""
    try:
        os.close(find(path, own_users()))
    except UntrustedError as error:
        return str(error.strerror)
    except OSError:
        return ""
    return ""


def make_folder(path: str, sync: Optional[Sync] = os.fsync) -> None:
    """Have a folder of ours alone, with `sync` on stable storage.

    What is in it is worth nothing where a power cut takes its name away.
    """
    with failure(f"cannot make {path}"):
        os.close(open_folder(path, 0o700, sync, alone=True))


def open_new(path: str, mode: int = 0o600, flags: int = 0, make: Optional[int] = None) -> int:
    """A file that was not there, opened to write."""
    with folder_of(path, make) as (folder, name):
        return os.open(name, _NEW | flags, mode, dir_fd=folder)


def open_lock(path: str, make: Optional[int] = None) -> int:
    """A file to lock, made where it is not there: whoever may open it may hold it, so 0600."""
    with failure(f"cannot open {path}"), folder_of(path, make) as (folder, name):
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(name, flags, 0o600, dir_fd=folder)
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
                raise OSError(errno.EINVAL, "it is no regular file of its own")
            _check_owner(fd, path, own_users())
        except OSError:
            os.close(fd)
            raise
        return fd


def write_whole(
    path: str, text: str, mode: int = 0o600, make: Optional[int] = None,
    sync: Optional[Sync] = os.fsync,
) -> None:
    """Put a file in place whole, or leave the old one; with `sync` it is on stable storage.

    While it is written it has a name that begins with a dot.
    """
    with failure(f"cannot write {path}"), folder_of(path, make, sync) as (folder, name):
        partial = f".{name}.new"
        try:
            fd = os.open(partial, _NEW, mode, dir_fd=folder)
        except FileExistsError:  # a crash has left it
            os.unlink(partial, dir_fd=folder)
            fd = os.open(partial, _NEW, mode, dir_fd=folder)
        try:
            with open(fd, "w", encoding="utf-8", closefd=False) as file:
                file.write(text)
            os.fchmod(fd, mode)  # whatever the umask
            if sync is not None:
                sync(fd)
            os.rename(partial, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(partial, dir_fd=folder)
            raise
        finally:
            os.close(fd)
        if sync is not None:
            sync(folder)


def mark(path: str, mode: int = 0o600, make: Optional[int] = None) -> None:
    """Have an empty file there; one that is there stays."""
    with failure(f"cannot write {path}"), suppress(FileExistsError):
        os.close(open_new(path, mode, make=make))


def remove(path: str, sync: Optional[Sync] = os.fsync) -> bool:
    """Remove a file; False where there was none.  With `sync` it is gone for good on return."""
    gone, what = False, f"cannot remove {path}"
    with failure(what), suppress(FileNotFoundError), folder_of(path) as (folder, name):
        with suppress(FileNotFoundError):  # an attempt before may have ended before its sync
            os.unlink(name, dir_fd=folder)
            gone = True
        if sync is not None:
            sync(folder)
    return gone
