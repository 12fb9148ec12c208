"""Our udev rules on disk: written whole or not at all, removed only where they are ours."""

from __future__ import annotations

import os
import shutil
from typing import Optional

from wcache.core.errors import RefusedError, StorageError
from wcache.core.model import CacheMode

from ..block.host_files import read_text
from .udev_rule import UdevRule

RULES_FOLDER = "/etc/udev/rules.d"
RUN_DIR = "/run/wcache"


class RuleFolder:
    """The folder of the host's own udev rules."""

    def __init__(
        self, folder: str = RULES_FOLDER, run_dir: str = RUN_DIR, command: Optional[str] = None
    ) -> None:
        self._folder = folder
        self._run_dir = run_dir
        self._command = shutil.which("wcache-probe") or "" if command is None else command

    def mode(self, wwid: str) -> Optional[CacheMode]:
        """The mode in which a rule of ours keeps a drive; None where there is none."""
        for mode in CacheMode:
            try:
                rule = self._rule(wwid, mode)
            except RefusedError:
                return None
            if read_text(self._path(rule)) == rule.text().strip():
                return mode
        return None

    def says(self, wwid: str, mode: CacheMode) -> bool:
        """Whether the file of a drive still asks for a mode, changed by an admin or not."""
        try:
            rule = UdevRule(wwid, mode, "/wcache-probe", self._run_dir)
        except RefusedError:
            return False
        return rule.request in (read_text(self._path(rule)) or "")

    def write(self, wwid: str, mode: CacheMode) -> None:
        """Keep a drive in a mode from its next appearance on.

        Raises RefusedError where no safe rule can be made, StorageError where a file of
        somebody else is in its place or the folder cannot be written.
        """
        rule = self._rule(wwid, mode)
        path = self._path(rule)
        if os.path.lexists(path) and self.mode(wwid) is None:
            raise StorageError(
                f"{path} is not as wcache-probe wrote it", "move it away, then try again"
            )
        temporary = os.path.join(self._folder, f".{rule.file_name}.new")
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = os.open(temporary, flags, 0o644)
            try:
                os.write(fd, rule.text().encode("ascii"))
                os.fsync(fd)
            finally:
                os.close(fd)
            os.rename(temporary, path)
            self._sync()
        except OSError as error:
            raise StorageError(f"{path} cannot be written ({error.strerror})") from None

    def remove(self, wwid: str) -> None:
        """Take our rule for a drive away; one that was changed by hand is not ours."""
        if self.mode(wwid) is None:
            return
        path = self._path(self._rule(wwid, CacheMode.WRITE_THROUGH))
        try:
            os.unlink(path)
            self._sync()
        except FileNotFoundError:
            return
        except OSError as error:
            raise StorageError(f"{path} cannot be removed ({error.strerror})") from None

    def _rule(self, wwid: str, mode: CacheMode) -> UdevRule:
        return UdevRule(wwid, mode, self._command, self._run_dir)

    def _path(self, rule: UdevRule) -> str:
        return os.path.join(self._folder, rule.file_name)

    def _sync(self) -> None:
        fd = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
