"""The commands an admin would type to make a change by hand, for each transport.

Shown beside every recommendation and planned change, so that nothing here is magic.
"""

from __future__ import annotations

import shlex
from typing import Sequence, Tuple

from ..model import CacheMode, DriveReport, Transport


def commands(drive: DriveReport, mode: CacheMode) -> Tuple[str, ...]:
    """Shell commands for the drive's host, in order; device names are quoted.

    SCSI and SATA are pinned first: "temporary write back" changes the kernel's belief
    only (drivers/scsi/sd.c), so the kernel goes on flushing whatever the drive does.
    """
    dev = shlex.quote(drive.dev_name)
    on = mode is CacheMode.WRITE_BACK
    if drive.transport in (Transport.SCSI, Transport.SAS):
        verb = "--set=WCE" if on else "--clear=WCE"
        return (pin(dev), f"sdparm {verb} /dev/{dev}")
    if drive.transport in (Transport.SATA, Transport.SATA_HBA):
        return (pin(dev), f"hdparm -W{int(on)} /dev/{dev}")
    if drive.transport is Transport.NVME:
        controller = shlex.quote(drive.dev_name.rpartition("n")[0] or drive.dev_name)
        return (f"nvme set-feature --feature-id=6 --value={int(on)} /dev/{controller}",)
    if drive.transport is Transport.LOOP:
        return (f'echo "{mode.value}" > /sys/block/{dev}/queue/write_cache',)
    return ()


def turn_off(hostname: str, drives: Sequence[DriveReport]) -> str:
    """What to do about drives that lose acknowledged writes, in words with the exact commands."""
    lines = [line for drive in drives for line in commands(drive, CacheMode.WRITE_THROUGH)]
    where = f"on {hostname}" if hostname else "on its host"
    return f"turn the cache off {where}: `{'; '.join(lines)}`" if lines else "turn the cache off"


def pin(dev: str) -> str:
    """What has the kernel flush a SCSI or SATA disk, whatever its cache is."""
    return (
        f'for f in /sys/block/{dev}/device/scsi_disk/*/cache_type; do '
        'echo "temporary write back" > "$f"; done'
    )
