"""NVMe commands by ioctl: admin commands on the controller, Flush on the namespace.

The controller's own node is used for admin commands: the same Set Features through
/dev/nvme0n1 fails, since the feature is the controller's and not the namespace's.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import stat
from dataclasses import dataclass, field
from typing import Optional, Protocol

from wcache.core.errors import NotFoundError, RefusedError, StorageError

from ...safe_files import closing_fd
from ..block.host_files import HostFiles, read_device_number
from ..block.sysfs import BlockDevice, Held
from .base import FLUSH_TIMEOUT_MS, TIMEOUT_MS

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
class Controller:
    """An NVMe controller: "nvme0", its sysfs folder, and what the namespace holds open."""

    name: str
    folder: str
    held: Optional[Held] = field(default=None, compare=False)


class NvmePort(Protocol):
    """Sends commands to a controller or a namespace."""

    def admin(
        self, files: HostFiles, controller: Controller, opcode: int, *, cdw10: int,
        cdw11: int = 0, data_in: int = 0,
    ) -> tuple[int, bytes]:
        """Dword 0 of the completion, and the data; raises NvmeError, StorageError."""

    def flush(self, device: BlockDevice) -> None:
        """Flush a namespace; raises NvmeError, StorageError."""


class _Command(ctypes.Structure):
    _fields_ = (
        ("opcode", ctypes.c_uint8),
        ("flags", ctypes.c_uint8),
        ("rsvd1", ctypes.c_uint16),
        ("nsid", ctypes.c_uint32),
        ("cdw2", ctypes.c_uint32),
        ("cdw3", ctypes.c_uint32),
        ("metadata", ctypes.c_uint64),
        ("addr", ctypes.c_uint64),
        ("metadata_len", ctypes.c_uint32),
        ("data_len", ctypes.c_uint32),
        ("cdw10", ctypes.c_uint32),
        ("cdw11", ctypes.c_uint32),
        ("cdw12", ctypes.c_uint32),
        ("cdw13", ctypes.c_uint32),
        ("cdw14", ctypes.c_uint32),
        ("cdw15", ctypes.c_uint32),
        ("timeout_ms", ctypes.c_uint32),
        ("result", ctypes.c_uint32),
    )


class NvmeIoctl:
    """The real door."""

    def admin(
        self, files: HostFiles, controller: Controller, opcode: int, *, cdw10: int,
        cdw11: int = 0, data_in: int = 0,
    ) -> tuple[int, bytes]:
        """See `NvmePort`."""
        with closing_fd(open_controller(files, controller)) as fd:
            data = ctypes.create_string_buffer(max(1, data_in))
            command = _Command(
                opcode=opcode, cdw10=cdw10, cdw11=cdw11, timeout_ms=TIMEOUT_MS,
                data_len=data_in, addr=ctypes.addressof(data) if data_in else 0,
            )
            _submit(fd, IOCTL_ADMIN, command, controller.name)
            return int(command.result), data.raw[:data_in]

    def flush(self, device: BlockDevice) -> None:
        """See `NvmePort`."""
        with closing_fd(device.open()) as fd:
            try:
                nsid = fcntl.ioctl(fd, IOCTL_ID)
            except OSError as error:
                why = f"{device.name} is no NVMe namespace ({error.strerror})"
                raise StorageError(why) from None
            command = _Command(opcode=0x00, nsid=nsid, timeout_ms=FLUSH_TIMEOUT_MS)
            _submit(fd, IOCTL_IO, command, device.name)


def _submit(fd: int, request: int, command: _Command, name: str) -> None:
    try:
        status = fcntl.ioctl(fd, request, command)
    except OSError as error:
        raise StorageError(f"{name} does not answer ({error.strerror})") from None
    if status:
        raise NvmeError(
            f"{name} refuses NVMe command {command.opcode:02x}h (status {status:03x}h)", status
        )


def open_controller(files: HostFiles, controller: Controller) -> int:
    """A descriptor proven to be the controller's character device; the caller closes it."""
    if controller.held is not None:
        return controller.held.descriptor(
            controller.name, lambda: _open_node(files, controller)
        )
    return _open_node(files, controller)


def _open_node(files: HostFiles, controller: Controller) -> int:
    path = os.path.join(files.dev, controller.name)
    number = read_device_number(os.path.join(controller.folder, "dev"))
    files.at(f"{path} is opened, or asked something")
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise NotFoundError(f"{path} cannot be opened ({error.strerror})") from None
    status = os.fstat(fd)
    found = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
    if not stat.S_ISCHR(status.st_mode) or found != number:
        os.close(fd)
        raise RefusedError(f"{path} is not the controller that sysfs means by {number}")
    return fd
