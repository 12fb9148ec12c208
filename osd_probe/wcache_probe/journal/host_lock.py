"""One program at a time switches the drives of a cache domain.

The probe, what restores for it, `restore` by hand and the `appear` of a udev rule are
processes of their own that change the same drives.  Without a lock an `appear` that had
read its rule just before a rollback removed it could put the persisted mode back after
the rollback had ended.  Each cache domain has a lock of its own: who hangs in a drive
holds up nobody at another one.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Callable, Iterator
from urllib.parse import quote

from wcache.core.errors import NotReadyError

from ..safe_files import closing_fd, open_lock

# A flush of a full cache takes seconds; longer than this and the holder hangs in its drive.
# A restore that gave up is tried again, and udev gives its programs 180 s.
WAIT_S = 30.0
POLL_S = 0.05
NAME_CHARS_MAX = 200


@dataclass
class HostLock:
    """Advisory locks on files of the run folder; each ends with the process that holds it."""

    run_dir: str
    wait_s: float = WAIT_S
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        self._folder = os.path.join(self.run_dir, "locks")

    @contextmanager
    def held(self, domain_id: str) -> Iterator[None]:
        """Hold that of a domain; NotReadyError where another program keeps it for too long."""
        path = os.path.join(self._folder, _file_name(domain_id))
        with closing_fd(self._take(f"{self._folder}.all", fcntl.LOCK_SH)), closing_fd(
            self._take(path, fcntl.LOCK_EX)
        ):
            yield

    @contextmanager
    def all_held(self) -> Iterator[None]:
        """Hold those of all domains: nothing is switched on this host meanwhile."""
        with closing_fd(self._take(f"{self._folder}.all", fcntl.LOCK_EX)):
            yield

    def _take(self, path: str, how: int) -> int:
        until_s = self.clock() + self.wait_s
        while True:
            fd = self._open(path)
            try:
                fcntl.flock(fd, how | fcntl.LOCK_NB)
                if _is_the_file(fd, path):
                    return fd
            except BlockingIOError:
                pass
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)
            if self.clock() >= until_s:
                raise NotReadyError(
                    f"another program has switched this drive for {self.wait_s:g} s",
                    f"see who holds {path} (lslocks) and what the drive is doing",
                )
            self.sleep(POLL_S)

    @staticmethod
    def _open(path: str) -> int:
        return open_lock(path, make=0o755)


def _file_name(domain_id: str) -> str:
    """The domain for people to see, told apart by a hash where it is too long."""
    name = quote(domain_id, safe="")
    if len(name) <= NAME_CHARS_MAX:
        return name
    digest = hashlib.sha256(domain_id.encode("utf-8", "replace")).hexdigest()[:16]
    return f"{name[:NAME_CHARS_MAX]}-{digest}"


def _is_the_file(fd: int, path: str) -> bool:
    """Whether others that open the path meet this lock: somebody may have removed it."""
    try:
        return os.path.samestat(os.fstat(fd), os.lstat(path))
    except FileNotFoundError:
        return False
