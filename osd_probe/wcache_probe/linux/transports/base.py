"""What every transport can do for a drive."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import Optional, Tuple

from wcache.core.errors import RefusedError
from wcache.core.model import (
    CacheMode,
    CachePage,
    DeviceCache,
    DriveModel,
    Finding,
    FindingCode,
    PlpHint,
    Severity,
    Transport,
)

from ..block.sysfs import BlockDevice

# How long a drive may take for a command, and for a flush of its cache.
TIMEOUT_MS = 20_000
FLUSH_TIMEOUT_MS = 120_000
_ID_CHARS_MAX = 120


@dataclass(frozen=True)
class DriveIdentity:
    """Which drive it is; `drive_id` and `domain_id` are safe in a key and on a terminal.

    `refusal` says why it could be taken for another drive; empty where it cannot.  `unproven`
    says why nothing new is begun on it: the way back needs no proof.  `unflushed` says why its
    flushes may not arrive, so that its cache is not turned on where it is found off.
    """

    drive_id: str
    domain_id: str
    drive_model: DriveModel
    serial: str = ""
    wwn: str = ""
    host_driver: str = ""
    plp_hints: Tuple[PlpHint, ...] = ()
    refusal: str = ""
    unproven: str = ""
    unflushed: str = ""


@dataclass(frozen=True)
class CacheReading:
    """What the drive says of its cache, and what was odd in how it said it.

    `refusal` says why this one drive cannot be toggled; empty where it can be.
    """

    device_cache: DeviceCache
    page: CachePage = field(default_factory=CachePage)
    findings: Tuple[Finding, ...] = ()
    refusal: str = ""


def smr(device: BlockDevice, source: str) -> Tuple[Finding, ...]:
    """The finding about a drive that shingles its tracks by itself, and says so."""
    return (Finding(
        FindingCode.SHINGLED, Severity.INFO, device.name, f"{source} says drive-managed SMR"
    ),)


class Switch:
    """One transport; by itself one whose drives are reported and left alone.

    Methods raise `WcacheError` and change only what they are named for.
    """

    transport = Transport.UNKNOWN
    refusal = "its transport is not known"  # empty where its drives can be toggled

    def identify(self, device: BlockDevice) -> DriveIdentity:
        """Tell who the drive is, from the drive and from sysfs; here nothing but its name."""
        drive_id = safe_id(f"{self.transport.value}:{device.name}")
        return DriveIdentity(drive_id, drive_id, DriveModel("", "", ""))

    def read(self, device: BlockDevice) -> CacheReading:
        """Read the device cache, asked of the drive now; UNKNOWN is an answer."""
        return CacheReading(DeviceCache.UNKNOWN)

    def pinned(self, device: BlockDevice) -> Optional[bool]:
        """Tell whether the kernel view is held at write back; None where that can't be seen."""
        return None

    def pin(self, device: BlockDevice) -> None:
        """Hold the kernel view at write back."""
        raise RefusedError(f"{device.name} cannot be pinned: {self.refusal}")

    def no_flush(self, device: BlockDevice) -> str:
        """Say why each flush of the drive would fail once it is pinned; empty where none would."""
        return ""

    def flush(self, device: BlockDevice) -> None:
        """Have the drive write its cache to the medium."""
        raise RefusedError(f"{device.name} is left alone: {self.refusal}")

    def set_cache(self, device: BlockDevice, mode: CacheMode) -> None:
        """Switch the current value of the device cache."""
        raise RefusedError(f"{device.name} is left alone: {self.refusal}")

    def save(self, device: BlockDevice, mode: CacheMode) -> bool:
        """Switch the saved value too; False where the drive cannot save."""
        raise RefusedError(f"{device.name} is left alone: {self.refusal}")

    def siblings(self, device: BlockDevice) -> Tuple[BlockDevice, ...]:
        """Return every device that shares the switch, the device itself among them."""
        return (device,)


def mode_of(on: int) -> CacheMode:
    """Turn a bit that enables the cache into a mode."""
    return CacheMode.WRITE_BACK if on else CacheMode.WRITE_THROUGH


def why_nameless(wwn: str, serial: str) -> str:
    """Why a drive is never toggled by name alone; empty where it has a name of its own.

    Kernel names are dealt out anew at each boot and hot plug.
    """
    if wwn or serial.strip(" 0.-_?"):
        return ""
    return "it has neither a WWN nor a serial number, so another drive could be taken for it"


def namesake_id(identity: DriveIdentity) -> str:
    """The id of a drive whose name another drive has as well: told apart by serial number."""
    return safe_id(f"{identity.drive_id}:{identity.serial}")


def safe_id(text: str) -> str:
    """An id of letters, digits and `:._-` only; what was replaced is told apart by a hash."""
    plain = re.sub(r"[^A-Za-z0-9:._-]+", "_", text.strip())
    if plain == text and len(plain) <= _ID_CHARS_MAX:
        return plain
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{plain[:_ID_CHARS_MAX]}-{digest}"
