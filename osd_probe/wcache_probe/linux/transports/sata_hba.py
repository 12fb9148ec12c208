"""SATA drives behind the translation of a SAS adapter, or of a RAID driver's JBOD mode.

Two ways lead to such a drive's switch: SET FEATURES by ATA PASS-THROUGH, and MODE SELECT of
the caching page, which the adapter translates (SAT-4 10.3).  Whether they take, and whether
what is read back is the drive's own word, is shown by `wcache-probe prove` for each host
driver, drive model and firmware.  Without a proof a drive is shown and never toggled; the way
back of one that a journal names needs none.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Callable, Optional, Sequence

from wcache.core.errors import StorageError, WcacheError
from wcache.core.host_report import ToggleProof
from wcache.core.model import CacheMode, DriveModel, Transport

from ..block.sysfs import BlockDevice
from .base import CacheReading, Identity
from .pin import Pins
from .sata import SataSwitch
from .scsi import ScsiSwitch
from .sg_io import ScsiPort

Proofs = Callable[[], Sequence[ToggleProof]]


def no_proofs() -> Sequence[ToggleProof]:
    """Nothing was proven."""
    return ()


class SataHbaSwitch(SataSwitch):
    """Transport `sata-behind-hba`."""

    def __init__(self, port: ScsiPort, pins: Pins, proofs: Proofs = no_proofs) -> None:
        super().__init__(port, pins, Transport.SATA_HBA)
        self.by_ata = SataSwitch(port, pins, Transport.SATA_HBA)
        self.by_page = ScsiSwitch(port, pins, Transport.SATA_HBA)
        self._proofs = proofs

    def identify(self, device: BlockDevice) -> Identity:
        """From IDENTIFY DEVICE, by pass-through; and whether its like was proven."""
        found = self.by_ata.identify(device)
        proofs = self._proofs()
        proof = _of(found.host_driver, found.drive_model, proofs)
        return replace(
            found, unproven=why_unproven(found.host_driver, found.drive_model, proofs),
            unflushed=f"behind {found.host_driver} this drive model was tried in place, where no "
            "flush is timed" if proof is not None and proof.in_place else "",
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


def _of(
    host_driver: str, model: DriveModel, proofs: Sequence[ToggleProof]
) -> Optional[ToggleProof]:
    """What counts of a combination: what was shown on this host, but what was in place last."""
    of_it = [one for one in proofs if (one.host_driver, one.drive_model) == (host_driver, model)]
    return min(of_it, key=lambda one: one.in_place, default=None)
