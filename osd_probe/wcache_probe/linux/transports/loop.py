"""Loop devices: no cache of their own; their switch is the kernel view itself.

`queue/write_cache` of a loop device can be written both ways.  In write through the
kernel drops flushes, so the backing file is never synced: that is the experiment on a
throwaway cluster, and unsafe anywhere else.  The device cache is reported as write
back, since the page cache behind the backing file is volatile.
"""

from __future__ import annotations

import fcntl
import os
import struct

from wcache.core.errors import RefusedError, StorageError, WcacheError
from wcache.core.model import (
    CacheMode,
    DeviceCache,
    DriveModel,
    KernelView,
    Transport,
)

from ...safe_files import closing_fd, failure
from ..block.host_files import IN_RAM, HostFiles, file_system_of, read_text, write_attribute
from ..block.sysfs import BlockDevice
from .base import CacheReading, DriveIdentity, Switch, safe_id

# include/uapi/linux/loop.h: struct loop_info64 begins with lo_device, lo_inode
LOOP_GET_STATUS64 = 0x4C05
LOOP_INFO64_BYTES = 232


class LoopSwitch(Switch):
    """Transport `loop`."""

    transport = Transport.LOOP
    refusal = ""

    def identify(self, device: BlockDevice) -> DriveIdentity:
        """The drive is the backing file: its device and inode, which no chroot hides."""
        behind = _backing_inode(device)
        file = read_text(os.path.join(device.folder, "loop", "backing_file"))
        drive_id = safe_id(f"loop:{behind or file or f'{device.name} without a backing file'}")
        return DriveIdentity(
            drive_id, drive_id, DriveModel("", "loop device", ""), host_driver="loop",
            refusal="" if behind else "it does not say which file is behind it",
        )

    def read(self, device: BlockDevice) -> CacheReading:
        """Write back: what is behind it is the page cache."""
        return CacheReading(DeviceCache.WRITE_BACK)

    def pin(self, device: BlockDevice) -> None:
        """Nothing holds the kernel view of a loop device."""
        raise StorageError(f"{device.name} is a loop device and cannot be pinned")

    def flush(self, device: BlockDevice) -> None:
        """Sync the backing file; does nothing while the kernel drops flushes."""
        with closing_fd(device.open()) as fd, failure(f"{device.name} fails a flush"):
            os.fdatasync(fd)

    def set_cache(self, device: BlockDevice, mode: CacheMode) -> None:
        """Write the kernel view, and prove that it took."""
        write_attribute(os.path.join(device.folder, "queue", "write_cache"), mode.value)
        if device.kernel_view is not KernelView(mode.value):
            raise StorageError(f"{device.name} did not become {mode.value}")

    def save(self, device: BlockDevice, mode: CacheMode) -> bool:
        """A loop device keeps nothing."""
        return False


def _backing_inode(device: BlockDevice) -> str:
    """"DEVICE:INODE" of the backing file as the kernel holds it; empty where it won't say."""
    try:
        with closing_fd(device.open()) as fd:
            info = fcntl.ioctl(fd, LOOP_GET_STATUS64, bytes(LOOP_INFO64_BYTES))
    except (WcacheError, OSError):
        return ""
    lo_device, lo_inode = struct.unpack_from("=QQ", info)
    return f"{lo_device}:{lo_inode}"


def refuse_false_flush(device: BlockDevice, transport: Transport, files: HostFiles) -> None:
    """Raise RefusedError where a flush of the device reaches no medium at all."""
    if transport is not Transport.LOOP:
        return
    behind = _backing_inode(device)
    if not behind:
        raise StorageError(
            f"{device.name} has no backing file that can be asked for",
            "`losetup -l` shows it; name a loop device whose file this program can see",
        )
    # fs/stat.c huge_encode_dev(), as loop_get_status() stores it
    dev = int(behind.split(":")[0])
    number = f"{(dev & 0xFFF00) >> 8}:{(dev & 0xFF) | ((dev >> 12) & 0xFFF00)}"
    # a file system without a device of its own (tmpfs, ramfs) has major 0
    if number.startswith("0:") and file_system_of(files, number) in IN_RAM:
        raise RefusedError(
            f"{device.name} lies on tmpfs, where a flush does nothing",
            "put the backing file on a disk",
        )
