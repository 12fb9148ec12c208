"""One program at a time switches drives on a host.

The probe, `restore` by hand and the `appear` of a udev rule are processes of their own that
change the same drives.  Without a lock an `appear` that had read its rule just before a
rollback removed it could put the persisted mode back after the rollback had ended.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import contextmanager
from typing import Callable, Iterator

from wcache.core.errors import NotReadyError, StorageError

# A flush of a full cache takes seconds; longer than this and the holder hangs in its drive.
# A restore that gave up is tried again, and udev gives its programs 180 s.
WAIT_S = 30.0
POLL_S = 0.05


class HostLock:
    """An advisory lock on a file of the run folder; ends with the process that holds it."""

    def __init__(
        self,
        run_dir: str,
        *,
        wait_s: float = WAIT_S,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._folder = run_dir
        self._path = os.path.join(run_dir, "switching")
        self._wait_s = wait_s
        self._clock = clock
        self._sleep = sleep

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold it; NotReadyError where another program does not let go of it in time."""
        fd = self._take()
        try:
            yield
        finally:
            os.close(fd)

    def _take(self) -> int:
        until_s = self._clock() + self._wait_s
        while True:
            fd = self._open()
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self._is_the_file(fd):
                    return fd
            except BlockingIOError:
                pass
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)
            if self._clock() >= until_s:
                raise NotReadyError(
                    f"another program has switched drives for {self._wait_s:g} s",
                    f"see who holds {self._path} (lslocks) and what its drive is doing",
                )
            self._sleep(POLL_S)

    def _open(self) -> int:
        try:
            os.makedirs(self._folder, mode=0o755, exist_ok=True)
            # 0600: whoever may open it may hold it
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            return os.open(self._path, flags, 0o600)
        except OSError as error:
            raise StorageError(f"cannot open {self._path} ({error.strerror})") from None

    def _is_the_file(self, fd: int) -> bool:
        """Whether others that open the path meet this lock: somebody may have removed it."""
        try:
            return os.path.samestat(os.fstat(fd), os.stat(self._path))
        except FileNotFoundError:
            return False
