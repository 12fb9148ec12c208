"""The pin: holding a SCSI disk's kernel view at write back through `cache_type`.

drivers/scsi/sd.c, cache_type_store(): "temporary write back" sets `cache_override`,
which no rescan and no toggle lowers; only a non-temporary write, an invalid string or
the disk's removal ends it.  The kernel shows the override nowhere, so a pin is known
only for the disk instance on which this process set it; for any other it is unknown,
and pinning again does no harm.

A pinned disk is sent a SYNCHRONIZE CACHE(10) for each flush (sd.c, sd_setup_flush_cmnd()).  One
that refuses the command was sent none before: of ILLEGAL REQUEST sd_done() forgives UNMAP and
WRITE SAME alone, so each fsync() fails, and BlueStore ends the OSD at that (KernelDevice::flush()).
"""

from __future__ import annotations

import os
from typing import Optional, Set

from wcache.core.errors import RefusedError, StorageError, WcacheError
from wcache.core.model import KernelView, Transport

from ..block.host_files import entries, write_attribute
from ..block.sysfs import BlockDevice
from . import scsi_data
from .base import FLUSH_TIMEOUT_MS, Switch
from .sg_io import KEY_ILLEGAL_REQUEST, ScsiError, ScsiPort

PIN = "temporary write back"


class Pins:
    """Pins set by this process, by disk instance."""

    def __init__(self) -> None:
        self._set: Set[str] = set()

    def pin(self, device: BlockDevice, port: ScsiPort) -> None:
        """Pin a disk; raises StorageError where the kernel does not take it.

        RefusedError where each flush would fail then.
        """
        why = no_flush(device, port)
        if why:
            raise RefusedError(f"{device.name} is not pinned: {why}", "leave its cache as it is")
        write_attribute(os.path.join(_scsi_disk(device), "cache_type"), PIN)
        if device.kernel_view is not KernelView.WRITE_BACK:
            # a write-protected disk is never write back for the kernel
            raise StorageError(f"the kernel view of {device.name} did not become write back")
        self._set.add(_instance(device))

    def require(self, device: BlockDevice) -> None:
        """Raise RefusedError unless this very coming of the disk is pinned and flushes.

        Called between opening a disk and turning its cache on: a disk that was pulled and
        plugged in since the pin is a new one for the kernel, with no pin.
        """
        if self.pinned(device) is not True:
            raise RefusedError(
                f"{device.name} is not pinned, so its cache stays off",
                "look again: it may have been pulled and plugged in",
            )

    def pinned(self, device: BlockDevice) -> Optional[bool]:
        """True for a disk that was pinned here and still flushes; None where unknown."""
        if device.kernel_view is KernelView.WRITE_THROUGH:
            return False
        return True if _instance(device) in self._set else None


def no_flush(device: BlockDevice, port: ScsiPort) -> str:
    """Why a pin would make each flush of a disk fail; empty where it would not.

    One that the kernel flushes already is not asked.  What fails in another way may be busy, and
    its data is worth a pin.
    """
    if device.kernel_view is KernelView.WRITE_BACK:
        return ""
    try:
        # the first flush of a cache that may be full: to time out is a reset under a running OSD
        port.command(device, scsi_data.synchronize_cache_cdb(), timeout_ms=FLUSH_TIMEOUT_MS)
    except ScsiError as error:
        if error.sense.key == KEY_ILLEGAL_REQUEST:
            return f"it refuses SYNCHRONIZE CACHE ({error.sense}), so a pin would fail each flush"
    except WcacheError:
        pass
    return ""


class PinnedSwitch(Switch):
    """A transport whose disks are SCSI disks for the kernel; with a refusal, only looked at."""

    def __init__(
        self, port: ScsiPort, pins: Pins, transport: Transport, refusal: str = ""
    ) -> None:
        self._port = port
        self._pins = pins
        self.transport = transport
        self.refusal = refusal

    def pinned(self, device: BlockDevice) -> Optional[bool]:
        """Tell whether this process pinned it."""
        return self._pins.pinned(device)

    def pin(self, device: BlockDevice) -> None:
        """Hold the kernel view at write back."""
        self._pins.pin(device, self._port)

    def no_flush(self, device: BlockDevice) -> str:
        """Say whether it refuses SYNCHRONIZE CACHE, which a pin makes the kernel send."""
        return no_flush(device, self._port)


def _scsi_disk(device: BlockDevice) -> str:
    folder = os.path.join(device.folder, "device", "scsi_disk")
    for name in entries(folder):
        return os.path.join(folder, name)
    raise StorageError(f"{device.name} has no scsi_disk in sysfs, so it cannot be pinned")


def _instance(device: BlockDevice) -> str:
    """This coming of the disk: kernfs gives each folder a node number of its own."""
    try:
        return f"{device.number}/{os.stat(_scsi_disk(device)).st_ino}"
    except (OSError, StorageError):
        return f"{device.number}/gone"
