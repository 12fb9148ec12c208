"""The listener's file: the run in its first line, then how many writes were acknowledged."""

from __future__ import annotations

import os
from typing import Tuple

from wcache.core import versions
from wcache.core.errors import ConflictError, MalformedError, NotFoundError, StorageError

from ..safe_files import open_new, read
from .wire import HELLO_BYTES_MAX, NUMBER_MAX, WitnessRun, check_run

LOG_BYTES_MAX = 64_000_000
LINE_BYTES_MAX = 16
ROOM = "make room (64 MB do) or give another --log, then start both sides again"


class LogFile:
    """A new file; ConflictError where there is one, StorageError where none can be made."""

    def __init__(self, path: str, run: WitnessRun) -> None:
        try:
            self._fd = open_new(path, flags=os.O_APPEND)
        except FileExistsError:
            raise ConflictError(f"{path} exists", "give another --log") from None
        except OSError as error:
            raise StorageError(
                f"cannot write {path} ({error.strerror})", "give a --log in a folder that takes it"
            ) from None
        self._size = 0
        self._append(versions.dumps(run) + "\n")

    def acknowledged(self, number: int) -> None:
        """Note how many writes the drive has acknowledged so far."""
        if self._size > LOG_BYTES_MAX - LINE_BYTES_MAX:
            raise StorageError("the file is full", "pull the plug sooner")
        self._append(f"{number}\n")

    def _append(self, text: str) -> None:
        data = text.encode()
        try:
            written = os.write(self._fd, data)
        except OSError as error:
            raise StorageError(f"cannot write the log ({error.strerror})", ROOM) from None
        if written != len(data):
            raise StorageError("the log's disk is full", ROOM)
        self._size += written

    def close(self) -> None:
        """Have it on stable storage."""
        os.fsync(self._fd)
        os.close(self._fd)


def read_log(path: str) -> Tuple[WitnessRun, int]:
    """The run of a log, and how many writes were acknowledged in it."""
    data = read(path, LOG_BYTES_MAX + HELLO_BYTES_MAX + 1)
    if data is None:
        raise NotFoundError(f"cannot read {path}", "copy it from the listening machine")
    first, _, rest = data.partition(b"\n")
    run = versions.loads(
        WitnessRun, first.decode("utf-8", "replace"), bytes_max=HELLO_BYTES_MAX, what="the log"
    )
    check_run(run)
    acknowledged = 0
    for line in rest.split(b"\n")[:-1]:  # what follows the last end of line is cut off
        number = int(line) if line.isdigit() and len(line) < LINE_BYTES_MAX else -1
        if not acknowledged < number < NUMBER_MAX:
            raise MalformedError(
                f"the log is damaged after {acknowledged} writes",
                "copy it once more from the listening machine",
            )
        acknowledged = number
    return run, acknowledged
