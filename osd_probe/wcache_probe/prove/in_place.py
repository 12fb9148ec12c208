"""A drive that is tried as it is used: beside the traffic of its OSD, with nothing written.

Its cache must be on.  Off is safe whatever an adapter does with flushes, and on again is what
it was; only a cache that was off could become a danger by flushes that are swallowed.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import ContextManager

from wcache.core.errors import NotFoundError, RefusedError
from wcache.core.model import CacheMode, DriveReport

from ..linux.block.host_files import HostFiles, printable
from ..linux.block.stack import is_followed, paths_down
from ..linux.block.sysfs import by_number
from ..linux.host import LinuxDriveHost


@dataclass(frozen=True)
class InPlace:
    """What stands for scratch space: of the drive's content nothing is claimed or touched."""

    drive: DriveReport
    harm: str = "its OSD waits for a moment at each toggle"

    def held(self) -> ContextManager[None]:
        """Nobody is kept away: its OSD goes on."""
        return nullcontext()

    def claim(self) -> None:
        """Nothing is marked."""


def in_place(files: HostFiles, host: LinuxDriveHost, path: str) -> InPlace:
    """The drive at a path such as /dev/sdx; RefusedError where that is no drive itself."""
    number = files.number_of_path(path)
    device = by_number(files, number) if number else None
    if device is None:
        raise NotFoundError(f"{printable(path)} is not a block device", "name a drive")
    paths = paths_down(device)
    if len(paths) != 1 or not is_followed(paths[0]) or paths[0].drive.number != device.number:
        raise RefusedError(
            f"{device.name} is no drive", "name the drive itself; `lsblk -s` shows what is below"
        )
    return InPlace(host.drive_of(device))


def refuse_in_place(drive: DriveReport) -> None:
    """Raise RefusedError where the trial could leave the drive worse than it is."""
    if drive.mode is not CacheMode.WRITE_BACK:
        raise RefusedError(
            f"the cache of {drive.dev_name} is off, and is not turned on under an OSD while "
            "flushes may be swallowed", "give a blank drive of its model, without --in-place",
        )
