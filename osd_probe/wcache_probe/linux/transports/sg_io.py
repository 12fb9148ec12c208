"""SCSI commands by the SG_IO ioctl, on a block device opened read-only.

`ScsiPort` is the door; `SgIo` the real one.  A descriptor is opened for each command
and proven to be the device that was meant (`BlockDevice.open`).
"""

from __future__ import annotations

import ctypes
import fcntl
from dataclasses import dataclass
from typing import Callable, Optional, Protocol, Tuple

from wcache.core.errors import StorageError

from ...safe_files import closing_fd
from ..block.sysfs import BlockDevice
from .base import TIMEOUT_MS

# include/scsi/sg.h
SG_IO = 0x2285
DXFER_NONE, DXFER_TO_DEV, DXFER_FROM_DEV = -1, -2, -3
SENSE_BYTES = 64
# SPC-6 4.4: sense keys; SAM-6 5.3: status codes
KEY_NONE, KEY_RECOVERED, KEY_ILLEGAL_REQUEST, KEY_UNIT_ATTENTION = 0x0, 0x1, 0x5, 0x6
KEY_ABORTED = 0xB
GOOD, CHECK_CONDITION, BUSY, TASK_SET_FULL = 0x00, 0x02, 0x08, 0x28
# Each reset, mode change and LUN change queues a Unit Attention of its own.
ATTEMPTS = 8


@dataclass(frozen=True)
class Sense:
    """What a drive says of a command that did not simply succeed."""

    key: int
    asc: int
    ascq: int
    descriptors: bytes = b""  # of the descriptor format; empty in the fixed one

    def __str__(self) -> str:
        return f"sense {self.key:x}/{self.asc:02x}/{self.ascq:02x}"


class ScsiError(StorageError):
    """A command that the drive or the host adapter did not carry out."""

    def __init__(self, message: str, sense: Sense) -> None:
        super().__init__(message)
        self.sense = sense

    @property
    def refuses(self) -> bool:
        """Whether the drive will not do it, whenever it is asked."""
        return self.sense.key == KEY_ILLEGAL_REQUEST

    @property
    def aborted(self) -> bool:
        """Whether the drive aborted this command; of the next one that says nothing.

        An ATA drive refuses a feature so.  But libata has this sense for other causes too
        (drivers/ata/libata-scsi.c, ata_to_sense_error()).  A link that failed has an
        additional sense code.
        """
        return self.sense.key == KEY_ABORTED and not self.sense.asc


@dataclass(frozen=True)
class ScsiReply:
    """Data that came in, and the sense where the command asked for it."""

    data: bytes
    sense: Sense = Sense(0, 0, 0)


Guard = Callable[[], None]


class ScsiPort(Protocol):
    """Sends a command to a drive."""

    def command(
        self, device: BlockDevice, cdb: bytes, *, data_in: int = 0, data_out: bytes = b"",
        timeout_ms: int = TIMEOUT_MS, guard: Optional[Guard] = None,
    ) -> ScsiReply:
        """Carry out one command; Unit Attention and Busy are retried.

        `guard` is called with the device open and before anything is sent: what it finds
        true of this coming of the disk holds for the command, since a descriptor does
        not survive the disk's removal.  What it raises ends the command.
        Raises ScsiError where the drive refuses, StorageError where it is not reached.
        """


# fd, name, cdb, data_in, data_out, timeout_ms: the SCSI status and what came in
Submit = Callable[[int, str, bytes, int, bytes, int], Tuple[int, ScsiReply]]


class _Header(ctypes.Structure):
    _fields_ = (
        ("interface_id", ctypes.c_int),
        ("dxfer_direction", ctypes.c_int),
        ("cmd_len", ctypes.c_ubyte),
        ("mx_sb_len", ctypes.c_ubyte),
        ("iovec_count", ctypes.c_ushort),
        ("dxfer_len", ctypes.c_uint),
        ("dxferp", ctypes.c_void_p),
        ("cmdp", ctypes.c_void_p),
        ("sbp", ctypes.c_void_p),
        ("timeout", ctypes.c_uint),
        ("flags", ctypes.c_uint),
        ("pack_id", ctypes.c_int),
        ("usr_ptr", ctypes.c_void_p),
        ("status", ctypes.c_ubyte),
        ("masked_status", ctypes.c_ubyte),
        ("msg_status", ctypes.c_ubyte),
        ("sb_len_wr", ctypes.c_ubyte),
        ("host_status", ctypes.c_ushort),
        ("driver_status", ctypes.c_ushort),
        ("resid", ctypes.c_int),
        ("duration", ctypes.c_uint),
        ("info", ctypes.c_uint),
    )


class SgIo:
    """The real door; `submit` is the one ioctl."""

    def __init__(self, submit: Optional[Submit] = None) -> None:
        self._submit = submit or _submit

    def command(
        self, device: BlockDevice, cdb: bytes, *, data_in: int = 0, data_out: bytes = b"",
        timeout_ms: int = TIMEOUT_MS, guard: Optional[Guard] = None,
    ) -> ScsiReply:
        """See `ScsiPort`."""
        with closing_fd(device.open()) as fd:
            if guard is not None:
                guard()
            for attempt in range(ATTEMPTS):
                status, reply = self._submit(fd, device.name, cdb, data_in, data_out, timeout_ms)
                again = status in (BUSY, TASK_SET_FULL) or (
                    status == CHECK_CONDITION and reply.sense.key == KEY_UNIT_ATTENTION
                )
                if not again or attempt == ATTEMPTS - 1:
                    return answered(device.name, cdb, status, reply)
        raise AssertionError("not reached: the last attempt answers")


def answered(name: str, cdb: bytes, status: int, reply: ScsiReply) -> ScsiReply:
    """The reply of a command that succeeded; raises ScsiError for one that did not."""
    fine = status == GOOD or (
        status == CHECK_CONDITION and reply.sense.key in (KEY_NONE, KEY_RECOVERED)
    )
    if not fine:
        raise ScsiError(
            f"{name} refuses SCSI command {cdb[0]:02x}h (status {status:02x}h, {reply.sense})",
            reply.sense,
        )
    return reply


def _submit(
    fd: int, name: str, cdb: bytes, data_in: int, data_out: bytes, timeout_ms: int
) -> Tuple[int, ScsiReply]:
    command = ctypes.create_string_buffer(cdb, len(cdb))
    sense = ctypes.create_string_buffer(SENSE_BYTES)
    size = len(data_out) or data_in
    data = ctypes.create_string_buffer(data_out, size) if data_out else (
        ctypes.create_string_buffer(max(1, size))
    )
    header = _Header(
        interface_id=ord("S"),
        dxfer_direction=DXFER_TO_DEV if data_out else DXFER_FROM_DEV if data_in else DXFER_NONE,
        cmd_len=len(cdb),
        mx_sb_len=SENSE_BYTES,
        dxfer_len=size,
        dxferp=ctypes.addressof(data) if size else None,
        cmdp=ctypes.addressof(command),
        sbp=ctypes.addressof(sense),
        timeout=timeout_ms,
    )
    try:
        fcntl.ioctl(fd, SG_IO, header)
    except OSError as error:
        raise StorageError(f"{name} takes no SCSI commands ({error.strerror})") from None
    if header.host_status:
        raise StorageError(
            f"{name} was not reached (host status {header.host_status:02x}h)",
            "look at the kernel's log",
        )
    got = max(0, size - max(0, header.resid)) if data_in else 0
    return header.status, ScsiReply(
        data.raw[:got], parse_sense(sense.raw[: header.sb_len_wr])
    )


def parse_sense(raw: bytes) -> Sense:
    """Sense data in either format (SPC-6 4.4); what makes no sense is all zeroes."""
    code = raw[0] & 0x7F if raw else 0
    if code in (0x72, 0x73) and len(raw) >= 8:
        return Sense(raw[1] & 0x0F, raw[2], raw[3], raw[8 : 8 + raw[7]])
    if code in (0x70, 0x71) and len(raw) >= 3:
        asc, ascq = (raw[12], raw[13]) if len(raw) >= 14 else (0, 0)
        return Sense(raw[2] & 0x0F, asc, ascq)
    return Sense(0, 0, 0)
