"""Keep what simulated drives are set to in a file that several processes of the probe share."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar, Iterator, Optional, Tuple

from wcache.core import versions
from wcache.core.errors import MalformedError, StorageError, VersionError
from wcache.core.hardware import VALUES_MAX, OptionValue
from wcache.core.model import CacheMode, KernelView
from wcache_probe.safe_files import open_lock, read_own, write_whole

STATE_VERSION = 2
STATE_BYTES_MAX = 10_000_000


@dataclass(frozen=True)
class DriveSetting:
    """What a simulated drive and the kernel above it are set to."""

    drive_id: str
    mode: CacheMode
    saved: CacheMode
    kernel_view: KernelView
    pinned: bool
    options: Tuple[OptionValue, ...] = field(metadata={"max_items": VALUES_MAX})


@dataclass(frozen=True)
class Settings:
    """The file."""

    VERSION: ClassVar[int] = STATE_VERSION
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
        lock = open_lock(self._path + ".lock")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def news(self) -> Optional[Settings]:
        """Return what is in the file where another has written it since; raise MalformedError."""
        if self._path is None or self._stamp() == self._seen:
            return None
        self._seen = self._stamp()
        text = read_own(self._path, STATE_BYTES_MAX + 1)
        if text is None and not os.path.lexists(self._path):
            return None
        if text is None:
            raise StorageError(f"cannot read {self._path}")
        try:
            return versions.loads(Settings, text, bytes_max=STATE_BYTES_MAX, what=self._path)
        except (MalformedError, VersionError) as error:
            raise MalformedError(
                error.message, "remove the file; the simulated drives then start anew"
            ) from None

    def write(self, settings: Settings) -> None:
        """Replace the file."""
        if self._path is None:
            return
        write_whole(self._path, versions.dumps(settings), sync=None)
        self._seen = self._stamp()

    def _stamp(self) -> Tuple[int, int]:
        try:
            status = os.stat(self._path or "")
        except OSError:
            return (0, 0)
        return (status.st_ino, status.st_mtime_ns)
