"""Our udev rules on disk: written whole or not at all, and gone when a rollback says so."""

from __future__ import annotations

import os
import shutil
from typing import Optional, Tuple

from wcache.core.errors import RefusedError, StorageError
from wcache.core.model import CacheMode

from ...arguments import RUN_DIR
from ...safe_files import move_aside, remove, write_whole
from ..block.host_files import read_text
from .udev_rule import UdevRule, acts, file_name, is_changed, mode_in

RULES_FOLDER = "/etc/udev/rules.d"
# udev reads what ends in .rules alone
ASIDE = ".changed-by-hand"


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
        return mode_in(self._text(wwid))

    def says(self, wwid: str, mode: CacheMode) -> bool:
        """Whether the file of a drive still asks for a mode, changed by an admin or not."""
        try:
            rule = UdevRule(wwid, mode, "/wcache-probe", self._run_dir)
        except RefusedError:
            return False
        return rule.request in self._text(wwid)

    def write(self, wwid: str, mode: CacheMode) -> None:
        """Keep a drive in a mode from its next appearance on.

        Raises RefusedError where no safe rule can be made, StorageError where a file of
        somebody else is in its place or the folder cannot be written.
        """
        rule = UdevRule(wwid, mode, self._command, self._run_dir)
        path = self._path(wwid)
        text = self._text(wwid)
        if os.path.lexists(path) and mode_in(text) is None:
            raise StorageError(
                f"{path} was not written by wcache-probe", "move it away, then try again"
            )
        if text and is_changed(text, wwid):
            move_aside(path, ASIDE)
        write_whole(path, rule.text(), 0o644, make=0o755)

    def remove(self, wwid: str) -> None:
        """Take our rule for a drive away; on return no rule of ours is there.

        One that was changed by hand is moved aside, where udev does not read it.  Raises
        StorageError where it cannot go, or where a file that is not ours starts the probe.
        """
        try:
            path = self._path(wwid)
        except RefusedError:
            return
        text = self._text(wwid)
        if mode_in(text) is None:
            if acts(text):
                raise StorageError(
                    f"{path} sets this drive's cache and is not as wcache-probe wrote it",
                    "move it away, then try again",
                )
            return
        if is_changed(text, wwid):
            move_aside(path, ASIDE)
        else:
            remove(path)

    def standing(self) -> Tuple[str, ...]:
        """Every file here that keeps a drive in a mode, ours or changed by hand."""
        try:
            names = sorted(os.listdir(self._folder))
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise StorageError(f"cannot read {self._folder} ({error.strerror})") from None
        paths = (os.path.join(self._folder, n) for n in names if n.endswith(".rules"))
        return tuple(path for path in paths if acts(read_text(path) or ""))

    def _text(self, wwid: str) -> str:
        try:
            return read_text(self._path(wwid)) or ""
        except RefusedError:
            return ""

    def _path(self, wwid: str) -> str:
        return os.path.join(self._folder, file_name(wwid))
