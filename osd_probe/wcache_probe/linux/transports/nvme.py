"""NVMe drives: feature 06h of the controller, for all of its namespaces at once.

The kernel reads VWC when it scans a controller and never follows the feature
(drivers/nvme/host/core.c, nvme_update_disk_info()), so a drive that has a volatile
cache is flushed always: it is pinned by nature.

Admin commands go to the controller's own node: the same Set Features through /dev/nvme0n1
fails, since the feature is the controller's and not the namespace's.  Offsets in data are
those of the NVMe Base Specification 2.0.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import re
import stat
import struct
from dataclasses import dataclass, field
from typing import Optional, Tuple

from wcache.core.errors import NotFoundError, RefusedError, StorageError
from wcache.core.model import (
    CacheMode,
    CachePage,
    DeviceCache,
    DriveModel,
    KernelView,
    PlpHint,
    Transport,
)

from ...safe_files import closing_fd, failure
from ..block import sysfs
from ..block.host_files import HostFiles, entries, printable, read_device_number, read_text
from ..block.sysfs import BlockDevice, Held
from .base import (
    FLUSH_TIMEOUT_MS,
    TIMEOUT_MS,
    CacheReading,
    DriveIdentity,
    Switch,
    mode_of,
    safe_id,
    why_nameless,
)
from .sg_io import text

IDENTIFY, SET_FEATURES, GET_FEATURES = 0x06, 0x09, 0x0A
IDENTIFY_BYTES = 4096
CNS_CONTROLLER = 1
VOLATILE_WRITE_CACHE = 0x06
SEL_CURRENT, SEL_DEFAULT, SEL_SAVED, SEL_CAPABILITIES = 0, 1, 2, 3
SAVABLE, CHANGEABLE = 1, 4  # bits of what Get Features with select 3 says
SAVE = 1 << 31


@dataclass(frozen=True)
class IdentifyController:
    """What a controller says of itself."""

    serial: str
    model: str
    firmware: str
    cache_present: bool  # VWC bit 0
    selects: bool  # ONCS bit 4: Save and Select in Set and Get Features


def parse_identify(raw: bytes) -> Optional[IdentifyController]:
    """Identify Controller data; None where it is cut off or empty."""
    if len(raw) != IDENTIFY_BYTES or not any(raw[:72]):
        return None
    return IdentifyController(
        serial=text(raw[4:24]),
        model=text(raw[24:64]),
        firmware=text(raw[64:72]),
        cache_present=bool(raw[525] & 0x01),
        selects=bool(int.from_bytes(raw[520:522], "little") & 0x10),
    )


# include/uapi/linux/nvme_ioctl.h
STATUS_MASK = 0x7FF  # without More and Do Not Retry
# Invalid opcode, invalid field; a feature that is not savable, changeable, of the namespace
REFUSALS = frozenset((0x001, 0x002, 0x10D, 0x10E, 0x10F))
IOCTL_ID, IOCTL_ADMIN, IOCTL_IO = 0x4E40, 0xC0484E41, 0xC0484E43


class NvmeError(StorageError):
    """A command that the controller answered with an error status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status

    @property
    def refuses(self) -> bool:
        """Whether the controller will not do it, whenever it is asked."""
        return self.status & STATUS_MASK in REFUSALS


@dataclass(frozen=True)
class NvmeController:
    """An NVMe controller: "nvme0", its sysfs folder, and what the namespace holds open."""

    name: str
    folder: str
    held: Optional[Held] = field(default=None, compare=False)


# include/uapi/linux/nvme_ioctl.h, struct nvme_passthru_cmd; its last field is dword 0
_COMMAND = struct.Struct("=2BH3I2Q10I")
_RESULT = struct.Struct("=68xI")


class NvmeIoctl:
    """Sends commands to a controller or a namespace."""

    def admin(
        self, files: HostFiles, controller: NvmeController, opcode: int, *, cdw10: int,
        cdw11: int = 0, data_in: int = 0,
    ) -> tuple[int, bytes]:
        """Dword 0 of the completion, and the data; raises NvmeError, StorageError."""
        with closing_fd(open_controller(files, controller)) as fd:
            data = ctypes.create_string_buffer(max(1, data_in))
            result = _submit(fd, IOCTL_ADMIN, _COMMAND.pack(
                opcode, 0, 0, 0, 0, 0, 0, ctypes.addressof(data) if data_in else 0, 0, data_in,
                cdw10, cdw11, 0, 0, 0, 0, TIMEOUT_MS, 0,
            ), controller.name)
            return result, data.raw[:data_in]

    def flush(self, device: BlockDevice) -> None:
        """Flush a namespace; raises NvmeError, StorageError."""
        with closing_fd(device.open()) as fd:
            with failure(f"{device.name} is no NVMe namespace"):
                nsid = fcntl.ioctl(fd, IOCTL_ID)
            command = _COMMAND.pack(0x00, 0, 0, nsid, *bytes(12), FLUSH_TIMEOUT_MS, 0)
            _submit(fd, IOCTL_IO, command, device.name)


def _submit(fd: int, request: int, packed: bytes, name: str) -> int:
    """Dword 0 of the completion of a command."""
    command = bytearray(packed)
    with failure(f"{name} does not answer"):
        status = fcntl.ioctl(fd, request, command)
    if status:
        raise NvmeError(
            f"{name} refuses NVMe command {command[0]:02x}h (status {status:03x}h)", status
        )
    (result,) = _RESULT.unpack(command)
    return int(result)


def open_controller(files: HostFiles, controller: NvmeController) -> int:
    """A descriptor proven to be the controller's character device; the caller closes it."""
    if controller.held is not None:
        return controller.held.descriptor(
            controller.name, lambda: _open_node(files, controller)
        )
    return _open_node(files, controller)


def _open_node(files: HostFiles, controller: NvmeController) -> int:
    path = os.path.join(files.dev, controller.name)
    number = read_device_number(os.path.join(controller.folder, "dev"))
    files.at(f"{path} is opened, or asked something")
    with failure(f"{path} cannot be opened", kind=NotFoundError):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    status = os.fstat(fd)
    found = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
    if not stat.S_ISCHR(status.st_mode) or found != number:
        os.close(fd)
        raise RefusedError(f"{path} is not the controller that sysfs means by {number}")
    return fd


_CONTROLLER = re.compile(r"nvme[0-9]+")


class NvmeSwitch(Switch):
    """Transport `nvme`."""

    transport = Transport.NVME
    refusal = ""

    def __init__(self, port: NvmeIoctl) -> None:
        self._port = port

    def identify(self, device: BlockDevice) -> DriveIdentity:
        """From Identify Controller and the namespace's own name."""
        controller = _one_controller(device)
        known = self._identify(device, controller)
        wwn = printable(read_text(os.path.join(device.folder, "wwid")) or "")
        named = f"nvme:{known.model}:{known.serial}".replace(" ", "_")
        domain = named if known.serial else f"nvme:{controller.name}"
        own = wwn if wwn.startswith(("eui.", "uuid.")) else ""
        hint = PlpHint(True, "Identify Controller: VWC says that no volatile cache is there")
        return DriveIdentity(
            drive_id=safe_id(wwn or f"{domain}:{device.name}"),
            domain_id=safe_id(domain),
            drive_model=DriveModel("", known.model, known.firmware),
            serial=known.serial,
            wwn=own,
            host_driver="nvme",
            plp_hints=() if known.cache_present else (hint,),
            refusal=why_nameless(own, known.serial) or _why_remote(controller),
        )

    def _identify(
        self, device: BlockDevice, controller: NvmeController
    ) -> IdentifyController:
        _, raw = self._port.admin(
            device.files, controller, IDENTIFY, cdw10=CNS_CONTROLLER,
            data_in=IDENTIFY_BYTES,
        )
        known = parse_identify(raw)
        if known is None:
            raise StorageError(f"{controller.name} gives an invalid answer to Identify")
        return known

    def read(self, device: BlockDevice) -> CacheReading:
        """VWC of the controller, and the feature where there is a cache."""
        controller = _one_controller(device)
        known = self._identify(device, controller)
        if not known.cache_present:
            return CacheReading(DeviceCache.NONE)
        current = self._get(device, controller, SEL_CURRENT)
        if current is None:
            return CacheReading(DeviceCache.UNKNOWN, refusal="it does not report feature 06h")
        page = self._page(device, controller) if known.selects else CachePage()
        stuck = "its write cache cannot be changed" if page.changeable is False else ""
        return CacheReading(DeviceCache(mode_of(current & 1).value), page, refusal=stuck)

    def _page(self, device: BlockDevice, controller: NvmeController) -> CachePage:
        capabilities = self._get(device, controller, SEL_CAPABILITIES)
        if capabilities is None:
            return CachePage()
        default, saved = self._get(device, controller, SEL_DEFAULT), None
        if capabilities & SAVABLE:
            saved = self._get(device, controller, SEL_SAVED)
        return CachePage(
            bool(capabilities & CHANGEABLE),
            None if default is None else mode_of(default & 1),
            None if saved is None else mode_of(saved & 1),
        )

    def _get(
        self, device: BlockDevice, controller: NvmeController, select: int
    ) -> Optional[int]:
        try:
            dword0, _ = self._port.admin(
                device.files, controller, GET_FEATURES,
                cdw10=VOLATILE_WRITE_CACHE | (select << 8),
            )
        except NvmeError:
            return None
        return dword0

    def pinned(self, device: BlockDevice) -> Optional[bool]:
        """The kernel view of a namespace stays as it was scanned."""
        return device.kernel_view is KernelView.WRITE_BACK

    def pin(self, device: BlockDevice) -> None:
        """Nothing holds it but the scan, so a view that was lowered cannot be brought back."""
        if device.kernel_view is not KernelView.WRITE_BACK:
            raise StorageError(f"the kernel view of {device.name} cannot be raised")

    def flush(self, device: BlockDevice) -> None:
        """The Flush command, to this namespace; every NVMe drive has it."""
        self._port.flush(device)

    def set_cache(self, device: BlockDevice, mode: CacheMode) -> None:
        """Set Features 06h on the controller, without saving."""
        self._set(device, mode, save=False)

    def save(self, device: BlockDevice, mode: CacheMode) -> bool:
        """Set Features with SV where the feature is savable; the current value stays."""
        controller = _one_controller(device)
        saved = self.read(device).page.saved
        if saved is None:
            return False
        current = self._get(device, controller, SEL_CURRENT)
        if current is None:
            raise StorageError(f"{controller.name} does not report feature 06h")
        if saved is not mode:
            self._set(device, mode, save=True)
            if mode_of(current & 1) is not mode:
                self._set(device, mode_of(current & 1), save=False)
        return True

    def _set(self, device: BlockDevice, mode: CacheMode, *, save: bool) -> None:
        controller = _one_controller(device)
        remote = _why_remote(controller)
        if remote:
            raise RefusedError(f"{controller.name} is left alone: {remote}")
        self._port.admin(
            device.files, controller, SET_FEATURES,
            cdw10=VOLATILE_WRITE_CACHE | (SAVE if save else 0),
            cdw11=1 if mode is CacheMode.WRITE_BACK else 0,
        )

    def siblings(self, device: BlockDevice) -> Tuple[BlockDevice, ...]:
        """Every namespace of the controller."""
        mine = _controllers(device)
        disks = (disk for disk in sysfs.all_disks(device.files) if disk.name.startswith("nvme"))
        found = tuple(disk for disk in disks if set(_controllers(disk)) & set(mine))
        return found or (device,)


def _controllers(device: BlockDevice) -> Tuple[NvmeController, ...]:
    """The controllers of a namespace: its parent, or, with native multipath, the subsystem's."""
    parent = os.path.realpath(os.path.join(device.folder, "device"))
    if _CONTROLLER.fullmatch(os.path.basename(parent)):
        return (NvmeController(os.path.basename(parent), parent, device.held),)
    return tuple(
        NvmeController(name, os.path.realpath(os.path.join(parent, name)), device.held)
        for name in entries(parent)
        if _CONTROLLER.fullmatch(name)
    )


def _why_remote(controller: NvmeController) -> str:
    """Why a controller is not this host's own; empty for one in a PCIe slot.

    What a fabric leads to may serve other hosts too, and one of them may switch it.
    """
    transport = printable(read_text(os.path.join(controller.folder, "transport")) or "", 20)
    if transport == "pcie":
        return ""
    return f"its NVMe transport is {transport or 'unknown'} and not pcie"


def _one_controller(device: BlockDevice) -> NvmeController:
    found = _controllers(device)
    if len(found) != 1:
        names = ", ".join(one.name for one in found) or "none"
        raise RefusedError(
            f"{device.name} is reached through several controllers or none ({names})",
            "the cache switch of each would have to be followed",
        )
    return found[0]
