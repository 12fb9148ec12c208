"""SATA drives, under libata or behind a translation.

Under libata: IDENTIFY DEVICE, SET FEATURES 02h and 82h, by pass-through.  libata sees SET
FEATURES pass by, revalidates the drive and has the SCSI disk read the cache anew
(drivers/ata/libata-scsi.c, ata_scsi_qc_complete()); a pinned disk is left at write back by
that.  Nothing of this is saved: a power-on brings the default back.

Behind a SAS adapter, or a RAID driver's JBOD mode, two ways lead to the switch: SET FEATURES by
ATA PASS-THROUGH, and MODE SELECT of the caching page, which the adapter translates (SAT-4
10.3).  Whether they take, and whether what is read back is the drive's own word, is shown by
`wcache-probe prove` for each host driver, drive model and firmware.  Without a proof a drive is
shown and never toggled; the way back of one that a journal names needs none.

Word and bit numbers are those of ACS-4; the CDB is that of SAT-4 12.2.2.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import Callable, Optional, Sequence, Set

from wcache.core.errors import StorageError, WcacheError
from wcache.core.host_report import ToggleProof
from wcache.core.model import (
    CacheMode,
    CachePage,
    DeviceCache,
    DriveModel,
    Finding,
    FindingCode,
    Severity,
    Transport,
)

from ..block.sysfs import BlockDevice
from .base import (
    FLUSH_TIMEOUT_MS,
    CacheReading,
    DriveIdentity,
    mode_of,
    safe_id,
    smr,
    why_nameless,
)
from .scsi import PinnedSwitch, ScsiSwitch, host_driver
from .sg_io import ZONED_BY_DEVICE, SgIo, text

SECTOR_BYTES = 512
IDENTIFY_DEVICE, SET_FEATURES = 0xEC, 0xEF
FLUSH_CACHE, FLUSH_CACHE_EXT = 0xE7, 0xEA
WRITE_LOG_EXT = 0x3F
ENABLE_CACHE, DISABLE_CACHE = 0x02, 0x82
PIO_IN, PIO_OUT, NON_DATA = 4, 5, 3
SCT_LOG = 0xE0

# ACS-4 8.3.4: SCT Feature Control, feature code 1 is the write cache
SCT_FEATURE_CONTROL, SCT_RETURN_STATE, SCT_WRITE_CACHE = 0x0004, 0x0002, 0x0001
SCT_FORCED_ON, SCT_FORCED_OFF = 2, 3
# the key sector that asks what rules the write cache
SCT_STATE_REQUEST = struct.pack(
    "<3H", SCT_FEATURE_CONTROL, SCT_RETURN_STATE, SCT_WRITE_CACHE
).ljust(SECTOR_BYTES, b"\0")


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


def returned_state(descriptors: bytes) -> Optional[int]:
    """The SCT state in an ATA Status Return descriptor (SAT-4 12.2.7); None without one.

    Its low byte is returned in COUNT(7:0), its high byte in LBA(7:0).
    """
    if len(descriptors) < 14 or descriptors[0] != 0x09 or descriptors[1] != 0x0C:
        return None
    return descriptors[5] | (descriptors[7] << 8)


class SataSwitch(PinnedSwitch):
    """Transport `sata`."""

    def __init__(
        self, port: SgIo, pins: Set[str], transport: Transport = Transport.SATA
    ) -> None:
        super().__init__(port, pins, transport)

    def identify(self, device: BlockDevice) -> DriveIdentity:
        """From IDENTIFY DEVICE."""
        known = self._identify(device)
        named = f"ata:{known.model}:{known.serial}".replace(" ", "_")
        drive_id = safe_id(known.wwn or (named if known.serial else f"ata:{device.name}"))
        return DriveIdentity(
            drive_id, drive_id, DriveModel("ATA", known.model, known.firmware),
            known.serial, known.wwn, host_driver(device),
            refusal=why_nameless(known.wwn, known.serial),
        )

    def _identify(self, device: BlockDevice) -> Identify:
        cdb = pass_through(IDENTIFY_DEVICE, PIO_IN, count=1)
        known = parse_identify(
            self._port.command(device, cdb, data_in=SECTOR_BYTES).data
        )
        if known is None:
            raise StorageError(f"{device.name} gives an invalid answer to IDENTIFY DEVICE")
        return known

    def read(self, device: BlockDevice) -> CacheReading:
        """Words 82 and 85, and SCT Feature Control where it can overrule them."""
        known = self._identify(device)
        if known.cache_supported is None or known.cache_enabled is None:
            return CacheReading(
                DeviceCache.UNKNOWN, refusal="its identify data does not say what its cache does"
            )
        if not known.cache_supported:
            return CacheReading(DeviceCache.NONE)
        on = known.cache_enabled
        shingles = smr(device, "IDENTIFY DEVICE word 69") if known.shingled else ()
        forced = self._sct_state(device) if known.sct_feature_control else None
        if forced in (SCT_FORCED_ON, SCT_FORCED_OFF):
            on = forced == SCT_FORCED_ON
            text = f"SCT Feature Control holds its cache {'on' if on else 'off'}"
            found = Finding(
                FindingCode.FOREIGN_RULE, Severity.WARNING, device.name, text
            )
            cache = DeviceCache(mode_of(on).value)
            return CacheReading(cache, CachePage(False), (found, *shingles), text)
        return CacheReading(DeviceCache(mode_of(on).value), CachePage(True), shingles)

    def _sct_state(self, device: BlockDevice) -> Optional[int]:
        """1, 2 or 3 as ACS-4 has them; None where the drive would not say."""
        cdb = pass_through(
            WRITE_LOG_EXT, PIO_OUT, count=1, lba=SCT_LOG, extend=True,
            want_registers=True,
        )
        try:
            reply = self._port.command(device, cdb, data_out=SCT_STATE_REQUEST)
        except WcacheError:
            return None
        return returned_state(reply.sense.descriptors)

    def flush(self, device: BlockDevice) -> None:
        """FLUSH CACHE EXT, or FLUSH CACHE on drives without 48-bit addresses."""
        ext = self._identify(device).flush_ext
        command = FLUSH_CACHE_EXT if ext else FLUSH_CACHE
        cdb = pass_through(command, NON_DATA, extend=ext)
        self._port.command(device, cdb, timeout_ms=FLUSH_TIMEOUT_MS)

    def set_cache(self, device: BlockDevice, mode: CacheMode) -> None:
        """SET FEATURES, enable or disable the volatile write cache."""
        on = mode is CacheMode.WRITE_BACK
        feature = ENABLE_CACHE if on else DISABLE_CACHE
        guard = (lambda: self.require_pin(device)) if on else None
        cdb = pass_through(SET_FEATURES, NON_DATA, feature=feature)
        self._port.command(device, cdb, guard=guard)

    def save(self, device: BlockDevice, mode: CacheMode) -> bool:
        """SET FEATURES is never kept over a power cycle."""
        return False


Proofs = Callable[[], Sequence[ToggleProof]]


class SataHbaSwitch(SataSwitch):
    """Transport `sata-behind-hba`."""

    def __init__(self, port: SgIo, pins: Set[str], proofs: Proofs = tuple) -> None:
        super().__init__(port, pins, Transport.SATA_HBA)
        self.by_ata = SataSwitch(port, pins, Transport.SATA_HBA)
        self.by_page = ScsiSwitch(port, pins, Transport.SATA_HBA)
        self._proofs = proofs

    def identify(self, device: BlockDevice) -> DriveIdentity:
        """From IDENTIFY DEVICE, by pass-through; and whether its like was proven."""
        found = self.by_ata.identify(device)
        proofs = self._proofs()
        return replace(
            found, unproven=why_unproven(found.host_driver, found.drive_model, proofs),
            unflushed=why_unflushed(found.host_driver, found.drive_model, proofs),
        )

    def read(self, device: BlockDevice) -> CacheReading:
        """Word 85; where the mode page says another thing, neither is believed."""
        reading = self.by_ata.read(device)
        own, translated = reading.device_cache.mode, self.page_mode(device)
        if own is None or translated is None or translated is own or reading.refusal:
            return reading
        return replace(
            reading,
            refusal=f"IDENTIFY DEVICE says {own.value}, the adapter's mode page "
            f"{translated.value}",
        )

    def page_mode(self, device: BlockDevice) -> Optional[CacheMode]:
        """What the adapter's translated caching page says; None where it has none."""
        try:
            return self.by_page.read(device).device_cache.mode
        except WcacheError:
            return None

    def set_cache(self, device: BlockDevice, mode: CacheMode) -> None:
        """Switch it in the way that was proven; where that does not take, in the other one."""
        found = self.by_ata.identify(device)
        proof = _of(found.host_driver, found.drive_model, self._proofs())
        ways = [self.by_ata.set_cache, self.by_page.set_cache]
        if proof is not None and proof.by_page:
            ways.reverse()
        failed: Optional[WcacheError] = None
        for way in ways:
            try:
                way(device, mode)
            except StorageError as error:
                failed = failed or error
                continue
            if self.by_ata.read(device).device_cache.mode is mode:
                return
        if failed is not None:
            raise failed


def why_unproven(
    host_driver: str, model: DriveModel, proofs: Sequence[ToggleProof]
) -> str:
    """Why drives of this model behind this driver are not toggled; empty where they may be."""
    proof = _of(host_driver, model, proofs)
    if proof is None:
        return (
            f"a SATA drive behind {host_driver or 'an adapter'}, whose translation is not proven "
            "for this drive model: run `wcache-probe prove` on a blank drive of it, or with "
            "--in-place on this one if its cache is on"
        )
    if proof.disagreed:
        return (
            f"the translation of {host_driver} was tried with this drive model and did not hold: "
            f"{proof.disagreed[0]}"
        )
    return ""


def why_unflushed(
    host_driver: str, model: DriveModel, proofs: Sequence[ToggleProof]
) -> str:
    """Why flushes of this model behind this driver may not arrive; empty where they were timed."""
    proof = _of(host_driver, model, proofs)
    if proof is None:
        return f"behind {host_driver or 'an adapter'} no flush of this drive model was timed"
    if proof.disagreed:
        return (
            f"behind {host_driver} this drive model was tried and did not hold: "
            f"{proof.disagreed[0]}"
        )
    if proof.in_place:
        return (
            f"behind {host_driver} this drive model was tried in place, where no flush is timed"
        )
    return ""


def _of(
    host_driver: str, model: DriveModel, proofs: Sequence[ToggleProof]
) -> Optional[ToggleProof]:
    """What counts of a combination: what was shown on this host, but what was in place last."""
    of_it = [one for one in proofs if (one.host_driver, one.drive_model) == (host_driver, model)]
    return min(of_it, key=lambda one: one.in_place, default=None)
