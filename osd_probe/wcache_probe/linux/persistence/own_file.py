"""Files of ours among the host's: written whole or not at all, and removed for good."""

from __future__ import annotations

import os

from wcache.core.errors import StorageError


def write_whole(path: str, text: str, mode: int = 0o644) -> None:
    """Replace a file; on return it is on stable storage."""
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name}.new")
    try:
        os.makedirs(folder, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(temporary, flags, mode)
        try:
            with open(fd, "w", encoding="ascii", closefd=False) as file:
                file.write(text)
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(temporary, path)
        _sync(folder)
    except OSError as error:
        raise StorageError(f"{path} cannot be written ({error.strerror})") from None


def remove(path: str) -> bool:
    """Remove a file; False where there was none.  On return it is gone for good."""
    try:
        os.unlink(path)
        _sync(os.path.dirname(path))
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StorageError(f"{path} cannot be removed ({error.strerror})") from None
    return True


def move_aside(path: str, ending: str) -> None:
    """Give a file a name that nothing reads; one that has it already is replaced."""
    try:
        os.rename(path, path + ending)
        _sync(os.path.dirname(path))
    except OSError as error:
        raise StorageError(f"{path} cannot be moved aside ({error.strerror})") from None


def _sync(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
