"""What simulated drives are set to, in a file that several processes of the probe share."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Iterator, Optional, Tuple

from wcache.core import codec
from wcache.core.errors import MalformedError, StorageError
from wcache.core.model import CacheMode, KernelView
from wcache.core.option_value import VALUES_MAX, OptionValue

STATE_VERSION = 1
STATE_BYTES_MAX = 10_000_000


@dataclass(frozen=True)
class DriveSetting:
    """What a simulated drive and the kernel above it are set to."""

    drive_id: str
    mode: CacheMode
    saved: CacheMode
    kernel_view: KernelView
    pinned: bool
    options: Tuple[OptionValue, ...] = field(default=(), metadata={"max_items": VALUES_MAX})


@dataclass(frozen=True)
class Settings:
    """The file."""

    version: int
    starts: int
    drives: Tuple[DriveSetting, ...]


class SettingsFile:
    """Read, and written whole under a lock; without a path nothing is kept."""

    def __init__(self, path: Optional[str]) -> None:
        self._path = path
        self._seen = (0, 0)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from writing it."""
        if self._path is None:
            yield
            return
        try:
            lock = open(self._path + ".lock", "w", encoding="utf-8")  # noqa: SIM115
        except OSError as error:
            raise StorageError(f"cannot write {self._path} ({error.strerror})") from None
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def news(self) -> Optional[Settings]:
        """What is in it, where it was written by another since; raises MalformedError."""
        if self._path is None or self._stamp() == self._seen:
            return None
        self._seen = self._stamp()
        try:
            with open(self._path, encoding="utf-8") as file:
                text = file.read(STATE_BYTES_MAX + 1)
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise StorageError(f"cannot read {self._path} ({error})") from None
        try:
            return codec.loads(Settings, text, bytes_max=STATE_BYTES_MAX, what=self._path)
        except MalformedError as error:
            raise MalformedError(
                error.message, "remove the file; the simulated drives then start anew"
            ) from None

    def write(self, settings: Settings) -> None:
        """Replace it."""
        if self._path is None:
            return
        try:
            with open(self._path + ".new", "w", encoding="utf-8") as file:
                file.write(codec.dumps(settings))
            os.rename(self._path + ".new", self._path)
            self._seen = self._stamp()
        except OSError as error:
            raise StorageError(f"cannot write {self._path} ({error.strerror})") from None

    def _stamp(self) -> Tuple[int, int]:
        try:
            status = os.stat(self._path or "")
        except OSError:
            return (0, 0)
        return (status.st_ino, status.st_mtime_ns)
