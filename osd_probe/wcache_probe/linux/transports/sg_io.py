"""SCSI commands: data as bytes, sent by SG_IO to a block device opened read-only.

Drives lie and truncate, so every length is checked and what does not parse is None, never a
guess.  A descriptor is opened for each command and proven to be the device that was meant
(`BlockDevice.open`).
"""

from __future__ import annotations

import ctypes
import fcntl
import struct
from dataclasses import dataclass
from typing import Callable, Dict, Iterator, Optional, Tuple

from wcache.core.errors import StorageError

from ...safe_files import closing_fd, failure
from ..block.sysfs import BlockDevice
from .base import TIMEOUT_MS

INQUIRY_BYTES = 96
VPD_BYTES = 252
ZONED_BY_DEVICE = 2  # ZONED of word 69, and of VPD page B1h (SBC-4 6.6.2)
MODE_BYTES = 252
CACHING_PAGE = 0x08
WCE = 0x04  # byte 2 of the caching mode page (SBC-4 6.5.6)

# SPC-6 7.7.6: association of a designator
OF_LOGICAL_UNIT, OF_TARGET_PORT, OF_TARGET = 0, 1, 2


@dataclass(frozen=True)
class Inquiry:
    """Standard INQUIRY data."""

    device_type: int
    vendor: str
    model: str
    firmware: str


@dataclass(frozen=True)
class CachingPage:
    """The caching mode page of one page control: its bytes, whether it can be saved, WCE."""

    raw: bytes
    savable: bool

    @property
    def wce(self) -> bool:
        """The write cache enable bit (a mask of it for changeable values)."""
        return bool(self.raw[2] & WCE)

    def with_wce(self, on: bool) -> bytes:
        """The page for MODE SELECT with the bit set or cleared, all else as it was."""
        page = bytearray(self.raw)
        page[0] &= 0x7F  # PS is reserved in MODE SELECT
        page[2] = (page[2] | WCE) if on else (page[2] & ~WCE)
        return bytes(page)


def text(raw: bytes) -> str:
    """A text field of a drive: printable ASCII only, without the padding."""
    shown = "".join(chr(byte) if 0x20 <= byte < 0x7F else " " for byte in raw)
    return " ".join(shown.split())


def inquiry_cdb(page: Optional[int] = None) -> bytes:
    """INQUIRY, of a vital product data page where one is given."""
    evpd, size = (0, INQUIRY_BYTES) if page is None else (1, VPD_BYTES)
    return bytes((0x12, evpd, page or 0, 0, size, 0))


def parse_inquiry(raw: bytes) -> Optional[Inquiry]:
    """Standard INQUIRY data; None where it is too short to name the drive."""
    if len(raw) < 36:
        return None
    return Inquiry(raw[0] & 0x1F, text(raw[8:16]), text(raw[16:32]), text(raw[32:36]))


def vpd_payload(raw: bytes, page: int) -> Optional[bytes]:
    """What a VPD page holds; None where it is another page or is cut off."""
    if len(raw) < 4 or raw[1] != page:
        return None
    size = int.from_bytes(raw[2:4], "big")
    payload = raw[4 : 4 + size]
    return payload if len(payload) == min(size, VPD_BYTES - 4) else None


def parse_serial(raw: bytes) -> str:
    """The unit serial number (VPD page 80h); empty where there is none."""
    return text(vpd_payload(raw, 0x80) or b"")


def designators(raw: bytes) -> Dict[int, str]:
    """The best designator of each association in VPD page 83h: NAA, EUI-64, then T10.

    Written as the kernel does in `wwid`: "naa.5000...", "eui....", "t10....".
    """
    best: Dict[int, Tuple[int, str]] = {}
    for association, kind, code_set, body in _walk(vpd_payload(raw, 0x83) or b""):
        if kind in (2, 3) and code_set == 1 and len(body) in (8, 12, 16) and any(body):
            rank, name = (0, "naa.") if kind == 3 else (1, "eui.")
            value = name + body.hex()
        elif kind == 1 and text(body):
            rank, value = 2, "t10." + text(body)
        else:
            continue
        if association not in best or rank < best[association][0]:
            best[association] = (rank, value)
    return {association: value for association, (_, value) in best.items()}


def _walk(payload: bytes) -> Iterator[Tuple[int, int, int, bytes]]:
    at = 0
    while at + 4 <= len(payload):
        size = payload[at + 3]
        body = payload[at + 4 : at + 4 + size]
        if len(body) < size:
            return
        yield (payload[at + 1] >> 4) & 3, payload[at + 1] & 0x0F, payload[at] & 0x0F, body
        at += 4 + size


def nonvolatile_cache(raw: bytes) -> Optional[bool]:
    """NV_SUP of the extended INQUIRY data (VPD page 86h): some of the cache keeps its data."""
    payload = vpd_payload(raw, 0x86)
    return None if payload is None or len(payload) < 3 else bool(payload[2] & 0x02)


def shingled(raw: bytes) -> bool:
    """ZONED of VPD page B1h, byte 8 (drivers/scsi/sd.c, sd_read_block_characteristics)."""
    payload = vpd_payload(raw, 0xB1)
    return payload is not None and len(payload) > 4 and (payload[4] >> 4) & 3 == ZONED_BY_DEVICE


def mode_sense_cdb(page_control: int, ten: bool) -> bytes:
    """MODE SENSE(10) or (6) of the caching page, without block descriptors."""
    page = (page_control << 6) | CACHING_PAGE
    if ten:
        return bytes((0x5A, 0x08, page, 0, 0, 0, 0, 0, MODE_BYTES, 0))
    return bytes((0x1A, 0x08, page, 0, MODE_BYTES, 0))


def parse_mode_sense(raw: bytes, ten: bool) -> Optional[CachingPage]:
    """The caching page in MODE SENSE data; None where it is not there whole.

    Some drives send block descriptors although DBD forbids it, so they are skipped.
    """
    header = 8 if ten else 4
    if len(raw) < header:
        return None
    stated = int.from_bytes(raw[0:2], "big") + 2 if ten else raw[0] + 1
    skipped = int.from_bytes(raw[6:8], "big") if ten else raw[3]
    page = raw[header + skipped : stated]
    if len(page) < 3 or page[0] & 0x7F != CACHING_PAGE:
        return None
    size = 2 + page[1]
    if size < 12 or len(page) < size:
        return None
    return CachingPage(bytes(page[:size]), bool(page[0] & 0x80))


def mode_select(page: bytes, *, save: bool, ten: bool) -> Tuple[bytes, bytes]:
    """MODE SELECT with the page format bit: its CDB and its data.

    The mode data length and the device-specific byte are reserved in the header here.
    """
    flags = 0x10 | (0x01 if save else 0)
    data = bytes(8 if ten else 4) + page
    if ten:
        return bytes((0x55, flags, 0, 0, 0, 0, 0, 0, len(data), 0)), data
    return bytes((0x15, flags, 0, 0, len(data), 0)), data


def synchronize_cache_cdb() -> bytes:
    """SYNCHRONIZE CACHE(10) of everything."""
    return bytes((0x35, 0, 0, 0, 0, 0, 0, 0, 0, 0))


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


# fd, name, cdb, data_in, data_out, timeout_ms: the SCSI status and what came in
Submit = Callable[[int, str, bytes, int, bytes, int], Tuple[int, ScsiReply]]


# include/scsi/sg.h, struct sg_io_hdr; the last item is what C appends to align the whole
_HEADER = struct.Struct("@2i2BHI3P2IiP4B2Hi2I0P")


class SgIo:
    """Sends a command to a drive; `submit` is the one ioctl."""

    def __init__(self, submit: Optional[Submit] = None) -> None:
        self._submit = submit or _submit

    def command(
        self, device: BlockDevice, cdb: bytes, *, data_in: int = 0, data_out: bytes = b"",
        timeout_ms: int = TIMEOUT_MS, guard: Optional[Callable[[], None]] = None,
    ) -> ScsiReply:
        """Carry out one command; Unit Attention and Busy are retried.

        `guard` is called with the device open and before anything is sent: what it finds
        true of this coming of the disk holds for the command, since a descriptor does
        not survive the disk's removal.  What it raises ends the command.
        Raises ScsiError where the drive refuses, StorageError where it is not reached.
        """
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
    direction = DXFER_TO_DEV if data_out else DXFER_FROM_DEV if data_in else DXFER_NONE
    header = bytearray(_HEADER.pack(
        ord("S"), direction, len(cdb), SENSE_BYTES, 0, size,
        ctypes.addressof(data) if size else 0, ctypes.addressof(command),
        ctypes.addressof(sense), timeout_ms, *bytes(12),
    ))
    with failure(f"{name} takes no SCSI commands"):
        fcntl.ioctl(fd, SG_IO, header)
    status, _, _, sense_bytes, host_status, _, resid, _, _ = _HEADER.unpack(header)[13:]
    if host_status:
        raise StorageError(
            f"{name} was not reached (host status {host_status:02x}h)",
            "look at the kernel's log",
        )
    got = max(0, size - max(0, resid)) if data_in else 0
    return status, ScsiReply(data.raw[:got], parse_sense(sense.raw[:sense_bytes]))


def parse_sense(raw: bytes) -> Sense:
    """Sense data in either format (SPC-6 4.4); what makes no sense is all zeroes."""
    code = raw[0] & 0x7F if raw else 0
    if code in (0x72, 0x73) and len(raw) >= 8:
        return Sense(raw[1] & 0x0F, raw[2], raw[3], raw[8 : 8 + raw[7]])
    if code in (0x70, 0x71) and len(raw) >= 3:
        asc, ascq = (raw[12], raw[13]) if len(raw) >= 14 else (0, 0)
        return Sense(raw[2] & 0x0F, asc, ascq)
    return Sense(0, 0, 0)
