"""The file of a result that takes minutes: opened before they begin, put in place after.

    <folder>/.<name>.<random>   while it is measured
    <folder>/<name>             when it is whole
"""

from __future__ import annotations

import os
import secrets
from types import TracebackType
from typing import Optional, TextIO, Type

from wcache.core.errors import ConflictError, StorageError

from ..safe_files import give_free_name, open_new, remove


class ResultFile:
    """A new file at `path`; what was not put in place is removed at the end.

    Entering raises ConflictError where something is at `path`, StorageError where no file
    can be made beside it.
    """

    def __init__(self, path: str) -> None:
        folder, name = os.path.split(path)
        self._path = path
        self._partial = os.path.join(folder, f".{name}.{secrets.token_hex(4)}")
        self._file: Optional[TextIO] = None
        self._whole = False

    def __enter__(self) -> ResultFile:
        if os.path.lexists(self._path):
            raise ConflictError(f"{self._path} exists", "give another --out")
        try:
            self._file = open(open_new(self._partial, 0o644), "w", encoding="utf-8")
        except OSError as error:
            raise StorageError(
                f"cannot write {self._path} ({error.strerror}); nothing was measured",
                "choose an --out that can be written",
            ) from None
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if self._file is not None:
            self._file.close()
        if not self._whole:
            remove(self._partial)

    def put(self, text: str) -> None:
        """Write it all and give the file its name; StorageError where either fails.

        What is whole and cannot have its name stays under the other one, which is told.
        """
        assert self._file is not None  # entered  # noqa: S101
        try:
            self._file.write(text + "\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise StorageError(
                f"cannot write {self._path} ({error.strerror})", "choose an --out with free space"
            ) from None
        self._whole = True
        try:
            give_free_name(self._partial, os.path.basename(self._path))
        except OSError as error:
            raise StorageError(
                f"cannot make {self._path} ({error.strerror}); the result is in {self._partial}",
                "move it to where you want it",
            ) from None
