"""Scratch space: a blank block device that nobody else holds.

It is written to only where it is blank, or where it carries the mark of an earlier matrix.
It is opened exclusively (open(2), O_EXCL on a block device), which the kernel refuses for
what is mounted, used as swap, or part of LVM, device mapper or md; while it is held, to those
and to an OSD (src/blk/kernel/KernelDevice.cc; `ceph-osd --mkfs` of 16.2.15, 18.2.7 and 20.2.4
fails and writes nothing).  Who asks for nothing is seen by the mark that is no longer there.
"""

from __future__ import annotations

import errno
import mmap
import os
from typing import ContextManager, Tuple

from wcache.core.errors import ConflictError, RefusedError, StorageError
from wcache.core.experiment.matrix import WRITE_BYTES
from wcache.core.model import DriveReport, LayerKind, Transport
from wcache.core.text import typed

from ..linux.block.host_files import HostFiles
from ..linux.block.sysfs import BlockDevice, by_path, is_followed, paths_down
from ..linux.host import LinuxDriveHost
from ..linux.transports.loop import refuse_false_flush
from ..safe_files import closing_fd, failure

MIB = 2**20
# left alone at both ends, where labels, partition tables and superblocks are
MARGIN_BYTES = MIB
SPAN_MAX_BYTES = 256 * MIB
SPAN_MIN_BYTES = 16 * MIB
PIECES = 64
PIECE_BYTES = SPAN_MAX_BYTES // PIECES
MARK = b"wcache scratch space: may be overwritten at any time\n".ljust(WRITE_BYTES, b"\0")


class Scratch:
    """One scratch device and the drive below it."""

    def __init__(
        self, files: HostFiles, device: BlockDevice, drive: DriveReport, whole: bool = False,
        span_max: int = SPAN_MAX_BYTES,
    ) -> None:
        self.files = files
        self.device = device
        self.drive = drive
        self.path = os.path.join(files.dev, device.name)
        self.start = MARGIN_BYTES
        room = device.size_bytes - 2 * MARGIN_BYTES
        self.span = min(room, span_max) // WRITE_BYTES * WRITE_BYTES
        self.whole = whole and room >= 2 * SPAN_MAX_BYTES
        self._stride = room // PIECES // WRITE_BYTES * WRITE_BYTES if self.whole else PIECE_BYTES
        if room < SPAN_MIN_BYTES:
            raise RefusedError(
                f"{device.name} is too small", f"give {SPAN_MIN_BYTES // MIB + 2} MiB or more"
            )

    def offset_of(self, block: int) -> int:
        """Where a block of the space is: in one stretch, or in pieces over the whole device."""
        piece, within = divmod(block * WRITE_BYTES, PIECE_BYTES)
        return self.start + piece * self._stride + within

    @property
    def harm(self) -> str:
        """What a trial does to it, as an admin is told."""
        return f"overwrites {self.path}"

    @property
    def is_loop(self) -> bool:
        """Whether it is a loop device as a whole: nobody else loses a flush by its switch."""
        return self.drive.transport is Transport.LOOP

    def held(self) -> ContextManager[int]:
        """Keep everybody else from claiming it; ConflictError where somebody has."""
        return closing_fd(self._open(os.O_RDONLY | os.O_EXCL))

    def opened(self, flags: int = 0) -> ContextManager[int]:
        """A descriptor for direct writes, while it is held."""
        return closing_fd(self._open(os.O_RDWR | os.O_DIRECT | flags))

    def opened_to_read(self) -> ContextManager[int]:
        """A descriptor for direct reads, while it is held."""
        # to read only: udev probes a device again when one who could write closes it
        return closing_fd(self._open(os.O_RDONLY | os.O_DIRECT))

    def claim(self) -> None:
        """Prove, while it is held, that it may be overwritten, and mark it.

        RefusedError, with nothing written, where anything but zeros is there.
        """
        with self.opened() as fd, mmap.mmap(-1, MIB) as buffer:
            self._read(fd, buffer, 0)
            # whole: a partition table, a file system or swap may leave the first bytes alone
            marked = buffer[:WRITE_BYTES] == MARK
            if any(buffer[WRITE_BYTES if marked else 0 :]):
                raise self._not_blank(0)
            end = self.device.size_bytes // WRITE_BYTES * WRITE_BYTES - MARGIN_BYTES
            firsts = range(0, self.span // WRITE_BYTES, MIB // WRITE_BYTES)
            places = [end] if marked else [*(self.offset_of(first) for first in firsts), end]
            for place in places:
                self._read(fd, buffer, place)
                if any(buffer[:]):
                    raise self._not_blank(place)
            if not marked:
                with mmap.mmap(-1, WRITE_BYTES) as block, self.writing():
                    block[:] = MARK
                    os.pwritev(fd, [block], 0)
                    os.fdatasync(fd)

    def check(self) -> None:
        """Prove that nobody has written over the mark, or beside it, since `claim`.

        RefusedError where somebody has: then it may be somebody's data by now.
        """
        with mmap.mmap(-1, MIB) as buffer, self.opened_to_read() as fd:
            self._read(fd, buffer, 0)
            if buffer[:WRITE_BYTES] != MARK or any(buffer[WRITE_BYTES:]):
                raise RefusedError(
                    f"something else wrote to {self.path} during the measurement",
                    "wcache has stopped writing to it; find out what uses it",
                )

    def _open(self, flags: int) -> int:
        try:
            fd = os.open(self.path, flags | os.O_CLOEXEC)
        except OSError as error:
            if error.errno == errno.EBUSY:
                raise ConflictError(
                    f"{self.path} is in use", "see `lsblk` and `fuser -v` for who has it"
                ) from None
            raise StorageError(
                f"cannot open {self.path} ({error.strerror})", "run as root; see the kernel's log"
            ) from None
        if self.files.number_of_fd(fd) != self.device.number:
            os.close(fd)
            raise RefusedError(f"{self.path} is another device now", "check the path, start again")
        return fd

    def read(self, fd: int, place: int, size: int) -> bytes:
        """Read so many bytes at a place; StorageError where that fails."""
        with mmap.mmap(-1, size) as buffer:
            self._read(fd, buffer, place)
            return bytes(buffer)

    def _read(self, fd: int, buffer: mmap.mmap, place: int) -> None:
        try:
            if os.preadv(fd, [buffer], place) == len(buffer):
                return
            why = "it ended too early"
        except OSError as error:
            why = str(error.strerror)
        raise StorageError(f"cannot read {self.path} at {place} ({why})", "see the kernel's log")

    def writing(self, so_far: str = "") -> ContextManager[None]:
        """Raise StorageError where a write or a flush of it fails."""
        return failure(f"{self.path} fails a write{so_far}", "see the kernel's log")

    def _not_blank(self, place: int) -> RefusedError:
        return RefusedError(
            f"{self.path} is not blank: there is data within 1 MiB of byte {place}",
            f"if that data may go, {typed('blkdiscard -z {}', self.path)} or "
            f"{typed('dd if=/dev/zero of={} bs=1M', self.path)} makes it blank",
        )


def find(
    files: HostFiles, host: LinuxDriveHost, path: str, whole: bool = False,
    span_max: int = SPAN_MAX_BYTES, instead: str = "",
) -> Scratch:
    """The scratch space at a path such as /dev/vg/scratch, and the drive it lies on.

    With `whole` it lies in pieces over the whole device, where that is large enough.  No more
    than `span_max` bytes are used.  `instead` is what else can be done with the drive of an OSD.

    RefusedError where it is no block device, where an OSD uses it, or where it does not
    lie on one drive by layers that are understood.
    """
    device, drive = on_one_drive(files, host, path)
    for use in drive.uses:
        if device.name in (layer.name for layer in use.layers):
            raise RefusedError(
                f"{device.name} belongs to osd.{use.osd_id}", f"name an unused one{instead}"
            )
    if drive.transport is Transport.LOOP and device.kind is not LayerKind.LOOP:
        raise RefusedError(f"{device.name} lies on a loop device", "name a drive, not a file")
    return Scratch(files, device, drive, whole, span_max)


def on_one_drive(
    files: HostFiles, host: LinuxDriveHost, path: str
) -> Tuple[BlockDevice, DriveReport]:
    """The block device at a path, and the one drive below it, used by an OSD or not.

    RefusedError where layers in between are not understood, or a flush of it reaches nothing.
    """
    device = by_path(files, path)
    paths = paths_down(device)
    if len(paths) != 1 or not is_followed(paths[0]):
        raise RefusedError(
            f"{device.name} cannot be traced to one drive",
            "name a drive, or a partition or LV on a single one; `lsblk -s` shows what is below",
        )
    bottom = paths[0].drive
    drive = host.drive_of(bottom)
    refuse_false_flush(bottom, drive.transport, files)
    return device, drive
