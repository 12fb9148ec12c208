"""SATA drives under libata: IDENTIFY DEVICE, SET FEATURES 02h and 82h, by pass-through.

libata sees SET FEATURES pass by, revalidates the drive and has the SCSI disk read the
cache anew (drivers/ata/libata-scsi.c, ata_scsi_qc_complete()); a pinned disk is left
at write back by that.  Nothing of this is saved: a power-on brings the default back.
"""

from __future__ import annotations

from typing import Optional

from wcache.core.errors import StorageError, WcacheError
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
from . import ata_data as ata
from .base import FLUSH_TIMEOUT_MS, CacheReading, Identity, mode_of, safe_id, smr, why_nameless
from .pin import PinnedSwitch, Pins
from .scsi import host_driver
from .sg_io import ScsiPort


class SataSwitch(PinnedSwitch):
    """Transport `sata`."""

    def __init__(
        self, port: ScsiPort, pins: Pins, transport: Transport = Transport.SATA
    ) -> None:
        super().__init__(port, pins, transport)

    def identify(self, device: BlockDevice) -> Identity:
        """From IDENTIFY DEVICE."""
        known = self._identify(device)
        named = f"ata:{known.model}:{known.serial}".replace(" ", "_")
        drive_id = safe_id(known.wwn or (named if known.serial else f"ata:{device.name}"))
        return Identity(
            drive_id, drive_id, DriveModel("ATA", known.model, known.firmware),
            known.serial, known.wwn, host_driver(device),
            refusal=why_nameless(known.wwn, known.serial),
        )

    def _identify(self, device: BlockDevice) -> ata.Identify:
        cdb = ata.pass_through(ata.IDENTIFY_DEVICE, ata.PIO_IN, count=1)
        known = ata.parse_identify(
            self._port.command(device, cdb, data_in=ata.SECTOR_BYTES).data
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
        if forced in (ata.SCT_FORCED_ON, ata.SCT_FORCED_OFF):
            on = forced == ata.SCT_FORCED_ON
            text = f"SCT Feature Control holds its cache {'on' if on else 'off'}"
            found = Finding(
                FindingCode.FOREIGN_RULE, Severity.WARNING, device.name, text
            )
            cache = DeviceCache(mode_of(on).value)
            return CacheReading(cache, CachePage(False), (found, *shingles), text)
        return CacheReading(DeviceCache(mode_of(on).value), CachePage(True), shingles)

    def _sct_state(self, device: BlockDevice) -> Optional[int]:
        """1, 2 or 3 as ACS-4 has them; None where the drive would not say."""
        cdb = ata.pass_through(
            ata.WRITE_LOG_EXT, ata.PIO_OUT, count=1, lba=ata.SCT_LOG, extend=True,
            want_registers=True,
        )
        try:
            reply = self._port.command(device, cdb, data_out=ata.sct_state_request())
        except WcacheError:
            return None
        return ata.returned_state(reply.sense.descriptors)

    def flush(self, device: BlockDevice) -> None:
        """FLUSH CACHE EXT, or FLUSH CACHE on drives without 48-bit addresses."""
        ext = self._identify(device).flush_ext
        command = ata.FLUSH_CACHE_EXT if ext else ata.FLUSH_CACHE
        cdb = ata.pass_through(command, ata.NON_DATA, extend=ext)
        self._port.command(device, cdb, timeout_ms=FLUSH_TIMEOUT_MS)

    def set_cache(self, device: BlockDevice, mode: CacheMode) -> None:
        """SET FEATURES, enable or disable the volatile write cache."""
        on = mode is CacheMode.WRITE_BACK
        feature = ata.ENABLE_CACHE if on else ata.DISABLE_CACHE
        guard = (lambda: self._pins.require(device)) if on else None
        cdb = ata.pass_through(ata.SET_FEATURES, ata.NON_DATA, feature=feature)
        self._port.command(device, cdb, guard=guard)

    def save(self, device: BlockDevice, mode: CacheMode) -> bool:
        """SET FEATURES is never kept over a power cycle."""
        return False
