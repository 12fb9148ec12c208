"""SCSI disks with their pin, behind virtio-scsi, a SAS host adapter or the like.

The cache is the WCE bit of the caching mode page.  MODE SELECT with SP=0 changes the
current value alone; the saved one changes only in `save`.

The pin holds the kernel view at write back through `cache_type` (drivers/scsi/sd.c,
cache_type_store()): "temporary write back" sets `cache_override`, which no rescan and no toggle
lowers; only a non-temporary write, an invalid string or the disk's removal ends it.  The kernel
shows the override nowhere, so a pin is known only for the disk instance on which this process
set it; for any other it is unknown, and pinning again does no harm.

A pinned disk is sent a SYNCHRONIZE CACHE(10) for each flush (sd.c, sd_setup_flush_cmnd()).  One
that refuses the command was sent none before: of ILLEGAL REQUEST sd_done() forgives UNMAP and
WRITE SAME alone, so each fsync() fails, and BlueStore ends the OSD at that (KernelDevice::flush()).
"""

from __future__ import annotations

import os
from typing import Optional, Set, Tuple

from wcache.core.errors import RefusedError, StorageError, WcacheError
from wcache.core.model import (
    CacheMode,
    CachePage,
    DeviceCache,
    DriveModel,
    KernelView,
    PlpHint,
    Transport,
)

from ..block import sysfs
from ..block.host_files import entries, printable, read_text, write_attribute
from ..block.sysfs import BlockDevice
from . import sg_io
from .base import (
    FLUSH_TIMEOUT_MS,
    CacheReading,
    DriveIdentity,
    Switch,
    mode_of,
    safe_id,
    smr,
    why_nameless,
)
from .sg_io import KEY_ILLEGAL_REQUEST, ScsiError, SgIo

PIN = "temporary write back"


class PinnedSwitch(Switch):
    """A transport whose disks are SCSI disks for the kernel; with a refusal, only looked at.

    `pins` are the disk instances that this process has pinned, by whichever of its switches.
    """

    def __init__(
        self, port: SgIo, pins: Set[str], transport: Transport, refusal: str = ""
    ) -> None:
        self._port = port
        self._pins = pins
        self.transport = transport
        self.refusal = refusal

    def pinned(self, device: BlockDevice) -> Optional[bool]:
        """True for a disk that was pinned here and still flushes; None where unknown."""
        if device.kernel_view is KernelView.WRITE_THROUGH:
            return False
        return True if _instance(device) in self._pins else None

    def pin(self, device: BlockDevice) -> None:
        """Hold the kernel view at write back; raises StorageError where the kernel does not.

        RefusedError where each flush would fail then.
        """
        why = self.no_flush(device)
        if why:
            raise RefusedError(f"{device.name} is not pinned: {why}", "leave its cache as it is")
        write_attribute(os.path.join(_scsi_disk(device), "cache_type"), PIN)
        if device.kernel_view is not KernelView.WRITE_BACK:
            # a write-protected disk is never write back for the kernel
            raise StorageError(f"the kernel view of {device.name} did not become write back")
        self._pins.add(_instance(device))

    def require_pin(self, device: BlockDevice) -> None:
        """Raise RefusedError unless this very coming of the disk is pinned and flushes.

        Called between opening a disk and turning its cache on: a disk that was pulled and
        plugged in since the pin is a new one for the kernel, with no pin.
        """
        if self.pinned(device) is not True:
            raise RefusedError(
                f"{device.name} is not pinned, so its cache stays off",
                "look again: it may have been pulled and plugged in",
            )

    def no_flush(self, device: BlockDevice) -> str:
        """Say whether it refuses SYNCHRONIZE CACHE, which a pin makes the kernel send.

        One that the kernel flushes already is not asked.  What fails in another way may be busy,
        and its data is worth a pin.
        """
        if device.kernel_view is KernelView.WRITE_BACK:
            return ""
        cdb = sg_io.synchronize_cache_cdb()
        try:
            # of a cache that may be full: to time out is a reset under a running OSD
            self._port.command(device, cdb, timeout_ms=FLUSH_TIMEOUT_MS)
        except ScsiError as error:
            if error.sense.key == KEY_ILLEGAL_REQUEST:
                return (
                    f"it refuses SYNCHRONIZE CACHE ({error.sense}), so a pin would fail each flush"
                )
        except WcacheError:
            pass
        return ""


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


CURRENT, CHANGEABLE, DEFAULT, SAVED = 0, 1, 2, 3


class ScsiSwitch(PinnedSwitch):
    """Transports `scsi` and `sas`; with a refusal, those that are only looked at."""

    def identify(self, device: BlockDevice) -> DriveIdentity:
        """From INQUIRY and VPD, asked of the drive; raises StorageError where it is silent."""
        inquiry = sg_io.parse_inquiry(
            self._port.command(device, sg_io.inquiry_cdb(), data_in=sg_io.INQUIRY_BYTES).data
        )
        if inquiry is None or inquiry.device_type not in (0x00, 0x14):
            raise StorageError(f"{device.name} does not say that it is a disk")
        names = sg_io.designators(self._vpd(device, 0x83))
        serial = sg_io.parse_serial(self._vpd(device, 0x80))
        wwn = names.get(sg_io.OF_LOGICAL_UNIT, "")
        named = f"scsi:{inquiry.vendor}:{inquiry.model}:{serial}".replace(" ", "_")
        fallback = named if serial else ""
        drive_id = safe_id(wwn or fallback or f"scsi:{device.name}")
        protected = sg_io.nonvolatile_cache(self._vpd(device, 0x86))
        wwn = wwn if wwn.startswith(("naa.", "eui.")) else ""
        return DriveIdentity(
            drive_id=drive_id,
            domain_id=self._domain_id(device, names.get(sg_io.OF_TARGET, ""), drive_id),
            drive_model=DriveModel(inquiry.vendor, inquiry.model, inquiry.firmware),
            serial=serial,
            wwn=wwn,
            host_driver=host_driver(device),
            plp_hints=(
                (PlpHint(True, "VPD page 86h: NV_SUP"),) if protected else ()
            ),
            refusal=why_nameless(wwn, serial),
        )

    def _domain_id(self, device: BlockDevice, target: str, drive_id: str) -> str:
        """All LUNs of a target are one domain, named by the target or by its first LUN."""
        siblings = self.siblings(device)
        if len(siblings) == 1:
            return drive_id
        if target:
            return safe_id(target)
        return safe_id(min(map(self._name, siblings)))

    def _name(self, device: BlockDevice) -> str:
        """A LUN's own name, by its serial number where it has no other."""
        wwn = sg_io.designators(self._vpd(device, 0x83)).get(sg_io.OF_LOGICAL_UNIT, "")
        return wwn or f"scsi:{sg_io.parse_serial(self._vpd(device, 0x80))}"

    def _vpd(self, device: BlockDevice, page: int) -> bytes:
        """A vital product data page; empty where the drive has none."""
        try:
            cdb = sg_io.inquiry_cdb(page)
            return self._port.command(device, cdb, data_in=sg_io.VPD_BYTES).data
        except ScsiError:
            return b""

    def read(self, device: BlockDevice) -> CacheReading:
        """The caching mode page in all four page controls."""
        current = self._page(device, CURRENT)
        if current is None:
            return CacheReading(
                DeviceCache.UNKNOWN, refusal="it has no caching mode page that can be read"
            )
        changeable = self._page(device, CHANGEABLE)
        default = self._page(device, DEFAULT)
        saved = self._page(device, SAVED) if current.savable else None
        page = CachePage(
            changeable.wce if changeable else None,
            mode_of(default.wce) if default else None,
            mode_of(saved.wce) if saved else None,
        )
        stuck = "its write cache cannot be changed" if page.changeable is False else ""
        found = smr(device, "VPD page B1h") if sg_io.shingled(self._vpd(device, 0xB1)) else ()
        return CacheReading(DeviceCache(mode_of(current.wce).value), page, found, stuck)

    def _page(self, device: BlockDevice, control: int) -> Optional[sg_io.CachingPage]:
        found, _ = self._sensed(device, control)
        return found

    def _sensed(
        self, device: BlockDevice, control: int
    ) -> Tuple[Optional[sg_io.CachingPage], bool]:
        """A page and whether MODE SENSE(10) gave it; None where the drive has no such page."""
        for ten in (True, False):
            cdb = sg_io.mode_sense_cdb(control, ten)
            try:
                reply = self._port.command(device, cdb, data_in=sg_io.MODE_BYTES)
            except ScsiError as error:
                if error.sense.key != KEY_ILLEGAL_REQUEST:
                    raise
                continue
            page = sg_io.parse_mode_sense(reply.data, ten)
            if page is not None:
                return page, ten
        return None, True

    def flush(self, device: BlockDevice) -> None:
        """SYNCHRONIZE CACHE of all blocks."""
        self._port.command(device, sg_io.synchronize_cache_cdb(), timeout_ms=FLUSH_TIMEOUT_MS)

    def set_cache(self, device: BlockDevice, mode: CacheMode) -> None:
        """Change WCE in the current page and in nothing else."""
        page, ten = self._sensed(device, CURRENT)
        if page is None:
            raise StorageError(f"{device.name} has no caching mode page")
        self._select(device, page.with_wce(mode is CacheMode.WRITE_BACK), ten, save=False)

    def save(self, device: BlockDevice, mode: CacheMode) -> bool:
        """Change WCE in the saved page; the current value is what it was when this returns.

        SP=1 writes the whole page to both places, so it is refused where the two differ
        in anything but WCE: that would save somebody else's temporary setting.
        """
        current, ten = self._sensed(device, CURRENT)
        if current is None or not current.savable:
            return False
        saved = self._page(device, SAVED)
        if saved is None:
            return False
        on = mode is CacheMode.WRITE_BACK
        if saved.with_wce(on) != current.with_wce(on):
            raise RefusedError(
                f"{device.name} has saved caching parameters that differ from the current ones",
                "save or reset them by hand first",
            )
        if saved.wce != on:
            self._select(device, current.with_wce(on), ten, save=True)
            if current.wce != on:
                self._select(device, current.with_wce(current.wce), ten, save=False)
            after = self._page(device, SAVED)
            if after is None or after.wce != on:
                raise StorageError(f"{device.name} did not save {mode.value}")
        return True

    def _select(self, device: BlockDevice, page: bytes, ten: bool, *, save: bool) -> None:
        cdb, body = sg_io.mode_select(page, save=save, ten=ten)
        guard = (lambda: self.require_pin(device)) if page[2] & sg_io.WCE else None
        self._port.command(device, cdb, data_out=body, guard=guard)

    def siblings(self, device: BlockDevice) -> Tuple[BlockDevice, ...]:
        """The disks whose SCSI device stands in the same `targetH:C:T` folder, itself included."""
        target = os.path.dirname(os.path.realpath(os.path.join(device.folder, "device")))
        found = []
        if os.path.basename(target).startswith("target"):
            luns = (os.path.join(target, lun) for lun in entries(target))
            # a CD drive on the target has no cache
            disks = (lun for lun in luns if entries(os.path.join(lun, "scsi_disk")))
            for blocks in (os.path.join(disk, "block") for disk in disks):
                for name in entries(blocks):
                    sibling = sysfs.device_at(device.files, os.path.join(blocks, name))
                    found += [sibling] if sibling else []
        return tuple(found) if any(one.number == device.number for one in found) else (device,)


def host_driver(device: BlockDevice) -> str:
    """The driver of the SCSI host that a disk hangs on ("mpt3sas"); empty where unknown."""
    at = os.path.realpath(os.path.join(device.folder, "device"))
    while len(at) > 1:
        name = os.path.basename(at)
        if name.startswith("host") and name[4:].isdigit():
            found = read_text(os.path.join(at, "scsi_host", name, "proc_name"))
            return "" if found in (None, "<NULL>") else printable(found or "", 40)
        at = os.path.dirname(at)
    return ""
