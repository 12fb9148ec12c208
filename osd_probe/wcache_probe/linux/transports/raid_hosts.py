"""Disks behind a RAID driver: volumes, and those that are passed on as they are.

Told by what the driver itself says of a disk, in Linux's source:
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
from typing import Optional

from wcache.core.model import Transport

from ..block.host_files import read_text
from ..block.sysfs import BlockDevice
from .base import Identity
from .pin import Pins
from .scsi import ScsiSwitch
from .sg_io import ScsiPort

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


def is_sas_disk(device: BlockDevice) -> bool:
    """Whether a disk is named as SAS disks are: by NAA 5 (SPL); volumes have NAA 6."""
    return device.wwid.startswith("naa.5")


class PassedOnSwitch(ScsiSwitch):
    """Transport `sas-behind-raid`: the drive's own page, as the RAID firmware hands it on."""

    def __init__(self, port: ScsiPort, pins: Pins, kernel_release: str) -> None:
        super().__init__(port, pins, Transport.SAS_RAID)
        self._kernel_release = kernel_release

    def identify(self, device: BlockDevice) -> Identity:
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
