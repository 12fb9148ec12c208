"""NVMe data as bytes: Identify Controller, and feature 06h (Volatile Write Cache).

Pure: bytes in, frozen data out.  Offsets are those of the NVMe Base Specification 2.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from .scsi_data import text

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
