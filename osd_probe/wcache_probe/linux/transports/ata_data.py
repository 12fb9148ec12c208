"""ATA data as bytes: IDENTIFY DEVICE and ATA PASS-THROUGH(16).

Pure: bytes in, frozen data out.  Word and bit numbers are those of ACS-4; the CDB is
that of SAT-4 12.2.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from .scsi_data import ZONED_BY_DEVICE, text

SECTOR_BYTES = 512
IDENTIFY_DEVICE, SET_FEATURES = 0xEC, 0xEF
FLUSH_CACHE, FLUSH_CACHE_EXT = 0xE7, 0xEA
WRITE_LOG_EXT = 0x3F
ENABLE_CACHE, DISABLE_CACHE = 0x02, 0x82
PIO_IN, PIO_OUT, NON_DATA = 4, 5, 3
SCT_LOG = 0xE0

# ACS-4 8.3.4: SCT Feature Control, feature code 1 is the write cache
SCT_FEATURE_CONTROL, SCT_RETURN_STATE, SCT_WRITE_CACHE = 0x0004, 0x0002, 0x0001
SCT_BY_SET_FEATURES, SCT_FORCED_ON, SCT_FORCED_OFF = 1, 2, 3


@dataclass(frozen=True)
class Identify:
    """What IDENTIFY DEVICE says; None where the drive does not make it valid."""

    model: str
    serial: str
    firmware: str
    wwn: str
    cache_supported: Optional[bool]
    cache_enabled: Optional[bool]
    flush_ext: bool
    sct_feature_control: bool
    shingled: bool = False  # drive-managed SMR


def parse_identify(raw: bytes) -> Optional[Identify]:
    """IDENTIFY DEVICE data; None where it is cut off, not an ATA device, or corrupt."""
    if len(raw) != SECTOR_BYTES or not any(raw):
        return None
    words = [int.from_bytes(raw[i : i + 2], "little") for i in range(0, SECTOR_BYTES, 2)]
    if words[0] & 0x8000:
        return None  # ATAPI
    if words[255] & 0xFF == 0xA5 and sum(raw) % 256:
        return None  # the integrity word says that the data is not what was sent
    supported = bool(words[82] & 0x20) if _valid(words[83]) else None
    enabled = bool(words[85] & 0x20) if _valid(words[87]) else None
    has_wwn = _valid(words[87]) and bool(words[87] & 0x0100)
    return Identify(
        model=_string(words[27:47]),
        serial=_string(words[10:20]),
        firmware=_string(words[23:27]),
        # a WWN of zeros is nobody's name, whatever word 87 says
        wwn="naa." + "".join(f"{word:04x}" for word in words[108:112])
        if has_wwn and any(words[108:112]) else "",
        cache_supported=supported,
        cache_enabled=enabled,
        flush_ext=_valid(words[83]) and bool(words[83] & 0x2000),
        sct_feature_control=(words[206] & 0x11) == 0x11,
        shingled=words[69] & 0x3 == ZONED_BY_DEVICE,  # ACS-4 7.13.6.40, additional supported
    )


def _valid(word: int) -> bool:
    """Bits 15:14 of words 83 and 87 read 01 where the words around them mean something."""
    return word & 0xC000 == 0x4000


def _string(words: list[int]) -> str:
    return text(b"".join(word.to_bytes(2, "big") for word in words))


def pass_through(
    command: int, protocol: int, *, feature: int = 0, count: int = 0, lba: int = 0,
    extend: bool = False, want_registers: bool = False,
) -> bytes:
    """ATA PASS-THROUGH(16); `want_registers` sets CK_COND, so that sense carries them."""
    # T_LENGTH 2: the transfer length is in COUNT; BYT_BLOK 1: counted in blocks
    transfer = {PIO_IN: 0x0E, PIO_OUT: 0x06}.get(protocol, 0x00)
    high = extend or feature > 0xFF
    return bytes((
        0x85,
        (protocol << 1) | (1 if high else 0),
        transfer | (0x20 if want_registers else 0),
        (feature >> 8) & 0xFF, feature & 0xFF,
        (count >> 8) & 0xFF, count & 0xFF,
        (lba >> 24) & 0xFF, lba & 0xFF,
        (lba >> 32) & 0xFF, (lba >> 8) & 0xFF,
        (lba >> 40) & 0xFF, (lba >> 16) & 0xFF,
        0x40,
        command,
        0,
    ))


def sct_state_request() -> bytes:
    """The SCT key sector that asks what rules the write cache."""
    words = (SCT_FEATURE_CONTROL, SCT_RETURN_STATE, SCT_WRITE_CACHE)
    return b"".join(word.to_bytes(2, "little") for word in words).ljust(SECTOR_BYTES, b"\0")


def returned_state(descriptors: bytes) -> Optional[int]:
    """The SCT state in an ATA Status Return descriptor (SAT-4 12.2.7); None without one.

    Its low byte is returned in COUNT(7:0), its high byte in LBA(7:0).
    """
    if len(descriptors) < 14 or descriptors[0] != 0x09 or descriptors[1] != 0x0C:
        return None
    return descriptors[5] | (descriptors[7] << 8)
