"""Which transport a drive is: drive protocol x host driver, as sysfs tells them.

A driver that is not in one of these lists has not been proven: its drives are shown and
left alone.

Behind a RAID driver are volumes, and disks that are passed on as they are.  They are told apart
by what the driver itself says of a disk, in Linux's source:
- megaraid_sas: channels 0 and 1 have disks, later ones volumes (megaraid_sas.h,
  MEGASAS_MAX_PD_CHANNELS).
- hpsa, smartpqi: a disk is on bus 0, and its `raid_level` is "N/A" (hpsa.c, raid_level_show();
  smartpqi_init.c, pqi_raid_level_show(), which says so of a zoned volume too).
- aacraid: a volume is on channel 0, and `raid_level` of a disk is "JBOD"; a disk with none may
  be a part of an array (aacraid/linit.c, aac_show_raid_level()).
Of the other drivers' disks nothing is known, so each is taken for a volume.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import Optional, Set

from wcache.core.model import LayerKind, Transport

from ..block.host_files import read_text
from ..block.sysfs import BlockDevice
from .base import DriveIdentity, Switch
from .loop import LoopSwitch
from .nvme import NvmeIoctl, NvmeSwitch
from .sata import Proofs, SataHbaSwitch, SataSwitch
from .scsi import ScsiSwitch, host_driver
from .sg_io import SgIo

RAID_HOSTS = (
    "megaraid_sas", "megaraid", "aacraid", "hpsa", "smartpqi", "arcmsr", "ips", "3w-9xxx",
    "3w-sas", "3w-xxxx", "cciss", "pmcraid", "ipr",
)
MEGASAS_DISK_CHANNELS = (0, 1)
DISK_BUS = 0  # HPSA_PHYSICAL_DEVICE_BUS, PQI_PHYSICAL_DEVICE_BUS
CONTAINER_CHANNEL = 0  # of aacraid
_ADDRESS = re.compile(r"[0-9]+:([0-9]{1,6}):[0-9]+:[0-9]+")
_RELEASE = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})")
# Older ones answer SYNCHRONIZE CACHE of every disk themselves: 1e793f6fc0db ("scsi:
# megaraid_sas: fix data integrity failure for JBOD (passthrough) devices").
MEGASAS_FLUSHES_SINCE = (4, 9)


def is_volume(device: BlockDevice, driver: str) -> Optional[bool]:
    """Whether the RAID driver says that a disk is a volume; None where it does not say."""
    folder = os.path.join(device.folder, "device")
    address = _ADDRESS.fullmatch(os.path.basename(os.path.realpath(folder)))
    if address is None:
        return None
    channel = int(address.group(1))
    level = read_text(os.path.join(folder, "raid_level"))
    if driver == "megaraid_sas":
        return channel not in MEGASAS_DISK_CHANNELS
    if driver in ("hpsa", "smartpqi"):
        return None if level is None else level != "N/A" or channel != DISK_BUS
    if driver == "aacraid":
        if channel == CONTAINER_CHANNEL:
            return True
        return False if level == "JBOD" else None
    return None


class PassedOnSwitch(ScsiSwitch):
    """Transport `sas-behind-raid`: the drive's own page, as the RAID firmware hands it on."""

    def __init__(self, port: SgIo, pins: Set[str], kernel_release: str) -> None:
        super().__init__(port, pins, Transport.SAS_RAID)
        self._kernel_release = kernel_release

    def identify(self, device: BlockDevice) -> DriveIdentity:
        """As of any SCSI disk; unproven where the kernel would swallow its flushes."""
        found = super().identify(device)
        return replace(
            found, unproven=why_swallowed(found.host_driver, self._kernel_release),
            unflushed=f"nobody has shown that the firmware behind {found.host_driver} passes "
            "flushes on",
        )


def why_swallowed(driver: str, kernel_release: str) -> str:
    """Why flushes of a disk that this driver passes on may not arrive; empty where they do."""
    if driver != "megaraid_sas":
        return ""
    parsed = _RELEASE.match(kernel_release)
    if parsed and (int(parsed.group(1)), int(parsed.group(2))) >= MEGASAS_FLUSHES_SINCE:
        return ""
    least = ".".join(map(str, MEGASAS_FLUSHES_SINCE))
    return (
        f"megaraid_sas of kernels before {least} answers flushes of the disks that it passes on "
        "by itself, and this kernel may be one: boot a newer one"
    )


# `proc_name` of the SCSI host.  Virtual adapters pass commands to a disk of the hypervisor.
VIRTUAL_HOSTS = ("virtio_scsi", "scsi_debug", "vmw_pvscsi", "sym53c8xx")
SAS_HOSTS = (
    "mptsas", "mpt2sas", "mpt3sas", "mpi3mr", "isci", "pm80xx", "pm8001", "mvsas", "aic94xx",
    "hisi_sas", "esas2r",
)
# mpt3sas_base.h, PCIE_CHANNEL; no other channel of its has NVMe drives
_MPT3SAS_NVME = re.compile(r"/[0-9]+:2:[0-9]+:[0-9]+/")
_ATA_PORT = re.compile(r"/ata[0-9]+/")
VOLUME = "a volume, whose cache and drives a RAID controller owns"
NVME_DISK = (
    "an NVMe drive behind an adapter that makes it look like a SCSI disk, whose cache has no "
    "switch there"
)
UNTOLD = "a RAID controller's disk that cannot be distinguished from a volume"


class Switches:
    """One switch of each transport, shared by all drives of the host."""

    def __init__(
        self, scsi: SgIo | None = None, nvme: NvmeIoctl | None = None,
        proofs: Proofs = tuple, loop: LoopSwitch | None = None,
        kernel_release: str = "",
    ) -> None:
        port = scsi or SgIo()
        pins: Set[str] = set()
        self._loop = loop or LoopSwitch()
        self._nvme = NvmeSwitch(nvme or NvmeIoctl())
        self._scsi = ScsiSwitch(port, pins, Transport.SCSI)
        self._sas = ScsiSwitch(port, pins, Transport.SAS)
        self._sata = SataSwitch(port, pins)
        self._sata_hba = SataHbaSwitch(port, pins, proofs)
        self._passed_on = PassedOnSwitch(port, pins, kernel_release or os.uname().release)
        self._raid = ScsiSwitch(port, pins, Transport.RAID, VOLUME)
        self._untold = ScsiSwitch(port, pins, Transport.RAID, UNTOLD)
        self._nvme_disk = ScsiSwitch(port, pins, Transport.UNKNOWN, NVME_DISK)
        self._unproven = ScsiSwitch(
            port, pins, Transport.UNKNOWN, "the driver of its host adapter is not a proven one"
        )
        self._virtio = _Virtio()
        self._unknown = Switch()

    def of(self, device: BlockDevice) -> Switch:
        """The switch of a drive; one that leaves it alone where nothing fits."""
        if device.kind is LayerKind.LOOP:
            return self._loop
        if device.kind is not LayerKind.DISK:
            return self._unknown
        if device.name.startswith("nvme"):
            return self._nvme
        if device.name.startswith("vd"):
            return self._virtio
        if os.path.isdir(os.path.join(device.folder, "device", "scsi_disk")):
            return self._of_scsi(device)
        return self._unknown

    def _of_scsi(self, device: BlockDevice) -> Switch:
        path = os.path.realpath(os.path.join(device.folder, "device")) + "/"
        ata = _is_ata(device)
        driver = host_driver(device)
        if _ATA_PORT.search(path):
            return self._sata
        if driver.startswith((*RAID_HOSTS, *SAS_HOSTS)) and _is_nvme(device, driver, path):
            return self._nvme_disk
        if driver in RAID_HOSTS:
            volume = is_volume(device, driver)
            if volume:
                return self._raid
            if ata:
                # a volume never says that it is ATA: this is a disk that is passed on as it is
                return self._sata_hba
            # SAS disks are named by NAA 5 (SPL), volumes by NAA 6
            passed_on = volume is False and device.wwid.startswith("naa.5")
            return self._passed_on if passed_on else self._untold
        if driver.startswith(SAS_HOSTS):
            # a volume of the adapter's own RAID firmware hangs on no SAS end device
            if "/end_device-" not in path:
                return self._raid
            return self._sata_hba if ata else self._sas
        if driver in VIRTUAL_HOSTS:
            return self._sata_hba if ata else self._scsi
        return self._unproven


def _is_ata(device: BlockDevice) -> bool:
    """Whether a SCSI disk is an ATA one that is translated: by its vendor, or by VPD page 89h."""
    folder = os.path.join(device.folder, "device")
    return read_text(os.path.join(folder, "vendor")) == "ATA" or os.path.exists(
        os.path.join(folder, "vpd_pg89")
    )


def _is_nvme(device: BlockDevice, driver: str, path: str) -> bool:
    """Whether a SCSI disk is an NVMe drive that its adapter translates.

    By the vendor that adapters give it, or by the channel that mpt3sas puts it on.
    """
    vendor = read_text(os.path.join(device.folder, "device", "vendor")) or ""
    return vendor.upper() == "NVME" or (
        driver == "mpt3sas" and _MPT3SAS_NVME.search(path) is not None
    )


class _Virtio(Switch):
    """virtio-blk: the cache is the hypervisor's, and nobody here can say what it does."""

    transport = Transport.VIRTIO
    refusal = "a virtio-blk disk, whose cache is the hypervisor's"
